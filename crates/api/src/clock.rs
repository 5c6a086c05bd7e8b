//! Clocks: the trait that everything waits and takes timestamps by, and the manual clock of tests.
//!
//! Only the binary has a real clock; everything else is handed one. Timestamps and schedules follow the wall clock,
//! which may be set at any moment. Waits and ages follow the monotonic clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use crate::time::Time;

/// Source of the time.
pub trait Clock: Send + Sync {
    /// Returns the wall clock's time, which may go back.
    fn now(&self) -> Time;

    /// Returns the monotonic clock's time since an arbitrary start, which never goes back. It stands still while the
    /// machine is suspended. A clock that is never set need not have another one.
    fn uptime(&self) -> Duration {
        self.now().since(Time::EPOCH)
    }
}

/// A clock that moves when a test moves it. Clones share one time.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Readings>);

#[derive(Debug)]
struct Readings {
    wall_micros: AtomicI64,
    uptime_micros: AtomicU64,
    /// Microseconds by which each reading of the wall clock advances it.
    tick_micros: i64,
}

impl ManualClock {
    /// A clock that stands at this time.
    #[must_use]
    pub fn new(now: Time) -> ManualClock {
        ManualClock::with_tick(now, Duration::ZERO)
    }

    /// A clock that advances by `tick` whenever its wall clock is read.
    #[must_use]
    pub fn with_tick(now: Time, tick: Duration) -> ManualClock {
        ManualClock(Arc::new(Readings {
            wall_micros: AtomicI64::new(now.0),
            uptime_micros: AtomicU64::new(0),
            tick_micros: i64::try_from(tick.as_micros()).unwrap_or(i64::MAX),
        }))
    }

    /// Lets time pass, on the wall clock and on the monotonic clock.
    pub fn advance(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.0.uptime_micros.fetch_add(micros, Ordering::SeqCst);
        self.0.wall_micros.fetch_add(i64::try_from(micros).unwrap_or(i64::MAX), Ordering::SeqCst);
    }

    /// Sets the wall clock, as an administrator does. The monotonic clock does not notice.
    pub fn set_wall(&self, now: Time) {
        self.0.wall_micros.store(now.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Time {
        Time(self.0.wall_micros.fetch_add(self.0.tick_micros, Ordering::SeqCst))
    }

    fn uptime(&self) -> Duration {
        Duration::from_micros(self.0.uptime_micros.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_on_both_clocks_and_a_step_moves_only_the_wall_clock() {
        let clock = ManualClock::new(Time::from_seconds(100));
        clock.clone().advance(Duration::from_secs(5));
        assert_eq!((clock.now(), clock.uptime()), (Time::from_seconds(105), Duration::from_secs(5)));
        clock.set_wall(Time::from_seconds(1));
        assert_eq!((clock.now(), clock.uptime()), (Time::from_seconds(1), Duration::from_secs(5)));
    }
}
