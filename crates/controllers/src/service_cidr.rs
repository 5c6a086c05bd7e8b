//! ServiceCIDR controller: the `Ready` condition, and protection of ranges with allocated addresses.
//!
//! A deleted range stays until each of its addresses is also in another range. It is kept for ten more
//! seconds, so all allocators have observed the deletion.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use setpoint_api::names::ip::Cidr;
use setpoint_api::{Key, Time};
use setpoint_reconcile::plan::value_of;
use setpoint_reconcile::{Action, Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::ip_address::IpAddress;
use setpoint_views::service_cidr::ServiceCidr;
use setpoint_views::{Condition, condition};

use crate::finalizers;

/// Finalizer of a range.
const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
/// Time for which a range without own addresses is kept after its deletion.
const GRACE: Duration = Duration::from_secs(10);
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
            plan.stage(tell(object, range, ready));
            return plan;
        };
        if !object.meta().has_finalizer(FINALIZER) {
            return plan;
        }
        if !may_go(object, range, world) {
            let message = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a \
                           new ServiceCIDR";
            plan.stage(tell(object, range, Condition::new(READY, "False", "Terminating", message, now)));
        } else if now < deleted.after(GRACE) {
            plan.requeue_at(deleted.after(GRACE));
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
fn tell(object: &Object, range: &ServiceCidr, new: Condition) -> Option<Action> {
    let same = |known: &Condition| {
        (&known.status, &known.reason, &known.message) == (&new.status, &new.reason, &new.message)
    };
    if condition(&range.status.conditions, READY).is_some_and(same) {
        return None;
    }
    let others = range.status.conditions.iter().filter(|one| one.kind != READY);
    let all: Vec<_> = others.map(value_of).chain([value_of(&new)]).collect();
    let status = setpoint_api::value!({"conditions": (all)});
    // This plan may just have written the finalizer.
    Some(Write::status(object, status).at_any_revision().into())
}

/// `true` if every address of the range is also in another range.
fn may_go(object: &Object, range: &ServiceCidr, world: &WorldReader<'_>) -> bool {
    let others = world.views::<ServiceCidr>().filter(|(other, _)| other.key() != object.key());
    let others = Networks::of(others.flat_map(|(_, other)| cidrs(other)));
    let own: Vec<Cidr> = cidrs(range).collect();
    if own.iter().all(|cidr| others.around(cidr.ip, cidr.prefix_bits).next().is_some()) {
        return true;
    }
    let ours = |ip: IpAddr| own.iter().any(|cidr| allocates(cidr, ip));
    let theirs = |ip: IpAddr| others.around(ip, u8::MAX).any(|cidr| allocates(&cidr, ip));
    let allocated = world.views::<IpAddress>().filter(|(address, _)| IpAddress::is_managed(address));
    let mut ips = allocated.filter_map(|(address, _)| address.meta().name.parse::<IpAddr>().ok());
    !ips.any(|ip| ours(ip) && !theirs(ip))
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
    fn around(&self, ip: IpAddr, bits_max: u8) -> impl Iterator<Item = Cidr> {
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

fn holds(cidr: &Cidr, ip: IpAddr) -> bool {
    ip.is_ipv4() == cidr.ip.is_ipv4()
        && Cidr { ip, prefix_bits: cidr.prefix_bits }.network() == cidr.network()
}

/// `true` if an address can be allocated from a network: not the first one, nor the last one of an IPv4
/// network.
pub(crate) fn allocates(cidr: &Cidr, ip: IpAddr) -> bool {
    let is_last = match (cidr.network(), ip) {
        (IpAddr::V4(first), IpAddr::V4(ip)) => {
            let hosts = u32::MAX.checked_shr(u32::from(cidr.prefix_bits)).unwrap_or(0);
            first.to_bits() | hosts == ip.to_bits()
        }
        _ => false,
    };
    holds(cidr, ip) && ip != cidr.network() && !is_last
}

#[cfg(test)]
mod tests;
