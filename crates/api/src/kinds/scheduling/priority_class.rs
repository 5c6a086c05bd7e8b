//! PriorityClass: the scheduling priority of pods.

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::{Rules, check};
use crate::value::Value;

/// Highest priority of user-defined classes.
const USER_PRIORITY_MAX: i64 = 1_000_000_000;
/// System classes with their values.
pub const SYSTEM_CLASSES: [(&str, i64); 2] = [
    ("system-node-critical", 2 * USER_PRIORITY_MAX + 1000),
    ("system-cluster-critical", 2 * USER_PRIORITY_MAX),
];

const POLICIES: [&str; 2] = ["PreemptLowerPriority", "Never"];

/// Rules of PriorityClass.
pub struct PriorityClass;

impl Rules for PriorityClass {
    fn default(&self, object: &mut Value) {
        check::set_default_with(object.make_map(), "preemptionPolicy", || POLICIES[0].into());
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn has_new_generation(&self, _new: &Value, _old: &Value) -> bool {
        false
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let (name, value) = (object.str_at(&["metadata", "name"]), check::number(object, "value"));
        if name.starts_with("system-") {
            if let Some(fault) = system_fault(name, value, check::boolean(object, "globalDefault")) {
                let detail = format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {fault}"
                );
                errors.push(FieldError::forbidden(&Path::root("metadata").child("name"), detail));
            }
        } else if value > USER_PRIORITY_MAX {
            let detail = format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}");
            errors.push(FieldError::forbidden(&Path::root("value"), detail));
        }
        let path = Path::root("preemptionPolicy");
        match check::field(object, "preemptionPolicy").as_str() {
            None => {}
            Some("") => errors.push(FieldError::required(&path, "")),
            Some(policy) => check::check_one_of(errors, &path, policy, &POLICIES),
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        if check::number(new, "value") != check::number(old, "value") {
            errors.push(FieldError::forbidden(&Path::root("value"), "may not be changed in an update."));
        }
        let policy = check::field(new, "preemptionPolicy");
        if policy != check::field(old, "preemptionPolicy") {
            let value = policy.as_str().map_or(BadValue::Null, BadValue::json_string);
            errors.push(FieldError::invalid(&Path::root("preemptionPolicy"), value, check::IMMUTABLE));
        }
    }
}

/// Returns the error of a class whose name has the reserved prefix `system-`.
fn system_fault(name: &str, value: i64, global_default: bool) -> Option<String> {
    match SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) {
        None => Some(format!("{name} is not a known system priority class")),
        Some((_, known)) if *known != value => Some(format!("value of {name} PriorityClass must be {known}")),
        Some(_) if global_default => Some(format!("globalDefault of {name} PriorityClass must be false")),
        Some(_) => None,
    }
}
