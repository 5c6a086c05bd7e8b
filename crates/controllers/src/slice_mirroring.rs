//! EndpointSlice mirroring: slices for Endpoints that users write.
//!
//! Endpoints of a Service without a selector are copied into slices, one for each set of ports and address
//! family, with their labels and annotations. Slices of Endpoints that are not mirrored are deleted.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::names::ip::parse_ip;
use setpoint_api::{Key, Map, Time, Value, json, value};
use setpoint_reconcile::object::Pairs;
use setpoint_reconcile::plan::InvolvedObject;
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Action, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::endpoint_slice::EndpointSlice;
use setpoint_views::endpoints::Endpoints;
use setpoint_views::service::Service;

use crate::endpoint_slice::{MANAGED_BY, SERVICE_NAME};
use crate::indexes::{SLICES_BY_SERVICE, path};
use crate::pods::Owner;
use crate::service_pods::TRIGGER_TIME;

/// Maximum number of mirrored addresses per set of ports and address family.
const ADDRESSES_MAX: usize = 1000;
/// Value of the label `managed-by` in mirrored slices.
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
/// Label of Endpoints that are not mirrored.
const SKIP_MIRROR_LABEL: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Annotation of Endpoints that are a leader election lock.
const LEADER_ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotations that are not mirrored.
const UNMIRRORED_ANNOTATIONS: [&str; 2] = [TRIGGER_TIME, "kubectl.kubernetes.io/last-applied-configuration"];
const ENDPOINT_SLICES: &str = "endpointslices.discovery.k8s.io";

/// The EndpointSlice mirroring controller.
pub struct SliceMirroring;

impl Planner for SliceMirroring {
    /// Number of skipped addresses in the last Event.
    type Memo = usize;

    fn name(&self) -> &'static str {
        "endpointslicemirroring-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 3] = [
            Watch::primary("endpoints"),
            Watch::mapped("services", |service, _, enqueue| {
                key_of("endpoints", &service.meta().namespace, &service.meta().name)
                    .into_iter()
                    .for_each(enqueue);
            }),
            Watch::mapped(ENDPOINT_SLICES, |slice, _, enqueue| {
                let meta = slice.meta();
                if let Some(name) = meta.labels.get(SERVICE_NAME) {
                    key_of("endpoints", &meta.namespace, name).into_iter().for_each(enqueue);
                }
            }),
        ];
        &WATCHES
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, usize>,
        _: Time,
        _: Seed,
    ) -> Plan<usize> {
        let mut plan = Plan::default();
        let namespace = key.namespace().unwrap_or_default();
        let slices = world.by_index(SLICES_BY_SERVICE, &path(namespace, key.name()));
        let mut existing: Vec<(&Object, &EndpointSlice)> = slices
            .filter(|slice| {
                slice.meta().labels.get(MANAGED_BY) == Some(MANAGER) && !slice.meta().is_deleted()
            })
            .filter_map(|slice| Some((slice, slice.view()?)))
            .collect();
        let mut actions = Vec::new();
        if let Some((object, endpoints)) = endpoints_to_mirror(world, namespace, key.name()) {
            let (desired, skipped) = desired_groups(endpoints);
            // Positions of the slices of each group, the first one last.
            let mut positions: BTreeMap<(String, Vec<u8>), Vec<usize>> = BTreeMap::new();
            for (position, (_, slice)) in existing.iter().enumerate().rev() {
                let ports = encode_ports(&sort_ports(slice.ports.clone()));
                positions.entry((slice.address_type.clone(), ports)).or_default().push(position);
            }
            let mut used = BTreeSet::new();
            for ((family, ports), endpoints) in desired {
                let position =
                    positions.get_mut(&(family.to_owned(), encode_ports(&ports))).and_then(Vec::pop);
                let current = position.map(|position| existing[position]);
                used.extend(position);
                actions.extend(write(object, family, ports, endpoints, current));
            }
            let mut position = 0..;
            existing.retain(|_| position.next().is_none_or(|position| !used.contains(&position)));
            if skipped > 0 && skipped != seen.memo {
                let message = format!(
                    "A max of {ADDRESSES_MAX} addresses can be mirrored to EndpointSlices per Endpoints subset. \
                     {skipped} addresses were skipped"
                );
                plan.events.push(
                    InvolvedObject::new(object, "v1", "Endpoints")
                        .warning("TooManyAddressesToMirror", message),
                );
            }
            plan.memo = skipped;
        }
        actions.extend(existing.into_iter().map(|(slice, _)| Action::from(Write::delete(slice))));
        plan.stage(actions);
        plan
    }
}

/// Endpoints to mirror: written by a user for a Service without a selector.
fn endpoints_to_mirror<'a>(
    world: &'a WorldReader<'a>,
    namespace: &str,
    name: &str,
) -> Option<(&'a Object, &'a Endpoints)> {
    let (object, endpoints) = world.view::<Endpoints>(namespace, name)?;
    let meta = object.meta();
    let is_skipped = meta.labels.get(SKIP_MIRROR_LABEL) == Some("true")
        || meta.annotations.get(LEADER_ANNOTATION).is_some();
    let (_, service) = world.view::<Service>(namespace, name)?;
    (!is_skipped && !meta.is_deleted() && service.spec.selector.is_none()).then_some((object, endpoints))
}

