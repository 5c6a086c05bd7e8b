//! Cost of scheduling a pod, in steps that each take some ten nanoseconds, known before any of it is done.
//!
//! A pod may have as many terms as a request can carry. Most cost no more than their number; those that have to be
//! compared with every node, or with every other pod, are counted here. A costly pod is tried after the cheap ones of
//! its priority, and one that would hold up the queue for long is not tried at all.

use crate::rules::Helps;
use crate::shape::Shape;

/// Pods that cost more are tried after others of the same priority.
pub const COSTLY: u64 = 500_000;
/// Costly pods that one plan takes cost no more than this together, but for the first.
pub const PLAN_COST_MAX: u64 = 2_000_000;
/// A pod that costs more gets no node: some tenths of a second.
pub const COST_MAX: u64 = 20_000_000;
/// The same for the volumes that its claims have or may get: a large cluster has very many volumes.
pub const VOLUME_COST_MAX: u64 = 200_000_000;
/// Values in the node affinity of volumes that are held in parsed form at a time: some hundred megabytes.
pub const VOLUME_VALUES_MAX: u64 = VOLUME_COST_MAX / VALUE;
/// Plans with cheap pods in them that a costly pod lets pass, before it is tried beside them.
pub const DEFERRALS_MAX: u32 = 8;
/// What a term about other pods costs by itself: its counters, their places in indexes and their sums.
const TERM: u64 = 64;
/// Cost of a volume that a claim is compared with, whether or not the claim may get it.
const SCAN: u64 = 32;
/// Cost of a value in a condition, paid once: it is copied and sorted.
const VALUE: u64 = 100;

/// The cost of the pods of a shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Once.
    once: u64,
    /// For each node.
    per_node: u64,
}

/// The cost of the volumes of one pod, added up before anything is built for them.
#[derive(Clone, Copy, Debug)]
pub struct VolumeCost {
    nodes: u64,
    steps: u64,
}

impl VolumeCost {
    /// No cost yet, on so many nodes.
    #[must_use]
    pub fn on(nodes: usize) -> VolumeCost {
        VolumeCost { nodes: count(nodes), steps: 0 }
    }

    /// Adds the search of claims through all volumes.
    ///
    /// # Errors
    /// If it costs too much.
    pub fn add_scans(&mut self, claims: usize, volumes: usize) -> Result<(), TooCostly> {
        self.add(count(claims).saturating_mul(count(volumes)).saturating_mul(SCAN))
    }

    /// Adds conditions that every node is compared with.
    ///
    /// # Errors
    /// If it costs too much.
    pub fn add_conditions(&mut self, conditions: u64) -> Result<(), TooCostly> {
        self.add(conditions.saturating_mul(self.nodes))
    }

    /// Adds values of conditions, which are parsed once.
    ///
    /// # Errors
    /// If it costs too much.
    pub fn add_values(&mut self, values: u64) -> Result<(), TooCostly> {
        self.add(values.saturating_mul(VALUE))
    }

    fn add(&mut self, steps: u64) -> Result<(), TooCostly> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > VOLUME_COST_MAX { Err(TooCostly::Volumes(self.steps)) } else { Ok(()) }
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Reasons not to look for a node, with the steps that it would take at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooCostly {
    /// The terms of the pod.
    Pod(u64),
    /// The volumes that its claims have or may get.
    Volumes(u64),
}

impl TooCostly {
    /// The same in words.
    #[must_use]
    pub fn message(self) -> String {
        match self {
            TooCostly::Pod(steps) => format!(
                "scheduling the pod would take {steps} steps (maximum {COST_MAX}): \
                 it has too many affinity terms, topology spread constraints, tolerations, resources or claims"
            ),
            TooCostly::Volumes(steps) => format!(
                "finding volumes for the pod would take at least {steps} steps (maximum {VOLUME_COST_MAX}): \
                 it has too many claims, or its volumes have too many node affinity terms"
            ),
        }
    }

