//! ResourceSlice: devices that a driver offers.

use std::collections::{BTreeMap, BTreeSet};

use super::{Report, device, drop_fields, name, taint};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::fields::{FieldLabels, UnsupportedLabel};
use crate::kinds::{Rules, SelectableFields, check};
use crate::names::dns;
use crate::quote::Quoted;
use crate::time::Time;
use crate::value::Value;

const DEVICES_MAX: usize = 128;
/// Maximum number of devices with taints or counters, which take more space.
const DEVICES_ADVANCED_MAX: usize = 64;
const COUNTER_SETS_MAX: usize = 8;

/// Rules of ResourceSlice.
pub struct ResourceSlice;

impl Rules for ResourceSlice {
    fn default_times(&self, object: &mut Value, now: Time) {
        taint::default_times(object, now);
    }

    fn prepare_create(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec").and_then(Value::as_map_mut) else { return };
        spec.remove("skipNodeOperations");
        drop_fields(object, &["spec", "devices"], &["nodeAllocatableResources"]);
        let devices = object.at_mut(&["spec", "devices"]).and_then(Value::as_list_mut);
        for device in devices.into_iter().flatten() {
            drop_fields(device, &["consumesCounters"], &["compatibilityGroups"]);
            let attributes = device.get_mut("attributes").and_then(Value::as_map_mut);
            for (_, attribute) in attributes.into_iter().flat_map(|attributes| attributes.iter_mut()) {
                if let Some(attribute) = attribute.as_map_mut() {
                    attribute.retain(|name, _| !matches!(name, "ints" | "bools" | "strings" | "versions"));
                }
            }
        }
    }

    fn prepare_update(&self, new: &mut Value, _old: &Value) {
        self.prepare_create(new);
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let mut report = Report::default();
        check_spec(&mut report, check::field(object, "spec"), check::ABSENT);
        report.append_to(errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let mut report = Report::default();
        check_spec(&mut report, check::field(new, "spec"), check::field(old, "spec"));
        report.append_to(errors);
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let driver = new.str_at(&["spec", "driver"]);
        if driver == driver.to_lowercase() {
            return Vec::new();
        }
        vec![format!(
            "spec.driver: driver names should be lowercase; {} contains uppercase characters",
            Quoted(driver)
        )]
    }

    fn field_labels(&self) -> &'static FieldLabels<'static> {
        const LABELS: FieldLabels<'static> = FieldLabels {
            known: &[
                ("metadata.name", "metadata.name"),
                ("spec.nodeName", "spec.nodeName"),
                ("spec.driver", "spec.driver"),
                ("spec.pool.name", "spec.pool.name"),
            ],
            unsupported: UnsupportedLabel::ForVersionKind("resource.k8s.io/v1, Kind=ResourceSlice"),
        };
        &LABELS
    }

    fn fields<'o>(&'o self, object: &'o Value) -> SelectableFields<'o> {
        vec![
            ("spec.nodeName", object.str_at(&["spec", "nodeName"]).into()),
            ("spec.driver", object.str_at(&["spec", "driver"]).into()),
            ("spec.pool.name", object.str_at(&["spec", "pool", "name"]).into()),
        ]
    }
}

