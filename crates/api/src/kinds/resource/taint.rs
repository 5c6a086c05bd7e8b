//! Validation of device taints and tolerations, and defaulting of `timeAdded` to the current time.

use super::Report;
use crate::field_error::{FieldError, Path};
use crate::kinds::check;
use crate::names::key;
use crate::rfc3339::Seconds;
use crate::time::Time;
use crate::value::Value;

const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// Sets missing `timeAdded` fields of the device taints of a ResourceSlice.
pub(super) fn default_times(slice: &mut Value, now: Time) {
    let devices = slice.at_mut(&["spec", "devices"]).and_then(Value::as_list_mut);
    for device in devices.into_iter().flat_map(|devices| devices.iter_mut()) {
        for taint in check::maps_mut(device, &["taints"]) {
            check::set_default_with(taint, "timeAdded", || Seconds(now).to_string().into());
        }
    }
}

/// Sets the missing `timeAdded` of a DeviceTaintRule.
pub(super) fn default_time(rule: &mut Value, now: Time) {
    if let Some(taint) = rule.at_mut(&["spec", "taint"]).and_then(Value::as_map_mut) {
        check::set_default_with(taint, "timeAdded", || Seconds(now).to_string().into());
    }
}

/// Sets `timeAdded` of a DeviceTaintRule to now if an update changed the effect and left the time.
pub(super) fn renew_time(new: &mut Value, old: &Value, now: Time) {
    let (Some(taint), Some(before)) =
        (new.at_mut(&["spec", "taint"]).and_then(Value::as_map_mut), old.at(&["spec", "taint"]))
    else {
        return;
    };
    let same = |name| taint.get(name) == before.get(name);
    if !same("effect") && same("timeAdded") {
        taint.insert("timeAdded", Seconds(now).to_string());
    }
}

/// Validates a taint.
pub(super) fn check_taint(report: &mut Report, path: &Path<'_>, taint: &Value) {
    check::check_label_key(&mut report.handwritten, &path.child("key"), check::text(taint, "key"));
    let value = check::text(taint, "value");
    report.handwritten.push_invalid(&path.child("value"), value, key::label_value(value));
    match check::text(taint, "effect") {
        "" => report.declarative.push(FieldError::required(&path.child("effect"), "")),
        effect => check::check_one_of(&mut report.declarative, &path.child("effect"), effect, &EFFECTS),
    }
}

/// Validates a toleration.
pub(super) fn check_toleration(report: &mut Report, path: &Path<'_>, toleration: &Value) {
    let (key, value) = (check::text(toleration, "key"), check::text(toleration, "value"));
    if !key.is_empty() {
        check::check_label_key(&mut report.declarative, &path.child("key"), key);
    }
    let at = path.child("value");
    match check::text(toleration, "operator") {
        "Exists" if !value.is_empty() => {
            report.handwritten.push(FieldError::invalid(&at, value, "must be empty for operator `Exists`"));
        }
        "Exists" => {}
        "Equal" => report.handwritten.push_invalid(&at, value, key::label_value(value)),
        "" => report.declarative.push(FieldError::required(&path.child("operator"), "")),
        other => {
            check::check_one_of(&mut report.declarative, &path.child("operator"), other, &["Equal", "Exists"])
        }
    }
    let effect = check::text(toleration, "effect");
    if !effect.is_empty() {
        check::check_one_of(&mut report.declarative, &path.child("effect"), effect, &EFFECTS);
    }
}
