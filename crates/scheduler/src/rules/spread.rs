//! Pods spread over the values of a label of nodes: some must, others should. Pods that do not say so spread over
//! nodes and zones with those that belong to the same Service or owner.

use std::collections::BTreeSet;

use setpoint_api::labels::Selector;
use setpoint_reconcile::World;
use setpoint_reconcile::views::replica_set::ReplicaSet;
use setpoint_reconcile::views::replication_controller::ReplicationController;
use setpoint_reconcile::views::service::Service;
use setpoint_reconcile::views::stateful_set::StatefulSet;

use super::{Helps, Rejection, SCORE_MAX};
use crate::cache::Cache;
use crate::cache::counters::{Over, TallyId, What};
use crate::cache::sets::Labels;
use crate::cost::TooCostly;
use crate::gates::Spread;
use crate::profile::Profile;
use crate::shape::{Constraint, Shape};

/// What it counts for beside other rules.
pub const WEIGHT: i64 = 2;

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// A wish to spread.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The label.
    pub key: usize,
    /// The counter of the pods.
    pub counter: usize,
    /// The counts by domain; where each node is its own domain, that of the node counts.
    pub tally: Option<TallyId>,
    /// By how much a domain may have more.
    pub skew: i64,
}

/// The wishes of a pod.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// They.
    pub all: Vec<Wish>,
    /// Whether nodes without one of the labels get no score.
    pub needs_all: bool,
}

/// The domains that will do.
///
/// # Errors
/// If the constraints of the pod are about too many pods.
pub fn gates(
    cache: &mut Cache,
    shape: &Shape,
    profile: &Profile,
    world: &World,
) -> Result<Vec<Spread>, TooCostly> {
    let defaults = if shape.spread.is_empty() { listed(shape, profile, world) } else { Vec::new() };
    let hard: Vec<&Constraint> = shape.spread.iter().chain(&defaults).filter(|one| one.hard).collect();
    let counters = cache.counters_of(hard.iter().map(|one| selected(shape, &one.selector)))?;
    let mut sets = NodeSets::new(hard.iter().map(|one| &one.key));
    let labels = Labels::of(&shape.labels);
    let spread = hard.iter().zip(counters).map(|(one, counter)| {
        let key = cache.counters.key(&one.key, &cache.nodes);
        let over = sets.over(cache, shape, one);
        let tally = cache.counters.tally(counter, key, over);
        let own = i64::from(one.selector.matches(|name| labels.get(name)));
        Spread { tally, skew: one.skew, min_domains: one.min_domains, own }
    });
    Ok(spread.collect())
}

/// The wishes of a pod: its own, or those that follow from whose it is.
///
/// # Errors
/// If the constraints of the pod are about too many pods.
pub fn wishes(
    cache: &mut Cache,
    shape: &Shape,
    profile: &Profile,
    world: &World,
) -> Result<Wishes, TooCostly> {
    let own = !shape.spread.is_empty();
    let defaults = match (own, profile.spreads) {
        (true, _) => Vec::new(),
        (false, true) => by_default(shape, world),
        (false, false) => listed(shape, profile, world),
    };
    let soft: Vec<&Constraint> = shape.spread.iter().chain(&defaults).filter(|one| !one.hard).collect();
    // Only what is built in counts nodes that lack one of the labels.
    let own = own || !profile.spreads;
    let counters = cache.counters_of(soft.iter().map(|one| selected(shape, &one.selector)))?;
    let mut sets = NodeSets::new(soft.iter().filter(|_| own).map(|one| &one.key));
    let all = soft.iter().zip(counters).map(|(one, counter)| {
        let key = cache.counters.key(&one.key, &cache.nodes);
        let tally = (*one.key != *HOSTNAME).then(|| {
            let over = sets.over(cache, shape, one);
            cache.counters.tally(counter, key, over)
        });
        Wish { key, counter, tally, skew: one.skew }
    });
    Ok(Wishes { all: all.collect(), needs_all: own })
}

/// The sets of nodes that the constraints of a pod are over: one for each of their policies, whatever their number.
struct NodeSets {
    keys: Vec<Box<str>>,
    known: [Option<usize>; 4],
}

