//! What the rules need to know of the world, kept up with it change by change.
//!
//! Everything here can be made anew from a [`World`]: losing it costs time only. [`Cache::follow`] takes in what
//! changed since the world that it last saw. Pods that a plan places are put on their nodes at once; those that the
//! next world does not show there are taken off again.

pub mod claims;
pub mod counters;
pub mod counts;
mod news;
pub mod node;
pub mod owed;
pub mod sets;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use setpoint_api::{Key, Time};
use setpoint_reconcile::views::node::Node as NodeView;
use setpoint_reconcile::views::pod::Pod;
use setpoint_reconcile::views::service::Service;
use setpoint_reconcile::world::Then;
use setpoint_reconcile::{Failure, Object, World};

use crate::class::Class;
use crate::cost::{COST_MAX, Cost, TooCostly};
use crate::request::is_resized;
use crate::rules::Helps;
use crate::rules::volumes::reach::ReachCache;
use crate::shape::Shape;
use crate::waiting::Waiting;
use claims::Users;
use counters::{Counters, NEAR_WEIGHT, Weights, What};
use news::News;
use node::{Node, Offer};
use owed::Owed;
use sets::SetIndex;

/// The number of a pod.
pub type PodId = u32;
/// The number of a shape.
pub type ShapeId = u32;

/// How many changes of nodes are remembered before every result is computed anew, per node.
const TOUCHES_PER_NODE: usize = 4;
/// How many counters there may be before all are dropped and those that are needed are made anew, unless more than half
/// of them are needed.
const COUNTERS_MAX: usize = 1024;
/// How many numbers counters may hold in memory before all are dropped, unless more than half of them are needed.
const CELLS_MAX: usize = 8 << 20;
/// How many nodes may be remembered that do not exist, beside as many as do.
const GONE_MAX: usize = 1024;
/// How many shapes may have results.
const CLASSES_MAX: usize = 256;

/// A pod.
#[derive(Clone)]
pub struct PodEntry {
    /// The pod as it was last seen.
    pub object: Object,
    /// Its shape.
    pub shape: ShapeId,
    /// The node it is on, or counted on.
    pub node: Option<usize>,
    /// Whether the world shows it there.
    pub is_bound: bool,
    /// Whether it is only promised the node.
    pub is_held: bool,
    /// Whether somebody deleted it.
    pub is_deleted: bool,
    /// Whether it is to make room: a plan decided so, but the world does not show it yet.
    pub is_doomed: bool,
    /// What it waits for, if no node would do.
    pub waiting: Option<Waiting>,
}

/// A shape, with what was found out about it.
#[derive(Clone)]
pub struct ShapeEntry {
    /// The shape.
    pub shape: Arc<Shape>,
    /// How many pods have it.
    pub pods: usize,
    /// What its pods cost.
    pub cost: Cost,
    /// Where its pods count; nothing before the first of them comes to a node.
    weights: Option<Weights>,
    /// Results for it.
    pub class: Option<Box<Class>>,
}

/// The place of a pod in the line: the most important first, then the oldest.
pub type Place = (Reverse<i64>, Time, Key);

