//! Pod conditions that a kubelet sets.

use setpoint_views::{Condition, condition};

use super::{SyncInput, image_change, resize, truncate_to_seconds};
use crate::pod::{Container, PodStatus};

/// Condition types owned by the node.
const OWNED_TYPES: [&str; 8] = [
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
    resize::PENDING,
    resize::IN_PROGRESS,
    image_change::CONTAINERS_CHANGING,
];

/// Status, reason, message.
type ConditionResult = (bool, &'static str, String);

/// Returns all conditions: those of other writers unchanged, then the node's own. `replaced` are the
/// containers that are being stopped because their image changed.
#[must_use]
pub fn conditions(
    input: &SyncInput<'_>,
    status: &PodStatus,
    has_sandbox: bool,
    replaced: &[&Container],
) -> Vec<Condition> {
    let old = &input.pod.status.conditions;
    let others = old.iter().filter(|one| !OWNED_TYPES.contains(&one.kind.as_str()));
    let mut all: Vec<Condition> = others.cloned().collect();
    let ready = containers_ready(input, status);
    let results = [
        ("PodReadyToStartContainers", ready_to_start_containers(input, has_sandbox)),
        ("Initialized", initialized(input, status)),
        ("Ready", if ready.0 { readiness_gates(input, &all) } else { ready.clone() }),
        ("ContainersReady", ready),
        ("PodScheduled", (true, "", String::new())),
    ];
    for (kind, (is_true, reason, message)) in results {
        let mut new = Condition::new(
            kind,
            if is_true { "True" } else { "False" },
            reason,
            &message,
            truncate_to_seconds(input.now),
        );
        new.observed_generation = status.observed_generation;
        if let Some(known) = condition(old, kind).filter(|known| known.status == new.status) {
            new.last_transition_time = known.last_transition_time;
        }
        all.push(new);
    }
    all.extend(resize::conditions(input, status));
    all.extend(image_change::changing_condition(input, status, replaced));
    all
}

fn ready_to_start_containers(input: &SyncInput<'_>, has_sandbox: bool) -> ConditionResult {
    (has_sandbox && !input.pod_ips.is_empty(), "", String::new())
}

/// Formats container names as in kubelet messages: `[a b]`.
pub(super) fn join_names(containers: &[&Container]) -> String {
    let names: Vec<&str> = containers.iter().map(|one| one.name.as_str()).collect();
    format!("[{}]", names.join(" "))
}

fn initialized(input: &SyncInput<'_>, status: &PodStatus) -> ConditionResult {
    let spec = &input.pod.spec;
    if status.phase == "Succeeded" {
        return (true, "PodCompleted", String::new());
    }
    let has_started = |one: &Container| {
        status.container_status(&one.name).is_some_and(|status| {
            status.state.running.is_some()
                || status.state.terminated.is_some()
                || status.last_state.terminated.is_some()
        })
    };
    let is_missing = |one: &&Container| {
        let status = status.container_status(&one.name);
        !status
            .is_some_and(|status| if one.is_sidecar() { status.started == Some(true) } else { status.ready })
    };
    let missing: Vec<&Container> = spec.init_containers.iter().filter(is_missing).collect();
    if missing.is_empty() || spec.containers.iter().any(has_started) {
        return (true, "", String::new());
    }
    let message = format!("containers with incomplete status: {}", join_names(&missing));
    (false, "ContainersNotInitialized", message)
}

fn containers_ready(input: &SyncInput<'_>, status: &PodStatus) -> ConditionResult {
    match status.phase.as_str() {
        "Succeeded" => return (false, "PodCompleted", String::new()),
        "Failed" => return (false, "PodFailed", String::new()),
        _ => {}
    }
    let spec = &input.pod.spec;
    let sidecars = spec.init_containers.iter().filter(|one| one.is_sidecar());
    let is_missing =
        |one: &&Container| !status.container_status(&one.name).is_some_and(|status| status.ready);
    let missing: Vec<&Container> = sidecars.chain(&spec.containers).filter(is_missing).collect();
    if missing.is_empty() {
        return (true, "", String::new());
    }
    (false, "ContainersNotReady", format!("containers with unready status: {}", join_names(&missing)))
}

/// Result of the readiness gates.
fn readiness_gates(input: &SyncInput<'_>, others: &[Condition]) -> ConditionResult {
    let failing = input.pod.spec.readiness_gates.iter().filter_map(|gate| {
        let kind = &gate.condition_type;
        match condition(others, kind) {
            None => Some(format!("corresponding condition of pod readiness gate {kind:?} does not exist.")),
            Some(known) if !known.is_true() => Some(format!(
                "the status of pod readiness gate {kind:?} is not \"True\", but {}",
                known.status
            )),
            Some(_) => None,
        }
    });
    let failing: Vec<String> = failing.collect();
    if failing.is_empty() {
        return (true, "", String::new());
    }
    (false, "ReadinessGatesNotReady", failing.join(", "))
}
