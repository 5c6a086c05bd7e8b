//! What was admitted never exceeds a quota: whoever makes something that a quota counts leaves no more than it allows
//! at that moment. What a quota allows is what its status says: a limit that was lowered is in force when that has been
//! seen.

use std::time::Duration;

use setpoint_api::Time;
use setpoint_api::quantity::Quantity;
use setpoint_reconcile::views::pod::Pod;
use setpoint_reconcile::views::resource_quota::ResourceQuota;
use setpoint_reconcile::{Object, World};

use super::{Check, Scene, pod};
use crate::campaign::marks::Marks;
use crate::campaign::truth::Change;

/// See the module.
pub struct QuotasHold;

fn thousandths(text: &str) -> i64 {
    Quantity::parse(text).map_or(0, Quantity::milli_value)
}

/// Whether a pod is counted: not when it has ended, nor when its time to go is long over.
fn counts(object: &Object, pod: &Pod, now: Time) -> bool {
    let meta = object.meta();
    let grace = u64::try_from(meta.deletion_grace_period_seconds.unwrap_or(0)).unwrap_or(0);
    let is_over = meta.deletion_timestamp.is_some_and(|end| end.after(Duration::from_secs(grace)) < now);
    !pod.is_finished() && !is_over
}

/// How much there is of something in a namespace, in thousandths; nothing for what nobody here counts.
fn used(world: &World, namespace: &str, what: &str, now: Time) -> Option<i64> {
    let pods = world.in_namespace("pods", namespace);
    let pods = pods.filter(|one| pod(one).is_some_and(|pod| counts(one, pod, now)));
    match what {
        "pods" => Some(i64::try_from(pods.count()).ok()? * 1000),
        "requests.cpu" => {
            let containers = pods.filter_map(pod).flat_map(|pod| &pod.spec.containers);
            let asked = containers.filter_map(|container| container.resources.requests.get("cpu"));
            Some(asked.map(thousandths).sum())
        }
        "configmaps" => Some(i64::try_from(world.in_namespace(what, namespace).count()).ok()? * 1000),
        _ => None,
    }
}

impl Check for QuotasHold {
    fn see(&mut self, change: &Change, scene: &Scene<'_>, marks: &mut Marks) -> Result<(), String> {
        let counted: &[&str] = match change.key.resource().as_str() {
            "pods" => &["pods", "requests.cpu"],
            "configmaps" => &["configmaps"],
            _ => return Ok(()),
        };
        let Some(namespace) = change.key.namespace().filter(|_| change.is_creation()) else { return Ok(()) };
        for object in scene.world.in_namespace("resourcequotas", namespace) {
            let Some(quota) = object.view::<ResourceQuota>() else { continue };
            for (what, hard) in quota.status.hard.iter().filter(|(what, _)| counted.contains(what)) {
                let Some(used) = used(scene.world, namespace, what, scene.now) else { continue };
                let hard = thousandths(hard);
                if used > hard {
                    let (key, quota) = (&change.key, object.key());
                    return Err(format!(
                        "{key} was admitted: {used} thousandths of {what} are used, {quota} allows {hard}"
                    ));
                }
                if used == hard {
                    marks.note("quota was used up");
                }
            }
        }
        Ok(())
    }
}
