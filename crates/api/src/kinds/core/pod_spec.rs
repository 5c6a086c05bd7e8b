//! What a pod is made of: defaults, validation and warnings of pod specs and of the templates that hold them.
//!
//! Every kind with a pod template calls [`default_template`], [`validate_template`] and [`template_warnings`];
//! Pod itself shares the parts below.

use crate::field_error::{ErrorList, Path};
use crate::value::Value;

/// Fills in what a pod template leaves out. Idempotent.
pub fn default_template(template: &mut Value) {
    let _ = template;
}

/// What is wrong with a pod template, found at `path`.
pub fn validate_template(template: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let _ = (template, path, errors);
}

/// What is wrong with a pod template that takes the place of an older one: as [`validate_template`], but what
/// the older one was allowed to say may stay.
pub fn validate_template_update(new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let _ = old;
    validate_template(new, path, errors);
}

/// What the writer of a pod template, found at `path`, should know although it is no error.
pub fn template_warnings(template: &Value, old: Option<&Value>, path: &Path<'_>, warnings: &mut Vec<String>) {
    let _ = (template, old, path, warnings);
}
