//! Periodic times in closed form: counting them is a division, so neither short periods nor long spans cost
//! anything, and nothing overflows.

use std::time::Duration;

/// Arithmetic sequence of times; the first has number 0.
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    /// First time.
    pub begin: Duration,
    /// Distance between two times; zero counts as one nanosecond.
    pub period: Duration,
}

impl Ticks {
    fn period(&self) -> u128 {
        self.period.as_nanos().max(1)
    }

    /// Returns the number of the first tick at or after `time`.
    #[must_use]
    pub fn next_index(&self, time: Duration) -> u128 {
        time.saturating_sub(self.begin).as_nanos().div_ceil(self.period())
    }

    /// Returns the number of ticks up to and including `time`, which is the number of the next one.
    #[must_use]
    pub fn count_until(&self, time: Duration) -> u128 {
        time.checked_sub(self.begin).map_or(0, |passed| passed.as_nanos() / self.period() + 1)
    }

    /// Returns the time of a tick; `None` if it overflows.
    #[must_use]
    pub fn time_of(&self, number: u128) -> Option<Duration> {
        const SECOND: u128 = 1_000_000_000;
        let nanos = self.period().checked_mul(number)?.checked_add(self.begin.as_nanos())?;
        let part = u32::try_from(nanos % SECOND).ok()?;
        Some(Duration::new(u64::try_from(nanos / SECOND).ok()?, part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_counted_without_overflow() {
        let ticks = Ticks { begin: Duration::from_millis(500), period: Duration::from_secs(2) };
        let next = |millis| ticks.next_index(Duration::from_millis(millis));
        assert_eq!([0, 500, 501, 2_500, 2_501].map(next), [0, 0, 1, 1, 2]);
        let until = |millis| ticks.count_until(Duration::from_millis(millis));
        assert_eq!([0, 499, 500, 2_499, 2_500].map(until), [0, 0, 1, 1, 2]);
        assert_eq!(ticks.time_of(ticks.count_until(Duration::MAX)), None);
        assert_eq!(ticks.time_of(2), Some(Duration::from_millis(4_500)));
        assert_eq!((ticks.time_of(u128::MAX), ticks.time_of(u128::from(u64::MAX))), (None, None));
        assert_eq!(ticks.time_of(ticks.next_index(Duration::MAX)), None);
        let all = Ticks { begin: Duration::ZERO, period: Duration::ZERO };
        assert_eq!(all.time_of(all.next_index(Duration::MAX)), Some(Duration::MAX));
    }
}
