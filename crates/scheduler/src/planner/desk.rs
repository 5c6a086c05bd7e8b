//! One plan: pods are taken from the line, the most important first, and placed one after another.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Time, Value, value};
use setpoint_reconcile::plan::{Note, Subject};
use setpoint_reconcile::views::pod::Pod;
use setpoint_reconcile::{Act, Failure, Object, Plan, Seed, Seen, World, Write};

use super::status::{Words, status};
use super::{NAME, Scheduler};
use crate::cache::node::hash;
use crate::cache::owed::{Owed, What};
use crate::cache::{Cache, PodId};
use crate::choose::{self, Verdict};
use crate::class::Class;
use crate::cost::{COST_MAX, COSTLY, DEFERRALS_MAX, PLAN_COST_MAX};
use crate::preempt::{Budgets, Candidate, Search};
use crate::rules::volumes::reach::Weight;
use crate::rules::{Helps, devices, volumes};
use crate::waiting::{SETTLE, Waiting};

/// How many pods one plan takes, so that one that comes later and is more important need not wait long.
pub const PODS_MAX: usize = 500;

/// A pod in the line.
struct InLine {
    id: PodId,
    priority: i64,
    /// Whether it is to be tried.
    is_due: bool,
}

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
    /// The pods that are promised each node.
    holders: BTreeMap<usize, Vec<PodId>>,
    /// Those whose promise ended.
    displaced: BTreeSet<PodId>,
    /// Where claims are to have their volumes.
    volumes: Vec<Act>,
    /// What victims are told, and their ends.
    warnings: Vec<Act>,
    ends: Vec<Act>,
    /// The volumes that cost more than usual; counted for the first pod with claims.
    heavy: OnceCell<Weight>,
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
        let sent = std::mem::take(&mut cache.sent);
        cache.follow(world, |object, pod| scheduler.wants(object, pod));
        // What failed before the last plan was taken in then.
        let is_new = seen.failure.is_some() && seen.failure != cache.failure.as_ref();
        cache.failure = seen.failure.cloned();
        let mut desk = Desk {
            scheduler,
            world,
            cache,
            budgets: Budgets::of(world),
            now,
            seed,
            plan: Plan::default(),
            statuses: Vec::new(),
            holders: BTreeMap::new(),
            displaced: BTreeSet::new(),
            volumes: Vec::new(),
            warnings: Vec::new(),
            ends: Vec::new(),
            heavy: OnceCell::new(),
        };
        if let Some(failure) = seen.failure.filter(|failure| is_new && failure.verb == "create") {
            desk.blame(&sent, failure);
        }
        desk
    }

    /// Bindings that were sent and are not there were refused: others go first now. They were sent in order, in
    /// batches, so the first that is missing was among them, and all that come before one that is there.
    fn blame(&mut self, sent: &[(PodId, Object)], failure: &Failure) {
        let is_missing = |(id, object): &(PodId, Object)| {
            let same = self.cache.pod(*id).filter(|entry| entry.object.meta().uid == object.meta().uid);
            same.is_some_and(|entry| !entry.is_bound)
        };
        let missing: Vec<bool> = sent.iter().map(is_missing).collect();
        let first = missing.iter().position(|missing| *missing);
        let last = first.max(missing.iter().rposition(|missing| !missing));
        // The words are those of one refusal, and mostly say which.
        let is_named = |object: &Object| failure.message.contains(&format!("\"{}\"", object.meta().name));
        let names_one = sent.iter().zip(&missing).any(|((_, object), missing)| *missing && is_named(object));
        for (at, (id, object)) in sent.iter().enumerate().filter(|(at, _)| missing[*at]) {
            let is_named = names_one && is_named(object);
            if Some(at) <= last || is_named {
                self.refuse(*id, failure, is_named || !names_one);
            }
        }
    }

    /// Lets a pod wait whose binding was refused, and perhaps says why.
    fn refuse(&mut self, id: PodId, failure: &Failure, is_told: bool) {
        let Some(entry) = self.cache.pods[id as usize].as_mut() else { return };
        let (object, was) = (entry.object.clone(), entry.waiting);
        let holds = was.and_then(|waiting| waiting.holds);
        let waiting = Waiting::after(was, Helps::NONE, self.now);
        entry.waiting = Some(Waiting { is_stirred: true, is_refused: true, holds, ..waiting });
        let message = format!("binding rejected: {}", failure.message);
        let words = Words { reason: "SchedulerError", message: &message, nominated: None };
        // Of a write that was lost nobody knows why.
        if let Some(pod) = object.view::<Pod>().filter(|_| is_told && failure.reason != "Unknown") {
            self.tell(id, &object, pod, &words, true);
        }
    }

    pub fn plan(mut self) -> Plan<Cache> {
        let line = self.line();
        // Those that have a node and only wait for their volumes are there to everybody.
        for one in &line {
            if self.is_settling(one.id) {
                self.reserve(one.id);
            }
        }
        let mut holders = line.iter().peekable();
        let done = self.cache.compared + self.cache.scanned;
        for InLine { id, priority, is_due } in &line {
            // Those that wait keep the room that is made for them from all that are not more important.
            while let Some(holder) = holders.next_if(|holder| holder.priority >= *priority) {
                self.reserve(holder.id);
            }
            if *is_due && self.cache.compared + self.cache.scanned - done > COST_MAX {
                // Enough for one plan: who is left has the next one.
                self.plan.look_again_at(self.now);
                self.reserve(*id);
            } else if *is_due {
                self.cache.shrink();
                self.lift(*id);
                if !self.attempt(*id) {
                    self.reserve(*id);
                }
            }
        }
        let waits = self.cache.line.values().filter_map(|id| self.cache.pod(*id)?.waiting);
        let mut due = None;
        let mut held = 0;
        for waiting in waits {
            held += usize::from(waiting.holds.is_some());
            due = Some(due.map_or(waiting.due(), |due: Time| due.min(waiting.due())));
        }
        self.cache.held = held;
        if let Some(due) = due {
            self.plan.look_again_at(due.max(self.now));
        }
        let mut plan = self.plan;
        // Victims go before anything is said about those that they make room for: words can wait.
        plan.stage(self.warnings);
        plan.stage(self.ends);
        plan.stage(self.statuses);
        plan.stage(self.volumes);
        self.cache.reach.clear();
        plan.memo = self.cache;
        plan
    }

    /// The pods to look at, in their order, and which of them to try: among those of one priority the cheap ones first.
    fn line(&mut self) -> Vec<InLine> {
        let now = self.now;
        self.cache.stir_waiting();
        let mut waits = self.cache.line.values().filter_map(|id| Some(self.cache.pod(*id)?.waiting));
        // Where nobody else wants to be tried, those that something has helped need not wait.
        let early = !waits.any(|waiting| waiting.is_none_or(|waiting| waiting.due() <= now));
        let ids: Vec<(i64, PodId)> = self.cache.line.iter().map(|(place, id)| (place.0.0, *id)).collect();
        let (mut line, mut costly, mut due) = (Vec::new(), Vec::new(), 0);
        for (priority, id) in ids {
            if costly.first().is_some_and(|(one, _): &(InLine, u64)| one.priority != priority)
                && self.take_costly(&mut line, &mut costly)
            {
                // Pods of lower priority must not overtake those that wait for the next plan.
                due = PODS_MAX;
            }
            let Some(entry) = self.cache.pod(id) else { continue };
            let mut is_due = entry
                .waiting
                .is_none_or(|one| one.due() <= now || (early && one.is_pressing && !one.is_refused));
            if is_due && due == PODS_MAX {
                self.plan.look_again_at(now);
                is_due = false;
                if self.cache.held == 0 {
                    break;
                }
            }
            let holds = self.promised(id);
            if let Some(node) = holds {
                self.holders.entry(node).or_default().push(id);
            }
            let cost = if is_due { self.cost(id) } else { 0 };
            let one = InLine { id, priority, is_due };
            if cost > COSTLY {
                costly.push((one, cost));
                continue;
            }
            due += usize::from(is_due);
            if is_due || holds.is_some() {
                line.push(one);
            }
        }
        self.take_costly(&mut line, &mut costly);
        line
    }

    /// Puts costly pods of one priority behind the cheap ones: as many as a plan may take, and none beside cheap pods
    /// unless these had several plans to themselves. Returns `true` if some are left for the next plan.
    fn take_costly(&mut self, line: &mut Vec<InLine>, costly: &mut Vec<(InLine, u64)>) -> bool {
        if costly.is_empty() {
            return false;
        }
        let is_alone = !line.iter().any(|one| one.is_due);
        let mut left = PLAN_COST_MAX;
        let mut is_first = is_alone || self.cache.deferrals >= DEFERRALS_MAX;
        let mut may_take = is_first;
        let mut is_any_left = false;
        for (one, cost) in costly.drain(..) {
            may_take &= is_first || cost <= left;
            is_first = false;
            left = left.saturating_sub(cost);
            is_any_left |= !may_take;
            if may_take || self.promised(one.id).is_some() {
                line.push(InLine { is_due: may_take, ..one });
            }
        }
        if is_any_left {
            self.plan.look_again_at(self.now);
        }
        let is_deferred = is_any_left && !is_alone && self.cache.deferrals < DEFERRALS_MAX;
        self.cache.deferrals = if is_deferred { self.cache.deferrals + 1 } else { 0 };
        is_any_left
    }

    /// The steps that trying a pod takes.
    fn cost(&self, id: PodId) -> u64 {
        let entry = self.cache.pod(id).and_then(|entry| self.cache.shapes[entry.shape as usize].as_ref());
        let Some(entry) = entry else { return 0 };
        let own = if entry.class.is_some() { entry.cost.again() } else { entry.cost.on(self.cache.existing) };
        if entry.shape.claims.is_empty() {
            return own;
        }
        // Each attempt searches for volumes again.
        let claims = volumes::open_claims(&entry.shape, self.world);
        let heavy = *self.heavy.get_or_init(|| volumes::heavy_volumes(self.world));
        own.saturating_add(volume_steps(claims, self.world, self.cache.existing, heavy))
    }

    /// The node that a pod was promised: as is remembered, or as its status says where nothing is.
    fn promised(&self, id: PodId) -> Option<usize> {
        let entry = self.cache.pod(id).filter(|entry| !entry.is_bound)?;
        if let Some(waiting) = entry.waiting {
            return waiting.holds;
        }
        let name = &entry.object.view::<Pod>()?.status.nominated_node_name;
        if name.is_empty() { None } else { self.cache.numbers.get(name.as_str()).copied() }
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
        self.cache.scanned += class.scanned();
        let chance = Seed(self.seed.0 ^ hash(&object.meta().uid)).draw(0);
        let promise = self.promise(id, pod);
        let nominated = self.cache.numbers.get(promise).copied();
        let nominated = nominated.filter(|node| choose::will_do(&class, &self.cache, *node));
        let node = nominated.or_else(|| class.find(&self.cache, chance as u32));
        match node {
            Some(node) => self.place(id, &object, node, &class),
            None => {
                let search =
                    Search { shape: &shape, world: self.world, profile, budgets: &self.budgets, chance };
                let (verdict, found) = failure(&search, promise, &mut class, &mut self.cache);
                self.fail(id, &object, pod, verdict, found);
            }
        }
        // What volumes and devices need is not followed, so it is found out anew each time.
        if let Some(entry) = self.cache.shapes[at].as_mut()
            && shape.claims.is_empty()
            && shape.devices.is_none()
            && !class.is_too_costly
        {
            entry.class = Some(class);
        }
        node.is_some()
    }

    /// Gives a pod its node, or first its volumes.
    fn place(&mut self, id: PodId, object: &Object, node: usize, class: &Class) {
        self.cache.attach(id, node);
        self.cache.assumed.push(id);
        self.cache.note_came(id);
        if !class.needs.are_met() || !class.devices.are_kept() {
            self.settle(id, object, node, class);
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
        let (done, failed) = (spoken(done, object), spoken(failed, object));
        self.plan.act(Act::from(write).on_done(done).on_failed(failed));
        self.cache.sent.push((id, object.clone()));
    }

    /// Lets a pod wait for its volumes and devices on a node; where that takes too long, it starts over.
    fn settle(&mut self, id: PodId, object: &Object, node: usize, class: &Class) {
        let was = self.cache.pod(id).and_then(|entry| entry.waiting);
        let since = was.and_then(|waiting| waiting.settles).unwrap_or(self.now);
        let Some(pod) = object.view::<Pod>() else { return };
        if self.now >= since.after(SETTLE) {
            let message =
                "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded";
            let words = Words { reason: "SchedulerError", message, nominated: Some("") };
            self.tell(id, object, pod, &words, true);
            let note = Subject::of(object, "v1", "Pod").warning("FailedScheduling", message);
            self.plan.notes.push(spoken(note.by("Scheduling"), object));
            self.lift(id);
            self.wait(id, Helps::VOLUMES, None);
            if let Some(waiting) = self.waiting(id) {
                (waiting.is_stirred, waiting.is_refused) = (true, true);
            }
            return;
        }
        let mut acts = volumes::settle(&class.needs, &self.cache.nodes[node]);
        acts.extend(devices::settle(&class.devices, object));
        if !acts.is_empty() {
            self.cache.owed.push(Owed { id, object: object.clone(), what: What::Volumes });
        }
        self.volumes.extend(acts);
        let name = self.cache.nodes[node].name.clone();
        if *name != *pod.status.nominated_node_name {
            self.nominate(id, object.clone(), &name);
        }
        self.wait(id, Helps::VOLUMES, Some(node));
        if let Some(waiting) = self.waiting(id) {
            waiting.settles = Some(since);
        }
    }

    /// Writes which node a pod is promised; empty for none.
    fn nominate(&mut self, id: PodId, object: Object, name: &str) {
        let value = if name.is_empty() { Value::Null } else { Value::from(name) };
        let patch = value!({"nominatedNodeName": (value)});
        self.statuses.push(Write::status(&object, patch).strategic().at_any_revision().into());
        let what = What::Status { message: None, nominated: Some(name.into()) };
        self.cache.owed.push(Owed { id, object, what });
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
        let promised = nominated.as_deref().unwrap_or(self.promise(id, pod));
        let holds = self.cache.numbers.get(promised).copied();
        let knows = self.cache.pod(id).is_some_and(|entry| entry.waiting.is_some());
        let goes = if matches!(found, Outlook::Nothing) { Helps::NONE } else { Helps::PODS };
        self.wait(id, verdict.helps | goes, holds);
        let words =
            Words { reason: "Unschedulable", message: &verdict.message, nominated: nominated.as_deref() };
        self.tell(id, object, pod, &words, knows);
        let note = Subject::of(object, "v1", "Pod").warning("FailedScheduling", verdict.message);
        self.plan.notes.push(spoken(note.by("Scheduling"), object));
        if let Outlook::Room(node, candidate) = found {
            self.make_room(id, object, pod, node, &candidate);
            self.displace(id, node);
            self.hold(id, node);
        }
    }

    /// Writes why a pod has no node.
    fn tell(&mut self, id: PodId, object: &Object, pod: &Pod, words: &Words<'_>, knows: bool) {
        let Some(act) = status(object, pod, words, knows, self.now) else { return };
        self.statuses.push(act);
        let what =
            What::Status { message: Some(words.message.into()), nominated: words.nominated.map(Into::into) };
        self.cache.owed.push(Owed { id, object: object.clone(), what });
    }

    /// The name of the node that a pod was promised; empty for none.
    fn promise<'p>(&self, id: PodId, pod: &'p Pod) -> &'p str {
        if self.displaced.contains(&id) { "" } else { &pod.status.nominated_node_name }
    }

    /// Whoever is less important than a pod and was promised the node where room is made for it looks elsewhere.
    fn displace(&mut self, by: PodId, node: usize) {
        let priority = self.cache.shape_of(by).map_or(0, |shape| shape.priority);
        let mut freed = Vec::new();
        for id in self.holders.get(&node).into_iter().flatten().copied() {
            let is_lower = self.cache.shape_of(id).is_some_and(|shape| shape.priority < priority)
                && !self.is_settling(id);
            let Some(entry) = self.cache.pods[id as usize].as_mut().filter(|_| is_lower) else { continue };
            if !self.displaced.insert(id) {
                continue;
            }
            let waiting = entry.waiting.unwrap_or_else(|| Waiting::after(None, Helps::NONE, self.now));
            entry.waiting = Some(Waiting { holds: None, is_stirred: true, is_pressing: true, ..waiting });
            freed.push((id, entry.object.clone()));
        }
        for (id, object) in freed {
            self.nominate(id, object, "");
        }
    }

    fn make_room(&mut self, by: PodId, object: &Object, pod: &Pod, node: usize, candidate: &Candidate) {
        let time = Seconds(self.now).to_string();
        for id in &candidate.victims {
            let Some(entry) = self.cache.pods[*id as usize].as_mut() else { continue };
            entry.is_doomed = true;
            self.cache.doomed.push((*id, by));
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
            self.ends.push(Act::from(Write::delete(victim)).on_done(spoken(note, object)));
        }
    }

    /// Keeps the room on the node that a pod was promised.
    fn reserve(&mut self, id: PodId) {
        if self.cache.pod(id).is_some_and(|entry| entry.node.is_none())
            && let Some(node) = self.promised(id)
        {
            // One that only waits for its volumes has its node.
            if self.is_settling(id) {
                self.cache.attach(id, node);
                self.cache.assumed.push(id);
            } else {
                self.hold(id, node);
            }
        }
    }

    fn waiting(&mut self, id: PodId) -> Option<&mut Waiting> {
        self.cache.pods[id as usize].as_mut()?.waiting.as_mut()
    }

    /// Whether a pod has its node and waits for its volumes there.
    fn is_settling(&self, id: PodId) -> bool {
        let waiting = self.cache.pod(id).and_then(|entry| entry.waiting);
        waiting.is_some_and(|waiting| waiting.settles.is_some())
    }

    /// Gives up the room that was kept for a pod, so that it is not in its own way.
    fn lift(&mut self, id: PodId) {
        if self.cache.pod(id).is_some_and(|entry| !entry.is_bound) {
            self.cache.detach(id);
        }
    }

    fn hold(&mut self, id: PodId, node: usize) {
        self.cache.hold(id, node);
        self.cache.assumed.push(id);
    }
}

