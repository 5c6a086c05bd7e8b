//! Autoscalers that control the same pods: none of them may scale, or they would undo each other's work.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::labels::Selector;
use setpoint_reconcile::views::deployment::Deployment;
use setpoint_reconcile::views::horizontal_pod_autoscaler::{HorizontalPodAutoscaler, TargetReference};
use setpoint_reconcile::views::replica_set::ReplicaSet;
use setpoint_reconcile::views::stateful_set::StatefulSet;
use setpoint_reconcile::{View, World};

use crate::{pods, scale};

/// Returns the autoscalers, as `namespace/name`, that control any of the pods that `selector` selects. As upstream does,
/// pods with the same labels are looked at once, and autoscalers of targets without pods control none.
pub(super) fn controlling(world: &World, namespace: &str, selector: &Selector) -> Vec<String> {
    let pods = pods::selected(world, namespace, selector);
    let labels: BTreeSet<BTreeMap<&str, &str>> =
        pods.iter().map(|(pod, _)| pod.meta().labels.iter().collect()).collect();
    let mut found = Vec::new();
    if labels.is_empty() {
        return found;
    }
    for object in world.in_namespace(HorizontalPodAutoscaler::RESOURCE, namespace) {
        let Some(autoscaler) = object.view::<HorizontalPodAutoscaler>() else { continue };
        let controls = |selector: &Selector| {
            labels.iter().any(|labels| selector.matches(|name| labels.get(name).copied()))
        };
        if is_any(world, namespace, &autoscaler.spec.scale_target_ref, &controls) {
            found.push(format!("{namespace}/{}", object.meta().name));
        }
    }
    found
}

/// Applies a predicate to the selector of a target; `false` if the target is not there or has no pods. The views of
/// built-in kinds are decoded once per commit, so that many autoscalers in a namespace cost little.
fn is_any(world: &World, namespace: &str, target: &TargetReference, is: &dyn Fn(&Selector) -> bool) -> bool {
    let name = &*target.name;
    match (&*target.api_version, &*target.kind) {
        ("apps/v1", "Deployment") => world
            .view::<Deployment>(namespace, name)
            .is_some_and(|(_, it)| it.spec.replicas != 0 && is(&it.spec.selector)),
        ("apps/v1", "ReplicaSet") => world
            .view::<ReplicaSet>(namespace, name)
            .is_some_and(|(_, it)| it.spec.replicas != 0 && is(&it.spec.selector)),
        ("apps/v1", "StatefulSet") => world
            .view::<StatefulSet>(namespace, name)
            .is_some_and(|(_, it)| it.spec.replicas != 0 && is(&it.spec.selector)),
        (api_version, kind) => {
            let found = scale::find(world, api_version, kind, namespace, name).ok().flatten();
            found.is_some_and(|it| it.replicas != 0 && it.selector.as_ref().is_some_and(is))
        }
    }
}
