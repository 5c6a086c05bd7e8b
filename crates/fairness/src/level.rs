//! Priority level: requests that execute in its seats, wait in its queues, or are rejected.
//!
//! Invariants, which `level/tests.rs` checks against a slow model:
//! - The occupied seats exceed the limit only by a single request that is wider than the limit, or after the limit
//!   decreased.
//! - Every request that was admitted leaves once, and its seats are released once.
//! - A request waits only while its level lacks seats for the next request in the order of dispatch.

mod dispatch;
mod fair_queues;
mod inspect;
mod record;
pub mod report;
pub mod statistics;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use self::fair_queues::{FairQueues, QueueSlot};
pub use self::record::RequestId;
use self::record::{RequestDetails, RequestRecord, RequestTable};
use self::report::ProgressReport;
use self::statistics::{LevelCounts, SchemaStatistics};
use crate::demand::{DemandIntegrator, DemandStatistics};
use crate::drops::DropHistory;
use crate::histogram::RatioHistogram;
use crate::limits::LevelLimits;
use crate::objects::priority_level::{LevelSpec, LimitResponse, PriorityLevel};
use crate::seats::SeatSeconds;
use crate::work::{RequestWork, SERVICE_DURATION};

/// Requests that wait in one level at a time, whatever its queues would hold.
pub const WAITING_MAX: usize = 65_536;

/// Buckets of the occupied part of a level's seats.
const SEAT_UTILIZATION: &[f64] = &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];
/// Buckets of the requests of a level, as part of its limits.
const REQUEST_UTILIZATION: &[f64] = &[0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0];
/// Buckets of the seat demand, as part of the limit.
const DEMAND: &[f64] = &[0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0];

/// Request that arrives at its priority level.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Generation of the configuration that classified the request.
    pub generation: u64,
    /// Position of the FlowSchema in the statistics of the level.
    pub schema: usize,
    /// Hash of the flow.
    pub flow: u64,
    /// Measure of its work.
    pub work: RequestWork,
    /// `true` for a watch, of which only the initialization is counted.
    pub is_watch: bool,
    /// Attributes that dumps show.
    pub subject: Option<&'a Arc<RequestSubject>>,
    /// Path, for dumps.
    pub path: &'a str,
    /// Name of the object, for dumps.
    pub name: &'a str,
}

/// Attributes of requests that share a classification, for dumps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestSubject {
    /// User name.
    pub user: Box<str>,
    /// Name of the flow.
    pub flow: Box<str>,
    /// Verb.
    pub verb: Box<str>,
    /// Group and version, as in `apps/v1`.
    pub api_version: Box<str>,
    /// Resource.
    pub resource: Box<str>,
    /// Subresource.
    pub subresource: Box<str>,
    /// Namespace.
    pub namespace: Box<str>,
}

/// Decision about an arrival.
#[derive(Debug, PartialEq, Eq)]
pub enum Start {
    /// The configuration has changed: classify the request again.
    Stale,
    /// The request may run, and must [leave](Level::leave) when it has finished.
    Executing(RequestId),
    /// The request waits. Its waiter is handed out when it is dispatched.
    Waiting(RequestId),
    /// The request is rejected; the client may retry after so many seconds.
    Rejected(Rejection, u64),
}

/// Reason of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The queue is full.
    QueueFull,
    /// The level has no queues, and no free seats.
    ConcurrencyLimit,
    /// The request waited for too long.
    TimeOut,
    /// The client gave up while the request waited.
    Cancelled,
}

impl Rejection {
    /// All reasons, in the order of [`SchemaStatistics::rejected`].
    pub const ALL: [Rejection; 4] =
        [Rejection::QueueFull, Rejection::ConcurrencyLimit, Rejection::TimeOut, Rejection::Cancelled];

    /// Value of the metrics' label `reason`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Rejection::QueueFull => "queue-full",
            Rejection::ConcurrencyLimit => "concurrency-limit",
            Rejection::TimeOut => "time-out",
            Rejection::Cancelled => "cancelled",
        }
    }
}

/// State in which a request left its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// It was executing.
    Finished,
    /// It was still waiting.
    Cancelled,
}

/// Seats of finished requests that are still occupied.
type Lingering = BTreeSet<(Duration, u64, LingeringSeats)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LingeringSeats {
    seats: u32,
    queue: Option<QueueSlot>,
    schema: usize,
}

