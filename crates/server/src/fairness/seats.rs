//! Seats of a request, released on drop.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use setpoint_api::status::Status;
use setpoint_fairness::{LevelHandle, RequestId, WatchScope, WatchTracker};

use super::current_requests::CountedRequest;
use super::{Fairness, Waiter, timer, wake};

const FLOW_SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// UIDs of the objects that classified a request.
#[derive(Clone, Debug)]
pub(super) struct ClassificationHeaders {
    pub flow_schema: HeaderValue,
    pub priority_level: HeaderValue,
}

impl ClassificationHeaders {
    fn add_to(&self, headers: &mut HeaderMap) {
        headers.insert(FLOW_SCHEMA, self.flow_schema.clone());
        headers.insert(PRIORITY_LEVEL, self.priority_level.clone());
    }
}

/// Seats that a request occupies. Requests that are not counted have none.
#[derive(Default)]
pub struct Seats {
    occupied: Option<OccupiedSeats>,
    headers: Option<ClassificationHeaders>,
    is_watch: bool,
    pub(super) watch: Option<WatchRegistration>,
}

impl Seats {
    pub(super) fn new(occupied: OccupiedSeats, headers: ClassificationHeaders, is_watch: bool) -> Seats {
        Seats { occupied: Some(occupied), headers: Some(headers), is_watch, watch: None }
    }

    /// Releases the seats before the end of the request: a watch is initialized, or the connection was taken over.
    pub fn release(&mut self) {
        self.occupied = None;
    }

    /// `true` while seats are occupied.
    #[must_use]
    pub fn are_occupied(&self) -> bool {
        self.occupied.is_some()
    }

    /// `true` if the request is a watch.
    #[must_use]
    pub fn is_of_watch(&self) -> bool {
        self.is_watch
    }

    /// Adds the headers that name the classification of the request.
    pub fn add_headers(&self, headers: &mut HeaderMap) {
        if let Some(classification) = &self.headers {
            classification.add_to(headers);
        }
    }

    /// The request was dispatched and executes from now on.
    pub(super) fn execute(&mut self) {
        if let Some(occupied) = &mut self.occupied {
            let now = occupied.fairness.clock.uptime();
            occupied.counted.execute(now);
        }
    }

    /// Gives up waiting; `None` if the request has been dispatched meanwhile.
    pub(super) fn expire(&mut self) -> Option<Refusal> {
        let retry_after = self.occupied.as_mut()?.expire()?;
        self.occupied = None;
        Some(Refusal { retry_after, headers: self.headers.clone()? })
    }
}

/// Rejection of a request.
pub struct Refusal {
    pub(super) retry_after: u64,
    pub(super) headers: ClassificationHeaders,
}

impl Refusal {
    /// Returns the 429.
    #[must_use]
    pub fn status(&self) -> Status {
        let seconds = i32::try_from(self.retry_after).unwrap_or(i32::MAX);
        Status::too_many_requests("Too many requests, please try again later.", seconds)
    }

    /// Adds the headers that name the classification of the request.
    pub fn add_headers(&self, headers: &mut HeaderMap) {
        self.headers.add_to(headers);
    }
}

/// Place of a request in its level: in a queue, or in seats.
pub(super) struct OccupiedSeats {
    fairness: Arc<Fairness>,
    level: Arc<LevelHandle<Waiter>>,
    /// `None` once the request has left.
    id: Option<RequestId>,
    counted: CountedRequest,
}

impl OccupiedSeats {
    pub fn new(
        fairness: Arc<Fairness>,
        level: Arc<LevelHandle<Waiter>>,
        id: RequestId,
        counted: CountedRequest,
    ) -> OccupiedSeats {
        OccupiedSeats { fairness, level, id: Some(id), counted }
    }

    /// Rejects a request that waits, and returns its `Retry-After` in seconds; `None` if it has been dispatched.
    fn expire(&mut self) -> Option<u64> {
        let id = self.id.take()?;
        let now = self.fairness.clock.uptime();
        let mut level = self.level.lock();
        let expired = level.expire(now, id);
        let dispatched = level.take_dispatched();
        drop(level);
        wake(dispatched);
        expired.map_err(|id| self.id = Some(id)).ok()
    }
}

impl Drop for OccupiedSeats {
    fn drop(&mut self) {
        let now = self.fairness.clock.uptime();
        self.counted.end(now);
        let Some(id) = self.id.take() else { return };
        let mut level = self.level.lock();
        level.leave(now, id);
        let (dispatched, next_release) = (level.take_dispatched(), level.next_release());
        drop(level);
        wake(dispatched);
        if let Some(at) = next_release {
            timer::advance_to(&self.fairness, at);
        }
    }
}

/// A running watch, counted until it is dropped.
pub(super) struct WatchRegistration {
    tracker: Arc<WatchTracker>,
    scope: WatchScope,
}

impl WatchRegistration {
    pub fn new(tracker: Arc<WatchTracker>, scope: WatchScope) -> WatchRegistration {
        tracker.add(scope.clone());
        WatchRegistration { tracker, scope }
    }
}

impl Drop for WatchRegistration {
    fn drop(&mut self) {
        self.tracker.remove(&self.scope);
    }
}
