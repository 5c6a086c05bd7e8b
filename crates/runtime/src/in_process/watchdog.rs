//! Watchdog of the loop, for `/livez`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// The longest that one turn of the loop may take. A turn plans at most `TURN_PLANS_MAX` keys, but the first one lists
/// the whole store.
pub const LOOP_STALL_MAX: Duration = Duration::from_secs(60);

/// Time by which the loop must turn: the end of its last sleep. Counted on the monotonic clock, which stands
/// still while the machine is suspended: nothing turns then, and nothing is wrong.
pub(super) struct Watchdog {
    start: Instant,
    /// Milliseconds from `start` to the end of the intended sleep.
    deadline_ms: AtomicU64,
}

impl Watchdog {
    pub(super) fn new() -> Watchdog {
        Watchdog { start: Instant::now(), deadline_ms: AtomicU64::new(0) }
    }

    /// Records that the loop turns now, or after a sleep of at most `pause`.
    pub(super) fn reset(&self, pause: Duration) {
        self.reset_at(self.start.elapsed(), pause);
    }

    /// Fails if the loop has not turned for [`LOOP_STALL_MAX`] after the end of its sleep.
    pub(super) fn check(&self) -> Result<(), String> {
        self.check_at(self.start.elapsed())
    }

    fn reset_at(&self, elapsed: Duration, pause: Duration) {
        self.deadline_ms.store(millis(elapsed.saturating_add(pause)), Ordering::Relaxed);
    }

    fn check_at(&self, elapsed: Duration) -> Result<(), String> {
        let late = millis(elapsed).saturating_sub(self.deadline_ms.load(Ordering::Relaxed));
        let late = Duration::from_millis(late);
        if late <= LOOP_STALL_MAX {
            return Ok(());
        }
        Err(format!(
            "the reconciliation loop has not turned for {} s, at most {} s",
            late.as_secs(),
            LOOP_STALL_MAX.as_secs()
        ))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalled_loop_fails_its_check_and_a_sleeping_one_passes() {
        let watchdog = Watchdog::new();
        let second = Duration::from_secs(1);
        watchdog.reset_at(Duration::ZERO, Duration::from_secs(3600));
        assert_eq!(watchdog.check_at(Duration::from_secs(3600) + LOOP_STALL_MAX), Ok(()), "it sleeps");
        let error = watchdog.check_at(Duration::from_secs(3600) + LOOP_STALL_MAX + second).unwrap_err();
        assert_eq!(error, "the reconciliation loop has not turned for 61 s, at most 60 s");
        watchdog.reset_at(Duration::from_secs(3700), Duration::ZERO);
        assert_eq!(watchdog.check_at(Duration::from_secs(3700) + LOOP_STALL_MAX), Ok(()));
        assert!(watchdog.check_at(Duration::from_secs(3700) + LOOP_STALL_MAX + second).is_err());
    }
}
