//! Allocation of a claim as it is written to its status.

use std::collections::BTreeSet;

use setpoint_api::{Map, Value, value};
use setpoint_reconcile::Seed;
use setpoint_views::device_class::DeviceClass;
use setpoint_views::resource_slice::{Device, ResourceSliceSpec};

use super::claims::{PendingClaim, Request};
use super::constraints::RequestName;
use super::inventory::DeviceInventory;
use super::search::{AllocatedDevice, ClaimAllocation};

/// Writer of the allocation of one claim.
#[derive(Debug)]
pub struct AllocationWriter<'a> {
    /// Devices of the cluster.
    pub inventory: &'a DeviceInventory,
    /// The claim.
    pub claim: &'a PendingClaim,
    /// Its devices.
    pub allocation: &'a ClaimAllocation,
    /// Node that the pod is assigned to.
    pub node: &'a str,
    /// Source of the IDs of shares.
    pub seed: Seed,
}

impl AllocationWriter<'_> {
    /// Returns `status.allocation`, without its timestamp.
    #[must_use]
    pub fn write(&self) -> Value {
        let results = self.allocation.devices.iter().enumerate();
        let results: Vec<Value> = results.map(|(at, device)| self.result(at, device)).collect();
        let mut devices = Map::default();
        devices.insert("results", Value::List(results));
        let config = self.config();
        if !config.is_empty() {
            devices.insert("config", Value::List(config));
        }
        let mut allocation = Map::default();
        allocation.insert("devices", Value::Map(devices));
        if let Some(selector) = self.node_selector() {
            allocation.insert("nodeSelector", selector);
        }
        Value::Map(allocation)
    }

    /// `true` if the pod is bound only after drivers have prepared a device.
    #[must_use]
    pub fn has_binding_conditions(&self) -> bool {
        self.allocation.devices.iter().any(|device| !self.device(device).1.binding_conditions.is_empty())
    }

    fn device(&self, device: &AllocatedDevice) -> (&ResourceSliceSpec, &Device) {
        let spec = self.inventory.slices[device.slice].spec();
        (spec, &spec.devices[device.device])
    }

    fn request(&self, group: usize) -> &Request {
        &self.claim.groups[group].choices[self.allocation.choices[group]]
    }

    fn name(&self, group: usize) -> RequestName<'_> {
        let group_info = &self.claim.groups[group];
        let choice = group_info.is_prioritized.then(|| &*self.request(group).name);
        RequestName { request: &group_info.name, choice }
    }

    fn result(&self, at: usize, device: &AllocatedDevice) -> Value {
        let (slice, spec) = self.device(device);
        let mut result = Map::default();
        result.insert("request", self.name(device.group).text());
        result.insert("driver", slice.driver.as_str());
        result.insert("pool", slice.pool.name.as_str());
        result.insert("device", spec.name.as_str());
        if device.is_admin {
            result.insert("adminAccess", true);
        }
        let tolerations = &self.request(device.group).spec.tolerations;
        if !tolerations.is_empty() {
            result.insert("tolerations", Value::List(tolerations.clone()));
        }
        for (name, conditions) in [
            ("bindingConditions", &spec.binding_conditions),
            ("bindingFailureConditions", &spec.binding_failure_conditions),
        ] {
            if !conditions.is_empty() {
                let conditions = conditions.iter().map(|text| Value::from(text.as_str()));
                result.insert(name, Value::List(conditions.collect()));
            }
        }
        if device.is_shared {
            result.insert("shareID", share_id(self.seed, at));
        }
        if !device.consumed.is_empty() {
            let amounts = device.consumed.iter();
            let amounts: Map = amounts.map(|(name, amount)| (&**name, amount.to_string())).collect();
            result.insert("consumedCapacity", Value::Map(amounts));
        }
        Value::Map(result)
    }

    /// Configuration of the classes in the order of the requests, then that of the claim.
    fn config(&self) -> Vec<Value> {
        let mut config: Vec<(Vec<String>, Value)> = Vec::new();
        let mut classes: Vec<(&str, std::ops::Range<usize>)> = Vec::new();
        for group in 0..self.claim.groups.len() {
            let class = &self.request(group).class;
            let name = self.name(group).text();
            if let Some((_, range)) = classes.iter().find(|(known, _)| *known == &*class.meta().name) {
                config[range.clone()].iter_mut().for_each(|(requests, _)| requests.push(name.clone()));
                continue;
            }
            let start = config.len();
            let of_class = class.view::<DeviceClass>().map_or(&[][..], |class| &class.spec.config);
            config.extend(of_class.iter().map(|one| (vec![name.clone()], entry("FromClass", one))));
            classes.push((&class.meta().name, start..config.len()));
        }
        for one in &self.claim.spec().config {
            let requests: Vec<String> = one
                .get("requests")
                .and_then(Value::as_list)
                .unwrap_or_default()
                .iter()
                .filter_map(|name| name.as_str().map(str::to_owned))
                .collect();
            let mut groups = 0..self.claim.groups.len();
            if requests.is_empty() || groups.any(|group| self.is_named(group, &requests)) {
                config.push((requests, entry("FromClaim", one)));
            }
        }
        config.into_iter().map(|(requests, entry)| self.with_requests(requests, entry)).collect()
    }

    fn is_named(&self, group: usize, requests: &[String]) -> bool {
        requests.iter().any(|reference| self.name(group).is_named_by(reference))
    }

    /// Adds the requests to an entry, unless it applies to all: then it names none.
    fn with_requests(&self, requests: Vec<String>, mut entry: Value) -> Value {
        let mut groups = 0..self.claim.groups.len();
        if !requests.is_empty() && !groups.all(|group| self.is_named(group, &requests)) {
            let requests = requests.into_iter().map(Value::from).collect();
            entry.make_map().insert("requests", Value::List(requests));
        }
        entry
    }

    /// Nodes that reach all devices; `None` if all nodes do.
    fn node_selector(&self) -> Option<Value> {
        let (mut fields, mut expressions) = (Vec::new(), Vec::new());
        for device in &self.allocation.devices {
            let (slice, spec) = self.device(device);
            let (name, selector) = if slice.per_device_node_selection == Some(true) {
                (&spec.node_name, &spec.node_selector)
            } else {
                (&slice.node_name, &slice.node_selector)
            };
            if name.is_some() || spec.binds_to_node == Some(true) {
                let names = value!({"key": "metadata.name", "operator": "In", "values": [(self.node)]});
                return Some(value!({"nodeSelectorTerms": [{"matchFields": [(names)]}]}));
            }
            let terms = selector.as_ref().and_then(|selector| selector.get("nodeSelectorTerms"));
            // Validation allows a single term.
            if let Some([term]) = terms.and_then(Value::as_list) {
                add_requirements(term.get("matchFields"), &mut fields);
                add_requirements(term.get("matchExpressions"), &mut expressions);
            }
        }
        let mut term = Map::default();
        for (name, list) in [("matchFields", fields), ("matchExpressions", expressions)] {
            if !list.is_empty() {
                term.insert(name, Value::List(list));
            }
        }
        let term = Value::Map(term);
        if term.is_empty() { None } else { Some(value!({"nodeSelectorTerms": [(term)]})) }
    }
}

