//! Validation of the conversion between versions.

use std::collections::BTreeSet;

use super::names;
use crate::base64;
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::admissionregistration::url;
use crate::kinds::certificates::pem;
use crate::kinds::check;
use crate::names::dns;
use crate::value::Value;

const STRATEGIES: [&str; 2] = ["None", "Webhook"];
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const WITHOUT_WEBHOOK: &str = "should not be set when strategy is not set to Webhook";

/// Checks that an update may skip, because the old definition fails them.
#[derive(Clone, Copy)]
pub(super) struct ConversionStrictness {
    /// A version of the review that the server sends is required.
    pub known_version: bool,
    /// The CA bundle must be valid.
    pub valid_ca_bundle: bool,
}

/// Validates `spec.conversion`.
pub(super) fn check_conversion(
    errors: &mut ErrorList,
    path: &Path<'_>,
    spec: &Value,
    strictness: ConversionStrictness,
) {
    let conversion = check::field(spec, "conversion");
    if conversion.is_null() {
        return;
    }
    let path = path.child("conversion");
    let strategy = check::text(conversion, "strategy");
    if strategy != "None" && check::boolean(spec, "preserveUnknownFields") {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(FieldError::invalid(&path.child("strategy"), BadValue::json_string(strategy), detail));
    }
    match strategy {
        "" => errors.push(FieldError::required(&path.child("strategy"), "")),
        strategy if !STRATEGIES.contains(&strategy) => {
            errors.push(FieldError::not_supported(&path.child("strategy"), strategy, &STRATEGIES));
        }
        _ => {}
    }
    let webhook = check::field(conversion, "webhook");
    let (config, versions) =
        (check::field(webhook, "clientConfig"), check::texts(webhook, "conversionReviewVersions"));
    let (config_path, versions_path) =
        (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    if strategy == "Webhook" {
        check_config(errors, &config_path, config, strictness);
        return check_review_versions(errors, &versions_path, &versions, strictness);
    }
    if !config.is_null() {
        errors.push(FieldError::forbidden(&config_path, WITHOUT_WEBHOOK));
    }
    if !versions.is_empty() {
        errors.push(FieldError::forbidden(&versions_path, WITHOUT_WEBHOOK));
    }
}

fn check_config(errors: &mut ErrorList, path: &Path<'_>, config: &Value, strictness: ConversionStrictness) {
    if config.is_null() {
        return errors.push(FieldError::required(path, "required when strategy is set to Webhook"));
    }
    url::check_client_config(errors, path, config);
    let bundle = check::text(config, "caBundle");
    if strictness.valid_ca_bundle
        && let Some(fault) = ca_bundle_fault(bundle)
    {
        let detail = format!("unable to load root certificates: {fault}");
        errors.push(FieldError::invalid(&path.child("caBundle"), BadValue::json_string(bundle), detail));
    }
}

/// Fault of a CA bundle in base64: it needs one certificate in PEM. The certificate itself is checked when a
/// connection is made.
pub(super) fn ca_bundle_fault(bundle: &str) -> Option<&'static str> {
    if bundle.is_empty() {
        return None;
    }
    let bytes = base64::decode(bundle).unwrap_or_default();
    let (mut rest, mut found) = (&bytes[..], false);
    while let Some((block, after)) = pem::next_block(rest) {
        if block.label == "CERTIFICATE" && !block.has_headers {
            return None;
        }
        found = true;
        rest = after;
    }
    let is_rest_blank = rest.iter().all(u8::is_ascii_whitespace);
    Some(if found && is_rest_blank {
        "no valid certificate authority data seen"
    } else {
        "unable to parse bytes as PEM block"
    })
}

/// `true` if the list is empty or has a version of the review that the server sends.
pub(super) fn has_known_review_version(spec: &Value) -> bool {
    let webhook = check::field(check::field(spec, "conversion"), "webhook");
    let versions = check::texts(webhook, "conversionReviewVersions");
    versions.is_empty() || versions.iter().any(|version| REVIEW_VERSIONS.contains(version))
}

fn check_review_versions(
    errors: &mut ErrorList,
    path: &Path<'_>,
    versions: &[&str],
    strictness: ConversionStrictness,
) {
    if versions.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    let mut seen = BTreeSet::new();
    for (i, version) in versions.iter().enumerate() {
        if seen.insert(*version) {
            errors.push_invalid(&path.index(i), version, dns::label_1035(version));
        } else {
            errors.push(FieldError::invalid(&path.index(i), *version, "duplicate version"));
        }
    }
    if strictness.known_version && !versions.iter().any(|version| REVIEW_VERSIONS.contains(version)) {
        let detail = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.push(FieldError::invalid(path, check::shown_texts(versions), detail));
    }
}

/// Validates `spec.preserveUnknownFields`, which only definitions of old versions of the API may keep.
pub(super) fn check_preserve_unknown_fields(errors: &mut ErrorList, new: &Value, old: Option<&Value>) {
    let preserves = |object: &Value| check::boolean(check::field(object, "spec"), "preserveUnknownFields");
    if preserves(new) && !old.is_some_and(preserves) {
        let path = Path::root("spec");
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid(&path.child("preserveUnknownFields"), true, detail));
    }
}

/// Validates fields of an update that never change, or not once the resource is served.
pub(super) fn check_immutable_names(errors: &mut ErrorList, new: &Value, old: &Value, is_established: bool) {
    let path = Path::root("spec");
    let (new, old) = (check::field(new, "spec"), check::field(old, "spec"));
    let (new_names, old_names) = (check::field(new, "names"), check::field(old, "names"));
    if is_established {
        names::check_unchanged(errors, &path, new, old, "scope");
        names::check_unchanged(errors, &path.child("names"), new_names, old_names, "kind");
    }
    names::check_unchanged(errors, &path, new, old, "group");
    names::check_unchanged(errors, &path.child("names"), new_names, old_names, "plural");
}
