//! Service network: allocation of cluster IPs and node ports.
//!
//! A cluster IP is allocated while an `IPAddress` object has its name. The commit of the Service also creates that
//! object, with the precondition that it is absent, or deletes it, so no two Services get the same address and none
//! leaks. The object of a second address is in a chained commit before it.
//!
//! Node ports in use are collected from all Services that have some, in time proportional to their number. Commits that
//! take a port also write one common key, so of two concurrent ones one is decided again.
//!
//! A dry run searches for free addresses and takes none. It does not check requested addresses against other Services.
//!
//! Start at [`allocate`].

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
use setpoint_store::{Draft, Precondition, Proposal, Snapshot};

use self::ranges::Ranges;
use super::{RequestContext, WriteOrigin, check, encoding_error};
use crate::codec;

/// Addresses and ports that a commit takes and releases.
#[derive(Debug, Default)]
pub struct AddressClaims {
    /// `IPAddress` objects to create.
    taken: Vec<Value>,
    /// Addresses to release.
    released: Vec<String>,
    takes_port: bool,
}

/// Options of an allocation.
struct AllocationOptions {
    ranges: Ranges,
    dry_run: bool,
}

/// Allocates IP families, addresses and ports of a Service. Other objects are left as they are.
///
/// # Errors
/// If a requested value is unavailable, or a range is exhausted.
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
    let options = &AllocationOptions { ranges: Ranges::of(context.snapshot), dry_run };
    let families = options.ranges.families;
    let prepared = match old {
        None => prepare_create(service, families),
        Some(old) => prepare_update(service, old, families),
    };
    if let Err(errors) = prepared {
        check(resource_type, service, &errors)?;
    }
    let mut claims = AddressClaims::default();
    let (old_count, needs_address) = (old.map_or(0, |old| addresses(old).len()), has_address(service));
    match old {
        Some(old) if is_headless(old) => {}
        Some(old) if !needs_address => claims.released = addresses(old),
        // Existing addresses stay; families are added and removed at the end of the list.
        Some(old) if has_address(old) => {
            claims.taken = take_addresses(resource_type, service, old_count, options, context)?;
            let kept = spec_strings(service, "ipFamilies").len();
            claims.released = addresses(old).into_iter().skip(kept).collect();
        }
        _ if needs_address => claims.taken = take_addresses(resource_type, service, 0, options, context)?,
        _ => {}
    }
    claims.takes_port = ports::allocate(resource_type, service, old, dry_run, context)?;
    Ok(claims)
}

/// Releases the addresses of a deleted Service.
#[must_use]
pub fn release(resource_type: &ResourceType, service: &Value) -> AddressClaims {
    let released = if is_service(resource_type) { addresses(service) } else { Vec::new() };
    AddressClaims { released, ..AddressClaims::default() }
}

