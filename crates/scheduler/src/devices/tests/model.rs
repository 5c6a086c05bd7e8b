//! Small random clusters, and a naive allocator that enumerates all choices.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::prelude::*;
use proptest::sample::select;
use setpoint_api::{Key, Resource, Revision, Time, Value, json, value};
use setpoint_reconcile::{Object, World};

use super::{AllocationTask, CLAIMS, ClaimAllocation, SLICES, claim, names, put, world as empty_world};

/// A device: its pool is that of its node, or `net` for all nodes.
#[derive(Clone, Debug)]
pub struct ModelDevice {
    node: Option<u8>,
    model: i64,
    numa: Option<i64>,
    is_tainted: bool,
    /// Units of the counter that devices of the pool `net` share.
    units: Option<i64>,
    is_allocated: bool,
}

/// A request for devices.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// `None` for all devices.
    count: Option<usize>,
    model: Option<i64>,
    tolerates: bool,
}

/// A claim: each request is a list of alternatives, of which there is one unless the request is prioritized.
#[derive(Clone, Debug)]
pub struct ModelClaim {
    groups: Vec<Vec<ModelRequest>>,
    constraint: Option<Constraint>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Constraint {
    SameNuma,
    DistinctNuma,
}

#[derive(Clone, Debug, Default)]
pub struct ModelWorld {
    pub devices: Vec<ModelDevice>,
    pub claims: Vec<ModelClaim>,
    units: i64,
}

/// Device of a claim: `(claim, group)`, and the name of the device.
pub type Choice = ((usize, usize), String);

pub fn read(resource: &str, path: &str, value: &Value) -> Object {
    let key = Key::from_path(&Resource::new(resource).unwrap(), path).unwrap();
    Object::read(key, Revision(1), Time::EPOCH, Bytes::from(json::to_text(value))).unwrap()
}

/// Devices of an allocation by claim and request.
pub fn chosen(task: &AllocationTask, found: &[ClaimAllocation]) -> Vec<Choice> {
    let mut choices = Vec::new();
    for (claim, allocation) in found.iter().enumerate() {
        for (device, name) in allocation.devices.iter().zip(names(task, allocation)) {
            choices.push(((claim, device.group), name));
        }
    }
    choices
}

fn device() -> impl Strategy<Value = ModelDevice> {
    let node = select(vec![None, None, Some(0), Some(0), Some(1)]);
    let numa = select(vec![None, Some(0), Some(0), Some(1)]);
    let units = select(vec![None, Some(1), Some(2)]);
    (node, 0..2_i64, numa, prop::bool::weighted(0.2), units, prop::bool::weighted(0.15)).prop_map(
        |(node, model, numa, is_tainted, units, is_allocated)| {
            let units = units.filter(|_| node.is_none());
            ModelDevice { node, model, numa, is_tainted, units, is_allocated }
        },
    )
}

fn request(has_all: bool) -> impl Strategy<Value = ModelRequest> {
    let counts = if has_all { vec![None, Some(1), Some(2)] } else { vec![Some(1), Some(1), Some(2)] };
    (select(counts), select(vec![None, Some(0), Some(1)]), any::<bool>())
        .prop_map(|(count, model, tolerates)| ModelRequest { count, model, tolerates })
}

fn claims() -> impl Strategy<Value = ModelClaim> {
    let constraint = select(vec![
        None,
        Some(Constraint::SameNuma),
        Some(Constraint::SameNuma),
        Some(Constraint::DistinctNuma),
    ]);
    // A constraint that excludes one of all devices is an error, not a choice.
    let free = prop::collection::vec(prop::collection::vec(request(true), 1..3), 1..3);
    let free = free.prop_map(|groups| ModelClaim { groups, constraint: None });
    let constrained = prop::collection::vec(prop::collection::vec(request(false), 1..3), 1..3);
    let constrained =
        (constrained, constraint).prop_map(|(groups, constraint)| ModelClaim { groups, constraint });
    prop_oneof![free, constrained]
}

pub fn world() -> impl Strategy<Value = ModelWorld> {
    let devices = prop::collection::vec(device(), 0..7);
    (devices, prop::collection::vec(claims(), 1..3), 0..5_i64)
        .prop_map(|(devices, claims, units)| ModelWorld { devices, claims, units })
}

impl ModelRequest {
    fn object(&self, name: &str) -> Value {
        let mut request = value!({"name": (name), "deviceClassName": "k"});
        let map = request.make_map();
        match self.count {
            Some(count) => {
                map.insert("allocationMode", "ExactCount");
                map.insert("count", i64::try_from(count).unwrap());
            }
            None => {
                map.insert("allocationMode", "All");
            }
        }
        if let Some(model) = self.model {
            let expression = format!("device.attributes['d'].model == {model}");
            map.insert("selectors", vec![value!({"cel": {"expression": (expression)}})]);
        }
        if self.tolerates {
            map.insert("tolerations", vec![value!({"key": "broken", "operator": "Exists"})]);
        }
        request
    }
}

impl ModelClaim {
    fn object(&self, name: &str) -> Value {
        let groups = self.groups.iter().enumerate().map(|(at, choices)| {
            let name = format!("r{at}");
            match &choices[..] {
                [only] => value!({"name": (name), "exactly": (only.object(""))}),
                choices => {
                    let choices = choices.iter().enumerate();
                    let choices = choices.map(|(at, choice)| choice.object(&format!("c{at}")));
                    value!({"name": (name), "firstAvailable": (choices.collect::<Vec<_>>())})
                }
            }
        });
        let mut devices = value!({"requests": (groups.collect::<Vec<_>>())});
        if let Some(constraint) = self.constraint {
            let field = match constraint {
                Constraint::SameNuma => "matchAttribute",
                Constraint::DistinctNuma => "distinctAttribute",
            };
            let constraint = Value::Map([(field, Value::from("d/numa"))].into_iter().collect());
            devices.make_map().insert("constraints", vec![constraint]);
        }
        claim(name, value!({"devices": (devices)}))
    }
}

impl ModelWorld {
    fn object(&self, at: usize) -> Value {
        let one = &self.devices[at];
        let mut attributes = value!({"model": {"int": (one.model)}});
        if let Some(numa) = one.numa {
            attributes.make_map().insert("numa", value!({"int": (numa)}));
        }
        let mut device = value!({"name": (format!("d{at}")), "attributes": (attributes)});
        if one.is_tainted {
            let taint = value!({"key": "broken", "effect": "NoSchedule"});
            device.make_map().insert("taints", vec![taint]);
        }
        if let Some(units) = one.units {
            let counters = value!({"units": {"value": (units.to_string())}});
            let consumed = value!({"counterSet": "set", "counters": (counters)});
            device.make_map().insert("consumesCounters", vec![consumed]);
        }
        device
    }

