//! Validation of file paths, which must not leave their root.

use crate::field_error::{ErrorList, Path};
use crate::kinds::read::invalid;

/// Rejects a path with a `..` segment.
pub(crate) fn no_backsteps(errors: &mut ErrorList, path: &Path<'_>, file: &str) {
    if file.split('/').any(|step| step == "..") {
        invalid(errors, path, file, "must not contain '..'");
    }
}

/// Rejects an absolute path, or one with a `..` segment.
pub(crate) fn descending(errors: &mut ErrorList, path: &Path<'_>, file: &str) {
    if file.starts_with('/') {
        invalid(errors, path, file, "must be a relative path");
    }
    no_backsteps(errors, path, file);
}

/// Rejects a path that leaves its root, or whose name is reserved for the atomic writer of files.
pub(crate) fn descending_unreserved(errors: &mut ErrorList, path: &Path<'_>, file: &str) {
    descending(errors, path, file);
    if file.starts_with("..") && !file.starts_with("../") {
        invalid(errors, path, file, "must not start with '..'");
    }
}
