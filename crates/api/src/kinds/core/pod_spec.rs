//! Pod specs and templates: defaults, validation and warnings.
//!
//! Every kind with a pod template calls [`default_template`], [`drop_disabled_template`],
//! [`validate_template`] and [`template_warnings`]; Pod shares the parts below. Errors come in upstream's
//! order; where that is the random order of a Go map, in key order.
//!
//! Upstream relaxes some rules for updates of objects that were stored under older rules. This server has no
//! such objects, so updates are validated like creates.

use std::collections::BTreeSet;

use crate::field_error::{ErrorList, Path};
use crate::names::{dns, key, metadata};
use crate::value::Value;

mod affinity;
pub(crate) mod annotations;
pub(crate) mod containers;
pub(crate) mod defaults;
mod diff;
mod disabled;
mod env;
mod image;
pub(crate) mod internal;
mod mounts;
mod paths;
mod probes;
pub(crate) mod resources;
pub(crate) mod scheduling;
mod security;
mod volumes;
mod warnings;
mod windows;

pub(crate) use affinity::apply_label_keys;
pub(crate) use affinity::check_node_selector;
pub(crate) use defaults::default_claim_spec;
pub(crate) use disabled::{drop_disabled, drop_disabled_status};
pub use resources::qos_class;
pub(crate) use scheduling::check_tolerations;
pub(crate) use volumes::check_claim_spec;
pub(crate) use warnings::spec_warnings;

use crate::kinds::read::{
    boolean, check_required_enum, check_supported, list, optional_boolean, optional_number, optional_text,
    present, push_forbidden, push_invalid, push_number_faults, push_required, text, text_entries,
};
use containers::PodContext;

/// Sets the defaults of a pod template. Idempotent.
pub fn default_template(template: &mut Value) {
    defaults::spec(template.make_map().ensure("spec", Value::map));
}

/// Clears fields of disabled features in a pod template; kinds call it when they prepare a write.
pub fn drop_disabled_template(template: &mut Value) {
    drop_disabled(template);
}

/// Validates a pod template at `path`.
pub fn validate_template(template: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let none = Value::map();
    let (meta, spec) =
        (present(template, "metadata").unwrap_or(&none), present(template, "spec").unwrap_or(&none));
    let (annotations_path, spec_path) = (path.child("annotations"), path.child("spec"));
    metadata::labels(errors, &path.child("labels"), text_entries(meta, "labels"));
    metadata::annotations(errors, &annotations_path, text_entries(meta, "annotations"));
    annotations::validate(errors, &annotations_path, meta, spec);
    validate_spec(errors, &spec_path, spec, Holder::Template);
    annotations::check_agree_with_fields(errors, &spec_path, meta, spec);
    if !list(spec, "ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        push_forbidden(errors, &spec_path.child("ephemeralContainers"), detail);
    }
}

/// Validates a pod template that replaces an older one.
pub fn validate_template_update(new: &Value, _old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_template(new, path, errors);
}

/// Warnings of a pod template at `path`. The older template, if any, makes no difference yet.
pub fn template_warnings(
    template: &Value,
    _old: Option<&Value>,
    path: &Path<'_>,
    warnings: &mut Vec<String>,
) {
    spec_warnings(template, path, true, warnings);
}

/// Object that contains a pod spec.
#[derive(Clone, Copy)]
pub(crate) enum Holder<'a> {
    /// A template.
    Template,
    /// A pod, with its metadata.
    Pod(&'a Value),
}

/// Calls `visit` with each container of a spec and its path: init containers first.
pub(crate) fn each_container<'a>(
    spec: &'a Value,
    path: &Path<'_>,
    mut visit: impl FnMut(&'a Value, &Path<'_>),
) {
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        let path = path.child(field);
        for (i, container) in list(spec, field).iter().enumerate() {
            visit(container, &path.index(i));
        }
    }
}