    /// Returns the world, and the claims to allocate.
    pub fn objects(&self) -> (World, Vec<Object>) {
        let mut world = empty_world();
        let of = |node: Option<u8>| -> Vec<Value> {
            let found = (0..self.devices.len()).filter(|at| self.devices[*at].node == node);
            found.map(|at| self.object(at)).collect()
        };
        let slice = |name: &str, pool: &str, count: i64, rest: Value| {
            let pool = value!({"name": (pool), "generation": 1, "resourceSliceCount": (count)});
            let mut spec = value!({"driver": "d", "pool": (pool)});
            let fields = rest.as_map().unwrap().iter();
            fields.for_each(|(name, value)| {
                spec.make_map().insert(name, value.clone());
            });
            value!({"metadata": {"name": (name)}, "spec": (spec)})
        };
        let counters = value!({"units": {"value": (self.units.to_string())}});
        let counters =
            value!({"allNodes": true, "sharedCounters": [{"name": "set", "counters": (counters)}]});
        put(&mut world, SLICES, "", &slice("counters", "net", 2, counters));
        let devices = value!({"allNodes": true, "devices": (of(None))});
        put(&mut world, SLICES, "", &slice("devices", "net", 2, devices));
        for node in 0..2 {
            let name = format!("n{node}");
            let devices = value!({"nodeName": (name.as_str()), "devices": (of(Some(node)))});
            put(&mut world, SLICES, "", &slice(&name, &name, 1, devices));
        }
        let results: Vec<Value> = (0..self.devices.len())
            .filter(|at| self.devices[*at].is_allocated)
            .map(|at| {
                let pool = self.devices[at].node.map_or("net".to_owned(), |node| format!("n{node}"));
                value!({"request": "r", "driver": "d", "pool": (pool), "device": (format!("d{at}"))})
            })
            .collect();
        let mut other = claim("other", value!({}));
        other.make_map().insert("status", value!({"allocation": {"devices": {"results": (results)}}}));
        put(&mut world, CLAIMS, "default", &other);
        let claims = self.claims.iter().enumerate();
        let claims = claims
            .map(|(at, claim)| put(&mut world, CLAIMS, "default", &claim.object(&format!("c{at}"))))
            .collect();
        (world, claims)
    }

