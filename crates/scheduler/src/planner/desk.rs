//! One plan: pods are taken from the line, the most important first, and placed one after another.

use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Time, Value, value};
use setpoint_reconcile::plan::Subject;
use setpoint_reconcile::views::condition;
use setpoint_reconcile::views::pod::Pod;
use setpoint_reconcile::{Act, Object, Plan, Seed, Seen, World, Write};

use super::Scheduler;
use crate::cache::node::hash;
use crate::cache::{Cache, PodId};
use crate::choose::{self, Verdict};
use crate::class::Class;
use crate::preempt::{Budgets, Candidate, Search};
use crate::rules::{Helps, devices, volumes};
use crate::waiting::Waiting;

/// How many pods one plan takes, so that one that comes later and is more important need not wait long.
pub const PODS_MAX: usize = 500;

/// One plan on its way.
pub(super) struct Desk<'a> {
    scheduler: &'a Scheduler,
    world: &'a World,
    cache: Cache,
    budgets: Budgets<'a>,
    now: Time,
    seed: Seed,
    plan: Plan<Cache>,
    statuses: Vec<Act>,
    /// What victims are told, and their ends.
    warnings: Vec<Act>,
    ends: Vec<Act>,
}

impl<'a> Desk<'a> {
    pub fn new(
        scheduler: &'a Scheduler,
        world: &'a World,
        seen: Seen<'_, Cache>,
        now: Time,
        seed: Seed,
    ) -> Desk<'a> {
        let mut cache = seen.memo;
        let last = cache.assumed.clone();
        cache.follow(world, |object, pod| scheduler.wants(object, pod));
        if seen.failure.is_some() {
            // What was sent first and is not there was refused: others go first now.
            let refused = last.iter().find(|id| cache.pod(**id).is_some_and(|entry| !entry.is_bound));
            if let Some(entry) = refused.and_then(|id| cache.pods[*id as usize].as_mut()) {
                let waiting = Waiting::after(entry.waiting, Helps::NONE, now);
                entry.waiting = Some(Waiting { is_stirred: true, is_refused: true, ..waiting });
            }
        }
        Desk {
            scheduler,
            world,
            cache,
            budgets: Budgets::of(world),
            now,
            seed,
            plan: Plan::default(),
            statuses: Vec::new(),
            warnings: Vec::new(),
            ends: Vec::new(),
        }
    }

    pub fn plan(mut self) -> Plan<Cache> {
        for (id, is_due) in self.line() {
            // Those that wait keep the room that is made for them from all that are less important.
            if !is_due || !self.attempt(id) {
                self.reserve(id);
            }
        }
        let dues = self.cache.line.values().filter_map(|id| self.cache.pod(*id)?.waiting);
        if let Some(due) = dues.map(|waiting| waiting.due()).min() {
            self.plan.look_again_at(due.max(self.now));
        }
        let mut plan = self.plan;
        let binds: Vec<Act> = plan.stages.pop().unwrap_or_default();
        plan.stage(binds.into_iter().chain(self.statuses));
        plan.stage(self.warnings);
        plan.stage(self.ends);
        plan.memo = self.cache;
        plan
    }

    /// The pods to look at, in their order, and which of them to try.
    fn line(&mut self) -> Vec<(PodId, bool)> {
        let (now, helps) = (self.now, self.cache.helps);
        let is_active = |waiting: Option<Waiting>| {
            waiting
                .is_none_or(|waiting| Waiting { is_stirred: waiting.stirred(helps), ..waiting }.due() <= now)
        };
        let waits = self.cache.line.values().filter_map(|id| Some(self.cache.pod(*id)?.waiting));
        // Where nobody else wants to be tried, those that something may have helped need not wait.
        let early = !waits.into_iter().any(is_active);
        let ids: Vec<PodId> = self.cache.line.values().copied().collect();
        let (mut line, mut due) = (Vec::new(), 0);
        for id in ids {
            let Some(entry) = self.cache.pods[id as usize].as_mut() else { continue };
            if let Some(waiting) = &mut entry.waiting {
                waiting.is_stirred = waiting.stirred(helps);
            }
            let is_due = entry
                .waiting
                .is_none_or(|one| one.due() <= now || (early && one.is_stirred && !one.is_refused));
            if is_due && due == PODS_MAX {
                // What may have helped is looked at again with the rest.
                self.plan.look_again_at(now);
                return line;
            }
            due += usize::from(is_due);
            if is_due || entry.waiting.is_some_and(|waiting| waiting.holds.is_some()) {
                line.push((id, is_due));
            }
        }
        self.cache.helps = Helps::NONE;
        line
    }

    /// Looks for a node for a pod. Says whether it has one by now.
    fn attempt(&mut self, id: PodId) -> bool {
        let Some((object, shape)) =
            self.cache.pod(id).map(|entry| entry.object.clone()).zip(self.cache.shape_of(id).cloned())
        else {
            return false;
        };
        let (Some(pod), Some(profile)) = (object.view::<Pod>(), self.scheduler.profile(&shape.scheduler))
        else {
            return false;
        };
        let at = self.cache.pod(id).map_or(0, |entry| entry.shape as usize);
        let known = self.cache.shapes[at].as_mut().and_then(|entry| entry.class.take());
        let mut class = match known {
            Some(mut class) => {
                class.refresh(&shape, &mut self.cache, self.world, profile);
                class
            }
            None => Box::new(Class::new(&shape, &mut self.cache, self.world, profile)),
        };
        self.cache.ticks += 1;
        class.used = self.cache.ticks;
        let chance = Seed(self.seed.0 ^ hash(&object.meta().uid)).draw(0);
        let nominated = self.cache.numbers.get(pod.status.nominated_node_name.as_str()).copied();
        let nominated = nominated.filter(|node| choose::will_do(&class, &self.cache, *node));
        let node = nominated.or_else(|| class.find(&self.cache, chance as u32));
        match node {
            Some(node) => self.place(id, &object, node, &class),
            None => {
                let search =
                    Search { shape: &shape, world: self.world, profile, budgets: &self.budgets, chance };
                let (verdict, found) = failure(&search, pod, &mut class, &mut self.cache);
                self.fail(id, &object, pod, verdict, found);
            }
        }
        // What volumes and devices need is not followed, so it is found out anew each time.
        if let Some(entry) = self.cache.shapes[at].as_mut()
            && shape.claims.is_empty()
            && shape.devices.is_none()
        {
            entry.class = Some(class);
        }
        node.is_some()
    }

    /// Gives a pod its node, or first its volumes.
    fn place(&mut self, id: PodId, object: &Object, node: usize, class: &Class) {
        self.cache.attach(id, node);
        self.cache.assumed.push(id);
        self.cache.helps |= Helps::PODS_CAME;
        let reservations: Vec<Act> = devices::settle(&class.devices, object).collect();
        if !class.needs.are_met() || !reservations.is_empty() {
            self.statuses.extend(volumes::settle(&class.needs, &self.cache.nodes[node]));
            self.statuses.extend(reservations);
            self.wait(id, Helps::VOLUMES, Some(node));
            return;
        }
        let (key, name) = (object.key(), &self.cache.nodes[node].name);
        let namespace = key.namespace().unwrap_or_default();
        let binding = value!({
            "metadata": {"name": (key.name()), "namespace": (namespace), "uid": (&*object.meta().uid)},
            "target": {"kind": "Node", "name": (&**name)},
        });
        let about = Subject::of(object, "v1", "Pod");
        let done = about
            .normal("Scheduled", format!("Successfully assigned {}/{} to {name}", namespace, key.name()))
            .by("Binding");
        let failed = about.warning("FailedScheduling", "binding rejected: {error}").by("Scheduling");
        let write = Write::Post { key: key.clone(), part: "binding", object: binding };
        self.plan.act(Act::from(write).on_done(done).on_failed(failed));
    }

    fn wait(&mut self, id: PodId, helps: Helps, holds: Option<usize>) {
        if let Some(entry) = self.cache.pods[id as usize].as_mut() {
            entry.waiting = Some(Waiting { holds, ..Waiting::after(entry.waiting, helps, self.now) });
        }
    }

    /// Says that no node would do, and makes room if that can be.
    fn fail(&mut self, id: PodId, object: &Object, pod: &Pod, verdict: Verdict, found: Outlook) {
        let nominated = match &found {
            Outlook::Room(node, _) => Some(self.cache.nodes[*node].name.to_string()),
            Outlook::Waits => None,
            Outlook::Nothing => Some(String::new()),
        };
        let promised = nominated.as_deref().unwrap_or(&pod.status.nominated_node_name);
        let holds = self.cache.numbers.get(promised).copied();
        let knows = self.cache.pod(id).is_some_and(|entry| entry.waiting.is_some());
        self.wait(id, verdict.helps | Helps::PODS, holds);
        if let Some(act) = status(object, pod, &verdict.message, nominated.as_deref(), knows, self.now) {
            self.statuses.push(act);
        }
        let note = Subject::of(object, "v1", "Pod").warning("FailedScheduling", verdict.message);
        self.plan.notes.push(note.by("Scheduling"));
        if let Outlook::Room(node, candidate) = found {
            self.make_room(object, pod, node, &candidate);
            self.hold(id, node);
        }
    }

    fn make_room(&mut self, object: &Object, pod: &Pod, node: usize, candidate: &Candidate) {
        let time = Seconds(self.now).to_string();
        for id in &candidate.victims {
            let Some(entry) = self.cache.pods[*id as usize].as_mut() else { continue };
            entry.is_doomed = true;
            self.cache.doomed.push(*id);
            let victim = &entry.object;
            let why = format!("{}: preempting to accommodate a higher priority pod", pod.spec.scheduler_name);
            let told = value!({
                "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
                "message": (why), "lastProbeTime": null, "lastTransitionTime": (time.as_str()),
                "observedGeneration": (Some(victim.meta().generation).filter(|generation| *generation > 0)),
            });
            let patch = value!({"conditions": [(told)]});
            self.warnings.push(Write::status(victim, patch).strategic().at_any_revision().into());
            let note =
                format!("Preempted by pod {} on node {}", object.meta().uid, self.cache.nodes[node].name);
            let note = Subject::of(victim, "v1", "Pod").normal("Preempted", note).by("Preempting");
            self.ends.push(Act::from(Write::delete(victim)).on_done(note));
        }
    }

    /// Keeps the room on the node that a pod was promised.
    fn reserve(&mut self, id: PodId) {
        let waiting = self.cache.pod(id).filter(|entry| entry.node.is_none()).and_then(|entry| entry.waiting);
        if let Some(node) = waiting.and_then(|waiting| waiting.holds) {
            self.hold(id, node);
        }
    }

    fn hold(&mut self, id: PodId, node: usize) {
        self.cache.attach(id, node);
        self.cache.assumed.push(id);
    }
}