/// Copies the configuration of a class or claim.
fn entry(source: &str, config: &Value) -> Value {
    let mut entry = Map::default();
    entry.insert("source", source);
    if let Some(opaque) = config.get("opaque").filter(|opaque| !opaque.is_null()) {
        entry.insert("opaque", opaque.clone());
    }
    Value::Map(entry)
}

/// Adds the requirements that are not present yet.
fn add_requirements(from: Option<&Value>, to: &mut Vec<Value>) {
    let values = |one: &Value| -> BTreeSet<String> {
        let values = one.get("values").and_then(Value::as_list).unwrap_or_default();
        values.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect()
    };
    for requirement in from.and_then(Value::as_list).unwrap_or_default() {
        let is_known = to.iter().any(|known| {
            ["key", "operator"].into_iter().all(|name| known.get(name) == requirement.get(name))
                && values(known) == values(requirement)
        });
        if !is_known {
            to.push(requirement.clone());
        }
    }
}

/// Returns a random UUID.
fn share_id(seed: Seed, at: usize) -> String {
    let at = at as u64;
    let (high, low) = (seed.draw(2 * at + 1), seed.draw(2 * at + 2));
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        0x8000 | ((low >> 48) & 0x3fff),
        low & 0xffff_ffff_ffff
    )
}
