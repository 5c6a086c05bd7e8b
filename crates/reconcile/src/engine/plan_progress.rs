//! Progress of a plan: actions that are in flight, and actions that wait.

use std::collections::VecDeque;

use setpoint_api::{Revision, Time};

use crate::plan::Action;
use crate::queue::PlanResult;

/// Maximum number of in-flight writes of one plan.
const BATCH_MAX: usize = 500;

/// A plan that is being carried out.
///
/// Batches double from one, so that a rejection stops the plan early and a burst starts slowly: ten actions in one stage
/// are sent as 1, 2, 4 and 3.
pub(super) struct PlanProgress {
    stages: VecDeque<VecDeque<Action>>,
    batch_len: usize,
    result: PlanResult,
    /// Number of in-flight writes.
    pub in_flight: usize,
    /// Lower bound of the number of actions that are left for the next plan.
    pub deferred: u64,
    /// Time to plan the key again once the plan is done.
    pub requeue_at: Option<Time>,
    /// Revision of the world that was planned on.
    pub seen: Revision,
}

impl PlanProgress {
    pub fn new(
        stages: Vec<Vec<Action>>,
        deferred: u64,
        requeue_at: Option<Time>,
        seen: Revision,
    ) -> PlanProgress {
        let stages = stages.into_iter().filter(|stage| !stage.is_empty()).map(VecDeque::from).collect();
        PlanProgress {
            stages,
            batch_len: 1,
            result: PlanResult::Done,
            in_flight: 0,
            deferred,
            requeue_at,
            seen,
        }
    }

    /// Returns the next actions to send: at most `room`, but at least one unless none is left.
    pub fn next_batch(&mut self, room: usize) -> Vec<Action> {
        let Some(stage) = self.stages.front_mut() else { return Vec::new() };
        let actions: Vec<Action> = stage.drain(..self.batch_len.min(room.max(1)).min(stage.len())).collect();
        if stage.is_empty() {
            self.stages.pop_front();
        }
        self.batch_len = (self.batch_len * 2).min(BATCH_MAX);
        self.in_flight = actions.len();
        actions
    }

    /// Drops the remaining actions. A failure outweighs a conflict.
    pub fn stop(&mut self, result: PlanResult) {
        self.stages.clear();
        if self.result != PlanResult::Failed {
            self.result = result;
        }
    }

    pub fn result(&self) -> PlanResult {
        self.result
    }

    pub fn is_finished(&self) -> bool {
        self.in_flight == 0 && self.stages.is_empty()
    }

    /// Number of actions that are not sent yet.
    pub fn waiting(&self) -> usize {
        self.stages.iter().map(VecDeque::len).sum()
    }
}
