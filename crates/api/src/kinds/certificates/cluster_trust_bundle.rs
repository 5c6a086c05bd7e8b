//! ClusterTrustBundle: trusted root certificates.

use std::collections::BTreeMap;

use super::{pem, signer};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::fields::{FieldLabels, UnsupportedLabel};
use crate::kinds::{Rules, SelectableFields, check};
use crate::names::{NameRule, dns};
use crate::value::Value;

const BUNDLE_BYTES_MAX: usize = 1 << 20;
const OMITTED: &str = "<value omitted>";

/// Rules of ClusterTrustBundle. Its name must begin with that of its signer, so it has a format of its own.
pub struct ClusterTrustBundle;

impl Rules for ClusterTrustBundle {
    fn name_rule(&self) -> NameRule {
        NameRule::Any
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check(object, None, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, Some(old), errors);
        let signer = new.str_at(&["spec", "signerName"]);
        if signer != old.str_at(&["spec", "signerName"]) {
            let path = Path::root("spec");
            errors.push(FieldError::invalid(&path.child("signerName"), signer, check::IMMUTABLE));
        }
    }

    fn allows_unconditional_update(&self) -> bool {
        false
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

fn check(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let (signer, path) = (object.str_at(&["spec", "signerName"]), Path::root("spec"));
    check_name(errors, object.str_at(&["metadata", "name"]), signer);
    if !signer.is_empty() {
        signer::check_name(errors, &path.child("signerName"), signer);
    }
    let bundle = object.str_at(&["spec", "trustBundle"]);
    if old.is_none_or(|old| old.str_at(&["spec", "trustBundle"]) != bundle) {
        check_anchors(errors, &path.child("trustBundle"), bundle);
    }
}

fn check_name(errors: &mut ErrorList, name: &str, signer: &str) {
    let path = Path::root("metadata");
    let path = path.child("name");
    if signer.is_empty() {
        if name.contains(':') {
            let detail = "ClusterTrustBundle without signer name must not have \":\" in its name";
            return errors.push(FieldError::invalid(&path, name, detail));
        }
        return errors.push_invalid(&path, name, dns::subdomain(name));
    }
    let prefix = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&prefix) {
        Some(rest) => errors.push_invalid(&path, name, dns::subdomain(rest)),
        None => {
            let detail =
                format!("ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}");
            errors.push(FieldError::invalid(&path, name, detail));
        }
    }
}

fn check_anchors(errors: &mut ErrorList, path: &Path<'_>, bundle: &str) {
    if bundle.len() > BUNDLE_BYTES_MAX {
        return errors.push(FieldError::too_long(path, BUNDLE_BYTES_MAX));
    }
    let mut reject = |detail: String| errors.push(FieldError::invalid(path, OMITTED, detail));
    let mut places: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
    let mut rest = bundle.as_bytes();
    let (mut entry, mut all_good) = (0, true);
    while let Some((block, after)) = pem::next_block(rest) {
        rest = after;
        let fault = match (block.label.as_str(), block.has_headers) {
            ("CERTIFICATE", false) => None,
            ("CERTIFICATE", true) => Some(format!("entry {entry} has PEM block headers")),
            (label, _) => Some(format!("entry {entry} has bad block type: {label}")),
        };
        match fault {
            Some(fault) => {
                all_good = false;
                reject(fault);
            }
            None => places.entry(block.bytes).or_default().push(entry),
        }
        entry += 1;
    }
    if !all_good {
        return;
    }
    if places.is_empty() {
        reject("at least one trust anchor must be provided".to_owned());
    }
    for places in places.values().filter(|places| places.len() > 1) {
        let places: Vec<String> = places.iter().map(usize::to_string).collect();
        reject(format!("duplicate trust anchor (indices [{}])", places.join(" ")));
    }
}
