//! `Retry-After` of rejected requests: it doubles while a priority level keeps rejecting, and decreases by a second
//! otherwise.

use std::collections::VecDeque;

/// Largest `Retry-After`, in seconds.
const RETRY_SECONDS_MAX: u64 = 32;
/// Rejections per second of `Retry-After` from which on it doubles.
const DOUBLE_RATE: u64 = 3;

/// Rejections of a priority level in the last seconds.
#[derive(Clone, Debug)]
pub struct DropHistory {
    /// Seconds with rejections before the current one, oldest first, with their number.
    past: VecDeque<(u64, u64)>,
    second: u64,
    drops: u64,
    retry_after: u64,
    /// Second of the last increase.
    increased_at: Option<u64>,
}

impl Default for DropHistory {
    fn default() -> DropHistory {
        DropHistory { past: VecDeque::new(), second: 0, drops: 0, retry_after: 1, increased_at: None }
    }
}

impl DropHistory {
    /// Counts a rejection in a second of the uptime, and returns its `Retry-After` in seconds.
    pub fn record(&mut self, second: u64) -> u64 {
        if second <= self.second {
            self.drops += 1;
            return self.retry_after;
        }
        if self.drops > 0 {
            self.past.push_back((self.second, self.drops));
        }
        (self.second, self.drops) = (second, 1);
        self.update(second);
        let oldest = second.saturating_sub((2 * self.retry_after).min(RETRY_SECONDS_MAX));
        while self.past.front().is_some_and(|(past, _)| *past < oldest) {
            self.past.pop_front();
        }
        self.retry_after
    }

    /// Adapts to the rejections of the last `retry_after` seconds before `second`.
    fn update(&mut self, second: u64) {
        let since = second.saturating_sub(self.retry_after);
        let recent = self.past.iter().filter(|(past, _)| *past >= since && *past < second);
        let drops: u64 = recent.map(|(_, drops)| drops).sum();
        let may_increase = self.increased_at.is_none_or(|at| second - at >= self.retry_after);
        if may_increase && drops >= DOUBLE_RATE * self.retry_after {
            self.retry_after = (2 * self.retry_after).min(RETRY_SECONDS_MAX);
            self.increased_at = Some(second);
        } else if drops < self.retry_after && self.retry_after > 1 {
            self.retry_after -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records `drops` rejections in a second, and returns the last `Retry-After`.
    fn drop_in(history: &mut DropHistory, second: u64, drops: u64) -> u64 {
        (0..drops).map(|_| history.record(second)).last().unwrap()
    }

    #[test]
    fn retry_after_doubles_under_load_and_decreases_by_a_second() {
        let mut history = DropHistory::default();
        assert_eq!(drop_in(&mut history, 1, 5), 1, "the current second is not counted yet");
        assert_eq!(drop_in(&mut history, 2, 15), 2);
        assert_eq!(drop_in(&mut history, 3, 15), 2, "increases are at least a Retry-After apart");
        assert_eq!(drop_in(&mut history, 4, 15), 4);
        let values: Vec<u64> = (5..60).map(|second| drop_in(&mut history, second, 200)).collect();
        assert_eq!(values.iter().max(), Some(&32));
        let values: Vec<u64> = (61..95).map(|second| drop_in(&mut history, second * 10, 1)).collect();
        assert_eq!(values.last(), Some(&1), "{values:?}");
    }

    #[test]
    fn history_is_bounded() {
        let mut history = DropHistory::default();
        for second in 0..10_000 {
            drop_in(&mut history, second, 100);
        }
        assert!(history.past.len() <= 1 + RETRY_SECONDS_MAX as usize);
        assert_eq!(history.record(0), 32, "time may be read in another order than it is recorded");
    }
}
