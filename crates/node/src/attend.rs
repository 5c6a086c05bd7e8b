//! A simulated node attends to one of its pods: the life cycle and the runtime in turn, until neither has anything to
//! say, then the status in one write.

use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::plan::{Subject, value_of};
use setpoint_reconcile::views::pod::{BY_NODE, Pod as PodView};
use setpoint_reconcile::{Act, Note, Object, Plan, World, Write};

use crate::fleet::{Fleet, Seat};
use crate::lifecycle::{Case, Outlook, look, whole};
use crate::pod::{Container, ContainerStatus, Pod, Status};
use crate::rules;
use crate::runtime::Deed;
use crate::simulated::{Host, Simulated};

/// How large an image is that nobody has seen, for messages and node statuses.
pub const IMAGE_BYTES: u64 = 64 << 20;

/// What a node does about a pod that has these addresses. Stages and the next look go into the plan.
pub fn attend<M>(
    fleet: &Fleet,
    world: &World,
    seat: &Seat<'_>,
    object: &Object,
    addresses: Option<Vec<String>>,
    now: Time,
    plan: &mut Plan<M>,
) {
    let Some(pod) = Pod::read(object) else { return };
    let host_ips = [fleet.address(seat.number)];
    let known = || pod.status.pod_ips.iter().map(|ip| ip.ip.clone()).collect();
    let pod_ips = if pod.spec.host_network { host_ips.to_vec() } else { addresses.unwrap_or_else(known) };
    // Statuses have whole seconds; the moment of the first one is known better, as long as nobody else wrote since.
    let begin = match pod.status.start_time {
        None => now,
        Some(start) => object.committed().min(start.after(Duration::from_secs(1))),
    };
    // What runs in this process has started already, and nobody is told that it did.
    let runs_already = fleet.component(object).is_some();
    let (pause, rules) =
        if runs_already { (Duration::ZERO, &[][..]) } else { (fleet.pod_start, &fleet.rules[..]) };
    let case = Case {
        pod: &pod,
        meta: object.meta(),
        host_ips: &host_ips,
        pod_ips: &pod_ips,
        taken_up: pod.status.start_time.unwrap_or(whole(now)),
        begin: begin.after(pause),
        now,
    };
    let has_image = |image: &str| has_image(world, seat, object, image);
    let host = Host { rules, booted: seat.booted(), pause, has_image: &has_image };
    let mut runtime = Simulated::new(host, &pod, object.meta(), now);
    let subject = Subject::of(object, "v1", "Pod");
    let (outlook, done) = settle(&case, &mut runtime, &subject);
    let mut notes = ending(&case, &subject);
    if pod.status.start_time.is_none() {
        let faults = rules::faults(&pod, &object.meta().annotations).into_iter();
        notes.extend(faults.map(|fault| subject.warning("InvalidSimulation", fault)));
    }
    notes.extend(done);
    for again in outlook.again.into_iter().chain(runtime.until()) {
        plan.look_again_at(again);
    }
    if outlook.status != pod.status {
        notes.extend(waits(&case, &outlook.status, &subject));
        let mut act = Act::from(Write::status(object, value_of(&outlook.status)));
        act.done = if runs_already { Vec::new() } else { notes };
        plan.act(act);
    }
    // One that waits for finalizers only has been removed already, as far as its node can.
    let meta = object.meta();
    if outlook.is_over && meta.is_deleted() && meta.deletion_grace_period_seconds != Some(0) {
        plan.stage([Act::from(Write::delete(object).within(0))]);
    }
}

/// Lets life cycle and runtime act by turns.
fn settle(case: &Case<'_>, runtime: &mut Simulated<'_>, subject: &Subject) -> (Outlook, Vec<Note>) {
    let mut notes = Vec::new();
    // Each round starts or ends a container, and none is started more than twice at one moment.
    let rounds = 4 * case.pod.spec.all().count() + 4;
    for _ in 0..rounds {
        let outlook = look(case, runtime);
        let mut has_changed = false;
        for deed in &outlook.deeds {
            if runtime.perform(deed) {
                has_changed = true;
                // That a pod which is deleted stops was told when it began to.
                if !(case.meta.is_deleted() && matches!(deed, Deed::Stop { .. })) {
                    notes.extend(told(deed, case.pod, subject));
                }
            }
        }
        if !has_changed {
            return (outlook, notes);
        }
    }
    (look(case, runtime), notes)
}

