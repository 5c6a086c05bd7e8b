//! Warnings of pod specs: fields without effect, fields that hide others, and deprecated fields.

use std::collections::BTreeSet;

use super::annotations::{APP_ARMOR, SECCOMP_CONTAINER, SECCOMP_POD, app_armor_field};
use super::each_container;
use crate::field_error::Path;
use crate::kinds::read::{
    annotation, entries, is_whole, list, optional_number, present, quantity, text, texts,
};
use crate::names::{ip, key};
use crate::quote::Quoted;
use crate::value::Value;

mod overlaps;
mod ports;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Renamed node labels.
const DEPRECATED_LABELS: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#),
    ("beta.kubernetes.io/os", r#"deprecated since v1.14; use "kubernetes.io/os" instead"#),
    (
        "failure-domain.beta.kubernetes.io/region",
        r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#,
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#,
    ),
    (
        "beta.kubernetes.io/instance-type",
        r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#,
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    ("node-role.kubernetes.io/master", r#"use "node-role.kubernetes.io/control-plane" instead"#),
];

/// Annotations that are ignored.
const DEPRECATED_ANNOTATIONS: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        r#"non-functional in v1.16+; use the "priorityClassName" field instead"#,
    ),
    ("security.alpha.kubernetes.io/sysctls", r#"non-functional in v1.11+; use the "sysctls" field instead"#),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        r#"non-functional in v1.11+; use the "sysctls" field instead"#,
    ),
];

/// Volumes of removed drivers, in the order of their warnings; the path in the message, and the reason.
const DEPRECATED_VOLUMES: [(&str, &str, &str); 9] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Warnings of a pod or template at `path`.
pub(crate) fn spec_warnings(holder: &Value, path: &Path<'_>, is_template: bool, warnings: &mut Vec<String>) {
    let none = Value::map();
    let spec = present(holder, "spec").unwrap_or(&none);
    let meta = present(holder, "metadata").unwrap_or(&none);
    let spec_path = path.child("spec");
    let meta_path = path.child("metadata");
    let annotations_path = meta_path.child("annotations");
    nodes(spec, &spec_path, warnings);
    for (key, why) in DEPRECATED_ANNOTATIONS {
        if annotation(meta, key).is_some() {
            warnings.push(format!("{}: {why}", annotations_path.key(key)));
        }
    }
    volumes(spec, &spec_path, warnings);
    overlaps::overlapping_paths(list(spec, "volumes"), warnings);
    duplicates(spec, &spec_path, "hostAliases", "ip", warnings);
    duplicates(spec, &spec_path, "imagePullSecrets", "name", warnings);
    let secrets_path = spec_path.child("imagePullSecrets");
    for (i, _) in list(spec, "imagePullSecrets")
        .iter()
        .enumerate()
        .filter(|(_, secret)| text(secret, "name").is_empty())
    {
        warnings.push(format!("{}: invalid empty name \"\"", secrets_path.index(i).child("name")));
    }
    let overhead_path = spec_path.child("overhead");
    for name in ["memory", "ephemeral-storage"] {
        fractions(spec, "overhead", &overhead_path, name, warnings);
    }
    let use_field = r#"non-functional in v1.27+; use the "seccompProfile" field instead"#;
    if annotation(meta, SECCOMP_POD).is_some() && !has_profile(spec, "seccompProfile") {
        warnings.push(format!("{}: {use_field}", annotations_path.key(SECCOMP_POD)));
    }
    let is_annotated = present(meta, "annotations").is_some();
    each_container(spec, &spec_path, |one, path| {
        if is_annotated {
            let key = format!("{SECCOMP_CONTAINER}{}", text(one, "name"));
            if annotation(meta, &key).is_some() && !has_profile(one, "seccompProfile") {
                warnings.push(format!("{}: {use_field}", annotations_path.key(&key)));
            }
            if is_template {
                app_armor(spec, one, meta, &annotations_path, warnings);
            }
        }
        container(one, path, warnings);
    });
    ports::ports(spec, &spec_path, warnings);
    if optional_number(spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        warnings.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            spec_path.child("terminationGracePeriodSeconds")
        ));
    }
    pod_terms(spec, &spec_path, warnings);
    addresses(spec, &spec_path, warnings);
}

