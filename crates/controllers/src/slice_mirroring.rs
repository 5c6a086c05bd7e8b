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
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Annotation of Endpoints that are a leader election lock.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotations that are not mirrored.
const KEPT: [&str; 2] = [TRIGGER_TIME, "kubectl.kubernetes.io/last-applied-configuration"];
const SLICES: &str = "endpointslices.discovery.k8s.io";

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
            Watch::mapped(SLICES, |slice, _, enqueue| {
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
        let mut acts = Vec::new();
        if let Some((object, endpoints)) = mirrored(world, namespace, key.name()) {
            let (wanted, skipped) = wanted(endpoints);
            // Positions of the slices of each group, the first one last.
            let mut places: BTreeMap<(String, Vec<u8>), Vec<usize>> = BTreeMap::new();
            for (place, (_, slice)) in existing.iter().enumerate().rev() {
                let ports = encoded(&sorted(slice.ports.clone()));
                places.entry((slice.address_type.clone(), ports)).or_default().push(place);
            }
            let mut used = BTreeSet::new();
            for ((family, ports), endpoints) in wanted {
                let place = places.get_mut(&(family.to_owned(), encoded(&ports))).and_then(Vec::pop);
                let was = place.map(|place| existing[place]);
                used.extend(place);
                acts.extend(write(object, family, ports, endpoints, was));
            }
            let mut place = 0..;
            existing.retain(|_| place.next().is_none_or(|place| !used.contains(&place)));
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
        acts.extend(existing.into_iter().map(|(slice, _)| Action::from(Write::delete(slice))));
        plan.stage(acts);
        plan
    }
}

/// Endpoints to mirror: written by a user for a Service without a selector.
fn mirrored<'a>(
    world: &'a WorldReader<'a>,
    namespace: &str,
    name: &str,
) -> Option<(&'a Object, &'a Endpoints)> {
    let (object, endpoints) = world.view::<Endpoints>(namespace, name)?;
    let meta = object.meta();
    let skips = meta.labels.get(SKIP) == Some("true") || meta.annotations.get(LEADER).is_some();
    let (_, service) = world.view::<Service>(namespace, name)?;
    (!skips && !meta.is_deleted() && service.spec.selector.is_none()).then_some((object, endpoints))
}

/// Address family and set of ports.
type Group = (&'static str, Vec<Value>);
/// Endpoints by address and UID of the target.
type Members = BTreeMap<(String, String), Value>;

/// Endpoints of each group, sorted by address, and the number of skipped addresses.
fn wanted(endpoints: &Endpoints) -> (Vec<(Group, Vec<Value>)>, usize) {
    let mut groups: Vec<(Group, Members)> = Vec::new();
    let mut places: BTreeMap<(&str, Vec<u8>), usize> = BTreeMap::new();
    let mut skipped = 0;
    for subset in &endpoints.subsets {
        let list = |name: &str| subset.get(name).and_then(Value::as_list).unwrap_or_default();
        let ports = sorted(list("ports").iter().map(port).collect());
        let ports_encoded = encoded(&ports);
        // Positions of the groups of this subset, by address family.
        let mut own: BTreeMap<&str, usize> = BTreeMap::new();
        let ready = list("addresses").iter().map(|address| (address, true));
        let unready = list("notReadyAddresses").iter().map(|address| (address, false));
        for (address, ready) in ready.chain(unready) {
            let Some(ip) = parse_ip(address.str_at(&["ip"])) else { continue };
            let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
            let place = *own.entry(family).or_insert_with(|| {
                *places.entry((family, ports_encoded.clone())).or_insert_with(|| {
                    groups.push(((family, ports.clone()), Members::new()));
                    groups.len() - 1
                })
            });
            let members = &mut groups[place].1;
            let id = (ip.to_string(), address.str_at(&["targetRef", "uid"]).to_owned());
            if members.len() >= ADDRESSES_MAX && !members.contains_key(&id) {
                skipped += 1;
                continue;
            }
            let endpoint = endpoint(&id.0, address, ready);
            // Ready addresses of a subset come first, so an address in both of its lists is ready.
            members.entry(id).or_insert(endpoint);
        }
    }
    let groups = groups.into_iter().map(|(group, members)| (group, members.into_values().collect()));
    (groups.collect(), skipped)
}

fn endpoint(ip: &str, address: &Value, ready: bool) -> Value {
    let mut endpoint = value!({"addresses": [(ip)], "conditions": {"ready": (ready)}});
    for name in ["hostname", "nodeName", "targetRef"] {
        let found = address.get(name).filter(|value| !value.is_null() && value.as_str() != Some(""));
        if let Some(value) = found {
            endpoint.make_map().insert(name, value.clone());
        }
    }
    endpoint
}

fn port(port: &Value) -> Value {
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
fn sorted(mut ports: Vec<Value>) -> Vec<Value> {
    ports.sort_by_cached_key(|port| {
        (port.str_at(&["name"]).to_owned(), port.get("port").and_then(Value::as_i64))
    });
    ports
}

/// Encoding of ports that is equal for equal ports.
fn encoded(ports: &[Value]) -> Vec<u8> {
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
    was: Option<(&Object, &EndpointSlice)>,
) -> Option<Action> {
    let meta = object.meta();
    let own = meta.labels.iter().filter(|(name, _)| ![SERVICE_NAME, MANAGED_BY].contains(name));
    let labels: Pairs = own.chain([(SERVICE_NAME, &*meta.name), (MANAGED_BY, MANAGER)]).collect();
    let annotations: Pairs = meta.annotations.iter().filter(|(name, _)| !KEPT.contains(name)).collect();
    let owner = Owner { object, api_version: "v1", kind: "Endpoints" };
    let Some((seen, slice)) = was else {
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
        return Some(Write::create(SLICES, &meta.namespace, slice).into());
    };
    let known = seen.meta();
    let is_owned = known.owner_references.iter().any(|owner| owner.uid == meta.uid);
    if slice.endpoints == endpoints && known.labels == labels && known.annotations == annotations && is_owned
    {
        return None;
    }
    let patch = value!({
        "metadata": {
            "labels": (changed(&known.labels, &labels)),
            "annotations": (changed(&known.annotations, &annotations)),
            "ownerReferences": [(owner.reference())],
        },
        "endpoints": (endpoints),
    });
    Some(Write::merge(seen, "", patch).into())
}

/// Merge patch from `before` to `after`.
fn changed(before: &Pairs, after: &Pairs) -> Map {
    let gone = before.iter().filter(|(name, _)| after.get(name).is_none());
    let gone = gone.map(|(name, _)| (name, Value::Null));
    gone.chain(after.iter().map(|(name, value)| (name, Value::from(value)))).collect()
}

#[cfg(test)]
mod tests;
