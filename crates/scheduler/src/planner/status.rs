//! What is written into the status of a pod that has no node.

use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Time, Value, value};
use setpoint_reconcile::views::condition;
use setpoint_reconcile::views::pod::Pod;
use setpoint_reconcile::{Act, Object, Write};

/// Why a pod has no node.
#[derive(Clone, Copy)]
pub(super) struct Words<'a> {
    /// In one word.
    pub reason: &'static str,
    /// In words.
    pub message: &'a str,
    /// The node that it is promised, empty for none; nothing if that stays as it is.
    pub nominated: Option<&'a str>,
}

/// Writes into the status of a pod that no node would do, unless it says so already. Where nothing is remembered of
/// the pod, words that only read otherwise are left until it is tried again for a reason.
pub(super) fn status(object: &Object, pod: &Pod, words: &Words<'_>, knows: bool, now: Time) -> Option<Act> {
    let Words { reason, message, nominated } = *words;
    let found = condition(&pod.status.conditions, "PodScheduled");
    let is_said = found.is_some_and(|found| {
        found.status == "False" && found.reason == reason && (!knows || &*found.message == message)
    });
    let renames = nominated.is_some_and(|name| name != pod.status.nominated_node_name);
    if is_said && !renames {
        return None;
    }
    let since = found.filter(|found| found.status == "False").and_then(|found| found.last_transition_time);
    let told = value!({
        "type": "PodScheduled", "status": "False", "reason": (reason), "message": (message),
        "lastProbeTime": null, "lastTransitionTime": (Seconds(since.unwrap_or(now)).to_string()),
        "observedGeneration": (Some(object.meta().generation).filter(|generation| *generation > 0)),
    });
    let mut patch = value!({"conditions": [(told)]});
    if let Some(name) = nominated.filter(|_| renames) {
        let name = if name.is_empty() { Value::Null } else { Value::from(name) };
        patch.make_map().insert("nominatedNodeName", name);
    }
    // Whatever else was written meanwhile: a conflict would take the writes of other pods with it.
    Some(Write::status(object, patch).strategic().at_any_revision().into())
}