    /// Names of the devices that another claim holds.
    pub fn allocated(&self) -> BTreeSet<String> {
        let found = (0..self.devices.len()).filter(|at| self.devices[*at].is_allocated);
        found.map(|at| format!("d{at}")).collect()
    }

    fn is_selected(&self, at: usize, node: &str, request: &ModelRequest) -> bool {
        let device = &self.devices[at];
        device.node.is_none_or(|number| format!("n{number}") == node)
            && request.model.is_none_or(|model| model == device.model)
    }

    /// Sets of devices that satisfy a request by itself.
    fn sets(&self, node: &str, request: &ModelRequest) -> Vec<Vec<usize>> {
        let selected: Vec<usize> =
            (0..self.devices.len()).filter(|at| self.is_selected(*at, node, request)).collect();
        let Some(count) = request.count else {
            return if selected.is_empty() { Vec::new() } else { vec![selected] };
        };
        let subsets = (0..1_u32 << selected.len()).filter(|bits| bits.count_ones() as usize == count);
        let subset = |bits: u32| {
            selected.iter().enumerate().filter(move |(at, _)| bits >> at & 1 == 1).map(|(_, device)| *device)
        };
        subsets.map(|bits| subset(bits).collect()).collect()
    }

    /// `true` if no two claims hold a device, taints are tolerated, constraints hold and counters suffice. Each entry has
    /// its claim, the request and the devices.
    fn is_consistent(&self, chosen: &[(usize, &ModelRequest, Vec<usize>)]) -> bool {
        let mut used = BTreeSet::new();
        let mut units = 0;
        let mut numa: BTreeMap<usize, Vec<Option<i64>>> = BTreeMap::new();
        for (claim, request, devices) in chosen {
            for at in devices {
                let device = &self.devices[*at];
                if device.is_allocated || !used.insert(*at) || (device.is_tainted && !request.tolerates) {
                    return false;
                }
                units += device.units.unwrap_or(0);
                numa.entry(*claim).or_default().push(device.numa);
            }
        }
        let held = |device: &&ModelDevice| device.is_allocated;
        let left = self.units - self.devices.iter().filter(held).filter_map(|one| one.units).sum::<i64>();
        let meets = |(claim, values): (&usize, &Vec<Option<i64>>)| {
            let distinct: BTreeSet<&Option<i64>> = values.iter().collect();
            match self.claims[*claim].constraint {
                None => true,
                Some(_) if values.contains(&None) => false,
                Some(Constraint::SameNuma) => distinct.len() <= 1,
                Some(Constraint::DistinctNuma) => distinct.len() == values.len(),
            }
        };
        (units == 0 || units <= left) && numa.iter().all(meets)
    }

    /// `true` if any combination of alternatives and devices satisfies all claims.
    pub fn brute_force(&self, node: &str) -> bool {
        let groups: Vec<(usize, &Vec<ModelRequest>)> = self
            .claims
            .iter()
            .enumerate()
            .flat_map(|(at, claim)| claim.groups.iter().map(move |group| (at, group)))
            .collect();
        self.try_groups(node, &groups, &mut Vec::new())
    }

    fn try_groups<'a>(
        &'a self,
        node: &str,
        groups: &[(usize, &'a Vec<ModelRequest>)],
        chosen: &mut Vec<(usize, &'a ModelRequest, Vec<usize>)>,
    ) -> bool {
        let Some(((claim, choices), rest)) = groups.split_first() else { return true };
        for request in *choices {
            for set in self.sets(node, request) {
                chosen.push((*claim, request, set));
                // Inconsistent choices stay so, whatever is added.
                let found = self.is_consistent(chosen) && self.try_groups(node, rest, chosen);
                chosen.pop();
                if found {
                    return true;
                }
            }
        }
        false
    }

    /// `true` if an allocation satisfies all claims.
    pub fn is_valid(&self, node: &str, chosen: &[Choice], found: &[ClaimAllocation]) -> bool {
        let mut entries = Vec::new();
        for (at, claim) in self.claims.iter().enumerate() {
            for (group, choices) in claim.groups.iter().enumerate() {
                let request = &choices[found[at].choices[group]];
                let of_group = chosen.iter().filter(|(place, _)| *place == (at, group));
                let mut devices: Vec<usize> = of_group.map(|(_, name)| name[1..].parse().unwrap()).collect();
                devices.sort_unstable();
                if !self.sets(node, request).contains(&devices) {
                    return false;
                }
                entries.push((at, request, devices));
            }
        }
        self.is_consistent(&entries)
    }
}
