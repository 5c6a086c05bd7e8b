//! Pod: containers that share a node, an address and volumes.
//!
//! A pod has several endpoints with rules of their own: the pod itself, `status`, `ephemeralcontainers`,
//! `resize` and `binding`. [`Pod`] implements the first two; the functions re-exported here are for the
//! others.

use super::pod_spec::{self, Holder, annotations, containers, defaults, resources};
use crate::field_error::{ErrorList, Path};
use crate::fields::{FieldLabels, UnsupportedLabel};
use crate::kinds::read::{
    annotation, boolean, check_nonnegative, list, number, present, push_forbidden, text,
};
use crate::kinds::{Rules, SelectableFields, keep};
use crate::names::{dns, ip};
use crate::value::{Map, Value};

mod binding;
mod ephemeral;
mod resize;
mod status;
mod update;

pub use super::pod_spec::annotations::is_obsolete;
pub use super::pod_spec::qos_class;
pub use binding::{BindError, bind, validate_binding};
pub use ephemeral::{prepare_ephemeral_containers, validate_ephemeral_containers};
pub use resize::{prepare_resize, validate_resize};

/// Rules of Pod.
pub struct Pod;

const LABELS: FieldLabels<'static> = FieldLabels {
    known: &[
        ("metadata.name", "metadata.name"),
        ("metadata.namespace", "metadata.namespace"),
        ("spec.nodeName", "spec.nodeName"),
        ("spec.restartPolicy", "spec.restartPolicy"),
        ("spec.schedulerName", "spec.schedulerName"),
        ("spec.serviceAccountName", "spec.serviceAccountName"),
        ("spec.hostNetwork", "spec.hostNetwork"),
        ("status.phase", "status.phase"),
        ("status.podIP", "status.podIP"),
        ("status.podIPs", "status.podIPs"),
        ("status.nominatedNodeName", "status.nominatedNodeName"),
        // Label of old clients.
        ("spec.host", "spec.nodeName"),
    ],
    unsupported: UnsupportedLabel::Plain,
};

impl Rules for Pod {
    fn default(&self, object: &mut Value) {
        let map = object.make_map();
        let spec = map.ensure("spec", Value::map);
        defaults::pod_spec(spec);
        defaults::spec(spec);
        self.default_status(object);
    }

    fn default_status(&self, object: &mut Value) {
        if let Some(status) = object.get_mut("status") {
            defaults::status(status);
        }
    }

