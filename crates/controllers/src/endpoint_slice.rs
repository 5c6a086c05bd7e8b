//! EndpointSlice controller: endpoints of a Service, in slices that change as little as possible.
//!
//! Endpoints with the same ports share slices of at most [`ENDPOINTS_MAX`]. An endpoint stays in its slice
//! while it serves; new ones go first to slices that change anyway, then fill new slices, and the rest goes
//! to the slice with the best fit. A Service without endpoints has one empty slice per address family.

mod packing;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Key, Map, Time, Value, json, value};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Action, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::endpoint_slice::EndpointSlice;
use setpoint_views::service::{Service, ServicePort};

use crate::pods::Owner;
use crate::service_pods::{self, HEADLESS, TRIGGER_TIME, TargetPorts};
use packing::DesiredSlices;

/// Maximum number of endpoints of a slice.
pub const ENDPOINTS_MAX: usize = 100;
/// Label with the name of the Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label with the name of the managing controller.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY`] in slices of this controller.
const MANAGER: &str = "endpointslice-controller.k8s.io";

/// The EndpointSlice controller.
pub struct EndpointSliceController;

impl Planner for EndpointSliceController {
    type Memo = ();

    fn name(&self) -> &'static str {
        "endpointslice-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 4] = [
            Watch::primary("services"),
            Watch::mapped("pods", service_pods::enqueue_services),
            Watch::mapped("endpointslices.discovery.k8s.io", enqueue_for_slice),
            Watch::mapped("nodes", enqueue_for_node),
        ];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let Some(service) = object.view::<Service>() else { return plan };
        // Endpoints of a Service without a selector are managed by others; an ExternalName has none.
        if service.spec.selector.is_none()
            || service.spec.kind == "ExternalName"
            || object.meta().is_deleted()
        {
            return plan;
        }
        let selected = service_pods::select_pods(world, object, service);
        let time = service_pods::trigger_time(object, &selected);
        let reconciler = SliceReconciler { world, object, service, selected, time };
        let families = reconciler.families();
        let mut actions = Vec::new();
        let existing = reconciler.existing();
        for family in &families {
            actions.extend(reconciler.reconcile_family(family, &existing));
        }
        let stale = existing.iter().filter(|(_, slice)| !families.contains(&slice.address_type.as_str()));
        actions.extend(stale.map(|(slice, _)| Action::from(Write::delete(slice))));
        plan.stage(actions);
        plan
    }
}

/// Enqueues the Service of a slice that this controller manages.
fn enqueue_for_slice(slice: &Object, _: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let labels = &slice.meta().labels;
    if labels.get(MANAGED_BY) == Some(MANAGER)
        && let Some(name) = labels.get(SERVICE_NAME)
        && let Some(key) = key_of("services", &slice.meta().namespace, name)
    {
        enqueue(key);
    }
}

/// Enqueues the Services of the pods on a node: endpoints carry its zone.
fn enqueue_for_node(node: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    for pod in world.by_index(crate::indexes::PODS_BY_NODE, &node.meta().name) {
        service_pods::enqueue_services(pod, world, enqueue);
    }
}

/// Endpoints with equal ports, and the slices with these ports.
#[derive(Default)]
struct PortGroup<'a> {
    ports: Vec<Value>,
    endpoints: Vec<Value>,
    slices: Vec<Existing<'a>>,
}

/// Ports in the form of EndpointSlices.
fn slice_ports(ports: &[(&ServicePort, i64)]) -> Vec<Value> {
    let ports = ports.iter().map(|(port, number)| {
        let mut found = Map::new();
        found.insert("name", port.name.as_str());
        found.insert("protocol", port.protocol.as_str());
        found.insert("port", *number);
        if let Some(protocol) = &port.app_protocol {
            found.insert("appProtocol", protocol.as_str());
        }
        Value::Map(found)
    });
    ports.collect()
}

fn ports_key(ports: &[Value]) -> String {
    ports.iter().map(json::to_text).collect::<Vec<_>>().join(",")
}

/// Reuses slices that would be deleted for slices that would be created, as upstream does: watchers then see
/// one change instead of two objects. Both have the same Service and address family.
fn recycle_slices<'a>(slices: &mut [packing::DesiredSlice<'a>], slices_to_delete: &mut Vec<&Existing<'a>>) {
    let new = slices.iter_mut().rev().filter(|slice| slice.current.is_none());
    let reused = new.zip(slices_to_delete.iter()).map(|(slice, (current, _))| {
        slice.current = Some(*current);
        slice.changed = true;
    });
    let count = reused.count();
    slices_to_delete.drain(..count);
}