impl NodeSets {
    fn new<'a>(keys: impl Iterator<Item = &'a Box<str>>) -> NodeSets {
        let keys: BTreeSet<&Box<str>> = keys.collect();
        NodeSets { keys: keys.into_iter().cloned().collect(), known: [None; 4] }
    }

    fn over(&mut self, cache: &mut Cache, shape: &Shape, one: &Constraint) -> usize {
        let at = usize::from(one.by_affinity) + 2 * usize::from(one.by_taints);
        *self.known[at].get_or_insert_with(|| {
            let over = Over {
                nodes: (one.by_affinity && !shape.nodes.is_any()).then(|| shape.nodes.clone()),
                tolerations: one.by_taints.then(|| shape.tolerations.clone()),
                keys: self.keys.clone(),
            };
            cache.counters.node_set(over, &cache.nodes)
        })
    }
}

/// The pods of a namespace that a selector selects; one that selects all counts none, as upstream.
fn selected(shape: &Shape, selector: &Selector) -> What {
    let selector = if selector.is_everything() { Selector::Nothing } else { selector.clone() };
    What::Selected { namespace: shape.namespace.clone(), selector }
}

/// How pods of a profile spread that do not say: with those that belong together with them, if there are such.
fn listed(shape: &Shape, profile: &Profile, world: &World) -> Vec<Constraint> {
    if profile.constraints.is_empty() {
        return Vec::new();
    }
    let selector = kin(shape, world);
    if selector.is_everything() {
        return Vec::new();
    }
    let with = |one: &Constraint| Constraint { selector: selector.clone(), ..one.clone() };
    profile.constraints.iter().map(with).collect()
}

fn by_default(shape: &Shape, world: &World) -> Vec<Constraint> {
    let selector = kin(shape, world);
    if selector.is_everything() {
        return Vec::new();
    }
    let constraint = |key: &str, skew| Constraint {
        key: key.into(),
        skew,
        hard: false,
        selector: selector.clone(),
        min_domains: 1,
        by_affinity: true,
        by_taints: false,
    };
    vec![constraint(HOSTNAME, 3), constraint(ZONE, 5)]
}

/// The pods that belong together with a pod: those that the same Services and the same owner select.
fn kin(shape: &Shape, world: &World) -> Selector {
    let mut labels: Vec<(&str, &str)> = Vec::new();
    for object in world.in_namespace("services", &shape.namespace) {
        let Some(selector) = object.view::<Service>().and_then(|service| service.spec.selector.as_ref())
        else {
            continue;
        };
        if !selector.is_empty() && selector.iter().all(|(key, value)| shape.labels.get(key) == Some(value)) {
            labels.extend(selector.iter());
        }
    }
    let owner = shape.owner.as_ref().map(|(kind, name)| (&**kind, &**name));
    let of_owner = match owner {
        Some(("ReplicaSet", name)) => {
            world.view::<ReplicaSet>(&shape.namespace, name).map(|(_, set)| set.spec.selector.clone())
        }
        Some(("StatefulSet", name)) => {
            world.view::<StatefulSet>(&shape.namespace, name).map(|(_, set)| set.spec.selector.clone())
        }
        Some(("ReplicationController", name)) => world
            .view::<ReplicationController>(&shape.namespace, name)
            .map(|(_, set)| set.0.spec.selector.clone()),
        _ => None,
    };
    labels.sort_unstable();
    labels.dedup();
    let mut requirements = Selector::from_labels(labels).requirements().to_vec();
    requirements.extend(of_owner.iter().flat_map(|selector| selector.requirements()).cloned());
    requirements.dedup();
    Selector::new(requirements)
}

/// Why a domain will not do.
#[must_use]
pub fn rejection(missing: bool) -> Rejection {
    let helps = Helps::NODES | Helps::NODES_GONE | Helps::PODS | Helps::PODS_CAME;
    if missing {
        let why = "node(s) didn't match pod topology spread constraints (missing required label)";
        Rejection::for_good(why, Helps::NODES)
    } else {
        Rejection::by_pods("node(s) didn't match pod topology spread constraints", helps)
    }
}

/// The score of a node whose domains have so much, between the least and the most.
#[must_use]
pub fn score(crowd: i64, least: i64, most: i64) -> i64 {
    if most == 0 { SCORE_MAX } else { SCORE_MAX * (most + least - crowd) / most }
}

/// What the pods of a domain count for, of which there are so many.
#[must_use]
pub fn crowd(count: i64, skew: i64, domains: usize) -> f64 {
    count as f64 * ((domains + 2) as f64).ln() + (skew - 1) as f64
}