    fn raw_spec_fields(&self) -> &'static [&'static str] {
        &[
            "affinity",
            "containers",
            "dnsConfig",
            "ephemeralContainers",
            "hostAliases",
            "imagePullSecrets",
            "initContainers",
            "nodeSelector",
            "readinessGates",
            "securityContext",
            "tolerations",
            "topologySpreadConstraints",
            "volumes",
        ]
    }

    fn prepare_create(&self, object: &mut Value) {
        pod_spec::drop_disabled(object);
        pod_spec::apply_label_keys(object);
        annotations::apply_app_armor(object);
        let mut status = Map::new();
        status.insert("phase", "Pending");
        if let Some(spec) = object.get_mut("spec") {
            resources::default_pod_level(spec);
        }
        let gated = !list(object.get("spec").unwrap_or(&Value::Null), "schedulingGates").is_empty();
        if gated {
            let made = object.at(&["metadata", "creationTimestamp"]).cloned().unwrap_or_default();
            status.insert("conditions", Value::List(vec![gated_condition(made)]));
        }
        status.insert("qosClass", object.get("spec").map_or("BestEffort", qos_class));
        object.make_map().insert("status", status);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        keep(new, old, "status");
        keep_pod_resources(new, old);
        pod_spec::drop_disabled(new);
    }

    fn prepare_status(&self, new: &mut Value, old: &Value) {
        keep(new, old, "spec");
        status::prepare(new, old);
        if let Some(status) = new.get_mut("status") {
            pod_spec::drop_disabled_status(status);
        }
    }

    fn has_status(&self) -> bool {
        true
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        validate_pod(errors, object);
    }

    fn validate_create(&self, object: &Value, errors: &mut ErrorList) {
        let none = Value::map();
        let (meta, spec) =
            (present(object, "metadata").unwrap_or(&none), present(object, "spec").unwrap_or(&none));
        let path = Path::root("spec");
        if !list(spec, "ephemeralContainers").is_empty() {
            push_forbidden(errors, &path.child("ephemeralContainers"), "cannot be set on create");
        }
        if !text(spec, "nodeName").is_empty() && !list(spec, "schedulingGates").is_empty() {
            let detail = "cannot be set until all schedulingGates have been cleared";
            push_forbidden(errors, &path.child("nodeName"), detail);
        }
        annotations::check_agree_with_fields(errors, &path, meta, spec);
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        update::validate(errors, new, old);
    }

    fn validate_status(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        status::validate(errors, new, old);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        // Most pod updates come from nodes, so warnings are computed on create only.
        if old.is_some() {
            return warnings;
        }
        let faults = dns::label(new.str_at(&["metadata", "name"]));
        if !faults.is_empty() {
            warnings.push(format!(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
                faults.join(" ")
            ));
        }
        pod_spec::spec_warnings(new, &Path::NONE, false, &mut warnings);
        warnings
    }

    fn early_warnings(&self, object: &Value) -> Vec<String> {
        let mut warnings = Vec::new();
        app_armor_warnings(object, &mut warnings);
        warnings
    }

    fn status_warnings(&self, new: &Value) -> Vec<String> {
        status_warnings(new)
    }

    fn status_reset_fields(&self) -> &'static [&'static str] {
        &["spec", "metadata.deletionTimestamp", "metadata.ownerReferences"]
    }

    fn field_labels(&self) -> &'static FieldLabels<'static> {
        &LABELS
    }

    fn fields<'o>(&'o self, object: &'o Value) -> SelectableFields<'o> {
        let part = |name| present(object, name).unwrap_or(&Value::Null);
        let (spec, status) = (part("spec"), part("status"));
        let address = list(status, "podIPs").first().map_or("", |first| text(first, "ip"));
        vec![
            ("spec.nodeName", text(spec, "nodeName").into()),
            ("spec.restartPolicy", text(spec, "restartPolicy").into()),
            ("spec.schedulerName", text(spec, "schedulerName").into()),
            ("spec.serviceAccountName", text(spec, "serviceAccountName").into()),
            ("spec.hostNetwork", if boolean(spec, "hostNetwork") { "true" } else { "false" }.into()),
            ("status.phase", text(status, "phase").into()),
            ("status.podIP", address.into()),
            ("status.nominatedNodeName", text(status, "nominatedNodeName").into()),
        ]
    }
}

/// Warnings about the addresses in the status of a pod.
fn status_warnings(pod: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(status) = present(pod, "status") else { return warnings };
    let path = Path::root("status");
    for field in ["podIPs", "hostIPs"] {
        let path = path.child(field);
        for (i, address) in list(status, field).iter().enumerate() {
            warnings.extend(ip::ip_warning(&path.index(i).child("ip"), text(address, "ip")));
        }
    }
    warnings
}

/// Grace period of a delete in seconds: that of the request, else that of the pod. Zero for a pod that has no
/// node or has finished.
#[must_use]
pub fn deletion_grace_seconds(pod: &Value, requested: Option<i64>) -> i64 {
    let none = Value::map();
    let spec = present(pod, "spec").unwrap_or(&none);
    let has_ended = matches!(pod.str_at(&["status", "phase"]), "Failed" | "Succeeded");
    if text(spec, "nodeName").is_empty() || has_ended {
        return 0;
    }
    match requested.unwrap_or_else(|| number(spec, "terminationGracePeriodSeconds")) {
        seconds if seconds < 0 => 1,
        seconds => seconds,
    }
}