/// The steps that finding volumes for claims takes, as far as they are more than usual.
fn volume_steps(claims: usize, world: &World, nodes: usize, heavy: Weight) -> u64 {
    let steps = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    // One claim is usual.
    let scanned = if claims > 1 { world.count("persistentvolumes") } else { 0 };
    let compared = heavy.conditions.saturating_mul(steps(nodes)).saturating_add(steps(scanned));
    let parsed = if claims > 0 { heavy.values } else { 0 };
    steps(claims).saturating_mul(compared).saturating_add(parsed)
}

/// What a pod can hope for that no node would do for.
enum Outlook {
    /// Room on a node.
    Room(usize, Candidate),
    /// Room that is being made.
    Waits,
    Nothing,
}

/// A note under the name of the scheduler that a pod asked for: each profile speaks for itself.
fn spoken(note: Note, pod: &Object) -> Note {
    match pod.view::<Pod>().map(|pod| pod.spec.scheduler_name.as_str()) {
        Some(name) if !name.is_empty() && name != NAME => note.said_by(name),
        _ => note,
    }
}

/// Why no node will do for a pod, and what can be done about it.
fn failure(search: &Search<'_>, promise: &str, class: &mut Class, cache: &mut Cache) -> (Verdict, Outlook) {
    if let Some(known) = class.last_failure(cache) {
        return (known, Outlook::Nothing);
    }
    let mut verdict = choose::explain(class, cache);
    if cache.existing == 0 {
        return (verdict, Outlook::Nothing);
    }
    let (outlook, words) = match search.objection(promise, class, cache) {
        Some(objection) => (Outlook::Waits, objection.to_owned()),
        None => match search.best(class, cache) {
            Ok((node, candidate)) => {
                let (name, count) = (&cache.nodes[node].name, candidate.victims.len() + candidate.going);
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
