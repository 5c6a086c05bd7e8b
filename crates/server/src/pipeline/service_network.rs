//! Addresses and ports of Services.
//!
//! An address belongs to a Service while there is an `IPAddress` object with its name. That object is made and
//! deleted in the commit that makes and deletes the Service, on condition that nobody else has made it, so that no
//! two Services get the same address and none is lost; that of a second address, in a commit just before. Node ports are counted over all Services that have some,
//! which takes time in proportion to them; commits that take a port also touch one common key, so that of two that
//! count at the same time one counts again. A dry run looks for free addresses like any other, and takes none; what it
//! asks for by number is not held against what others have.

mod ports;
pub mod ranges;

use std::net::IpAddr;

use setpoint_api::field_error::{BadValue, ErrorList, FieldError, Path};
use setpoint_api::kinds::core::service::NO_CLUSTER_IP;
use setpoint_api::kinds::core::service::families::{prepare_create, prepare_update};
use setpoint_api::resource_types::{self, ResourceType};
use setpoint_api::rfc3339::Seconds;
use setpoint_api::status::Status;
use setpoint_api::{Key, Map, Resource, Value, metadata, value};
use setpoint_store::{Draft, Expect, Proposal, Snapshot};

use self::ranges::Ranges;
use super::{RequestContext, Writer, check, unstorable};
use crate::codec;

/// What a commit of a Service takes and gives back.
#[derive(Debug, Default)]
pub struct AddressClaims {
    /// The `IPAddress` objects to make.
    taken: Vec<Value>,
    /// The addresses to give back.
    released: Vec<String>,
    takes_port: bool,
}

/// Where addresses come from, and whether they are only looked at.
struct AllocationRequest {
    ranges: Ranges,
    dry_run: bool,
}

/// Gives a Service its families, addresses and ports. Any other object is left as it is.
///
/// # Errors
/// If it asks for what it cannot have, or nothing is left.
pub fn allocate(
    resource_type: &ResourceType,
    service: &mut Value,
    old: Option<&Value>,
    dry_run: bool,
    context: &RequestContext<'_>,
) -> Result<AddressClaims, Status> {
    if !is_service(resource_type) {
        return Ok(AddressClaims::default());
    }
    let ranges = &AllocationRequest { ranges: Ranges::of(context.snapshot), dry_run };
    let families = ranges.ranges.families;
    let settled = match old {
        None => prepare_create(service, families),
        Some(old) => prepare_update(service, old, families),
    };
    if let Err(errors) = settled {
        check(resource_type, service, &errors)?;
    }
    let mut claims = AddressClaims::default();
    let (before, wanted) = (old.map_or(0, |old| addresses(old).len()), has_address(service));
    match old {
        Some(old) if is_headless(old) => {}
        Some(old) if !wanted => claims.released = addresses(old),
        // What it had is kept; families come and go at the end of the list.
        Some(old) if has_address(old) => {
            claims.taken = take_addresses(resource_type, service, before, ranges, context)?;
            let kept = texts(service, "ipFamilies").len();
            claims.released = addresses(old).into_iter().skip(kept).collect();
        }
        _ if wanted => claims.taken = take_addresses(resource_type, service, 0, ranges, context)?,
        _ => {}
    }
    claims.takes_port = ports::allocate(resource_type, service, old, dry_run, context)?;
    Ok(claims)
}

/// What goes with a Service that is deleted.
#[must_use]
pub fn release(resource_type: &ResourceType, service: &Value) -> AddressClaims {
    let released = if is_service(resource_type) { addresses(service) } else { Vec::new() };
    AddressClaims { released, ..AddressClaims::default() }
}

impl AddressClaims {
    /// Adds to the commit of a Service what it takes and gives back.
    ///
    /// # Errors
    /// If an address cannot be written down.
    pub fn commit(
        self,
        mut proposal: Proposal,
        writer: &Writer,
        context: &RequestContext<'_>,
    ) -> Result<Proposal, Status> {
        let mut is_first = true;
        // A commit has one key of a resource; what is more goes just ahead of it.
        let mut add = |proposal: Proposal, change: &dyn Fn(Proposal) -> Proposal| {
            if std::mem::take(&mut is_first) {
                return change(proposal);
            }
            proposal.after(change(writer.proposal(context)))
        };
        for object in self.taken {
            let resource_type =
                resource_types::find("networking.k8s.io", "v1", "ipaddresses").ok_or_else(unstorable)?;
            let key = resource_type.key("", metadata::name(&object)).map_err(|_| unstorable())?;
            let draft = codec::draft(resource_type, object, context.now).ok_or_else(unstorable)?;
            proposal = add(proposal, &|it| it.put(key.clone(), Expect::Absent, draft.clone()));
        }
        for key in self.released.iter().filter_map(|ip| address_key(ranges::address(ip)?)) {
            if let Some(record) = context.snapshot.get(&key) {
                let expect = Expect::Revision(record.revision());
                proposal = add(proposal, &|it| it.delete(key.clone(), expect));
            }
        }
        if self.takes_port {
            let key = port_key().ok_or_else(unstorable)?;
            let seen = context.snapshot.get(&key).map(setpoint_store::Record::revision);
            let text = format!(
                r#"{{"kind":"RangeAllocation","apiVersion":"v1","metadata":{{"name":"servicenodeports"}},"range":"{}"}}"#,
                ports::RANGE
            );
            proposal = proposal.put(key, seen.map_or(Expect::Absent, Expect::Revision), Draft::new(text));
        }
        Ok(proposal)
    }
}

