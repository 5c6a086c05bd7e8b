//! ControllerRevision: an immutable snapshot of a workload's state, for rollbacks.

use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::workload::check_nonnegative;
use crate::kinds::{Rules, check_immutable};
use crate::value::Value;

/// Rules of ControllerRevision.
pub struct ControllerRevision;

impl Rules for ControllerRevision {
    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check_nonnegative(errors, object, &Path::NONE, &["revision"]);
        let path = Path::root("data");
        match object.get("data") {
            None | Some(Value::Null) => errors.push(FieldError::required(&path, "data is mandatory")),
            Some(Value::Map(_)) => {}
            Some(_) => errors.push(FieldError::required(&path, "data must be a valid JSON object")),
        }
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check_immutable(errors, &Path::root("data"), new.get("data"), old.get("data"));
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check_nonnegative(errors, new, &Path::NONE, &["revision"]);
        self.validate_transition(new, old, errors);
    }
}