impl AddressClaims {
    /// Adds the claims to the commit of a Service.
    ///
    /// # Errors
    /// If an `IPAddress` cannot be encoded.
    pub fn commit(
        self,
        mut proposal: Proposal,
        writer: &WriteOrigin,
        context: &RequestContext<'_>,
    ) -> Result<Proposal, Status> {
        let mut is_first = true;
        // A commit has one key per resource; further keys are in chained commits before it.
        let mut add = |proposal: Proposal, change: &dyn Fn(Proposal) -> Proposal| {
            if std::mem::take(&mut is_first) {
                return change(proposal);
            }
            proposal.after(change(writer.proposal(context)))
        };
        for object in self.taken {
            let resource_type =
                resource_types::find("networking.k8s.io", "v1", "ipaddresses").ok_or_else(encoding_error)?;
            let key = resource_type.key("", metadata::name(&object)).map_err(|_| encoding_error())?;
            let draft = codec::draft(resource_type, object, context.now).ok_or_else(encoding_error)?;
            proposal = add(proposal, &|it| it.put(key.clone(), Precondition::Absent, draft.clone()));
        }
        for key in self.released.iter().filter_map(|ip| address_key(ranges::address(ip)?)) {
            if let Some(record) = context.snapshot.get(&key) {
                let expect = Precondition::Revision(record.revision());
                proposal = add(proposal, &|it| it.delete(key.clone(), expect));
            }
        }
        if self.takes_port {
            let key = port_key().ok_or_else(encoding_error)?;
            let revision = context.snapshot.get(&key).map(setpoint_store::Record::revision);
            let text = format!(
                r#"{{"kind":"RangeAllocation","apiVersion":"v1","metadata":{{"name":"servicenodeports"}},"range":"{}"}}"#,
                ports::RANGE
            );
            proposal = proposal.put(
                key,
                revision.map_or(Precondition::Absent, Precondition::Revision),
                Draft::new(text),
            );
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

/// Addresses of a Service.
fn addresses(service: &Value) -> Vec<String> {
    if has_address(service) { spec_strings(service, "clusterIPs") } else { Vec::new() }
}

/// A list of strings in the spec.
fn spec_strings(service: &Value, field: &str) -> Vec<String> {
    let list = service.at(&["spec", field]).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn address_key(ip: IpAddr) -> Option<Key> {
    Key::cluster(&Resource::new("ipaddresses.networking.k8s.io").ok()?, &ip.to_string()).ok()
}

/// Key that every commit which takes a port writes.
fn port_key() -> Option<Key> {
    Key::cluster(&Resource::new("rangeallocations").ok()?, "servicenodeports").ok()
}

fn is_free(ip: IpAddr, snapshot: &Snapshot) -> bool {
    address_key(ip).is_some_and(|key| snapshot.get(&key).is_none())
}

/// Allocates an address for each family after the first `skipped` ones: the requested one, or a free one.
fn take_addresses(
    resource_type: &ResourceType,
    service: &mut Value,
    skipped: usize,
    options: &AllocationOptions,
    context: &RequestContext<'_>,
) -> Result<Vec<Value>, Status> {
    let families = spec_strings(service, "ipFamilies");
    let mut ips = spec_strings(service, "clusterIPs");
    ips.resize(ips.len().max(families.len()), String::new());
    let mut taken = Vec::new();
    for (i, family) in families.iter().enumerate().skip(skipped) {
        // One random number serves both families: their ranges are disjoint.
        let ip = if ips[i].is_empty() {
            let free =
                options.ranges.find(family == "IPv6", context.entropy[2], |ip| is_free(ip, context.snapshot));
            free.ok_or_else(|| {
                let name = metadata::name(service);
                Status::internal_error(format!(
                    "failed to allocate a serviceIP for Service \"{name}\": range is full"
                ))
            })?
        } else {
            requested_address(&ips[i], options, context)
                .map_err(|reason| allocation_error(resource_type, service, &ips, i, &reason))?
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

/// Returns a requested address, or the reason why it is unavailable.
fn requested_address(
    text: &str,
    options: &AllocationOptions,
    context: &RequestContext<'_>,
) -> Result<IpAddr, String> {
    let ip = ranges::address(text);
    match ip.filter(|ip| options.ranges.contains(*ip)) {
        None if options.dry_run => {
            let is_ipv6 = ip.is_some_and(|ip| ip.is_ipv6());
            let range = options.ranges.cluster().iter().find(|range| range.ip.is_ipv6() == is_ipv6);
            let range = range.map(ToString::to_string).unwrap_or_default();
            Err(format!(
                "the provided IP ({text}) is not in the valid range. The range of valid IPs is {range}"
            ))
        }
        None => Err("the provided network does not match the current range".to_owned()),
        Some(ip) if !options.dry_run && !is_free(ip, context.snapshot) => {
            Err("provided IP is already allocated".to_owned())
        }
        Some(ip) => Ok(ip),
    }
}

fn allocation_error(
    resource_type: &ResourceType,
    service: &Value,
    ips: &[String],
    index: usize,
    reason: &str,
) -> Status {
    let mut errors = ErrorList::new();
    let root = Path::root("spec");
    let detail = format!("failed to allocate IP {}: {reason}", ips[index]);
    errors.push(FieldError::invalid(&root.child("clusterIPs"), BadValue::json_strings(ips), detail));
    Status::invalid(resource_type.qualified_kind(), metadata::name(service), &errors)
}

/// The `IPAddress` of a Service's nth address.
fn ip_address(ip: IpAddr, n: u64, service: &Value, context: &RequestContext<'_>) -> Value {
    let mut labels = Map::with_capacity(2);
    labels.insert("ipaddress.kubernetes.io/ip-family", if ip.is_ipv4() { "IPv4" } else { "IPv6" });
    labels.insert("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");
    let mut object_meta = Map::with_capacity(5);
    object_meta.insert("name", ip.to_string());
    object_meta.insert("uid", super::create::uid([context.entropy[1], context.entropy[2] ^ n, 0]));
    object_meta.insert("creationTimestamp", Seconds(context.now).to_string());
    object_meta.insert("labels", labels);
    object_meta.insert("managedFields", managed_fields(context));
    let mut parent = Map::with_capacity(3);
    parent.insert("resource", "services");
    parent.insert("namespace", metadata::namespace(service));
    parent.insert("name", metadata::name(service));
    let mut object = Value::map();
    let map = object.make_map();
    map.insert("kind", "IPAddress");
    map.insert("apiVersion", "networking.k8s.io/v1");
    map.insert("metadata", object_meta);
    map.ensure_map("spec").insert("parentRef", parent);
    object
}

/// `managedFields` of an `IPAddress`.
fn managed_fields(context: &RequestContext<'_>) -> Value {
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
