//! ResourceQuotas: usage after an admitted create never exceeds the hard limit in the status of a quota. A lowered
//! limit takes effect when the status has it.

use std::time::Duration;

use setpoint_api::Time;
use setpoint_api::quantity::Quantity;
use setpoint_reconcile::{Object, WorldReader};
use setpoint_views::pod::Pod;
use setpoint_views::resource_quota::ResourceQuota;

use super::{Check, CommitContext, pod};
use crate::campaign::coverage::CoverageMarks;
use crate::campaign::ground_truth::CommitChange;

/// Check of created objects.
pub struct QuotaLimits;

fn milli_value(text: &str) -> i64 {
    Quantity::parse(text).map_or(0, Quantity::milli_value)
}

/// `true` if a quota counts a pod: it is not finished, and its grace period is not long over.
fn is_counted(object: &Object, pod: &Pod, now: Time) -> bool {
    let meta = object.meta();
    let grace = u64::try_from(meta.deletion_grace_period_seconds.unwrap_or(0)).unwrap_or(0);
    let is_over = meta.deletion_timestamp.is_some_and(|end| end.after(Duration::from_secs(grace)) < now);
    !pod.is_finished() && !is_over
}

/// Usage of a resource in a namespace, in thousandths; `None` for resources that no scenario uses.
fn used(world: &WorldReader<'_>, namespace: &str, resource_name: &str, now: Time) -> Option<i64> {
    let pods = world.in_namespace("pods", namespace);
    let pods = pods.filter(|object| pod(object).is_some_and(|pod| is_counted(object, pod, now)));
    match resource_name {
        "pods" => Some(i64::try_from(pods.count()).ok()? * 1000),
        "requests.cpu" => {
            let containers = pods.filter_map(pod).flat_map(|pod| &pod.spec.containers);
            let asked = containers.filter_map(|container| container.resources.requests.get("cpu"));
            Some(asked.map(milli_value).sum())
        }
        "configmaps" => {
            Some(i64::try_from(world.in_namespace(resource_name, namespace).count()).ok()? * 1000)
        }
        _ => None,
    }
}

impl Check for QuotaLimits {
    fn check_change(
        &mut self,
        change: &CommitChange,
        context: &CommitContext<'_>,
        marks: &mut CoverageMarks,
    ) -> Result<(), String> {
        let counted: &[&str] = match change.key.resource().as_str() {
            "pods" => &["pods", "requests.cpu"],
            "configmaps" => &["configmaps"],
            _ => return Ok(()),
        };
        let Some(namespace) = change.key.namespace().filter(|_| change.is_creation()) else { return Ok(()) };
        for object in context.world.in_namespace("resourcequotas", namespace) {
            let Some(quota) = object.view::<ResourceQuota>() else { continue };
            for (resource_name, hard) in
                quota.status.hard.iter().filter(|(resource_name, _)| counted.contains(resource_name))
            {
                let Some(used) = used(context.world, namespace, resource_name, context.now) else { continue };
                let hard = milli_value(hard);
                if used > hard {
                    let (key, quota) = (&change.key, object.key());
                    return Err(format!(
                        "{key} was admitted: {used} thousandths of {resource_name} are used, {quota} allows {hard}"
                    ));
                }
                if used == hard {
                    marks.record("quota was used up");
                }
            }
        }
        Ok(())
    }
}