/// What people are told when a pod begins to stop because it was deleted: once, as the first report after that shows
/// that its node has seen it.
fn ending(case: &Case<'_>, subject: &Subject) -> Vec<Note> {
    let Case { pod, meta, .. } = case;
    if !meta.is_deleted() || pod.status.observed_generation == Some(meta.generation) {
        return Vec::new();
    }
    let runs =
        |one: &&Container| pod.status.of(&one.name).is_some_and(|status| status.state.running.is_some());
    let note = |one: &Container| {
        let subject = subject.clone().part(part(pod, &one.name));
        subject.normal("Killing", format!("Stopping container {}", one.name))
    };
    pod.spec.all().filter(runs).map(note).collect()
}

fn part(pod: &Pod, name: &str) -> String {
    let is_first = pod.spec.init_containers.iter().any(|one| one.name == name);
    format!("spec.{}{{{name}}}", if is_first { "initContainers" } else { "containers" })
}

/// What people are told about a deed.
fn told(deed: &Deed, pod: &Pod, subject: &Subject) -> Vec<Note> {
    let (Deed::Start { container: name, .. } | Deed::Stop { container: name, .. }) = deed;
    let subject = subject.clone().part(part(pod, name));
    let image =
        pod.spec.all().find(|one| one.name == *name).map(|one| one.image.as_str()).unwrap_or_default();
    match deed {
        Deed::Start { pulled, .. } => {
            let mut notes = Vec::with_capacity(4);
            match pulled {
                Some(took) => {
                    notes.push(subject.normal("Pulling", format!("Pulling image {image:?}")));
                    let message = format!(
                        "Successfully pulled image {image:?} in {took:?} ({took:?} including waiting). Image size: {IMAGE_BYTES} bytes."
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
            notes.push(subject.normal("Started", "Container started"));
            notes
        }
        Deed::Stop { why, .. } => {
            let probe = ["Liveness", "Startup"].into_iter().find(|probe| why.contains(&probe.to_lowercase()));
            let failed = probe.filter(|_| why.contains(" failed "));
            let unhealthy =
                failed.map(|probe| subject.warning("Unhealthy", format!("{probe} probe failed: simulated")));
            unhealthy.into_iter().chain([subject.normal("Killing", why.clone())]).collect()
        }
    }
}

/// What people are told about containers that have begun to wait.
fn waits(case: &Case<'_>, status: &Status, subject: &Subject) -> Vec<Note> {
    let reason = |status: Option<&ContainerStatus>| {
        status.and_then(|status| status.state.waiting.as_ref()).map(|waiting| waiting.reason.clone())
    };
    let mut notes = Vec::new();
    for container in case.pod.spec.all() {
        let (new, old) = (status.of(&container.name), case.pod.status.of(&container.name));
        let Some(why) = reason(new).filter(|why| reason(old).as_ref() != Some(why)) else { continue };
        let message = new.and_then(|new| new.state.waiting.as_ref()).map(|waiting| waiting.message.as_str());
        let subject = subject.clone().part(part(case.pod, &container.name));
        notes.extend(waiting(container, &why, message.unwrap_or_default(), case, &subject));
    }
    notes
}

fn waiting(container: &Container, why: &str, message: &str, case: &Case<'_>, subject: &Subject) -> Vec<Note> {
    let image = &container.image;
    let failed = |error: &str| subject.warning("Failed", format!("Error: {error}"));
    match why {
        "CrashLoopBackOff" => {
            let (name, pod) = (&container.name, case.full_name());
            let message = format!("Back-off restarting failed container {name} in pod {pod}");
            vec![subject.warning("BackOff", message)]
        }
        "ErrImagePull" => vec![
            subject.normal("Pulling", format!("Pulling image {image:?}")),
            subject.warning("Failed", format!("Failed to pull image {image:?}: {message}")),
            failed(why),
        ],
        "ImagePullBackOff" => {
            vec![subject.normal("BackOff", format!("Back-off pulling image {image:?}")), failed(why)]
        }
        "InvalidImageName" => vec![subject.warning("InspectFailed", message), failed(why)],
        "ErrImageNeverPull" => vec![subject.warning("ErrImageNeverPull", message), failed(why)],
        _ => Vec::new(),
    }
}

/// Whether an image is on a node: some other pod there has it.
fn has_image(world: &World, seat: &Seat<'_>, pod: &Object, image: &str) -> bool {
    world.indexed(BY_NODE.name, seat.object.key().name()).any(|other| {
        let ran = |view: &PodView| !view.status.pod_ip.is_empty() && view.status.phase != "Pending";
        let runs_it = |view: &PodView| {
            view.spec.containers.iter().chain(&view.spec.init_containers).any(|one| one.image == image)
        };
        other.key() != pod.key() && other.view::<PodView>().is_some_and(|view| ran(view) && runs_it(view))
    })
}