/// What the rules need to know.
#[derive(Clone, Default)]
pub struct Cache {
    /// The nodes; those that went keep their numbers.
    pub nodes: Vec<Node>,
    /// How many of them exist.
    pub existing: usize,
    /// The numbers of nodes.
    pub numbers: BTreeMap<Box<str>, usize>,
    /// The pods.
    pub pods: Vec<Option<PodEntry>>,
    free: Vec<PodId>,
    ids: BTreeMap<Key, PodId>,
    /// Pods that want a node, in their order.
    pub line: BTreeMap<Place, PodId>,
    /// The shapes.
    pub shapes: Vec<Option<ShapeEntry>>,
    free_shapes: Vec<ShapeId>,
    shape_ids: BTreeMap<Arc<Shape>, ShapeId>,
    /// The counts of pods.
    pub counters: Counters,
    /// How many pods use each claim.
    pub users: Users,
    /// How many nodes have an image.
    pub images: BTreeMap<Box<str>, usize>,
    touched: Vec<usize>,
    epoch: u64,
    /// Pods that the last plan put on nodes.
    pub assumed: Vec<PodId>,
    /// Pods that the last plan bound, in the order in which that was sent.
    pub sent: Vec<(PodId, Object)>,
    /// What failed before the last plan.
    pub failure: Option<Failure>,
    /// Pods that the last plan deleted, each with the one that it makes room for.
    pub doomed: Vec<(PodId, PodId)>,
    /// How many pods in the line are promised a node.
    pub held: usize,
    /// What the last plan wanted to write about pods.
    pub owed: Vec<Owed>,
    /// How many results were made since somebody looked whether they are too many.
    pub made: usize,
    /// Counts the tries, to know which results were used last.
    pub ticks: u64,
    /// What the changes since the last plan may have helped, and by which pods and claims.
    news: News,
    /// How many counters were needed when all were last made anew.
    counters_kept: usize,
    /// How many numbers they held.
    cells_kept: usize,
    /// How many plans in a row have left costly pods for later.
    pub deferrals: u32,
    /// How many sets of pods were compared with shapes of pods.
    pub compared: u64,
    /// How many nodes were looked at to find the best ones for pods whose rules depend on other pods or nodes.
    pub scanned: u64,
    /// How many places shapes of pods count in, since all counters were last made anew.
    placed: usize,
    /// How many of them were needed then.
    placed_kept: usize,
    /// The nodes that can reach volumes, as far as the plan at hand looked at them.
    pub reach: ReachCache,
    then: Thens,
}

/// The world that the cache last saw.
#[derive(Clone, Default)]
struct Thens {
    nodes: Then,
    pods: Then,
    namespaces: Then,
    volumes: [Then; 8],
    owners: [Then; 2],
}

const VOLUMES: [&str; 8] = [
    "persistentvolumes",
    CLAIMS,
    "storageclasses.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "csidrivers.storage.k8s.io",
    "csistoragecapacities.storage.k8s.io",
    "resourceclaims.resource.k8s.io",
    ATTACHMENTS,
];
/// Of these each helps those that use it.
const CLAIMS: &str = "persistentvolumeclaims";
/// Of these only that one goes helps anybody.
const ATTACHMENTS: &str = "volumeattachments.storage.k8s.io";
const OWNERS: [&str; 2] = ["services", "replicationcontrollers"];

impl Cache {
    /// Takes in what changed since the last time. `is_ours` says which pods want a node of us.
    pub fn follow(&mut self, world: &World, is_ours: impl Fn(&Object, &Pod) -> bool) {
        if self.is_mostly_gone() {
            *self = Cache::default();
        }
        self.follow_namespaces(world);
        self.follow_nodes(world);
        let then = std::mem::replace(&mut self.then.pods, world.then("pods"));
        for (was, now) in world.changes_since(&then, "pods") {
            match (was, now) {
                (_, Some(now)) => self.see_pod(now, &is_ours),
                (Some(was), None) => self.forget_pod(was.key()),
                (None, None) => {}
            }
        }
        self.drop_unconfirmed();
        self.collect();
        for (at, resource) in VOLUMES.iter().enumerate() {
            let then = std::mem::replace(&mut self.then.volumes[at], world.then(resource));
            for (was, now) in world.changes_since(&then, resource) {
                match (*resource, was.or(now)) {
                    (CLAIMS, Some(claim)) => {
                        self.news.claims.insert(claim.key().path().into());
                    }
                    (ATTACHMENTS, _) if now.is_some() => {}
                    _ => self.news.helps |= Helps::VOLUMES,
                }
            }
        }
        self.follow_owners(world);
        if self.has_idle_counters() {
            self.recount();
        }
        if self.touched.len() > TOUCHES_PER_NODE * self.nodes.len() + 1024 {
            self.touch_all();
        }
        self.drop_old_classes();
    }

