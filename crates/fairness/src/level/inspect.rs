//! Configuration and reports of a priority level.

use std::time::Duration;

use super::record::RequestRecord;
use super::report::{LevelDump, LevelReport, ProgressReport, QueueReport, RequestReport};
use super::statistics::SchemaStatistics;
use super::{Level, REMOVED};
use crate::demand::DemandStatistics;
use crate::limits::{BorrowingLevel, LevelLimits};
use crate::objects::priority_level::{LevelSpec, LimitResponse};

impl<W> Level<W> {
    /// Name of the level.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Spec in force.
    #[must_use]
    pub fn spec(&self) -> &LevelSpec {
        &self.spec
    }

    /// Limits in force.
    #[must_use]
    pub fn limits(&self) -> LevelLimits {
        self.limits
    }

    /// Requests that execute.
    #[must_use]
    pub fn executing(&self) -> usize {
        self.executing
    }

    /// Requests that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Occupied seats.
    #[must_use]
    pub fn seats_in_use(&self) -> u32 {
        self.seats_in_use
    }

    /// `true` if no request refers to the level.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting == 0 && self.executing == 0 && self.seats_in_use == 0
    }

    /// `true` if the level is no longer configured, and only drains.
    #[must_use]
    pub fn is_quiescing(&self) -> bool {
        self.is_quiescing
    }

    /// Applies a configuration: a spec, or `None` if the level is no longer configured. Requests that wait or execute
    /// stay; those that wait in a queue that is gone are dispatched from it. [`Level::set_limits`] follows.
    pub fn configure(&mut self, now: Duration, generation: u64, spec: Option<&LevelSpec>) {
        self.advance(now);
        self.generation = generation;
        self.is_quiescing = spec.is_none();
        if let Some(spec) = spec {
            self.spec = spec.clone();
        }
    }

    /// Marks the level as removed: it accepts no request.
    pub(crate) fn remove(&mut self) {
        self.generation = REMOVED;
    }

    /// Returns the position of the statistics of a FlowSchema.
    pub fn schema_position(&mut self, name: &str) -> usize {
        let is_same = |statistics: &Option<SchemaStatistics>| {
            statistics.as_ref().is_some_and(|statistics| *statistics.schema == *name)
        };
        if let Some(position) = self.schemas.iter().position(is_same) {
            return position;
        }
        let free = self.schemas.iter().position(Option::is_none).unwrap_or_else(|| {
            self.schemas.push(None);
            self.schemas.len() - 1
        });
        self.schemas[free] = Some(SchemaStatistics::new(name));
        free
    }

    /// Drops the statistics of FlowSchemas without requests that are not configured any more.
    pub(crate) fn retain_schemas(&mut self, is_configured: impl Fn(&str) -> bool) {
        for statistics in &mut self.schemas {
            if statistics.as_ref().is_some_and(|it| it.is_idle() && !is_configured(&it.schema)) {
                *statistics = None;
            }
        }
    }

    /// Sets the limits from `now` on, and dispatches requests into new seats.
    pub fn set_limits(&mut self, now: Duration, limits: LevelLimits, denominator: u32) {
        let now = self.advance(now);
        self.limits = limits;
        let utilization = &mut self.utilization;
        for histogram in [&mut utilization.seats, &mut utilization.executing, &mut utilization.demand] {
            histogram.set_denominator(now, f64::from(denominator));
        }
        let places = match self.spec.response {
            LimitResponse::Queue(queues) => f64::from(queues.queues) * f64::from(queues.length_limit.max(1)),
            LimitResponse::Exempt | LimitResponse::Reject => 1.0,
        };
        utilization.waiting.set_denominator(now, places);
        self.dispatch_waiting();
    }

    /// Ends an adjustment period of the demand.
    pub(crate) fn take_demand(&mut self, now: Duration, periods: u32) -> BorrowingLevel {
        let now = self.advance(now);
        let demand = self.demand.take(now);
        self.demand_statistics.update(demand, periods);
        BorrowingLevel {
            is_exempt: self.spec.response == LimitResponse::Exempt,
            limits: self.limits,
            demand: self.demand_statistics,
        }
    }

    /// Records the target of an adjustment.
    pub(crate) fn set_demand_target(&mut self, target: f64) {
        self.demand_target = target;
    }

    /// Demand in the last adjustment period.
    #[must_use]
    pub fn demand(&self) -> DemandStatistics {
        self.demand_statistics
    }

    /// Returns the state for metrics.
    #[must_use]
    pub fn report(&mut self, now: Duration) -> LevelReport {
        let now = self.advance(now);
        let utilization = &mut self.utilization;
        for histogram in [
            &mut utilization.seats,
            &mut utilization.executing,
            &mut utilization.waiting,
            &mut utilization.demand,
        ] {
            histogram.advance(now);
        }
        LevelReport {
            name: self.name.clone(),
            is_quiescing: self.is_quiescing,
            limits: self.limits,
            waiting: self.waiting,
            executing: self.executing,
            waiting_queues: self.queues.active().filter(|queue| !queue.waiting.is_empty()).count(),
            counts: self.counts,
            schemas: self.schemas.iter().flatten().cloned().collect(),
            demand: self.demand_statistics,
            demand_target: self.demand_target,
            progress: ProgressReport { progress: self.progress, ..self.last_dispatch },
            seat_utilization: self.utilization.seats.clone(),
            executing_utilization: self.utilization.executing.clone(),
            waiting_utilization: self.utilization.waiting.clone(),
            demand_ratio: self.utilization.demand.clone(),
        }
    }

    /// Returns all queues and requests.
    pub(crate) fn dump(&self) -> LevelDump {
        let queue_count = match self.spec.response {
            LimitResponse::Queue(queues) => queues.queues,
            LimitResponse::Exempt | LimitResponse::Reject => 0,
        };
        let queues = self.queues.active().map(|queue| QueueReport {
            index: queue.index,
            waiting: queue.waiting.iter().map(|id| self.request_report(self.requests.get(*id))).collect(),
            executing: queue.executing,
            seats_in_use: queue.seats_in_use,
            next_dispatch: queue.next_dispatch,
            initial_seats_waiting: queue.initial_seats_waiting,
            max_seats_waiting: queue.max_seats_waiting,
            work_waiting: queue.work_waiting,
        });
        let executing = self.requests.iter().filter(|record| record.started_at.is_some());
        LevelDump {
            queue_count,
            queues: queues.collect(),
            executing: executing.map(|record| self.request_report(record)).collect(),
        }
    }

    fn request_report(&self, record: &RequestRecord<W>) -> RequestReport {
        let schema = self.schemas.get(record.schema).and_then(Option::as_ref);
        let (path, name) = record.details.path_and_name();
        RequestReport {
            schema: schema.map(|statistics| statistics.schema.clone()).unwrap_or_default(),
            queue: record.queue.map(|slot| self.queues.get(slot).index),
            estimate: record.estimate,
            arrived_at: record.arrived_at,
            started_at: record.started_at,
            subject: record.details.subject.clone(),
            path: path.into(),
            name: name.into(),
        }
    }
}
