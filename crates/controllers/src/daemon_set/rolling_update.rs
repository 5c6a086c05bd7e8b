//! Rolling update of a DaemonSet: which old pods are replaced, within the bounds.

use setpoint_views::{IntOrString, RollingUpdate};

use super::nodes::{NodeEligibility, NodePods};
use super::{DaemonPodChanges, DaemonSetRollout};
use crate::pods::PodRef;

/// Resolved `maxSurge`: number of nodes that may run a second pod during the update.
pub(super) fn max_surge(rollout: &DaemonSetRollout<'_>, nodes: i64) -> i64 {
    resolve_bound(rollout, nodes, |rolling| rolling.max_surge.as_ref())
}

fn resolve_bound(
    rollout: &DaemonSetRollout<'_>,
    nodes: i64,
    field: fn(&RollingUpdate) -> Option<&IntOrString>,
) -> i64 {
    let strategy = &rollout.set.spec.update_strategy;
    let rolling = strategy.rolling_update.as_ref().filter(|_| strategy.kind == "RollingUpdate");
    rolling.and_then(field).and_then(|bound| bound.scaled(nodes, true)).unwrap_or(0)
}

/// Deletes old pods, or creates new ones beside them, within the bounds.
pub(super) fn rolling_update<'a>(rollout: &'a DaemonSetRollout<'a>, changes: &mut DaemonPodChanges<'a>) {
    let by_node = rollout.nodes.by_node.values();
    let desired = by_node
        .filter(|node_pods| {
            node_pods.node.is_some_and(|(_, eligibility)| eligibility == NodeEligibility::ShouldRun)
        })
        .count();
    let desired = i64::try_from(desired).unwrap_or(i64::MAX);
    let surge = max_surge(rollout, desired);
    if surge > 0 {
        return replace_by_surge(rollout, desired, surge, changes);
    }
    // With both bounds zero the update could not proceed.
    let allowed = resolve_bound(rollout, desired, |rolling| rolling.max_unavailable.as_ref()).max(1);
    let (mut unavailable, mut candidates) = (0, Vec::new());
    for node_pods in rollout.nodes.by_node.values().filter(|node_pods| is_counted(node_pods)) {
        match find_new_and_old_pod(rollout, node_pods) {
            Some((Some(new), None)) => unavailable += i64::from(!rollout.is_available(new)),
            Some((None, Some(old))) if rollout.is_available(old) => candidates.push(old.0),
            Some((None, Some(old))) => {
                // An unavailable pod is no further loss.
                unavailable += 1;
                changes.pods_to_delete.push(old.0);
            }
            _ => unavailable += 1,
        }
    }
    let remaining = usize::try_from(allowed - unavailable).unwrap_or(0);
    changes.pods_to_delete.extend(candidates.into_iter().take(remaining));
}

/// `true` if a node has pods, or should run one.
fn is_counted(node_pods: &NodePods<'_>) -> bool {
    !node_pods.pods.is_empty()
        || node_pods.node.is_some_and(|(_, eligibility)| eligibility == NodeEligibility::ShouldRun)
}

/// New and old pod of a node that are not being deleted; `None` if there are more.
fn find_new_and_old_pod<'p, 'a>(
    rollout: &DaemonSetRollout<'_>,
    node_pods: &'p NodePods<'a>,
) -> Option<(Option<&'p PodRef<'a>>, Option<&'p PodRef<'a>>)> {
    let (mut new, mut old) = (None, None);
    for pod in node_pods.undeleted() {
        let kept = if rollout.is_latest(pod) { &mut new } else { &mut old };
        if kept.replace(pod).is_some() {
            return None;
        }
    }
    Some((new, old))
}

fn replace_by_surge<'a>(
    rollout: &'a DaemonSetRollout<'a>,
    desired: i64,
    surge: i64,
    changes: &mut DaemonPodChanges<'a>,
) {
    let (mut surging, mut available) = (0, 0);
    let (mut candidates, mut unwanted) = (Vec::new(), Vec::new());
    for (name, node_pods) in rollout.nodes.by_node.iter().filter(|(_, node_pods)| is_counted(node_pods)) {
        let Some((new, old)) = find_new_and_old_pod(rollout, node_pods) else {
            surging += 1;
            continue;
        };
        let is_available = |pod: Option<&PodRef<'_>>| pod.is_some_and(|pod| rollout.is_available(pod));
        available += i64::from(is_available(old.or(new)));
        let should_run =
            node_pods.node.is_some_and(|(_, eligibility)| eligibility == NodeEligibility::ShouldRun);
        match (new, old) {
            (_, None) => {}
            (Some(_), Some(old)) if is_available(new) => changes.pods_to_delete.push(old.0),
            (Some(_), Some(_)) => surging += 1,
            (None, Some(old)) if !rollout.is_available(old) && !should_run => {
                changes.pods_to_delete.push(old.0)
            }
            (None, Some(old)) if !rollout.is_available(old) => changes.nodes_needing_pods.push(name),
            (None, Some(old)) if !should_run => unwanted.push(old.0),
            (None, Some(_)) => candidates.push(*name),
        }
    }
    // Pods on nodes that get no new pod are deleted as far as enough other pods are available.
    let spare = usize::try_from(available - desired).unwrap_or(0);
    changes.pods_to_delete.extend(unwanted.into_iter().take(spare));
    let remaining = usize::try_from(surge - surging).unwrap_or(0);
    changes.nodes_needing_pods.extend(candidates.into_iter().take(remaining));
}
