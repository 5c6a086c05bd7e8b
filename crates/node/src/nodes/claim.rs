//! Whose a node is, where more than one fleet has a node of that name.
//!
//! A node says to which fleet it belongs, and only that one writes it, so two never write the same node by turns. One
//! that belongs to nobody is claimed at once. One whose fleet has let its Lease run out is claimed after that: whoever
//! had it finds that out from the node itself. The time is counted from when this process saw the Lease, so that a
//! server that was away for a while takes nothing from fleets that only could not reach it.

use std::time::Duration;

use serde::Deserialize;
use setpoint_api::{Map, Revision, Time, value};
use setpoint_reconcile::plan::Subject;
use setpoint_reconcile::views::node::SIMULATED;
use setpoint_reconcile::{Jump, Object, Plan, World, Write};

use super::{LEASE, LEASES};
use crate::fleet::{FLEET, Fleet};
use crate::simulated::SCHEME;

/// What is kept in mind of a node that another fleet has.
#[derive(Clone, PartialEq, Eq)]
pub struct Rival {
    /// The Lease of the node, as it was seen last.
    lease: Option<Revision>,
    /// Since when it is so.
    since: Time,
}

impl Rival {
    /// Keeps the age of what was seen.
    pub(super) fn clock_jumped(&mut self, jump: Jump) {
        self.since = jump.shift(self.since);
    }
}

/// The annotation of a node of a fleet.
pub fn mark(fleet: &Fleet) -> Map {
    let mut annotations = Map::new();
    annotations.insert(FLEET, fleet.owner.as_str());
    annotations
}

/// What a fleet does about a node of its name that is not its own. Gives what to keep in mind of whoever has it.
pub fn contend<M>(
    fleet: &Fleet,
    node: &Object,
    world: &World,
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

/// The write that makes a node one of a fleet, if it is still as it was seen.
fn claim(fleet: &Fleet, node: &Object) -> Write {
    let mut labels = Map::new();
    labels.insert(SIMULATED, "");
    Write::merge(node, "", value!({"metadata": {"annotations": (mark(fleet)), "labels": (labels)}}))
}

/// Whether a node that says nothing of fleets may be one of them: nothing real runs it.
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

/// How long a Lease that is not renewed is respected.
fn patience(fleet: &Fleet, lease: Option<&Object>) -> Duration {
    lease.map(span).unwrap_or_default().max(fleet.lease)
}

/// For how long a Lease was taken.
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

/// Whether a Lease has not run out since it was last written.
#[must_use]
pub fn is_held(lease: &Object, now: Time) -> bool {
    now < lease.committed().after(span(lease))
}
