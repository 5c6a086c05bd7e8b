//! DeviceTaintRule: a taint for all matching devices.

use super::{Report, name, taint};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::{ALL_BUT_STATUS, Author, Rules, check};
use crate::names::dns;
use crate::time::Time;
use crate::value::Value;

const CONDITIONS_MAX: usize = 8;

/// Rules of DeviceTaintRule.
pub struct DeviceTaintRule;

impl Rules for DeviceTaintRule {
    fn default_times(&self, object: &mut Value, now: Time) {
        taint::default_time(object, now);
    }

    fn sign(&self, new: &mut Value, old: Option<&Value>, author: &Author<'_>) {
        if let Some(old) = old {
            taint::renew_time(new, old, author.now);
        }
    }

    fn status_reset_fields(&self) -> &'static [&'static str] {
        ALL_BUT_STATUS
    }

    fn has_status(&self) -> bool {
        true
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let (spec, path) = (check::field(object, "spec"), Path::root("spec"));
        let (selector, at) = (check::field(spec, "deviceSelector"), path.child("deviceSelector"));
        let part = |name| check::field(selector, name).as_str();
        let mut report = Report::default();
        if let Some(driver) = part("driver") {
            check::check_csi_driver_name(&mut report.handwritten, &at.child("driver"), driver);
        }
        if let Some(pool) = part("pool") {
            name::check_pool(&mut report.handwritten, &at.child("pool"), pool);
        }
        if let Some(device) = part("device") {
            report.handwritten.push_invalid(&at.child("device"), device, dns::label(device));
        }
        taint::check_taint(&mut report, &path.child("taint"), check::field(spec, "taint"));
        report.append_to(errors);
    }

    fn validate_status(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        let (status, path) = (check::field(new, "status"), Path::root("status"));
        check::check_conditions(errors, &path, status, "conditions");
        let conditions = check::list(status, "conditions").len();
        if conditions > CONDITIONS_MAX {
            let path = path.child("conditions");
            errors.push(FieldError::too_many(&path, Some(conditions), CONDITIONS_MAX));
        }
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}
