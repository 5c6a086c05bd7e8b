//! Allocated devices: those of claims in the world, and those that the plan has allocated so far.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::quantity::Quantity;
use setpoint_reconcile::WorldReader;
use setpoint_views::resource_claim::ResourceClaim;

use super::inventory::{DeviceInventory, DeviceNumber};
use super::search::AllocatedDevice;

/// Amounts by name of the capacity.
pub type Amounts = BTreeMap<Box<str>, Quantity>;

/// Devices that claims hold.
#[derive(Clone, Debug, Default)]
pub struct AllocatedState {
    dedicated: BTreeSet<DeviceNumber>,
    /// Devices with shares, and the amounts that the shares consume.
    shared: BTreeMap<DeviceNumber, Amounts>,
}

impl AllocatedState {
    /// Reads the allocated claims of a world.
    #[must_use]
    pub fn new(world: &WorldReader<'_>, inventory: &DeviceInventory) -> AllocatedState {
        let mut state = AllocatedState::default();
        for device in world.views::<ResourceClaim>().flat_map(|(_, claim)| claim.devices()) {
            // A device with administrative access is not taken from others.
            if device.admin_access == Some(true) {
                continue;
            }
            let Some(number) = inventory.number(&device.driver, &device.pool, &device.device) else {
                continue;
            };
            if device.share_id.is_some() {
                let amounts = device.consumed_capacity.iter().map(|(name, amount)| (name.as_str(), amount.0));
                add_amounts(state.shared.entry(number).or_default(), amounts);
            } else {
                state.dedicated.insert(number);
            }
        }
        state
    }

    /// Adds a device that a plan allocates.
    pub fn add(&mut self, device: &AllocatedDevice) {
        if device.is_admin {
            return;
        }
        if device.is_shared {
            let amounts = device.consumed.iter().map(|(name, amount)| (&**name, *amount));
            add_amounts(self.shared.entry(device.number).or_default(), amounts);
        } else {
            self.dedicated.insert(device.number);
        }
    }

    /// `true` if a claim holds the whole device.
    #[must_use]
    pub fn is_dedicated(&self, device: DeviceNumber) -> bool {
        self.dedicated.contains(&device)
    }

    /// Returns the amounts that shares of the device consume; `None` if it has no shares.
    #[must_use]
    pub fn shares(&self, device: DeviceNumber) -> Option<&Amounts> {
        self.shared.get(&device)
    }

    /// `true` if a claim holds the device or a share of it.
    #[must_use]
    pub fn is_allocated(&self, device: DeviceNumber) -> bool {
        self.is_dedicated(device) || self.shared.contains_key(&device)
    }
}

/// Adds amounts to others.
pub fn add_amounts<'a>(sum: &mut Amounts, amounts: impl Iterator<Item = (&'a str, Quantity)>) {
    for (name, amount) in amounts {
        match sum.get_mut(name) {
            Some(total) => *total += amount,
            None => {
                sum.insert(name.into(), amount);
            }
        }
    }
}