    /// Whether most of the nodes that are known went, or never were: they cost as much as others. Begun anew, only those
    /// are known that exist or have pods.
    fn is_mostly_gone(&self) -> bool {
        self.nodes.len() > 2 * self.existing + GONE_MAX && {
            let is_gone = |node: &&Node| !node.exists && node.pods.is_empty();
            self.nodes.iter().filter(is_gone).count() > self.nodes.len() / 2
        }
    }

    fn follow_namespaces(&mut self, world: &World) {
        let then = std::mem::replace(&mut self.then.namespaces, world.then("namespaces"));
        let mut changed = false;
        for (was, now) in world.changes_since(&then, "namespaces") {
            match (was, now) {
                (_, Some(now)) => {
                    let labels = now.meta().labels.clone();
                    let was = self.counters.namespaces.insert(now.meta().name.clone(), labels);
                    changed |= was.as_ref() != Some(&now.meta().labels);
                }
                (Some(was), None) => {
                    self.counters.namespaces.remove(&was.meta().name);
                }
                (None, None) => {}
            }
        }
        let by_labels = |what: &What| match what {
            What::Meant(all) => all.iter().any(|pods| pods.of_namespaces.is_some()),
            What::Shunning(term) | What::Wishing(_, term) => term.pods.of_namespaces.is_some(),
            What::Selected { .. } => false,
        };
        if changed && self.counters.all.iter().any(|counter| by_labels(&counter.what)) {
            self.recount();
            self.news.helps |= Helps::PODS | Helps::PODS_CAME;
        }
    }

    fn follow_nodes(&mut self, world: &World) {
        let then = std::mem::replace(&mut self.then.nodes, world.then("nodes"));
        let (mut moved, mut images) = (false, false);
        let before = self.existing;
        for (was, now) in world.changes_since(&then, "nodes") {
            let Some(name) = was.or(now).map(|object| object.meta().name.clone()) else { continue };
            let at = self.number(&name);
            let offer = now.and_then(|now| Some(Offer::of(now, now.view::<NodeView>()?)));
            let node = &mut self.nodes[at];
            let exists = offer.is_some();
            let offer = offer.unwrap_or_default();
            if node.exists == exists && node.offer == offer {
                continue;
            }
            moved |= node.exists != exists
                || node.offer.labels != offer.labels
                || node.offer.taints != offer.taints;
            images |= node.offer.images != offer.images;
            self.news.helps |= if exists { Helps::NODES } else { Helps::NODES_GONE };
            self.existing = self.existing + usize::from(exists) - usize::from(node.exists);
            (node.exists, node.offer) = (exists, offer);
            self.touched.push(at);
        }
        if moved {
            self.counters.resum(&self.nodes);
        }
        // How much an image counts for depends on how many nodes there are.
        if images || (self.existing != before && !self.images.is_empty()) {
            self.count_images();
            self.touch_all();
        }
    }

    fn count_images(&mut self) {
        self.images.clear();
        for node in self.nodes.iter().filter(|node| node.exists) {
            for (name, _) in &node.offer.images {
                *self.images.entry(name.clone()).or_insert(0) += 1;
            }
        }
    }

    /// Who owns pods decides how they spread by default: what was found out for pods of these namespaces is dropped.
    fn follow_owners(&mut self, world: &World) {
        let mut namespaces = BTreeSet::new();
        for (at, resource) in OWNERS.iter().enumerate() {
            let then = std::mem::replace(&mut self.then.owners[at], world.then(resource));
            for (was, now) in world.changes_since(&then, resource) {
                let selector =
                    |object: &Object| object.view::<Service>().and_then(|one| one.spec.selector.clone());
                let same = was.zip(now).is_some_and(|(was, now)| match *resource {
                    "services" => selector(was) == selector(now),
                    _ => was.meta().generation == now.meta().generation,
                });
                if !same && let Some(object) = was.or(now) {
                    namespaces.insert(object.meta().namespace.clone());
                }
            }
        }
        if namespaces.is_empty() {
            return;
        }
        for entry in self.shapes.iter_mut().flatten().filter(|entry| entry.class.is_some()) {
            if namespaces.contains(&entry.shape.namespace) {
                entry.class = None;
            }
        }
    }

