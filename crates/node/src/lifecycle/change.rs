//! Containers that run and are stopped, as somebody gave them another image.
//!
//! Since when stands in a condition of the pod, which stays as it is whatever else is written: it names the containers
//! whose end it counts for. Those that get another image in the meantime have their turn afterwards, as with a kubelet,
//! which stops all that it has found before it looks again.

use setpoint_api::Time;
use setpoint_reconcile::views::{Condition, condition};

use super::conditions::names;
use super::{Case, whole};
use crate::pod::{Container, ContainerStatus, Spec, Status};

/// The condition of a pod of which containers are stopped to be started with another image.
pub const CHANGING: &str = "setpoint.dev/ContainersChanging";

/// Whether a container that was given another image is stopped. What runs first, and ends, is left alone.
#[must_use]
pub fn is_followed(spec: &Spec, container: &Container) -> bool {
    container.is_sidecar() || spec.init_containers.iter().all(|one| one.name != container.name)
}

/// Since when a container is being stopped; nothing if that was not reported.
#[must_use]
pub fn begun(case: &Case<'_>, container: &Container) -> Option<Time> {
    let known = condition(&case.pod.status.conditions, CHANGING)?;
    known.last_transition_time.filter(|_| is_named(known, container))
}

fn is_named(known: &Condition, container: &Container) -> bool {
    known.message.trim_matches(['[', ']']).split(' ').any(|name| name == container.name)
}

/// The condition that tells of those that are being stopped: those that were before and still run, and those that are from
/// now on. One that was given another image too, and whose turn has not come, is not among them: its time has not begun.
#[must_use]
pub fn condition_of(case: &Case<'_>, status: &Status, replaced: &[&Container]) -> Option<Condition> {
    let still_stops = |one: &Container| {
        let runs = |own: &ContainerStatus| own.state.running.is_some() && own.image != one.image;
        begun(case, one).is_some() && status.of(&one.name).is_some_and(runs)
    };
    let is_stopping =
        |one: &&Container| still_stops(one) || replaced.iter().any(|other| other.name == one.name);
    let stopping: Vec<&Container> = case.pod.spec.all().filter(is_stopping).collect();
    if stopping.is_empty() || status.is_final() || case.meta.is_deleted() {
        return None;
    }
    let since = stopping.iter().find_map(|one| begun(case, one)).unwrap_or(whole(case.now));
    let mut new = Condition::new(CHANGING, "True", "ImageChanged", &names(&stopping), since);
    new.observed_generation = status.observed_generation;
    Some(new)
}
