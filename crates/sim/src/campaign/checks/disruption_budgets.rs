//! PodDisruptionBudgets: an eviction leaves enough healthy pods, not counting pods that were lost otherwise since the
//! status that allowed it was computed.

use std::collections::BTreeMap;

use setpoint_api::Revision;
use setpoint_reconcile::Object;
use setpoint_views::pod_disruption_budget::PodDisruptionBudget;

use super::{Check, CommitContext, is_healthy, size};
use crate::campaign::coverage::CoverageMarks;
use crate::campaign::ground_truth::CommitChange;

const BUDGETS: &str = "poddisruptionbudgets.policy";

/// Check of evictions.
#[derive(Default)]
pub struct DisruptionBudgets {
    /// Revision of the world that the status of each budget was computed from, by UID.
    computed_from: BTreeMap<Box<str>, Revision>,
    /// Pods that stopped being healthy without an eviction, with the revision.
    lost: Vec<(Revision, Object)>,
}

impl Check for DisruptionBudgets {
    fn check_change(
        &mut self,
        change: &CommitChange,
        context: &CommitContext<'_>,
        marks: &mut CoverageMarks,
    ) -> Result<(), String> {
        if change.is_of("pods") {
            self.record_loss(change, context);
        }
        if !change.is_of(BUDGETS) {
            return Ok(());
        }
        let Some(after) = &change.after else { return Ok(()) };
        let Some(budget) = after.view::<PodDisruptionBudget>() else { return Ok(()) };
        if &*change.by == "disruption-controller" {
            self.computed_from.insert(after.meta().uid.clone(), change.seen);
            return Ok(());
        }
        let before = change.before.as_ref().and_then(|before| before.view::<PodDisruptionBudget>());
        let evicted_count = |budget: &PodDisruptionBudget| budget.status.disrupted_pods.len();
        if before.is_none_or(|before| evicted_count(before) >= evicted_count(budget)) {
            return Ok(());
        }
        marks.record("budget was charged");
        let selects = |pod: &Object| {
            pod.meta().namespace == after.meta().namespace
                && budget.spec.selector.matches(|name| pod.meta().labels.get(name))
        };
        let serving = size(context.world.all("pods").filter(|pod| selects(pod) && is_healthy(pod)).count());
        let since = self.computed_from.get(&after.meta().uid).copied().unwrap_or(Revision::ZERO);
        let lost = size(self.lost.iter().filter(|(at, pod)| *at > since && selects(pod)).count());
        let desired_healthy = budget.status.desired_healthy;
        if serving + lost < desired_healthy {
            let key = &change.key;
            return Err(format!(
                "an eviction leaves {serving} healthy pods, {lost} were lost, {key} requires {desired_healthy}"
            ));
        }
        Ok(())
    }
}

impl DisruptionBudgets {
    fn record_loss(&mut self, change: &CommitChange, context: &CommitContext<'_>) {
        let Some(before) = change.before.as_ref().filter(|before| is_healthy(before)) else { return };
        let stays = change
            .after
            .as_ref()
            .is_some_and(|after| is_healthy(after) && after.meta().labels == before.meta().labels);
        let evicted = context.changes.iter().any(|other| other.is_of(BUDGETS));
        if !stays && !evicted {
            self.lost.push((change.revision, before.clone()));
        }
    }
}
