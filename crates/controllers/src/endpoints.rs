//! Endpoints controller: endpoints of a Service in the legacy form.
//!
//! Addresses with the same ports share a subset. Endpoints of a deleted Service are deleted; those that
//! another manager created are left alone.

use std::collections::BTreeMap;

use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Key, Map, Time, Value, json, value};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Action, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::endpoints::Endpoints;
use setpoint_views::service::{Service, ServicePort};

use crate::pods;
use crate::service_pods::{self, HEADLESS, TRIGGER_TIME, TargetPorts};

/// Maximum number of addresses in one object.
pub const ADDRESSES_MAX: usize = 1000;
/// Annotation of Endpoints with more addresses than the maximum.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Label with the name of the managing controller.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`] in Endpoints of this controller.
const MANAGER: &str = "endpoint-controller";

/// The Endpoints controller.
pub struct EndpointsController;

impl Planner for EndpointsController {
    type Memo = ();

    fn name(&self) -> &'static str {
        "endpoint-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 3] = [
            Watch::primary("services"),
            Watch::mapped("pods", service_pods::enqueue_services),
            Watch::mapped("endpoints", enqueue_for_endpoints),
        ];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let current = world.find("endpoints", key.namespace().unwrap_or_default(), key.name());
        let Some(object) = world.get(key) else {
            let managed =
                current.filter(|endpoints| endpoints.meta().labels.get(MANAGED_BY) == Some(MANAGER));
            plan.stage(managed.map(|endpoints| Action::from(Write::delete(endpoints))));
            return plan;
        };
        let Some(service) = object.view::<Service>() else { return plan };
        if service.spec.selector.is_none()
            || service.spec.kind == "ExternalName"
            || object.meta().is_deleted()
        {
            return plan;
        }
        let selected = service_pods::select_pods(world, object, service);
        let (subsets, truncated) = truncate(subsets(object, service, &selected));
        let desired = DesiredEndpoints {
            object,
            subsets: subsets.iter().map(Subset::to_value).collect(),
            labels: labels(object, service),
            truncated,
            time: service_pods::trigger_time(object, &selected).map(|time| Seconds(time).to_string()),
        };
        plan.stage(desired.write(current).map(Action::from));
        plan
    }
}

/// Enqueues the Service of the same name.
fn enqueue_for_endpoints(endpoints: &Object, _: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if let Some(key) = key_of("services", &endpoints.meta().namespace, &endpoints.meta().name) {
        enqueue(key);
    }
}

/// Desired Endpoints.
struct DesiredEndpoints<'a> {
    object: &'a Object,
    subsets: Vec<Value>,
    labels: Value,
    truncated: bool,
    time: Option<String>,
}

impl DesiredEndpoints<'_> {
    /// Creates or updates the Endpoints, if they differ.
    fn write(self, current: Option<&Object>) -> Option<Write> {
        let over_capacity = self.truncated.then_some("truncated");
        let Some(current) = current else {
            let meta = self.object.meta();
            // Nulls remove annotations in a patch; new Endpoints have none to remove.
            let mut annotations = annotations(over_capacity, self.time);
            annotations.retain(|_, value| !value.is_null());
            let object = value!({
                "metadata": {
                    "name": (&*meta.name),
                    "labels": (self.labels),
                    "annotations": (annotations),
                },
                "subsets": (self.subsets),
            });
            return Some(Write::create("endpoints", &meta.namespace, object));
        };
        let subsets = current.view::<Endpoints>().map(|view| view.subsets.as_slice()).unwrap_or_default();
        let is_current = subsets == self.subsets
            && current.meta().labels.to_value() == self.labels
            && current.meta().annotations.get(OVER_CAPACITY) == over_capacity;
        if is_current {
            return None;
        }
        let gone = current.meta().labels.iter().filter(|(name, _)| self.labels.get(name).is_none());
        let mut labels: Map = gone.map(|(name, _)| (name, Value::Null)).collect();
        for (name, value) in self.labels.as_map().into_iter().flat_map(Map::iter) {
            labels.insert(name, value.clone());
        }
        let current_time = current.meta().annotations.get(TRIGGER_TIME);
        let time = self.time.filter(|time| Some(time.as_str()) != current_time);
        let patch = value!({
            "metadata": {"labels": (labels), "annotations": (annotations(over_capacity, time))},
            "subsets": (self.subsets),
        });
        Some(Write::merge(current, "", patch))
    }
}

/// Annotations of Endpoints; null for one to remove.
fn annotations(over_capacity: Option<&str>, time: Option<String>) -> Map {
    [(OVER_CAPACITY, Value::from(over_capacity)), (TRIGGER_TIME, Value::from(time))].into_iter().collect()
}

/// Labels of the Service, and our own.
fn labels(object: &Object, service: &Service) -> Value {
    let mut labels: Map =
        object.meta().labels.iter().map(|(name, value)| (name, Value::from(value))).collect();
    labels.insert(MANAGED_BY, MANAGER);
    if !service.has_ip() {
        labels.insert(HEADLESS, "");
    }
    Value::Map(labels)
}

/// Addresses with equal ports.
#[derive(Default)]
struct Subset {
    ready: Vec<Value>,
    not_ready: Vec<Value>,
    ports: Vec<Value>,
}

