//! Retention: budgets of bytes and age of history.

use std::collections::BTreeSet;
use std::time::Duration;

use setpoint_api::Resource;

/// Budgets of history. Compaction drops what exceeds a budget, oldest first.
#[derive(Clone, Debug)]
pub struct Retention {
    /// Maximum bytes of superseded versions in memory, for watches and reads of recent revisions.
    pub hot_bytes: usize,
    /// Maximum age of superseded versions in memory.
    pub hot_age: Duration,
    /// Maximum bytes of history on disk.
    pub cold_bytes: u64,
    /// Maximum age of history on disk.
    pub cold_age: Duration,
    /// Resources that change too often to keep a history, such as Leases and Events: their watches have a
    /// small ring of [`Retention::exempt_bytes`] each, and only their last versions are kept on disk.
    pub exempt: BTreeSet<Resource>,
    /// Maximum bytes of superseded versions in memory for each exempt resource.
    pub exempt_bytes: usize,
    /// Maximum bytes of live objects; above it no object is created. All objects are in memory, so without a
    /// limit one runaway controller could exhaust the machine's.
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
