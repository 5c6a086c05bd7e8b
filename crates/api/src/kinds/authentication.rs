//! Kinds of the group `authentication.k8s.io`: reviews and token requests, which are answered and never
//! stored.

use super::{Rules, check};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::names::dns;
use crate::value::Value;

const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;
const TOKEN_SECONDS_DEFAULT: i64 = 60 * 60;
const ATTESTATION_GROUPS: &str = "admissionReviewAPIGroups";

/// Returns the rules of a kind of this group.
pub(super) fn rules(kind: &str) -> Option<&'static dyn Rules> {
    Some(match kind {
        "TokenReview" => &TokenReview,
        "SelfSubjectReview" => &SelfSubjectReview,
        "TokenRequest" => &TokenRequest,
        _ => return None,
    })
}

/// Rules of TokenReview. A review without a token is a bad request, see [`token_review_fault`].
pub struct TokenReview;

impl Rules for TokenReview {
    fn validate(&self, _object: &Value, _errors: &mut ErrorList) {}
}

/// Message if a TokenReview is a bad request.
#[must_use]
pub fn token_review_fault(object: &Value) -> Option<&'static str> {
    object
        .str_at(&["spec", "token"])
        .is_empty()
        .then_some("token is required for TokenReview in authentication")
}

/// Rules of SelfSubjectReview, which has no input.
pub struct SelfSubjectReview;

impl Rules for SelfSubjectReview {
    fn validate(&self, _object: &Value, _errors: &mut ErrorList) {}
}

/// Rules of TokenRequest.
pub struct TokenRequest;

impl Rules for TokenRequest {
    fn default(&self, object: &mut Value) {
        let spec = object.ensure_map("spec");
        check::set_default_with(spec, "expirationSeconds", || TOKEN_SECONDS_DEFAULT.into());
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let (spec, path) = (check::field(object, "spec"), Path::root("spec"));
        let (seconds, at) = (check::number(spec, "expirationSeconds"), path.child("expirationSeconds"));
        let mut faults = ErrorList::new();
        if seconds < TOKEN_SECONDS_MIN {
            let detail = "may not specify a duration less than 10 minutes";
            faults.push(FieldError::invalid(&at, seconds, detail));
        }
        if seconds > TOKEN_SECONDS_MAX {
            let detail = "may not specify a duration larger than 2^32 seconds";
            faults.push(FieldError::invalid(&at, seconds, detail));
        }
        let (attestations, at) = (check::entries(spec, "attestations"), path.child("attestations"));
        if is_webhook(check::field(spec, "boundObjectRef")) {
            let audiences = check::texts(spec, "audiences");
            if audiences.len() != 1 {
                let detail = "must be length 1 when bound to a webhook config";
                let value = check::shown_texts(&audiences);
                faults.push(FieldError::invalid(&path.child("audiences"), value, detail));
            }
            check_webhook_attestations(&mut faults, &at, spec);
        } else if !attestations.is_empty() {
            let detail = "attestations may only be specified with a webhook bound object reference";
            let value = check::shown(check::field(spec, "attestations"));
            // Upstream reports this error alone.
            faults = FieldError::invalid(&at, value, detail).into();
        }
        errors.append(faults);
    }
}

fn is_webhook(reference: &Value) -> bool {
    let kinds = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];
    kinds.contains(&check::text(reference, "kind"))
        && check::text(reference, "apiVersion") == "admissionregistration.k8s.io/v1"
}

fn check_webhook_attestations(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let attestations = check::entries(spec, "attestations");
    let [(key, values)] = attestations[..] else {
        let detail = "webhook bound requests require exactly one admissionReviewAPIGroups attestation";
        let value = check::shown(check::field(spec, "attestations"));
        return errors.push(FieldError::invalid(path, value, detail));
    };
    let path = path.key(key);
    if key != ATTESTATION_GROUPS {
        return errors.push(FieldError::not_supported(&path, key, &[ATTESTATION_GROUPS]));
    }
    let Some([group]) = values.as_list() else {
        return errors.push(FieldError::invalid(&path, check::shown(values), "must specify a single value"));
    };
    let (group, path) = (group.as_str().unwrap_or_default(), path.index(0));
    match group {
        "" => errors.push(FieldError::invalid(&path, group, "may not be an empty string")),
        "*" => {}
        group => {
            let faults = dns::subdomain(group).into_iter();
            let faults = faults.map(|fault| format!("must specify a valid API Group: {fault}"));
            errors.extend(faults.map(|fault| FieldError::invalid(&path, BadValue::from(group), fault)));
        }
    }
}
