//! Events of a pod, with the reasons and messages of a kubelet.
//!
//! Events that accompany a status change are emitted with its write. Transitions without a status change are
//! emitted once, too: see [`crate::lifecycle::Case::written`].

use setpoint_reconcile::EventRecord;
use setpoint_reconcile::plan::InvolvedObject;
use setpoint_views::{Condition, condition};

use super::IMAGE_BYTES;
use crate::lifecycle::restart::shown;
use crate::lifecycle::{Case, FAILED_POST_START, Outlook, resize};
use crate::needs::CONFIG_ERROR;
use crate::pod::{Container, ContainerStatus, Pod, Status};
use crate::runtime::{Deed, Runtime};
use crate::simulated::Simulated;

/// Returns all Events of one sync; `done` are those of performed actions.
pub fn notes(
    case: &Case<'_>,
    runtime: &Simulated<'_>,
    outlook: &Outlook,
    done: Vec<EventRecord>,
    subject: &InvolvedObject,
) -> Vec<EventRecord> {
    let mut notes = ending(case, subject);
    notes.extend(lost(case, runtime, subject));
    notes.extend(overdue(outlook, subject));
    notes.extend(done);
    notes.extend(pulls(case, outlook, subject));
    notes.extend(unready(case, outlook, subject));
    if outlook.status != case.pod.status {
        notes.extend(waits(case, runtime, &outlook.status, subject));
        notes.extend(unmounted(case, outlook, subject));
        notes.extend(resized(case, &outlook.status, subject));
    }
    notes
}

/// `Killing` Events of a deleted pod. Emitted once: the next status carries the generation of the deletion.
fn ending(case: &Case<'_>, subject: &InvolvedObject) -> Vec<EventRecord> {
    let Case { pod, meta, .. } = case;
    if !meta.is_deleted() || pod.status.observed_generation == Some(meta.generation) {
        return Vec::new();
    }
    let runs =
        |one: &&Container| pod.status.of(&one.name).is_some_and(|status| status.state.running.is_some());
    let note = |one: &Container| {
        let subject = subject.clone().with_field_path(part(pod, &one.name));
        subject.normal("Killing", format!("Stopping container {}", one.name))
    };
    pod.spec.all().filter(runs).map(note).collect()
}

/// `Pulling` Events of pulls that start now.
fn pulls(case: &Case<'_>, outlook: &Outlook, subject: &InvolvedObject) -> Vec<EventRecord> {
    let begun = case.pod.spec.all().filter(|one| outlook.pulling.contains(&one.name));
    let note = |one: &Container| pulling(one, &subject.clone().with_field_path(part(case.pod, &one.name)));
    begun.map(note).collect()
}

fn pulling(container: &Container, subject: &InvolvedObject) -> EventRecord {
    subject.normal("Pulling", format!("Pulling image {:?}", container.image))
}

/// `Unhealthy` Events of containers whose readiness probe starts to fail.
fn unready(case: &Case<'_>, outlook: &Outlook, subject: &InvolvedObject) -> Vec<EventRecord> {
    let note = |name: &String| {
        let subject = subject.clone().with_field_path(part(case.pod, name));
        subject.warning("Unhealthy", "Readiness probe failed: simulated")
    };
    outlook.unready.iter().map(note).collect()
}

/// `SandboxChanged` Event of a pod that lost its sandbox.
fn lost(case: &Case<'_>, runtime: &impl Runtime, subject: &InvolvedObject) -> Option<EventRecord> {
    let sandbox = runtime.sandbox();
    let ran_before = |one: &Container| {
        let status = case.pod.status.of(&one.name)?;
        status.state.running.as_ref()?.started_at.filter(|started| *started < sandbox)
    };
    let is_lost = !case.meta.is_deleted() && case.pod.spec.all().any(|one| ran_before(one).is_some());
    is_lost
        .then(|| subject.normal("SandboxChanged", "Pod sandbox changed, it will be killed and re-created."))
}

/// `FailedMount` Event of a pod that starts to wait for its volumes.
fn unmounted(case: &Case<'_>, outlook: &Outlook, subject: &InvolvedObject) -> Option<EventRecord> {
    let was_told = condition(&case.pod.status.conditions, "PodReadyToStartContainers");
    let is_news = was_told.is_none_or(Condition::is_true);
    outlook.unmounted.clone().filter(|_| is_news).map(|why| subject.warning("FailedMount", why))
}

/// Events of a pod's resize.
fn resized(case: &Case<'_>, status: &Status, subject: &InvolvedObject) -> Vec<EventRecord> {
    let note = |(is_good, reason, message): (bool, &'static str, String)| {
        if is_good { subject.normal(reason, message) } else { subject.warning(reason, message) }
    };
    resize::told(case, status).into_iter().map(note).collect()
}

