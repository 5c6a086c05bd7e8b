//! How much of the past is kept.

use std::collections::BTreeSet;
use std::time::Duration;

use setpoint_api::Resource;

/// The budgets of history. What exceeds a budget is dropped, oldest first, by compaction.
#[derive(Clone, Debug)]
pub struct Retention {
    /// The most bytes of superseded versions held in memory for watches and reads of the recent past.
    pub hot_bytes: usize,
    /// The longest that they are held there.
    pub hot_age: Duration,
    /// The most bytes of history on disk.
    pub cold_bytes: u64,
    /// The longest that it is kept there.
    pub cold_age: Duration,
    /// Resources that change too often to be worth a history, such as leases and events: their watches work
    /// from a small ring of [`Retention::exempt_bytes`] each, and no version of theirs is kept on disk but
    /// the last.
    pub exempt: BTreeSet<Resource>,
    /// The most bytes of superseded versions held in memory for each exempt resource.
    pub exempt_bytes: usize,
    /// Bytes of live objects from which on no further object is created. All of them are in memory, so without a bound
    /// one controller that creates without end takes the machine's.
    pub live_bytes: u64,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention {
            hot_bytes: 8 << 20,
            hot_age: Duration::from_secs(5 * 60),
            cold_bytes: 1 << 30,
            cold_age: Duration::from_secs(7 * 24 * 3600),
            exempt: BTreeSet::new(),
            exempt_bytes: 1 << 20,
            live_bytes: u64::MAX,
        }
    }
}
