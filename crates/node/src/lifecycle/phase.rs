//! Pod phase, computed from container statuses.

use super::restart;
use crate::pod::{ContainerStatus, Spec, Status};

/// Containers per state.
#[derive(Default)]
struct Count {
    unknown: usize,
    running: usize,
    waiting: usize,
    stopped: usize,
    stopped_for_good: usize,
    succeeded: usize,
}

/// Returns the phase of a pod. `is_ended` means that no container runs or will restart.
#[must_use]
pub fn phase(spec: &Spec, status: &Status, is_ended: bool) -> &'static str {
    let has_begun = spec.containers.iter().any(|one| status.of(&one.name).is_some_and(has_run));
    let (mut pending, mut failed) = (0, false);
    for container in spec.init_containers.iter().filter(|one| !one.is_sidecar()) {
        match status.of(&container.name).and_then(end_of) {
            Some(0) => {}
            Some(code) if restart::is_due(container, spec, code) && !is_ended => pending += 1,
            Some(_) => failed = true,
            // Once a regular container has started, the init containers must have completed.
            None => pending += usize::from(!has_begun),
        }
    }
    if failed {
        return "Failed";
    }
    let mut count = Count::default();
    for container in spec.init_containers.iter().filter(|one| one.is_sidecar()) {
        match status.of(&container.name) {
            None => count.unknown += 1,
            Some(status) if status.state.running.is_some() => {
                pending += usize::from(status.started != Some(true) && !has_begun);
                count.running += 1;
            }
            Some(status) if end_of(status).is_none() => {
                pending += usize::from(!has_begun);
                count.waiting += 1;
            }
            Some(_) => {}
        }
    }
    for container in &spec.containers {
        let Some(status) = status.of(&container.name) else {
            count.unknown += 1;
            continue;
        };
        match end_of(status) {
            _ if status.state.running.is_some() => count.running += 1,
            None => count.waiting += 1,
            Some(code) => {
                count.stopped += 1;
                count.succeeded += usize::from(code == 0 && status.state.terminated.is_some());
                count.stopped_for_good += usize::from(is_ended || !restart::is_due(container, spec, code));
            }
        }
    }
    if is_ended {
        // A stopped pod is Succeeded only if every container exited with 0.
        let has_succeeded = count.succeeded > 0 && count.succeeded == spec.containers.len();
        return if has_succeeded { "Succeeded" } else { "Failed" };
    }
    judge(&count, pending)
}

fn judge(count: &Count, pending: usize) -> &'static str {
    match count {
        _ if pending + count.waiting + count.unknown > 0 => "Pending",
        Count { running: 1.., .. } => "Running",
        Count { stopped, stopped_for_good, .. } if stopped != stopped_for_good => "Running",
        Count { stopped: 0, .. } => "Pending",
        Count { stopped, succeeded, .. } if stopped == succeeded => "Succeeded",
        _ => "Failed",
    }
}

/// Returns the exit code of a container; while it waits, that of its previous run.
fn end_of(status: &ContainerStatus) -> Option<i64> {
    let state = &status.state;
    let last = status.last_state.terminated.as_ref().filter(|_| state.waiting.is_some());
    state.terminated.as_ref().or(last).map(|end| end.exit_code)
}

fn has_run(status: &ContainerStatus) -> bool {
    status.state.running.is_some() || end_of(status).is_some()
}
