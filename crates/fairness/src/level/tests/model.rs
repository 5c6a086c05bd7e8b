//! Slow model of a level: all queues are examined for every dispatch, and nothing is summed up in advance.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::dealer::HAND_MAX;
use crate::level::Rejection;
use crate::objects::priority_level::LimitResponse;
use crate::seats::SeatSeconds;
use crate::work::{SERVICE_DURATION, WorkEstimate};

#[derive(Clone, Debug)]
struct ModelRequest {
    estimate: WorkEstimate,
    work: SeatSeconds,
    queue: Option<u32>,
    arrived: SeatSeconds,
    started_at: Option<Duration>,
}

#[derive(Clone, Debug, Default)]
struct ModelQueue {
    waiting: Vec<u32>,
    next: SeatSeconds,
}

pub(super) struct SlowLevel {
    limit: u32,
    response: LimitResponse,
    now: Duration,
    pub progress: SeatSeconds,
    requests: BTreeMap<u32, ModelRequest>,
    queues: BTreeMap<u32, ModelQueue>,
    /// End, seats.
    lingering: Vec<(Duration, u32)>,
    robin: u32,
    arrivals: u64,
}

impl SlowLevel {
    pub fn new(limit: u32, response: LimitResponse) -> SlowLevel {
        SlowLevel {
            limit,
            response,
            now: Duration::ZERO,
            progress: SeatSeconds::ZERO,
            requests: BTreeMap::new(),
            queues: BTreeMap::new(),
            lingering: Vec::new(),
            robin: 0,
            arrivals: 0,
        }
    }

    pub fn executing(&self) -> Vec<u32> {
        let executing = self.requests.iter().filter(|(_, request)| request.started_at.is_some());
        executing.map(|(number, _)| *number).collect()
    }

    pub fn seats_in_use(&self) -> u32 {
        let executing = self.requests.values().filter(|request| request.started_at.is_some());
        let lingering: u32 = self.lingering.iter().map(|(_, seats)| *seats).sum();
        executing.map(|request| request.estimate.max_seats()).sum::<u32>() + lingering
    }

    fn has_requests(&self, queue: u32) -> bool {
        self.requests.values().any(|request| request.queue == Some(queue))
    }

    pub fn advance(&mut self, now: Duration) {
        loop {
            self.lingering.sort();
            let due = self.lingering.first().map(|(at, _)| *at).filter(|at| *at <= now);
            let until = due.unwrap_or(now).max(self.now);
            let busy = self.queues.keys().filter(|queue| self.has_requests(**queue)).count();
            let waiting = self.requests.values().filter(|request| request.started_at.is_none());
            let wanted =
                self.seats_in_use() + waiting.map(|request| request.estimate.max_seats()).sum::<u32>();
            if busy > 0 {
                let work = SeatSeconds::new(wanted.min(self.limit).into(), until - self.now);
                self.progress += work.share(busy as u64);
            }
            self.now = until;
            if due.is_none() {
                return;
            }
            self.lingering.remove(0);
            self.dispatch();
        }
    }

    fn can_accommodate(&self, seats: u32) -> bool {
        if seats > self.limit {
            self.executing().is_empty()
        } else {
            self.seats_in_use() + seats <= self.limit
        }
    }

    fn bound(&mut self, queue: u32) {
        let Some(first) = self.queues[&queue].waiting.first() else { return };
        let arrived = self.requests[first].arrived;
        let queue = self.queues.get_mut(&queue).unwrap();
        queue.next = queue.next.max(arrived);
    }

    fn work_waiting(&self, queue: u32) -> SeatSeconds {
        let waiting = self.queues.get(&queue).map(|queue| queue.waiting.clone()).unwrap_or_default();
        waiting.iter().map(|number| self.requests[number].work).sum()
    }

