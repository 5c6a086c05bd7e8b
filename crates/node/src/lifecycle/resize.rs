//! In-place resize of running containers.
//!
//! A granted resize takes effect at once, or with the restart that the resize policy requires; until then the container
//! keeps its old resources. A deferred or infeasible resize changes only the conditions of the pod.

use serde::Serialize;
use setpoint_views::{Condition, condition};

use super::{SyncInput, truncate_to_seconds};
use crate::allocation::{ResizeDecision, are_quantities_equal};
use crate::pod::{Container, ContainerStatus, PodStatus, ResourceRequirements};
use crate::runtime::ContainerRun;

/// Condition of a pod whose resize is infeasible or deferred.
pub const PENDING: &str = "PodResizePending";
/// Condition of a pod whose granted resize waits for container restarts.
pub const IN_PROGRESS: &str = "PodResizeInProgress";

/// Resize state of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResizeState {
    /// `true` if the spec differs from the allocated resources.
    pub is_requested: bool,
    /// Result of the resize request, if it was decided.
    pub decision: Option<ResizeDecision>,
}

impl ResizeState {
    /// `true` if containers keep their allocated resources.
    #[must_use]
    pub fn keeps_allocation(&self) -> bool {
        self.is_requested && self.decision != Some(ResizeDecision::Granted)
    }
}

/// `true` if both have the same requests and limits.
fn is_equal(one: &ResourceRequirements, other: &ResourceRequirements) -> bool {
    fn pairs(map: &std::collections::BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
        map.iter().map(|(name, amount)| (name.as_str(), amount.as_str()))
    }
    one == other
        || are_quantities_equal(pairs(&one.requests), pairs(&other.requests))
            && are_quantities_equal(pairs(&one.limits), pairs(&other.limits))
}

/// Returns the last reported resources of a run, if they differ from the spec.
fn outdated_resources<'a>(
    input: &'a SyncInput<'_>,
    container: &Container,
    run: &ContainerRun,
) -> Option<&'a ResourceRequirements> {
    let old = input
        .pod
        .status
        .container_status(&container.name)
        .filter(|old| old.container_id == run.container_id)?;
    old.resources.as_ref().filter(|reported| !is_equal(reported, &container.resources))
}

/// `true` if a running container must restart to get the granted resources.
#[must_use]
pub fn needs_restart(input: &SyncInput<'_>, container: &Container, run: &ContainerRun) -> bool {
    if container.resize_policy.is_empty() || input.resize.keeps_allocation() {
        return false;
    }
    let Some(reported) = outdated_resources(input, container, run) else { return false };
    let wanted = &container.resources;
    container.resize_policy.iter().filter(|policy| policy.restart_policy == "RestartContainer").any(
        |policy| {
            let name = &policy.resource_name;
            reported.requests.get(name) != wanted.requests.get(name)
                || reported.limits.get(name) != wanted.limits.get(name)
        },
    )
}

/// Returns the in-progress condition of a resize; `None` if it was not reported.
pub fn in_progress_condition<'a>(input: &'a SyncInput<'_>) -> Option<&'a Condition> {
    condition(&input.pod.status.conditions, IN_PROGRESS)
}

/// Sets the allocated and actual resources in a container's status.
pub fn set_resources(
    input: &SyncInput<'_>,
    container: &Container,
    run: &ContainerRun,
    status: &mut ContainerStatus,
) {
    let old = input.pod.status.container_status(&container.name);
    if let Some(old) = old.filter(|old| input.resize.keeps_allocation() && old.resources.is_some()) {
        status.allocated_resources.clone_from(&old.allocated_resources);
        status.resources.clone_from(&old.resources);
        return;
    }
    status.allocated_resources.clone_from(&container.resources.requests);
    let current = outdated_resources(input, container, run)
        .filter(|_| run.is_running() && needs_restart(input, container, run));
    status.resources = Some(current.unwrap_or(&container.resources).clone());
}

/// `true` if a container does not have the granted resources yet.
fn is_in_progress(input: &SyncInput<'_>, status: &PodStatus) -> bool {
    !input.resize.keeps_allocation()
        && input.pod.spec.all_containers().any(|container| {
            let actual =
                status.container_status(&container.name).and_then(|status| status.resources.as_ref());
            actual.is_some_and(|actual| !is_equal(actual, &container.resources))
        })
}

