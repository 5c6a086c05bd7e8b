//! PodCertificateRequest: request of a node for a certificate of one of its pods.
//!
//! Not checked here: the format of the key, the proof of possession, and the consistency of an issued certificate
//! with the request and the current time.

use std::time::Duration;

use super::{pem, signer};
use crate::base64;
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::fields::{FieldLabels, UnsupportedLabel};
use crate::kinds::check::{self, GoLayout};
use crate::kinds::{ALL_BUT_STATUS, Rules, SelectableFields};
use crate::names::{dns, key, metadata};
use crate::rfc3339;
use crate::value::Value;

const UID_BYTES_MAX: usize = 128;
const KEY_BYTES_MAX: usize = 10 << 10;
const CHAIN_BYTES_MAX: usize = 100 << 10;
const HOUR_SECONDS: i64 = 60 * 60;
const DAY_SECONDS: i64 = 24 * HOUR_SECONDS;
const TERMINAL_CONDITIONS: [&str; 3] = ["Issued", "Denied", "Failed"];

const SPEC: GoLayout = GoLayout::Struct(&[
    ("SignerName", "signerName", GoLayout::Text),
    ("PodName", "podName", GoLayout::Text),
    ("PodUID", "podUID", GoLayout::Text),
    ("ServiceAccountName", "serviceAccountName", GoLayout::Text),
    ("ServiceAccountUID", "serviceAccountUID", GoLayout::Text),
    ("NodeName", "nodeName", GoLayout::Text),
    ("NodeUID", "nodeUID", GoLayout::Text),
    ("MaxExpirationSeconds", "maxExpirationSeconds", GoLayout::Plain),
    ("PKIXPublicKey", "pkixPublicKey", GoLayout::Plain),
    ("ProofOfPossession", "proofOfPossession", GoLayout::Plain),
    ("StubPKCS10Request", "stubPKCS10Request", GoLayout::Plain),
    ("UnverifiedUserAnnotations", "unverifiedUserAnnotations", GoLayout::Plain),
]);

/// Rules of PodCertificateRequest.
pub struct PodCertificateRequest;

impl Rules for PodCertificateRequest {
    fn default(&self, object: &mut Value) {
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_map_mut) {
            check::set_default_with(spec, "maxExpirationSeconds", || DAY_SECONDS.into());
        }
    }

    fn status_reset_fields(&self) -> &'static [&'static str] {
        ALL_BUT_STATUS
    }

    fn has_status(&self) -> bool {
        true
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let (spec, path) = (check::field(object, "spec"), Path::root("spec"));
        signer::check_name(errors, &path.child("signerName"), check::text(spec, "signerName"));
        check_annotations(errors, &path.child("unverifiedUserAnnotations"), spec);
        for (name, uid) in
            [("podName", "podUID"), ("serviceAccountName", "serviceAccountUID"), ("nodeName", "nodeUID")]
        {
            let text = check::text(spec, name);
            errors.push_invalid(&path.child(name), text, dns::subdomain(text));
            let (text, path) = (check::text(spec, uid), path.child(uid));
            if text.is_empty() {
                errors.push(FieldError::invalid(&path, text, "must not be empty"));
            }
            if text.len() > UID_BYTES_MAX {
                errors.push(FieldError::too_long(&path, UID_BYTES_MAX));
            }
        }
        let at = path.child("maxExpirationSeconds");
        let Some(seconds) = check::field(spec, "maxExpirationSeconds").as_i64() else {
            return errors.push(FieldError::required(&at, "must be set"));
        };
        let days = if signer::is_kubernetes(check::text(spec, "signerName")) { 1 } else { 91 };
        let max = days * DAY_SECONDS;
        if !(HOUR_SECONDS..=max).contains(&seconds) {
            let detail = format!("must be in the range [{HOUR_SECONDS}, {max}]");
            errors.push(FieldError::invalid(&at, seconds, detail));
        }
        check_key(errors, &path, spec);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let (new, old) = (check::field(new, "spec"), check::field(old, "spec"));
        if !check::is_equivalent(new, old) {
            let value = check::format_go(new, &SPEC);
            errors.push(FieldError::invalid(&Path::root("spec"), value, check::IMMUTABLE));
        }
    }

    fn validate_status(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let (new, old) = (check::field(new, "status"), check::field(old, "status"));
        let before = errors.len();
        check_conditions(errors, new);
        if errors.len() > before {
            return;
        }
        let path = Path::root("status");
        let mut reject = |detail: &'static str| {
            errors.push(FieldError::invalid(&path, BadValue::Omitted, detail));
        };
        if TERMINAL_CONDITIONS.iter().any(|kind| is_condition_true(old, kind)) {
            if !check::is_equivalent(new, old) {
                reject("immutable after PodCertificateRequest is issued, denied, or failed");
            }
        } else if is_condition_true(new, "Denied") || is_condition_true(new, "Failed") {
            let only_conditions = new.as_map().is_some_and(|map| map.keys().all(|name| name == "conditions"));
            if !only_conditions {
                reject(
                    "non-condition status fields must be empty when denying or failing the PodCertificateRequest",
                );
            }
        } else if is_condition_true(new, "Issued") {
            check_issued(errors, new);
        } else if !check::is_equivalent(new, old) {
            reject("status is immutable unless transitioning to \"Issued\", \"Denied\", or \"Failed\"");
        }
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn field_labels(&self) -> &'static FieldLabels<'static> {
        const LABELS: FieldLabels<'static> = FieldLabels {
            known: &[
                ("metadata.name", "metadata.name"),
                ("spec.signerName", "spec.signerName"),
                ("spec.podName", "spec.podName"),
                ("spec.nodeName", "spec.nodeName"),
            ],
            unsupported: UnsupportedLabel::Plain,
        };
        &LABELS
    }

    fn fields<'o>(&'o self, object: &'o Value) -> SelectableFields<'o> {
        let text = |name| object.str_at(&["spec", name]).into();
        vec![
            ("spec.signerName", text("signerName")),
            ("spec.podName", text("podName")),
            ("spec.nodeName", text("nodeName")),
        ]
    }
}

