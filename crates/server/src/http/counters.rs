//! What the socket side counts, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the start.
#[derive(Debug, Default)]
pub struct Counters {
    panics: AtomicU64,
    refused: AtomicU64,
    cut: AtomicU64,
}

impl Counters {
    /// Panics in the service, contained.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Connections closed because there were too many.
    pub fn connections_refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Connections ended because nothing moved on them, or not fast enough.
    pub fn connections_cut(&self) -> u64 {
        self.cut.load(Ordering::Relaxed)
    }

    pub(super) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn connection_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn connection_cut(&self) {
        self.cut.fetch_add(1, Ordering::Relaxed);
    }
}
