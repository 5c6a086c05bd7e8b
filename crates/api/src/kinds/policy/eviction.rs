//! Eviction: deletes a pod if its disruption budgets allow it.

use crate::field_error::{ErrorList, FieldError, Path};
use crate::value::Value;

/// Validates an eviction, except its metadata.
pub fn validate(eviction: &Value, errors: &mut ErrorList) {
    let option = "ignoreStoreReadErrorWithClusterBreakingPotential";
    if eviction.at(&["deleteOptions", option]).and_then(Value::as_bool) == Some(true) {
        let options = Path::root("deleteOptions");
        let detail = "can not be set for pod eviction, try after removing the option";
        errors.push(FieldError::invalid(&options.child(option), true, detail));
    }
}
