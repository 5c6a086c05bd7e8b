//! How pods wait for which no node would do: for a change that may help, and not for ever.

use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::Jump;

use crate::rules::Helps;

/// The first wait after a vain try.
pub const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// The longest, where something may have helped.
pub const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// After so long a pod is tried again though nothing is known to have helped.
pub const FLUSH: Duration = Duration::from_secs(300);
/// For so long a pod waits for its volumes before it starts over.
pub const SETTLE: Duration = Duration::from_secs(600);

/// What a pod waits for.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// What may help.
    pub helps: Helps,
    /// When it was last tried.
    pub since: Time,
    /// How often it was tried.
    pub tries: u32,
    /// Whether something may have helped.
    pub is_stirred: bool,
    /// Whether it was something that this very pod waits for: then it need not wait out its time.
    pub is_pressing: bool,
    /// The node on which room is kept for it meanwhile.
    pub holds: Option<usize>,
    /// Since when its node is known and its volumes are not: it counts there as if it ran.
    pub settles: Option<Time>,
    /// Whether what was written for it was refused: it waits out its time, whatever helps.
    pub is_refused: bool,
}

impl Waiting {
    /// After a vain try.
    #[must_use]
    pub fn after(last: Option<Waiting>, helps: Helps, now: Time) -> Waiting {
        let tries = last.map_or(0, |last| last.tries).saturating_add(1);
        Waiting {
            helps,
            since: now,
            tries,
            is_stirred: false,
            is_pressing: false,
            holds: None,
            settles: None,
            is_refused: false,
        }
    }

    /// Keeps the age of the last try when the clock was set.
    pub fn clock_jumped(&mut self, jump: Jump) {
        self.since = jump.shift(self.since);
        self.settles = self.settles.map(|since| jump.shift(since));
    }

    /// When it is to be tried again.
    #[must_use]
    pub fn due(&self) -> Time {
        let wait = if self.is_stirred {
            (BACKOFF_MIN * (1 << self.tries.saturating_sub(1).min(8))).min(BACKOFF_MAX)
        } else {
            FLUSH
        };
        let due = self.since.after(wait);
        self.settles.map_or(due, |since| due.min(since.after(SETTLE)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_from_1_s_to_10_s_and_never_exceed_5_min() {
        let mut waiting = Waiting::after(None, Helps::NODES, Time::EPOCH);
        assert_eq!(waiting.due(), Time::EPOCH.after(FLUSH));
        let mut waits = Vec::new();
        for _ in 0..6 {
            waiting.is_stirred = true;
            waits.push(waiting.due().since(Time::EPOCH).as_secs());
            waiting = Waiting::after(Some(waiting), Helps::NODES, Time::EPOCH);
        }
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
    }
}
