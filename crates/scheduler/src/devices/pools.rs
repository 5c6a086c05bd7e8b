//! Pools that a node can reach: the newest generation of each, with its state.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_reconcile::object::Pairs;

use super::inventory::{DeviceInventory, NodeScope};

/// Pool as a node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Index in [`DeviceInventory::pools`].
    pub number: usize,
    /// Index in [`DeviceInventory::generations`].
    pub generation: usize,
    /// State of the pool.
    pub state: PoolState,
    /// Slices with devices that the node can reach, by name; none if devices of the pool cannot be allocated.
    pub slices: Vec<usize>,
}

/// State of a pool. Only devices of complete pools are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// All slices exist.
    Complete,
    /// The driver is updating the pool.
    Incomplete,
    /// Names of devices are not unique, or counters are inconsistent.
    Invalid,
}

/// Returns the pools that a node can reach, by driver and name; those with binding conditions come last.
#[must_use]
pub fn gather(inventory: &DeviceInventory, node: &str, labels: &Pairs) -> Vec<Pool> {
    let mut by_pool: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for at in inventory.slices_for(node) {
        let slice = &inventory.slices[at];
        if !slice.is_relevant(node, labels) {
            continue;
        }
        let generation = &inventory.generations[slice.generation];
        let slices = by_pool.entry(generation.pool).or_default();
        let known = slices.first().map(|first: &usize| {
            let first = inventory.slices[*first].generation;
            inventory.generations[first].number
        });
        match known {
            Some(known) if known > generation.number => {}
            Some(known) if known < generation.number => *slices = vec![at],
            _ => slices.push(at),
        }
    }
    let (mut pools, mut with_conditions) = (Vec::new(), Vec::new());
    for (number, mut slices) in by_pool {
        slices.sort_unstable();
        let Some(pool) = build(inventory, number, slices) else { continue };
        if pool.slices.iter().any(|slice| inventory.slices[*slice].has_binding_conditions) {
            with_conditions.push(pool);
        } else {
            pools.push(pool);
        }
    }
    pools.append(&mut with_conditions);
    pools
}

/// `true` if no device of the pools is for one node only, so that nodes with these pools have the same devices.
#[must_use]
pub fn are_shared(inventory: &DeviceInventory, pools: &[Pool]) -> bool {
    let mut slices = pools.iter().flat_map(|pool| &pool.slices).map(|slice| &inventory.slices[*slice]);
    slices.all(|slice| !matches!(slice.nodes, NodeScope::Name(_) | NodeScope::PerDevice))
}

/// Returns a pool with these slices; `None` if the generation is obsolete.
fn build(inventory: &DeviceInventory, number: usize, slices: Vec<usize>) -> Option<Pool> {
    let first = &inventory.slices[*slices.first()?];
    let generation = &inventory.generations[first.generation];
    let expected = first.spec().pool.resource_slice_count;
    let has_all = |count: usize| i64::try_from(count) == Ok(expected);
    let mut pool =
        Pool { number, generation: first.generation, state: PoolState::Complete, slices: Vec::new() };
    if !has_all(slices.len()) {
        // Slices with a newer generation may be out of reach of the node, and so may slices of this one.
        if inventory.pools[number].newest > generation.number {
            return None;
        }
        if !has_all(generation.slices.len()) {
            pool.state = PoolState::Incomplete;
            return Some(pool);
        }
    }
    let with_devices = slices.into_iter().filter(|slice| !inventory.slices[*slice].has_counters);
    let slices: Vec<usize> = with_devices.collect();
    let has_duplicates = generation.has_duplicate_devices && {
        let mut numbers = BTreeSet::new();
        let mut devices = slices.iter().flat_map(|slice| &inventory.slices[*slice].devices);
        !devices.all(|device| numbers.insert(device.number))
    };
    if has_duplicates || generation.has_invalid_counters {
        pool.state = PoolState::Invalid;
    } else {
        pool.slices = slices;
    }
    Some(pool)
}
