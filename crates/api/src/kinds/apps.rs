//! Kinds of the group `apps`.

pub mod controller_revision;
pub mod daemon_set;
pub mod deployment;
pub mod replica_set;
pub mod stateful_set;

use super::core::pod_spec;
use super::workload::{check_at_most, drop_disabled_template, warn_about_name};
use super::{Rules, check_immutable, keep};
use crate::field_error::{ErrorList, Path};
use crate::value::Value;

/// Path of the pod template.
const TEMPLATE: [&str; 2] = ["spec", "template"];

/// Clears the status and disabled fields of the template.
fn prepare_create(object: &mut Value) {
    if let Some(map) = object.as_map_mut() {
        map.remove("status");
    }
    drop_disabled_template(object, &TEMPLATE);
}

/// Keeps the status and clears disabled fields of the template.
fn prepare_update(new: &mut Value, old: &Value) {
    keep(new, old, "status");
    drop_disabled_template(new, &TEMPLATE);
}

/// Rejects a change of the selector.
fn check_same_selector(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (at, spec) = (["spec", "selector"], Path::root("spec"));
    check_immutable(errors, &spec.child("selector"), new.at(&at), old.at(&at));
}

/// Checks that no counter exceeds the replicas, and that available does not exceed `ready`.
fn check_parts(errors: &mut ErrorList, status: &Value, path: &Path<'_>, parts: &[&str], ready: &'static str) {
    check_at_most(errors, status, path, parts, "replicas", "cannot be greater than status.replicas");
    check_at_most(errors, status, path, &["availableReplicas"], "readyReplicas", ready);
}

/// Warnings of a kind whose name is a prefix of its pods' names.
fn warnings(rules: &dyn Rules, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_none() {
        warn_about_name(new, &mut warnings);
    }
    if old.is_none_or(|old| rules.has_new_generation(new, old)) {
        warn_about_template(new, old, &mut warnings);
    }
    warnings
}

/// Adds the warnings of `spec.template`.
fn warn_about_template(new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
    if let Some(template) = new.at(&TEMPLATE) {
        let spec = Path::root("spec");
        pod_spec::template_warnings(
            template,
            old.and_then(|old| old.at(&TEMPLATE)),
            &spec.child("template"),
            warnings,
        );
    }
}

#[cfg(test)]
mod tests;