impl Subset {
    fn to_value(&self) -> Value {
        let mut subset = Map::new();
        let parts =
            [("addresses", &self.ready), ("notReadyAddresses", &self.not_ready), ("ports", &self.ports)];
        for (name, list) in parts {
            if !list.is_empty() {
                subset.insert(name, list.clone());
            }
        }
        Value::Map(subset)
    }
}

/// Groups the addresses of the pods by their ports.
fn subsets(object: &Object, service: &Service, selected: &[pods::PodRef<'_>]) -> Vec<Subset> {
    let publishes_not_ready = service.spec.publish_not_ready_addresses;
    let (mut subsets, mut positions) = (Vec::<Subset>::new(), BTreeMap::<String, usize>::new());
    let mut target_ports = TargetPorts::of(service);
    for seen in selected.iter().filter(|seen| service_pods::is_endpoint(seen, publishes_not_ready)) {
        let (pod_object, pod) = seen;
        let Some(ip) = address(service, pod) else { continue };
        let position = target_ports.resolve(pod, |ports| {
            // A pod without any of the ports of the Service is no endpoint.
            if ports.is_empty() && (!service.spec.ports.is_empty() || service.has_ip()) {
                return None;
            }
            let ports = subset_ports(ports);
            let text = ports.iter().map(json::to_text).collect::<Vec<_>>().join(",");
            Some(*positions.entry(text).or_insert_with(|| {
                subsets.push(Subset { ports, ..Subset::default() });
                subsets.len() - 1
            }))
        });
        let Some(position) = position else { continue };
        let subset = &mut subsets[position];
        let address = endpoint_address(object, pod_object, pod, ip);
        if publishes_not_ready || pod.is_ready() {
            subset.ready.push(address)
        } else {
            subset.not_ready.push(address)
        }
    }
    let mut subsets: Vec<Subset> =
        positions.into_values().map(|position| std::mem::take(&mut subsets[position])).collect();
    for subset in &mut subsets {
        for list in [&mut subset.ready, &mut subset.not_ready] {
            list.sort_by(|a, b| a.str_at(&["ip"]).cmp(b.str_at(&["ip"])));
        }
    }
    subsets
}

/// Ports in the form of Endpoints.
fn subset_ports(ports: &[(&ServicePort, i64)]) -> Vec<Value> {
    let ports = ports.iter().map(|(port, number)| {
        let mut found = Map::new();
        if !port.name.is_empty() {
            found.insert("name", port.name.as_str());
        }
        found.insert("port", *number);
        found.insert("protocol", port.protocol.as_str());
        if let Some(protocol) = &port.app_protocol {
            found.insert("appProtocol", protocol.as_str());
        }
        Value::Map(found)
    });
    ports.collect()
}

/// Address of a pod in the primary family of the Service.
fn address<'a>(service: &Service, pod: &'a setpoint_views::pod::Pod) -> Option<&'a str> {
    let is_ipv6 = match service.spec.ip_families.first() {
        Some(family) => family == "IPv6",
        None => service.spec.cluster_ip.contains(':'),
    };
    let ips = pod.status.pod_ips.iter().map(|ip| ip.ip.as_str());
    let mut ips = ips.chain([pod.status.pod_ip.as_str()]).filter(|ip| !ip.is_empty());
    ips.find(|ip| ip.contains(':') == is_ipv6)
}

fn endpoint_address(service: &Object, object: &Object, pod: &setpoint_views::pod::Pod, ip: &str) -> Value {
    let mut address = Map::new();
    address.insert("ip", ip);
    if let Some(name) = service_pods::hostname(pod, service) {
        address.insert("hostname", name);
    }
    if !pod.spec.node_name.is_empty() {
        address.insert("nodeName", pod.spec.node_name.as_str());
    }
    let target = value!({
        "kind": "Pod",
        "namespace": (&*object.meta().namespace),
        "name": (&*object.meta().name),
        "uid": (&*object.meta().uid),
    });
    address.insert("targetRef", target);
    Value::Map(address)
}

/// Truncates to [`ADDRESSES_MAX`], ready addresses first. Returns `true` if addresses are dropped.
fn truncate(mut subsets: Vec<Subset>) -> (Vec<Subset>, bool) {
    let ready: usize = subsets.iter().map(|subset| subset.ready.len()).sum();
    let not_ready: usize = subsets.iter().map(|subset| subset.not_ready.len()).sum();
    if ready + not_ready <= ADDRESSES_MAX {
        return (subsets, false);
    }
    let truncates_ready = ready > ADDRESSES_MAX;
    let (room, total) =
        if truncates_ready { (ADDRESSES_MAX, ready) } else { (ADDRESSES_MAX - ready, not_ready) };
    let mut remaining = room;
    for subset in &mut subsets {
        if truncates_ready {
            subset.not_ready.clear();
        }
        let list = if truncates_ready { &mut subset.ready } else { &mut subset.not_ready };
        list.truncate((list.len() * room).div_ceil(total).min(remaining));
        remaining -= list.len();
    }
    subsets.retain(|subset| !subset.ready.is_empty() || !subset.not_ready.is_empty());
    (subsets, true)
}

#[cfg(test)]
mod tests;
