//! Counters of a priority level, by FlowSchema.

use std::time::Duration;

use super::Rejection;
use crate::histogram::Histogram;

const QUEUE_LENGTHS: &[f64] = &[0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];
const SECONDS: &[f64] = &[0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];
const WATCHES: &[f64] = &[0.0, 1.0, 10.0, 100.0, 1000.0, 10000.0];
const SEATS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0];

/// Counters of the requests of one FlowSchema in a priority level.
#[derive(Clone, Debug)]
pub struct SchemaStatistics {
    /// Name of the FlowSchema.
    pub schema: Box<str>,
    /// Requests that were dispatched.
    pub dispatched: u64,
    /// Requests that were rejected, by [`Rejection`].
    pub rejected: [u64; Rejection::ALL.len()],
    /// Attempts to dispatch a request that needed more seats than were free.
    pub not_accommodated: u64,
    /// Requests that are waiting.
    pub waiting: u64,
    /// Seats that they need.
    pub waiting_seats: u64,
    /// Requests that are executing.
    pub executing: u64,
    /// Seats that are occupied, also by finished requests.
    pub executing_seats: u64,
    /// Lengths of queues after a request was added.
    pub queue_lengths: Histogram,
    /// Seconds of waiting of requests that were not dispatched, and of those that were.
    pub wait_seconds: [Histogram; 2],
    /// Seconds of execution of requests other than watches, and of the initialization of watches.
    pub execution_seconds: [Histogram; 2],
    /// Watches that a write may concern.
    pub watches: Histogram,
    /// Estimated seats of requests.
    pub seats: Histogram,
}

impl SchemaStatistics {
    pub(super) fn new(schema: &str) -> SchemaStatistics {
        let seconds = || Histogram::new(SECONDS);
        SchemaStatistics {
            schema: schema.into(),
            dispatched: 0,
            rejected: [0; Rejection::ALL.len()],
            not_accommodated: 0,
            waiting: 0,
            waiting_seats: 0,
            executing: 0,
            executing_seats: 0,
            queue_lengths: Histogram::new(QUEUE_LENGTHS),
            wait_seconds: [seconds(), seconds()],
            execution_seconds: [seconds(), seconds()],
            watches: Histogram::new(WATCHES),
            seats: Histogram::new(SEATS),
        }
    }

    pub(super) fn observe_wait(&mut self, is_dispatched: bool, waited: Duration) {
        self.wait_seconds[usize::from(is_dispatched)].observe(waited.as_secs_f64());
    }

    /// `true` if no request refers to it.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting == 0 && self.executing == 0 && self.executing_seats == 0
    }
}

/// Totals of a priority level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelCounts {
    /// Requests that were dispatched.
    pub dispatched: u64,
    /// Requests that were rejected, also after waiting.
    pub rejected: u64,
    /// Requests that waited for too long.
    pub timed_out: u64,
    /// Requests that were canceled while they waited.
    pub cancelled: u64,
}
