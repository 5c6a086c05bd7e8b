//! Checks: invariants of every commit, and of the converged state.
//!
//! A [`Check`] gets every commit with the world after it. A controller plans on a world that may be old, so a check
//! accepts what was right in any state between that world and the commit, and nothing else. Start at [`all`].

mod converged;
mod coverage_events;
mod custom_definitions;
mod custom_resources;
mod daemon_sets;
mod disruption_budgets;
mod garbage_collection;
mod jobs;
mod max_replicas;
mod min_available;
mod node_capacity;
mod ordinals;
mod placement;
mod quotas;
mod webhooks;

use std::collections::BTreeMap;

use setpoint_api::{Revision, Time};
use setpoint_reconcile::{Object, WorldReader};
use setpoint_views::pod::Pod;

use super::coverage::CoverageMarks;
use super::ground_truth::CommitChange;
use crate::cluster::AdmissionRecord;

pub use converged::check_converged;

/// A commit with its context.
pub struct CommitContext<'a> {
    /// World after the commit.
    pub world: &'a WorldReader<'a>,
    /// All changes of the commit.
    pub changes: &'a [CommitChange],
    /// Admission of the commit by webhooks, if there were any.
    pub admission: Option<&'a AdmissionRecord>,
    /// Time of the check.
    pub now: Time,
    /// `true` if only the control plane moves pods.
    pub calm: bool,
}

/// An invariant.
pub trait Check {
    /// Checks one change of a commit, and records coverage marks.
    ///
    /// # Errors
    /// If the change violates the invariant.
    fn check_change(
        &mut self,
        change: &CommitChange,
        context: &CommitContext<'_>,
        marks: &mut CoverageMarks,
    ) -> Result<(), String>;

    /// Checks the converged state.
    ///
    /// # Errors
    /// If the state violates the invariant.
    fn check_final(&self, _world: &WorldReader<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// Returns all checks.
#[must_use]
pub fn all() -> Vec<Box<dyn Check>> {
    vec![
        Box::new(min_available::MinAvailable::default()),
        Box::new(disruption_budgets::DisruptionBudgets::default()),
        Box::new(daemon_sets::DaemonPods::default()),
        Box::new(garbage_collection::GarbageCollection::default()),
        Box::new(jobs::JobCounts::default()),
        Box::new(coverage_events::CoverageEvents::default()),
        Box::new(max_replicas::MaxReplicas::default()),
        Box::new(ordinals::OrderedCreation),
        Box::new(ordinals::OnePodPerOrdinal::default()),
        Box::new(placement::Placements::default()),
        Box::new(quotas::QuotaLimits),
        Box::new(node_capacity::NodeCapacity),
        Box::new(custom_resources::CustomResources),
        Box::new(custom_definitions::CustomDefinitions),
        Box::new(webhooks::WebhookAdmission),
    ]
}

/// Values of a number over time, by UID of its object.
#[derive(Default)]
struct ValueHistory(BTreeMap<Box<str>, Vec<(Revision, i64)>>);

impl ValueHistory {
    fn record(&mut self, uid: &str, revision: Revision, number: i64) {
        let past = self.0.entry(uid.into()).or_default();
        if past.last().is_none_or(|(_, last)| *last != number) {
            past.push((revision, number));
        }
    }

    /// Values that it had at a revision and since.
    fn since(&self, uid: &str, revision: Revision) -> impl Iterator<Item = i64> {
        let past = self.0.get(uid).map_or(&[][..], Vec::as_slice);
        let first = past.partition_point(|(at, _)| *at <= revision).saturating_sub(1);
        past[first..].iter().map(|(_, number)| *number)
    }
}

/// View of a pod.
#[must_use]
pub fn pod(object: &Object) -> Option<&Pod> {
    object.view::<Pod>()
}

/// `true` if a pod is neither finished nor terminating.
#[must_use]
pub fn is_active(object: &Object) -> bool {
    !object.meta().is_deleted() && pod(object).is_some_and(|pod| !pod.is_finished())
}

/// `true` if a pod is active and ready.
fn is_healthy(object: &Object) -> bool {
    is_active(object) && pod(object).is_some_and(Pod::is_ready)
}

fn size(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
