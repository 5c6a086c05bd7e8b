//! Timestamps passed as arguments.
//!
//! Only the shell reads a clock; everything else gets a [`Time`] as an argument, so that simulations are deterministic.

use std::fmt;
use std::time::Duration;

/// Microseconds since the Unix epoch, the resolution of the Kubernetes API (`MicroTime`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

impl Time {
    /// The Unix epoch.
    pub const EPOCH: Time = Time(0);

    /// The time `seconds` after the epoch.
    #[must_use]
    pub const fn from_seconds(seconds: i64) -> Time {
        Time(seconds.saturating_mul(1_000_000))
    }

    /// This time plus `duration`, saturating.
    #[must_use]
    pub fn after(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(micros(duration)))
    }

    /// This time minus `duration`, saturating.
    #[must_use]
    pub fn before(self, duration: Duration) -> Time {
        Time(self.0.saturating_sub(micros(duration)))
    }

    /// Rounds down to a multiple of `period` since the epoch, so that timers of the same period fire
    /// together.
    #[must_use]
    pub fn whole(self, period: Duration) -> Time {
        let period = micros(period).max(1);
        Time(self.0.div_euclid(period).saturating_mul(period))
    }

    /// Duration since `earlier`; zero if this time is not later.
    #[must_use]
    pub fn since(self, earlier: Time) -> Duration {
        u64::try_from(self.0.saturating_sub(earlier.0)).map_or(Duration::ZERO, Duration::from_micros)
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl fmt::Display for Time {
    /// Seconds and microseconds since the epoch; [`crate::rfc3339`] has the calendar form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0.div_euclid(1_000_000), self.0.rem_euclid(1_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_within_a_period_round_to_the_same_tick() {
        let ten = Duration::from_secs(10);
        assert_eq!(Time::from_seconds(39).whole(ten), Time::from_seconds(30));
        assert_eq!(Time::from_seconds(30).whole(ten), Time::from_seconds(30));
        assert_eq!(Time::from_seconds(-1).whole(ten), Time::from_seconds(-10));
        assert_eq!(Time::from_seconds(7).whole(Duration::ZERO), Time::from_seconds(7));
    }

    #[test]
    fn arithmetic_saturates_and_never_goes_negative() {
        let t = Time::from_seconds(10);
        assert_eq!(t.after(Duration::from_millis(1)), Time(10_001_000));
        assert_eq!(t.before(Duration::from_secs(1)), Time::from_seconds(9));
        assert_eq!(t.since(Time::from_seconds(12)), Duration::ZERO);
        assert_eq!(t.since(Time::from_seconds(7)), Duration::from_secs(3));
        assert_eq!(Time(i64::MAX).after(Duration::from_secs(1)), Time(i64::MAX));
        assert_eq!(Time(-1).to_string(), "-1.999999");
    }
}
