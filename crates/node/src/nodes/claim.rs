//! Node ownership among fleets that have nodes of the same name.
//!
//! An annotation of the node names its fleet, and only that fleet writes the node. A node without an owner is
//! claimed at once. A node whose Lease has expired is claimed by another fleet; the former owner detects that
//! from the annotation. Expiry is counted from when this process first saw the Lease, so that a restarted
//! server does not take nodes from fleets that could not reach it.

use std::time::Duration;

use serde::Deserialize;
use setpoint_api::{Map, Revision, Time, value};
use setpoint_reconcile::plan::Subject;
use setpoint_reconcile::{Jump, Object, Plan, WorldReader, Write};
use setpoint_views::node::SIMULATED_LABEL;

use super::{LEASE, LEASES};
use crate::fleet::{FLEET, Fleet};
use crate::simulated::SCHEME;

/// Memo of a node that another fleet owns.
#[derive(Clone, PartialEq, Eq)]
pub struct Rival {
    /// Revision of the node's Lease at the last plan.
    lease: Option<Revision>,
    /// Time at which that revision was first seen.
    since: Time,
}

impl Rival {
    /// Shifts the time by a clock jump.
    pub(super) fn clock_jumped(&mut self, jump: Jump) {
        self.since = jump.shift(self.since);
    }
}

/// Returns the owner annotation of a fleet's nodes.
pub fn mark(fleet: &Fleet) -> Map {
    let mut annotations = Map::new();
    annotations.insert(FLEET, fleet.owner.as_str());
    annotations
}

/// Handles a node that this fleet does not own: claims it, or returns the memo of its owner.
pub fn contend<M>(
    fleet: &Fleet,
    node: &Object,
    world: &WorldReader<'_>,
    known: Option<&Rival>,
    now: Time,
    plan: &mut Plan<M>,
) -> Option<Rival> {
    let Some(owner) = node.meta().annotations.get(FLEET) else {
        if is_nobodys(node) {
            plan.act(claim(fleet, node));
        }
        return None;
    };
    let lease = world.find(LEASE, LEASES, node.key().name());
    let seen = lease.map(Object::revision);
    let since = known.filter(|known| known.lease == seen).map_or(now, |known| known.since);
    let ends = since.after(patience(fleet, lease));
    if ends <= now {
        plan.act(claim(fleet, node));
        return None;
    }
    if known.is_none() {
        let message = format!(
            "Fleet {} has a node of this name too, and leaves this one to fleet {owner} for as long as that renews its \
             Lease",
            fleet.owner
        );
        plan.notes.push(Subject::of(node, "v1", "Node").warning("NodeOfAnotherFleet", message));
    }
    plan.look_again_at(ends);
    Some(Rival { lease: seen, since })
}

/// Returns the write that claims a node, conditional on its revision.
fn claim(fleet: &Fleet, node: &Object) -> Write {
    let mut labels = Map::new();
    labels.insert(SIMULATED_LABEL, "");
    Write::merge(node, "", value!({"metadata": {"annotations": (mark(fleet)), "labels": (labels)}}))
}

/// `true` if a node without an owner annotation can be claimed: no real kubelet runs it.
fn is_nobodys(node: &Object) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Part {
        status: Status,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Status {
        node_info: Info,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Info {
        container_runtime_version: String,
    }
    let runtime =
        node.decode::<Part>().map(|part| part.status.node_info.container_runtime_version).unwrap_or_default();
    runtime.is_empty() || runtime.starts_with(SCHEME)
}

/// Time without renewal after which a Lease counts as expired.
fn patience(fleet: &Fleet, lease: Option<&Object>) -> Duration {
    lease.map(span).unwrap_or_default().max(fleet.lease)
}

/// Returns `leaseDurationSeconds`.
fn span(lease: &Object) -> Duration {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Part {
        spec: Spec,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Spec {
        lease_duration_seconds: u64,
    }
    let part = lease.decode::<Part>().unwrap_or_default();
    Duration::from_secs(part.spec.lease_duration_seconds)
}

/// `true` if the Lease has not expired since its last write.
#[must_use]
pub fn is_held(lease: &Object, now: Time) -> bool {
    now < lease.commit_time().after(span(lease))
}
