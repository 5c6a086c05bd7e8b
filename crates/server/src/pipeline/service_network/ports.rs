//! Node ports of Services.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::ResourceType;
use setpoint_api::field_error::{ErrorList, FieldError, Path};
use setpoint_api::status::Status;
use setpoint_api::{Resource, Value};
use setpoint_store::Snapshot;

use super::super::{RequestContext, check};
use crate::codec;

/// Range of node ports.
pub(crate) const RANGE: &str = "30000-32767";
const FIRST: i64 = 30000;
const LAST: i64 = 32767;

/// Allocates the node ports of a Service. Returns `true` if it took new ones.
pub(super) fn allocate(
    resource_type: &ResourceType,
    service: &mut Value,
    old: Option<&Value>,
    dry_run: bool,
    context: &RequestContext<'_>,
) -> Result<bool, Status> {
    let wants_ports = matches!(service.str_at(&["spec", "type"]), "NodePort" | "LoadBalancer");
    let wants_check = needs_health_check(service) && !old.is_some_and(needs_health_check);
    if !wants_ports && !wants_check {
        return Ok(false);
    }
    let mut used = PortsInUse { dry_run, ..PortsInUse::of(context, old) };
    if wants_ports {
        let mut errors = ErrorList::new();
        assign_ports(service, old, &mut used, &mut errors)?;
        check(resource_type, service, &errors)?;
    }
    if wants_check {
        let requested = int(service, &["spec", "healthCheckNodePort"]);
        let port = match requested {
            0 => used.next().map_err(|why| {
                Status::internal_error(format!("failed to allocate a HealthCheck NodePort 0: {why}"))
            })?,
            _ => {
                let mut errors = ErrorList::new();
                if let Err(why) = used.take(requested) {
                    let detail =
                        format!("failed to allocate requested HealthCheck NodePort {requested}: {why}");
                    let path = Path::root("spec");
                    errors.push(FieldError::invalid(&path.child("healthCheckNodePort"), requested, detail));
                }
                check(resource_type, service, &errors)?;
                requested
            }
        };
        service.ensure_map("spec").insert("healthCheckNodePort", port);
    }
    Ok(used.taken)
}

fn assign_ports(
    service: &mut Value,
    old: Option<&Value>,
    used: &mut PortsInUse,
    errors: &mut ErrorList,
) -> Result<(), Status> {
    let allocates = service.at(&["spec", "allocateLoadBalancerNodePorts"]).and_then(Value::as_bool)
        != Some(false)
        || service.str_at(&["spec", "type"]) == "NodePort";
    let old_ports: BTreeSet<i64> = old.map(of_ports).unwrap_or_default().into_iter().collect();
    let Some(Value::List(ports)) = service.at_mut(&["spec", "ports"]) else { return Ok(()) };
    // In a new Service, one port number with two protocols gets one node port.
    let mut shared: BTreeMap<i64, i64> = BTreeMap::new();
    if old.is_none() {
        for port in ports.iter().rev().filter(|port| int(port, &["nodePort"]) != 0) {
            shared.insert(int(port, &["port"]), int(port, &["nodePort"]));
        }
    }
    let mut taken: BTreeSet<(i64, i64)> = BTreeSet::new();
    let root = Path::root("spec");
    let path = root.child("ports");
    for (i, port) in ports.iter_mut().enumerate() {
        let (number, requested) = (int(port, &["port"]), int(port, &["nodePort"]));
        if requested == 0 && !allocates {
            continue;
        }
        let chosen = if requested == 0 { shared.get(&number).copied().unwrap_or(0) } else { requested };
        let node_port = if chosen == 0 {
            let failed = |why| Status::internal_error(format!("failed to allocate a nodePort: {why}"));
            used.next().map_err(failed)?
        } else {
            // An update may use one node port for several ports, a new Service only for one port number.
            let scope = if old.is_none() { number } else { 0 };
            let is_new = !old_ports.contains(&chosen) && taken.insert((scope, chosen));
            if is_new && let Err(why) = used.take(chosen) {
                errors.push(FieldError::invalid(&path.index(i).child("nodePort"), chosen, why));
                return Ok(());
            }
            chosen
        };
        if old.is_none() {
            shared.entry(number).or_insert(node_port);
            taken.insert((number, node_port));
        }
        port.make_map().insert("nodePort", node_port);
    }
    Ok(())
}

/// Node ports in use.
struct PortsInUse {
    ports: BTreeSet<i64>,
    chance: u64,
    taken: bool,
    /// `true` for a dry run: no conflict is an error.
    dry_run: bool,
}

impl PortsInUse {
    /// Ports of all Services, including the old state of this one.
    fn of(context: &RequestContext<'_>, old: Option<&Value>) -> PortsInUse {
        let mut ports: BTreeSet<i64> = in_use(context.snapshot).collect();
        ports.extend(old.map(of_service).unwrap_or_default());
        PortsInUse { ports, chance: context.entropy[0], taken: false, dry_run: false }
    }

    fn take(&mut self, port: i64) -> Result<(), &'static str> {
        if self.dry_run {
            return Ok(());
        }
        if !(FIRST..=LAST).contains(&port) {
            return Err("provided port is not in the valid range. The range of valid ports is 30000-32767");
        }
        if !self.ports.insert(port) {
            return Err("provided port is already allocated");
        }
        self.taken = true;
        Ok(())
    }

    /// Returns a free port, searching from a random one.
    fn next(&mut self) -> Result<i64, &'static str> {
        let size = LAST - FIRST + 1;
        let start = i64::try_from(self.chance % size.unsigned_abs()).unwrap_or(0);
        let port = (0..size).map(|i| FIRST + (start + i) % size).find(|port| !self.ports.contains(port));
        let port = port.ok_or("range is full")?;
        self.take(port)?;
        Ok(port)
    }
}

fn in_use(snapshot: &Snapshot) -> impl Iterator<Item = i64> {
    let table = Resource::new("services").ok().and_then(|resource| snapshot.table(&resource));
    let records = table.into_iter().flat_map(setpoint_store::Table::iter);
    let with_ports = records
        .filter(|record| matches!(record.attributes().field("spec.type"), Some("NodePort" | "LoadBalancer")));
    with_ports.flat_map(|record| of_service(&codec::object(record)))
}

fn of_service(service: &Value) -> Vec<i64> {
    let mut ports = of_ports(service);
    ports.extend(Some(int(service, &["spec", "healthCheckNodePort"])).filter(|port| *port != 0));
    ports
}

fn of_ports(service: &Value) -> Vec<i64> {
    let ports = service.at(&["spec", "ports"]).and_then(Value::as_list).unwrap_or_default();
    ports.iter().map(|port| int(port, &["nodePort"])).filter(|port| *port != 0).collect()
}

fn needs_health_check(service: &Value) -> bool {
    service.str_at(&["spec", "type"]) == "LoadBalancer"
        && service.str_at(&["spec", "externalTrafficPolicy"]) == "Local"
}

fn int(value: &Value, path: &[&str]) -> i64 {
    value.at(path).and_then(Value::as_i64).unwrap_or(0)
}
