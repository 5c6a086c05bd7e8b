//! System clock and entropy. All other code takes the time and random numbers as arguments.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use setpoint_api::{Clock, Time};

/// Wall clock and monotonic clock of the operating system.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "implements the wall clock of others")]
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    #[expect(clippy::disallowed_methods, reason = "implements the monotonic clock of others")]
    fn uptime(&self) -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        let now = Instant::now();
        now.saturating_duration_since(*START.get_or_init(|| now))
    }
}

/// Returns an unpredictable number.
pub fn entropy() -> u64 {
    RandomState::new().hash_one(SystemClock.now())
}