fn check_annotations(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let mut bytes = 0;
    for (name, value) in check::text_entries(spec, "unverifiedUserAnnotations") {
        key::domain_prefixed_key(errors, path, &name.to_lowercase());
        bytes += name.len() + value.len();
    }
    if bytes > metadata::ANNOTATIONS_BYTES_MAX {
        errors.push(FieldError::too_long(path, metadata::ANNOTATIONS_BYTES_MAX));
    }
}

fn check_key(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let bytes = |name| base64::decode(check::text(spec, name)).unwrap_or_default().len();
    let too_long = |name: &'static str| {
        (bytes(name) > KEY_BYTES_MAX)
            .then(|| FieldError::from(FieldError::too_long(&path.child(name), KEY_BYTES_MAX)))
    };
    let set = ["stubPKCS10Request", "pkixPublicKey", "proofOfPossession"].map(|name| bytes(name) > 0);
    match set {
        [true, false, false] => errors.extend(too_long("stubPKCS10Request")),
        [false, true, true] => {
            errors.extend(too_long("pkixPublicKey").or_else(|| too_long("proofOfPossession")));
        }
        _ => {
            let detail =
                "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
            errors.push(FieldError::invalid(path, BadValue::Omitted, detail));
        }
    }
}

fn is_condition_true(status: &Value, kind: &str) -> bool {
    let is_true = |one: &Value| check::text(one, "type") == kind && check::text(one, "status") == "True";
    check::list(status, "conditions").iter().any(is_true)
}

fn check_conditions(errors: &mut ErrorList, status: &Value) {
    let path = Path::root("status");
    let at = path.child("conditions");
    let mut count = 0;
    for (i, one) in check::list(status, "conditions").iter().enumerate() {
        // Upstream prints the index as a path segment of its own, after a dot.
        let step = format!("[{i}]");
        let path = at.child(&step);
        let (kind, status) = (check::text(one, "type"), check::text(one, "status"));
        if !TERMINAL_CONDITIONS.contains(&kind) {
            errors.push(FieldError::not_supported(&path.child("type"), kind, &TERMINAL_CONDITIONS));
            continue;
        }
        count += 1;
        if count > 1 {
            let detail = "There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"";
            errors.push(FieldError::invalid(&path.child("type"), kind, detail));
        }
        check::check_one_of(errors, &path.child("status"), status, &["True"]);
    }
    check::check_conditions(errors, &path, status, "conditions");
}

/// Checks an issued certificate without parsing it.
fn check_issued(errors: &mut ErrorList, status: &Value) {
    let path = Path::root("status");
    let (chain, at) = (check::text(status, "certificateChain"), path.child("certificateChain"));
    if chain.len() > CHAIN_BYTES_MAX {
        return errors.push(FieldError::too_long(&at, CHAIN_BYTES_MAX));
    }
    let mut reject = |detail: &'static str| errors.push(FieldError::invalid(&at, chain, detail));
    let Some((leaf, mut rest)) = pem::next_block(chain.as_bytes()) else {
        return reject("issued certificate chain must contain at least one certificate");
    };
    if leaf.label != "CERTIFICATE" {
        return reject("issued certificate chain must consist entirely of CERTIFICATE PEM blocks");
    }
    let times = ["notBefore", "notAfter", "beginRefreshAt"];
    let before = errors.len();
    for name in times {
        if !check::is_set(status, name) {
            let detail = match name {
                "beginRefreshAt" => "must be present and in the range [notbefore+10min, notafter-10min]",
                _ => "must be present and consistent with the issued certificate",
            };
            errors.push(FieldError::required(&path.child(name), detail));
        }
    }
    if errors.len() > before || !check_refresh(errors, &path, times.map(|name| check::text(status, name))) {
        return;
    }
    while let Some((block, after)) = pem::next_block(rest) {
        rest = after;
        if block.label != "CERTIFICATE" {
            let detail = "issued certificate chain must consist entirely of CERTFICATE PEM blocks";
            return errors.push(FieldError::invalid(&at, chain, detail));
        }
    }
}

/// Checks that the refresh time is within the lifetime of the certificate, with a margin.
fn check_refresh(errors: &mut ErrorList, path: &Path<'_>, times: [&str; 3]) -> bool {
    let [Ok(start), Ok(end), Ok(refresh)] = times.map(rfc3339::parse) else { return true };
    let margin = Duration::from_secs(600);
    let detail = if refresh < start.after(margin) {
        "must be at least 10 minutes after status.notBefore"
    } else if refresh > end.before(margin) {
        "must be at least 10 minutes before status.notAfter"
    } else {
        return true;
    };
    errors.push(FieldError::invalid(&path.child("beginRefreshAt"), BadValue::json_string(times[2]), detail));
    false
}
