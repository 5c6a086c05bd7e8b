//! NodeResourcesFit and NodeResourcesBalancedAllocation plugins: filters nodes without enough allocatable resources, and
//! scores them by free CPU and memory (`LeastAllocated`) and by how balanced the two are.

use std::borrow::Cow;

use setpoint_requirements::request::PodRequest;

use super::{QueueingHint, Rejection, SCORE_MAX};
use crate::cache::node_info::NodeInfo;
use crate::profile::ScoreWeights;

/// Insufficient resources that a rejection lists: a pod can request thousands.
const REASONS_MAX: usize = 32;

/// Filters nodes on which a requested resource, or the number of pods, is insufficient.
///
/// # Errors
/// Rejects the node with every insufficient resource, up to a limit.
pub fn filter(request: &PodRequest, node: &NodeInfo) -> Result<(), Rejection> {
    let (wanted, requested, allocatable) =
        (&request.requested, &node.requested, &node.attributes.allocatable);
    let is_full = i64::try_from(node.pods.len()).unwrap_or(i64::MAX) + 1 > node.attributes.allocatable_pods;
    let is_short =
        |wanted: i64, requested: i64, allocatable: i64| wanted > 0 && wanted > allocatable - requested;
    let is_scalar_short =
        |name: &str, wanted: i64| is_short(wanted, requested.scalar(name), allocatable.scalar(name));
    if !is_full
        && !is_short(wanted.milli_cpu, requested.milli_cpu, allocatable.milli_cpu)
        && !is_short(wanted.memory, requested.memory, allocatable.memory)
        && !is_short(wanted.ephemeral_storage, requested.ephemeral_storage, allocatable.ephemeral_storage)
        && !wanted.scalars.iter().any(|(name, amount)| is_scalar_short(name, *amount))
    {
        return Ok(());
    }
    let mut reasons: Vec<Cow<'static, str>> = Vec::new();
    let mut is_resolvable = true;
    if is_full {
        reasons.push("Too many pods".into());
    }
    let named: [(&'static str, i64, i64, i64); 3] = [
        ("Insufficient cpu", wanted.milli_cpu, requested.milli_cpu, allocatable.milli_cpu),
        ("Insufficient memory", wanted.memory, requested.memory, allocatable.memory),
        (
            "Insufficient ephemeral-storage",
            wanted.ephemeral_storage,
            requested.ephemeral_storage,
            allocatable.ephemeral_storage,
        ),
    ];
    for (reason, wanted, requested, allocatable) in named {
        if is_short(wanted, requested, allocatable) {
            reasons.push(reason.into());
            is_resolvable &= wanted <= allocatable;
        }
    }
    for (name, amount) in wanted.scalars.iter().filter(|(name, amount)| is_scalar_short(name, **amount)) {
        if reasons.len() < REASONS_MAX {
            reasons.push(format!("Insufficient {name}").into());
        }
        is_resolvable &= *amount <= allocatable.scalar(name);
    }
    let hint = QueueingHint::NODE_ADD_OR_UPDATE | QueueingHint::ASSIGNED_POD_DELETE;
    Err(Rejection { reasons, is_resolvable, hint })
}

/// Weighted sum of both scores.
#[must_use]
pub fn score(request: &PodRequest, node: &NodeInfo, weights: &ScoreWeights) -> i64 {
    weights.node_resources_fit * score_least_allocated(request, node)
        + weights.balanced_allocation * score_balanced_allocation(request, node)
}

fn score_least_allocated(request: &PodRequest, node: &NodeInfo) -> i64 {
    let allocatable = &node.attributes.allocatable;
    let pairs = [
        (node.non_zero_milli_cpu + request.non_zero_milli_cpu, allocatable.milli_cpu),
        (node.non_zero_memory + request.non_zero_memory, allocatable.memory),
    ];
    let (mut sum, mut count) = (0, 0);
    for (requested, allocatable) in pairs {
        if allocatable > 0 {
            sum +=
                if requested > allocatable { 0 } else { (allocatable - requested) * SCORE_MAX / allocatable };
            count += 1;
        }
    }
    if count == 0 { 0 } else { sum / count }
}

fn score_balanced_allocation(request: &PodRequest, node: &NodeInfo) -> i64 {
    let (wanted, requested, allocatable) =
        (&request.requested, &node.requested, &node.attributes.allocatable);
    if wanted.milli_cpu == 0 && wanted.memory == 0 {
        return 0;
    }
    let balance_with = |milli_cpu: i64, memory: i64| {
        balance([
            (requested.milli_cpu + milli_cpu, allocatable.milli_cpu),
            (requested.memory + memory, allocatable.memory),
        ])
    };
    let (before, after) = (balance_with(0, 0), balance_with(wanted.milli_cpu, wanted.memory));
    SCORE_MAX / 2 + (SCORE_MAX / 2 + after - before) / 2
}

/// Balance of CPU and memory, each as (requested, allocatable): [`SCORE_MAX`] if the same share of both is requested.
fn balance(pairs: [(i64, i64); 2]) -> i64 {
    let [cpu, memory] = pairs;
    if cpu.1 == 0 || memory.1 == 0 {
        return SCORE_MAX;
    }
    let share = |(requested, allocatable): (i64, i64)| (requested as f64 / allocatable as f64).min(1.0);
    let deviation = ((share(cpu) - share(memory)) / 2.0).abs();
    ((1.0 - deviation) * SCORE_MAX as f64) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use setpoint_requirements::request::ResourceAmounts;

    fn node(milli_cpu: i64, memory: i64) -> NodeInfo {
        let mut node = NodeInfo::new("n");
        node.attributes.allocatable = ResourceAmounts { milli_cpu, memory, ..ResourceAmounts::default() };
        node.attributes.allocatable_pods = 110;
        node
    }

    fn request(milli_cpu: i64, memory: i64) -> PodRequest {
        let requested = ResourceAmounts { milli_cpu, memory, ..ResourceAmounts::default() };
        PodRequest { requested, non_zero_milli_cpu: milli_cpu, non_zero_memory: memory }
    }

    #[test]
    fn rejection_lists_every_insufficient_resource() {
        let mut node = node(1000, 1000);
        node.add_requests(&request(600, 0), 1);
        assert_eq!(filter(&request(400, 1000), &node), Ok(()));
        let short = filter(&request(500, 1001), &node).unwrap_err();
        assert_eq!(short.reasons, ["Insufficient cpu", "Insufficient memory"]);
        assert!(!short.is_resolvable, "more memory than the node has");
        assert!(filter(&request(500, 0), &node).unwrap_err().is_resolvable);
        node.attributes.allocatable_pods = 0;
        assert_eq!(filter(&request(0, 0), &node).unwrap_err().reasons, ["Too many pods"]);
    }

    #[test]
    fn free_and_balanced_resources_score() {
        let weights = ScoreWeights::default();
        // LeastAllocated: half of both is free, 50. BalancedAllocation: as balanced as before, 75.
        assert_eq!(score(&request(500, 500), &node(1000, 1000), &weights), 50 + 75);
        // LeastAllocated: 20 % and 100 % are free, 60. BalancedAllocation: the requested shares are 0.8 and 0, so the
        // balance falls by 40 of 100, of which half counts: 55.
        assert_eq!(score(&request(800, 0), &node(1000, 1000), &weights), 60 + 55);
    }
}