/// Histograms of ratios over time.
#[derive(Clone, Debug)]
struct Utilization {
    seats: RatioHistogram,
    executing: RatioHistogram,
    waiting: RatioHistogram,
    demand: RatioHistogram,
}

/// A priority level. `W` is what the caller needs to resume a request that waited.
#[derive(Clone, Debug)]
pub struct Level<W> {
    name: Box<str>,
    spec: LevelSpec,
    limits: LevelLimits,
    /// Configuration that the level belongs to; [`REMOVED`] if it belongs to none.
    generation: u64,
    /// `true` if the level is no longer configured, and only drains.
    is_quiescing: bool,
    requests: RequestTable<W>,
    queues: FairQueues,
    lingering: Lingering,
    /// Finished requests, to tell equal entries of `lingering` apart.
    finished: u64,
    waiting: usize,
    waiting_seats: u64,
    executing: usize,
    seats_in_use: u32,
    /// Work per queue that was done in the virtual world.
    progress: SeatSeconds,
    advanced_to: Duration,
    dispatched: Vec<W>,
    counts: LevelCounts,
    schemas: Vec<Option<SchemaStatistics>>,
    drops: DropHistory,
    demand: DemandIntegrator,
    demand_statistics: DemandStatistics,
    demand_target: f64,
    utilization: Utilization,
    last_dispatch: ProgressReport,
}

/// Generation of levels that were removed: no configuration has it.
const REMOVED: u64 = u64::MAX;

impl<W> Level<W> {
    /// Creates a level without requests. It accepts none before [`Level::configure`].
    #[must_use]
    pub fn new(level: &PriorityLevel, now: Duration) -> Level<W> {
        Level {
            name: level.name.clone(),
            spec: level.spec.clone(),
            limits: LevelLimits::default(),
            generation: REMOVED,
            is_quiescing: false,
            requests: RequestTable::default(),
            queues: FairQueues::default(),
            lingering: Lingering::new(),
            finished: 0,
            waiting: 0,
            waiting_seats: 0,
            executing: 0,
            seats_in_use: 0,
            progress: SeatSeconds::ZERO,
            advanced_to: now,
            dispatched: Vec::new(),
            counts: LevelCounts::default(),
            schemas: Vec::new(),
            drops: DropHistory::default(),
            demand: DemandIntegrator::new(now),
            demand_statistics: DemandStatistics::default(),
            demand_target: 0.0,
            utilization: Utilization {
                seats: RatioHistogram::new(SEAT_UTILIZATION, now),
                executing: RatioHistogram::new(REQUEST_UTILIZATION, now),
                waiting: RatioHistogram::new(REQUEST_UTILIZATION, now),
                demand: RatioHistogram::new(DEMAND, now),
            },
            last_dispatch: ProgressReport::default(),
        }
    }

    /// Decides about a request. If it must wait, `waiter` is kept until [`Level::take_dispatched`] returns it.
    pub fn start(&mut self, now: Duration, arrival: &Arrival<'_>, waiter: impl FnOnce() -> W) -> Start {
        if arrival.generation != self.generation {
            return Start::Stale;
        }
        let now = self.advance(now);
        let estimate = arrival.work.estimate(self.limits.max_seats(&self.spec));
        if let Some(statistics) = self.schemas.get_mut(arrival.schema).and_then(Option::as_mut) {
            statistics.seats.observe(f64::from(estimate.max_seats()));
            if let RequestWork::Mutating(watches) = arrival.work {
                statistics.watches.observe(watches as f64);
            }
        } else {
            return Start::Stale;
        }
        let record = RequestRecord {
            schema: arrival.schema,
            queue: None,
            estimate,
            total_work: estimate.total_work(),
            arrived_at: now,
            arrived_progress: self.progress,
            started_at: None,
            waiter: None,
            is_watch: arrival.is_watch,
            details: RequestDetails::default(),
        };
        let admitted = match self.spec.response {
            LimitResponse::Queue(queues) => self.enqueue(&queues, arrival.flow, record),
            LimitResponse::Reject if !self.can_accommodate(estimate.max_seats()) => {
                Err(Rejection::ConcurrencyLimit)
            }
            LimitResponse::Exempt | LimitResponse::Reject => {
                let id = self.requests.insert(record);
                self.execute(id);
                Ok(id)
            }
        };
        match admitted {
            Ok(id) => {
                let record = self.requests.get_mut(id);
                record.details = RequestDetails::new(arrival.subject, arrival.path, arrival.name);
                if record.started_at.is_some() {
                    return Start::Executing(RequestId(id));
                }
                record.waiter = Some(waiter());
                Start::Waiting(RequestId(id))
            }
            Err(rejection) => {
                if self.spec.response != LimitResponse::Exempt {
                    self.statistics(arrival.schema).observe_wait(false, Duration::ZERO);
                }
                Start::Rejected(rejection, self.reject(arrival.schema, rejection))
            }
        }
    }

