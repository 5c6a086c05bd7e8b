//! Dispatch of requests: from their arrival in a queue to the release of their seats.

use std::time::Duration;

use super::fair_queues::QueueSlot;
use super::record::RequestRecord;
use super::report::ProgressReport;
use super::{Level, LingeringSeats, Rejection, WAITING_MAX};
use crate::objects::priority_level::{LimitResponse, QueuingSpec};
use crate::seats::SeatSeconds;
use crate::work::SERVICE_DURATION;

impl<W> Level<W> {
    /// Adds a request to a queue of its flow, and dispatches what is next. Returns the position of the request.
    pub(super) fn enqueue(
        &mut self,
        spec: &QueuingSpec,
        flow: u64,
        mut record: RequestRecord<W>,
    ) -> Result<u32, Rejection> {
        let index = self.queues.choose(spec, flow);
        let waiting = self.queues.waiting_in(index);
        let is_full = waiting >= spec.length_limit as usize;
        if is_full && self.seats_in_use >= self.limits.current || self.waiting >= WAITING_MAX {
            return Err(Rejection::QueueFull);
        }
        let queue = self.queues.enter(index, self.progress);
        record.queue = Some(queue);
        let (schema, seats) = (record.schema, record.estimate.max_seats());
        // The common case: the only waiting request is this one, so it is next, and takes no place in the queue.
        if self.waiting == 0 && self.seats_in_use < self.limits.current && self.can_accommodate(seats) {
            self.statistics(schema).queue_lengths.observe(1.0);
            let id = self.requests.insert(record);
            self.bound_next_dispatch(queue, Some(id));
            self.execute(id);
            return Ok(id);
        }
        let (work, initial_seats) = (record.total_work, record.estimate.initial_seats);
        let id = self.requests.insert(record);
        let entry = self.queues.get_mut(queue);
        entry.waiting.push_back(id);
        entry.work_waiting += work;
        entry.max_seats_waiting += u64::from(seats);
        entry.initial_seats_waiting += u64::from(initial_seats);
        self.waiting += 1;
        self.waiting_seats += u64::from(seats);
        let statistics = self.statistics(schema);
        statistics.waiting += 1;
        statistics.waiting_seats += u64::from(seats);
        statistics.queue_lengths.observe((waiting + 1) as f64);
        self.observe_demand();
        self.reorder(queue);
        self.dispatch_waiting();
        Ok(id)
    }

    /// `true` if a request may occupy so many seats now. A request that is wider than the limit runs alone.
    pub(super) fn can_accommodate(&self, seats: u32) -> bool {
        let limit = self.limits.current;
        match self.spec.response {
            LimitResponse::Exempt => true,
            _ if seats > limit => self.executing == 0,
            _ => self.seats_in_use.saturating_add(seats) <= limit,
        }
    }

    /// Dispatches waiting requests in their order, until the next one lacks seats.
    pub(super) fn dispatch_waiting(&mut self) {
        while self.waiting > 0 && self.seats_in_use < self.limits.current {
            let Some(queue) = self.queues.next() else { break };
            let Some(id) = self.queues.get(queue).waiting.front().copied() else { break };
            let record = self.requests.get(id);
            let (schema, seats) = (record.schema, record.estimate.max_seats());
            if !self.can_accommodate(seats) {
                self.statistics(schema).not_accommodated += 1;
                break;
            }
            self.record_dispatch(queue);
            self.remove_waiting(queue, id);
            self.execute(id);
            let record = self.requests.get_mut(id);
            if let Some(waiter) = record.waiter.take() {
                self.dispatched.push(waiter);
            }
        }
    }

    fn record_dispatch(&mut self, queue: QueueSlot) {
        let [min_start, max_start, min_discounted, max_discounted] =
            self.queues.dispatch_bounds(Self::work_in_progress);
        self.last_dispatch = ProgressReport {
            progress: self.progress,
            dispatch_progress: self.progress,
            latest_start: self.queues.get(queue).next_dispatch,
            start_bounds: [min_start, max_start],
            discounted_start_bounds: [min_discounted, max_discounted],
        };
    }

    /// Removes a waiting request from its queue and from the sums.
    fn remove_waiting(&mut self, queue: QueueSlot, id: u32) {
        let record = self.requests.get(id);
        let (schema, work) = (record.schema, record.total_work);
        let (seats, initial_seats) = (u64::from(record.estimate.max_seats()), record.estimate.initial_seats);
        let entry = self.queues.get_mut(queue);
        if entry.waiting.front() == Some(&id) {
            entry.waiting.pop_front();
        } else if let Some(position) = entry.waiting.iter().position(|waiting| *waiting == id) {
            entry.waiting.remove(position);
        }
        entry.work_waiting -= work;
        entry.max_seats_waiting -= seats;
        entry.initial_seats_waiting -= u64::from(initial_seats);
        self.waiting -= 1;
        self.waiting_seats -= seats;
        let statistics = self.statistics(schema);
        statistics.waiting -= 1;
        statistics.waiting_seats -= seats;
    }

