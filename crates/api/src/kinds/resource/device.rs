//! Validation of a device in a ResourceSlice.

use super::{Report, allocation, name, request_policy, taint};
use crate::field_error::{BadValue, FieldError, Path};
use crate::kinds::check;
use crate::names::dns;
use crate::value::Value;

const ATTRIBUTES_MAX: usize = 32;
const TAINTS_MAX: usize = 16;
const CONSUMPTIONS_MAX: usize = 2;
const COUNTERS_MAX: usize = 32;
const VALUE_BYTES_MAX: usize = 64;
/// Members of an attribute, in the order of messages.
const MEMBERS: [&str; 8] = ["int", "bool", "string", "version", "ints", "bools", "strings", "versions"];

/// Validates a device. `old` is the device of that name before.
pub(super) fn validate(
    report: &mut Report,
    path: &Path<'_>,
    device: &Value,
    old: Option<&Value>,
    placed: bool,
) {
    let text = check::text(device, "name");
    report.handwritten.push_invalid(&path.child("name"), text, dns::label(text));
    let (attributes, capacity) = (check::entries(device, "attributes"), check::entries(device, "capacity"));
    let count = attributes.len() + capacity.len();
    if count > ATTRIBUTES_MAX {
        let detail =
            format!("the total number of attributes and capacities must not exceed {ATTRIBUTES_MAX}");
        report.handwritten.push(FieldError::invalid(path, count, detail));
    }
    let at = path.child("attributes");
    for (key, one) in attributes {
        name::check_qualified(&mut report.handwritten, &at, key);
        check_attribute(report, &at.key(&name::shortened(key)), one);
    }
    let changed = |name| {
        old.is_none_or(|old| !check::is_equivalent(check::field(old, name), check::field(device, name)))
    };
    if changed("capacity") {
        let shared = check::boolean(device, "allowMultipleAllocations");
        check_capacities(report, &path.child("capacity"), &capacity, shared);
    }
    if changed("taints") {
        let (taints, path) = (check::list(device, "taints"), path.child("taints"));
        if taints.len() > TAINTS_MAX {
            report.handwritten.push(FieldError::too_many(&path, Some(taints.len()), TAINTS_MAX));
        } else {
            report.check_items(&path, taints, TAINTS_MAX, taint::check_taint);
        }
    }
    let (consumed, at) = (check::list(device, "consumesCounters"), path.child("consumesCounters"));
    report.check_items(&at, consumed, CONSUMPTIONS_MAX, |report, path, one| {
        check_counters(report, path, one, "counterSet")
    });
    report.check_unique(&at, consumed, |one| check::text(one, "counterSet").to_owned());
    check_place(report, path, device, placed);
    allocation::check_binding_conditions(report, path, device);
}

fn check_capacities(report: &mut Report, path: &Path<'_>, capacity: &[(&str, &Value)], shared: bool) {
    for (key, one) in capacity {
        name::check_qualified(&mut report.handwritten, path, key);
        let policy = check::field(one, "requestPolicy");
        if policy.is_null() {
            continue;
        }
        let shown = name::shortened(key);
        let path = path.key(&shown);
        let path = path.child("requestPolicy");
        if shared {
            request_policy::validate(report, &path, policy, check::field(one, "value"));
        } else {
            report.handwritten.push(FieldError::forbidden(&path, "allowMultipleAllocations must be true"));
        }
    }
}

