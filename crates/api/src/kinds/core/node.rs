//! Node: a machine that runs pods.

use std::collections::BTreeSet;

use super::resource_list::{self, amounts};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::fields::{FieldLabels, UnsupportedLabel};
use crate::json;
use crate::kinds::{Rules, SelectableFields, keep};
use crate::metadata::{entry, texts};
use crate::names::ip::{Cidr, cidr_legacy, cidr_warnings};
use crate::names::key::{label_key, label_value};
use crate::quote::{Quoted, json_string};
use crate::value::Value;

const TAINTS_ANNOTATION: &str = "scheduler.alpha.kubernetes.io/taints";
const FEATURE_BYTES_MAX: usize = 253;

const FIELDS: FieldLabels<'static> = FieldLabels {
    known: &[("metadata.name", "metadata.name"), ("spec.unschedulable", "spec.unschedulable")],
    unsupported: UnsupportedLabel::Plain,
};

/// Rules of Node.
pub struct Node;

impl Rules for Node {
    fn default(&self, object: &mut Value) {
        let capacity = object.at(&["status", "capacity"]).filter(|value| !value.is_empty()).cloned();
        if let Some(capacity) = capacity
            && object.at(&["status", "allocatable"]).is_none_or(Value::is_null)
        {
            object.ensure_map("status").insert("allocatable", capacity);
        }
        for list in ["capacity", "allocatable"] {
            resource_list::round_up(object.at_mut(&["status", list]));
        }
        sync_pod_cidrs(object);
    }

    fn has_status(&self) -> bool {
        true
    }

    /// A kubelet registers its node with a status; only removed fields are cleared.
    fn prepare_create(&self, object: &mut Value) {
        drop_field(object, "spec", "configSource");
        drop_field(object, "spec", "podPreemptionPolicy");
        drop_field(object, "status", "config");
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        keep(new, old, "status");
        for field in ["configSource", "podPreemptionPolicy"] {
            if old.at(&["spec", field]).is_none_or(Value::is_null) {
                drop_field(new, "spec", field);
            }
        }
    }

