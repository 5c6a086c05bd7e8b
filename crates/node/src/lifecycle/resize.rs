//! In-place resize of running containers.
//!
//! Granted resources apply at once, unless the resize policy requires a restart; until then the container
//! keeps its old ones. A resize that is not granted changes nothing.

use serde::Serialize;
use setpoint_views::{Condition, condition};

use super::{Case, whole};
use crate::pod::{Container, ContainerStatus, Resources, Status};
use crate::resizing::{Verdict, are_same};
use crate::runtime::Run;

/// Condition of a pod whose resize is infeasible or deferred.
pub const PENDING: &str = "PodResizePending";
/// Condition of a pod whose granted resize waits for container restarts.
pub const IN_PROGRESS: &str = "PodResizeInProgress";

/// Resize state of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resize {
    /// `true` if the spec differs from the allocated resources.
    pub is_asking: bool,
    /// Result of the resize request, if it was decided.
    pub verdict: Option<Verdict>,
}

impl Resize {
    /// `true` if containers keep their allocated resources.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.is_asking && self.verdict != Some(Verdict::Granted)
    }
}

/// `true` if both have the same requests and limits.
fn is_same(one: &Resources, other: &Resources) -> bool {
    fn pairs(map: &std::collections::BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
        map.iter().map(|(name, amount)| (name.as_str(), amount.as_str()))
    }
    one == other
        || are_same(pairs(&one.requests), pairs(&other.requests))
            && are_same(pairs(&one.limits), pairs(&other.limits))
}

/// Returns the last reported resources of a run, if they differ from the spec.
fn had<'a>(case: &'a Case<'_>, container: &Container, run: &Run) -> Option<&'a Resources> {
    let old = case.pod.status.of(&container.name).filter(|old| old.container_id == run.id)?;
    old.resources.as_ref().filter(|had| !is_same(had, &container.resources))
}

/// `true` if a running container must restart to get the granted resources.
#[must_use]
pub fn needs_restart(case: &Case<'_>, container: &Container, run: &Run) -> bool {
    if container.resize_policy.is_empty() || case.resize.is_held() {
        return false;
    }
    let Some(had) = had(case, container, run) else { return false };
    let wanted = &container.resources;
    container.resize_policy.iter().filter(|policy| policy.restart_policy == "RestartContainer").any(
        |policy| {
            let name = &policy.resource_name;
            had.requests.get(name) != wanted.requests.get(name)
                || had.limits.get(name) != wanted.limits.get(name)
        },
    )
}

/// Returns the in-progress condition of a resize; `None` if it was not reported.
pub fn begun<'a>(case: &'a Case<'_>) -> Option<&'a Condition> {
    condition(&case.pod.status.conditions, IN_PROGRESS)
}

/// Sets the allocated and actual resources in a container's status.
pub fn report(case: &Case<'_>, container: &Container, run: &Run, status: &mut ContainerStatus) {
    let old = case.pod.status.of(&container.name);
    if let Some(old) = old.filter(|old| case.resize.is_held() && old.resources.is_some()) {
        status.allocated_resources.clone_from(&old.allocated_resources);
        status.resources.clone_from(&old.resources);
        return;
    }
    status.allocated_resources.clone_from(&container.resources.requests);
    let still = had(case, container, run).filter(|_| run.is_running() && needs_restart(case, container, run));
    status.resources = Some(still.unwrap_or(&container.resources).clone());
}

/// `true` if a container does not have the granted resources yet.
fn is_under_way(case: &Case<'_>, status: &Status) -> bool {
    !case.resize.is_held()
        && case.pod.spec.all().any(|container| {
            let own = status.of(&container.name).and_then(|status| status.resources.as_ref());
            own.is_some_and(|own| !is_same(own, &container.resources))
        })
}

/// Returns the resize conditions.
#[must_use]
pub fn conditions(case: &Case<'_>, status: &Status) -> Vec<Condition> {
    let old = &case.pod.status.conditions;
    if status.is_final() || case.meta.is_deleted() {
        return Vec::new();
    }
    let mut all = Vec::new();
    if case.resize.is_held() {
        let known = condition(old, PENDING);
        match &case.resize.verdict {
            Some(Verdict::Refused { reason, message }) => {
                let mut new = Condition::new(PENDING, "True", reason, message, whole(case.now));
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
    if is_under_way(case, status) {
        let new = || {
            let mut new = Condition::new(IN_PROGRESS, "True", "", "", whole(case.now));
            new.observed_generation = status.observed_generation;
            new
        };
        all.push(condition(old, IN_PROGRESS).cloned().unwrap_or_else(new));
    }
    all
}

/// Returns the Events of a resize: `true` for Normal, the reason, and the message.
#[must_use]
pub fn told(case: &Case<'_>, status: &Status) -> Vec<(bool, &'static str, String)> {
    let old = &case.pod.status;
    let mut told = Vec::new();
    if let Some(Verdict::Refused { reason, message }) = &case.resize.verdict {
        let is_known = condition(&old.conditions, PENDING).is_some_and(|known| {
            known.reason == *reason && known.observed_generation == status.observed_generation
        });
        if !is_known {
            let word = if *reason == "Infeasible" { "ResizeInfeasible" } else { "ResizeDeferred" };
            told.push((false, word, summary(case, &format!("Pod resize {reason}"), message)));
        }
    }
    let moves = |container: &Container| {
        let (old, new) = (old.of(&container.name), status.of(&container.name));
        let had = old.zip(new).filter(|(old, new)| old.container_id == new.container_id);
        let had = had.and_then(|(old, _)| old.resources.as_ref());
        had.is_some_and(|had| !is_same(had, &container.resources))
    };
    let was_under_way = begun(case).is_some();
    let starts = !case.resize.is_held() && !was_under_way && case.pod.spec.all().any(moves);
    if starts {
        told.push((true, "ResizeStarted", summary(case, "Pod resize started", "")));
    }
    let is_under_way = condition(&status.conditions, IN_PROGRESS).is_some();
    if (starts || was_under_way) && !is_under_way && !case.resize.is_held() && !status.is_final() {
        told.push((true, "ResizeCompleted", summary(case, "Pod resize completed", "")));
    }
    told
}

#[derive(Serialize)]
struct Part<'a> {
    name: &'a str,
    resources: &'a Resources,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<Part<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<Part<'a>>,
    generation: i64,
    #[serde(skip_serializing_if = "str::is_empty")]
    error: &'a str,
}

/// Formats the requested resources for Events.
fn summary(case: &Case<'_>, what: &str, error: &str) -> String {
    fn parts(containers: &[Container]) -> Vec<Part<'_>> {
        containers.iter().map(|one| Part { name: &one.name, resources: &one.resources }).collect()
    }
    let summary = Summary {
        init_containers: parts(&case.pod.spec.init_containers),
        containers: parts(&case.pod.spec.containers),
        generation: case.meta.generation,
        error,
    };
    format!("{what}: {}", serde_json::to_string(&summary).unwrap_or_default())
}
