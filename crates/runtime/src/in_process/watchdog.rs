//! Watchdog of the loop, for `/livez`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use setpoint_api::Clock;

/// Maximum duration of one turn of the loop. A turn plans at most `TURN_PLANS_MAX` keys, but the first one lists
/// the whole store.
pub const LOOP_STALL_MAX: Duration = Duration::from_secs(60);

/// Deadline of the next turn of the loop. Counted on the monotonic clock, which stops while the machine is
/// suspended, so a suspension is not a stall.
pub(super) struct Watchdog {
    clock: Arc<dyn Clock>,
    /// Uptime in milliseconds at the end of the intended sleep.
    deadline_ms: AtomicU64,
}

impl Watchdog {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Watchdog {
        let deadline_ms = AtomicU64::new(millis(clock.uptime()));
        Watchdog { clock, deadline_ms }
    }

    /// Records that the loop turns now, or after a sleep of at most `pause`.
    pub(super) fn reset(&self, pause: Duration) {
        self.deadline_ms.store(millis(self.clock.uptime().saturating_add(pause)), Ordering::Relaxed);
    }

    /// Fails if the loop has not turned for [`LOOP_STALL_MAX`] after the end of its sleep.
    pub(super) fn check(&self) -> Result<(), String> {
        let late = millis(self.clock.uptime()).saturating_sub(self.deadline_ms.load(Ordering::Relaxed));
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
    use setpoint_api::{ManualClock, Time};

    use super::*;

    #[test]
    fn stalled_loop_fails_its_check_and_a_sleeping_one_passes() {
        let clock = ManualClock::new(Time::EPOCH);
        clock.advance(Duration::from_secs(7200));
        let watchdog = Watchdog::new(Arc::new(clock.clone()));
        assert_eq!(watchdog.check(), Ok(()), "it has just started");
        let second = Duration::from_secs(1);
        watchdog.reset(Duration::from_secs(3600));
        clock.advance(Duration::from_secs(3600) + LOOP_STALL_MAX);
        assert_eq!(watchdog.check(), Ok(()), "it sleeps");
        clock.advance(second);
        let error = watchdog.check().unwrap_err();
        assert_eq!(error, "the reconciliation loop has not turned for 61 s, at most 60 s");
        watchdog.reset(Duration::ZERO);
        clock.advance(LOOP_STALL_MAX);
        assert_eq!(watchdog.check(), Ok(()));
        clock.advance(second);
        assert!(watchdog.check().is_err());
    }
}
