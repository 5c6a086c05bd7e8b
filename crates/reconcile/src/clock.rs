//! Loop time: the monotonic clock plus an offset, which follows the wall clock in jumps.
//!
//! Loop time advances with the monotonic clock, so waits and ages do not depend on steps of the wall clock. Only
//! [`LoopTime::follow`] moves it to the wall clock, and then returns a [`Jump`] for the engine and the leader elector. The
//! end of a suspension is a jump too: the monotonic clock stood still meanwhile, and the wall clock is ahead.

use std::time::Duration;

use setpoint_api::Time;

/// Minimum difference between loop time and the wall clock that counts as a jump. API timestamps are in whole seconds.
/// Smaller steps add up until they reach it.
pub const JUMP_MIN: Duration = Duration::from_secs(1);

/// Clock of the loop.
#[derive(Clone, Copy, Debug)]
pub struct LoopTime {
    /// Loop time at zero of the monotonic clock.
    start: Time,
}

/// Step of loop time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    micros: i64,
}

impl LoopTime {
    /// Returns loop time that agrees with the wall clock at this reading of the monotonic clock.
    #[must_use]
    pub fn new(wall: Time, uptime: Duration) -> LoopTime {
        LoopTime { start: wall.before(uptime) }
    }

    /// Returns the loop time at a reading of the monotonic clock.
    #[must_use]
    pub fn now(&self, uptime: Duration) -> Time {
        self.start.after(uptime)
    }

    /// Moves loop time to the wall clock if they differ by at least [`JUMP_MIN`]. Returns the jump.
    pub fn follow(&mut self, wall: Time, uptime: Duration) -> Option<Jump> {
        let jump = Jump::between(self.now(uptime), wall);
        if jump.size() < JUMP_MIN {
            return None;
        }
        self.start = wall.before(uptime);
        Some(jump)
    }
}

impl Jump {
    /// Returns the step from one time to another.
    #[must_use]
    pub fn between(before: Time, after: Time) -> Jump {
        Jump { micros: after.0.saturating_sub(before.0) }
    }

    /// `true` for a step toward the future.
    #[must_use]
    pub fn is_forward(self) -> bool {
        self.micros > 0
    }

    /// Length of the step.
    #[must_use]
    pub fn size(self) -> Duration {
        Duration::from_micros(self.micros.unsigned_abs())
    }

    /// Shifts the time of a local observation from before the step, so that its age stays the same.
    #[must_use]
    pub fn shift(self, observed: Time) -> Time {
        Time(observed.0.saturating_add(self.micros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn loop_time_advances_with_the_monotonic_clock_and_jumps_only_when_it_follows() {
        let noon = Time::from_seconds(1_800_000_000);
        let mut time = LoopTime::new(noon, secs(100));
        assert_eq!(time.now(secs(160)), noon.after(secs(60)));
        assert_eq!(time.follow(noon.after(secs(60)), secs(160)), None);
        // Set back by an hour: loop time does not change before it follows.
        let back = noon.after(secs(70)).before(secs(3600));
        assert_eq!(time.now(secs(170)), noon.after(secs(70)));
        let jump = time.follow(back, secs(170)).unwrap();
        assert_eq!((jump.is_forward(), jump.size()), (false, secs(3600)));
        assert_eq!(time.now(secs(170)), back);
        assert_eq!(jump.shift(noon), noon.before(secs(3600)), "ages do not change");
        // A suspended machine: the wall clock went on, the monotonic clock did not.
        let jump = time.follow(back.after(secs(501)), secs(171)).unwrap();
        assert_eq!((jump.is_forward(), jump.size()), (true, secs(500)));
    }

    #[test]
    fn small_steps_add_up_to_a_jump() {
        let noon = Time::from_seconds(1_800_000_000);
        let mut time = LoopTime::new(noon, secs(0));
        let step = Duration::from_millis(400);
        assert_eq!(time.follow(noon.after(step), secs(0)), None);
        assert_eq!(time.follow(noon.after(step * 2), secs(0)), None);
        assert!(time.follow(noon.after(step * 3), secs(0)).is_some());
        assert_eq!(time.follow(noon.after(step * 3), secs(0)), None);
    }
}
