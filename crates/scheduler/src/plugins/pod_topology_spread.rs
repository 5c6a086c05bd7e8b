//! PodTopologySpread plugin: spread constraints of pods, hard (`DoNotSchedule`) and soft (`ScheduleAnyway`).
//!
//! A pod without constraints gets the default ones of its profile: by default soft constraints over hostnames and zones,
//! for the pods of the same Services and owner. [`hard_constraints`] filter nodes, [`soft_spread`] scores them.

use std::collections::BTreeSet;

use setpoint_api::labels::Selector;
use setpoint_reconcile::WorldReader;
use setpoint_views::replica_set::ReplicaSet;
use setpoint_views::replication_controller::ReplicationController;
use setpoint_views::service::Service;
use setpoint_views::stateful_set::StatefulSet;

use super::{QueueingHint, Rejection, SCORE_MAX};
use crate::cache::SchedulerCache;
use crate::cache::selector_index::SortedLabels;
use crate::cache::topology_counters::{CountedPods, NodeFilter, TallyId};
use crate::cost::TooCostly;
use crate::profile::Profile;
use crate::signature::{PodSignature, SpreadConstraint};
use crate::topology::HardSpread;

/// Default weight of the score.
pub const WEIGHT: i64 = 2;

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Soft spread constraint with its counts.
#[derive(Clone, Debug)]
pub struct SoftSpreadConstraint {
    /// Number of the topology key.
    pub key: usize,
    /// Counter of the selected pods.
    pub counter: usize,
    /// Selected pods by domain; `None` for hostnames, where the counts by node are used.
    pub tally: Option<TallyId>,
    /// `maxSkew`.
    pub max_skew: i64,
}

/// Soft spread constraints of a pod.
#[derive(Clone, Debug, Default)]
pub struct SoftSpread {
    /// The constraints.
    pub constraints: Vec<SoftSpreadConstraint>,
    /// `true` if a node without one of the topology keys scores 0. Not so for the system default constraints.
    pub requires_all_keys: bool,
}

/// Returns the hard constraints of a pod.
///
/// # Errors
/// If the constraints need too many comparisons with other pods.
pub fn hard_constraints(
    cache: &mut SchedulerCache,
    signature: &PodSignature,
    profile: &Profile,
    world: &WorldReader<'_>,
) -> Result<Vec<HardSpread>, TooCostly> {
    let defaults = if signature.spread.is_empty() {
        list_default_constraints(signature, profile, world)
    } else {
        Vec::new()
    };
    let hard: Vec<&SpreadConstraint> =
        signature.spread.iter().chain(&defaults).filter(|one| one.is_hard).collect();
    let counters =
        cache.find_or_add_counters(hard.iter().map(|one| pods_selected_by(signature, &one.selector)))?;
    let mut node_sets = EligibleNodeSets::new(hard.iter().map(|one| &one.topology_key));
    let labels = SortedLabels::new(&signature.labels);
    let spread = hard.iter().zip(counters).map(|(one, counter)| {
        let key = cache.counters.find_or_add_key(&one.topology_key, &cache.nodes);
        let node_set = node_sets.find_or_add(cache, signature, one);
        let tally = cache.counters.find_or_add_tally(counter, key, node_set);
        let self_match = i64::from(one.selector.matches(|name| labels.get(name)));
        HardSpread { tally, max_skew: one.max_skew, min_domains: one.min_domains, self_match }
    });
    Ok(spread.collect())
}

/// Returns the soft constraints of a pod, its own or the default ones.
///
/// # Errors
/// If the constraints need too many comparisons with other pods.
pub fn soft_spread(
    cache: &mut SchedulerCache,
    signature: &PodSignature,
    profile: &Profile,
    world: &WorldReader<'_>,
) -> Result<SoftSpread, TooCostly> {
    let has_own = !signature.spread.is_empty();
    let defaults = match (has_own, profile.has_system_defaults) {
        (true, _) => Vec::new(),
        (false, true) => system_default_constraints(signature, world),
        (false, false) => list_default_constraints(signature, profile, world),
    };
    let soft: Vec<&SpreadConstraint> =
        signature.spread.iter().chain(&defaults).filter(|one| !one.is_hard).collect();
    // As upstream, only the system defaults tolerate nodes without one of the topology keys.
    let requires_all_keys = has_own || !profile.has_system_defaults;
    let counters =
        cache.find_or_add_counters(soft.iter().map(|one| pods_selected_by(signature, &one.selector)))?;
    let required_keys = soft.iter().filter(|_| requires_all_keys).map(|one| &one.topology_key);
    let mut node_sets = EligibleNodeSets::new(required_keys);
    let constraints = soft.iter().zip(counters).map(|(one, counter)| {
        let key = cache.counters.find_or_add_key(&one.topology_key, &cache.nodes);
        let tally = (*one.topology_key != *HOSTNAME).then(|| {
            let node_set = node_sets.find_or_add(cache, signature, one);
            cache.counters.find_or_add_tally(counter, key, node_set)
        });
        SoftSpreadConstraint { key, counter, tally, max_skew: one.max_skew }
    });
    Ok(SoftSpread { constraints: constraints.collect(), requires_all_keys })
}

/// Node sets for the constraints of one pod: at most one per combination of `nodeAffinityPolicy` and
/// `nodeTaintsPolicy`, whatever the number of constraints.
struct EligibleNodeSets {
    required_keys: Vec<Box<str>>,
    known: [Option<usize>; 4],
}

