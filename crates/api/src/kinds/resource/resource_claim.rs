//! ResourceClaim: a request for devices.

use std::collections::BTreeSet;

use super::{Report, allocation, claim_spec};
use crate::field_error::{ErrorList, Path};
use crate::kinds::{ALL_BUT_STATUS, Rules, check, keep};
use crate::value::Value;

/// Rules of ResourceClaim.
pub struct ResourceClaim;

impl Rules for ResourceClaim {
    fn default(&self, object: &mut Value) {
        if let Some(spec) = object.get_mut("spec") {
            claim_spec::default(spec);
        }
    }

    fn status_reset_fields(&self) -> &'static [&'static str] {
        ALL_BUT_STATUS
    }

    fn has_status(&self) -> bool {
        true
    }

    fn prepare_create(&self, object: &mut Value) {
        object.make_map().remove("status");
        if let Some(spec) = object.get_mut("spec") {
            claim_spec::drop_disabled(spec);
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        keep(new, old, "status");
        if let Some(spec) = new.get_mut("spec") {
            claim_spec::drop_disabled(spec);
        }
    }

    /// Drops the status of devices that are no longer allocated.
    fn prepare_status(&self, new: &mut Value, old: &Value) {
        keep(new, old, "spec");
        let results = |claim: &Value| -> Vec<Value> {
            let results = claim.at(&["status", "allocation", "devices", "results"]).and_then(Value::as_list);
            results.unwrap_or_default().to_vec()
        };
        let (now, mut gone) = (results(new), results(old));
        let now: BTreeSet<[&str; 4]> = now.iter().map(allocation::device_id).collect();
        gone.retain(|one| !now.contains(&allocation::device_id(one)));
        let gone: BTreeSet<[&str; 4]> = gone.iter().map(allocation::device_id).collect();
        let Some(status) = new.get_mut("status").and_then(Value::as_map_mut) else { return };
        if let Some(devices) = status.get_mut("devices").and_then(Value::as_list_mut) {
            devices.retain(|device| !gone.contains(&allocation::device_id(device)));
            if devices.is_empty() {
                status.remove("devices");
            }
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let mut report = Report::default();
        claim_spec::validate(&mut report, &Path::root("spec"), check::field(object, "spec"));
        report.append_to(errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check::check_immutable(
            errors,
            &Path::root("spec"),
            check::field(new, "spec"),
            check::field(old, "spec"),
        );
    }

    fn validate_status(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let mut report = Report::default();
        allocation::check_status(&mut report, new, old);
        report.append_to(errors);
    }
}
