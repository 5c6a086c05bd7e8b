//! Resync: enqueues keys although no change concerns them, in slices.

use std::time::Duration;

use setpoint_api::Time;

use super::Engine;
use crate::queue::ReconcileReason;

/// Period of resyncs.
pub const RESYNC: Duration = Duration::from_secs(30);
/// Number of slices that a resync is spread over.
pub const RESYNC_SLICES: u32 = 30;
/// Number of resyncs of which one is full, that is, enqueues every key. The others leave out keys for which nothing can
/// have changed: a change of anything that their controller has read is noticed, whatever its watches are. So a full
/// resync finds only planners that hide an input from the loop, and one per hour is enough.
pub const RESYNC_WHOLE: u32 = 120;

impl Engine {
    /// Enqueues the keys of objects that do not exist yet, since no change enqueues them. Returns the time of the first
    /// resync.
    fn start_resyncs(&mut self, now: Time) -> Time {
        for state in &mut self.controllers {
            for key in state.controller.keys(&self.world.reader()) {
                if self.world.get(&key).is_none() {
                    state.queue.enqueue(key, ReconcileReason::OtherChange, now);
                }
            }
        }
        *self.next_resync_at.insert(now.after(RESYNC))
    }

    /// Enqueues the next slice of the resync if it is due.
    pub(super) fn resync(&mut self, now: Time) {
        let due = match self.next_resync_at {
            Some(due) => due,
            None => self.start_resyncs(now),
        };
        if now < due {
            return;
        }
        let is_full = self.resync_count.is_multiple_of(RESYNC_WHOLE);
        self.resync_count = self.resync_count.wrapping_add(u32::from(self.resync_slice == 0));
        for state in &mut self.controllers {
            if self.resync_slice == 0 {
                state.resync_keys = state.keys_to_resync(&self.world, is_full);
                state.resync_slice_len = state.resync_keys.len().div_ceil(RESYNC_SLICES as usize);
            }
            let rest = state.resync_keys.len().saturating_sub(state.resync_slice_len);
            for key in state.resync_keys.drain(rest..) {
                state.queue.enqueue(key, ReconcileReason::Resync, now);
            }
        }
        self.resync_slice += 1;
        let is_done = self.controllers.iter().all(|state| state.resync_keys.is_empty());
        // Empty slices are skipped, so that an idle loop sleeps.
        let slices = if is_done { RESYNC_SLICES - std::mem::take(&mut self.resync_slice) + 1 } else { 1 };
        self.next_resync_at = Some(now.after(RESYNC / RESYNC_SLICES * slices));
    }
}
