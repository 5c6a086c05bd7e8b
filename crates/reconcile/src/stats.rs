//! Statistics of controllers and states of keys.

use std::time::Duration;

use setpoint_api::{Key, Time};

/// Upper bounds of the histogram buckets of the lag from change to plan.
pub const LAG_BOUNDS: [Duration; 8] = [
    Duration::from_millis(1),
    Duration::from_millis(3),
    Duration::from_millis(10),
    Duration::from_millis(30),
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(10),
];

/// Counters of a controller since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerStats {
    /// Maximum queue depth. Bursts are too short to be seen by sampling the depth.
    pub peak_queue_depth: usize,
    /// Executed plans.
    pub plans: u64,
    /// Plans without actions, Events and queries.
    pub quiet: u64,
    /// Committed writes.
    pub writes: u64,
    /// Writes with a failed precondition.
    pub conflicts: u64,
    /// Keys that backed off because of too many conflicts in a row.
    pub contentions: u64,
    /// Rejected writes, and writes with an unknown outcome.
    pub failures: u64,
    /// Plans of keys whose last plan failed.
    pub retries: u64,
    /// Plans that panicked.
    pub panics: u64,
    /// Plans that left actions for the next plan because of their bound.
    pub truncated_plans: u64,
    /// Gaps that only the resync found.
    pub resync_gaps: u64,
    /// Histogram of the lag from the change that enqueued a key to its plan; the last bucket has no bound.
    pub lag: [u64; LAG_BOUNDS.len() + 1],
    /// Sum of the lags.
    pub lag_sum: Duration,
}

impl ControllerStats {
    pub(crate) fn record_lag(&mut self, lag: Duration) {
        let bucket = LAG_BOUNDS.iter().position(|bound| lag <= *bound).unwrap_or(LAG_BOUNDS.len());
        self.lag[bucket] += 1;
        self.lag_sum += lag;
    }

    /// Returns the upper bound of the bucket of a quantile of the lag, such as 0.99; `None` for the last bucket.
    #[must_use]
    pub fn lag_quantile(&self, quantile: f64) -> Option<Duration> {
        let total: u64 = self.lag.iter().sum();
        let mut cumulative = 0;
        for (count, bound) in self.lag.iter().zip(LAG_BOUNDS) {
            cumulative += count;
            #[expect(clippy::cast_precision_loss, reason = "counts of plans are far below 2^52")]
            if cumulative as f64 >= total as f64 * quantile {
                return Some(bound);
            }
        }
        None
    }
}

/// State of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyState {
    /// Key of the object.
    pub key: Key,
    /// Number of failures in a row.
    pub failures: u32,
    /// Time of the next plan; `None` if only a change enqueues the key.
    pub next: Option<Time>,
    /// Error of the last plan.
    pub last_error: Option<String>,
    /// Number of writes of the current plan that are not sent yet.
    pub waiting_writes: usize,
    /// Lower bound of the number of writes that are left for the next plan.
    pub deferred_writes: u64,
}
