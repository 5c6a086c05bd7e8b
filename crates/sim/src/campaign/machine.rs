//! The machine that the store is on: its disk can be full, and its power can be cut.
//!
//! With a disk of its own the log is the product's log on disk, and a cut leaves of what was not synced what chance
//! leaves. Without one it is a log in memory, which is quicker, and there are no cuts.

use std::sync::Arc;

use fastrand::Rng;
use setpoint_store::log::disk::{DiskLog, DiskOptions};
use setpoint_store::log::{Log, LogError, MemoryLog};
use setpoint_store::{Retention, Store};

use crate::disk::{Faults, SimDisk};
use crate::full_log::{Full, FullLog};

/// How many more things are done with a disk at the most before the power is cut.
const FUSE_MAX: u64 = 16;

/// The machine that the store is on.
pub struct Machine {
    full: Full,
    disk: Option<SimDisk>,
    /// A seeded bug: what is said to be synced is not.
    lies: bool,
}

impl Machine {
    /// A machine, with a disk or without.
    #[must_use]
    pub fn new(has_disk: bool, lies: bool) -> Machine {
        Machine { full: Full::default(), disk: has_disk.then(SimDisk::default), lies }
    }

    /// Starts the store on it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn start(&self) -> Result<Store, LogError> {
        let log: Box<dyn Log> = match &self.disk {
            Some(disk) => Box::new(DiskLog::new(Arc::new(disk.clone()), sizes())),
            None => Box::new(MemoryLog::default()),
        };
        Store::open(Box::new(FullLog::over(log, self.full.clone())), Retention::default(), |_| ())
    }

    /// Fills the disk, or makes room.
    pub fn fill(&self, full: bool) {
        self.full.set(full);
    }

    /// Whether the disk is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.full.is()
    }

    /// The power will be cut soon, in the middle of something.
    pub fn light_fuse(&self, rng: &mut Rng) {
        if let Some(disk) = &self.disk {
            let fuse = Some(disk.operations() + rng.u64(..FUSE_MAX));
            disk.set_faults(Faults { fuse, lies: self.lies, ..Faults::default() });
        }
    }

    /// The power will not be cut.
    pub fn put_out_fuse(&self) {
        if let Some(disk) = &self.disk {
            disk.set_faults(Faults::default());
        }
    }

    /// Whether the power was cut.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.disk.as_ref().is_some_and(SimDisk::is_off)
    }

    /// The power is back.
    pub fn turn_on(&self, rng: &mut Rng) {
        if let Some(disk) = &self.disk {
            disk.power_cycle(rng);
        }
    }
}

/// Small enough that a campaign fills some segments and makes checkpoints.
fn sizes() -> DiskOptions {
    DiskOptions {
        segment_bytes_min: 64 << 10,
        segment_bytes_max: 256 << 10,
        compact_bytes_min: 256 << 10,
        reserve_bytes: 16 << 10,
        ..DiskOptions::default()
    }
}
