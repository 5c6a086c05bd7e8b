//! DaemonSets: at most one pod per node, and one more during a surge.

use std::collections::BTreeSet;

use setpoint_reconcile::Object;
use setpoint_views::daemon_set::DaemonSet;

use super::placement::target_node;
use super::{Check, CommitContext, ValueHistory, is_active, pod, size};
use crate::campaign::coverage::CoverageMarks;
use crate::campaign::ground_truth::CommitChange;

/// Check of the pods per node.
#[derive(Default)]
pub struct DaemonPods {
    /// Pods that each set allows on a node.
    allowed: ValueHistory,
    /// UIDs of pods that a deposed leader created late: they are tolerated for a while.
    late_pods: BTreeSet<Box<str>>,
}

fn max_pods(set: &DaemonSet) -> i64 {
    let rolling = set.spec.update_strategy.rolling_update.as_ref();
    let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref()?.scaled(100, true)).unwrap_or(0);
    1 + surge.min(1)
}

/// Node that a pod is bound to, or that its affinity names.
fn node(object: &Object) -> Option<&str> {
    let pod = pod(object)?;
    if pod.spec.node_name.is_empty() { target_node(pod) } else { Some(&pod.spec.node_name) }
}

impl Check for DaemonPods {
    fn check_change(
        &mut self,
        change: &CommitChange,
        context: &CommitContext<'_>,
        marks: &mut CoverageMarks,
    ) -> Result<(), String> {
        let object = change.object();
        if let Some(set) = change.after.as_ref().and_then(|after| after.view::<DaemonSet>()) {
            self.allowed.record(&object.meta().uid, change.revision, max_pods(set));
        }
        let is_created =
            change.is_of("pods") && change.is_creation() && &*change.by == "daemonset-controller";
        if is_created && change.is_late {
            self.late_pods.insert(object.meta().uid.clone());
        }
        if !is_created || change.is_late {
            return Ok(());
        }
        let Some(owner) = object.meta().controller() else { return Ok(()) };
        let node_name = node(object);
        let pods = context
            .world
            .owned(&owner.uid, "pods")
            .filter(|object| is_active(object) && node(object) == node_name);
        let pods = pods.filter(|object| !self.late_pods.contains(&object.meta().uid));
        let pods = size(pods.count());
        if pods == 2 {
            marks.record("daemon surged");
        }
        let max = self.allowed.since(&owner.uid, change.seen).max().unwrap_or(0);
        if pods > max {
            let (name, key) = (&owner.name, &change.key);
            return Err(format!(
                "DaemonSet {name} has {pods} pods on {node_name:?} with {key}, at most {max} are allowed"
            ));
        }
        Ok(())
    }
}
