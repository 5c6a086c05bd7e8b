//! Validation of names, stored versions and the approval of protected groups.

use std::collections::BTreeMap;

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::admissionregistration::url;
use crate::kinds::check;
use crate::names::{Faults, dns};
use crate::value::Value;

const APPROVAL: &str = "api-approved.kubernetes.io";
const PULL_REQUEST: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// Adds one error with all messages about a value.
pub(super) fn push_joined(errors: &mut ErrorList, path: &Path<'_>, text: &str, faults: &Faults) {
    if !faults.is_empty() {
        errors.push(FieldError::invalid(path, text, faults.join(",")));
    }
}

/// Validates that a definition is named after its resource.
pub(super) fn check_object_name(errors: &mut ErrorList, object: &Value) {
    let spec = check::field(object, "spec");
    let expected =
        format!("{}.{}", check::text(check::field(spec, "names"), "plural"), check::text(spec, "group"));
    let path = Path::root("metadata");
    for field in ["generateName", "name"] {
        let name = object.str_at(&["metadata", field]);
        if !name.is_empty() && name != expected {
            let detail = "must be spec.names.plural+\".\"+spec.group";
            errors.push(FieldError::invalid(&path.child(field), name, detail));
        }
    }
}

/// Validates the group.
pub(super) fn check_group(errors: &mut ErrorList, path: &Path<'_>, group: &str) {
    let path = path.child("group");
    if group.is_empty() {
        return errors.push(FieldError::required(&path, ""));
    }
    let faults = dns::subdomain(group);
    if !faults.is_empty() {
        push_joined(errors, &path, group, &faults);
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(&path, group, "should be a domain with at least one dot"));
    }
}

/// Adds errors for missing names, which only the spec requires.
pub(super) fn require_names(errors: &mut ErrorList, path: &Path<'_>, names: &Value) {
    for field in ["plural", "singular", "kind", "listKind"] {
        if check::text(names, field).is_empty() {
            errors.push(FieldError::required(&path.child(field), ""));
        }
    }
}

/// Validates the names of a resource, where they are present.
pub(super) fn check_names(errors: &mut ErrorList, path: &Path<'_>, names: &Value) {
    for field in ["plural", "singular"] {
        let text = check::text(names, field);
        if !text.is_empty() {
            push_joined(errors, &path.child(field), text, &dns::label_1035(text));
        }
    }
    for field in ["kind", "listKind"] {
        let text = check::text(names, field);
        let faults = dns::label_1035(&text.to_lowercase());
        if !text.is_empty() && !faults.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", faults.join(","));
            errors.push(FieldError::invalid(&path.child(field), text, detail));
        }
    }
    check_labels(errors, path, names, "shortNames");
    let (kind, list_kind) = (check::text(names, "kind"), check::text(names, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(&path.child("listKind"), list_kind, detail));
    }
    check_labels(errors, path, names, "categories");
}

fn check_labels(errors: &mut ErrorList, path: &Path<'_>, names: &Value, field: &str) {
    let path = path.child(field);
    for (i, text) in check::texts(names, field).into_iter().enumerate() {
        push_joined(errors, &path.index(i), text, &dns::label_1035(text));
    }
}

/// Validates `status.acceptedNames`.
pub(super) fn check_accepted_names(errors: &mut ErrorList, object: &Value) {
    let status = Path::root("status");
    let names = check::field(check::field(object, "status"), "acceptedNames");
    check_names(errors, &status.child("acceptedNames"), names);
}

/// Validates `status.storedVersions`: a version stays defined until no object is stored in it.
pub(super) fn check_stored_versions(errors: &mut ErrorList, object: &Value) {
    let status = Path::root("status");
    let path = status.child("storedVersions");
    let stored = check::texts(check::field(object, "status"), "storedVersions");
    if stored.is_empty() {
        let detail = "must have at least one stored version";
        return errors.push(FieldError::invalid(&path, check::shown_texts(&stored), detail));
    }
    let versions = check::list(check::field(object, "spec"), "versions");
    // The last position of each version: both lists can be long.
    let mut positions: BTreeMap<&str, usize> =
        stored.iter().enumerate().map(|(i, name)| (*name, i)).collect();
    for version in versions {
        let name = check::text(version, "name");
        // Each stored version is found once, so a second storage version of the same name is an error as upstream.
        let is_stored = positions.remove(name).is_some();
        if check::boolean(version, "storage") && !is_stored && !errors.is_full() {
            let detail = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(&path, check::shown_texts(&stored), detail));
        }
    }
    let mut missing: Vec<(usize, &str)> = positions.into_iter().map(|(name, i)| (i, name)).collect();
    missing.sort_unstable();
    for (i, name) in missing {
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        );
        errors.push(FieldError::invalid(&path.index(i), name, detail));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Approval {
    Missing,
    Bypassed,
    Approved,
    Invalid,
}

fn approval(object: &Value) -> (Approval, &str) {
    let text = object.str_at(&["metadata", "annotations", APPROVAL]);
    let state = match text {
        "" => Approval::Missing,
        text if text.starts_with("unapproved") => Approval::Bypassed,
        text if url::has_scheme_and_host(text) => Approval::Approved,
        _ => Approval::Invalid,
    };
    (state, text)
}

/// `true` if definitions of this group need an approval.
#[must_use]
pub(super) fn is_protected_group(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// Validates the approval of a definition in a protected group. A state that did not change is accepted.
pub(super) fn check_approval(errors: &mut ErrorList, new: &Value, old: Option<&Value>) {
    if !is_protected_group(new.str_at(&["spec", "group"])) {
        return;
    }
    let (state, text) = approval(new);
    if old.is_some_and(|old| approval(old).0 == state) {
        return;
    }
    let metadata = Path::root("metadata");
    let annotations = metadata.child("annotations");
    let path = annotations.key(APPROVAL);
    match state {
        Approval::Missing => {
            let detail =
                format!("protected groups must have approval annotation \"{APPROVAL}\", {PULL_REQUEST}");
            errors.push(FieldError::required(&path, detail));
        }
        Approval::Invalid => {
            let detail = format!(
                "protected groups must have approval annotation \"{APPROVAL}\" with either a URL or a reason starting with \"unapproved\", {PULL_REQUEST}"
            );
            errors.push(FieldError::invalid(&path, text, detail));
        }
        Approval::Approved | Approval::Bypassed => {}
    }
}

/// Adds an error if an immutable string changed.
pub(super) fn check_unchanged(
    errors: &mut ErrorList,
    path: &Path<'_>,
    new: &Value,
    old: &Value,
    field: &str,
) {
    let text = check::text(new, field);
    if text != check::text(old, field) {
        errors.push(FieldError::invalid(&path.child(field), BadValue::from(text), check::IMMUTABLE));
    }
}
