//! Node ownership among fleets that have nodes of the same name.
//!
//! The annotation [`FLEET_ANNOTATION`] of a node names its fleet, and only that fleet writes the node. A node without an owner is
//! claimed at once. A node whose Lease has expired is claimed by another fleet; the former owner detects that
//! from the annotation. Expiry is counted from when this process first saw the Lease, so that a restarted
//! server does not take nodes from fleets that could not reach it.

use std::time::Duration;

use serde::Deserialize;
use setpoint_api::{Map, Revision, Time, value};
use setpoint_reconcile::plan::InvolvedObject;
use setpoint_reconcile::{Jump, Object, Plan, WorldReader, Write};
use setpoint_views::node::SIMULATED_LABEL;

use super::{LEASE_NAMESPACE, LEASE_RESOURCE};
use crate::fleet::{FLEET_ANNOTATION, Fleet};
use crate::simulated::SCHEME;

/// Memo of a node that another fleet owns.
#[derive(Clone, PartialEq, Eq)]
pub struct OtherOwner {
    /// Revision of the node's Lease at the last plan.
    lease_revision: Option<Revision>,
    /// Time at which that revision was first seen.
    since: Time,
}

impl OtherOwner {
    /// Shifts the time by a clock jump.
    pub(super) fn clock_jumped(&mut self, jump: Jump) {
        self.since = jump.shift(self.since);
    }
}

/// Returns the owner annotation of a fleet's nodes.
pub fn owner_annotations(fleet: &Fleet) -> Map {
    let mut annotations = Map::new();
    annotations.insert(FLEET_ANNOTATION, fleet.owner.as_str());
    annotations
}

/// Handles a node that this fleet does not own: claims it, or returns the memo of its owner.
pub fn claim_or_wait<M>(
    fleet: &Fleet,
    node: &Object,
    world: &WorldReader<'_>,
    known: Option<&OtherOwner>,
    now: Time,
    plan: &mut Plan<M>,
) -> Option<OtherOwner> {
    let Some(owner) = node.meta().annotations.get(FLEET_ANNOTATION) else {
        if can_be_claimed(node) {
            plan.push(claim_write(fleet, node));
        }
        return None;
    };
    let lease = world.find(LEASE_RESOURCE, LEASE_NAMESPACE, node.key().name());
    let revision = lease.map(Object::revision);
    let since = known.filter(|known| known.lease_revision == revision).map_or(now, |known| known.since);
    let expires_at = since.after(lease_timeout(fleet, lease));
    if expires_at <= now {
        plan.push(claim_write(fleet, node));
        return None;
    }
    if known.is_none() {
        let message = format!(
            "Fleet {} has a node of the same name and does not claim this one while fleet {owner} renews its Lease",
            fleet.owner
        );
        plan.events.push(InvolvedObject::new(node, "v1", "Node").warning("NodeOfAnotherFleet", message));
    }
    plan.requeue_at(expires_at);
    Some(OtherOwner { lease_revision: revision, since })
}

/// Returns the write that claims a node, conditional on its revision.
fn claim_write(fleet: &Fleet, node: &Object) -> Write {
    let mut labels = Map::new();
    labels.insert(SIMULATED_LABEL, "");
    Write::merge(
        node,
        "",
        value!({"metadata": {"annotations": (owner_annotations(fleet)), "labels": (labels)}}),
    )
}

/// `true` if a node without an owner annotation can be claimed: no real kubelet runs it.
fn can_be_claimed(node: &Object) -> bool {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct NodeFields {
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
    let runtime = node
        .decode::<NodeFields>()
        .map(|fields| fields.status.node_info.container_runtime_version)
        .unwrap_or_default();
    runtime.is_empty() || runtime.starts_with(SCHEME)
}

/// Time without renewal after which a Lease has expired: its own duration, and at least that of the fleet.
fn lease_timeout(fleet: &Fleet, lease: Option<&Object>) -> Duration {
    lease.map(lease_duration).unwrap_or_default().max(fleet.lease_duration)
}

/// Returns `leaseDurationSeconds`.
fn lease_duration(lease: &Object) -> Duration {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct LeaseFields {
        spec: Spec,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Spec {
        lease_duration_seconds: u64,
    }
    let fields = lease.decode::<LeaseFields>().unwrap_or_default();
    Duration::from_secs(fields.spec.lease_duration_seconds)
}

/// `true` if the Lease has not expired since its last write.
#[must_use]
pub fn is_lease_valid(lease: &Object, now: Time) -> bool {
    now < lease.commit_time().after(lease_duration(lease))
}
