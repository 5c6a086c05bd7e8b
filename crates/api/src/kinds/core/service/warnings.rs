//! Warnings of a Service.

use super::{NO_CLUSTER_IP, Spec};
use crate::field_error::Path;
use crate::metadata::entry;
use crate::names::ip::{cidr_warnings, ip_warning};
use crate::value::Value;

pub(super) fn service(object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let spec = Spec::of(object);
    let root = Path::root("spec");
    if entry(object, "annotations", "service.kubernetes.io/topology-aware-hints").is_some() {
        warnings.push(
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead"
                .to_owned(),
        );
    }
    if !matches!(spec.cluster_ip(), "" | NO_CLUSTER_IP) {
        warn_ips(&mut warnings, &root, "clusterIPs", spec);
    }
    let is_headless = spec.kind() == "ClusterIP" && spec.cluster_ip() == NO_CLUSTER_IP;
    let external_ips = spec.list("externalIPs");
    if is_headless {
        for (field, is_set) in [
            ("loadBalancerIP", !spec.text("loadBalancerIP").is_empty()),
            ("externalIPs", !external_ips.is_empty()),
            ("SessionAffinity", spec.text("sessionAffinity") != "None"),
        ] {
            if is_set {
                warnings.push(format!("spec.{field} is ignored for headless services"));
            }
        }
    }
    warn_ips(&mut warnings, &root, "externalIPs", spec);
    let is_alias = spec.kind() == "ExternalName";
    if !external_ips.is_empty() && !is_headless && !is_alias {
        let text = "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        warnings.push(text.to_owned());
    }
    warnings.extend(ip_warning(&root.child("loadBalancerIP"), spec.text("loadBalancerIP")));
    for (i, cidr) in spec.list("loadBalancerSourceRanges").into_iter().enumerate() {
        warnings.extend(cidr_warnings(&root.child("loadBalancerSourceRanges").index(i), cidr));
    }
    if is_alias && !external_ips.is_empty() {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !is_alias && !spec.text("externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec.text("trafficDistribution") == "PreferClose" {
        let text = "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push(text.to_owned());
    }
    warnings
}

fn warn_ips(warnings: &mut Vec<String>, root: &Path<'_>, field: &str, spec: Spec<'_>) {
    let path = root.child(field);
    for (i, ip) in spec.list(field).into_iter().enumerate() {
        warnings.extend(ip_warning(&path.index(i), ip));
    }
}

/// Warnings of a status update.
pub(super) fn status(object: &Value) -> Vec<String> {
    let status = Path::root("status");
    let balancer = status.child("loadBalancer");
    let path = balancer.child("ingress");
    let ingress = object.at(&["status", "loadBalancer", "ingress"]).and_then(Value::as_list);
    let points = ingress.unwrap_or_default().iter().enumerate();
    points.filter_map(|(i, point)| ip_warning(&path.index(i), point.str_at(&["ip"]))).collect()
}
