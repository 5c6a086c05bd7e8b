//! The kinds of the apps group.

pub mod controller_revision;
pub mod daemon_set;
pub mod deployment;
pub mod replica_set;
pub mod stateful_set;

use super::core::pod_spec;
use crate::field_error::Path;
use crate::value::Value;

/// Adds the warnings for `spec.template`.
fn warn_of_template(new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    let at = ["spec", "template"];
    if let Some(template) = new.at(&at) {
        let spec = Path::root("spec");
        pod_spec::template_warnings(
            template,
            old.and_then(|old| old.at(&at)),
            &spec.child("template"),
            warnings,
        );
    }
}

#[cfg(test)]
mod tests;
