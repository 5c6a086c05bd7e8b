//! Formats of labels, annotations and finalizers.
//!
//! Errors come in the order of the iterator: pass maps sorted by key, so that the same object always gets the
//! same response.

use std::collections::BTreeSet;

use super::key;
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::quote::Quoted;

/// Maximum bytes of all annotations of an object, keys and values together.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;
/// Finalizer that orphans the dependents of a deleted owner.
pub const FINALIZER_ORPHAN: &str = "orphan";
/// Finalizer that deletes an owner after its dependents.
pub const FINALIZER_FOREGROUND: &str = "foregroundDeletion";

/// Finalizers without a domain prefix.
const FINALIZERS_STANDARD: [&str; 3] = ["kubernetes", FINALIZER_ORPHAN, FINALIZER_FOREGROUND];

/// Checks labels.
pub fn labels<'a>(
    errors: &mut ErrorList,
    path: &Path<'_>,
    labels: impl IntoIterator<Item = (&'a str, &'a str)>,
) {
    for (label, value) in labels {
        errors.push_invalid(path, label, key::label_key(label));
        errors.push_invalid(path, value, key::label_value(value));
    }
}

/// Checks annotations: their lower-cased keys, and their total size.
pub fn annotations<'a>(
    errors: &mut ErrorList,
    path: &Path<'_>,
    annotations: impl IntoIterator<Item = (&'a str, &'a str)>,
) {
    let mut bytes: usize = 0;
    for (annotation, value) in annotations {
        bytes = bytes.saturating_add(annotation.len()).saturating_add(value.len());
        let faults = key::label_key(annotation);
        // Only the prefix is case-sensitive, so a valid key is valid in lower case too.
        if !faults.is_empty() {
            errors.push_invalid(path, annotation, key::label_key(&annotation.to_lowercase()));
        }
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        errors.push(FieldError::too_long(path, ANNOTATIONS_BYTES_MAX));
    }
}

/// Checks finalizers by the rule for all objects.
pub fn finalizers<S: AsRef<str>>(errors: &mut ErrorList, path: &Path<'_>, finalizers: &[S]) {
    for finalizer in finalizers {
        errors.push_invalid(path, finalizer.as_ref(), key::label_key(finalizer.as_ref()));
    }
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer.as_ref() == name);
    if has(FINALIZER_ORPHAN) && has(FINALIZER_FOREGROUND) {
        let detail = format!("finalizer {FINALIZER_ORPHAN} and {FINALIZER_FOREGROUND} cannot be both set");
        errors.push(FieldError::invalid(path, BadValue::json_strings(finalizers), detail));
    }
}

/// Checks one finalizer of a built-in kind: a name without a domain must be a standard one.
pub(crate) fn finalizer_standard(errors: &mut ErrorList, path: &Path<'_>, finalizer: &str) {
    if !finalizer.contains('/') && !FINALIZERS_STANDARD.contains(&finalizer) {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(FieldError::invalid(path, finalizer, detail));
    }
}

/// Checks that an object in deletion gets no new finalizers.
pub(crate) fn finalizers_only_removed<S: AsRef<str>>(
    errors: &mut ErrorList,
    path: &Path<'_>,
    new: &[S],
    old: &[S],
) {
    let is_new = |name: &&str| !old.iter().any(|known| known.as_ref() == *name);
    let added: BTreeSet<&str> = new.iter().map(AsRef::as_ref).filter(is_new).collect();
    if !added.is_empty() {
        let added: Vec<String> = added.into_iter().map(|name| Quoted(name).to_string()).collect();
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        );
        errors.push(FieldError::forbidden(path, detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(check: impl FnOnce(&mut ErrorList, &Path<'_>)) -> Vec<String> {
        let mut errors = ErrorList::new();
        check(&mut errors, &Path::root("f"));
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn annotation_keys_are_case_insensitive_and_their_size_is_bounded() {
        assert!(errors(|e, p| annotations(e, p, [("Example.COM/Key", "any \n text")])).is_empty());
        let half = "x".repeat(ANNOTATIONS_BYTES_MAX / 2);
        assert!(errors(|e, p| annotations(e, p, [("a", &half[1..]), ("b", &half[1..])])).is_empty());
        assert_eq!(
            errors(|e, p| annotations(e, p, [("a", half.as_str()), ("b", &half[1..])])),
            ["f: Too long: may not be more than 262144 bytes"]
        );
        assert_eq!(errors(|e, p| annotations(e, p, [("a b", "")])).len(), 1);
    }

    #[test]
    fn label_errors_are_reported_at_the_map() {
        let found = errors(|e, p| labels(e, p, [("a b", "c d"), ("x", "y")]));
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("f: Invalid value: \"a b\": name part must consist"), "{found:?}");
        assert!(found[1].starts_with("f: Invalid value: \"c d\": a valid label must be"), "{found:?}");
    }

    #[test]
    fn contradicting_finalizers_are_rejected() {
        assert!(errors(|e, p| finalizers(e, p, &["orphan", "example.com/x"])).is_empty());
        assert_eq!(
            errors(|e, p| finalizers(e, p, &["orphan", "foregroundDeletion"])),
            [
                "f: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set"
            ]
        );
    }

    #[test]
    fn finalizers_without_a_domain_must_be_standard() {
        assert!(errors(|e, p| finalizer_standard(e, p, "kubernetes")).is_empty());
        assert!(errors(|e, p| finalizer_standard(e, p, "a/b")).is_empty());
        assert_eq!(
            errors(|e, p| finalizer_standard(e, &p.index(0), "nope")),
            [
                "f[0]: Invalid value: \"nope\": name is neither a standard finalizer name nor is it fully qualified"
            ]
        );
    }

    #[test]
    fn object_in_deletion_gets_no_new_finalizers() {
        assert!(errors(|e, p| finalizers_only_removed(e, p, &["a"], &["b", "a"])).is_empty());
        assert_eq!(
            errors(|e, p| finalizers_only_removed(e, p, &["c", "b", "a", "b"], &["a"])),
            [
                "f: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"b\", \"c\"}"
            ]
        );
    }
}
