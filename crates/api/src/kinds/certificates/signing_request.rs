//! CertificateSigningRequest: a request for a certificate, with its approval and result.
//!
//! The subresource `approval` changes only conditions: the pipeline calls [`prepare_approval`] and
//! [`validate_approval`] for it. Both status writes first pass through [`fill_condition_times`]. A create
//! records the requesting user.

use std::collections::{BTreeMap, BTreeSet};

use super::{pem, signer};
use crate::base64;
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::fields::{FieldLabels, UnsupportedLabel};
use crate::kinds::{Author, Rules, SelectableFields, check, keep};
use crate::names::NameRule;
use crate::rfc3339::Seconds;
use crate::time::Time;
use crate::value::{Map, Value};

const SIGNER_LEGACY: &str = "kubernetes.io/legacy-unknown";
const EXPIRATION_SECONDS_MIN: i64 = 600;
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Rules of CertificateSigningRequest.
pub struct SigningRequest;

/// Parts of the status that a write may change.
#[derive(Clone, Copy, PartialEq)]
enum StatusPart {
    /// None.
    Object,
    /// The certificate.
    Status,
    /// The conditions Approved and Denied.
    Approval,
}

impl Rules for SigningRequest {
    fn name_rule(&self) -> NameRule {
        NameRule::Any
    }

    fn has_status(&self) -> bool {
        true
    }

    /// Clears the fields of the requesting user, which the pipeline sets.
    fn prepare_create(&self, object: &mut Value) {
        let object = object.make_map();
        object.remove("status");
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_map_mut) {
            spec.retain(|name, _| !REQUESTER.contains(&name));
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        keep(new, old, "spec");
        keep(new, old, "status");
    }

    fn prepare_status(&self, new: &mut Value, old: &Value) {
        keep(new, old, "spec");
        for kind in ["Approved", "Denied"] {
            keep_conditions(new, old, kind);
        }
    }

    /// Records the requesting user in a new request.
    fn sign(&self, new: &mut Value, old: Option<&Value>, author: &Author<'_>) {
        if old.is_none() {
            let spec = new.ensure_map("spec");
            REQUESTER.iter().for_each(|field| drop(spec.remove(field)));
            spec.insert("username", author.user);
            if !author.uid.is_empty() {
                spec.insert("uid", author.uid);
            }
            spec.insert("groups", author.groups.to_vec());
            if !author.extra.is_empty() {
                let extra: Map =
                    author.extra.iter().map(|(key, values)| (key.as_str(), values.clone())).collect();
                spec.insert("extra", extra);
            }
        }
    }

    fn sign_status(&self, new: &mut Value, old: &Value, author: &Author<'_>) {
        fill_condition_times(new, old, author.now);
    }

    fn reset_fields(&self) -> &'static [&'static str] {
        &["spec", "status"]
    }

    fn status_reset_fields(&self) -> &'static [&'static str] {
        &["spec", "status.conditions"]
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check_request(object, None, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check_update(new, old, StatusPart::Object, errors);
    }

    fn validate_status(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check_update(new, old, StatusPart::Status, errors);
    }

    fn field_labels(&self) -> &'static FieldLabels<'static> {
        const LABELS: FieldLabels<'static> = FieldLabels {
            known: &[("metadata.name", "metadata.name"), ("spec.signerName", "spec.signerName")],
            unsupported: UnsupportedLabel::Plain,
        };
        &LABELS
    }

    fn fields<'o>(&'o self, object: &'o Value) -> SelectableFields<'o> {
        vec![("spec.signerName", object.str_at(&["spec", "signerName"]).into())]
    }
}

/// Fields of the requesting user.
const REQUESTER: [&str; 4] = ["username", "uid", "groups", "extra"];

/// Resets everything that an update of `approval` may not change: all but the conditions.
pub fn prepare_approval(new: &mut Value, old: &Value) {
    let conditions = new.at(&["status", "conditions"]).cloned();
    keep(new, old, "spec");
    keep(new, old, "status");
    let status = new.ensure_map("status");
    match conditions {
        Some(conditions) => drop(status.insert("conditions", conditions)),
        None => drop(status.remove("conditions")),
    }
}

/// Validates an update of `approval`.
pub fn validate_approval(new: &Value, old: &Value, errors: &mut ErrorList) {
    check_update(new, old, StatusPart::Approval, errors);
}