/// `DeadlineExceeded` Event of a pod that exceeds its active deadline.
fn overdue(outlook: &Outlook, subject: &InvolvedObject) -> Option<EventRecord> {
    let (reason, message) = outlook.overdue?;
    Some(subject.normal(reason, message))
}

fn part(pod: &Pod, name: &str) -> String {
    let is_first = pod.spec.init_containers.iter().any(|one| one.name == name);
    format!("spec.{}{{{name}}}", if is_first { "initContainers" } else { "containers" })
}

/// Returns the Events of a runtime action.
pub fn told(deed: &Deed, pod: &Pod, runtime: &Simulated<'_>, subject: &InvolvedObject) -> Vec<EventRecord> {
    let (Deed::Start { container: name, .. } | Deed::Stop { container: name, .. }) = deed;
    let subject = subject.clone().with_field_path(part(pod, name));
    let Some(container) = pod.spec.all().find(|one| one.name == *name) else { return Vec::new() };
    let image = &container.image;
    match deed {
        Deed::Start { pulled, .. } => {
            let mut notes = Vec::with_capacity(4);
            match pulled {
                Some(took) => {
                    notes.extend((!runtime.pulls_slowly(name)).then(|| pulling(container, &subject)));
                    let took = shown(*took);
                    let message = format!(
                        "Successfully pulled image {image:?} in {took} ({took} including waiting). Image size: {IMAGE_BYTES} bytes."
                    );
                    notes.push(subject.normal("Pulled", message));
                }
                None => {
                    let message = format!(
                        "Container image {image:?} already present on machine and can be accessed by the pod"
                    );
                    notes.push(subject.normal("Pulled", message));
                }
            }
            notes.push(subject.normal("Created", "Container created"));
            notes.push(match runtime.start_error(name) {
                Some(error) => subject.warning("Failed", format!("Error: {error}")),
                None => subject.normal("Started", "Container started"),
            });
            notes
        }
        Deed::Stop { why, .. } => {
            let probe = ["Liveness", "Startup"].into_iter().find(|probe| why.contains(&probe.to_lowercase()));
            let failed = probe.filter(|_| why.contains(" failed "));
            let hook = Some(why).filter(|why| *why == FAILED_POST_START);
            let hook = hook.map(|_| subject.warning(FAILED_POST_START, "PostStartHook failed"));
            let unhealthy =
                failed.map(|probe| subject.warning("Unhealthy", format!("{probe} probe failed: simulated")));
            unhealthy.into_iter().chain(hook).chain([subject.normal("Killing", why.clone())]).collect()
        }
    }
}

/// Events of containers that start to wait.
fn waits(
    case: &Case<'_>,
    runtime: &Simulated<'_>,
    status: &Status,
    subject: &InvolvedObject,
) -> Vec<EventRecord> {
    let reason = |status: Option<&ContainerStatus>| {
        status.and_then(|status| status.state.waiting.as_ref()).map(|waiting| waiting.reason.clone())
    };
    let mut notes = Vec::new();
    for container in case.pod.spec.all() {
        let (new, old) = (status.of(&container.name), case.pod.status.of(&container.name));
        // A container that crashes at once is waiting in both statuses; its restart count tells them apart.
        let restarts = |status: Option<&ContainerStatus>| status.map_or(0, |status| status.restart_count);
        let is_news = |why: &String| reason(old).as_ref() != Some(why) || restarts(old) != restarts(new);
        let Some(why) = reason(new).filter(is_news) else { continue };
        let message = new.and_then(|new| new.state.waiting.as_ref()).map(|waiting| waiting.message.as_str());
        let subject = subject.clone().with_field_path(part(case.pod, &container.name));
        if why == "ErrImagePull" && !runtime.pulls_slowly(&container.name) {
            notes.push(pulling(container, &subject));
        }
        notes.extend(waiting(container, &why, message.unwrap_or_default(), case, &subject));
    }
    notes
}

fn waiting(
    container: &Container,
    why: &str,
    message: &str,
    case: &Case<'_>,
    subject: &InvolvedObject,
) -> Vec<EventRecord> {
    let image = &container.image;
    let failed = |error: &str| subject.warning("Failed", format!("Error: {error}"));
    match why {
        "CrashLoopBackOff" => {
            let (name, pod) = (&container.name, case.full_name());
            let message = format!("Back-off restarting failed container {name} in pod {pod}");
            vec![subject.warning("BackOff", message)]
        }
        "ErrImagePull" => {
            vec![subject.warning("Failed", format!("Failed to pull image {image:?}: {message}")), failed(why)]
        }
        "ImagePullBackOff" => {
            vec![subject.normal("BackOff", format!("Back-off pulling image {image:?}")), failed(why)]
        }
        CONFIG_ERROR => vec![failed(message)],
        "InvalidImageName" => vec![subject.warning("InspectFailed", message), failed(why)],
        "ErrImageNeverPull" => vec![subject.warning("ErrImageNeverPull", message), failed(why)],
        _ => Vec::new(),
    }
}
