//! A plan on its way: which acts are out, which wait.

use std::collections::VecDeque;

use setpoint_api::{Revision, Time};

use crate::plan::Act;
use crate::queue::End;

/// How many acts of one plan are on their way at a time, at the most.
pub const BATCH_MAX: usize = 500;

/// A plan on its way. Batches grow from one, so that a refusal stops early and a burst starts slowly.
pub(super) struct Sending {
    stages: VecDeque<VecDeque<Act>>,
    batch: usize,
    end: End,
    /// How many acts are out.
    pub out: usize,
    /// Acts that wait for the next plan, at least.
    pub deferred: u64,
    /// When to look again once the plan is done.
    pub look_again: Option<Time>,
    /// The revision of the world that was planned on.
    pub seen: Revision,
}

impl Sending {
    pub fn new(stages: Vec<Vec<Act>>, deferred: u64, look_again: Option<Time>, seen: Revision) -> Sending {
        let stages = stages.into_iter().filter(|stage| !stage.is_empty()).map(VecDeque::from).collect();
        Sending { stages, batch: 1, end: End::Done, out: 0, deferred, look_again, seen }
    }

    /// The next acts to send, at most `room` but at least one; none when there are none left.
    pub fn next_batch(&mut self, room: usize) -> Vec<Act> {
        let Some(stage) = self.stages.front_mut() else { return Vec::new() };
        let acts: Vec<Act> = stage.drain(..self.batch.min(room.max(1)).min(stage.len())).collect();
        if stage.is_empty() {
            self.stages.pop_front();
        }
        self.batch = (self.batch * 2).min(BATCH_MAX);
        self.out = acts.len();
        acts
    }

    /// Drops the rest. A failure outweighs a conflict.
    pub fn stop(&mut self, end: End) {
        self.stages.clear();
        if self.end != End::Failed {
            self.end = end;
        }
    }

    pub fn end(&self) -> End {
        self.end
    }

    pub fn is_finished(&self) -> bool {
        self.out == 0 && self.stages.is_empty()
    }

    /// How many acts wait for their turn.
    pub fn waiting(&self) -> usize {
        self.stages.iter().map(VecDeque::len).sum()
    }
}
