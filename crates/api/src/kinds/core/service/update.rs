//! Allocated fields in an update of a Service: those that are kept, and those that are released.

use std::collections::{BTreeMap, BTreeSet};

use super::{Spec, int};
use crate::value::Value;

/// Keeps allocated values that the update omits.
pub(super) fn keep_allocated(new: &mut Value, old: &Value) {
    let (was, is) = (Spec::of(old), Spec::of(new));
    if was.needs_cluster_ip() && is.needs_cluster_ip() {
        let (singular, plural) = (is.cluster_ip().is_empty(), is.cluster_ips().is_empty());
        let spec = new.ensure_map("spec");
        if singular && !was.cluster_ip().is_empty() {
            spec.insert("clusterIP", was.cluster_ip());
        }
        if plural && !was.cluster_ips().is_empty() {
            spec.insert("clusterIPs", was.cluster_ips());
        }
    }
    let (was, is) = (Spec::of(old), Spec::of(new));
    if has_node_port_allocation(was) && has_node_port_allocation(is) {
        keep_node_ports(new, was);
    }
    if was.needs_health_check()
        && Spec::of(new).needs_health_check()
        && Spec::of(new).int("healthCheckNodePort") == 0
    {
        new.ensure_map("spec").insert("healthCheckNodePort", was.int("healthCheckNodePort"));
    }
}

/// Ports with the same name keep their node port, unless another port requests it.
fn keep_node_ports(new: &mut Value, was: Spec<'_>) {
    let before: BTreeSet<i64> = was.node_ports().collect();
    let claimed: BTreeSet<i64> = Spec::of(new).node_ports().filter(|port| before.contains(port)).collect();
    let by_name: BTreeMap<&str, i64> =
        was.ports().iter().map(|port| (port.str_at(&["name"]), int(port, "nodePort"))).collect();
    let Some(Value::List(ports)) = new.at_mut(&["spec", "ports"]) else { return };
    for port in ports.iter_mut().filter(|port| int(port, "nodePort") == 0).filter_map(Value::as_map_mut) {
        let name = port.get_str("name").unwrap_or_default();
        let before = by_name.get(name).copied().unwrap_or(0);
        if before != 0 && !claimed.contains(&before) {
            port.insert("nodePort", before);
        }
    }
}

fn has_node_port_allocation(spec: Spec<'_>) -> bool {
    let is_enabled = spec.get("allocateLoadBalancerNodePorts").and_then(Value::as_bool) != Some(false);
    spec.kind() == "NodePort" || (spec.is_load_balancer() && is_enabled)
}

/// Synchronizes `clusterIP` and `clusterIPs` if the client changed only one of them.
pub(super) fn normalize_cluster_ips(new: &mut Value, old: Option<&Value>) {
    let is = Spec::of(new);
    let (ip, ips) = (is.cluster_ip(), is.cluster_ips());
    let ips = match old.map(Spec::of) {
        None if !ip.is_empty() && ips.is_empty() => Some(vec![ip]),
        None => None,
        Some(was) if was.cluster_ip() == ip => {
            (ips.is_empty() && !was.cluster_ips().is_empty()).then(|| was.cluster_ips())
        }
        Some(was) if was.cluster_ips() != ips => None,
        Some(_) if ip.is_empty() => Some(Vec::new()),
        Some(_) => Some(vec![ip]),
    };
    let Some(ips) = ips else { return };
    let ips: Vec<Value> = ips.into_iter().map(Value::from).collect();
    let spec = new.ensure_map("spec");
    if ips.is_empty() {
        spec.remove("clusterIPs");
    } else {
        spec.insert("clusterIPs", ips);
    }
}

/// Clears fields that the new type does not use, if the server may have set them and the client did not
/// change them. Fields that the client changed are left to validation.
pub(super) fn clear_unused_fields(new: &mut Value, old: &Value) {
    let gone = unused_fields(Spec::of(new), Spec::of(old));
    let drops_node_ports = can_drop_node_ports(Spec::of(new), Spec::of(old));
    let is_load_balancer = Spec::of(new).is_load_balancer();
    let spec = new.ensure_map("spec");
    for field in gone {
        spec.remove(field);
    }
    if drops_node_ports && let Some(Value::List(ports)) = spec.get_mut("ports") {
        for port in ports.iter_mut().filter_map(Value::as_map_mut) {
            port.remove("nodePort");
        }
    }
    if !is_load_balancer && let Some(Value::Map(status)) = new.get_mut("status") {
        status.remove("loadBalancer");
    }
}

fn can_drop_node_ports(is: Spec<'_>, was: Spec<'_>) -> bool {
    let needs = |spec: Spec<'_>| matches!(spec.kind(), "NodePort" | "LoadBalancer");
    let before: BTreeSet<i64> = was.node_ports().collect();
    needs(was) && !needs(is) && is.node_ports().all(|port| before.contains(&port))
}

fn unused_fields(is: Spec<'_>, was: Spec<'_>) -> Vec<&'static str> {
    let mut gone = Vec::new();
    if was.needs_cluster_ip() && !is.needs_cluster_ip() {
        if was.cluster_ip() == is.cluster_ip() && was.cluster_ips() == is.cluster_ips() {
            gone.extend(["clusterIP", "clusterIPs"]);
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if was.get(field) == is.get(field) {
                gone.push(field);
            }
        }
    }
    let same_check = was.int("healthCheckNodePort") == is.int("healthCheckNodePort");
    if was.needs_health_check() && !is.needs_health_check() && same_check {
        gone.push("healthCheckNodePort");
    }
    if was.is_load_balancer() && !is.is_load_balancer() {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if was.get(field) == is.get(field) {
                gone.push(field);
            }
        }
    }
    let same_policy = was.text("externalTrafficPolicy") == is.text("externalTrafficPolicy");
    if was.is_external() && !is.is_external() && same_policy {
        gone.push("externalTrafficPolicy");
    }
    gone
}