fn check_attribute(report: &mut Report, path: &Path<'_>, attribute: &Value) {
    let set: Vec<&str> = MEMBERS.into_iter().filter(|name| check::is_set(attribute, name)).collect();
    if check::text(attribute, "string").len() > VALUE_BYTES_MAX {
        report.handwritten.push(FieldError::too_long(&path.child("string"), VALUE_BYTES_MAX));
    }
    if let Some(version) = check::field(attribute, "version").as_str() {
        let path = path.child("version");
        if !is_semantic_version(version) {
            let detail = "must be a string compatible with semver.org spec 2.0.0";
            report.handwritten.push(FieldError::invalid(&path, version, detail));
        }
        if version.len() > VALUE_BYTES_MAX {
            report.handwritten.push(FieldError::too_long(&path, VALUE_BYTES_MAX));
        }
    }
    let all = MEMBERS.map(|name| format!("`{name}`")).join(", ");
    match set.len() {
        0 => report.declarative.push(FieldError::invalid(path, "", format!("must specify one of: {all}"))),
        1 => {}
        _ => {
            let value = format!("{{{}}}", set.join(", "));
            let detail = format!("must specify exactly one of: {all}");
            report.declarative.push(FieldError::invalid(path, value, detail));
        }
    }
}

/// `true` if a text is a semantic version (semver.org).
fn is_semantic_version(text: &str) -> bool {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (numbers, release) = text.split_once('-').map_or((text, None), |(text, rest)| (text, Some(rest)));
    let is_number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    let is_word =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b == b'-' || b.is_ascii_alphanumeric());
    let is_release =
        |part: &str| is_word(part) && (is_number(part) || !part.bytes().all(|b| b.is_ascii_digit()));
    numbers.split('.').count() == 3
        && numbers.split('.').all(is_number)
        && release.is_none_or(|release| release.split('.').all(is_release))
        && build.is_none_or(|build| build.split('.').all(is_word))
}

/// Validates a counter set, or a device's consumption of one.
pub(super) fn check_counters(report: &mut Report, path: &Path<'_>, set: &Value, name_field: &str) {
    let errors = &mut report.declarative;
    match check::text(set, name_field) {
        "" => errors.push(FieldError::required(&path.child(name_field), "")),
        name => errors.push_invalid(&path.child(name_field), name, dns::label(name)),
    }
    let (counters, at) = (check::entries(set, "counters"), path.child("counters"));
    if counters.is_empty() {
        errors.push(FieldError::required(&at, ""));
    }
    if counters.len() > COUNTERS_MAX {
        report.handwritten.push(FieldError::too_many(&at, Some(counters.len()), COUNTERS_MAX));
    }
    for (key, _) in counters {
        report.declarative.push_invalid(&at, key, dns::label(key));
    }
}

/// Validates the node selection of a device, if devices have their own.
fn check_place(report: &mut Report, path: &Path<'_>, device: &Value, placed: bool) {
    let names = ["nodeName", "nodeSelector", "allNodes"];
    let any = names.iter().any(|name| check::is_set(device, name));
    if !placed {
        if any {
            let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
            report.handwritten.push(FieldError::invalid(path, BadValue::Null, detail));
        }
        return;
    }
    let mut set = Vec::new();
    match check::field(device, "nodeName").as_str() {
        None => {}
        Some("") => {
            report.handwritten.push(FieldError::invalid(&path.child("nodeName"), "", "must not be empty"));
        }
        Some(node) => {
            set.push("`nodeName`");
            report.handwritten.push_invalid(&path.child("nodeName"), node, dns::subdomain(node));
        }
    }
    let selector = check::field(device, "nodeSelector");
    if !selector.is_null() {
        set.push("`nodeSelector`");
        check::check_node_selector(&mut report.handwritten, &path.child("nodeSelector"), selector);
    }
    match check::field(device, "allNodes").as_bool() {
        None => {}
        Some(true) => set.push("`allNodes`"),
        Some(false) => {
            let detail = "must be either unset or set to true";
            report.handwritten.push(FieldError::invalid(&path.child("allNodes"), false, detail));
        }
    }
    let detail = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    match set.len() {
        0 => report.handwritten.push(FieldError::required(path, detail)),
        1 => {}
        _ => {
            let value = format!("{{{}}}", set.join(", "));
            report.handwritten.push(FieldError::invalid(path, value, detail));
        }
    }
}
