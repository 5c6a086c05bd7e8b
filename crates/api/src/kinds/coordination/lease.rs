//! Lease: a lock with a holder and an expiry.

use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::{Rules, check};
use crate::value::Value;

/// Fields of coordinated leader election, a disabled feature: they are cleared.
const ARBITRATED: [&str; 2] = ["strategy", "preferredHolder"];

/// Rules of Lease.
pub struct Lease;

impl Rules for Lease {
    fn prepare_create(&self, object: &mut Value) {
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_map_mut) {
            spec.retain(|name, _| !ARBITRATED.contains(&name));
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        if let Some(spec) = new.get_mut("spec").and_then(Value::as_map_mut) {
            for name in ARBITRATED {
                if old.at(&["spec", name]).is_none_or(Value::is_null) {
                    spec.remove(name);
                }
            }
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let (spec, path) = (check::field(object, "spec"), Path::root("spec"));
        if let Some(seconds) = check::field(spec, "leaseDurationSeconds").as_i64().filter(|n| *n <= 0) {
            let path = path.child("leaseDurationSeconds");
            errors.push(FieldError::invalid(&path, seconds, "must be greater than 0"));
        }
        if let Some(count) = check::field(spec, "leaseTransitions").as_i64().filter(|n| *n < 0) {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(&path.child("leaseTransitions"), count, detail));
        }
        if let Some(strategy) = check::field(spec, "strategy").as_str() {
            // The repeated segment is upstream's path.
            let path = path.child("strategy");
            let path = path.child("strategy");
            if strategy.contains('/') {
                check::check_label_key(errors, &path, strategy);
            } else {
                check::check_one_of(errors, &path, strategy, &["OldestEmulationVersion"]);
            }
        }
        if !check::text(spec, "preferredHolder").is_empty() && check::text(spec, "strategy").is_empty() {
            let detail = "may only be specified if `strategy` is defined";
            errors.push(FieldError::forbidden(&path.child("preferredHolder"), detail));
        }
    }

    fn allows_create_on_update(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}
