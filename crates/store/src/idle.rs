//! Packing of idle objects.
//!
//! The objects of a large table are mostly alike, as the pods of one template are, and few of them change.
//! Therefore, in a table of at least [`TABLE_BYTES_MIN`], objects that have not changed for [`IDLE_AGE`] are
//! packed against samples of their table (see `pack.rs`), in the order of paths, in which similar objects
//! are neighbors. A smaller table is never packed, so a small cluster pays nothing. A large one pays one
//! packing per object that becomes idle and one unpacking per read.
//!
//! Packing is due when enough has been written since the last run, and once more when objects that were too
//! young then have become idle. It replaces bytes inside records, which the mirror, the rings and all
//! readers share, so none of them keeps the unpacked bytes alive.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_api::{Resource, Time};

use crate::mirror::{Snapshot, Table};
use crate::pack::Samples;
use crate::record::Record;

/// Minimum bytes of a table whose objects are packed: several thousand pods.
const TABLE_BYTES_MIN: u64 = 32 << 20;
/// Time since its last commit after which an object is idle. Most pods reach their final status sooner.
const IDLE_AGE: Duration = Duration::from_secs(2);
/// Minimum bytes written since the last run that make packing due.
const WRITTEN_BYTES_MIN: u64 = 16 << 20;
/// Fraction (one in this many) of all bytes that must be written to make packing due, because it visits
/// every object of a large table.
const WRITTEN_FRACTION: u64 = 8;
/// Objects that are visited per snapshot: while a snapshot is held, writers copy the nodes that they change.
const PAGE_OBJECTS: usize = 1024;

/// Schedule and samples of the packing of idle objects.
#[derive(Debug, Default)]
pub(crate) struct IdlePacker {
    /// Bytes written since the last run, by commits without an expiry.
    written_bytes: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    samples: BTreeMap<Resource, Samples>,
    /// Time at which the objects that were too young at the last run become idle.
    due_at: Option<Time>,
}

impl IdlePacker {
    /// Returns a packer for a store that was opened with this state.
    pub fn from_snapshot(snapshot: &Snapshot) -> IdlePacker {
        IdlePacker { written_bytes: AtomicU64::new(snapshot.bytes()), ..IdlePacker::default() }
    }

    /// Counts written bytes. Returns `true` if packing becomes due by them.
    pub fn record_written(&self, bytes: u64, snapshot: &Snapshot) -> bool {
        let before = self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes < WRITTEN_BYTES_MIN {
            return false;
        }
        let due = due_bytes(snapshot);
        before < due && before + bytes >= due
    }

    /// Time at which packing is due regardless of the bytes written.
    pub fn due_at(&self) -> Option<Time> {
        self.state.lock().due_at
    }

    /// Packs the objects that are idle at `now`, if packing is due. `snapshot` returns the current state.
    pub fn run(&self, now: Time, snapshot: impl Fn() -> Snapshot) {
        let mut state = self.state.lock();
        let newest = snapshot();
        let is_rerun_due = state.due_at.is_some_and(|at| at <= now);
        if !is_rerun_due && self.written_bytes.load(Ordering::Relaxed) < due_bytes(&newest) {
            return;
        }
        self.written_bytes.store(0, Ordering::Relaxed);
        let is_large = |(_, table): &(&Resource, &Table)| table.bytes() >= TABLE_BYTES_MIN;
        let large: Vec<Resource> = newest.tables().filter(is_large).map(|(name, _)| name.clone()).collect();
        drop(newest);
        state.samples.retain(|resource, _| large.contains(resource));
        let (before, mut has_younger) = (now.before(IDLE_AGE), false);
        for resource in large {
            let samples = state.samples.entry(resource.clone()).or_default();
            has_younger |= pack_table(&resource, before, samples, &snapshot);
        }
        // Clusters with node heartbeats always have young objects; one more run is enough for the objects of
        // a burst.
        state.due_at = (has_younger && !is_rerun_due).then(|| now.after(IDLE_AGE));
    }
}

fn due_bytes(snapshot: &Snapshot) -> u64 {
    WRITTEN_BYTES_MIN.max(snapshot.bytes() / WRITTEN_FRACTION)
}

/// Packs the objects that were committed at or before `before`. Returns `true` if there are younger ones.
fn pack_table(
    resource: &Resource,
    before: Time,
    samples: &mut Samples,
    snapshot: &impl Fn() -> Snapshot,
) -> bool {
    let mut after: Option<Record> = None;
    let mut has_younger = false;
    loop {
        let newest = snapshot();
        let Some(table) = newest.table(resource) else { return has_younger };
        let page = table.range("", after.as_ref().map(Record::path)).take(PAGE_OBJECTS);
        let (mut last, mut idle) = (None, Vec::new());
        for record in page {
            last = Some(record);
            if record.can_be_packed(before) {
                idle.push(record.clone());
            }
            has_younger |= record.time() > before;
        }
        after = last.cloned();
        drop(newest);
        idle.iter().for_each(|record| record.pack_idle(samples));
        if after.is_none() {
            return has_younger;
        }
    }
}
