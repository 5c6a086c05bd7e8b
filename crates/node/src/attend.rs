//! Pod sync of a simulated node: alternates life cycle and runtime until neither changes, then writes the
//! status once.

mod telling;

use std::time::Duration;

use setpoint_api::Time;
use setpoint_reconcile::plan::{Subject, value_of};
use setpoint_reconcile::{Act, Note, Object, Plan, WorldReader, Write};
use setpoint_views::pod::{BY_NODE, Pod as PodView};

use self::telling::{notes, told};

use crate::fleet::{Fleet, Seat};
use crate::lifecycle::resize::Resize;
use crate::lifecycle::{Case, Outlook, look, whole};
use crate::needs::Needs;
use crate::pod::Pod;
use crate::resizing::{Verdict, is_asking};
use crate::rules;
use crate::runtime::Deed;
use crate::simulated::{Host, Simulated};

/// Assumed image size, for Events and node statuses.
pub const IMAGE_BYTES: u64 = 64 << 20;

/// Decisions of a node's admission key about one of its pods.
#[derive(Default)]
pub struct Decided {
    /// Newly allocated pod IPs.
    pub addresses: Option<Vec<String>>,
    /// Result of a resize request, if the pod has one.
    pub resize: Option<Verdict>,
}

/// Syncs a pod: adds its writes, Events and requeue time to the plan.
pub fn attend<M>(
    fleet: &Fleet,
    world: &WorldReader<'_>,
    seat: &Seat<'_>,
    object: &Object,
    decided: Decided,
    now: Time,
    plan: &mut Plan<M>,
) {
    let Some(pod) = Pod::read(object) else { return };
    let host_ips = [fleet.address(seat.number)];
    let known = || pod.status.pod_ips.iter().map(|ip| ip.ip.clone()).collect();
    let pod_ips =
        if pod.spec.host_network { host_ips.to_vec() } else { decided.addresses.unwrap_or_else(known) };
    // Components of this process are already running: no start delay, no Events.
    let runs_already = fleet.component(object).is_some();
    let (pause, rules) =
        if runs_already { (Duration::ZERO, &[][..]) } else { (fleet.pod_start, &fleet.rules[..]) };
    let needs = Needs { world, namespace: &object.meta().namespace };
    let taken_up = pod.status.start_time.unwrap_or(whole(now));
    let case = Case {
        pod: &pod,
        meta: object.meta(),
        host_ips: &host_ips,
        pod_ips: &pod_ips,
        taken_up,
        // `startTime` has a precision of one second. Later writes of the pod must not move `begin`, so it
        // counts from the middle of that second: the start delay is exact to half a second.
        begin: taken_up.after(pause.min(Duration::from_secs(1)) / 2).after(pause),
        written: object.commit_time(),
        resize: Resize {
            is_asking: object.view::<PodView>().is_some_and(|view| is_asking(object, view)),
            verdict: decided.resize,
        },
        unmounted: &|| needs.unmounted(&pod.spec),
        unset: &|container| needs.unset(container),
        now,
    };
    let has_image = |image: &str| has_image(world, seat, object, image);
    let written = object.commit_time();
    // A boot time in the future was written before the clock was set back. Containers started now would seem
    // to precede the boot, so it is ignored.
    let booted = Some(seat.booted()).filter(|booted| *booted <= now).unwrap_or(Time::EPOCH);
    let host = Host { rules, memo: &fleet.memo, booted, written, pause, has_image: &has_image };
    let mut runtime = Simulated::new(host, &pod, object.meta(), now);
    let subject = Subject::of(object, "v1", "Pod");
    let (outlook, done) = settle(&case, &mut runtime, &subject);
    let mut notes = if runs_already { Vec::new() } else { notes(&case, &runtime, &outlook, done, &subject) };
    if pod.status.start_time.is_none() && !runs_already {
        let faults = rules::faults(&pod, &object.meta().annotations).into_iter();
        notes.extend(faults.map(|fault| subject.warning("InvalidSimulation", fault)));
    }
    for again in outlook.again.into_iter().chain(runtime.until()) {
        plan.look_again_at(again);
    }
    if outlook.status == pod.status {
        plan.notes.extend(notes);
    } else {
        let mut act = Act::from(Write::status(object, value_of(&outlook.status)));
        act.done = notes;
        plan.act(act);
    }
    // A pod with grace period 0 waits for finalizers only; its node has already removed it.
    let meta = object.meta();
    if outlook.is_over && meta.is_deleted() && meta.deletion_grace_period_seconds != Some(0) {
        plan.stage([Act::from(Write::delete(object).within(0))]);
    }
}

/// Alternates life cycle and runtime until no action changes anything.
fn settle(case: &Case<'_>, runtime: &mut Simulated<'_>, subject: &Subject) -> (Outlook, Vec<Note>) {
    let (mut notes, mut stopping) = (Vec::new(), Vec::new());
    // Each round starts or terminates a container, and none starts more than twice at one time.
    let rounds = 4 * case.pod.spec.all().count() + 4;
    for _ in 0..rounds {
        let outlook = look(case, runtime);
        let mut has_changed = false;
        for deed in &outlook.deeds {
            has_changed |= runtime.perform(deed);
            // A stop that takes time is requested again in every round.
            let is_news = match deed {
                Deed::Start { .. } => true,
                Deed::Stop { container, begins, .. } => *begins && !stopping.contains(container),
            };
            if is_news {
                notes.extend(told(deed, case.pod, runtime, subject));
            }
            match deed {
                Deed::Start { container, .. } => stopping.retain(|one| one != container),
                Deed::Stop { container, .. } => stopping.push(container.clone()),
            }
        }
        if !has_changed {
            return (outlook, notes);
        }
    }
    (look(case, runtime), notes)
}

/// `true` if another pod on the node has already run the image.
fn has_image(world: &WorldReader<'_>, seat: &Seat<'_>, pod: &Object, image: &str) -> bool {
    world.by_index(BY_NODE.name, seat.object.key().name()).any(|other| {
        let ran = |view: &PodView| !view.status.pod_ip.is_empty() && view.status.phase != "Pending";
        let runs_it = |view: &PodView| {
            view.spec.containers.iter().chain(&view.spec.init_containers).any(|one| one.image == image)
        };
        other.key() != pod.key() && other.view::<PodView>().is_some_and(|view| ran(view) && runs_it(view))
    })
}
