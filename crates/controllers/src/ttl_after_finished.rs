//! TTL after finished: deletes finished Jobs and their dependents after `ttlSecondsAfterFinished`.

use std::time::Duration;

use setpoint_api::{Key, Time};
use setpoint_reconcile::{Action, Plan, Planner, Seed, Seen, View, Watch, WorldReader, Write};
use setpoint_views::job::Job;

/// The TTL-after-finished controller.
pub struct TtlAfterFinishedController;

impl Planner for TtlAfterFinishedController {
    type Memo = ();

    fn name(&self) -> &'static str {
        "ttl-after-finished-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::primary(Job::RESOURCE)];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key).filter(|job| !job.meta().is_deleted()) else { return plan };
        let Some(end) = object.view().and_then(expiry) else { return plan };
        if end > now {
            plan.requeue_at(end);
        } else {
            // A concurrent change of the TTL makes the delete conflict.
            plan.stage([Action::from(Write::delete_unchanged(object).with_propagation("Foreground"))]);
        }
        plan
    }
}

/// Time at which a Job is deleted.
fn expiry(job: &Job) -> Option<Time> {
    let ttl = u64::try_from(job.spec.ttl_seconds_after_finished?).ok()?;
    Some(job.status.finished_condition()?.last_transition_time?.after(Duration::from_secs(ttl)))
}

#[cfg(test)]
mod tests;
