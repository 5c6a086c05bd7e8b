//! Pod phase, computed from container statuses.

use super::restart;
use crate::pod::{ContainerStatus, PodSpec, PodStatus};

/// Containers per state.
#[derive(Default)]
struct ContainerCounts {
    unknown: usize,
    running: usize,
    waiting: usize,
    terminated: usize,
    terminated_for_good: usize,
    succeeded: usize,
}

/// Returns the phase of a pod. `is_terminated` means that no container runs or will restart.
#[must_use]
pub fn phase(spec: &PodSpec, status: &PodStatus, is_terminated: bool) -> &'static str {
    let has_started_any =
        spec.containers.iter().any(|one| status.container_status(&one.name).is_some_and(has_started));
    let (mut pending, mut failed) = (0, false);
    for container in spec.init_containers.iter().filter(|one| !one.is_sidecar()) {
        match status.container_status(&container.name).and_then(exit_code) {
            Some(0) => {}
            Some(code) if restart::should_restart(container, spec, code) && !is_terminated => pending += 1,
            Some(_) => failed = true,
            // Once a regular container has started, the init containers must have completed.
            None => pending += usize::from(!has_started_any),
        }
    }
    if failed {
        return "Failed";
    }
    let mut counts = ContainerCounts::default();
    for container in spec.init_containers.iter().filter(|one| one.is_sidecar()) {
        match status.container_status(&container.name) {
            None => counts.unknown += 1,
            Some(status) if status.state.running.is_some() => {
                pending += usize::from(status.started != Some(true) && !has_started_any);
                counts.running += 1;
            }
            Some(status) if exit_code(status).is_none() => {
                pending += usize::from(!has_started_any);
                counts.waiting += 1;
            }
            Some(_) => {}
        }
    }
    for container in &spec.containers {
        let Some(status) = status.container_status(&container.name) else {
            counts.unknown += 1;
            continue;
        };
        match exit_code(status) {
            _ if status.state.running.is_some() => counts.running += 1,
            None => counts.waiting += 1,
            Some(code) => {
                counts.terminated += 1;
                counts.succeeded += usize::from(code == 0 && status.state.terminated.is_some());
                counts.terminated_for_good +=
                    usize::from(is_terminated || !restart::should_restart(container, spec, code));
            }
        }
    }
    if is_terminated {
        // A stopped pod is Succeeded only if every container exited with 0.
        let has_succeeded = counts.succeeded > 0 && counts.succeeded == spec.containers.len();
        return if has_succeeded { "Succeeded" } else { "Failed" };
    }
    phase_of_counts(&counts, pending)
}

fn phase_of_counts(counts: &ContainerCounts, pending: usize) -> &'static str {
    match counts {
        _ if pending + counts.waiting + counts.unknown > 0 => "Pending",
        ContainerCounts { running: 1.., .. } => "Running",
        ContainerCounts { terminated, terminated_for_good, .. } if terminated != terminated_for_good => {
            "Running"
        }
        ContainerCounts { terminated: 0, .. } => "Pending",
        ContainerCounts { terminated, succeeded, .. } if terminated == succeeded => "Succeeded",
        _ => "Failed",
    }
}

/// Returns the exit code of a container; while it waits, that of its previous run.
fn exit_code(status: &ContainerStatus) -> Option<i64> {
    let state = &status.state;
    let last = status.last_state.terminated.as_ref().filter(|_| state.waiting.is_some());
    state.terminated.as_ref().or(last).map(|end| end.exit_code)
}

fn has_started(status: &ContainerStatus) -> bool {
    status.state.running.is_some() || exit_code(status).is_some()
}