    /// Changes that may make it cheaper.
    #[must_use]
    pub fn helps(self) -> Helps {
        let any = Helps::NODES_GONE | Helps::PODS;
        match self {
            TooCostly::Pod(_) => any,
            TooCostly::Volumes(_) => any | Helps::VOLUMES,
        }
    }
}

impl Cost {
    /// The cost of the pods of a shape.
    #[must_use]
    pub fn of(shape: &Shape) -> Cost {
        let others = &shape.others;
        let terms = others.near.len() + others.far.len() + others.wishes.len() + shape.spread.len();
        let conditions = shape.nodes.conditions();
        let preferred: usize = shape.prefers.iter().map(|(_, term)| term.conditions()).sum();
        // Spread constraints look at the nodes that the pod may be on, for each of their policies.
        let sets = if shape.spread.is_empty() { 1 } else { 3 };
        let per_node = conditions * sets
            + preferred
            + shape.tolerations.compared() * sets
            + shape.request.asked.others.len()
            + shape.disks.len();
        // A plain pod costs nothing that this counts.
        let per_node = if per_node <= 2 { 0 } else { per_node };
        Cost { once: count(terms) * TERM + count(shape.ports.len()), per_node: count(per_node) }
    }

    /// The cost on so many nodes.
    #[must_use]
    pub fn on(self, nodes: usize) -> u64 {
        self.once.saturating_add(self.per_node.saturating_mul(count(nodes)))
    }

    /// The cost where results of an earlier try are known.
    #[must_use]
    pub fn again(self) -> u64 {
        self.once / TERM
    }

    /// `true` if it can be afforded on so many nodes.
    ///
    /// # Errors
    /// If not.
    pub fn check(self, nodes: usize) -> Result<(), TooCostly> {
        let steps = self.on(nodes);
        if steps > COST_MAX { Err(TooCostly::Pod(steps)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use setpoint_reconcile::World;

    use super::*;
    use crate::cache::Cache;
    use crate::choose::explain;
    use crate::class::Class;
    use crate::profile::Profile;
    use crate::shape::{NodeChoice, Pods};

    fn choosy(conditions: usize) -> Shape {
        let selector: Vec<String> = (0..conditions).map(|i| format!("k{i}")).collect();
        let selector = selector.iter().map(|key| (key.as_str(), "v")).collect();
        Shape { nodes: NodeChoice { selector, terms: None }, ..Shape::default() }
    }

    #[test]
    fn cost_grows_with_the_pod_and_not_with_what_is_usual() {
        assert_eq!(Cost::of(&Shape::default()).on(1_000_000), 0);
        assert!(Cost::of(&choosy(20)).on(5_000) < COSTLY, "a pod may name some labels of a large cluster");
        let (once, four_times) = (Cost::of(&choosy(100)).on(5_000), Cost::of(&choosy(400)).on(5_000));
        assert_eq!(four_times, 4 * once);
        assert!(
            Cost::of(&choosy(5_000)).check(5_000).is_err() && Cost::of(&choosy(5_000)).check(100).is_ok()
        );
    }

    #[test]
    fn pod_over_the_bound_gets_no_node_and_a_clear_message() {
        let mut cache = Cache::default();
        cache.existing = 10_000_000;
        let class = Class::new(&choosy(3), &mut cache, &World::default(), &Profile::named("any"));
        assert!(class.is_too_costly && class.is_empty() && class.find(&cache, 1).is_none());
        let message = explain(&class, &cache).message;
        let expected = "0/10000000 nodes are available: scheduling the pod would take 30000000 steps (maximum 20000000): \
            it has too many affinity terms, topology spread constraints, tolerations, resources or claims.";
        assert_eq!(message, expected);
    }

    #[test]
    fn terms_count_by_number() {
        let pods = Pods {
            selector: setpoint_api::labels::Selector::Nothing,
            namespaces: Vec::new(),
            of_namespaces: None,
        };
        let mut shape = Shape::default();
        shape.others.far = vec![crate::shape::PodTerm { key: "k".into(), pods }; 10_000];
        let cost = Cost::of(&shape);
        assert!(cost.on(5_000) > COSTLY && cost.check(5_000).is_ok(), "{}", cost.on(5_000));
        assert!(cost.again() < COSTLY, "what is known from an earlier try is cheap");
    }
}