    pub fn start(
        &mut self,
        now: Duration,
        number: u32,
        flow: u64,
        estimate: WorkEstimate,
    ) -> Result<(), Rejection> {
        self.advance(now);
        let mut request = ModelRequest {
            estimate,
            work: estimate.total_work(),
            queue: None,
            arrived: self.progress,
            started_at: None,
        };
        let LimitResponse::Queue(spec) = self.response else {
            if !self.can_accommodate(estimate.max_seats()) {
                return Err(Rejection::ConcurrencyLimit);
            }
            request.started_at = Some(self.now);
            self.requests.insert(number, request);
            return Ok(());
        };
        let mut hand = [0; HAND_MAX];
        let hand = spec.dealer.deal(flow, &mut hand).to_vec();
        let offset = self.arrivals as usize % hand.len();
        self.arrivals += 1;
        let rotated: Vec<u32> = (0..hand.len()).map(|i| hand[(offset + i) % hand.len()]).collect();
        // `min_by_key` returns the first minimum.
        let queue = *rotated.iter().min_by_key(|queue| self.work_waiting(**queue)).unwrap();
        let length = self.queues.get(&queue).map_or(0, |queue| queue.waiting.len());
        if self.seats_in_use() >= self.limit && length >= spec.length_limit as usize {
            return Err(Rejection::QueueFull);
        }
        let is_idle = !self.has_requests(queue);
        let progress = self.progress;
        let entry = self.queues.entry(queue).or_default();
        if is_idle {
            entry.next = progress;
        }
        entry.waiting.push(number);
        request.queue = Some(queue);
        self.requests.insert(number, request);
        self.bound(queue);
        self.dispatch();
        Ok(())
    }

    fn dispatch(&mut self) {
        loop {
            if self.seats_in_use() >= self.limit {
                return;
            }
            let mut best: Option<(SeatSeconds, u32)> = None;
            let last = self.queues.keys().last().copied().unwrap_or(0).max(self.robin);
            for index in (self.robin + 1..=last).chain(0..=self.robin) {
                let Some(queue) = self.queues.get(&index) else { continue };
                let Some(first) = queue.waiting.first() else { continue };
                let end = queue.next + self.requests[first].work;
                if best.is_none_or(|(least, _)| end < least) {
                    best = Some((end, index));
                }
            }
            let Some((_, index)) = best else { return };
            let number = self.queues[&index].waiting[0];
            if !self.can_accommodate(self.requests[&number].estimate.max_seats()) {
                return;
            }
            self.robin = index;
            let (limit, now) = (self.limit, self.now);
            let request = self.requests.get_mut(&number).unwrap();
            let estimate = &mut request.estimate;
            if estimate.final_seats > limit {
                estimate.additional_latency = estimate.final_work().duration_per_seat(limit.into());
                estimate.final_seats = limit;
            }
            request.started_at = Some(now);
            let work = request.work;
            let queue = self.queues.get_mut(&index).unwrap();
            queue.waiting.remove(0);
            queue.next += work;
            self.bound(index);
        }
    }

    /// Returns `true` if the request was executing.
    pub fn leave(&mut self, now: Duration, number: u32) -> bool {
        self.advance(now);
        let request = self.requests.remove(&number).unwrap();
        if let Some(index) = request.queue {
            let queue = self.queues.get_mut(&index).unwrap();
            queue.waiting.retain(|one| *one != number);
            if let Some(started_at) = request.started_at {
                let seats = request.estimate.initial_seats.into();
                queue.next -= SeatSeconds::new(seats, SERVICE_DURATION);
                queue.next += SeatSeconds::new(seats, self.now - started_at);
            }
            self.bound(index);
        }
        if request.started_at.is_some() && !request.estimate.additional_latency.is_zero() {
            let end = self.now + request.estimate.additional_latency;
            self.lingering.push((end, request.estimate.max_seats()));
        }
        self.dispatch();
        request.started_at.is_some()
    }

    pub fn release_lingering(&mut self, now: Duration) {
        self.advance(now);
        self.dispatch();
    }

    pub fn configure(&mut self, now: Duration, limit: u32, response: LimitResponse) {
        self.advance(now);
        self.limit = limit;
        self.response = response;
        self.dispatch();
    }
}
