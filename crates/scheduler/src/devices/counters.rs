//! Counters that the devices of a pool share.

use std::collections::BTreeMap;

use setpoint_api::quantity::Quantity;
use setpoint_views::resource_slice::{CounterConsumption, Device};

use super::allocated::AllocatedState;
use super::inventory::{Counters, DeviceInventory};

/// Counters that the devices of a search consume, by generation.
#[derive(Debug, Default)]
pub struct ConsumedCounters(BTreeMap<usize, Counters>);

/// Returns the counters of a generation that allocated devices leave. They can be negative.
#[must_use]
pub fn available(inventory: &DeviceInventory, generation: usize, allocated: &AllocatedState) -> Counters {
    let generation = &inventory.generations[generation];
    let mut counters = generation.counters.clone();
    for slice in generation.slices.iter().map(|slice| &inventory.slices[*slice]) {
        for (info, device) in slice.devices.iter().zip(&slice.spec().devices) {
            if !device.consumes_counters.is_empty() && allocated.is_allocated(info.number) {
                for_each(&device.consumes_counters, |set, name, value| {
                    if let Some(left) = counters.get_mut(set).and_then(|set| set.get_mut(name)) {
                        *left -= value;
                    }
                });
            }
        }
    }
    counters
}

fn for_each(consumed: &[CounterConsumption], mut visit: impl FnMut(&str, &str, Quantity)) {
    for set in consumed {
        for (name, counter) in &set.counters {
            visit(&set.counter_set, name, *counter.value);
        }
    }
}

impl ConsumedCounters {
    /// Consumes the counters of a device. Returns `false` and consumes nothing if they do not suffice.
    pub fn reserve(&mut self, generation: usize, device: &Device, available: &Counters) -> bool {
        let consumed = self.0.entry(generation).or_default();
        for_each(&device.consumes_counters, |set, name, value| {
            let set = consumed.entry(set.into()).or_default();
            *set.entry(name.into()).or_insert(Quantity::ZERO) += value;
        });
        let consumed_of = |set: &str, name: &str| {
            consumed.get(set).and_then(|set| set.get(name)).copied().unwrap_or(Quantity::ZERO)
        };
        // As upstream, every counter of the pool is compared: one that is negative prevents any consumption.
        let mut all = available.iter().flat_map(|(set, counters)| {
            counters.iter().map(move |(name, available)| (&**set, &**name, *available))
        });
        let suffices = all.all(|(set, name, available)| available >= consumed_of(set, name));
        if !suffices {
            self.release(generation, device);
        }
        suffices
    }

    /// Returns the counters of a device.
    pub fn release(&mut self, generation: usize, device: &Device) {
        let Some(consumed) = self.0.get_mut(&generation) else { return };
        for_each(&device.consumes_counters, |set, name, value| {
            if let Some(sum) = consumed.get_mut(set).and_then(|set| set.get_mut(name)) {
                *sum -= value;
            }
        });
    }
}
