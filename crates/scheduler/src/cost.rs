//! Cost of scheduling a pod in steps of about ten nanoseconds, estimated before any work is done.
//!
//! A pod can have as many terms as fit into a request. Terms that are compared with every node or with every other pod
//! are counted here. A costly pod is attempted after the cheap ones of its priority, and a pod that would block the
//! queue for long is not attempted at all.

use crate::plugins::QueueingHint;
use crate::signature::PodSignature;

/// Cost above which a pod is attempted after the others of its priority.
pub const COSTLY_MIN: u64 = 500_000;
/// Total cost of the costly pods in one plan. The first one is exempt.
pub const PLAN_COST_MAX: u64 = 2_000_000;
/// Cost above which a pod is rejected: a few tenths of a second.
pub const COST_MAX: u64 = 20_000_000;
/// Cost of a pod's volumes above which it is rejected. Higher, since a large cluster has very many volumes.
const VOLUME_COST_MAX: u64 = 200_000_000;
/// Values in parsed node affinity of volumes that are kept in memory: some hundred megabytes.
pub const VOLUME_VALUES_MAX: u64 = VOLUME_COST_MAX / VALUE_COST;
/// Plans with cheap pods for which a costly pod is deferred, before it is attempted beside them.
pub const DEFERRED_PLANS_MAX: u32 = 8;
/// Fixed cost of an affinity term or spread constraint: its counter, index entries and tally.
const TERM_COST: u64 = 64;
/// Cost of comparing a claim with a volume.
const SCAN_COST: u64 = 32;
/// Cost of parsing a value in a node selector requirement: it is copied and sorted once.
const VALUE_COST: u64 = 100;

/// Cost of scheduling a pod of one signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulingCost {
    /// Steps that do not depend on the number of nodes.
    fixed: u64,
    /// Steps for each node.
    per_node: u64,
}

/// Cost of the volumes of one pod, added up before anything is built for them.
#[derive(Clone, Copy, Debug)]
pub struct VolumeCost {
    nodes: u64,
    steps: u64,
}

impl VolumeCost {
    /// Returns a cost of 0 on a number of nodes.
    #[must_use]
    pub fn on_nodes(nodes: usize) -> VolumeCost {
        VolumeCost { nodes: to_u64(nodes), steps: 0 }
    }

    /// Adds the comparison of claims with all volumes.
    ///
    /// # Errors
    /// If the sum is too high.
    pub fn add_scans(&mut self, claims: usize, volumes: usize) -> Result<(), TooCostly> {
        self.add(to_u64(claims).saturating_mul(to_u64(volumes)).saturating_mul(SCAN_COST))
    }

    /// Adds conditions that every node is tested against.
    ///
    /// # Errors
    /// If the sum is too high.
    pub fn add_conditions(&mut self, conditions: u64) -> Result<(), TooCostly> {
        self.add(conditions.saturating_mul(self.nodes))
    }

    /// Adds values to parse.
    ///
    /// # Errors
    /// If the sum is too high.
    pub fn add_values(&mut self, values: u64) -> Result<(), TooCostly> {
        self.add(values.saturating_mul(VALUE_COST))
    }

    fn add(&mut self, steps: u64) -> Result<(), TooCostly> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > VOLUME_COST_MAX { Err(TooCostly::Volumes(self.steps)) } else { Ok(()) }
    }
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Rejection of a pod because of its cost, with a lower bound of the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooCostly {
    /// Terms of the pod.
    Pod(u64),
    /// Volumes that its claims are bound to or can be bound to.
    Volumes(u64),
}

impl TooCostly {
    /// Returns the message for the pod's condition and Event.
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

    /// Returns the events that can reduce the cost.
    #[must_use]
    pub fn hint(self) -> QueueingHint {
        let any = QueueingHint::NODE_DELETE | QueueingHint::ASSIGNED_POD_DELETE;
        match self {
            TooCostly::Pod(_) => any,
            TooCostly::Volumes(_) => any | QueueingHint::STORAGE,
        }
    }
}