    /// The number of a node, which need not exist.
    fn number(&mut self, name: &str) -> usize {
        if let Some(at) = self.numbers.get(name) {
            return *at;
        }
        self.nodes.push(Node::named(name));
        let at = self.nodes.len() - 1;
        self.numbers.insert(name.into(), at);
        self.counters.grow(self.nodes.len());
        at
    }

    fn see_pod(&mut self, object: &Object, is_ours: &impl Fn(&Object, &Pod) -> bool) {
        let Some(pod) = object.view::<Pod>().filter(|pod| !pod.is_finished()) else {
            return self.forget_pod(object.key());
        };
        let is_bound = !pod.spec.node_name.is_empty();
        if !is_bound && !is_ours(object, pod) {
            return self.forget_pod(object.key());
        }
        let known = self.ids.get(object.key()).copied();
        let node = is_bound.then(|| self.number(&pod.spec.node_name));
        let is_deleted = object.meta().is_deleted();
        if let Some(id) = known.filter(|id| self.is_same(*id, object, node)) {
            // The generation tells whether anything but the status changed; labels are not in it.
            // What a pod counts for that changes its size is in its status, and so are the claims that are made for it.
            let unchanged = self.pod(id).is_some_and(|entry| {
                let was = entry.object.meta();
                was.generation > 0
                    && was.generation == object.meta().generation
                    && was.labels == object.meta().labels
                    && pod.spec.resource_claims.is_empty()
                    && !is_resized(pod)
                    && entry.object.view::<Pod>().is_some_and(|was| !is_resized(was))
            });
            if unchanged || self.shape_of(id).is_some_and(|known| **known == Shape::of(object, pod)) {
                self.renew_pod(id, object, is_bound);
                return;
            }
        }
        let shape = Shape::of(object, pod);
        if known.is_some() {
            self.forget_pod(object.key());
        }
        self.enter_pod(object, shape, node, is_deleted);
    }

    /// Whether a pod is the one that it was, and where it was thought to be.
    fn is_same(&self, id: PodId, object: &Object, node: Option<usize>) -> bool {
        self.pod(id).is_some_and(|entry| {
            entry.object.meta().uid == object.meta().uid
                && entry.is_deleted == object.meta().is_deleted()
                && (entry.node == node || (node.is_none() && !entry.is_bound))
        })
    }

    fn renew_pod(&mut self, id: PodId, object: &Object, is_bound: bool) {
        let priority = self.shape_of(id).map_or(0, |shape| shape.priority);
        let Some(entry) = self.pods[id as usize].as_mut() else { return };
        let leaves_line = is_bound && !entry.is_bound;
        let place = place(&entry.object, priority);
        entry.is_bound = is_bound;
        entry.object = object.clone();
        if leaves_line {
            entry.waiting = None;
            self.line.remove(&place);
            self.make_firm(id);
        }
    }

    /// A pod that was only promised its node is there.
    fn make_firm(&mut self, id: PodId) {
        let Some(entry) = self.pods[id as usize].as_mut().filter(|entry| entry.is_held) else { return };
        entry.is_held = false;
        if let (Some(node), Some(weights)) = (entry.node, weights(&self.shapes, entry.shape)) {
            self.counters.count_held(weights, entry.is_deleted, node, -1, 0);
        }
    }

