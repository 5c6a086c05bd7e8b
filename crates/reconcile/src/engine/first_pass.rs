//! The first pass: each key that the loop finds when it starts is planned once.
//!
//! The observer is called before each plan. If a plan ends the process, the observer has recorded its key.

use setpoint_api::Key;

/// Observer of a first pass.
pub trait FirstPassObserver: Send {
    /// Called before a key is planned.
    fn begin_plan(&mut self, controller: &str, key: &Key);
    /// Called when every key was planned once, and the first writes of these plans were sent.
    fn end(&mut self);
}

/// Progress of a first pass that is not over.
pub(super) struct FirstPassTracker {
    observer: Box<dyn FirstPassObserver>,
    /// Number of keys of each controller that are not planned yet; `None` before the first turn. Queues are first in,
    /// first out, so keys that arrive later do not overtake these.
    unplanned: Option<Vec<usize>>,
}

impl FirstPassTracker {
    pub fn new(observer: Box<dyn FirstPassObserver>) -> FirstPassTracker {
        FirstPassTracker { observer, unplanned: None }
    }

    /// Begins a turn with queues of these depths. Returns `true` if the pass is over: every key was planned, or no key
    /// is queued any more.
    pub fn begin_turn(&mut self, depths: impl Iterator<Item = usize>) -> bool {
        let depths: Vec<usize> = depths.collect();
        let is_over = match &self.unplanned {
            None => false,
            Some(unplanned) => {
                [unplanned, &depths].iter().any(|counts| counts.iter().all(|count| *count == 0))
            }
        };
        if is_over {
            self.observer.end();
        } else if self.unplanned.is_none() {
            self.unplanned = Some(depths);
        }
        is_over
    }

    pub fn begin_plan(&mut self, index: usize, controller: &str, key: &Key) {
        self.observer.begin_plan(controller, key);
        if let Some(unplanned) = self.unplanned.as_mut().and_then(|unplanned| unplanned.get_mut(index)) {
            *unplanned = unplanned.saturating_sub(1);
        }
    }
}