impl SchedulingCost {
    /// Estimates the cost of a signature.
    #[must_use]
    pub fn new(signature: &PodSignature) -> SchedulingCost {
        let terms = signature.pod_affinity.len() + signature.spread.len();
        let conditions = signature.node_affinity.condition_count();
        let preferred: usize =
            signature.preferred_node_terms.iter().map(|(_, term)| term.condition_count()).sum();
        // Spread constraints test nodes for eligibility, up to once per policy.
        let node_sets = if signature.spread.is_empty() { 1 } else { 3 };
        let per_node = conditions * node_sets
            + preferred
            + signature.tolerations.numeric_count() * node_sets
            + signature.request.requested.scalars.len()
            + signature.disks.len();
        // A plain pod costs nothing by this estimate.
        let per_node = if per_node <= 2 { 0 } else { per_node };
        let fixed = to_u64(terms) * TERM_COST + to_u64(signature.ports.count());
        SchedulingCost { fixed, per_node: to_u64(per_node) }
    }

    /// Steps of an attempt on a number of nodes.
    #[must_use]
    pub fn on_nodes(self, nodes: usize) -> u64 {
        self.fixed.saturating_add(self.per_node.saturating_mul(to_u64(nodes)))
    }

    /// Steps of an attempt with results of an earlier one.
    #[must_use]
    pub fn of_retry(self) -> u64 {
        self.fixed / TERM_COST
    }

    /// Checks the cost on a number of nodes.
    ///
    /// # Errors
    /// If it is above [`COST_MAX`].
    pub fn check(self, nodes: usize) -> Result<(), TooCostly> {
        let steps = self.on_nodes(nodes);
        if steps > COST_MAX { Err(TooCostly::Pod(steps)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::labels::Selector;
    use setpoint_reconcile::World;

    use super::*;
    use crate::cache::SchedulerCache;
    use crate::filter_score_cache::FilterScoreCache;
    use crate::profile::Profile;
    use crate::selection::diagnose;
    use crate::signature::{AffinityTerm, PodSelector};
    use setpoint_requirements::node_affinity::RequiredNodeAffinity;

    fn with_node_selector(labels: usize) -> PodSignature {
        let keys: Vec<String> = (0..labels).map(|i| format!("k{i}")).collect();
        let selector = keys.iter().map(|key| (key.as_str(), "v")).collect();
        let node_affinity = RequiredNodeAffinity { selector, terms: None };
        PodSignature { node_affinity, ..PodSignature::default() }
    }

    #[test]
    fn cost_is_proportional_to_conditions_and_0_for_a_plain_pod() {
        let cost = |labels: usize| SchedulingCost::new(&with_node_selector(labels));
        assert_eq!(SchedulingCost::new(&PodSignature::default()).on_nodes(1_000_000), 0);
        assert!(cost(20).on_nodes(5_000) < COSTLY_MIN, "a pod may select by some labels in a large cluster");
        assert_eq!(cost(400).on_nodes(5_000), 4 * cost(100).on_nodes(5_000));
        assert!(cost(5_000).check(5_000).is_err() && cost(5_000).check(100).is_ok());
    }

    #[test]
    fn pod_over_the_limit_is_rejected_with_a_clear_message() {
        let mut cache = SchedulerCache::default();
        cache.node_count = 10_000_000;
        let signature = with_node_selector(3);
        let results =
            FilterScoreCache::new(&signature, &mut cache, &World::default().reader(), &Profile::new("any"));
        assert!(results.is_too_costly && results.is_empty() && results.select_node(&cache, 1).is_none());
        let message = diagnose(&results, &cache).message;
        let expected = "0/10000000 nodes are available: scheduling the pod would take 30000000 steps (maximum 20000000): \
            it has too many affinity terms, topology spread constraints, tolerations, resources or claims.";
        assert_eq!(message, expected);
    }

    #[test]
    fn affinity_terms_cost_by_number_and_little_on_a_retry() {
        let pods =
            PodSelector { selector: Selector::Nothing, namespaces: Vec::new(), namespace_selector: None };
        let mut signature = PodSignature::default();
        signature.pod_affinity.required_anti_affinity =
            vec![AffinityTerm { topology_key: "k".into(), pods }; 10_000];
        let cost = SchedulingCost::new(&signature);
        assert!(cost.on_nodes(5_000) > COSTLY_MIN && cost.check(5_000).is_ok(), "{}", cost.on_nodes(5_000));
        assert!(cost.of_retry() < COSTLY_MIN, "a retry reuses results");
    }
}
