//! Pod sync of a simulated node: alternates life cycle and runtime until neither changes, then writes the
//! status once.

mod events;

use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::plan::{InvolvedObject, value_of};
use setpoint_reconcile::{Action, EventRecord, Object, Plan, WorldReader, Write};
use setpoint_views::pod::{BY_NODE, Pod as PodView};

use self::events::{action_events, pod_events};

use crate::allocation::{ResizeDecision, has_pending_resize};
use crate::behavior;
use crate::fleet::{Fleet, NodeRef};
use crate::lifecycle::resize::ResizeState;
use crate::lifecycle::{SyncInput, SyncResult, compute_pod_actions, truncate_to_seconds};
use crate::pod::Pod;
use crate::references::ReferenceResolver;
use crate::runtime::RuntimeAction;
use crate::simulated::{NodeState, SimulatedRuntime};

/// Assumed image size, for Events and node statuses.
pub const IMAGE_BYTES: u64 = 64 << 20;

/// Decisions of a node's admission key about one of its pods.
#[derive(Default)]
pub struct AdmissionDecision {
    /// Newly allocated pod IPs.
    pub pod_ips: Option<Vec<String>>,
    /// Result of a resize request, if the pod has one.
    pub resize: Option<ResizeDecision>,
}

/// Syncs a pod: adds its writes, Events and requeue time to the plan.
pub fn sync_pod<M>(
    fleet: &Fleet,
    world: &WorldReader<'_>,
    node: &NodeRef<'_>,
    object: &Object,
    decision: AdmissionDecision,
    now: Time,
    plan: &mut Plan<M>,
) {
    let Some(pod) = Pod::decode(object) else { return };
    let host_ips = [fleet.node_ip(node.number)];
    let reported = || pod.status.pod_ips.iter().map(|ip| ip.ip.clone()).collect();
    let pod_ips =
        if pod.spec.host_network { host_ips.to_vec() } else { decision.pod_ips.unwrap_or_else(reported) };
    // Components of this process are already running: no start delay, no Events.
    let is_in_process = fleet.component(object).is_some();
    let (start_delay, rules) =
        if is_in_process { (Duration::ZERO, &[][..]) } else { (fleet.pod_start_delay, &fleet.rules[..]) };
    let references = ReferenceResolver { world, namespace: &object.meta().namespace };
    let start_time = pod.status.start_time.unwrap_or(truncate_to_seconds(now));
    let input = SyncInput {
        pod: &pod,
        meta: object.meta(),
        host_ips: &host_ips,
        pod_ips: &pod_ips,
        start_time,
        // `startTime` has a precision of one second. Later writes of the pod must not move the start, so it
        // counts from the middle of that second: the start delay is exact to half a second.
        earliest_start: start_time.after(start_delay.min(Duration::from_secs(1)) / 2).after(start_delay),
        last_write: object.commit_time(),
        resize: ResizeState {
            is_requested: object.view::<PodView>().is_some_and(|view| has_pending_resize(object, view)),
            decision: decision.resize,
        },
        mount_error: &|| references.mount_error(&pod.spec),
        env_error: &|container| references.env_error(container),
        now,
    };
    let has_image = |image: &str| is_image_on_node(world, node, object, image);
    let last_write = object.commit_time();
    // A boot time in the future was written before the clock was set back. Containers started now would seem
    // to precede the boot, so it is ignored.
    let boot_time = Some(node.boot_time()).filter(|boot_time| *boot_time <= now).unwrap_or(Time::EPOCH);
    let state = NodeState {
        rules,
        cache: &fleet.script_cache,
        boot_time,
        last_write,
        default_delay: start_delay,
        has_image: &has_image,
    };
    let mut runtime = SimulatedRuntime::new(state, &pod, object.meta(), now);
    let subject = InvolvedObject::new(object, "v1", "Pod");
    let (result, action_events) = sync_until_stable(&input, &mut runtime, &subject);
    let mut events = if is_in_process {
        Vec::new()
    } else {
        pod_events(&input, &runtime, &result, action_events, &subject)
    };
    if pod.status.start_time.is_none() && !is_in_process {
        let errors = behavior::invalid_annotations(&pod, &object.meta().annotations).into_iter();
        events.extend(errors.map(|error| subject.warning("InvalidSimulation", error)));
    }
    for time in result.requeue_at.into_iter().chain(runtime.next_termination()) {
        plan.requeue_at(time);
    }
    if result.status == pod.status {
        plan.events.extend(events);
    } else {
        let mut action = Action::from(Write::status(object, value_of(&result.status)));
        action.done = events;
        plan.push(action);
    }
    // A pod with grace period 0 waits for finalizers only; its node has already removed it.
    let meta = object.meta();
    if result.is_terminated && meta.is_deleted() && meta.deletion_grace_period_seconds != Some(0) {
        plan.stage([Action::from(Write::delete(object).with_grace_period(0))]);
    }
}

/// Alternates life cycle and runtime until no action changes anything.
fn sync_until_stable(
    input: &SyncInput<'_>,
    runtime: &mut SimulatedRuntime<'_>,
    subject: &InvolvedObject,
) -> (SyncResult, Vec<EventRecord>) {
    let (mut events, mut being_killed) = (Vec::new(), Vec::new());
    // Each round starts or terminates a container, and none starts more than twice at one time.
    let rounds = 4 * input.pod.spec.all_containers().count() + 4;
    for _ in 0..rounds {
        let result = compute_pod_actions(input, runtime);
        let mut has_changed = false;
        for action in &result.actions {
            has_changed |= runtime.perform(action);
            // A kill that takes time is requested again in every round.
            let is_new = match action {
                RuntimeAction::StartContainer { .. } => true,
                RuntimeAction::KillContainer { container, is_first_request, .. } => {
                    *is_first_request && !being_killed.contains(container)
                }
            };
            if is_new {
                events.extend(action_events(action, input.pod, runtime, subject));
            }
            match action {
                RuntimeAction::StartContainer { container, .. } => {
                    being_killed.retain(|one| one != container)
                }
                RuntimeAction::KillContainer { container, .. } => being_killed.push(container.clone()),
            }
        }
        if !has_changed {
            return (result, events);
        }
    }
    (compute_pod_actions(input, runtime), events)
}

/// `true` if another pod on the node has already run the image.
fn is_image_on_node(world: &WorldReader<'_>, node: &NodeRef<'_>, pod: &Object, image: &str) -> bool {
    world.by_index(BY_NODE.name, node.object.key().name()).any(|other| {
        let has_run = |view: &PodView| !view.status.pod_ip.is_empty() && view.status.phase != "Pending";
        let uses_image = |view: &PodView| {
            view.spec.containers.iter().chain(&view.spec.init_containers).any(|one| one.image == image)
        };
        other.key() != pod.key()
            && other.view::<PodView>().is_some_and(|view| has_run(view) && uses_image(view))
    })
}
