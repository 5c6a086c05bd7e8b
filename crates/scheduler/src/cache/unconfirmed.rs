//! Unconfirmed writes: status patches and volume bindings that the last plan sent and that the world must show next.
//!
//! If a write fails, the engine drops all later writes of the plan. A pod whose write is missing from the next world is
//! requeued at once, not after the timeout of the unschedulable queue.

use setpoint_reconcile::{Object, WorldReader};
use setpoint_views::condition;
use setpoint_views::pod::Pod;

use super::{PodId, SchedulerCache};
use crate::plugins::{QueueingHint, dynamic_resources};

/// Attempts up to which a pod with a missing write skips its backoff.
const IMMEDIATE_RETRIES: u32 = 3;

/// Write for a pod that the world does not show yet.
#[derive(Clone, Debug)]
pub struct UnconfirmedWrite {
    /// The pod.
    pub id: PodId,
    /// The pod as it was when the write was sent. Its UID detects that `id` was reused for another pod.
    pub object: Object,
    /// Effect that confirms the write.
    pub expected: ExpectedWrite,
}

/// Effect of a write.
#[derive(Clone, Debug)]
pub enum ExpectedWrite {
    /// Patch of the pod's status; a field is `None` if the patch does not change it.
    Status {
        /// Message of the `PodScheduled` condition.
        message: Option<Box<str>>,
        /// `nominatedNodeName`; empty if it is cleared.
        nominated_node: Option<Box<str>>,
    },
    /// Binding of PersistentVolumeClaims.
    Claims,
    /// Allocation and reservation of ResourceClaims.
    DeviceClaims,
}

impl SchedulerCache {
    /// Requeues pods that wait for a write which the world does not show.
    pub(super) fn requeue_unconfirmed(&mut self, world: &WorldReader<'_>) {
        for (victim, preemptor) in std::mem::take(&mut self.victims) {
            let found = self.pods.get_mut(victim as usize).and_then(Option::as_mut);
            // A victim that was deleted is gone or was added again as terminating: the flag is set only if it was not.
            if let Some(info) = found.filter(|info| info.is_victim) {
                info.is_victim = false;
                self.requeue(preemptor, IMMEDIATE_RETRIES);
            }
        }
        for write in std::mem::take(&mut self.unconfirmed) {
            if self.is_missing(&write) {
                let immediate_retries = match write.expected {
                    // A change of a claim requeues the pod anyway, so a backoff would not save attempts.
                    ExpectedWrite::Claims => u32::MAX,
                    ExpectedWrite::DeviceClaims => self.device_retries(&write, world),
                    ExpectedWrite::Status { .. } => IMMEDIATE_RETRIES,
                };
                self.requeue(write.id, immediate_retries);
            }
        }
    }

    /// Returns the number of immediate retries of a pod whose claims were written. If the world does not show them, other
    /// pods may get the devices; and the pod backs off, since one rejected write drops those of all other pods.
    fn device_retries(&mut self, write: &UnconfirmedWrite, world: &WorldReader<'_>) -> u32 {
        let signature = self.signature_of(write.id).cloned();
        if signature.is_some_and(|signature| dynamic_resources::are_reserved(&signature, world)) {
            return u32::MAX;
        }
        self.events.kinds |= QueueingHint::DEVICE;
        IMMEDIATE_RETRIES
    }

    fn is_missing(&self, write: &UnconfirmedWrite) -> bool {
        let same = self.pod(write.id).filter(|info| info.object.meta().uid == write.object.meta().uid);
        let Some(pod) = same.and_then(|info| info.object.view::<Pod>()) else { return false };
        match &write.expected {
            ExpectedWrite::Status { message, nominated_node } => {
                let scheduled = condition(&pod.status.conditions, "PodScheduled");
                let has_message = |message: &str| scheduled.is_some_and(|found| &*found.message == message);
                message.as_ref().is_some_and(|message| !has_message(message))
                    || nominated_node.as_ref().is_some_and(|name| **name != *pod.status.nominated_node_name)
            }
            // The next attempt reads the claims and writes only what is still missing.
            ExpectedWrite::Claims | ExpectedWrite::DeviceClaims => true,
        }
    }

    /// Requeues a pod. With more attempts than `immediate_retries` it backs off, since its write may never succeed.
    fn requeue(&mut self, id: PodId, immediate_retries: u32) {
        let found = self.pods.get_mut(id as usize).and_then(Option::as_mut);
        if let Some(state) = found.and_then(|info| info.queue_state.as_mut()) {
            (state.is_requeued, state.has_exact_hint) = (true, true);
            state.must_back_off |= state.attempts > immediate_retries;
        }
    }
}
