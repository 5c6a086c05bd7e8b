//! Events of a pod, with the reasons and messages of a kubelet.
//!
//! Events that accompany a status change are emitted with its write. Transitions without a status change are
//! emitted once, too: see [`crate::lifecycle::SyncInput::last_write`].

use setpoint_reconcile::EventRecord;
use setpoint_reconcile::plan::InvolvedObject;
use setpoint_views::{Condition, condition};

use super::IMAGE_BYTES;
use crate::lifecycle::restart::format_duration;
use crate::lifecycle::{FAILED_POST_START, SyncInput, SyncResult, resize};
use crate::pod::{Container, ContainerStatus, Pod, PodStatus};
use crate::references::CONFIG_ERROR;
use crate::runtime::{ContainerRuntime, RuntimeAction};
use crate::simulated::SimulatedRuntime;

/// Returns all Events of one sync; `events_of_actions` are those of performed actions.
pub fn pod_events(
    input: &SyncInput<'_>,
    runtime: &SimulatedRuntime<'_>,
    result: &SyncResult,
    events_of_actions: Vec<EventRecord>,
    subject: &InvolvedObject,
) -> Vec<EventRecord> {
    let mut events = killing_events(input, subject);
    events.extend(sandbox_changed_event(input, runtime, subject));
    events.extend(deadline_exceeded_event(result, subject));
    events.extend(events_of_actions);
    events.extend(pulling_events(input, result, subject));
    events.extend(unhealthy_events(input, result, subject));
    if result.status != input.pod.status {
        events.extend(waiting_events(input, runtime, &result.status, subject));
        events.extend(failed_mount_event(input, result, subject));
        events.extend(resize_events(input, &result.status, subject));
    }
    events
}

/// `Killing` Events of a deleted pod. Emitted once: the next status carries the generation of the deletion.
fn killing_events(input: &SyncInput<'_>, subject: &InvolvedObject) -> Vec<EventRecord> {
    let SyncInput { pod, meta, .. } = input;
    if !meta.is_deleted() || pod.status.observed_generation == Some(meta.generation) {
        return Vec::new();
    }
    let runs = |one: &&Container| {
        pod.status.container_status(&one.name).is_some_and(|status| status.state.running.is_some())
    };
    let event = |one: &Container| {
        let subject = subject.clone().with_field_path(field_path(pod, &one.name));
        subject.normal("Killing", format!("Stopping container {}", one.name))
    };
    pod.spec.all_containers().filter(runs).map(event).collect()
}

/// `Pulling` Events of pulls that start now.
fn pulling_events(input: &SyncInput<'_>, result: &SyncResult, subject: &InvolvedObject) -> Vec<EventRecord> {
    let started = input.pod.spec.all_containers().filter(|one| result.newly_pulling.contains(&one.name));
    let event = |one: &Container| {
        pulling_event(one, &subject.clone().with_field_path(field_path(input.pod, &one.name)))
    };
    started.map(event).collect()
}

fn pulling_event(container: &Container, subject: &InvolvedObject) -> EventRecord {
    subject.normal("Pulling", format!("Pulling image {:?}", container.image))
}

/// `Unhealthy` Events of containers whose readiness probe starts to fail.
fn unhealthy_events(
    input: &SyncInput<'_>,
    result: &SyncResult,
    subject: &InvolvedObject,
) -> Vec<EventRecord> {
    let event = |name: &String| {
        let subject = subject.clone().with_field_path(field_path(input.pod, name));
        subject.warning("Unhealthy", "Readiness probe failed: simulated")
    };
    result.newly_unready.iter().map(event).collect()
}

/// `SandboxChanged` Event of a pod that lost its sandbox.
fn sandbox_changed_event(
    input: &SyncInput<'_>,
    runtime: &impl ContainerRuntime,
    subject: &InvolvedObject,
) -> Option<EventRecord> {
    let sandbox = runtime.sandbox_created_at();
    let ran_before = |one: &Container| {
        let status = input.pod.status.container_status(&one.name)?;
        status.state.running.as_ref()?.started_at.filter(|started| *started < sandbox)
    };
    let is_lost =
        !input.meta.is_deleted() && input.pod.spec.all_containers().any(|one| ran_before(one).is_some());
    is_lost
        .then(|| subject.normal("SandboxChanged", "Pod sandbox changed, it will be killed and re-created."))
}

/// `FailedMount` Event of a pod that starts to wait for its volumes.
fn failed_mount_event(
    input: &SyncInput<'_>,
    result: &SyncResult,
    subject: &InvolvedObject,
) -> Option<EventRecord> {
    let reported = condition(&input.pod.status.conditions, "PodReadyToStartContainers");
    let is_new = reported.is_none_or(Condition::is_true);
    result.mount_error.clone().filter(|_| is_new).map(|error| subject.warning("FailedMount", error))
}

/// Events of a pod's resize.
fn resize_events(input: &SyncInput<'_>, status: &PodStatus, subject: &InvolvedObject) -> Vec<EventRecord> {
    let event = |(is_normal, reason, message): (bool, &'static str, String)| {
        if is_normal { subject.normal(reason, message) } else { subject.warning(reason, message) }
    };
    resize::events(input, status).into_iter().map(event).collect()
}

