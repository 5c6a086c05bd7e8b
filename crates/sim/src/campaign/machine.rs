//! Machine of the store: its disk can be full, and its power can be cut.
//!
//! With a simulated disk, the store uses the product's disk log, and a power cut keeps a random part of the unsynced
//! writes. Without one it uses a memory log, which is faster, and there are no power cuts.

use std::sync::Arc;

use fastrand::Rng;
use setpoint_store::log::disk::{DiskLog, DiskOptions};
use setpoint_store::log::{Log, LogError, MemoryLog};
use setpoint_store::{Retention, Store};

use crate::disk::{Faults, SimDisk};
use crate::full_log::{DiskFullSwitch, FullLog};

/// Maximum number of disk operations before a power cut takes effect.
const OPERATIONS_TO_CUT_MAX: u64 = 16;

/// The machine.
pub struct Machine {
    disk_full: DiskFullSwitch,
    disk: Option<SimDisk>,
    /// Seeded bug: syncs are acknowledged and not done.
    ignores_syncs: bool,
}

impl Machine {
    /// Returns a machine with or without a disk.
    #[must_use]
    pub fn new(has_disk: bool, ignores_syncs: bool) -> Machine {
        Machine { disk_full: DiskFullSwitch::default(), disk: has_disk.then(SimDisk::default), ignores_syncs }
    }

    /// Opens the store.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn start(&self) -> Result<Store, LogError> {
        let log: Box<dyn Log> = match &self.disk {
            Some(disk) => Box::new(DiskLog::new(Arc::new(disk.clone()), disk_options())),
            None => Box::new(MemoryLog::default()),
        };
        Store::open(Box::new(FullLog::new(log, self.disk_full.clone())), Retention::default(), |_| ())
    }

    /// Makes the disk full, or frees space.
    pub fn set_disk_full(&self, full: bool) {
        self.disk_full.set(full);
    }

    /// `true` if the disk is full.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        self.disk_full.is_full()
    }

    /// Cuts the power after a random number of disk operations.
    pub fn arm_power_cut(&self, rng: &mut Rng) {
        if let Some(disk) = &self.disk {
            let power_cut_at = Some(disk.operations() + rng.u64(..OPERATIONS_TO_CUT_MAX));
            disk.set_faults(Faults { power_cut_at, ignores_syncs: self.ignores_syncs, ..Faults::default() });
        }
    }

    /// Cancels the power cut.
    pub fn disarm_power_cut(&self) {
        if let Some(disk) = &self.disk {
            disk.set_faults(Faults::default());
        }
    }

    /// `true` if the power was cut.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.disk.as_ref().is_some_and(SimDisk::is_off)
    }

    /// Restores the power.
    pub fn restore_power(&self, rng: &mut Rng) {
        if let Some(disk) = &self.disk {
            disk.power_cycle(rng);
        }
    }
}

/// Sizes that are small enough for a campaign to fill segments and write checkpoints.
fn disk_options() -> DiskOptions {
    DiskOptions {
        segment_bytes_min: 64 << 10,
        segment_bytes_max: 256 << 10,
        compact_bytes_min: 256 << 10,
        reserve_bytes: 16 << 10,
        ..DiskOptions::default()
    }
}
