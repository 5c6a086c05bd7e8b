//! Devices: allocation of ResourceClaims from ResourceSlices, as by the structured allocator of upstream.
//!
//! [`inventory`] numbers the devices of a world, [`allocated`] has those that claims hold, with the allocations that a
//! plan has made so far. An [`AllocationTask`] is the search for the devices of one pod: `claims` reads what the pod
//! requests, `pools` selects what a node can reach, `search` tries candidates one after another, and `result` writes an
//! allocation. Start at [`AllocationTask::allocate`].
//!
//! The search is exhaustive and takes the first solution, in the order of pools, slices and devices, so drivers can
//! choose an order by names. [`search::SEARCH_STEPS_MAX`] bounds it for all nodes of an attempt.

pub mod allocated;
mod capacity;
mod claims;
mod constraints;
mod counters;
pub mod inventory;
mod pools;
pub mod result;
pub mod search;
mod selectors;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use setpoint_reconcile::WorldReader;

use allocated::AllocatedState;
pub use claims::{ClaimsError, PendingClaim};
use inventory::DeviceInventory;
pub use search::AllocationTask;
use selectors::SelectorCache;

/// Devices as the scheduler cache keeps them. Losing it costs time only.
#[derive(Clone, Debug, Default)]
pub struct DeviceCache {
    /// Inventory; `None` until a plan needs it, and after a change.
    inventory: Option<Arc<DeviceInventory>>,
    /// Allocated devices, in the world and by this plan; `None` until the plan needs them.
    allocated: Option<Arc<AllocatedState>>,
    selectors: SelectorCache,
    /// UIDs of the claims that this plan allocates.
    pending: BTreeSet<Box<str>>,
}

impl DeviceCache {
    /// Forgets the allocations of the last plan: the world shows those that were committed.
    pub fn begin_plan(&mut self) {
        self.allocated = None;
        self.pending.clear();
    }

    /// Forgets the inventory, after a change of a ResourceSlice or DeviceTaintRule.
    pub fn forget_inventory(&mut self) {
        self.inventory = None;
        self.selectors.forget_results();
    }

    /// `true` if this plan allocates the claim of a UID.
    #[must_use]
    pub fn is_pending(&self, uid: &str) -> bool {
        self.pending.contains(uid)
    }

    /// Prepares the search for the devices of unallocated claims.
    ///
    /// # Errors
    /// If a claim cannot be allocated on any node.
    pub fn prepare(
        &mut self,
        claims: &[setpoint_reconcile::Object],
        world: &WorldReader<'_>,
    ) -> Result<AllocationTask, ClaimsError> {
        let inventory =
            Arc::clone(self.inventory.get_or_insert_with(|| Arc::new(DeviceInventory::new(world))));
        let allocated = Arc::clone(
            self.allocated.get_or_insert_with(|| Arc::new(AllocatedState::new(world, &inventory))),
        );
        let claims: Result<Vec<PendingClaim>, ClaimsError> = claims
            .iter()
            .map(|claim| PendingClaim::read(claim, world, &mut self.selectors, inventory.device_count()))
            .collect();
        Ok(AllocationTask::new(inventory, allocated, claims?))
    }

    /// Assumes the allocation of a pod's claims, so that no other pod of this plan gets the devices.
    pub fn assume(&mut self, task: &AllocationTask, allocations: &[search::ClaimAllocation]) {
        let state = Arc::make_mut(self.allocated.get_or_insert_default());
        for (claim, allocation) in task.claims().iter().zip(allocations) {
            self.pending.insert(claim.object().meta().uid.clone());
            for device in &allocation.devices {
                state.add(device);
            }
        }
    }
}
