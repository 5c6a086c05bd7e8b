//! Defaults of a Service.

use super::Spec;
use crate::kinds::read::{set_default, set_default_if_empty};
use crate::value::{Map, Value};

/// Default timeout of the session affinity.
const AFFINITY_TIMEOUT_SECONDS: i64 = 10_800;

pub(super) fn service(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_map_mut) else {
        let spec = object.ensure_map("spec");
        set_default_if_empty(spec, "sessionAffinity", "None");
        set_default_if_empty(spec, "type", "ClusterIP");
        set_default_if_empty(spec, "internalTrafficPolicy", "Cluster");
        return;
    };
    affinity(spec);
    set_default_if_empty(spec, "type", "ClusterIP");
    if let Some(Value::List(ports)) = spec.get_mut("ports") {
        ports.iter_mut().filter_map(Value::as_map_mut).for_each(port);
    }
    let read = Spec::of(object);
    let (is_external, kind) = (read.is_external(), read.kind().to_owned());
    let spec = object.ensure_map("spec");
    if is_external {
        set_default_if_empty(spec, "externalTrafficPolicy", "Cluster");
    }
    if matches!(&*kind, "NodePort" | "LoadBalancer" | "ClusterIP") {
        set_default(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        if spec.get("allocateLoadBalancerNodePorts").is_none_or(Value::is_null) {
            spec.insert("allocateLoadBalancerNodePorts", true);
        }
        ingress(object);
    }
}

/// The default IP mode of a load balancer is VIP.
fn ingress(object: &mut Value) {
    if let Some(Value::List(ingress)) = object.at_mut(&["status", "loadBalancer", "ingress"]) {
        for point in ingress.iter_mut().filter_map(Value::as_map_mut) {
            if point.get_str("ip").is_some_and(|ip| !ip.is_empty()) {
                set_default(point, "ipMode", "VIP");
            }
        }
    }
}

fn affinity(spec: &mut Map) {
    set_default_if_empty(spec, "sessionAffinity", "None");
    match spec.get_str("sessionAffinity") {
        Some("None") => drop(spec.remove("sessionAffinityConfig")),
        Some("ClientIP") => {
            let config = spec.get("sessionAffinityConfig");
            let timeout = config.and_then(|config| config.at(&["clientIP", "timeoutSeconds"]));
            if timeout.is_none_or(Value::is_null) {
                let seconds: Map = [("timeoutSeconds", AFFINITY_TIMEOUT_SECONDS)].into_iter().collect();
                let config: Map = [("clientIP", seconds)].into_iter().collect();
                spec.insert("sessionAffinityConfig", config);
            }
        }
        _ => {}
    }
}

fn port(port: &mut Map) {
    set_default_if_empty(port, "protocol", "TCP");
    if port.get("targetPort").is_none_or(Value::is_empty) {
        let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
        port.insert("targetPort", number);
    }
}
