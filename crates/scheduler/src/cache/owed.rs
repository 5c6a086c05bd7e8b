//! What the last plan wanted to write, so that the next one sees whether it was written.
//!
//! A write that could not be done takes all later ones of its plan with it. Whoever waits for one that the world does
//! not show is tried again, and not only when the longest wait is over.

use setpoint_reconcile::Object;
use setpoint_reconcile::views::condition;
use setpoint_reconcile::views::pod::Pod;

use super::{Cache, PodId};

/// Up to so many tries a pod is tried again at once when something was not written.
const TRIES_AT_ONCE: u32 = 3;

/// A write about a pod.
#[derive(Clone, Debug)]
pub struct Owed {
    /// The pod.
    pub id: PodId,
    /// The pod as it was: its number may have become that of another.
    pub object: Object,
    /// What was to be written.
    pub what: What,
}

/// What was to be written about a pod.
#[derive(Clone, Debug)]
pub enum What {
    /// Why it has no node, and where it is promised one, as far as that was to change.
    Status {
        /// Why.
        message: Option<Box<str>>,
        /// Where; empty for nowhere.
        nominated: Option<Box<str>>,
    },
    /// Where its claims are to have their volumes.
    Volumes,
}

impl Cache {
    /// Tries again whoever waits for something that was not written.
    pub(super) fn collect(&mut self) {
        for (victim, preemptor) in std::mem::take(&mut self.doomed) {
            let found = self.pods.get_mut(victim as usize).and_then(Option::as_mut);
            // A pod that was deleted has been entered anew by now, if it is still there.
            if let Some(entry) = found.filter(|entry| entry.is_doomed) {
                entry.is_doomed = false;
                self.stir(preemptor, TRIES_AT_ONCE);
            }
        }
        for owed in std::mem::take(&mut self.owed) {
            if self.is_owed(&owed) {
                // What is written of volumes wakes the pod in any case.
                let tries = if matches!(owed.what, What::Volumes) { u32::MAX } else { TRIES_AT_ONCE };
                self.stir(owed.id, tries);
            }
        }
    }

    fn is_owed(&self, owed: &Owed) -> bool {
        let same = self.pod(owed.id).filter(|entry| entry.object.meta().uid == owed.object.meta().uid);
        let Some(pod) = same.and_then(|entry| entry.object.view::<Pod>()) else { return false };
        match &owed.what {
            What::Status { message, nominated } => {
                let told = condition(&pod.status.conditions, "PodScheduled");
                let is_told = |message: &str| told.is_some_and(|told| &*told.message == message);
                message.as_ref().is_some_and(|message| !is_told(message))
                    || nominated.as_ref().is_some_and(|name| **name != *pod.status.nominated_node_name)
            }
            // Claims are looked up anew with each try, and one that has what it needs is not written again.
            What::Volumes => true,
        }
    }

    /// Tries a pod again: after a few tries only in its time, for it may never be written.
    fn stir(&mut self, id: PodId, tries: u32) {
        let found = self.pods.get_mut(id as usize).and_then(Option::as_mut);
        if let Some(waiting) = found.and_then(|entry| entry.waiting.as_mut()) {
            (waiting.is_stirred, waiting.is_pressing) = (true, true);
            waiting.is_refused |= waiting.tries > tries;
        }
    }
}
