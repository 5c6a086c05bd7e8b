//! Rolling update of a DaemonSet: which old pods are replaced, within the bounds.

use setpoint_views::{IntOrString, RollingUpdate};

use super::nodes::{Fit, Place};
use super::{Rollout, Steps};
use crate::pods::Seen;

/// Resolved `maxSurge`: number of nodes that may run a second pod during the update.
pub(super) fn surge(rollout: &Rollout<'_>, nodes: i64) -> i64 {
    bound(rollout, nodes, |rolling| rolling.max_surge.as_ref())
}

fn bound(rollout: &Rollout<'_>, nodes: i64, which: fn(&RollingUpdate) -> Option<&IntOrString>) -> i64 {
    let strategy = &rollout.set.spec.update_strategy;
    let rolling = strategy.rolling_update.as_ref().filter(|_| strategy.kind == "RollingUpdate");
    rolling.and_then(which).and_then(|bound| bound.scaled(nodes, true)).unwrap_or(0)
}

/// Deletes old pods, or creates new ones beside them, within the bounds.
pub(super) fn replace<'a>(rollout: &'a Rollout<'a>, steps: &mut Steps<'a>) {
    let places = rollout.nodes.places.values();
    let wanted = places.filter(|place| place.node.is_some_and(|(_, fit)| fit == Fit::Runs)).count();
    let wanted = i64::try_from(wanted).unwrap_or(i64::MAX);
    let surge = surge(rollout, wanted);
    if surge > 0 {
        return replace_by_surge(rollout, wanted, surge, steps);
    }
    // With both bounds zero the update could not proceed.
    let allowed = bound(rollout, wanted, |rolling| rolling.max_unavailable.as_ref()).max(1);
    let (mut unavailable, mut candidates) = (0, Vec::new());
    for place in rollout.nodes.places.values().filter(|place| counts(place)) {
        match pair(rollout, place) {
            Some((Some(new), None)) => unavailable += i64::from(!rollout.is_available(new)),
            Some((None, Some(old))) if rollout.is_available(old) => candidates.push(old.0),
            Some((None, Some(old))) => {
                // An unavailable pod is no further loss.
                unavailable += 1;
                steps.deletions.push(old.0);
            }
            _ => unavailable += 1,
        }
    }
    let left = usize::try_from(allowed - unavailable).unwrap_or(0);
    steps.deletions.extend(candidates.into_iter().take(left));
}

/// `true` if a node has pods, or should run one.
fn counts(place: &Place<'_>) -> bool {
    !place.pods.is_empty() || place.node.is_some_and(|(_, fit)| fit == Fit::Runs)
}

/// New and old pod of a node that are not being deleted; `None` if there are more.
fn pair<'p, 'a>(
    rollout: &Rollout<'_>,
    place: &'p Place<'a>,
) -> Option<(Option<&'p Seen<'a>>, Option<&'p Seen<'a>>)> {
    let (mut new, mut old) = (None, None);
    for pod in place.staying() {
        let kept = if rollout.is_latest(pod) { &mut new } else { &mut old };
        if kept.replace(pod).is_some() {
            return None;
        }
    }
    Some((new, old))
}

fn replace_by_surge<'a>(rollout: &'a Rollout<'a>, wanted: i64, surge: i64, steps: &mut Steps<'a>) {
    let (mut surging, mut available) = (0, 0);
    let (mut candidates, mut unwanted) = (Vec::new(), Vec::new());
    for (name, place) in rollout.nodes.places.iter().filter(|(_, place)| counts(place)) {
        let Some((new, old)) = pair(rollout, place) else {
            surging += 1;
            continue;
        };
        let is_available = |pod: Option<&Seen<'_>>| pod.is_some_and(|pod| rollout.is_available(pod));
        available += i64::from(is_available(old.or(new)));
        let runs = place.node.is_some_and(|(_, fit)| fit == Fit::Runs);
        match (new, old) {
            (_, None) => {}
            (Some(_), Some(old)) if is_available(new) => steps.deletions.push(old.0),
            (Some(_), Some(_)) => surging += 1,
            (None, Some(old)) if !rollout.is_available(old) && !runs => steps.deletions.push(old.0),
            (None, Some(old)) if !rollout.is_available(old) => steps.creations.push(name),
            (None, Some(old)) if !runs => unwanted.push(old.0),
            (None, Some(_)) => candidates.push(*name),
        }
    }
    // Pods on nodes that get no new pod are deleted as far as enough other pods are available.
    let spare = usize::try_from(available - wanted).unwrap_or(0);
    steps.deletions.extend(unwanted.into_iter().take(spare));
    let left = usize::try_from(surge - surging).unwrap_or(0);
    steps.creations.extend(candidates.into_iter().take(left));
}
