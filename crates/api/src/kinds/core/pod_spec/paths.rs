//! Paths of files that a spec names: none may lead out of where it starts.

use crate::field_error::{ErrorList, Path};
use crate::kinds::read::invalid;

/// A path without a step back.
pub(crate) fn no_backsteps(errors: &mut ErrorList, path: &Path<'_>, file: &str) {
    if file.split('/').any(|step| step == "..") {
        invalid(errors, path, file, "must not contain '..'");
    }
}

/// A path that starts nowhere and has no step back.
pub(crate) fn descending(errors: &mut ErrorList, path: &Path<'_>, file: &str) {
    if file.starts_with('/') {
        invalid(errors, path, file, "must be a relative path");
    }
    no_backsteps(errors, path, file);
}

/// A descending path whose name is not one that the writer of files keeps for itself.
pub(crate) fn descending_unreserved(errors: &mut ErrorList, path: &Path<'_>, file: &str) {
    descending(errors, path, file);
    if file.starts_with("..") && !file.starts_with("../") {
        invalid(errors, path, file, "must not start with '..'");
    }
}
