//! VolumeAttributesClass: mutable parameters of volumes.

use super::check_parameters;
use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::{Rules, check};
use crate::value::Value;

/// Rules of VolumeAttributesClass.
pub struct VolumeAttributesClass;

impl Rules for VolumeAttributesClass {
    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let (driver, path) = (check::text(object, "driverName"), Path::root("driverName"));
        if driver.is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else {
            check::check_label_key(errors, &path, &driver.to_lowercase());
        }
        let path = Path::root("parameters");
        check_parameters(errors, &path, object);
        if check::entries(object, "parameters").is_empty() {
            errors.push(FieldError::required(&path, "must contain at least one key/value pair"));
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        for name in ["driverName", "parameters"] {
            if !check::is_equivalent(check::field(new, name), check::field(old, name)) {
                let detail = format!("updates to {name} are forbidden.");
                errors.push(FieldError::forbidden(&Path::root(name), detail));
            }
        }
        self.validate(new, errors);
    }
}
