//! Backoff of pod replacement in a Job: ten seconds, doubled with every failure since the last success, up to
//! ten minutes.
//!
//! Failures are remembered by the UID of the pod, so repeated plans count a failure once. Failed pods that
//! still exist are counted again after a restart: without the memo the backoff is almost as long.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_api::Time;
use setpoint_views::condition;

use super::TrackedPod;

/// Backoff after the first failure.
pub const BACKOFF_MIN: Duration = Duration::from_secs(10);
/// Maximum backoff.
pub const BACKOFF_MAX: Duration = Duration::from_secs(600);
/// Maximum number of remembered failures: with as many the backoff is at its maximum.
const FAILURES_MAX: usize = 8;

/// Failures since the last success.
#[derive(Clone, Debug, Default)]
pub struct Failures {
    last_success: Option<Time>,
    failed: BTreeMap<Box<str>, Time>,
}

impl Failures {
    /// Adds the finished pods.
    pub(super) fn with_finished_pods<'a>(
        mut self,
        succeeded: impl Iterator<Item = &'a TrackedPod<'a>>,
        failed: impl Iterator<Item = &'a TrackedPod<'a>>,
    ) -> Failures {
        self.last_success = self.last_success.max(succeeded.map(finished_at).max());
        let failed = failed.map(|pod| (pod.object.meta().uid.clone(), finished_at(pod)));
        self.failed.extend(failed);
        let since = self.last_success;
        self.failed.retain(|_, at| since.is_none_or(|since| *at > since));
        while self.failed.len() > FAILURES_MAX {
            let oldest = self.failed.iter().min_by_key(|(_, at)| **at).map(|(uid, _)| uid.clone());
            oldest.and_then(|uid| self.failed.remove(&uid));
        }
        self
    }

    /// End of the backoff; `None` without failures.
    pub fn backoff_until(&self) -> Option<Time> {
        let last = self.failed.values().max()?;
        Some(last.after(backoff(self.failed.len())))
    }
}

/// Backoff after a number of failures.
pub(super) fn backoff(failures: usize) -> Duration {
    let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(u32::MAX).min(10);
    if failures == 0 { Duration::ZERO } else { (BACKOFF_MIN * (1 << doublings)).min(BACKOFF_MAX) }
}

/// Finish time of a pod: from its containers, else its `Ready` condition, else its deletion.
pub(super) fn finished_at(tracked: &TrackedPod<'_>) -> Time {
    let (meta, pod) = (tracked.object.meta(), tracked.pod);
    let sidecars = pod.spec.init_containers.iter().filter(|container| container.restart_policy == "Always");
    let sidecars: BTreeSet<&str> = sidecars.map(|container| container.name.as_str()).collect();
    let first = &pod.status.init_container_statuses;
    let sidecar_statuses = first.iter().filter(|status| sidecars.contains(status.name.as_str()));
    let all = pod.status.container_statuses.iter().chain(sidecar_statuses);
    let ends = all.map(|status| status.state.terminated.as_ref()?.finished_at);
    let ended = ends.collect::<Option<Vec<Time>>>().and_then(|ends| ends.into_iter().max());
    let unready = || {
        let ready = condition(&pod.status.conditions, "Ready")?;
        ready.last_transition_time.filter(|_| ready.status == "False")
    };
    let deleted = || {
        let grace = u64::try_from(meta.deletion_grace_period_seconds.unwrap_or(0)).unwrap_or(0);
        meta.deletion_timestamp.map(|at| at.before(Duration::from_secs(grace)))
    };
    ended.or_else(unready).or_else(deleted).unwrap_or_else(|| meta.created())
}
