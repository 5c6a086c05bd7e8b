//! CSIDriver: capabilities of a storage driver.

use std::collections::BTreeSet;

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::{Rules, check};
use crate::value::Value;

const MODES: [&str; 2] = ["Persistent", "Ephemeral"];
const FS_GROUP_POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;
const UPDATE_PERIOD_SECONDS_MIN: i64 = 10;
const WARNING_TOKENS: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";

/// Rules of CSIDriver.
pub struct CsiDriver;

impl Rules for CsiDriver {
    fn default(&self, object: &mut Value) {
        let spec = object.ensure_map("spec");
        check::set_default_with(spec, "attachRequired", || true.into());
        check::set_default_with(spec, "podInfoOnMount", || false.into());
        check::set_default_with(spec, "storageCapacity", || false.into());
        check::set_default_with(spec, "fsGroupPolicy", || "ReadWriteOnceWithFSType".into());
        check::set_default_if_empty_with(spec, "volumeLifecycleModes", || vec![MODES[0]].into());
        check::set_default_with(spec, "requiresRepublish", || false.into());
        check::set_default_with(spec, "seLinuxMount", || false.into());
        check::set_default_with(spec, "preventPodSchedulingIfMissing", || false.into());
    }

    /// The generation is absent in a new driver and counts changes.
    fn prepare_update(&self, new: &mut Value, old: &Value) {
        let before = old.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default();
        if new.get("spec") != old.get("spec") {
            new.ensure_map("metadata").insert("generation", before.saturating_add(1));
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let (spec, path) = (check::field(object, "spec"), Path::root("spec"));
        // The first path is misspelled upstream.
        for (name, shown) in [
            ("attachRequired", "attachedRequired"),
            ("podInfoOnMount", "podInfoOnMount"),
            ("storageCapacity", "storageCapacity"),
        ] {
            if !check::is_set(spec, name) {
                errors.push(FieldError::required(&path.child(shown), ""));
            }
        }
        if let Some(policy) = check::field(spec, "fsGroupPolicy").as_str() {
            check::check_one_of(errors, &path.child("fsGroupPolicy"), policy, &FS_GROUP_POLICIES);
        }
        check_token_requests(errors, &path.child("tokenRequests"), check::list(spec, "tokenRequests"));
        for mode in check::texts(spec, "volumeLifecycleModes") {
            check::check_one_of(errors, &path.child("volumeLifecycleModes"), mode, &MODES);
        }
        if !check::is_set(spec, "seLinuxMount") {
            errors.push(FieldError::required(&path.child("seLinuxMount"), ""));
        }
        let period = check::field(spec, "nodeAllocatableUpdatePeriodSeconds").as_i64();
        if let Some(period) = period.filter(|period| *period < UPDATE_PERIOD_SECONDS_MIN) {
            let detail = "must be greater than or equal to 10 seconds";
            let path = path.child("nodeAllocatableUpdatePeriodSeconds");
            errors.push(FieldError::invalid(&path, period, detail));
        }
        let in_secrets = check::field(spec, "serviceAccountTokenInSecrets").as_bool();
        if let Some(in_secrets) = in_secrets
            && check::list(spec, "tokenRequests").is_empty()
        {
            let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
            errors.push(FieldError::invalid(&path.child("serviceAccountTokenInSecrets"), in_secrets, detail));
        }
        if !check::is_set(spec, "preventPodSchedulingIfMissing") {
            errors.push(FieldError::required(&path.child("preventPodSchedulingIfMissing"), ""));
        }
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        let (new, old) = (check::field(new, "spec"), check::field(old, "spec"));
        if check::field(new, "attachRequired") != check::field(old, "attachRequired") {
            let value = check::shown(check::field(new, "attachRequired"));
            errors.push(FieldError::invalid(&path.child("attachedRequired"), value, check::IMMUTABLE));
        }
        let modes = check::texts(new, "volumeLifecycleModes");
        if modes != check::texts(old, "volumeLifecycleModes") {
            let value: BadValue = check::shown_texts(&modes);
            errors.push(FieldError::invalid(&path.child("volumeLifecycleModes"), value, check::IMMUTABLE));
        }
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let requests = |object| check::list(check::field(object, "spec"), "tokenRequests");
        let changed = old.is_none_or(|old| requests(old) != requests(new));
        let unset = !check::is_set(check::field(new, "spec"), "serviceAccountTokenInSecrets");
        if changed && unset && !requests(new).is_empty() {
            return vec![WARNING_TOKENS.to_owned()];
        }
        Vec::new()
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

fn check_token_requests(errors: &mut ErrorList, path: &Path<'_>, requests: &[Value]) {
    let mut audiences = BTreeSet::new();
    for (i, request) in requests.iter().enumerate() {
        let path = path.index(i);
        let audience = check::text(request, "audience");
        if !audiences.insert(audience) {
            errors.push(FieldError::duplicate(&path.child("audience"), audience));
            continue;
        }
        let path = path.child("expirationSeconds");
        match check::field(request, "expirationSeconds").as_i64() {
            Some(seconds @ ..TOKEN_SECONDS_MIN) => {
                let detail = "may not specify a duration less than 10 minutes";
                errors.push(FieldError::invalid(&path, seconds, detail));
            }
            Some(seconds) if seconds > TOKEN_SECONDS_MAX => {
                let detail = "may not specify a duration larger than 2^32 seconds";
                errors.push(FieldError::invalid(&path, seconds, detail));
            }
            _ => {}
        }
    }
}
