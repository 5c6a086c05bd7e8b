//! Status of a pod that could not be scheduled: its `PodScheduled` condition and `nominatedNodeName`.

use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Time, Value, value};
use setpoint_reconcile::{Action, Object, Write};
use setpoint_views::condition;
use setpoint_views::pod::Pod;

/// Outcome of a failed attempt.
#[derive(Clone, Copy)]
pub(super) struct FailureStatus<'a> {
    /// Reason of the condition: `Unschedulable` or `SchedulerError`.
    pub reason: &'static str,
    /// Message of the condition.
    pub message: &'a str,
    /// `nominatedNodeName`, empty to clear it; `None` to leave it.
    pub nominated_node: Option<&'a str>,
}

/// Returns the status patch for a failed attempt; `None` if the status is up to date.
///
/// With `compares_message` unset, a condition that differs in its message only is left alone: after a restart, the first
/// attempt need not rewrite the status of every pod.
pub(super) fn status_patch(
    object: &Object,
    pod: &Pod,
    failure: &FailureStatus<'_>,
    compares_message: bool,
    now: Time,
) -> Option<Action> {
    let FailureStatus { reason, message, nominated_node } = *failure;
    let found = condition(&pod.status.conditions, "PodScheduled");
    let is_current = found.is_some_and(|found| {
        found.status == "False" && found.reason == reason && (!compares_message || &*found.message == message)
    });
    let changes_nomination = nominated_node.is_some_and(|name| name != pod.status.nominated_node_name);
    if is_current && !changes_nomination {
        return None;
    }
    let since = found.filter(|found| found.status == "False").and_then(|found| found.last_transition_time);
    let condition = value!({
        "type": "PodScheduled", "status": "False", "reason": (reason), "message": (message),
        "lastProbeTime": null, "lastTransitionTime": (Seconds(since.unwrap_or(now)).to_string()),
        "observedGeneration": (Some(object.meta().generation).filter(|generation| *generation > 0)),
    });
    let mut patch = value!({"conditions": [(condition)]});
    if let Some(name) = nominated_node.filter(|_| changes_nomination) {
        let name = if name.is_empty() { Value::Null } else { Value::from(name) };
        patch.make_map().insert("nominatedNodeName", name);
    }
    // At any revision: a conflict would drop the writes for other pods in the same stage.
    Some(Write::status(object, patch).strategic().at_any_revision().into())
}
