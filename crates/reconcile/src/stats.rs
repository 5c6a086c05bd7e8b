//! What can be known about the loop while it runs.

use std::time::Duration;

use setpoint_api::{Key, Time};

/// Upper bounds of the classes in which the lag from change to plan is counted.
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

/// What a controller has done since the start. All of it only ever rises.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerStats {
    /// How many keys waited at once, at the most: a line is gone before anybody could look at it.
    pub peak_queue_depth: usize,
    /// How many keys were planned.
    pub plans: u64,
    /// How many of the plans were quiet.
    pub quiet: u64,
    /// How many writes were committed.
    pub writes: u64,
    /// How many writes met a world that had moved.
    pub conflicts: u64,
    /// How often conflicts came five times in a row.
    pub contentions: u64,
    /// How many writes were refused.
    pub failures: u64,
    /// How often a key was tried again after a failure.
    pub retries: u64,
    /// How many plans panicked.
    pub panics: u64,
    /// Plans that deferred acts to the next plan, because of their bound.
    pub truncated_plans: u64,
    /// How many gaps only the resync found.
    pub resync_gaps: u64,
    /// How long keys waited from the change that woke them to their plan, in classes; the last has no bound.
    pub lag: [u64; LAG_BOUNDS.len() + 1],
    /// How long they waited in all.
    pub lag_sum: Duration,
}

impl ControllerStats {
    pub(crate) fn record_lag(&mut self, lag: Duration) {
        let class = LAG_BOUNDS.iter().position(|bound| lag <= *bound).unwrap_or(LAG_BOUNDS.len());
        self.lag[class] += 1;
        self.lag_sum += lag;
    }

    /// An upper bound of the lag that a share of the plans stayed within; nothing if it has none.
    #[must_use]
    pub fn lag_quantile(&self, share: f64) -> Option<Duration> {
        let total: u64 = self.lag.iter().sum();
        let mut below = 0;
        for (count, bound) in self.lag.iter().zip(LAG_BOUNDS) {
            below += count;
            #[expect(clippy::cast_precision_loss, reason = "counts of plans are far below 2^52")]
            if below as f64 >= total as f64 * share {
                return Some(bound);
            }
        }
        None
    }
}

/// How a key stands with its controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyState {
    /// The key.
    pub key: Key,
    /// How many times in a row its plan failed.
    pub failures: u32,
    /// When it is tried or looked at again; nothing if only a change will do.
    pub next: Option<Time>,
    /// ReconcileReason the last plan could not be carried out.
    pub last_error: Option<String>,
    /// How many of its writes wait for their turn.
    pub waiting_writes: usize,
    /// Lower bound of the number of writes that are left for its next plan.
    pub deferred_writes: u64,
}
