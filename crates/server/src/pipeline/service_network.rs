//! Addresses and ports of Services.
//!
//! An address belongs to a Service while there is an `IPAddress` object with its name. That object is made and
//! deleted in the commit that makes and deletes the Service, on condition that nobody else has made it, so that no
//! two Services get the same address and none is lost. Node ports are counted over all Services that have some,
//! which takes time in proportion to them; commits that take a port also touch one common key, so that of two that
//! count at the same time one counts again. A dry run looks for free addresses like any other, and takes none.

mod ports;

use std::net::Ipv4Addr;

use setpoint_api::field_error::{BadValue, ErrorList, FieldError, Path};
use setpoint_api::kinds::core::service::NO_CLUSTER_IP;
use setpoint_api::kinds::core::service::families::{Families, prepare_create, prepare_update};
use setpoint_api::rfc3339::Seconds;
use setpoint_api::status::Status;
use setpoint_api::{Key, Map, Resource, Value, metadata};
use setpoint_store::{Draft, Expect, Proposal, Snapshot};

use super::{World, check, unstorable};
use crate::served::{self, Served};
use crate::stored;

/// The range of addresses, as people write it.
pub const RANGE: &str = "10.0.0.0/16";
const NETWORK: u32 = 0x0a00_0000;
/// The last address of the network is for all, and for no Service.
const LAST: u32 = NETWORK + 0xffff - 1;
/// Addresses up to here are left to those who ask for a certain one, while there are others.
const STATIC_LAST: u32 = NETWORK + 256;
const FAMILIES: Families = Families { primary_is_ipv6: false, dual_stack: false };

/// The address of the API itself.
#[must_use]
pub fn first_address() -> Ipv4Addr {
    Ipv4Addr::from_bits(NETWORK + 1)
}

/// What a commit of a Service takes and gives back.
#[derive(Debug, Default)]
pub struct Claims {
    /// The `IPAddress` object to make.
    taken: Option<Value>,
    released: Option<String>,
    takes_port: bool,
}

/// Gives a Service its families, address and ports. Any other object is left as it is.
///
/// # Errors
/// If it asks for what it cannot have, or nothing is left.
pub fn allocate(
    served: &Served,
    service: &mut Value,
    old: Option<&Value>,
    world: &World<'_>,
) -> Result<Claims, Status> {
    if !is_service(served) {
        return Ok(Claims::default());
    }
    let settled = match old {
        None => prepare_create(service, FAMILIES),
        Some(old) => prepare_update(service, old, FAMILIES),
    };
    if let Err(errors) = settled {
        check(served, service, &errors)?;
    }
    let mut claims = Claims::default();
    match (old.and_then(address), has_address(service)) {
        (None, true) if old.is_none_or(|old| !is_headless(old)) => {
            let ip = take_address(served, service, world)?;
            claims.taken = Some(ip_address(ip, service, world));
        }
        (Some(before), false) if service.str_at(&["spec", "type"]) == "ExternalName" => {
            claims.released = Some(before.to_owned());
        }
        _ => {}
    }
    claims.takes_port = ports::allocate(served, service, old, world)?;
    Ok(claims)
}

/// What goes with a Service that is deleted.
#[must_use]
pub fn release(served: &Served, service: &Value) -> Claims {
    let released = if is_service(served) { address(service).map(str::to_owned) } else { None };
    Claims { released, ..Claims::default() }
}

impl Claims {
    /// Adds to the commit of a Service what it takes and gives back.
    ///
    /// # Errors
    /// If an address cannot be written down.
    pub fn commit(self, mut proposal: Proposal, world: &World<'_>) -> Result<Proposal, Status> {
        if let Some(object) = self.taken {
            let served = served::find("networking.k8s.io", "v1", "ipaddresses").ok_or_else(unstorable)?;
            let key = served.key("", metadata::name(&object)).map_err(|_| unstorable())?;
            let draft = stored::draft(served, object).ok_or_else(unstorable)?;
            proposal = proposal.put(key, Expect::Absent, draft);
        }
        if let Some(record) = self.released.and_then(|ip| world.snapshot.get(&address_key(&ip)?)) {
            let key = address_key(record.name()).ok_or_else(unstorable)?;
            proposal = proposal.delete(key, Expect::Revision(record.revision()));
        }
        if self.takes_port {
            let key = port_key().ok_or_else(unstorable)?;
            let seen = world.snapshot.get(&key).map(setpoint_store::Record::revision);
            let text = format!(
                r#"{{"kind":"RangeAllocation","apiVersion":"v1","metadata":{{"name":"servicenodeports"}},"range":"{}"}}"#,
                ports::RANGE
            );
            proposal = proposal.put(key, seen.map_or(Expect::Absent, Expect::Revision), Draft::new(text));
        }
        Ok(proposal)
    }
}