type Existing<'a> = (&'a Object, &'a EndpointSlice);

/// Sync context of one Service.
struct SliceReconciler<'a> {
    world: &'a WorldReader<'a>,
    object: &'a Object,
    service: &'a Service,
    selected: Vec<crate::pods::PodRef<'a>>,
    time: Option<Time>,
}

impl<'a> SliceReconciler<'a> {
    fn families(&self) -> Vec<&'static str> {
        let families = self.service.spec.ip_families.iter();
        let listed = families.filter_map(|family| match family.as_str() {
            "IPv4" => Some("IPv4"),
            "IPv6" => Some("IPv6"),
            _ => None,
        });
        let listed: Vec<&'static str> = listed.collect();
        match self.service.spec.cluster_ip.as_str() {
            _ if !listed.is_empty() => listed,
            "" | "None" => vec!["IPv4", "IPv6"],
            ip if ip.contains(':') => vec!["IPv6"],
            _ => vec!["IPv4"],
        }
    }

    /// Slices of the Service that this controller manages.
    fn existing(&self) -> Vec<Existing<'a>> {
        let meta = self.object.meta();
        let all = self.world.owned(&meta.uid, "endpointslices.discovery.k8s.io");
        all.filter(|slice| slice.meta().labels.get(MANAGED_BY) == Some(MANAGER) && !slice.meta().is_deleted())
            .filter_map(|slice| Some((slice, slice.view()?)))
            .collect()
    }

    /// Plans the slices of one address family.
    fn reconcile_family(&self, family: &'static str, existing: &[Existing<'a>]) -> Vec<Action> {
        let existing: Vec<Existing<'a>> =
            existing.iter().filter(|(_, slice)| slice.address_type == family).copied().collect();
        // Keyed by encoded ports: pods, slices and sets of ports may be many.
        let (mut groups, mut positions) = (Vec::<PortGroup<'a>>::new(), BTreeMap::<String, usize>::new());
        let mut target_ports = TargetPorts::of(self.service);
        for seen in self.selected.iter().filter(|seen| service_pods::is_endpoint(seen, true)) {
            let position = target_ports.resolve(seen.1, |ports| {
                let ports = slice_ports(ports);
                *positions.entry(ports_key(&ports)).or_insert_with(|| {
                    groups.push(PortGroup { ports, ..PortGroup::default() });
                    groups.len() - 1
                })
            });
            groups[position].endpoints.extend(self.endpoint(seen, family));
        }
        for slice in &existing {
            if let Some(position) = positions.get(&ports_key(&slice.1.ports)) {
                groups[*position].slices.push(*slice);
            }
        }
        let mut desired = DesiredSlices::default();
        for position in positions.into_values() {
            let PortGroup { ports, endpoints, slices } = std::mem::take(&mut groups[position]);
            desired.add_group(ports, endpoints, slices);
        }
        let kept: BTreeSet<&Key> =
            desired.slices.iter().filter_map(|slice| slice.current).map(Object::key).collect();
        let mut slices_to_delete: Vec<&Existing<'a>> =
            existing.iter().filter(|(slice, _)| !kept.contains(&slice.key())).collect();
        if desired.slices.is_empty() {
            // Clients may wait for a slice, even without endpoints.
            match slices_to_delete
                .iter()
                .position(|(_, slice)| slice.endpoints.is_empty() && slice.ports.is_empty())
            {
                Some(position) => {
                    let (current, _) = slices_to_delete.remove(position);
                    desired.slices.push(packing::DesiredSlice {
                        current: Some(current),
                        changed: false,
                        ..Default::default()
                    });
                }
                None => desired.slices.push(packing::DesiredSlice::default()),
            }
        }
        recycle_slices(&mut desired.slices, &mut slices_to_delete);
        let written = desired.slices.iter().filter_map(|slice| self.write(family, slice));
        written
            .chain(slices_to_delete.into_iter().map(|(slice, _)| Action::from(Write::delete(slice))))
            .collect()
    }

    /// Endpoint of a pod in an address family; `None` without such an address, or if its node is unknown.
    fn endpoint(&self, (object, pod): &crate::pods::PodRef<'_>, family: &str) -> Option<Value> {
        let is_of_family = |ip: &str| ip.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6() == (family == "IPv6"));
        let addresses: Vec<&str> =
            pod.status.pod_ips.iter().map(|ip| ip.ip.as_str()).filter(|ip| is_of_family(ip)).collect();
        let node = self.world.find("nodes", "", &pod.spec.node_name);
        let publishes_not_ready = self.service.spec.publish_not_ready_addresses;
        if addresses.is_empty() || (node.is_none() && !publishes_not_ready) {
            return None;
        }
        let (serving, terminating) = (pod.is_ready(), object.meta().is_deleted());
        let ready = publishes_not_ready || (serving && !terminating);
        let mut endpoint = value!({
            "addresses": (addresses),
            "conditions": {"ready": (ready), "serving": (serving), "terminating": (terminating)},
            "targetRef": {
                "kind": "Pod",
                "namespace": (&*object.meta().namespace),
                "name": (&*object.meta().name),
                "uid": (&*object.meta().uid),
            },
        });
        let map = endpoint.make_map();
        if let Some(name) = service_pods::hostname(pod, self.object) {
            map.insert("hostname", name);
        }
        if !pod.spec.node_name.is_empty() {
            map.insert("nodeName", pod.spec.node_name.as_str());
        }
        let zone = node.and_then(|node| node.meta().labels.get("topology.kubernetes.io/zone"));
        if let Some(zone) = zone.filter(|zone| !zone.is_empty()) {
            map.insert("zone", zone);
        }
        if let Some(hints) = self.hints(ready, zone, &pod.spec.node_name) {
            map.insert("hints", hints);
        }
        Some(endpoint)
    }

    /// Topology hints of an endpoint.
    fn hints(&self, ready: bool, zone: Option<&str>, node: &str) -> Option<Value> {
        let zones = || zone.map(|zone| value!([{"name": (zone)}]));
        match self.service.spec.traffic_distribution.as_deref()? {
            "PreferClose" | "PreferSameZone" if ready => Some(value!({"forZones": (zones()?)})),
            "PreferSameNode" if ready && !node.is_empty() => {
                let mut hints = value!({"forNodes": [{"name": (node)}]});
                if let Some(zones) = zones() {
                    hints.make_map().insert("forZones", zones);
                }
                Some(hints)
            }
            _ => None,
        }
    }

    /// Creates or updates a slice, if it differs.
    fn write(&self, family: &str, slice: &packing::DesiredSlice<'_>) -> Option<Action> {
        let labels = self.labels();
        let time = self.time.map(|time| Seconds(time).to_string());
        let Some(current) = slice.current else {
            let owner = Owner { object: self.object, api_version: "v1", kind: "Service" };
            let object = value!({
                "metadata": {
                    "generateName": (format!("{}-", self.object.meta().name)),
                    "labels": (labels),
                    "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": (time)},
                    "ownerReferences": [(owner.reference())],
                },
                "addressType": (family),
                "endpoints": (slice.endpoints.clone()),
                "ports": (slice.ports.clone()),
            });
            let namespace = &self.object.meta().namespace;
            return Some(Write::create("endpointslices.discovery.k8s.io", namespace, object).into());
        };
        let has_labels = current.meta().labels.to_value() == labels;
        if has_labels && !slice.changed {
            return None;
        }
        let gone = current.meta().labels.iter().filter(|(name, _)| labels.get(name).is_none());
        let mut new_labels: Map = gone.map(|(name, _)| (name, Value::Null)).collect();
        for (name, value) in labels.as_map().into_iter().flat_map(Map::iter) {
            new_labels.insert(name, value.clone());
        }
        let current_time = current.meta().annotations.get(TRIGGER_TIME);
        let time = time.filter(|time| Some(time.as_str()) != current_time);
        let patch = value!({
            "metadata": {
                "labels": (new_labels),
                "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": (time)},
            },
            "endpoints": (slice.endpoints.clone()),
            "ports": (slice.ports.clone()),
        });
        Some(Write::merge(current, "", patch).into())
    }

    /// Labels of the slices: those of the Service, and our own.
    fn labels(&self) -> Value {
        let reserved = [SERVICE_NAME, MANAGED_BY, HEADLESS];
        let meta = self.object.meta();
        let own = meta.labels.iter().filter(|(name, _)| !reserved.contains(name));
        let mut labels: Map = own.map(|(name, value)| (name, Value::from(value))).collect();
        labels.insert(SERVICE_NAME, &*meta.name);
        labels.insert(MANAGED_BY, MANAGER);
        if !self.service.has_ip() {
            labels.insert(HEADLESS, "");
        }
        Value::Map(labels)
    }
}

#[cfg(test)]
mod tests;
