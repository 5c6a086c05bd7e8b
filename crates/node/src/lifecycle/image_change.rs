//! Containers that are killed because their image changed.
//!
//! A pod condition records the start of the termination and the names of the containers, so that other writes of the
//! pod do not restart the grace period. Containers whose image changes in the meantime are killed
//! afterwards, as with a kubelet, which finishes one sync before the next.

use setpoint_api::Time;
use setpoint_views::{Condition, condition};

use super::conditions::join_names;
use super::{SyncInput, truncate_to_seconds};
use crate::pod::{Container, ContainerStatus, PodSpec, PodStatus};

/// Condition of a pod with containers that are being killed because of an image change.
pub const CONTAINERS_CHANGING: &str = "setpoint.dev/ContainersChanging";

/// `true` if an image change restarts the container. Init containers that are not sidecars ignore it.
#[must_use]
pub fn restarts_container(spec: &PodSpec, container: &Container) -> bool {
    container.is_sidecar() || spec.init_containers.iter().all(|one| one.name != container.name)
}

/// Returns the reported start of a container's termination; `None` if there is none.
#[must_use]
pub fn kill_started_at(input: &SyncInput<'_>, container: &Container) -> Option<Time> {
    let known = condition(&input.pod.status.conditions, CONTAINERS_CHANGING)?;
    known.last_transition_time.filter(|_| is_named(known, container))
}

fn is_named(known: &Condition, container: &Container) -> bool {
    known.message.trim_matches(['[', ']']).split(' ').any(|name| name == container.name)
}

/// Returns the condition for the containers that are being killed: those of the last report that still run,
/// and those in `replaced`. A container that still waits is not included, since its grace period
/// has not begun.
#[must_use]
pub fn changing_condition(
    input: &SyncInput<'_>,
    status: &PodStatus,
    replaced: &[&Container],
) -> Option<Condition> {
    let is_being_killed = |one: &Container| {
        let runs = |own: &ContainerStatus| own.state.running.is_some() && own.image != one.image;
        kill_started_at(input, one).is_some() && status.container_status(&one.name).is_some_and(runs)
    };
    let is_included =
        |one: &&Container| is_being_killed(one) || replaced.iter().any(|other| other.name == one.name);
    let being_killed: Vec<&Container> = input.pod.spec.all_containers().filter(is_included).collect();
    if being_killed.is_empty() || status.is_terminal() || input.meta.is_deleted() {
        return None;
    }
    let since = being_killed
        .iter()
        .find_map(|one| kill_started_at(input, one))
        .unwrap_or(truncate_to_seconds(input.now));
    let mut new =
        Condition::new(CONTAINERS_CHANGING, "True", "ImageChanged", &join_names(&being_killed), since);
    new.observed_generation = status.observed_generation;
    Some(new)
}
