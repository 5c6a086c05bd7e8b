//! Counters of the HTTP server, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::metrics::{MetricType, Text};

/// Counts since the start.
#[derive(Debug, Default)]
pub struct Counters {
    panics: AtomicU64,
    refused: AtomicU64,
    cut: AtomicU64,
    evicted: AtomicU64,
}

impl Counters {
    /// Panics in the service.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Connections closed because there were too many.
    pub(crate) fn connections_refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Connections closed for lack of activity, or for slow reads and writes.
    pub(crate) fn connections_cut(&self) -> u64 {
        self.cut.load(Ordering::Relaxed)
    }

    /// Unauthenticated connections closed to make room for newer ones.
    pub(crate) fn evictions(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Writes the metric families.
    pub fn write(&self, text: &mut Text) {
        let mut write_counter = |name: &str, help: &str, value: u64| {
            text.family(name, MetricType::Counter, help);
            text.sample(name, &[], value);
        };
        write_counter(
            "setpoint_http_panics_total",
            "Panics in the service that ended one request.",
            self.panics(),
        );
        let refused = self.connections_refused();
        write_counter(
            "setpoint_http_connections_refused_total",
            "Connections closed because of the connection limit.",
            refused,
        );
        let cut = self.connections_cut();
        write_counter(
            "setpoint_http_connections_cut_total",
            "Connections closed because of inactivity or slow reads and writes.",
            cut,
        );
        write_counter(
            "setpoint_http_connections_evicted_total",
            "Unauthenticated connections closed to make room for newer ones.",
            self.evictions(),
        );
    }

    pub(super) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn connection_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn connections_evicted(&self, connections: u64) {
        self.evicted.fetch_add(connections, Ordering::Relaxed);
    }

    pub(super) fn connection_cut(&self) {
        self.cut.fetch_add(1, Ordering::Relaxed);
    }
}