fn is_service(resource_type: &ResourceType) -> bool {
    resource_type.info.group.is_empty() && resource_type.info.plural == "services"
}

fn is_headless(service: &Value) -> bool {
    service.str_at(&["spec", "clusterIP"]) == NO_CLUSTER_IP
}

fn has_address(service: &Value) -> bool {
    service.str_at(&["spec", "type"]) != "ExternalName" && !is_headless(service)
}

/// The addresses that a Service has.
fn addresses(service: &Value) -> Vec<String> {
    if has_address(service) { texts(service, "clusterIPs") } else { Vec::new() }
}

/// The texts in a list of the spec.
fn texts(service: &Value, field: &str) -> Vec<String> {
    let list = service.at(&["spec", field]).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn address_key(ip: IpAddr) -> Option<Key> {
    Key::cluster(&Resource::new("ipaddresses.networking.k8s.io").ok()?, &ip.to_string()).ok()
}

/// The key that every commit which takes a port puts.
fn port_key() -> Option<Key> {
    Key::cluster(&Resource::new("rangeallocations").ok()?, "servicenodeports").ok()
}

fn is_free(ip: IpAddr, snapshot: &Snapshot) -> bool {
    address_key(ip).is_some_and(|key| snapshot.get(&key).is_none())
}

/// Gives a Service an address for each of its families but the first ones: those that it asks for, or others.
fn take_addresses(
    resource_type: &ResourceType,
    service: &mut Value,
    skipped: usize,
    wanted: &AllocationRequest,
    context: &RequestContext<'_>,
) -> Result<Vec<Value>, Status> {
    let families = texts(service, "ipFamilies");
    let mut ips = texts(service, "clusterIPs");
    ips.resize(ips.len().max(families.len()), String::new());
    let mut taken = Vec::new();
    for (i, family) in families.iter().enumerate().skip(skipped) {
        // One number serves both families: they have no address in common.
        let ip = if ips[i].is_empty() {
            let free =
                wanted.ranges.find(family == "IPv6", context.entropy[2], |ip| is_free(ip, context.snapshot));
            free.ok_or_else(|| {
                let name = metadata::name(service);
                Status::internal_error(format!(
                    "failed to allocate a serviceIP for Service \"{name}\": range is full"
                ))
            })?
        } else {
            asked(&ips[i], wanted, context)
                .map_err(|fault| refusal(resource_type, service, &ips, i, &fault))?
        };
        if ips[i].is_empty() {
            ips[i] = ip.to_string();
        }
        taken.push(ip_address(ip, i as u64, service, context));
    }
    if !taken.is_empty() {
        let spec = service.ensure_map("spec");
        spec.insert("clusterIP", ips[0].as_str());
        spec.insert("clusterIPs", ips);
    }
    Ok(taken)
}

/// The address that somebody asks for, or why it cannot be given.
fn asked(text: &str, wanted: &AllocationRequest, context: &RequestContext<'_>) -> Result<IpAddr, String> {
    let ip = ranges::address(text);
    match ip.filter(|ip| wanted.ranges.hold(*ip)) {
        None if wanted.dry_run => {
            let is_ipv6 = ip.is_some_and(|ip| ip.is_ipv6());
            let range = wanted.ranges.cluster().iter().find(|range| range.ip.is_ipv6() == is_ipv6);
            let range = range.map(ToString::to_string).unwrap_or_default();
            Err(format!(
                "the provided IP ({text}) is not in the valid range. The range of valid IPs is {range}"
            ))
        }
        None => Err("the provided network does not match the current range".to_owned()),
        Some(ip) if !wanted.dry_run && !is_free(ip, context.snapshot) => {
            Err("provided IP is already allocated".to_owned())
        }
        Some(ip) => Ok(ip),
    }
}

fn refusal(resource_type: &ResourceType, service: &Value, ips: &[String], at: usize, fault: &str) -> Status {
    let mut errors = ErrorList::new();
    let root = Path::root("spec");
    let detail = format!("failed to allocate IP {}: {fault}", ips[at]);
    errors.push(FieldError::invalid(&root.child("clusterIPs"), BadValue::json_strings(ips), detail));
    Status::invalid(resource_type.qualified_kind(), metadata::name(service), &errors)
}

/// The `IPAddress` of a Service's nth address.
fn ip_address(ip: IpAddr, n: u64, service: &Value, context: &RequestContext<'_>) -> Value {
    let mut labels = Map::with_capacity(2);
    labels.insert("ipaddress.kubernetes.io/ip-family", if ip.is_ipv4() { "IPv4" } else { "IPv6" });
    labels.insert("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");
    let mut about = Map::with_capacity(5);
    about.insert("name", ip.to_string());
    about.insert("uid", super::create::uid([context.entropy[1], context.entropy[2] ^ n, 0]));
    about.insert("creationTimestamp", Seconds(context.now).to_string());
    about.insert("labels", labels);
    about.insert("managedFields", owned_by_server(context));
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

/// Who owns the fields of an `IPAddress` that is made with a Service.
fn owned_by_server(context: &RequestContext<'_>) -> Value {
    value!([{
        "manager": "kube-apiserver",
        "operation": "Update",
        "apiVersion": "networking.k8s.io/v1",
        "time": (Seconds(context.now).to_string()),
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {
                "f:labels": {
                    ".": {},
                    "f:ipaddress.kubernetes.io/ip-family": {},
                    "f:ipaddress.kubernetes.io/managed-by": {},
                },
            },
            "f:spec": { "f:parentRef": { ".": {}, "f:name": {}, "f:namespace": {}, "f:resource": {} } },
        },
    }])
}

#[cfg(test)]
mod tests;