/// Sets missing times of conditions. A condition with an unchanged status keeps its transition time.
pub fn fill_condition_times(new: &mut Value, old: &Value, now: Time) {
    let now = &*Seconds(now).to_string();
    let before = check::list(check::field(old, "status"), "conditions").iter().rev();
    let before = before.filter(|one| check::is_set(one, "lastTransitionTime"));
    // The first of equal conditions counts.
    let before: BTreeMap<(&str, &str), &Value> =
        before.map(|one| ((check::text(one, "type"), check::text(one, "status")), one)).collect();
    for condition in check::maps_mut(new, &["status", "conditions"]) {
        check::set_default_with(condition, "lastUpdateTime", || now.into());
        let alike = condition.get_str("type").zip(condition.get_str("status"));
        let alike = alike.and_then(|alike| before.get(&alike).copied());
        let since = alike.map_or(now, |one| check::text(one, "lastTransitionTime"));
        check::set_default_with(condition, "lastTransitionTime", || since.into());
    }
}

/// Restores the conditions of one type, if their number is unchanged.
fn keep_conditions(new: &mut Value, old: &Value, kind: &str) {
    let before = conditions_of(old, kind);
    if conditions_of(new, kind).len() != before.len() {
        return;
    }
    let list = new.at_mut(&["status", "conditions"]).and_then(Value::as_list_mut);
    let of_kind =
        list.into_iter().flat_map(|list| list.iter_mut()).filter(|one| check::text(one, "type") == kind);
    for (condition, before) in of_kind.zip(before) {
        condition.clone_from(before);
    }
}

fn conditions_of<'a>(object: &'a Value, kind: &str) -> Vec<&'a Value> {
    let conditions = check::list(check::field(object, "status"), "conditions").iter();
    conditions.filter(|one| check::text(one, "type") == kind).collect()
}

fn check_update(new: &Value, old: &Value, write: StatusPart, errors: &mut ErrorList) {
    let declarative = check_request(new, Some(old), errors);
    let path = Path::root("status");
    let at = path.child("conditions");
    let count = |object, kind| conditions_of(object, kind).len();
    for kind in ["Approved", "Denied", "Failed"] {
        if count(new, kind) < count(old, kind) {
            let detail = format!("updates may not remove a condition of type \"{kind}\"");
            errors.push(FieldError::forbidden(&at, detail));
        }
    }
    for kind in ["Approved", "Denied"].iter().filter(|_| write != StatusPart::Approval) {
        if count(new, kind) > count(old, kind) {
            let detail = format!("updates may not add a condition of type \"{kind}\"");
            errors.push(FieldError::forbidden(&at, detail));
        } else if count(new, kind) == count(old, kind) && conditions_of(new, kind) != conditions_of(old, kind)
        {
            let detail = format!("updates may not modify a condition of type \"{kind}\"");
            errors.push(FieldError::forbidden(&at, detail));
        }
    }
    let certificate = |object: &Value| object.str_at(&["status", "certificate"]).to_owned();
    if certificate(new) != certificate(old) {
        let at = path.child("certificate");
        if write != StatusPart::Status {
            errors.push(FieldError::forbidden(&at, "updates may not set certificate content"));
        } else if !certificate(old).is_empty() {
            let detail = "updates may not modify existing certificate content";
            errors.push(FieldError::forbidden(&at, detail));
        }
    }
    errors.extend(declarative);
}

/// Validates a request; errors that `old` has too are accepted. Returns the error of declarative validation, which must come
/// last; `None` on a create, which has no status.
fn check_request(object: &Value, old: Option<&Value>, errors: &mut ErrorList) -> Option<FieldError> {
    let (spec, path) = (check::field(object, "spec"), Path::root("spec"));
    let old_spec = old.map_or(check::ABSENT, |old| check::field(old, "spec"));
    if let Err(fault) = pem_request(check::text(spec, "request")) {
        let value = check::field(spec, "request").as_str().map_or(BadValue::Null, BadValue::json_string);
        errors.push(FieldError::invalid(&path.child("request"), value, fault));
    }
    check_usages(
        errors,
        &path.child("usages"),
        &check::texts(spec, "usages"),
        &check::texts(old_spec, "usages"),
    );
    let (name, at) = (check::text(spec, "signerName"), path.child("signerName"));
    if name == SIGNER_LEGACY && check::text(old_spec, "signerName") != SIGNER_LEGACY {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.push(FieldError::invalid(&at, name, detail));
    } else {
        signer::check_name(errors, &at, name);
    }
    let seconds = check::field(spec, "expirationSeconds").as_i64();
    if let Some(seconds) = seconds.filter(|seconds| *seconds < EXPIRATION_SECONDS_MIN) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid(&path.child("expirationSeconds"), seconds, detail));
    }
    let declarative = check_conditions(errors, object, old);
    let certificate = object.str_at(&["status", "certificate"]);
    let kept = old.map(|old| old.str_at(&["status", "certificate"]));
    if kept.is_none_or(|kept| kept != certificate && certificate_fault(kept).is_none())
        && let Some(fault) = certificate_fault(certificate)
    {
        let path = Path::root("status");
        errors.push(FieldError::invalid(&path.child("certificate"), "<certificate data>", fault));
    }
    declarative
}

