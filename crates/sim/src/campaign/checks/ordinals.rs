//! A StatefulSet that goes in order makes no pod before all of lower ordinals serve, as long as nothing but the
//! controllers moves pods. That no two pods of one ordinal run at a time is known to the nodes alone, see
//! [`crate::campaign::kubelet`].

use setpoint_reconcile::views::stateful_set::StatefulSet;

use super::{Check, Scene, is_healthy};
use crate::campaign::marks::Marks;
use crate::campaign::truth::Change;

/// See the module.
pub struct InOrder;

impl Check for InOrder {
    fn see(&mut self, change: &Change, scene: &Scene<'_>, marks: &mut Marks) -> Result<(), String> {
        let made = change.is_of("pods") && change.is_creation() && &*change.by == "statefulset-controller";
        let Some(owner) = change.object().meta().controller().filter(|_| made) else { return Ok(()) };
        let Some(set) = scene.world.identified(&owner.uid) else { return Ok(()) };
        let Some(view) = set.view::<StatefulSet>() else { return Ok(()) };
        let name = &change.object().meta().name;
        let Some(ordinal) = name.rsplit('-').next().and_then(|number| number.parse::<i64>().ok()) else {
            return Err(format!("{name} has no ordinal"));
        };
        if change.revision.0 > set.revision().0 && view.status.replicas > ordinal {
            marks.note("ordinal was replaced");
        }
        if !scene.calm || view.spec.pod_management_policy == "Parallel" {
            return Ok(());
        }
        for lower in view.spec.ordinals.start..ordinal {
            let name = format!("{}-{lower}", owner.name);
            let pod = scene.world.find("pods", &set.meta().namespace, &name);
            if !pod.is_some_and(is_healthy) {
                return Err(format!("{} was made before {name} served", change.key));
            }
        }
        Ok(())
    }
}