/// `DeadlineExceeded` Event of a pod that exceeds its active deadline.
fn deadline_exceeded_event(result: &SyncResult, subject: &InvolvedObject) -> Option<EventRecord> {
    let (reason, message) = result.deadline_exceeded?;
    Some(subject.normal(reason, message))
}

fn field_path(pod: &Pod, name: &str) -> String {
    let is_init = pod.spec.init_containers.iter().any(|one| one.name == name);
    format!("spec.{}{{{name}}}", if is_init { "initContainers" } else { "containers" })
}

/// Returns the Events of a runtime action.
pub fn action_events(
    action: &RuntimeAction,
    pod: &Pod,
    runtime: &SimulatedRuntime<'_>,
    subject: &InvolvedObject,
) -> Vec<EventRecord> {
    let (RuntimeAction::StartContainer { container: name, .. }
    | RuntimeAction::KillContainer { container: name, .. }) = action;
    let subject = subject.clone().with_field_path(field_path(pod, name));
    let Some(container) = pod.spec.all_containers().find(|one| one.name == *name) else { return Vec::new() };
    let image = &container.image;
    match action {
        RuntimeAction::StartContainer { pull_duration, .. } => {
            let mut events = Vec::with_capacity(4);
            match pull_duration {
                Some(duration) => {
                    events.extend(
                        (!runtime.has_visible_pull(name)).then(|| pulling_event(container, &subject)),
                    );
                    let duration = format_duration(*duration);
                    let message = format!(
                        "Successfully pulled image {image:?} in {duration} ({duration} including waiting). Image size: {IMAGE_BYTES} bytes."
                    );
                    events.push(subject.normal("Pulled", message));
                }
                None => {
                    let message = format!(
                        "Container image {image:?} already present on machine and can be accessed by the pod"
                    );
                    events.push(subject.normal("Pulled", message));
                }
            }
            events.push(subject.normal("Created", "Container created"));
            events.push(match runtime.start_error(name) {
                Some(error) => subject.warning("Failed", format!("Error: {error}")),
                None => subject.normal("Started", "Container started"),
            });
            events
        }
        RuntimeAction::KillContainer { message, .. } => {
            let probe =
                ["Liveness", "Startup"].into_iter().find(|probe| message.contains(&probe.to_lowercase()));
            let failed = probe.filter(|_| message.contains(" failed "));
            let hook = Some(message).filter(|message| *message == FAILED_POST_START);
            let hook = hook.map(|_| subject.warning(FAILED_POST_START, "PostStartHook failed"));
            let unhealthy =
                failed.map(|probe| subject.warning("Unhealthy", format!("{probe} probe failed: simulated")));
            unhealthy.into_iter().chain(hook).chain([subject.normal("Killing", message.clone())]).collect()
        }
    }
}

/// Events of containers that start to wait.
fn waiting_events(
    input: &SyncInput<'_>,
    runtime: &SimulatedRuntime<'_>,
    status: &PodStatus,
    subject: &InvolvedObject,
) -> Vec<EventRecord> {
    let waiting_reason = |status: Option<&ContainerStatus>| {
        status.and_then(|status| status.state.waiting.as_ref()).map(|waiting| waiting.reason.clone())
    };
    let mut events = Vec::new();
    for container in input.pod.spec.all_containers() {
        let (new, old) =
            (status.container_status(&container.name), input.pod.status.container_status(&container.name));
        // A container that crashes at once is waiting in both statuses; the restart counts differ.
        let restarts = |status: Option<&ContainerStatus>| status.map_or(0, |status| status.restart_count);
        let is_new =
            |reason: &String| waiting_reason(old).as_ref() != Some(reason) || restarts(old) != restarts(new);
        let Some(reason) = waiting_reason(new).filter(is_new) else { continue };
        let message = new.and_then(|new| new.state.waiting.as_ref()).map(|waiting| waiting.message.as_str());
        let subject = subject.clone().with_field_path(field_path(input.pod, &container.name));
        if reason == "ErrImagePull" && !runtime.has_visible_pull(&container.name) {
            events.push(pulling_event(container, &subject));
        }
        events.extend(waiting_reason_events(
            container,
            &reason,
            message.unwrap_or_default(),
            input,
            &subject,
        ));
    }
    events
}

fn waiting_reason_events(
    container: &Container,
    reason: &str,
    message: &str,
    input: &SyncInput<'_>,
    subject: &InvolvedObject,
) -> Vec<EventRecord> {
    let image = &container.image;
    let failed = |error: &str| subject.warning("Failed", format!("Error: {error}"));
    match reason {
        "CrashLoopBackOff" => {
            let (name, pod) = (&container.name, input.full_name());
            let message = format!("Back-off restarting failed container {name} in pod {pod}");
            vec![subject.warning("BackOff", message)]
        }
        "ErrImagePull" => {
            vec![
                subject.warning("Failed", format!("Failed to pull image {image:?}: {message}")),
                failed(reason),
            ]
        }
        "ImagePullBackOff" => {
            vec![subject.normal("BackOff", format!("Back-off pulling image {image:?}")), failed(reason)]
        }
        CONFIG_ERROR => vec![failed(message)],
        "InvalidImageName" => vec![subject.warning("InspectFailed", message), failed(reason)],
        "ErrImageNeverPull" => vec![subject.warning("ErrImageNeverPull", message), failed(reason)],
        _ => Vec::new(),
    }
}
