//! Pulse of the loop, for `/livez`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use setpoint_api::Clock;

/// The longest that one turn of the loop may take. A turn plans at most `TURN_PLANS_MAX` keys, but the first one lists
/// the whole store.
pub const LOOP_STALL_MAX: Duration = Duration::from_secs(60);

/// Deadline of the next turn of the loop. Counted on the monotonic clock, which stands still while the machine is
/// suspended: nothing turns then, and nothing is wrong.
pub(super) struct Pulse {
    clock: Arc<dyn Clock>,
    /// Uptime in milliseconds at the end of the intended sleep.
    turns_by_ms: AtomicU64,
}

impl Pulse {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Pulse {
        let turns_by_ms = AtomicU64::new(millis(clock.uptime()));
        Pulse { clock, turns_by_ms }
    }

    /// The loop turns now, or sleeps for at most `pause` and turns then.
    pub(super) fn beat(&self, pause: Duration) {
        self.turns_by_ms.store(millis(self.clock.uptime().saturating_add(pause)), Ordering::Relaxed);
    }

    /// Fails if the loop has not turned for [`LOOP_STALL_MAX`] after the end of its sleep.
    pub(super) fn check(&self) -> Result<(), String> {
        let late = millis(self.clock.uptime()).saturating_sub(self.turns_by_ms.load(Ordering::Relaxed));
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
        let pulse = Pulse::new(Arc::new(clock.clone()));
        assert_eq!(pulse.check(), Ok(()), "it has just started");
        let second = Duration::from_secs(1);
        pulse.beat(Duration::from_secs(3600));
        clock.advance(Duration::from_secs(3600) + LOOP_STALL_MAX);
        assert_eq!(pulse.check(), Ok(()), "it sleeps");
        clock.advance(second);
        let why = pulse.check().unwrap_err();
        assert_eq!(why, "the reconciliation loop has not turned for 61 s, at most 60 s");
        pulse.beat(Duration::ZERO);
        clock.advance(LOOP_STALL_MAX);
        assert_eq!(pulse.check(), Ok(()));
        clock.advance(second);
        assert!(pulse.check().is_err());
    }
}
