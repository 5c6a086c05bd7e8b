//! Queue state of a pod after a scheduling attempt: unschedulable, requeued with backoff, or waiting for its volumes.
//!
//! A pod in the unschedulable queue is attempted again when a cluster event matches its hint, after a backoff that
//! doubles from 1 s to 10 s, or after 5 minutes without a matching event.

use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::Jump;

use crate::plugins::QueueingHint;

/// Backoff after the first attempt.
const BACKOFF_INITIAL: Duration = Duration::from_secs(1);
/// Maximum backoff.
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// Maximum time in the unschedulable queue.
const UNSCHEDULABLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum time to wait for the volumes of an assumed pod.
pub const VOLUME_BIND_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum time to wait for the binding conditions of an allocated device.
pub const DEVICE_BIND_TIMEOUT: Duration = Duration::from_secs(600);

/// Queue state of a pod that was attempted and is not bound.
#[derive(Clone, Copy, Debug)]
pub struct QueueState {
    /// Events that requeue the pod.
    pub hint: QueueingHint,
    /// Time of the last attempt.
    pub attempted_at: Time,
    /// Number of attempts.
    pub attempts: u32,
    /// `true` if an event matched the hint since the last attempt: the pod backs off instead of waiting for events.
    pub is_requeued: bool,
    /// `true` if an event concerned this pod in particular: it need not finish its backoff.
    pub has_exact_hint: bool,
    /// Node that the pod is nominated to, which reserves resources there.
    pub nominated_node: Option<usize>,
    /// Time since which the pod waits for its volumes or devices (PreBind). It is assumed on its node meanwhile.
    pub prebind_since: Option<Time>,
    /// `true` if a write for the pod failed: it finishes its backoff even with an exact hint.
    pub must_back_off: bool,
}

impl QueueState {
    /// Returns the state after another attempt.
    #[must_use]
    pub fn after_attempt(last: Option<QueueState>, hint: QueueingHint, now: Time) -> QueueState {
        let attempts = last.map_or(0, |last| last.attempts).saturating_add(1);
        QueueState {
            hint,
            attempted_at: now,
            attempts,
            is_requeued: false,
            has_exact_hint: false,
            nominated_node: None,
            prebind_since: None,
            must_back_off: false,
        }
    }

    /// Shifts times with the clock, so that their age stays the same.
    pub fn shift_times(&mut self, jump: Jump) {
        self.attempted_at = jump.shift(self.attempted_at);
        self.prebind_since = self.prebind_since.map(|since| jump.shift(since));
    }

    /// Time of the next attempt.
    #[must_use]
    pub fn next_attempt_at(&self) -> Time {
        let delay = if self.is_requeued {
            (BACKOFF_INITIAL * (1 << self.attempts.saturating_sub(1).min(8))).min(BACKOFF_MAX)
        } else {
            UNSCHEDULABLE_TIMEOUT
        };
        let next = self.attempted_at.after(delay);
        self.prebind_since.map_or(next, |since| next.min(since.after(VOLUME_BIND_TIMEOUT)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_from_1_s_to_10_s_and_timeout_is_5_min() {
        let mut state = QueueState::after_attempt(None, QueueingHint::NODE_ADD_OR_UPDATE, Time::EPOCH);
        assert_eq!(state.next_attempt_at(), Time::EPOCH.after(UNSCHEDULABLE_TIMEOUT));
        let mut delays = Vec::new();
        for _ in 0..6 {
            state.is_requeued = true;
            delays.push(state.next_attempt_at().since(Time::EPOCH).as_secs());
            state = QueueState::after_attempt(Some(state), QueueingHint::NODE_ADD_OR_UPDATE, Time::EPOCH);
        }
        assert_eq!(delays, [1, 2, 4, 8, 10, 10]);
    }
}