    /// Begins the execution of a request that is in no queue any more.
    pub(super) fn execute(&mut self, id: u32) {
        let (now, limit) = (self.advanced_to, self.limits.current);
        let is_limited = self.spec.response != LimitResponse::Exempt;
        let record = self.requests.get_mut(id);
        let waited = now.saturating_sub(record.arrived_at);
        record.started_at = Some(now);
        if record.queue.is_some() {
            record.estimate.narrow_to(limit);
        }
        let (schema, queue, seats, work) =
            (record.schema, record.queue, record.estimate.max_seats(), record.total_work);
        self.executing += 1;
        self.seats_in_use += seats;
        self.counts.dispatched += 1;
        let statistics = self.statistics(schema);
        statistics.dispatched += 1;
        statistics.executing += 1;
        statistics.executing_seats += u64::from(seats);
        if is_limited {
            statistics.observe_wait(true, waited);
        }
        if let Some(queue) = queue {
            let entry = self.queues.get_mut(queue);
            entry.executing += 1;
            entry.seats_in_use += seats;
            entry.next_dispatch += work;
            self.queues.set_last_dispatched(queue);
            self.reorder(queue);
        }
        self.observe_demand();
    }

    /// Ends the execution of a request. Its seats are released now, or after its additional latency.
    pub(super) fn finish(&mut self, id: u32) {
        let record = self.requests.remove(id);
        let now = self.advanced_to;
        let took = record.started_at.map_or(Duration::ZERO, |started| now.saturating_sub(started));
        self.executing -= 1;
        let statistics = self.statistics(record.schema);
        statistics.executing -= 1;
        statistics.execution_seconds[usize::from(record.is_watch)].observe(took.as_secs_f64());
        if let Some(queue) = record.queue {
            let initial_seats = u64::from(record.estimate.initial_seats);
            let entry = self.queues.get_mut(queue);
            entry.executing -= 1;
            // The assumed duration is replaced by the real one.
            entry.next_dispatch -= SeatSeconds::new(initial_seats, SERVICE_DURATION);
            entry.next_dispatch += SeatSeconds::new(initial_seats, took);
            self.queues.release(queue, true);
            self.reorder(queue);
        }
        let seats =
            LingeringSeats { seats: record.estimate.max_seats(), queue: record.queue, schema: record.schema };
        let latency = record.estimate.additional_latency;
        if latency.is_zero() {
            self.release_seats(seats);
        } else {
            self.finished += 1;
            self.lingering.insert((now.saturating_add(latency), self.finished, seats));
            self.observe_demand();
        }
    }

    pub(super) fn release_seats(&mut self, LingeringSeats { seats, queue, schema }: LingeringSeats) {
        self.seats_in_use -= seats;
        self.statistics(schema).executing_seats -= u64::from(seats);
        if let Some(queue) = queue {
            self.queues.get_mut(queue).seats_in_use -= seats;
            self.queues.release(queue, false);
        }
        self.observe_demand();
    }

    /// Removes a request that still waits. Returns the position of its FlowSchema.
    pub(super) fn withdraw(&mut self, id: u32) -> usize {
        let record = self.requests.get(id);
        let (schema, arrived_at) = (record.schema, record.arrived_at);
        if let Some(queue) = record.queue {
            self.remove_waiting(queue, id);
            self.queues.release(queue, true);
            self.reorder(queue);
        }
        self.requests.remove(id);
        let waited = self.advanced_to.saturating_sub(arrived_at);
        self.statistics(schema).observe_wait(false, waited);
        self.observe_demand();
        schema
    }

    /// Updates the place of a queue in the order of dispatch.
    fn reorder(&mut self, queue: QueueSlot) {
        let first = self.queues.get(queue).waiting.front().copied();
        self.bound_next_dispatch(queue, first);
        let end = first.map(|id| self.queues.get(queue).next_dispatch + self.requests.get(id).total_work);
        self.queues.reorder(queue, end);
    }

    /// A request begins in the virtual world no earlier than it arrived there, so a queue saves up no credit while it
    /// cannot use its part of the seats.
    fn bound_next_dispatch(&mut self, queue: QueueSlot, first: Option<u32>) {
        if let Some(id) = first {
            let arrived = self.requests.get(id).arrived_progress;
            let entry = self.queues.get_mut(queue);
            entry.next_dispatch = entry.next_dispatch.max(arrived);
        }
    }

    /// Updates the measures of demand and utilization.
    fn observe_demand(&mut self) {
        let now = self.advanced_to;
        let demand = f64::from(self.seats_in_use) + self.waiting_seats as f64;
        self.demand.set(now, demand);
        let utilization = &mut self.utilization;
        utilization.demand.set(now, demand);
        utilization.seats.set(now, f64::from(self.seats_in_use));
        utilization.executing.set(now, self.executing as f64);
        utilization.waiting.set(now, self.waiting as f64);
    }
}