/// Returns the `PodResizePending` and `PodResizeInProgress` conditions of the pod.
#[must_use]
pub fn conditions(input: &SyncInput<'_>, status: &PodStatus) -> Vec<Condition> {
    let old = &input.pod.status.conditions;
    if status.is_terminal() || input.meta.is_deleted() {
        return Vec::new();
    }
    let mut all = Vec::new();
    if input.resize.keeps_allocation() {
        let known = condition(old, PENDING);
        match &input.resize.decision {
            Some(ResizeDecision::Rejected { reason, message }) => {
                let mut new =
                    Condition::new(PENDING, "True", reason, message, truncate_to_seconds(input.now));
                new.observed_generation = status.observed_generation;
                if let Some(known) = known.filter(|known| known.reason == new.reason) {
                    new.last_transition_time = known.last_transition_time;
                    // The message depends on the node's current usage; it is updated only for a new
                    // generation.
                    if known.observed_generation == new.observed_generation {
                        new.message.clone_from(&known.message);
                    }
                }
                all.push(new);
            }
            _ => all.extend(known.cloned()),
        }
    }
    if is_in_progress(input, status) {
        let new = || {
            let mut new = Condition::new(IN_PROGRESS, "True", "", "", truncate_to_seconds(input.now));
            new.observed_generation = status.observed_generation;
            new
        };
        all.push(condition(old, IN_PROGRESS).cloned().unwrap_or_else(new));
    }
    all
}

/// Returns the Events of a resize. Each is `true` for type Normal or `false` for Warning, the reason, and the message.
#[must_use]
pub fn events(input: &SyncInput<'_>, status: &PodStatus) -> Vec<(bool, &'static str, String)> {
    let old = &input.pod.status;
    let mut events = Vec::new();
    if let Some(ResizeDecision::Rejected { reason, message }) = &input.resize.decision {
        let is_known = condition(&old.conditions, PENDING).is_some_and(|known| {
            known.reason == *reason && known.observed_generation == status.observed_generation
        });
        if !is_known {
            let event_reason = if *reason == "Infeasible" { "ResizeInfeasible" } else { "ResizeDeferred" };
            events.push((
                false,
                event_reason,
                event_message(input, &format!("Pod resize {reason}"), message),
            ));
        }
    }
    let changes = |container: &Container| {
        let (old, new) = (old.container_status(&container.name), status.container_status(&container.name));
        let same_run = old.zip(new).filter(|(old, new)| old.container_id == new.container_id);
        let reported = same_run.and_then(|(old, _)| old.resources.as_ref());
        reported.is_some_and(|reported| !is_equal(reported, &container.resources))
    };
    let was_in_progress = in_progress_condition(input).is_some();
    let starts =
        !input.resize.keeps_allocation() && !was_in_progress && input.pod.spec.all_containers().any(changes);
    if starts {
        events.push((true, "ResizeStarted", event_message(input, "Pod resize started", "")));
    }
    let is_in_progress = condition(&status.conditions, IN_PROGRESS).is_some();
    if (starts || was_in_progress)
        && !is_in_progress
        && !input.resize.keeps_allocation()
        && !status.is_terminal()
    {
        events.push((true, "ResizeCompleted", event_message(input, "Pod resize completed", "")));
    }
    events
}

#[derive(Serialize)]
struct ContainerResources<'a> {
    name: &'a str,
    resources: &'a ResourceRequirements,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<ContainerResources<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<ContainerResources<'a>>,
    generation: i64,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'a str,
}

/// Formats an Event message: `text`, and the requested resources as JSON.
fn event_message(input: &SyncInput<'_>, text: &str, error: &str) -> String {
    fn resources_of(containers: &[Container]) -> Vec<ContainerResources<'_>> {
        containers
            .iter()
            .map(|one| ContainerResources { name: &one.name, resources: &one.resources })
            .collect()
    }
    let summary = Summary {
        init_containers: resources_of(&input.pod.spec.init_containers),
        containers: resources_of(&input.pod.spec.containers),
        generation: input.meta.generation,
        error,
    };
    format!("{text}: {}", serde_json::to_string(&summary).unwrap_or_default())
}