    fn enter_pod(&mut self, object: &Object, shape: Shape, node: Option<usize>, is_deleted: bool) {
        let place = place(object, shape.priority);
        let shape = self.intern(shape);
        let entry = PodEntry {
            object: object.clone(),
            shape,
            node: None,
            is_bound: node.is_some(),
            is_held: false,
            is_deleted,
            is_doomed: false,
            waiting: None,
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.pods[id as usize] = Some(entry);
                id
            }
            None => {
                self.pods.push(Some(entry));
                u32::try_from(self.pods.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.ids.insert(object.key().clone(), id);
        match node {
            Some(node) => {
                self.attach(id, node);
                self.note_came(id);
            }
            None => {
                self.line.insert(place, id);
            }
        }
    }

    fn forget_pod(&mut self, key: &Key) {
        let Some(id) = self.ids.remove(key) else { return };
        if self.pods[id as usize].as_ref().is_some_and(|entry| entry.node.is_some()) {
            self.detach(id);
            self.news.helps |= Helps::PODS;
        }
        let Some(entry) = self.pods[id as usize].take() else { return };
        self.free.push(id);
        if let Some(shape) = self.shapes[entry.shape as usize].as_mut() {
            self.line.remove(&place(&entry.object, shape.shape.priority));
            shape.pods -= 1;
            if shape.pods == 0 {
                self.shape_ids.remove(&shape.shape);
                self.shapes[entry.shape as usize] = None;
                self.free_shapes.push(entry.shape);
            }
        }
    }

    /// The number of a shape, known or new.
    fn intern(&mut self, shape: Shape) -> ShapeId {
        if let Some(id) = self.shape_ids.get(&shape)
            && let Some(entry) = self.shapes[*id as usize].as_mut()
        {
            entry.pods += 1;
            return *id;
        }
        let shape = Arc::new(shape);
        let cost = Cost::of(&shape);
        let entry = ShapeEntry { shape: Arc::clone(&shape), pods: 1, cost, weights: None, class: None };
        let id = match self.free_shapes.pop() {
            Some(id) => {
                self.shapes[id as usize] = Some(entry);
                id
            }
            None => {
                self.shapes.push(Some(entry));
                u32::try_from(self.shapes.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.shape_ids.insert(shape, id);
        id
    }

    /// Finds out where pods of a shape count, before the first of them comes to a node. Until then nobody has to know:
    /// what a pod in the queue says of others concerns it alone.
    fn weigh(&mut self, id: ShapeId) {
        let Some(entry) = self.shapes[id as usize].as_ref().filter(|entry| entry.weights.is_none()) else {
            return;
        };
        let shape = Arc::clone(&entry.shape);
        let mut own: BTreeMap<u32, i32> = BTreeMap::new();
        let far = shape.others.far.iter().map(|term| What::Shunning(term.clone()));
        let near = shape.others.near.iter().map(|term| What::Wishing(NEAR_WEIGHT, term.clone()));
        let wishes = shape.others.wishes.iter().map(|(weight, term)| What::Wishing(*weight, term.clone()));
        for what in far.chain(near).chain(wishes) {
            let number = u32::try_from(self.counters.term(what)).unwrap_or(u32::MAX);
            *own.entry(number).or_insert(0) += 1;
        }
        let weights = self.counters.weigh(&shape, own);
        self.placed += weights.len();
        if let Some(entry) = self.shapes[id as usize].as_mut() {
            entry.weights = Some(weights);
        }
    }

    /// The counters of sets of pods, known or new. Pods are looked at once for all that are new.
    ///
    /// # Errors
    /// If the new ones would have to be compared with too many shapes of pods; then none is made.
    pub fn counters_of(&mut self, whats: impl IntoIterator<Item = What>) -> Result<Vec<usize>, TooCostly> {
        let whats: Vec<What> = whats.into_iter().collect();
        let shapes = self.shapes.iter().flatten().filter(|entry| entry.weights.is_some());
        let mut index = SetIndex::default();
        for (number, what) in whats.iter().enumerate().filter(|(_, what)| self.counters.find(what).is_none())
        {
            what.enter(&mut index, u32::try_from(number).unwrap_or(u32::MAX));
        }
        let mut steps = 0;
        if !index.is_empty() {
            for entry in shapes {
                index.candidates(&entry.shape.namespace, &entry.shape.labels, |number| {
                    steps += whats[number as usize].size();
                });
                if steps > COST_MAX {
                    return Err(TooCostly::Pod(steps));
                }
            }
        }
        let from = self.counters.all.len();
        let numbers = whats.into_iter().map(|what| self.counters.set(what)).collect();
        if steps > 0 {
            self.weigh_more(from);
        }
        Ok(numbers)
    }

    /// Counts pods in the counters from one on, which are new.
    fn weigh_more(&mut self, from: usize) {
        let index = self.counters.index_from(from);
        let mut any = false;
        for entry in self.shapes.iter_mut().flatten() {
            if let Some(weights) = &mut entry.weights {
                let before = weights.len();
                self.compared += self.counters.weigh_more(weights, &entry.shape, &index);
                self.placed += weights.len() - before;
                any |= weights.reach(from);
            }
        }
        if any {
            self.count_all(from);
        }
    }

    fn count_all(&mut self, from: usize) {
        for entry in self.pods.iter().flatten() {
            let found = entry.node.zip(weights(&self.shapes, entry.shape));
            if let Some((node, weights)) = found.filter(|(_, weights)| weights.reach(from)) {
                self.counters.count(weights, entry.is_deleted, node, 1, from);
                if entry.is_held {
                    self.counters.count_held(weights, entry.is_deleted, node, 1, from);
                }
            }
        }
    }

    /// Whether there are so many counters that it is worth while to drop those that nobody needs. Those that pods in the
    /// line ask for would be made anew, over all pods, as soon as these are tried again.
    fn has_idle_counters(&self) -> bool {
        let count = self.counters.all.len();
        let is_large = count.max(self.counters.scopes.len()) > COUNTERS_MAX;
        if self.is_overfull() || is_large && self.counters.cells() > CELLS_MAX.max(2 * self.cells_kept) {
            return true;
        }
        count > COUNTERS_MAX.max(2 * self.counters_kept)
            && count > 2 * (self.counters_kept + self.asked_for())
    }

    /// `true` if shapes of pods count in so many places that the memory for it is worth a recount.
    fn is_overfull(&self) -> bool {
        self.placed > CELLS_MAX.max(2 * self.placed_kept)
    }

    /// Drops counters that take too much memory. No results may be in use.
    pub fn shrink(&mut self) {
        if self.is_overfull() {
            self.recount();
        }
    }

    /// How many counters the rules of pods in the line ask for, at the most.
    fn asked_for(&self) -> usize {
        let shapes: BTreeSet<ShapeId> =
            self.line.values().filter_map(|id| Some(self.pod(*id)?.shape)).collect();
        let shapes = shapes.iter().filter_map(|id| self.shapes[*id as usize].as_ref());
        shapes.map(|entry| entry.shape.spread.len() + entry.shape.others.len()).sum()
    }

    /// Drops all counters and results, and counts anew what must be counted.
    fn recount(&mut self) {
        let namespaces = std::mem::take(&mut self.counters.namespaces);
        self.counters = Counters::default();
        self.counters.namespaces = namespaces;
        self.counters.resum(&self.nodes);
        for entry in self.shapes.iter_mut().flatten() {
            (entry.class, entry.weights) = (None, None);
        }
        self.placed = 0;
        let used: BTreeSet<ShapeId> = self
            .pods
            .iter()
            .flatten()
            .filter(|entry| entry.node.is_some())
            .map(|entry| entry.shape)
            .collect();
        for id in used {
            self.weigh(id);
        }
        self.count_all(0);
        (self.counters_kept, self.cells_kept) = (self.counters.all.len(), self.counters.cells());
        self.placed_kept = self.placed;
        self.news.renumber();
    }

    /// Puts a pod on a node.
    pub fn attach(&mut self, id: PodId, node: usize) {
        self.shift(id, node, 1);
        self.touched.push(node);
    }

    /// Counts a pod on the node that it is promised.
    pub fn hold(&mut self, id: PodId, node: usize) {
        if let Some(entry) = self.pods[id as usize].as_mut() {
            entry.is_held = true;
        }
        self.attach(id, node);
    }

    /// Takes a pod off its node.
    pub fn detach(&mut self, id: PodId) {
        if let Some(node) = self.pods[id as usize].as_ref().and_then(|entry| entry.node) {
            self.shift(id, node, -1);
            self.touched.push(node);
        }
        if let Some(entry) = self.pods[id as usize].as_mut() {
            entry.is_held = false;
        }
    }

    /// Puts a pod on a node or takes it off, without a word: for tries that are undone.
    pub fn shift(&mut self, id: PodId, node: usize, times: i64) {
        let Some(shape) = self.pods[id as usize].as_ref().map(|entry| entry.shape) else { return };
        self.weigh(shape);
        let Some(entry) = self.pods[id as usize].as_mut() else { return };
        let Some(shape) = self.shapes[entry.shape as usize].as_ref() else { return };
        entry.node = (times > 0).then_some(node);
        self.users.count(&shape.shape, times);
        if let Some(weights) = &shape.weights {
            self.counters.count(weights, entry.is_deleted, node, times, 0);
            if entry.is_held {
                self.counters.count_held(weights, entry.is_deleted, node, times, 0);
            }
        }
        match times {
            1 => self.nodes[node].add(id, &shape.shape),
            _ => self.nodes[node].remove(id, &shape.shape),
        }
    }

    /// Pods that were put on nodes and that the world does not show there are taken off.
    fn drop_unconfirmed(&mut self) {
        for id in std::mem::take(&mut self.assumed) {
            let unbound = self.pods[id as usize].as_ref().is_some_and(|entry| !entry.is_bound);
            if unbound {
                self.detach(id);
            }
        }
    }

    /// A pod.
    #[must_use]
    pub fn pod(&self, id: PodId) -> Option<&PodEntry> {
        self.pods.get(id as usize)?.as_ref()
    }

    /// The number of a pod.
    #[must_use]
    pub fn id(&self, key: &Key) -> Option<PodId> {
        self.ids.get(key).copied()
    }

    /// The shape of a pod.
    #[must_use]
    pub fn shape_of(&self, id: PodId) -> Option<&Arc<Shape>> {
        let entry = self.pod(id)?;
        self.shapes[entry.shape as usize].as_ref().map(|shape| &shape.shape)
    }

    /// The moment up to which results may be valid: see [`Cache::touched_since`].
    #[must_use]
    pub fn moment(&self) -> (u64, usize) {
        (self.epoch, self.touched.len())
    }

    /// The nodes that changed since a moment; nothing if every node may have.
    #[must_use]
    pub fn touched_since(&self, (epoch, at): (u64, usize)) -> Option<&[usize]> {
        (epoch == self.epoch).then(|| &self.touched[at..])
    }

    fn touch_all(&mut self) {
        self.epoch += 1;
        self.touched.clear();
    }

    /// Keeps the number of results bounded: the older half goes.
    fn drop_old_classes(&mut self) {
        if self.made <= CLASSES_MAX / 2 {
            return;
        }
        self.made = 0;
        let mut used: Vec<u64> =
            self.shapes.iter().flatten().filter_map(|entry| Some(entry.class.as_ref()?.used)).collect();
        if used.len() <= CLASSES_MAX / 2 {
            return;
        }
        let middle = used.len() / 2;
        let middle = *used.select_nth_unstable(middle).1;
        for entry in self.shapes.iter_mut().flatten() {
            if entry.class.as_ref().is_some_and(|class| class.used <= middle) {
                entry.class = None;
            }
        }
    }
}

/// Where pods of a shape count.
fn weights(shapes: &[Option<ShapeEntry>], id: ShapeId) -> Option<&Weights> {
    shapes[id as usize].as_ref()?.weights.as_ref()
}

/// The place of a pod in the line.
fn place(object: &Object, priority: i64) -> Place {
    (Reverse(priority), object.meta().created(), object.key().clone())
}

#[cfg(test)]
mod tests;
