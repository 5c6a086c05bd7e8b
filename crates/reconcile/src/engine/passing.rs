//! The first pass: each key that the loop finds when it begins is planned once.
//!
//! A follower outside the engine knows from it which key was being planned if the process does not survive that.

use setpoint_api::Key;

/// Follower of a first pass.
pub trait FirstPass: Send {
    /// A key is about to be planned.
    fn begin_plan(&mut self, controller: &str, key: &Key);
    /// Every key was planned once, and the first writes of these plans were sent.
    fn end(&mut self);
}

/// A first pass that is not over.
pub(super) struct Passing {
    follower: Box<dyn FirstPass>,
    /// Keys of each controller that are not planned yet. Queues are first in, first out, so that keys that come later do
    /// not overtake these. Unknown before the first turn.
    left: Option<Vec<usize>>,
}

impl Passing {
    pub fn new(follower: Box<dyn FirstPass>) -> Passing {
        Passing { follower, left: None }
    }

    /// Begins a turn with queues of these lengths. Returns `true` if the pass is over: every key was planned, or none
    /// waits any more.
    pub fn begin_turn(&mut self, depths: impl Iterator<Item = usize>) -> bool {
        let depths: Vec<usize> = depths.collect();
        let is_over = match &self.left {
            None => false,
            Some(left) => [left, &depths].iter().any(|counts| counts.iter().all(|count| *count == 0)),
        };
        if is_over {
            self.follower.end();
        } else if self.left.is_none() {
            self.left = Some(depths);
        }
        is_over
    }

    pub fn begin_plan(&mut self, at: usize, controller: &str, key: &Key) {
        self.follower.begin_plan(controller, key);
        if let Some(left) = self.left.as_mut().and_then(|left| left.get_mut(at)) {
            *left = left.saturating_sub(1);
        }
    }
}
