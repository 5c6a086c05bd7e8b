//! Overlapping autoscalers: those that control the same pods do not scale, or they would undo each other's
//! changes.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::labels::{Operator, Requirement, Selector};
use setpoint_reconcile::{View, WorldReader};
use setpoint_views::deployment::Deployment;
use setpoint_views::horizontal_pod_autoscaler::{CrossVersionObjectReference, HorizontalPodAutoscaler};
use setpoint_views::replica_set::ReplicaSet;
use setpoint_views::stateful_set::StatefulSet;

use crate::{pods, scale};

/// Maximum number of comparisons of selectors with label sets. A selector that requires a label is compared
/// with the label sets that have it; autoscalers beyond the bound are not compared.
const COMPARISONS_MAX: usize = 200_000;

/// Returns the autoscalers, as `namespace/name`, that control any of the pods that `selector` selects. As in
/// upstream, pods with equal labels are compared once, and autoscalers of targets without pods control none.
pub(super) fn controlling_autoscalers(
    world: &WorldReader<'_>,
    namespace: &str,
    selector: &Selector,
) -> Vec<String> {
    let pods = pods::select_pods(world, namespace, selector);
    let labels: BTreeSet<BTreeMap<&str, &str>> =
        pods.iter().map(|(pod, _)| pod.meta().labels.iter().collect()).collect();
    let mut found = Vec::new();
    if labels.is_empty() {
        return found;
    }
    let all: Vec<&BTreeMap<&str, &str>> = labels.iter().collect();
    let mut by_label: BTreeMap<(&str, &str), Vec<&BTreeMap<&str, &str>>> = BTreeMap::new();
    for set in &labels {
        for (name, value) in set {
            by_label.entry((name, value)).or_default().push(set);
        }
    }
    let left = Cell::new(COMPARISONS_MAX);
    for object in world.in_namespace(HorizontalPodAutoscaler::RESOURCE, namespace) {
        let Some(autoscaler) = object.view::<HorizontalPodAutoscaler>() else { continue };
        let controls = |selector: &Selector| {
            let required = selector.requirements().iter().filter_map(required);
            // The label sets with the rarest required label.
            let with_label = required.map(|label| by_label.get(&label).map_or(&[][..], Vec::as_slice));
            let candidates = with_label.min_by_key(|sets| sets.len()).unwrap_or(&all);
            let affordable = candidates.iter().take_while(|_| {
                let is_affordable = left.get() > 0;
                left.set(left.get().saturating_sub(1));
                is_affordable
            });
            affordable.into_iter().any(|labels| selector.matches(|name| labels.get(name).copied()))
        };
        if target_selector_matches(world, namespace, &autoscaler.spec.scale_target_ref, &controls) {
            found.push(format!("{namespace}/{}", object.meta().name));
        }
    }
    found
}

/// The label that a requirement demands, if there is only one.
fn required(one: &Requirement) -> Option<(&str, &str)> {
    let is_one = matches!(one.operator(), Operator::Equals | Operator::DoubleEquals | Operator::In);
    one.values().next().filter(|_| is_one && one.values().len() == 1).map(|value| (one.key(), value))
}

/// Applies a predicate to the selector of a target; `false` if the target is missing or has no pods. The
/// views of built-in kinds are decoded once per commit, so many autoscalers in a namespace cost little.
fn target_selector_matches(
    world: &WorldReader<'_>,
    namespace: &str,
    target: &CrossVersionObjectReference,
    matches: &dyn Fn(&Selector) -> bool,
) -> bool {
    let name = &*target.name;
    match (&*target.api_version, &*target.kind) {
        ("apps/v1", "Deployment") => world
            .view::<Deployment>(namespace, name)
            .is_some_and(|(_, it)| it.spec.replicas != 0 && matches(&it.spec.selector)),
        ("apps/v1", "ReplicaSet") => world
            .view::<ReplicaSet>(namespace, name)
            .is_some_and(|(_, it)| it.spec.replicas != 0 && matches(&it.spec.selector)),
        ("apps/v1", "StatefulSet") => world
            .view::<StatefulSet>(namespace, name)
            .is_some_and(|(_, it)| it.spec.replicas != 0 && matches(&it.spec.selector)),
        (api_version, kind) => {
            let found = scale::find(world, api_version, kind, namespace, name).ok().flatten();
            found.is_some_and(|scale| scale.replicas != 0 && scale.selector.as_ref().is_some_and(matches))
        }
    }
}
