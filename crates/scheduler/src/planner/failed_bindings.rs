//! Bindings of the last plan that were rejected.

use setpoint_reconcile::{Failure, Object};
use setpoint_views::pod::Pod;

use super::scheduling_cycle::SchedulingCycle;
use super::status::FailureStatus;
use crate::cache::PodId;
use crate::plugins::QueueingHint;
use crate::queue_state::QueueState;

impl SchedulingCycle<'_> {
    /// Backs off the pods whose bindings were rejected.
    ///
    /// The world does not show the binding of such a pod. Bindings are sent in order and in batches, so the first
    /// missing one was rejected, and so was every missing one before a binding that succeeded. Later ones were not sent.
    pub(super) fn handle_failed_bindings(&mut self, sent: &[(PodId, Object)], failure: &Failure) {
        let is_missing = |(id, object): &(PodId, Object)| {
            let same = self.cache.pod(*id).filter(|info| info.object.meta().uid == object.meta().uid);
            same.is_some_and(|info| !info.is_bound)
        };
        let missing: Vec<bool> = sent.iter().map(is_missing).collect();
        let first = missing.iter().position(|missing| *missing);
        let last = first.max(missing.iter().rposition(|missing| !missing));
        // The message is that of one binding and usually contains the name of its pod.
        let is_named = |object: &Object| failure.message.contains(&format!("\"{}\"", object.meta().name));
        let names_one = sent.iter().zip(&missing).any(|((_, object), missing)| *missing && is_named(object));
        for (at, (id, object)) in sent.iter().enumerate().filter(|(at, _)| missing[*at]) {
            let is_named = names_one && is_named(object);
            if Some(at) <= last || is_named {
                self.reject_binding(*id, failure, is_named || !names_one);
            }
        }
    }

    /// Backs off a pod whose binding was rejected, and writes the reason into its status if `is_reported`.
    fn reject_binding(&mut self, id: PodId, failure: &Failure, is_reported: bool) {
        let Some(info) = self.cache.pods[id as usize].as_mut() else { return };
        let (object, last) = (info.object.clone(), info.queue_state);
        let nominated_node = last.and_then(|state| state.nominated_node);
        let state = QueueState::after_attempt(last, QueueingHint::NONE, self.now);
        info.queue_state =
            Some(QueueState { is_requeued: true, must_back_off: true, nominated_node, ..state });
        let message = format!("binding rejected: {}", failure.message);
        let status = FailureStatus { reason: "SchedulerError", message: &message, nominated_node: None };
        // The reason Unknown means that the outcome of the write was lost, which is not reported.
        if let Some(pod) = object.view::<Pod>().filter(|_| is_reported && failure.reason != "Unknown") {
            self.write_failure_status(id, &object, pod, &status, true);
        }
    }
}
