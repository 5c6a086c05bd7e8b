//! Worlds of Services: their pods, ports, slices and addresses.

use setpoint_api::{Value, value};
use setpoint_reconcile::Object;

use super::Case;
use crate::objects::*;

/// Number of ports of a large Service. Each slice lists all of them, so they do not grow with the pods.
const PORTS: usize = 256;
const SLICES: &str = "endpointslices.discovery.k8s.io";

fn service(ports: usize) -> Value {
    let port = |at| value!({"name": (name("p", at)), "port": (at as i64 + 1), "targetPort": (at as i64 + 1), "protocol": "TCP"});
    value!({"spec": {
        "selector": {"app": "web"}, "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ipFamilies": ["IPv4"],
        "ports": (list(ports, port)),
    }})
}

/// Pod with an address of its own.
fn addressed(at: usize) -> Value {
    let ip = format!("10.{}.{}.{}", 1 + at / 65_536, at / 256 % 256, at % 256);
    saying(saying(pod("n0"), "podIP", ip.as_str()), "podIPs", value!([{"ip": (ip)}]))
}

fn served(service: Value, len: usize, pod_of: fn(usize) -> Value) -> Vec<Object> {
    let pods = many(len, "pods", "default/p", pod_of);
    pods.chain([object("services", "default/web", service), object("nodes", "n0", node())]).collect()
}

/// Slice of a Service with one stale endpoint.
fn slice(manager: &str, kind: (&str, &str), at: usize) -> Value {
    let by = owner("v1", kind.0, kind.1, "web");
    let slice = value!({
        "addressType": "IPv4", "ports": [{"name": "p000000", "port": 1, "protocol": "TCP"}],
        "endpoints": [{"addresses": ["10.9.9.9"], "targetRef": {"kind": "Pod", "uid": (name("gone", at))}}],
    });
    let slice = labeled(owned(slice, &by), "kubernetes.io/service-name", "web");
    labeled(slice, "endpointslice.kubernetes.io/managed-by", manager)
}

/// Pod with the named target port of the Service, and a port number of its own.
fn by_name(at: usize) -> Value {
    let container = value!({"name": "c", "image": "i",
        "ports": [{"name": "http", "containerPort": (at as i64 % 60_000 + 1), "protocol": "TCP"}]});
    with(addressed(at), "containers", value!([(container)]))
}

fn to_named_port() -> Value {
    with(service(0), "ports", value!([{"name": "p", "port": 80, "targetPort": "http", "protocol": "TCP"}]))
}

fn endpoints(subsets: Value) -> Vec<Object> {
    let mut service = service(1);
    service.ensure_map("spec").remove("selector");
    vec![
        object("services", "default/web", service),
        object("endpoints", "default/web", value!({"subsets": (subsets)})),
    ]
}

fn address(at: usize) -> Value {
    value!({"ip": (format!("10.1.{}.{}", at / 256 % 256, at % 256))})
}

const RANGES: &str = "servicecidrs.networking.k8s.io";
const ADDRESSES: &str = "ipaddresses.networking.k8s.io";

fn range(at: usize) -> Value {
    value!({"spec": {"cidrs": [(format!("10.{}.{}.0/24", 100 + at / 256 % 100, at % 256))]}})
}

fn addresses(len: usize) -> impl Iterator<Item = Object> {
    (0..len).map(|at| {
        let mut object_of =
            value!({"spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "web"}}});
        object_of = labeled(object_of, "ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");
        object(ADDRESSES, &format!("10.{}.{}.7", 100 + at / 256 % 100, at % 256), object_of)
    })
}

pub const CASES: &[Case] = &[
    Case::new("endpointslice-controller", "pods", "services default/web", |len| {
        served(service(1), len, addressed)
    }),
    Case::new(
        "endpointslice-controller",
        "pods of a Service with many ports",
        "services default/web",
        |len| served(service(PORTS), len, addressed),
    ),
    Case::new("endpointslice-controller", "pods with ports of their own", "services default/web", |len| {
        served(to_named_port(), len, by_name)
    }),
    Case::new("endpointslice-controller", "slices", "services default/web", |len| {
        let manager = "endpointslice-controller.k8s.io";
        let slices = many(len, SLICES, "default/s", |at| slice(manager, ("Service", "services"), at));
        served(service(1), len, addressed).into_iter().chain(slices).collect()
    }),
    Case::new("endpointslice-controller", "Services that select a pod", "services default/web", |len| {
        many(len, "services", "default/s", |_| service(1)).chain(served(service(1), 1, addressed)).collect()
    }),
    Case::new("endpoint-controller", "pods", "services default/web", |len| {
        served(service(1), len, addressed)
    }),
    Case::new("endpoint-controller", "pods and ports", "services default/web", |len| {
        served(service(len), len, addressed)
    }),
    Case::new("endpoint-controller", "pods with ports of their own", "services default/web", |len| {
        served(to_named_port(), len, by_name)
    }),
    Case::new("endpointslicemirroring-controller", "addresses", "endpoints default/web", |len| {
        endpoints(value!([{"addresses": (list(len, address)), "ports": [{"port": 80}]}]))
    }),
    Case::new("endpointslicemirroring-controller", "subsets and slices", "endpoints default/web", |len| {
        let subset = |at| value!({"addresses": [(address(at))], "ports": [{"port": (at as i64 + 1)}]});
        let manager = "endpointslicemirroring-controller.k8s.io";
        let slices = many(len, SLICES, "default/s", |at| slice(manager, ("Endpoints", "endpoints"), at));
        endpoints(list(len, subset)).into_iter().chain(slices).collect()
    }),
    Case::new("ipallocator-repair-controller", "ranges", "services default/web", |len| {
        many(len, RANGES, "r", range).chain(served(service(1), 0, addressed)).collect()
    }),
    Case::new(
        "service-cidrs-controller",
        "ranges and addresses",
        "servicecidrs.networking.k8s.io old",
        |len| {
            let whole = value!({"spec": {"cidrs": ["10.0.0.0/8"]}});
            let old = object(RANGES, "old", deleted(whole, "networking.k8s.io/service-cidr-finalizer"));
            many(len, RANGES, "r", range).chain(addresses(len)).chain([old]).collect()
        },
    ),
];
