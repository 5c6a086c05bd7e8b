//! Reports of a priority level, for metrics and dumps.

use std::sync::Arc;
use std::time::Duration;

use super::RequestSubject;
use super::statistics::{LevelCounts, SchemaStatistics};
use crate::demand::DemandStatistics;
use crate::histogram::RatioHistogram;
use crate::limits::LevelLimits;
use crate::seats::SeatSeconds;
use crate::work::WorkEstimate;

/// State of a priority level.
#[derive(Clone, Debug)]
pub struct LevelReport {
    /// Name of the level.
    pub name: Box<str>,
    /// `true` if the level is no longer configured, and only drains.
    pub is_quiescing: bool,
    /// Concurrency limits.
    pub limits: LevelLimits,
    /// Requests that wait.
    pub waiting: usize,
    /// Requests that execute.
    pub executing: usize,
    /// Queues with waiting requests.
    pub waiting_queues: usize,
    /// Totals.
    pub counts: LevelCounts,
    /// Counters by FlowSchema.
    pub schemas: Vec<SchemaStatistics>,
    /// Demand in the last adjustment period.
    pub demand: DemandStatistics,
    /// Target of the last adjustment.
    pub demand_target: f64,
    /// Virtual world.
    pub progress: ProgressReport,
    /// Occupied seats as part of the limit, over time.
    pub seat_utilization: RatioHistogram,
    /// Executing requests as part of the limit, over time.
    pub executing_utilization: RatioHistogram,
    /// Waiting requests as part of the places in queues, over time.
    pub waiting_utilization: RatioHistogram,
    /// Seat demand as part of the limit, over time.
    pub demand_ratio: RatioHistogram,
}

/// Progress of the virtual world, and its state at the last dispatch of a request that waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgressReport {
    /// Progress now.
    pub progress: SeatSeconds,
    /// Progress at the dispatch.
    pub dispatch_progress: SeatSeconds,
    /// Start of the dispatched request.
    pub latest_start: SeatSeconds,
    /// Least and greatest start of the first requests of the queues.
    pub start_bounds: [SeatSeconds; 2],
    /// The same, less the work in progress of their queues.
    pub discounted_start_bounds: [SeatSeconds; 2],
}

/// State of a queue with requests or occupied seats.
#[derive(Clone, Debug)]
pub(crate) struct QueueReport {
    pub index: u32,
    pub waiting: Vec<RequestReport>,
    pub executing: u32,
    pub seats_in_use: u32,
    pub next_dispatch: SeatSeconds,
    pub initial_seats_waiting: u64,
    pub max_seats_waiting: u64,
    pub work_waiting: SeatSeconds,
}

/// State of a request.
#[derive(Clone, Debug)]
pub(crate) struct RequestReport {
    pub schema: Box<str>,
    pub queue: Option<u32>,
    pub estimate: WorkEstimate,
    pub arrived_at: Duration,
    pub started_at: Option<Duration>,
    pub subject: Option<Arc<RequestSubject>>,
    pub path: Box<str>,
    pub name: Box<str>,
}

/// Queues and executing requests of a level.
#[derive(Clone, Debug)]
pub(crate) struct LevelDump {
    /// Configured number of queues.
    pub queue_count: u32,
    pub queues: Vec<QueueReport>,
    pub executing: Vec<RequestReport>,
}