fn check_spec(report: &mut Report, spec: &Value, old: &Value) {
    let path = Path::root("spec");
    check::check_csi_driver_name(&mut report.handwritten, &path.child("driver"), check::text(spec, "driver"));
    check_pool(report, &path.child("pool"), check::field(spec, "pool"));
    if !old.is_null() {
        check_fixed(report, &path, spec, old);
    }
    check_nodes(report, &path, spec);
    let (devices, counters) = (check::list(spec, "devices"), check::list(spec, "sharedCounters"));
    if check::is_set(spec, "devices") && check::is_set(spec, "sharedCounters") {
        let detail = "only one of `sharedCounters` or `devices` is allowed";
        report.handwritten.push(FieldError::invalid(&path, "", detail));
    }
    let has = |device: &Value, name| !check::list(device, name).is_empty();
    let advanced = devices.iter().any(|one| has(one, "taints") || has(one, "consumesCounters"));
    let (max, at) = (if advanced { DEVICES_ADVANCED_MAX } else { DEVICES_MAX }, path.child("devices"));
    if devices.len() > max {
        report.handwritten.push(FieldError::too_many(&at, Some(devices.len()), max));
    } else {
        let placed = check::boolean(spec, "perDeviceNodeSelection");
        // The first of equal names counts.
        let before = check::list(old, "devices").iter().rev().map(|old| (check::text(old, "name"), old));
        let before: BTreeMap<&str, &Value> = before.collect();
        for (i, one) in devices.iter().enumerate() {
            let before = before.get(check::text(one, "name")).copied();
            device::validate(report, &at.index(i), one, before, placed);
        }
        let mut seen = BTreeSet::new();
        for (i, one) in devices.iter().enumerate() {
            let name = check::text(one, "name");
            if !seen.insert(name) {
                report.handwritten.push(FieldError::duplicate(&at.index(i), name));
            }
        }
    }
    let at = path.child("sharedCounters");
    report.check_items(&at, counters, COUNTER_SETS_MAX, |report, path, one| {
        device::check_counters(report, path, one, "name");
    });
    report.check_unique(&at, counters, |one| check::text(one, "name").to_owned());
    if check::is_set(spec, "partitionTypeAttribute") {
        report.declarative.push(FieldError::forbidden(&path.child("partitionTypeAttribute"), ""));
    }
}

fn check_pool(report: &mut Report, path: &Path<'_>, pool: &Value) {
    name::check_pool(&mut report.handwritten, &path.child("name"), check::text(pool, "name"));
    let (count, generation) = (check::number(pool, "resourceSliceCount"), check::number(pool, "generation"));
    if count <= 0 {
        let path = path.child("resourceSliceCount");
        report.handwritten.push(FieldError::invalid(&path, count, "must be greater than zero"));
    }
    if generation < 0 {
        let detail = "must be greater than or equal to zero";
        report.handwritten.push(FieldError::invalid(&path.child("generation"), generation, detail));
    }
}

/// Rejects changes of immutable fields.
fn check_fixed(report: &mut Report, path: &Path<'_>, spec: &Value, old: &Value) {
    let pool = path.child("pool");
    for (path, fields) in [
        (pool.child("name"), &["pool", "name"][..]),
        (path.child("driver"), &["driver"]),
        (path.child("nodeName"), &["nodeName"]),
    ] {
        if spec.at(fields) != old.at(fields) {
            let value = spec.at(fields).and_then(Value::as_str).map_or(BadValue::Null, BadValue::from);
            report.handwritten.push(FieldError::invalid(&path, value, check::IMMUTABLE));
        }
    }
}

/// Validates the node selection of the slice.
fn check_nodes(report: &mut Report, path: &Path<'_>, spec: &Value) {
    let errors = &mut report.handwritten;
    let mut set = Vec::new();
    let at = path.child("nodeName");
    match check::field(spec, "nodeName").as_str() {
        None => {}
        Some("") => {
            errors.push(FieldError::invalid(&at, "", "must be either unset or set to a non-empty string"));
        }
        Some(node) => {
            set.push("`nodeName`");
            errors.push_invalid(&at, node, dns::subdomain(node));
        }
    }
    let (selector, at) = (check::field(spec, "nodeSelector"), path.child("nodeSelector"));
    if !selector.is_null() {
        set.push("`nodeSelector`");
        check::check_node_selector(errors, &at, selector);
        if check::list(selector, "nodeSelectorTerms").len() != 1 {
            let value = check::shown(check::field(selector, "nodeSelectorTerms"));
            let detail = "must have exactly one node selector term";
            errors.push(FieldError::invalid(&at.child("nodeSelectorTerms"), value, detail));
        }
    }
    for (name, quoted) in [("allNodes", "`allNodes`"), ("perDeviceNodeSelection", "`perDeviceNodeSelection`")]
    {
        match check::field(spec, name).as_bool() {
            None => {}
            Some(true) => set.push(quoted),
            Some(false) => {
                let detail = "must be either unset or set to true";
                errors.push(FieldError::invalid(&path.child(name), false, detail));
            }
        }
    }
    let detail =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match set.len() {
        0 => errors.push(FieldError::required(path, detail)),
        1 => {}
        _ => {
            let value = format!("{{{}}}", set.join(", "));
            let detail = format!("{detail}, but multiple fields are set");
            errors.push(FieldError::invalid(path, value, detail));
        }
    }
}