fn is_service(served: &Served) -> bool {
    served.info.group.is_empty() && served.info.plural == "services"
}

fn is_headless(service: &Value) -> bool {
    service.str_at(&["spec", "clusterIP"]) == NO_CLUSTER_IP
}

fn has_address(service: &Value) -> bool {
    service.str_at(&["spec", "type"]) != "ExternalName" && !is_headless(service)
}

/// The address that a Service has.
fn address(service: &Value) -> Option<&str> {
    let ip = service.str_at(&["spec", "clusterIP"]);
    (has_address(service) && !ip.is_empty()).then_some(ip)
}

fn address_key(ip: &str) -> Option<Key> {
    Key::cluster(&Resource::new("ipaddresses.networking.k8s.io").ok()?, ip).ok()
}

/// The key that every commit which takes a port puts.
fn port_key() -> Option<Key> {
    Key::cluster(&Resource::new("rangeallocations").ok()?, "servicenodeports").ok()
}

fn is_free(ip: Ipv4Addr, snapshot: &Snapshot) -> bool {
    address_key(&ip.to_string()).is_some_and(|key| snapshot.get(&key).is_none())
}

fn take_address(served: &Served, service: &mut Value, world: &World<'_>) -> Result<Ipv4Addr, Status> {
    let asked = service.str_at(&["spec", "clusterIP"]).to_owned();
    if !asked.is_empty() {
        let fault = match asked.parse::<Ipv4Addr>() {
            Ok(ip) if (NETWORK + 1..=LAST).contains(&ip.to_bits()) => {
                if is_free(ip, world.snapshot) {
                    return Ok(ip);
                }
                "provided IP is already allocated"
            }
            _ => "the provided network does not match the current range",
        };
        let mut errors = ErrorList::new();
        let root = Path::root("spec");
        let detail = format!("failed to allocate IP {asked}: {fault}");
        let value = BadValue::json_strings(&[asked.as_str()]);
        errors.push(FieldError::invalid(&root.child("clusterIPs"), value, detail));
        check(served, service, &errors)?;
    }
    let ip = free_address(world).ok_or_else(|| {
        let name = metadata::name(service);
        Status::internal_error(format!(
            "failed to allocate a serviceIP for Service \"{name}\": range is full"
        ))
    })?;
    let spec = service.ensure_map("spec");
    spec.insert("clusterIP", ip.to_string());
    spec.insert("clusterIPs", vec![ip.to_string()]);
    Ok(ip)
}

/// A free address: some in the upper band, from a random place on, or else the first in the lower band.
fn free_address(world: &World<'_>) -> Option<Ipv4Addr> {
    let size = LAST - STATIC_LAST;
    let start = u32::try_from(world.entropy[2] % u64::from(size)).ok()?;
    let upper = (0..size).map(|i| STATIC_LAST + 1 + (start + i) % size);
    upper.chain(NETWORK + 1..=STATIC_LAST).map(Ipv4Addr::from_bits).find(|ip| is_free(*ip, world.snapshot))
}

fn ip_address(ip: Ipv4Addr, service: &Value, world: &World<'_>) -> Value {
    let mut labels = Map::with_capacity(2);
    labels.insert("ipaddress.kubernetes.io/ip-family", "IPv4");
    labels.insert("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");
    let mut about = Map::with_capacity(5);
    about.insert("name", ip.to_string());
    about.insert("uid", super::create::uid([world.entropy[1], world.entropy[2], 0]));
    about.insert("generation", 1);
    about.insert("creationTimestamp", Seconds(world.now).to_string());
    about.insert("labels", labels);
    let mut parent = Map::with_capacity(3);
    parent.insert("resource", "services");
    parent.insert("namespace", metadata::namespace(service));
    parent.insert("name", metadata::name(service));
    let mut object = Value::map();
    let map = object.make_map();
    map.insert("kind", "IPAddress");
    map.insert("apiVersion", "networking.k8s.io/v1");
    map.insert("metadata", about);
    map.ensure_map("spec").insert("parentRef", parent);
    object
}

#[cfg(test)]
mod tests;
