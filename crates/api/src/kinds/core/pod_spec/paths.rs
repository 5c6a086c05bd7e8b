//! Validation of file paths, which must not leave their root.

use crate::field_error::{ErrorList, Path};
use crate::kinds::read::push_invalid;

/// Rejects a path with a `..` segment.
pub(crate) fn check_no_backsteps(errors: &mut ErrorList, path: &Path<'_>, file: &str) {
    if file.split('/').any(|step| step == "..") {
        push_invalid(errors, path, file, "must not contain '..'");
    }
}

/// Rejects an absolute path, or one with a `..` segment.
pub(crate) fn check_descending(errors: &mut ErrorList, path: &Path<'_>, file: &str) {
    if file.starts_with('/') {
        push_invalid(errors, path, file, "must be a relative path");
    }
    check_no_backsteps(errors, path, file);
}

/// Rejects a path that leaves its root, or whose name is reserved for the atomic writer of files.
pub(crate) fn check_descending_unreserved(errors: &mut ErrorList, path: &Path<'_>, file: &str) {
    check_descending(errors, path, file);
    if file.starts_with("..") && !file.starts_with("../") {
        push_invalid(errors, path, file, "must not start with '..'");
    }
}