/// What a pod can hope for that no node would do for.
enum Outlook {
    /// Room on a node.
    Room(usize, Candidate),
    /// Room that is being made.
    Waits,
    Nothing,
}

/// Why no node will do for a pod, and what can be done about it.
fn failure(search: &Search<'_>, pod: &Pod, class: &mut Class, cache: &mut Cache) -> (Verdict, Outlook) {
    if let Some(known) = class.last_failure(cache) {
        return (known, Outlook::Nothing);
    }
    let mut verdict = choose::explain(class, cache);
    if cache.existing == 0 {
        return (verdict, Outlook::Nothing);
    }
    let (outlook, words) = match search.objection(pod, class, cache) {
        Some(objection) => (Outlook::Waits, objection.to_owned()),
        None => match search.best(class, cache) {
            Ok((node, candidate)) => {
                let (name, count) = (&cache.nodes[node].name, candidate.victims.len());
                let words =
                    format!("found a potential placement for pod on node {name}, preempting {count} victims");
                (Outlook::Room(node, candidate), words)
            }
            Err(why) => (Outlook::Nothing, why),
        },
    };
    verdict.message = format!("{} preemption: {words}", verdict.message);
    if matches!(outlook, Outlook::Nothing) {
        class.remember_failure(&verdict, cache);
    }
    (verdict, outlook)
}

