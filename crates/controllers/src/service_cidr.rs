//! ServiceCIDR controller: the `Ready` condition, and protection of ranges with allocated addresses.
//!
//! A deleted range stays until each of its addresses is also in another range. It is kept for ten more
//! seconds, so all allocators have observed the deletion.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use setpoint_api::names::ip::Cidr;
use setpoint_api::{Key, Time, value};
use setpoint_reconcile::plan::value_of;
use setpoint_reconcile::{Action, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::ip_address::IpAddress;
use setpoint_views::service_cidr::ServiceCidr;
use setpoint_views::{Condition, condition};

use crate::conditions::{is_same, with_condition};
use crate::finalizers;

/// Finalizer of a range.
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
/// Time for which a range without own addresses is kept after its deletion.
const DELETION_DELAY: Duration = Duration::from_secs(10);
const READY: &str = "Ready";

/// The ServiceCIDR controller.
pub struct ServiceCidrController;

impl Planner for ServiceCidrController {
    type Memo = ();

    fn name(&self) -> &'static str {
        "service-cidrs-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 3] = [
            Watch::primary("servicecidrs.networking.k8s.io"),
            // Ranges may contain each other, so a change enqueues all deleted ones. There are few.
            Watch::mapped("servicecidrs.networking.k8s.io", |_, world, enqueue| {
                enqueue_deleted(world, enqueue)
            }),
            Watch::mapped("ipaddresses.networking.k8s.io", |_, world, enqueue| {
                enqueue_deleted(world, enqueue)
            }),
        ];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let Some(range) = object.view::<ServiceCidr>() else { return plan };
        let Some(deleted) = object.meta().deletion_timestamp else {
            plan.stage(finalizers::add(object, FINALIZER));
            let ready = Condition::new(READY, "True", "", "Kubernetes Service CIDR is ready", now);
            plan.stage(set_ready_condition(object, range, ready));
            return plan;
        };
        if !object.meta().has_finalizer(FINALIZER) {
            return plan;
        }
        if !can_delete(object, range, world) {
            let message = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a \
                           new ServiceCIDR";
            plan.stage(set_ready_condition(
                object,
                range,
                Condition::new(READY, "False", "Terminating", message, now),
            ));
        } else if now < deleted.after(DELETION_DELAY) {
            plan.requeue_at(deleted.after(DELETION_DELAY));
        } else {
            plan.stage(finalizers::remove(object, FINALIZER));
        }
        plan
    }
}

fn enqueue_deleted(world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    for range in world.all("servicecidrs.networking.k8s.io").filter(|range| range.meta().is_deleted()) {
        enqueue(range.key().clone());
    }
}

/// Sets a condition, unless it is equal to the current one.
fn set_ready_condition(object: &Object, range: &ServiceCidr, new: Condition) -> Option<Action> {
    if condition(&range.status.conditions, READY).is_some_and(|existing| is_same(existing, &new)) {
        return None;
    }
    let conditions = with_condition(&range.status.conditions, new);
    let status = value!({"conditions": (value_of(&conditions))});
    // This plan may just have written the finalizer.
    Some(Write::status(object, status).at_any_revision().into())
}

/// `true` if every address of the range is also in another range.
fn can_delete(object: &Object, range: &ServiceCidr, world: &WorldReader<'_>) -> bool {
    let others = world.views::<ServiceCidr>().filter(|(other, _)| other.key() != object.key());
    let others = Networks::of(others.flat_map(|(_, other)| cidrs(other)));
    let own_cidrs: Vec<Cidr> = cidrs(range).collect();
    if own_cidrs.iter().all(|cidr| others.containing(cidr.ip, cidr.prefix_bits).next().is_some()) {
        return true;
    }
    let is_own = |ip: IpAddr| own_cidrs.iter().any(|cidr| is_allocatable(cidr, ip));
    let is_in_other = |ip: IpAddr| others.containing(ip, u8::MAX).any(|cidr| is_allocatable(&cidr, ip));
    let allocated = world.views::<IpAddress>().filter(|(address, _)| IpAddress::is_managed(address));
    let mut ips = allocated.filter_map(|(address, _)| address.meta().name.parse::<IpAddr>().ok());
    !ips.any(|ip| is_own(ip) && !is_in_other(ip))
}

/// Networks by prefix length: a lookup takes one step per length.
struct Networks(BTreeMap<u8, BTreeSet<IpAddr>>);

impl Networks {
    fn of(cidrs: impl Iterator<Item = Cidr>) -> Networks {
        let mut by_bits: BTreeMap<u8, BTreeSet<IpAddr>> = BTreeMap::new();
        for cidr in cidrs {
            by_bits.entry(cidr.prefix_bits).or_default().insert(cidr.network());
        }
        Networks(by_bits)
    }

    /// Networks that contain an address, with at most `bits_max` bits of prefix.
    fn containing(&self, ip: IpAddr, bits_max: u8) -> impl Iterator<Item = Cidr> {
        let bits_max = bits_max.min(if ip.is_ipv4() { 32 } else { 128 });
        self.0.range(..=bits_max).filter_map(move |(bits, networks)| {
            let network = Cidr { ip, prefix_bits: *bits }.network();
            networks.contains(&network).then_some(Cidr { ip: network, prefix_bits: *bits })
        })
    }
}

/// Networks of a range.
pub(crate) fn cidrs(range: &ServiceCidr) -> impl Iterator<Item = Cidr> {
    range.spec.cidrs.iter().filter_map(|text| Cidr::parse(text))
}

fn contains_address(cidr: &Cidr, ip: IpAddr) -> bool {
    ip.is_ipv4() == cidr.ip.is_ipv4()
        && Cidr { ip, prefix_bits: cidr.prefix_bits }.network() == cidr.network()
}

/// `true` if an address can be allocated from a network: not the first one, nor the last one of an IPv4
/// network.
pub(crate) fn is_allocatable(cidr: &Cidr, ip: IpAddr) -> bool {
    let is_last = match (cidr.network(), ip) {
        (IpAddr::V4(first), IpAddr::V4(ip)) => {
            let hosts = u32::MAX.checked_shr(u32::from(cidr.prefix_bits)).unwrap_or(0);
            first.to_bits() | hosts == ip.to_bits()
        }
        _ => false,
    };
    contains_address(cidr, ip) && ip != cidr.network() && !is_last
}

#[cfg(test)]
mod tests;
