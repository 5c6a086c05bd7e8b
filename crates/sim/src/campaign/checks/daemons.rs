//! A DaemonSet has one pod per node, and one more while it surges.

use std::collections::BTreeSet;

use setpoint_reconcile::Object;
use setpoint_reconcile::views::daemon_set::DaemonSet;

use super::places::target;
use super::{Check, History, Scene, is_active, pod, size};
use crate::campaign::marks::Marks;
use crate::campaign::truth::Change;

/// See the module.
#[derive(Default)]
pub struct OnePerNode {
    /// How many pods each set allowed on a node.
    allowed: History,
    /// Pods that nobody made who still acts: they come on top, for a while.
    extra: BTreeSet<Box<str>>,
}

fn most(set: &DaemonSet) -> i64 {
    let rolling = set.spec.update_strategy.rolling_update.as_ref();
    let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref()?.scaled(100, true)).unwrap_or(0);
    1 + surge.min(1)
}

/// The node that a pod is on, or is for.
fn node(object: &Object) -> Option<&str> {
    let pod = pod(object)?;
    if pod.spec.node_name.is_empty() { target(pod) } else { Some(&pod.spec.node_name) }
}

impl Check for OnePerNode {
    fn see(&mut self, change: &Change, scene: &Scene<'_>, marks: &mut Marks) -> Result<(), String> {
        let object = change.object();
        if let Some(set) = change.after.as_ref().and_then(|after| after.view::<DaemonSet>()) {
            self.allowed.note(&object.meta().uid, change.revision, most(set));
        }
        let made = change.is_of("pods") && change.is_creation() && &*change.by == "daemonset-controller";
        if made && change.is_late {
            self.extra.insert(object.meta().uid.clone());
        }
        if !made || change.is_late {
            return Ok(());
        }
        let Some(owner) = object.meta().controller() else { return Ok(()) };
        let here = node(object);
        let pods = scene.world.owned(&owner.uid, "pods").filter(|one| is_active(one) && node(one) == here);
        let pods = pods.filter(|one| !self.extra.contains(&one.meta().uid));
        let pods = size(pods.count());
        if pods == 2 {
            marks.note("daemon surged");
        }
        let most = self.allowed.since(&owner.uid, change.seen).max().unwrap_or(0);
        if pods > most {
            let (name, key) = (&owner.name, &change.key);
            return Err(format!(
                "DaemonSet {name} has {pods} pods on {here:?} with {key}, at most {most} may be"
            ));
        }
        Ok(())
    }
}