/// Writes into the status of a pod that no node would do, unless it says so already. Where nothing is remembered of
/// the pod, words that only read otherwise are left until it is tried again for a reason.
fn status(
    object: &Object,
    pod: &Pod,
    message: &str,
    nominated: Option<&str>,
    knows: bool,
    now: Time,
) -> Option<Act> {
    let found = condition(&pod.status.conditions, "PodScheduled");
    let is_said = found.is_some_and(|found| {
        found.status == "False" && found.reason == "Unschedulable" && (!knows || found.message == message)
    });
    let renames = nominated.is_some_and(|name| name != pod.status.nominated_node_name);
    if is_said && !renames {
        return None;
    }
    let since = found.filter(|found| found.status == "False").and_then(|found| found.last_transition_time);
    let told = value!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": (message),
        "lastProbeTime": null, "lastTransitionTime": (Seconds(since.unwrap_or(now)).to_string()),
        "observedGeneration": (Some(object.meta().generation).filter(|generation| *generation > 0)),
    });
    let mut patch = value!({"conditions": [(told)]});
    if let Some(name) = nominated.filter(|_| renames) {
        let name = if name.is_empty() { Value::Null } else { Value::from(name) };
        patch.make_map().insert("nominatedNodeName", name);
    }
    Some(Write::status(object, patch).strategic().into())
}