fn has_profile(holder: &Value, field: &str) -> bool {
    holder.at(&["securityContext", field]).is_some_and(|profile| !profile.is_null())
}

fn deprecated_label(label: &str) -> Option<&'static str> {
    DEPRECATED_LABELS.iter().find(|(known, _)| *known == label).map(|(_, why)| *why)
}

fn nodes(spec: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    let selector_path = path.child("nodeSelector");
    for (label, _) in entries(spec, "nodeSelector") {
        if let Some(why) = deprecated_label(label) {
            warnings.push(format!("{}: {why}", selector_path.key(label)));
        }
    }
    if let Some(nodes) = spec.at(&["affinity", "nodeAffinity"]) {
        let path = path.child("affinity");
        let path = path.child("nodeAffinity");
        if let Some(selector) = present(nodes, REQUIRED) {
            let path = path.child(REQUIRED);
            let path = path.child("nodeSelectorTerms");
            for (i, term) in list(selector, "nodeSelectorTerms").iter().enumerate() {
                node_term(term, false, &path.index(i), warnings);
            }
        }
        let path = path.child(PREFERRED);
        for (i, weighted) in list(nodes, PREFERRED).iter().enumerate() {
            if let Some(term) = present(weighted, "preference") {
                node_term(term, true, &path.index(i).child("preference"), warnings);
            }
        }
    }
    let constraints_path = path.child("topologySpreadConstraints");
    for (i, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        let path = constraints_path.index(i);
        let topology = text(constraint, "topologyKey");
        if let Some(why) = deprecated_label(topology) {
            warnings.push(format!("{}: {topology} is {why}", path.child("topologyKey")));
        }
        no_selector(constraint, &path, warnings);
    }
}

fn no_selector(term: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    if present(term, "labelSelector").is_none() {
        let path = path.child("labelSelector");
        warnings.push(format!("{path}: a null labelSelector results in matching no pod"));
    }
}

fn node_term(term: &Value, check_values: bool, path: &Path<'_>, warnings: &mut Vec<String>) {
    let path = path.child("matchExpressions");
    for (i, expression) in list(term, "matchExpressions").iter().enumerate() {
        let path = path.index(i);
        let label = text(expression, "key");
        if let Some(why) = deprecated_label(label) {
            warnings.push(format!("{}: {label} is {why}", path.child("key")));
        }
        let values_path = path.child("values");
        for (j, value) in texts(expression, "values").into_iter().enumerate().filter(|_| check_values) {
            for fault in key::label_value(value) {
                warnings.push(format!("{}: {value} is invalid, {fault}", values_path.index(j)));
            }
        }
    }
}

fn volumes(spec: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    let path = path.child("volumes");
    for (i, volume) in list(spec, "volumes").iter().enumerate() {
        let path = path.index(i);
        for (field, shown, why) in DEPRECATED_VOLUMES {
            // As upstream, claims come between the volumes before and after them.
            if field == "cephfs" {
                claim(volume, &path, warnings);
            }
            if present(volume, field).is_some() {
                warnings.push(format!("{}: {why}", path.child(shown)));
            }
        }
    }
}

fn claim(volume: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    let Some(spec) = volume.at(&["ephemeral", "volumeClaimTemplate", "spec"]) else { return };
    let path = path.child("ephemeral");
    let path = path.child("volumeClaimTemplate");
    let path = path.child("spec");
    claim_warnings(spec, &path, warnings);
}

/// Warnings of a claim spec.
fn claim_warnings(spec: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    if let Some(resources) = present(spec, "resources") {
        let path = path.child("resources");
        for sort in ["requests", "limits"] {
            fractions(resources, sort, &path.child(sort), "storage", warnings);
        }
    }
}