/// Address family and set of ports.
type SliceGroup = (&'static str, Vec<Value>);
/// Endpoints by address and UID of the target.
type GroupEndpoints = BTreeMap<(String, String), Value>;

/// Endpoints of each group, sorted by address, and the number of skipped addresses.
fn desired_groups(endpoints: &Endpoints) -> (Vec<(SliceGroup, Vec<Value>)>, usize) {
    let mut groups: Vec<(SliceGroup, GroupEndpoints)> = Vec::new();
    let mut positions: BTreeMap<(&str, Vec<u8>), usize> = BTreeMap::new();
    let mut skipped = 0;
    for subset in &endpoints.subsets {
        let list = |name: &str| subset.get(name).and_then(Value::as_list).unwrap_or_default();
        let ports = sort_ports(list("ports").iter().map(new_port).collect());
        let ports_encoded = encode_ports(&ports);
        // Positions of the groups of this subset, by address family.
        let mut subset_groups: BTreeMap<&str, usize> = BTreeMap::new();
        let ready = list("addresses").iter().map(|address| (address, true));
        let unready = list("notReadyAddresses").iter().map(|address| (address, false));
        for (address, ready) in ready.chain(unready) {
            let Some(ip) = parse_ip(address.str_at(&["ip"])) else { continue };
            let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
            let position = *subset_groups.entry(family).or_insert_with(|| {
                *positions.entry((family, ports_encoded.clone())).or_insert_with(|| {
                    groups.push(((family, ports.clone()), GroupEndpoints::new()));
                    groups.len() - 1
                })
            });
            let endpoints_by_address = &mut groups[position].1;
            let id = (ip.to_string(), address.str_at(&["targetRef", "uid"]).to_owned());
            if endpoints_by_address.len() >= ADDRESSES_MAX && !endpoints_by_address.contains_key(&id) {
                skipped += 1;
                continue;
            }
            let endpoint = new_endpoint(&id.0, address, ready);
            // Ready addresses of a subset come first, so an address in both of its lists is ready.
            endpoints_by_address.entry(id).or_insert(endpoint);
        }
    }
    let groups = groups
        .into_iter()
        .map(|(group, endpoints_by_address)| (group, endpoints_by_address.into_values().collect()));
    (groups.collect(), skipped)
}

fn new_endpoint(ip: &str, address: &Value, ready: bool) -> Value {
    let mut endpoint = value!({"addresses": [(ip)], "conditions": {"ready": (ready)}});
    for name in ["hostname", "nodeName", "targetRef"] {
        let found = address.get(name).filter(|value| !value.is_null() && value.as_str() != Some(""));
        if let Some(value) = found {
            endpoint.make_map().insert(name, value.clone());
        }
    }
    endpoint
}

fn new_port(port: &Value) -> Value {
    let mut found = Map::new();
    found.insert("name", port.str_at(&["name"]));
    found.insert("port", port.get("port").cloned());
    let protocol = port.str_at(&["protocol"]);
    found.insert("protocol", if protocol.is_empty() { "TCP" } else { protocol });
    if let Some(protocol) = port.get("appProtocol").filter(|protocol| !protocol.is_null()) {
        found.insert("appProtocol", protocol.clone());
    }
    Value::Map(found)
}

/// Ports sorted by name and number.
fn sort_ports(mut ports: Vec<Value>) -> Vec<Value> {
    ports.sort_by_cached_key(|port| {
        (port.str_at(&["name"]).to_owned(), port.get("port").and_then(Value::as_i64))
    });
    ports
}

/// Encoding of ports that is equal for equal ports.
fn encode_ports(ports: &[Value]) -> Vec<u8> {
    let mut ports = ports.to_vec();
    ports.iter_mut().filter_map(Value::as_map_mut).for_each(Map::sort);
    json::to_vec(&Value::List(ports))
}

/// Creates or updates a slice, if it differs.
fn write(
    object: &Object,
    family: &str,
    ports: Vec<Value>,
    endpoints: Vec<Value>,
    current: Option<(&Object, &EndpointSlice)>,
) -> Option<Action> {
    let meta = object.meta();
    let own_labels = meta.labels.iter().filter(|(name, _)| ![SERVICE_NAME, MANAGED_BY].contains(name));
    let labels: Pairs = own_labels.chain([(SERVICE_NAME, &*meta.name), (MANAGED_BY, MANAGER)]).collect();
    let annotations: Pairs =
        meta.annotations.iter().filter(|(name, _)| !UNMIRRORED_ANNOTATIONS.contains(name)).collect();
    let owner = Owner { object, api_version: "v1", kind: "Endpoints" };
    let Some((seen, slice)) = current else {
        let slice = value!({
            "metadata": {
                "generateName": (format!("{}-", meta.name)),
                "labels": (labels.to_value()),
                "annotations": (annotations.to_value()),
                "ownerReferences": [(owner.reference())],
            },
            "addressType": (family),
            "endpoints": (endpoints),
            "ports": (ports),
        });
        return Some(Write::create(ENDPOINT_SLICES, &meta.namespace, slice).into());
    };
    let existing_meta = seen.meta();
    let is_owned = existing_meta.owner_references.iter().any(|owner| owner.uid == meta.uid);
    if slice.endpoints == endpoints
        && existing_meta.labels == labels
        && existing_meta.annotations == annotations
        && is_owned
    {
        return None;
    }
    let patch = value!({
        "metadata": {
            "labels": (pairs_patch(&existing_meta.labels, &labels)),
            "annotations": (pairs_patch(&existing_meta.annotations, &annotations)),
            "ownerReferences": [(owner.reference())],
        },
        "endpoints": (endpoints),
    });
    Some(Write::merge(seen, "", patch).into())
}

/// Merge patch from `before` to `after`.
fn pairs_patch(before: &Pairs, after: &Pairs) -> Map {
    let gone = before.iter().filter(|(name, _)| after.get(name).is_none());
    let gone = gone.map(|(name, _)| (name, Value::Null));
    gone.chain(after.iter().map(|(name, value)| (name, Value::from(value)))).collect()
}

#[cfg(test)]
mod tests;
