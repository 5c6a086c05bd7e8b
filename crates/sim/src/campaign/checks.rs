//! What must hold, commit by commit, and what must hold in the end.
//!
//! A [`Check`] sees every commit with the world it left. Controllers decide by what they saw, which may be old: a
//! check allows what was right by any state between what the controller saw and the commit, and no more.

mod availability;
mod budgets;
mod daemons;
mod garbage;
mod jobs;
mod moments;
mod numbers;
mod ordinals;
mod places;
mod quotas;
mod rest;
mod rooms;

use std::collections::BTreeMap;

use setpoint_api::{Revision, Time};
use setpoint_reconcile::views::pod::Pod;
use setpoint_reconcile::{Object, World};

use super::marks::Marks;
use super::truth::Change;

pub use rest::at_rest;

/// What a check is shown: a commit, and the world it left.
pub struct Scene<'a> {
    /// The world after the commit.
    pub world: &'a World,
    /// What the commit changed.
    pub changes: &'a [Change],
    /// What time it is.
    pub now: Time,
    /// Whether nothing but the control plane moves pods.
    pub calm: bool,
}

/// Something that must hold.
pub trait Check {
    /// Judges one change of a commit.
    ///
    /// # Errors
    /// If it should not have been made.
    fn see(&mut self, change: &Change, scene: &Scene<'_>, marks: &mut Marks) -> Result<(), String>;

    /// Judges the world when everything has come to rest.
    ///
    /// # Errors
    /// If it is not as it should be.
    fn finally(&self, _world: &World) -> Result<(), String> {
        Ok(())
    }
}

/// Every check.
#[must_use]
pub fn all() -> Vec<Box<dyn Check>> {
    vec![
        Box::new(availability::NeverTooFew::default()),
        Box::new(budgets::BudgetsHold::default()),
        Box::new(daemons::OnePerNode::default()),
        Box::new(garbage::OnlyGarbageGoes::default()),
        Box::new(jobs::CountsAreExact::default()),
        Box::new(moments::Moments::default()),
        Box::new(numbers::NeverTooMany::default()),
        Box::new(ordinals::InOrder),
        Box::new(ordinals::NeverTwo::default()),
        Box::new(places::PlacesHold::default()),
        Box::new(quotas::QuotasHold),
        Box::new(rooms::RoomsHold),
    ]
}

/// A number that changed over time, by the identity of the object it belongs to.
#[derive(Default)]
struct History(BTreeMap<Box<str>, Vec<(Revision, i64)>>);

impl History {
    fn note(&mut self, uid: &str, revision: Revision, number: i64) {
        let past = self.0.entry(uid.into()).or_default();
        if past.last().is_none_or(|(_, last)| *last != number) {
            past.push((revision, number));
        }
    }

    /// Every value that it had from a revision on.
    fn since(&self, uid: &str, revision: Revision) -> impl Iterator<Item = i64> {
        let past = self.0.get(uid).map_or(&[][..], Vec::as_slice);
        let first = past.partition_point(|(at, _)| *at <= revision).saturating_sub(1);
        past[first..].iter().map(|(_, number)| *number)
    }
}

/// A pod as it is read.
#[must_use]
pub fn pod(object: &Object) -> Option<&Pod> {
    object.view::<Pod>()
}

/// Whether a pod is to go on.
#[must_use]
pub fn is_active(object: &Object) -> bool {
    !object.meta().is_deleted() && pod(object).is_some_and(|pod| !pod.is_finished())
}

/// Whether a pod can serve and stays.
fn is_healthy(object: &Object) -> bool {
    is_active(object) && pod(object).is_some_and(Pod::is_ready)
}

fn size(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