fn duplicates(spec: &Value, path: &Path<'_>, field: &str, by: &str, warnings: &mut Vec<String>) {
    let path = path.child(field);
    let mut seen = BTreeSet::new();
    for (i, item) in list(spec, field).iter().enumerate() {
        let value = text(item, by);
        if !seen.insert(value) {
            warnings.push(format!("{}: duplicate {by} {}", path.index(i).child(by), Quoted(value)));
        }
    }
}

fn fractions(holder: &Value, field: &str, path: &Path<'_>, name: &str, warnings: &mut Vec<String>) {
    let Some(amount) = present(holder, field).and_then(|amounts| amounts.get(name)).map(quantity) else {
        return;
    };
    if !is_whole(amount) {
        warnings.push(format!(
            "{}: fractional byte value {} is invalid, must be an integer",
            path.key(name),
            Quoted(&amount.to_string())
        ));
    }
}

fn app_armor(spec: &Value, container: &Value, meta: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    let key = format!("{APP_ARMOR}{}", text(container, "name"));
    let Some(written) = annotation(meta, &key) else { return };
    let of_pod = spec.at(&["securityContext", "appArmorProfile"]).filter(|profile| !profile.is_null());
    let stands_in_pod = of_pod.is_some() && of_pod == app_armor_field(written).as_ref();
    if !has_profile(container, "appArmorProfile") && !stands_in_pod {
        let why = r#"deprecated since v1.30; use the "appArmorProfile" field instead"#;
        warnings.push(format!("{}: {why}", path.key(&key)));
    }
}

fn container(container: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    if let Some(resources) = present(container, "resources") {
        let path = path.child("resources");
        for name in ["memory", "ephemeral-storage"] {
            for sort in ["limits", "requests"] {
                fractions(resources, sort, &path.child(sort), name, warnings);
            }
        }
    }
    let path = path.child("env");
    let mut seen = BTreeSet::new();
    for (i, variable) in list(container, "env").iter().enumerate() {
        let name = text(variable, "name");
        if seen.insert(name) {
            continue;
        }
        let (value, reference) = (text(variable, "value"), format!("$({name})"));
        // A value that refers to the previous one is intended; any other hides it.
        let adds =
            present(variable, "valueFrom").is_none() && value != reference && value.contains(&reference);
        if !adds {
            warnings.push(format!(
                "{}: hides previous definition of {}, which may be dropped when using apply",
                path.index(i),
                Quoted(name)
            ));
        }
    }
}

fn pod_terms(spec: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    let path = path.child("affinity");
    for field in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = spec.at(&["affinity", field]) else { continue };
        let path = path.child(field);
        let terms = path.child(REQUIRED);
        for (i, term) in list(pods, REQUIRED).iter().enumerate() {
            no_selector(term, &terms.index(i), warnings);
        }
        let terms = path.child(PREFERRED);
        for (i, weighted) in list(pods, PREFERRED).iter().enumerate() {
            let none = Value::map();
            let term = present(weighted, "podAffinityTerm").unwrap_or(&none);
            no_selector(term, &terms.index(i).child("podAffinityTerm"), warnings);
        }
    }
}

fn addresses(spec: &Value, path: &Path<'_>, warnings: &mut Vec<String>) {
    if let Some(config) = present(spec, "dnsConfig") {
        let path = path.child("dnsConfig");
        let path = path.child("nameservers");
        for (i, server) in texts(config, "nameservers").into_iter().enumerate() {
            warnings.extend(ip::ip_warning(&path.index(i), server));
        }
    }
    let path = path.child("hostAliases");
    for (i, alias) in list(spec, "hostAliases").iter().enumerate() {
        warnings.extend(ip::ip_warning(&path.index(i).child("ip"), text(alias, "ip")));
    }
}