    fn prepare_status(&self, new: &mut Value, old: &Value) {
        keep(new, old, "spec");
        if old.at(&["status", "config"]).is_none_or(Value::is_null) {
            drop_field(new, "status", "config");
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check_annotation(errors, object);
        check_taints(errors, &METADATA.child("taints"), list(object, &["spec", "taints"]));
        check_amounts(errors, object);
        let swap = object.at(&["status", "nodeInfo", "swap", "capacity"]).and_then(Value::as_i64);
        if let Some(swap) = swap.filter(|swap| *swap <= 0) {
            let path = METADATA.child("nodeSwapStatus");
            errors.push(FieldError::invalid(&path.child("capacity"), swap, "must be greater than zero"));
        }
        check_features(errors, object);
        check_pod_cidrs(errors, object);
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check_addresses(errors, new);
        check_unchanged(errors, new, old);
    }

    fn validate_status(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check_annotation(errors, new);
        check_amounts(errors, new);
        check_features(errors, new);
        self.validate_transition(new, old, errors);
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if new.at(&["spec", "configSource"]).is_some_and(|value| !value.is_null()) {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if !new.str_at(&["spec", "externalID"]).is_empty() {
            warnings
                .push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
        }
        let path = SPEC.child("podCIDRs");
        for (i, cidr) in texts(new.at(&["spec", "podCIDRs"])).into_iter().enumerate() {
            warnings.extend(cidr_warnings(&path.index(i), cidr));
        }
        warnings
    }

    fn field_labels(&self) -> &'static FieldLabels<'static> {
        &FIELDS
    }

    fn fields<'o>(&'o self, object: &'o Value) -> SelectableFields<'o> {
        let unschedulable = object.at(&["spec", "unschedulable"]).and_then(Value::as_bool) == Some(true);
        vec![("spec.unschedulable", unschedulable.to_string().into())]
    }
}

const METADATA: Path<'static> = Path::root("metadata");
const SPEC: Path<'static> = Path::root("spec");
const STATUS: Path<'static> = Path::root("status");

fn list<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    object.at(path).and_then(Value::as_list).unwrap_or_default()
}

fn drop_field(object: &mut Value, part: &str, field: &str) {
    if let Some(map) = object.get_mut(part).and_then(Value::as_map_mut) {
        map.remove(field);
    }
}

/// `podCIDR` is the first of `podCIDRs`, and wins if they differ.
fn sync_pod_cidrs(object: &mut Value) {
    let (first, all) = (object.str_at(&["spec", "podCIDR"]), texts(object.at(&["spec", "podCIDRs"])));
    match (first, all.first().copied()) {
        (first, Some(known)) if first == known => {}
        ("", None) => {}
        ("", Some(known)) => {
            let known = known.to_owned();
            object.ensure_map("spec").insert("podCIDR", known);
        }
        (first, _) => {
            let all = vec![Value::from(first)];
            object.ensure_map("spec").insert("podCIDRs", all);
        }
    }
}

/// Validates the former taints annotation.
fn check_annotation(errors: &mut ErrorList, object: &Value) {
    let text = entry(object, "annotations", TAINTS_ANNOTATION).unwrap_or_default();
    if text.is_empty() {
        return;
    }
    let path = METADATA.child("annotations");
    match json::parse(text.as_bytes()) {
        Ok(Value::List(taints)) => check_taints(errors, &path.child(TAINTS_ANNOTATION), &taints),
        Ok(Value::Null) => {}
        Ok(other) => {
            let detail =
                format!("json: cannot unmarshal {} into Go value of type []core.Taint", other.type_name());
            errors.push(FieldError::invalid(&path, TAINTS_ANNOTATION, detail));
        }
        Err(error) => errors.push(FieldError::invalid(&path, TAINTS_ANNOTATION, error.to_string())),
    }
}

fn check_taints(errors: &mut ErrorList, path: &Path<'_>, taints: &[Value]) {
    let mut seen = BTreeSet::new();
    for (i, taint) in taints.iter().enumerate() {
        let path = path.index(i);
        let text = |field: &str| taint.str_at(&[field]);
        errors.push_invalid(&path.child("key"), text("key"), label_key(text("key")));
        let faults = label_value(text("value"));
        if !faults.is_empty() {
            errors.push(FieldError::invalid(&path.child("value"), text("value"), faults.join(";")));
        }
        match text("effect") {
            "NoSchedule" | "PreferNoSchedule" | "NoExecute" => {}
            "" => errors.push(FieldError::required(&path.child("effect"), "")),
            other => {
                let known = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
                let value = BadValue::json_string(other);
                errors.push(FieldError::not_supported(&path.child("effect"), value, &known));
            }
        }
        if !seen.insert((text("effect"), text("key"))) {
            let detail = "taints must be unique by key and effect pair";
            errors.push(FieldError::duplicate_by(&path, shown_taint(taint), detail));
        }
    }
}

/// A taint in messages, with the Go names of its fields.
fn shown_taint(taint: &Value) -> BadValue {
    let text = |field: &str| json_string(taint.str_at(&[field]));
    let added = taint.get("timeAdded").and_then(Value::as_str).map_or("null".to_owned(), json_string);
    let (key, value, effect) = (text("key"), text("value"), text("effect"));
    BadValue::Json(format!(r#"{{"Key":{key},"Value":{value},"Effect":{effect},"TimeAdded":{added}}}"#).into())
}

fn check_amounts(errors: &mut ErrorList, object: &Value) {
    for field in ["capacity", "allocatable"] {
        let path = STATUS.child(field);
        for (name, amount) in amounts(object.at(&["status", field])) {
            resource_list::check_amount(errors, &path.child(name), name, amount);
        }
    }
}

fn check_features(errors: &mut ErrorList, object: &Value) {
    let path = STATUS.child("declaredFeatures");
    let features = texts(object.at(&["status", "declaredFeatures"]));
    for (i, feature) in features.iter().enumerate() {
        if let Some(fault) = feature_fault(feature) {
            let detail = format!("invalid feature name {}: {fault}", Quoted(feature));
            errors.push(FieldError::invalid(&path.index(i), *feature, detail));
        }
        match features.get(i + 1) {
            Some(next) if next == feature => errors.push(FieldError::duplicate(&path.index(i + 1), *next)),
            Some(next) if next < feature => {
                let detail = "list must be sorted alphabetically";
                errors.push(FieldError::invalid(&path.index(i + 1), *next, detail));
            }
            _ => {}
        }
    }
}

fn feature_fault(feature: &str) -> Option<&'static str> {
    if feature.len() > FEATURE_BYTES_MAX {
        return Some("must be no more than 253 characters");
    }
    let is_segment = |segment: &str| {
        segment.starts_with(|c: char| c.is_ascii_alphabetic())
            && segment.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let good = feature.starts_with(|c: char| c.is_ascii_uppercase()) && feature.split('/').all(is_segment);
    (!good).then_some(
        "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes",
    )
}

fn check_pod_cidrs(errors: &mut ErrorList, object: &Value) {
    let path = SPEC.child("podCIDRs");
    let cidrs = texts(object.at(&["spec", "podCIDRs"]));
    for (i, cidr) in cidrs.iter().enumerate() {
        cidr_legacy(errors, &path.index(i), cidr, true, &[]);
    }
    if cidrs.len() < 2 {
        return;
    }
    let families: Option<Vec<bool>> =
        cidrs.iter().map(|cidr| Cidr::parse(cidr).map(|cidr| cidr.ip.is_ipv6())).collect();
    match families {
        None => {
            let bad = cidrs.iter().find(|cidr| Cidr::parse(cidr).is_none()).copied().unwrap_or_default();
            let detail = format!(
                "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{}]: <nil> (invalid CIDR address: {bad})",
                cidrs.iter().position(|cidr| *cidr == bad).unwrap_or(0)
            );
            errors.push(FieldError::internal(&path, detail));
        }
        Some(families) if families.len() == 2 && families[0] != families[1] => {}
        Some(_) => {
            let detail = "may specify no more than one CIDR for each IP family";
            errors.push(FieldError::invalid(&path, BadValue::json_strings(&cidrs), detail));
        }
    }
}

fn check_addresses(errors: &mut ErrorList, new: &Value) {
    let path = STATUS.child("addresses");
    let mut seen = BTreeSet::new();
    for (i, address) in list(new, &["status", "addresses"]).iter().enumerate() {
        let (kind, text) = (address.str_at(&["type"]), address.str_at(&["address"]));
        if !seen.insert((kind, text)) {
            let shown = format!(r#"{{"Type":{},"Address":{}}}"#, json_string(kind), json_string(text));
            errors.push(FieldError::duplicate(&path.index(i), BadValue::Json(shown.into())));
        }
    }
}

fn check_unchanged(errors: &mut ErrorList, new: &Value, old: &Value) {
    let (cidrs, old_cidrs) = (texts(new.at(&["spec", "podCIDRs"])), texts(old.at(&["spec", "podCIDRs"])));
    if !old_cidrs.is_empty() {
        let changed = cidrs.iter().zip(&old_cidrs).filter(|(new, old)| new != old).count();
        let faults = if cidrs.len() == old_cidrs.len() { changed } else { 1 };
        for _ in 0..faults {
            let detail = "node updates may not change podCIDR except from \"\" to valid";
            errors.push(FieldError::forbidden(&SPEC.child("podCIDRs"), detail));
        }
    }
    let provider = |node: &'_ Value| node.str_at(&["spec", "providerID"]).to_owned();
    let detail = match (provider(new), provider(old)) {
        (new, old) if old.is_empty() || new == old => None,
        (new, _) if new.is_empty() => Some("field cannot be cleared once set"),
        _ => Some("field cannot be modified once set"),
    };
    if let Some(detail) = detail {
        errors.push(FieldError::invalid(&SPEC.child("providerID"), BadValue::Null, detail));
    }
    if new.str_at(&["spec", "externalID"]) != old.str_at(&["spec", "externalID"]) {
        errors.push(FieldError::forbidden(&SPEC.child("externalID"), "may not be updated"));
    }
}
