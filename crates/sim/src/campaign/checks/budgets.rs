//! A disruption budget is never broken by us: when an eviction is granted, enough pods go on serving, but for those
//! that were lost otherwise since the status was made that granted it.

use std::collections::BTreeMap;

use setpoint_api::Revision;
use setpoint_reconcile::Object;
use setpoint_reconcile::views::pod_disruption_budget::PodDisruptionBudget;

use super::{Check, Scene, is_healthy, size};
use crate::campaign::marks::Marks;
use crate::campaign::truth::Change;

const BUDGETS: &str = "poddisruptionbudgets.policy";

/// See the module.
#[derive(Default)]
pub struct BudgetsHold {
    /// The world that the status of each budget was made from.
    judged_on: BTreeMap<Box<str>, Revision>,
    /// Pods that ceased to serve without having been evicted, as they were.
    lost: Vec<(Revision, Object)>,
}

impl Check for BudgetsHold {
    fn see(&mut self, change: &Change, scene: &Scene<'_>, marks: &mut Marks) -> Result<(), String> {
        if change.is_of("pods") {
            self.note_loss(change, scene);
        }
        if !change.is_of(BUDGETS) {
            return Ok(());
        }
        let Some(after) = &change.after else { return Ok(()) };
        let Some(budget) = after.view::<PodDisruptionBudget>() else { return Ok(()) };
        if &*change.by == "disruption-controller" {
            self.judged_on.insert(after.meta().uid.clone(), change.seen);
            return Ok(());
        }
        let before = change.before.as_ref().and_then(|before| before.view::<PodDisruptionBudget>());
        let granted = |budget: &PodDisruptionBudget| budget.status.disrupted_pods.len();
        if before.is_none_or(|before| granted(before) >= granted(budget)) {
            return Ok(());
        }
        marks.note("budget was charged");
        let selects = |pod: &Object| {
            pod.meta().namespace == after.meta().namespace
                && budget.spec.selector.matches(|name| pod.meta().labels.get(name))
        };
        let serving = size(scene.world.all("pods").filter(|pod| selects(pod) && is_healthy(pod)).count());
        let since = self.judged_on.get(&after.meta().uid).copied().unwrap_or(Revision::ZERO);
        let lost = size(self.lost.iter().filter(|(at, pod)| *at > since && selects(pod)).count());
        let wanted = budget.status.desired_healthy;
        if serving + lost < wanted {
            let key = &change.key;
            return Err(format!(
                "an eviction leaves {serving} pods serving, {lost} were lost, {key} wants {wanted}"
            ));
        }
        Ok(())
    }
}

impl BudgetsHold {
    fn note_loss(&mut self, change: &Change, scene: &Scene<'_>) {
        let Some(before) = change.before.as_ref().filter(|before| is_healthy(before)) else { return };
        let stays = change
            .after
            .as_ref()
            .is_some_and(|after| is_healthy(after) && after.meta().labels == before.meta().labels);
        let evicted = scene.changes.iter().any(|other| other.is_of(BUDGETS));
        if !stays && !evicted {
            self.lost.push((change.revision, before.clone()));
        }
    }
}