/// Checks the form of a request.
fn pem_request(text: &str) -> Result<(), &'static str> {
    let bytes = base64::decode(text).unwrap_or_default();
    match pem::next_block(&bytes) {
        Some((block, _)) if block.label == "CERTIFICATE REQUEST" => Ok(()),
        _ => Err("PEM block type must be CERTIFICATE REQUEST"),
    }
}

/// Error in the form of certificates.
fn certificate_fault(text: &str) -> Option<String> {
    let bytes = base64::decode(text).unwrap_or_default();
    let mut rest = &bytes[..];
    let mut blocks = 0;
    while let Some((block, after)) = pem::next_block(rest) {
        if block.label != "CERTIFICATE" {
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found {:?}", block.label));
        }
        if block.has_headers {
            return Some("no PEM block headers are permitted".to_owned());
        }
        blocks += 1;
        rest = after;
    }
    (blocks == 0 && !text.is_empty()).then(|| "must contain at least one CERTIFICATE PEM block".to_owned())
}

fn check_usages(errors: &mut ErrorList, path: &Path<'_>, usages: &[&str], old: &[&str]) {
    if usages.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    if old.iter().all(|usage| USAGES.contains(usage)) {
        for (i, usage) in usages.iter().enumerate() {
            check::check_one_of(errors, &path.index(i), usage, &USAGES);
        }
    }
    let distinct: BTreeSet<&&str> = old.iter().collect();
    if distinct.len() < old.len() {
        return;
    }
    let mut seen = BTreeSet::new();
    for (i, usage) in usages.iter().enumerate() {
        if !seen.insert(usage) {
            errors.push(FieldError::duplicate(&path.index(i), BadValue::json_string(usage)));
        }
    }
}

/// Validates conditions. Returns the error for a request that is both approved and denied, which must come
/// last.
fn check_conditions(errors: &mut ErrorList, object: &Value, old: Option<&Value>) -> Option<FieldError> {
    let types = |object| {
        let conditions = check::list(check::field(object, "status"), "conditions").iter();
        conditions.map(|one| check::text(one, "type")).collect::<Vec<_>>()
    };
    let old_types = old.map(types).unwrap_or_default();
    let old_distinct: BTreeSet<&str> = old_types.iter().copied().collect();
    let (allow_empty, allow_duplicates) = (old_distinct.contains(""), old_distinct.len() < old_types.len());
    let path = Path::root("status");
    let path = path.child("conditions");
    let mut seen = BTreeSet::new();
    for (i, one) in check::list(check::field(object, "status"), "conditions").iter().enumerate() {
        let (path, kind) = (path.index(i), check::text(one, "type"));
        if kind.is_empty() && !allow_empty {
            errors.push(FieldError::required(&path.child("type"), ""));
        }
        let only_true = matches!(kind, "Approved" | "Denied" | "Failed");
        let allowed: &[&str] = if only_true { &["True"] } else { &["False", "True", "Unknown"] };
        match check::text(one, "status") {
            "" => errors.push(FieldError::required(&path.child("status"), "")),
            status => check::check_one_of(errors, &path.child("status"), status, allowed),
        }
        if !seen.insert(kind) && !allow_duplicates {
            errors.push(FieldError::duplicate(&path.child("type"), BadValue::json_string(kind)));
        }
    }
    let both = |types: &BTreeSet<&str>| types.contains("Approved") && types.contains("Denied");
    (both(&seen) && !both(&old_distinct)).then(|| {
        let members = ["conditions[{\"type\": \"Approved\"}]", "conditions[{\"type\": \"Denied\"}]"];
        let detail = format!("must specify at most one of: `{}`, `{}`", members[0], members[1]);
        FieldError::invalid(&path, format!("{{{}}}", members.join(", ")), detail).into()
    })
}