impl EligibleNodeSets {
    fn new<'a>(required_keys: impl Iterator<Item = &'a Box<str>>) -> EligibleNodeSets {
        let keys: BTreeSet<&Box<str>> = required_keys.collect();
        EligibleNodeSets { required_keys: keys.into_iter().cloned().collect(), known: [None; 4] }
    }

    fn find_or_add(
        &mut self,
        cache: &mut SchedulerCache,
        signature: &PodSignature,
        one: &SpreadConstraint,
    ) -> usize {
        let at = usize::from(one.honors_node_affinity) + 2 * usize::from(one.honors_taints);
        *self.known[at].get_or_insert_with(|| {
            let affinity = &signature.node_affinity;
            let filter = NodeFilter {
                node_affinity: (one.honors_node_affinity && !affinity.is_unrestricted())
                    .then(|| affinity.clone()),
                tolerations: one.honors_taints.then(|| signature.tolerations.clone()),
                required_keys: self.required_keys.clone(),
            };
            cache.counters.find_or_add_node_set(filter, &cache.nodes)
        })
    }
}

/// Returns the set of pods in the namespace of the pod that match a selector. As upstream, a selector that matches
/// everything counts nothing.
fn pods_selected_by(signature: &PodSignature, selector: &Selector) -> CountedPods {
    let selector = if selector.is_everything() { Selector::Nothing } else { selector.clone() };
    CountedPods::Selected { namespace: signature.namespace.clone(), selector }
}

/// Default constraints of a profile with `defaultingType: List`; none if no Service or owner selects the pod.
fn list_default_constraints(
    signature: &PodSignature,
    profile: &Profile,
    world: &WorldReader<'_>,
) -> Vec<SpreadConstraint> {
    if profile.default_constraints.is_empty() {
        return Vec::new();
    }
    let selector = default_selector(signature, world);
    if selector.is_everything() {
        return Vec::new();
    }
    let with_selector =
        |one: &SpreadConstraint| SpreadConstraint { selector: selector.clone(), ..one.clone() };
    profile.default_constraints.iter().map(with_selector).collect()
}

/// Default constraints of a profile with `defaultingType: System`; none if no Service or owner selects the pod.
fn system_default_constraints(signature: &PodSignature, world: &WorldReader<'_>) -> Vec<SpreadConstraint> {
    let selector = default_selector(signature, world);
    if selector.is_everything() {
        return Vec::new();
    }
    let constraint = |topology_key: &str, max_skew| SpreadConstraint {
        topology_key: topology_key.into(),
        max_skew,
        is_hard: false,
        selector: selector.clone(),
        min_domains: 1,
        honors_node_affinity: true,
        honors_taints: false,
    };
    vec![constraint(HOSTNAME, 3), constraint(ZONE, 5)]
}

/// Returns the selector of default constraints: the selectors of all Services that match the pod, and of its owner.
fn default_selector(signature: &PodSignature, world: &WorldReader<'_>) -> Selector {
    let mut labels: Vec<(&str, &str)> = Vec::new();
    for object in world.in_namespace("services", &signature.namespace) {
        let Some(selector) = object.view::<Service>().and_then(|service| service.spec.selector.as_ref())
        else {
            continue;
        };
        let is_match = |(key, value): (&str, &str)| signature.labels.get(key) == Some(value);
        if !selector.is_empty() && selector.iter().all(is_match) {
            labels.extend(selector.iter());
        }
    }
    let owner = signature.owner.as_ref().map(|(kind, name)| (&**kind, &**name));
    let of_owner = match owner {
        Some(("ReplicaSet", name)) => {
            world.view::<ReplicaSet>(&signature.namespace, name).map(|(_, set)| set.spec.selector.clone())
        }
        Some(("StatefulSet", name)) => {
            world.view::<StatefulSet>(&signature.namespace, name).map(|(_, set)| set.spec.selector.clone())
        }
        Some(("ReplicationController", name)) => world
            .view::<ReplicationController>(&signature.namespace, name)
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

/// Returns the rejection of a node that violates a hard constraint, or that does not have the topology key.
#[must_use]
pub fn rejection(is_key_missing: bool) -> Rejection {
    if is_key_missing {
        let reason = "node(s) didn't match pod topology spread constraints (missing required label)";
        return Rejection::unresolvable(reason, QueueingHint::NODE_ADD_OR_UPDATE);
    }
    let hint = QueueingHint::NODE_ADD_OR_UPDATE
        | QueueingHint::NODE_DELETE
        | QueueingHint::ASSIGNED_POD_DELETE
        | QueueingHint::ASSIGNED_POD_ADD;
    Rejection::resolvable("node(s) didn't match pod topology spread constraints", hint)
}

/// Score of a node whose domains sum up to `sum`, if the sums of all feasible nodes range from `min` to `max`.
#[must_use]
pub fn score(sum: i64, min: i64, max: i64) -> i64 {
    if max == 0 { SCORE_MAX } else { SCORE_MAX * (max + min - sum) / max }
}

/// Raw score of a domain with `count` selected pods: higher is worse. As upstream, a key with more domains weighs more.
#[must_use]
pub fn domain_score(count: i64, max_skew: i64, domains: usize) -> f64 {
    count as f64 * ((domains + 2) as f64).ln() + (max_skew - 1) as f64
}
