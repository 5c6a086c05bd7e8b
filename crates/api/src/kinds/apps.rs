//! The kinds of the apps group.

pub mod controller_revision;
pub mod daemon_set;
pub mod deployment;
pub mod replica_set;
pub mod stateful_set;

use super::core::pod_spec;
use super::workload::{at_most, drop_disabled_template, warn_of_name};
use super::{Rules, check_immutable, keep};
use crate::field_error::{ErrorList, Path};
use crate::value::Value;

/// Where the template of the pods is.
const TEMPLATE: [&str; 2] = ["spec", "template"];

/// A new object has no status yet, and its template nothing that is switched off.
fn prepare_create(object: &mut Value) {
    if let Some(map) = object.as_map_mut() {
        map.remove("status");
    }
    drop_disabled_template(object, &TEMPLATE);
}

/// The status has a way of its own.
fn prepare_update(new: &mut Value, old: &Value) {
    keep(new, old, "status");
    drop_disabled_template(new, &TEMPLATE);
}

/// Whose pods are whose never changes.
fn check_same_selector(new: &Value, old: &Value, errors: &mut ErrorList) {
    let (at, spec) = (["spec", "selector"], Path::root("spec"));
    check_immutable(errors, &spec.child("selector"), new.at(&at), old.at(&at));
}

/// No part of the pods is larger than the whole, and none is available before it is ready, which `ready` says.
fn check_parts(errors: &mut ErrorList, status: &Value, path: &Path<'_>, parts: &[&str], ready: &'static str) {
    at_most(errors, status, path, parts, "replicas", "cannot be greater than status.replicas");
    at_most(errors, status, path, &["availableReplicas"], "readyReplicas", ready);
}

/// The warnings of a kind whose name becomes part of its pods' names.
fn warnings(rules: &dyn Rules, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_none() {
        warn_of_name(new, &mut warnings);
    }
    if old.is_none_or(|old| rules.has_new_generation(new, old)) {
        warn_of_template(new, old, &mut warnings);
    }
    warnings
}

/// Adds the warnings for `spec.template`.
fn warn_of_template(new: &Value, old: Option<&Value>, warnings: &mut Vec<String>) {
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
