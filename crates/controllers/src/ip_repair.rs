//! Service IP repair: every address of a Service has an IPAddress object, and every IPAddress has its
//! Service.
//!
//! The API creates both in one commit; inconsistencies by user edits or restored backups are repaired here.

use std::net::IpAddr;
use std::time::Duration;

use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::plan::InvolvedObject;
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Action, EventRecord, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::ip_address::IpAddress;
use setpoint_views::service::Service;
use setpoint_views::service_cidr::ServiceCidr;

use crate::service_cidr::{cidrs, is_allocatable};

/// Minimum age of an IPAddress before it counts as leaked.
const LEAK_GRACE: Duration = Duration::from_secs(60);
const IP_ADDRESSES: &str = "ipaddresses.networking.k8s.io";

/// The Service IP repair controller.
pub struct IpRepair;

impl Planner for IpRepair {
    /// Last Event of a Service, so it is not repeated.
    type Memo = String;

    fn name(&self) -> &'static str {
        "ipallocator-repair-controller"
    }

    fn user(&self) -> String {
        "system:apiserver".to_owned()
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 5] = [
            Watch::primary("services"),
            Watch::primary(IP_ADDRESSES),
            Watch::mapped("services", enqueue_for_service),
            Watch::mapped(IP_ADDRESSES, enqueue_for_address),
            Watch::mapped("servicecidrs.networking.k8s.io", |_, world, enqueue| {
                world.all("services").for_each(|service| enqueue(service.key().clone()));
            }),
        ];
        &WATCHES
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, String>,
        now: Time,
        _: Seed,
    ) -> Plan<String> {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        if let Some(service) = object.view::<Service>() {
            let mut events = Vec::new();
            for text in service.spec.cluster_ips.iter().filter(|_| service.has_ip()) {
                events.extend(repair_allocation(&mut plan, object, text, world));
            }
            plan.memo = events.iter().map(|event| event.message.as_str()).collect();
            if plan.memo != seen.memo {
                plan.events = events;
            }
        } else if let Some(address) = object.view::<IpAddress>().filter(|_| IpAddress::is_managed(object)) {
            delete_leaked(&mut plan, object, address, world, now);
        }
        plan
    }
}

/// Enqueues the addresses of a Service.
fn enqueue_for_service(object: &Object, _: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let Some(service) = object.view::<Service>() else { return };
    for key in service.spec.cluster_ips.iter().filter_map(|ip| key_of(IP_ADDRESSES, "", ip)) {
        enqueue(key);
    }
}

/// Enqueues the Service of an address; another Service that should have the address is found by the resync.
fn enqueue_for_address(object: &Object, _: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    let Some(parent) = object.view::<IpAddress>().and_then(|address| address.spec.parent_ref.as_ref()) else {
        return;
    };
    if let Some(key) = key_of("services", &parent.namespace, &parent.name) {
        enqueue(key);
    }
}

/// Allocates an address of a Service, if needed. Returns an Event about a problem that cannot be repaired.
fn repair_allocation(
    plan: &mut Plan<String>,
    object: &Object,
    text: &str,
    world: &WorldReader<'_>,
) -> Option<EventRecord> {
    let subject = InvolvedObject::new(object, "v1", "Service");
    let meta = object.meta();
    let Ok(ip) = text.parse::<IpAddr>() else {
        let message = format!("Cluster IP {text} is not a valid IP; please recreate Service");
        return Some(subject.warning("ClusterIPNotValid", message));
    };
    let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
    if !world.views::<ServiceCidr>().any(|(_, range)| cidrs(range).any(|cidr| is_allocatable(&cidr, ip))) {
        let message = format!(
            "Cluster IP [{family}]: {ip} is not within any configured Service CIDR; please recreate service"
        );
        return Some(subject.warning("ClusterIPOutOfRange", message));
    }
    let name = ip.to_string();
    let create = |message: String| {
        let action = Action::from(Write::create(IP_ADDRESSES, "", new_ip_address(&name, family, object)));
        action.on_done(subject.warning("ClusterIPNotAllocated", message))
    };
    let Some((existing, address)) = world.view::<IpAddress>("", &name) else {
        plan.stage([create(format!("Cluster IP [{family}]: {ip} is not allocated; repairing"))]);
        return None;
    };
    let service = address.service();
    let is_referenced = service == Some((&*meta.namespace, &*meta.name));
    let other_service = service
        .filter(|_| !is_referenced)
        .and_then(|(namespace, name)| world.view::<Service>(namespace, name));
    if other_service.is_some_and(|(_, other_service)| other_service.spec.cluster_ips.contains(&name)) {
        let message =
            format!("Cluster IP [{family}]:{ip} was assigned to multiple services; please recreate service");
        return Some(subject.warning("ClusterIPAlreadyAllocated", message));
    }
    let is_labelled = IpAddress::is_managed(existing)
        && existing.meta().labels.get("ipaddress.kubernetes.io/ip-family") == Some(family);
    if !is_referenced || !is_labelled {
        plan.stage([Action::from(Write::delete(existing))]);
        let message = format!(
            "the ClusterIP [{family}]: {ip} for Service {}/{} has a wrong reference; repairing",
            meta.namespace, meta.name
        );
        plan.stage([create(message)]);
    }
    None
}

fn new_ip_address(name: &str, family: &str, service: &Object) -> Value {
    let meta = service.meta();
    value!({
        "metadata": {"name": (name), "labels": {
            "ipaddress.kubernetes.io/ip-family": (family),
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        }},
        "spec": {"parentRef": {
            "group": "",
            "resource": "services",
            "namespace": (&*meta.namespace),
            "name": (&*meta.name),
        }},
    })
}

/// Deletes an IPAddress that no Service has.
fn delete_leaked(
    plan: &mut Plan<String>,
    object: &Object,
    address: &IpAddress,
    world: &WorldReader<'_>,
    now: Time,
) {
    let subject = InvolvedObject::new(object, "networking.k8s.io/v1", "IPAddress");
    let name = &object.meta().name;
    let delete = |reason: &'static str, message: String| {
        [Action::from(Write::delete(object)).on_done(subject.warning(reason, message))]
    };
    let Some((namespace, of)) = address.service() else {
        let message =
            format!("IPAddress {name} appears to have been modified, not referencing a Service: cleaning up");
        return plan.stage(delete("IPAddressNotAllocated", message));
    };
    let service = world.view::<Service>(namespace, of);
    if service.is_some_and(|(_, service)| service.spec.cluster_ips.iter().any(|ip| **ip == **name)) {
        return;
    }
    let is_external = service.is_some_and(|(_, service)| service.spec.kind == "ExternalName");
    // A missing Service may be not visible yet.
    let leaked = object.meta().created().after(LEAK_GRACE);
    if (service.is_none() || is_external) && now < leaked {
        return plan.requeue_at(leaked);
    }
    if service.is_none() {
        let message =
            format!("IPAddress: {name} for Service {namespace}/{of} appears to have leaked: cleaning up");
        return plan.stage(delete("IPAddressNotAllocated", message));
    }
    let message =
        format!("IPAddress: {name} for Service {namespace}/{of} has a wrong reference; cleaning up");
    plan.stage(delete("IPAddressWrongReference", message));
}

#[cfg(test)]
mod tests;