/// Validates a pod spec.
pub(crate) fn validate_spec(errors: &mut ErrorList, path: &Path<'_>, spec: &Value, holder: Holder<'_>) {
    let grace = optional_number(spec, "terminationGracePeriodSeconds");
    if grace.is_none() {
        push_required(errors, &path.child("terminationGracePeriodSeconds"), "");
    }
    let (pod_name, is_mirror) = match holder {
        Holder::Template => ("", false),
        Holder::Pod(meta) => {
            (text(meta, "name"), crate::kinds::read::annotation(meta, annotations::MIRROR).is_some())
        }
    };
    let volumes = volumes::check_volumes(errors, &path.child("volumes"), spec, pod_name);
    let claims = list(spec, "resourceClaims").iter().map(|claim| text(claim, "name"));
    let claim_names: BTreeSet<&str> = claims.filter(|name| !name.is_empty()).collect();
    resources::check_pod_claims(errors, &path.child("resourceClaims"), spec, is_mirror);
    let host_users = optional_boolean(spec, "hostUsers") != Some(false);
    let context =
        PodContext { volumes, claim_names, grace, restarts: text(spec, "restartPolicy"), host_users };
    containers::check_regular(errors, &path.child("containers"), spec, &context);
    containers::check_init(errors, &path.child("initContainers"), spec, &context);
    containers::check_ephemeral(errors, &path.child("ephemeralContainers"), spec, &context);
    resources::check_pod_level(errors, path, spec, &context.claim_names);
    if boolean(spec, "hostNetwork") {
        containers::check_ports_on_host(errors, path, spec, matches!(holder, Holder::Pod(_)));
    }
    check_policies(errors, path, spec);
    metadata::labels(errors, &path.child("nodeSelector"), text_entries(spec, "nodeSelector"));
    security::check_pod(errors, &path.child("securityContext"), spec);
    if boolean(spec, "hostPID") && boolean(spec, "shareProcessNamespace") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        push_invalid(errors, &path.child("shareProcessNamespace"), true, detail);
    }
    if let Some(affinity) = present(spec, "affinity") {
        affinity::check_affinity(errors, &path.child("affinity"), affinity);
    }
    scheduling::check_dns_config(errors, &path.child("dnsConfig"), spec);
    scheduling::check_gates(errors, path, spec);
    let constraints = list(spec, "topologySpreadConstraints");
    scheduling::check_spread_constraints(errors, &path.child("topologySpreadConstraints"), constraints);
    windows::check_host_process(errors, path, spec);
    security::check_host_users(errors, path, spec);
    scheduling::check_hostname_override(errors, path, spec);
    check_names(errors, path, spec);
    scheduling::check_tolerations(errors, &path.child("tolerations"), list(spec, "tolerations"));
    scheduling::check_host_aliases(errors, path, spec);
    check_classes(errors, path, spec);
    windows::check_operating_system(errors, path, spec);
    each_container(spec, path, |container, path| {
        containers::check_file_references(errors, path, container, list(spec, "volumes"));
    });
}

fn check_policies(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let restarts = text(spec, "restartPolicy");
    check_required_enum(errors, &path.child("restartPolicy"), restarts, &["Always", "OnFailure", "Never"]);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    check_required_enum(errors, &path.child("dnsPolicy"), text(spec, "dnsPolicy"), &policies);
}

fn check_names(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let account = text(spec, "serviceAccountName");
    if !account.is_empty() {
        errors.push_invalid(&path.child("serviceAccountName"), account, dns::subdomain(account));
    }
    let deprecated = text(spec, "serviceAccount");
    if deprecated != account {
        let detail = format!("must be the same as serviceAccountName: {}", crate::quote::Quoted(account));
        push_invalid(errors, &path.child("deprecatedServiceAccount"), deprecated, detail);
    }
    let node = text(spec, "nodeName");
    if !node.is_empty() {
        errors.push_invalid(&path.child("nodeName"), node, dns::subdomain(node));
    }
    if let Some(seconds) = optional_number(spec, "activeDeadlineSeconds") {
        let faults = key::in_range(seconds, 1, i64::from(i32::MAX));
        push_number_faults(errors, &path.child("activeDeadlineSeconds"), seconds, faults);
    }
    for field in ["hostname", "subdomain"] {
        let name = text(spec, field);
        if !name.is_empty() {
            errors.push_invalid(&path.child(field), name, dns::label(name));
        }
    }
}

fn check_classes(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let priority = text(spec, "priorityClassName");
    if !priority.is_empty() {
        errors.push_invalid(&path.child("priorityClassName"), priority, dns::subdomain(priority));
    }
    if let Some(runtime) = optional_text(spec, "runtimeClassName") {
        errors.push_invalid(&path.child("runtimeClassName"), runtime, dns::subdomain(runtime));
    }
    match optional_text(spec, "preemptionPolicy") {
        None => {}
        Some("") => push_required(errors, &path.child("preemptionPolicy"), ""),
        Some(policy) => {
            check_supported(
                errors,
                &path.child("preemptionPolicy"),
                policy,
                &["PreemptLowerPriority", "Never"],
            );
        }
    }
    if present(spec, "overhead").is_some() {
        resources::check_overhead(errors, &path.child("overhead"), spec);
    }
}

#[cfg(test)]
pub(crate) mod tests;