    /// Ends a request: one that executes has finished, one that waits is canceled.
    pub fn leave(&mut self, now: Duration, id: RequestId) -> Departure {
        self.advance(now);
        let departure = if self.requests.get(id.0).started_at.is_some() {
            self.finish(id.0);
            Departure::Finished
        } else {
            let schema = self.withdraw(id.0);
            self.counts.cancelled += 1;
            self.reject(schema, Rejection::Cancelled);
            Departure::Cancelled
        };
        self.dispatch_waiting();
        departure
    }

    /// Rejects a request that has waited for too long, and returns its `Retry-After` in seconds.
    ///
    /// # Errors
    /// The request, if it has been dispatched meanwhile.
    pub fn expire(&mut self, now: Duration, id: RequestId) -> Result<u64, RequestId> {
        self.advance(now);
        if self.requests.get(id.0).started_at.is_some() {
            return Err(id);
        }
        let schema = self.withdraw(id.0);
        self.counts.timed_out += 1;
        let retry_after = self.reject(schema, Rejection::TimeOut);
        self.dispatch_waiting();
        Ok(retry_after)
    }

    /// Releases the seats whose additional latency has passed, and dispatches requests into them.
    pub fn release_lingering(&mut self, now: Duration) {
        self.advance(now);
        self.dispatch_waiting();
    }

    /// Returns the waiters of requests that were dispatched since the last call. Wake them.
    #[must_use]
    pub fn take_dispatched(&mut self) -> Vec<W> {
        std::mem::take(&mut self.dispatched)
    }

    /// Time of the next release of seats by [`Level::release_lingering`], if requests wait for them.
    #[must_use]
    pub fn next_release(&self) -> Option<Duration> {
        self.lingering.first().map(|(at, ..)| *at).filter(|_| self.waiting > 0)
    }

    /// `true` if requests wait.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Counts a rejection.
    fn reject(&mut self, schema: usize, rejection: Rejection) -> u64 {
        self.counts.rejected += 1;
        self.statistics(schema).rejected[rejection as usize] += 1;
        self.drops.record(self.advanced_to.as_secs())
    }

    fn statistics(&mut self, schema: usize) -> &mut SchemaStatistics {
        self.schemas[schema].as_mut().expect("statistics stay while requests refer to them")
    }

    /// Advances to `now`, or to the latest time that was seen: releases seats, and lets the virtual world progress.
    fn advance(&mut self, now: Duration) -> Duration {
        while let Some((at, _, _)) = self.lingering.first().filter(|(at, ..)| *at <= now) {
            self.progress_to(*at);
            if let Some((_, _, lingering)) = self.lingering.pop_first() {
                self.release_seats(lingering);
                self.dispatch_waiting();
            }
        }
        self.progress_to(now);
        self.advanced_to
    }

    fn progress_to(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.advanced_to);
        if elapsed.is_zero() {
            return;
        }
        self.advanced_to = now;
        if self.queues.busy > 0 {
            let wanted = u64::from(self.seats_in_use) + self.waiting_seats;
            let seats = wanted.min(self.limits.current.into());
            self.progress += SeatSeconds::new(seats, elapsed).share(self.queues.busy.into());
        }
    }

    /// Assumed work of a queue's executing requests.
    fn work_in_progress(queue: &fair_queues::FairQueue) -> SeatSeconds {
        SeatSeconds::new(queue.seats_in_use.into(), SERVICE_DURATION)
    }
}

#[cfg(test)]
mod tests;
