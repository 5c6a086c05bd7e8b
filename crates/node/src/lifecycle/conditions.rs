//! Pod conditions that a kubelet sets.

use setpoint_views::{Condition, condition};

use super::{Case, change, resize, whole};
use crate::pod::{Container, Status};

/// Condition types owned by the node.
const OWN: [&str; 8] = [
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
    resize::PENDING,
    resize::IN_PROGRESS,
    change::CHANGING,
];

/// Status, reason, message.
type Finding = (bool, &'static str, String);

/// Returns all conditions: those of other writers unchanged, then the node's own. `replaced` are the
/// containers that are being stopped because their image changed.
#[must_use]
pub fn conditions(
    case: &Case<'_>,
    status: &Status,
    has_sandbox: bool,
    replaced: &[&Container],
) -> Vec<Condition> {
    let old = &case.pod.status.conditions;
    let others = old.iter().filter(|one| !OWN.contains(&one.kind.as_str()));
    let mut all: Vec<Condition> = others.cloned().collect();
    let ready = containers_ready(case, status);
    let findings = [
        ("PodReadyToStartContainers", has_network(case, has_sandbox)),
        ("Initialized", initialized(case, status)),
        ("Ready", if ready.0 { gates(case, &all) } else { ready.clone() }),
        ("ContainersReady", ready),
        ("PodScheduled", (true, "", String::new())),
    ];
    for (kind, (is_true, reason, message)) in findings {
        let mut new =
            Condition::new(kind, if is_true { "True" } else { "False" }, reason, &message, whole(case.now));
        new.observed_generation = status.observed_generation;
        if let Some(known) = condition(old, kind).filter(|known| known.status == new.status) {
            new.last_transition_time = known.last_transition_time;
        }
        all.push(new);
    }
    all.extend(resize::conditions(case, status));
    all.extend(change::condition_of(case, status, replaced));
    all
}

fn has_network(case: &Case<'_>, has_sandbox: bool) -> Finding {
    (has_sandbox && !case.pod_ips.is_empty(), "", String::new())
}

/// Formats container names as in kubelet messages: `[a b]`.
pub(super) fn names(containers: &[&Container]) -> String {
    let names: Vec<&str> = containers.iter().map(|one| one.name.as_str()).collect();
    format!("[{}]", names.join(" "))
}

fn initialized(case: &Case<'_>, status: &Status) -> Finding {
    let spec = &case.pod.spec;
    if status.phase == "Succeeded" {
        return (true, "PodCompleted", String::new());
    }
    let has_started = |one: &Container| {
        status.of(&one.name).is_some_and(|status| {
            status.state.running.is_some()
                || status.state.terminated.is_some()
                || status.last_state.terminated.is_some()
        })
    };
    let is_missing = |one: &&Container| {
        let status = status.of(&one.name);
        !status
            .is_some_and(|status| if one.is_sidecar() { status.started == Some(true) } else { status.ready })
    };
    let missing: Vec<&Container> = spec.init_containers.iter().filter(is_missing).collect();
    if missing.is_empty() || spec.containers.iter().any(has_started) {
        return (true, "", String::new());
    }
    let message = format!("containers with incomplete status: {}", names(&missing));
    (false, "ContainersNotInitialized", message)
}

fn containers_ready(case: &Case<'_>, status: &Status) -> Finding {
    match status.phase.as_str() {
        "Succeeded" => return (false, "PodCompleted", String::new()),
        "Failed" => return (false, "PodFailed", String::new()),
        _ => {}
    }
    let spec = &case.pod.spec;
    let sidecars = spec.init_containers.iter().filter(|one| one.is_sidecar());
    let is_missing = |one: &&Container| !status.of(&one.name).is_some_and(|status| status.ready);
    let missing: Vec<&Container> = sidecars.chain(&spec.containers).filter(is_missing).collect();
    if missing.is_empty() {
        return (true, "", String::new());
    }
    (false, "ContainersNotReady", format!("containers with unready status: {}", names(&missing)))
}

/// Result of the readiness gates.
fn gates(case: &Case<'_>, others: &[Condition]) -> Finding {
    let closed = case.pod.spec.readiness_gates.iter().filter_map(|gate| {
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
    let closed: Vec<String> = closed.collect();
    if closed.is_empty() {
        return (true, "", String::new());
    }
    (false, "ReadinessGatesNotReady", closed.join(", "))
}