/// Validates a pod, for all endpoints.
fn validate_pod(errors: &mut ErrorList, pod: &Value) {
    let none = Value::map();
    let (meta, spec) = (present(pod, "metadata").unwrap_or(&none), present(pod, "spec").unwrap_or(&none));
    let (meta_path, path) = (Path::root("metadata"), Path::root("spec"));
    annotations::validate(errors, &meta_path.child("annotations"), meta, spec);
    pod_spec::validate_spec(errors, &path, spec, Holder::Pod(meta));
    if text(spec, "serviceAccountName").is_empty() {
        let volumes_path = path.child("volumes");
        for (i, volume) in list(spec, "volumes").iter().enumerate() {
            let Some(projected) = present(volume, "projected") else { continue };
            let path = volumes_path.index(i);
            let path = path.child("projected");
            let path = path.child("sources");
            for (j, source) in list(projected, "sources").iter().enumerate() {
                if present(source, "serviceAccountToken").is_some() {
                    let path = path.index(j);
                    let detail = "must not be specified when serviceAccountName is not set";
                    push_forbidden(errors, &path.child("serviceAccountToken"), detail);
                }
            }
        }
    }
    let grace = number(spec, "terminationGracePeriodSeconds");
    check_nonnegative(errors, &path.child("terminationGracePeriodSeconds"), grace);
    for field in ["containers", "initContainers"] {
        let path = path.child(field);
        for (i, container) in list(spec, field).iter().enumerate() {
            containers::check_only_for_pod(errors, &path.index(i), container);
        }
    }
}

/// Keeps the pod-level resources if the request omits them: older clients do not know the field.
fn keep_pod_resources(new: &mut Value, old: &Value) {
    let had = old.at(&["spec", "resources"]).filter(|resources| !resources.is_null());
    if let Some(resources) = had
        && let Some(spec) = new.get_mut("spec").and_then(Value::as_map_mut)
        && spec.get("resources").is_none_or(Value::is_null)
    {
        spec.insert("resources", resources.clone());
    }
}

/// `true` for a mirror pod of a static pod.
fn is_mirror(pod: &Value) -> bool {
    present(pod, "metadata").is_some_and(|meta| annotation(meta, annotations::MIRROR).is_some())
}

fn gated_condition(since: Value) -> Value {
    let fields: [(&str, Value); 6] = [
        ("type", "PodScheduled".into()),
        ("status", "False".into()),
        ("lastProbeTime", Value::Null),
        ("lastTransitionTime", since),
        ("reason", "SchedulingGated".into()),
        ("message", "Scheduling is blocked due to non-empty scheduling gates".into()),
    ];
    Value::Map(fields.into_iter().collect())
}

/// Warnings for annotations whose fields are not set.
fn app_armor_warnings(pod: &Value, warnings: &mut Vec<String>) {
    let none = Value::map();
    let (meta, spec) = (present(pod, "metadata").unwrap_or(&none), present(pod, "spec").unwrap_or(&none));
    if present(meta, "annotations").is_none() || spec.str_at(&["os", "name"]) == "windows" {
        return;
    }
    let of_pod = spec.at(&["securityContext", "appArmorProfile"]).filter(|profile| !profile.is_null());
    let path = Path::root("metadata");
    let path = path.child("annotations");
    pod_spec::each_container(spec, &Path::NONE, |container, _| {
        let key = format!("{}{}", annotations::APP_ARMOR, text(container, "name"));
        let has_field =
            container.at(&["securityContext", "appArmorProfile"]).is_some_and(|field| !field.is_null());
        if let Some(written) = annotation(meta, &key)
            && !has_field
            && annotations::app_armor_field(written).is_none_or(|field| Some(&field) != of_pod)
        {
            let why = r#"deprecated since v1.30; use the "appArmorProfile" field instead"#;
            warnings.push(format!("{}: {why}", path.key(&key)));
        }
    });
}

#[cfg(test)]
mod tests;
