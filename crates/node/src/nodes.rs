//! Node planner of a fleet: registers nodes, renews their Leases and reports their status.
//!
//! A deleted node is not registered again until the process restarts, as with a kubelet. Renewals are spread
//! over the renewal interval in steps, by a hash of the node name: a few nodes write at one time and share a
//! sync of the log.

mod claim;
mod status;

pub use claim::is_held;
pub use status::address;

use std::sync::Arc;
use std::time::Duration;

use setpoint_api::rfc3339::Micros;
use setpoint_api::{Key, Map, Revision, Time, Value, value};
use setpoint_reconcile::plan::{Subject, value_of};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Act, Jump, Note, Plan, Planner, Role, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::node::{Node, SIMULATED_LABEL};

use crate::fleet::{Fleet, KUBELET, Power, Seat};
use crate::images::hash;

/// Namespace of node Leases.
pub const LEASES: &str = "kube-node-lease";
/// Resource of Leases.
pub const LEASE: &str = "leases.coordination.k8s.io";
/// Maximum number of steps in a renewal interval.
const STEPS_MAX: u64 = 100;
/// Nodes per additional step.
const NODES_PER_STEP: u64 = 50;

/// Node planner of a fleet.
pub struct Nodes(pub Arc<Fleet>);

/// Memo of a node.
#[derive(Clone, Default)]
pub struct Known {
    /// `true` if the node existed.
    there: bool,
    /// Revision at which the status was up to date, and the time until which it stays so.
    told: Option<(Revision, Time)>,
    /// State of the other fleet that owns the node, if any.
    rival: Option<claim::Rival>,
    /// `spec.unschedulable` at the last plan; `None` since the start of the process.
    closed: Option<bool>,
}

impl Planner for Nodes {
    type Memo = Known;

    fn name(&self) -> &'static str {
        "node-status"
    }

    fn role(&self) -> Option<Role> {
        Some(KUBELET)
    }

    fn node(&self, key: &Key, _: &WorldReader<'_>) -> Option<String> {
        Some(key.name().to_owned())
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::itself("nodes")];
        &WATCHES
    }

    fn clock_jumped(&self, memo: &mut Known, jump: Jump, _: Time) {
        // Statuses contain times, so they must be compared again.
        memo.told = None;
        if let Some(rival) = &mut memo.rival {
            rival.clock_jumped(jump);
        }
    }

    fn keys(&self, _: &WorldReader<'_>) -> Vec<Key> {
        (0..self.0.count).filter_map(|number| key_of("nodes", "", &self.0.name(number))).collect()
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, Known>,
        now: Time,
        _: Seed,
    ) -> Plan<Known> {
        let memo = Known { there: true, closed: seen.memo.closed, ..Known::default() };
        let mut plan = Plan { memo, ..Plan::default() };
        let Some(number) = self.0.number(key.name()) else { return Plan::default() };
        let Some((object, node)) = world.view::<Node>("", key.name()) else {
            plan.memo = Known { there: seen.memo.there, ..Known::default() };
            if !seen.memo.there {
                plan.act(Write::create("nodes", "", self.registration(number, now)));
            }
            return plan;
        };
        let seat = Seat { object, node, number };
        if seat.power() != Power::On || object.meta().is_deleted() {
            return plan;
        }
        if !self.0.owns(object) {
            plan.memo.rival =
                claim::contend(&self.0, object, world, seen.memo.rival.as_ref(), now, &mut plan);
            return plan;
        }
        plan.notes.extend(closing(&seat, seen.memo.closed));
        plan.memo.closed = Some(node.spec.unschedulable);
        self.renew(&seat, world, now, &mut plan);
        plan.memo.told = match seen.memo.told {
            // The status is still up to date.
            Some((revision, until)) if revision == object.revision() && now < until => {
                plan.look_again_at(until);
                seen.memo.told
            }
            _ => self.report(&seat, world, now, &mut plan),
        };
        plan
    }
}

impl Nodes {
    /// Returns the Node object to register.
    fn registration(&self, number: u32, now: Time) -> Value {
        let fleet = &self.0;
        let name = fleet.name(number);
        let mut labels = Map::new();
        for (label, value) in [
            ("kubernetes.io/hostname", name.as_str()),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", status::ARCHITECTURE),
            ("beta.kubernetes.io/os", "linux"),
            ("beta.kubernetes.io/arch", status::ARCHITECTURE),
            (SIMULATED_LABEL, ""),
        ] {
            labels.insert(label, value);
        }
        if let Some(zone) = fleet.zone(number) {
            labels.insert("topology.kubernetes.io/zone", zone);
        }
        for (label, value) in &fleet.labels {
            labels.insert(label.as_str(), value.as_str());
        }
        let mut node = value!({
            "metadata": {
                "name": (name.as_str()), "labels": (labels), "annotations": (claim::mark(fleet)),
            },
            "spec": {},
            "status": (value_of(&status::of_new(fleet, number, now))),
        });
        if !fleet.taints.is_empty() {
            node.ensure_map("spec").insert("taints", value_of(&fleet.taints));
        }
        node
    }

    /// Renews the Lease of a node once per renewal interval, at the node's step.
    fn renew(&self, seat: &Seat<'_>, world: &WorldReader<'_>, now: Time, plan: &mut Plan<Known>) {
        let name = seat.object.key().name();
        if world.find("namespaces", "", LEASES).is_none() {
            return;
        }
        let (last, next) = step(name, self.0.count, self.0.renewal(), now);
        let seconds = i64::try_from(self.0.lease.as_secs()).unwrap_or(i64::MAX);
        plan.look_again_at(next);
        let spec = value!({
            "holderIdentity": (name),
            "leaseDurationSeconds": (seconds),
            "renewTime": (Micros(now).to_string()),
        });
        match world.find(LEASE, LEASES, name) {
            None => {
                let owner = value!({
                    "apiVersion": "v1", "kind": "Node", "name": (name), "uid": (&*seat.object.meta().uid),
                });
                let lease =
                    value!({"metadata": {"name": (name), "ownerReferences": [(owner)]}, "spec": (spec)});
                plan.act(Write::create(LEASE, LEASES, lease));
            }
            // A Lease from the future was renewed before the clock was set back.
            Some(lease) if lease.commit_time() < last || lease.commit_time() > next => {
                plan.act(Write::merge(lease, "", value!({"spec": (spec)})).at_any_revision());
            }
            Some(_) => {}
        }
    }

    /// Reports the node status if it changed or the heartbeat is due. Otherwise returns the revision of the
    /// node and the time until which its status is up to date.
    fn report(
        &self,
        seat: &Seat<'_>,
        world: &WorldReader<'_>,
        now: Time,
        plan: &mut Plan<Known>,
    ) -> Option<(Revision, Time)> {
        let (known, wanted) = status::compare(&self.0, seat, world, now);
        plan.look_again_at(wanted.next);
        let Some(patch) = wanted.patch else { return Some((seat.object.revision(), wanted.next)) };
        let subject = Subject::of(seat.object, "v1", "Node");
        let name = seat.object.key().name();
        let mut act = Act::from(Write::merge(seat.object, "status", value!({"status": (patch)})).strategic());
        if wanted.becomes_ready {
            act = act.on_done(subject.normal("NodeReady", format!("Node {name} status is now: NodeReady")));
        }
        if let Some(boot) = wanted.boot.filter(|boot| !known.is_empty() && known != *boot) {
            let message = format!("Node {name} has been rebooted, boot id: {boot}");
            act = act.on_done(subject.warning("Rebooted", message));
        }
        plan.act(act);
        None
    }
}

/// Event of a cordon or uncordon since the last plan.
fn closing(seat: &Seat<'_>, was_closed: Option<bool>) -> Option<Note> {
    let is_closed = seat.node.spec.unschedulable;
    was_closed.filter(|was_closed| *was_closed != is_closed)?;
    let reason = if is_closed { "NodeNotSchedulable" } else { "NodeSchedulable" };
    let message = format!("Node {} status is now: {reason}", seat.object.key().name());
    Some(Subject::of(seat.object, "v1", "Node").normal(reason, message))
}

/// Returns the last and the next renewal time of a node.
fn step(name: &str, count: u32, renewal: Duration, now: Time) -> (Time, Time) {
    let steps = (u64::from(count) / NODES_PER_STEP).clamp(1, STEPS_MAX);
    let share = u32::try_from(hash(name) % steps).unwrap_or(0);
    let offset = renewal / u32::try_from(steps).unwrap_or(1) * share;
    let last = now.before(offset).whole(renewal).after(offset);
    (last, last.after(renewal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_renewals_are_spread_in_steps_once_per_interval() {
        let now = Time::from_seconds(1_800_000_003);
        let renewal = Fleet::default().renewal();
        let mut steps = std::collections::BTreeSet::new();
        for number in 0..5000 {
            let (last, next) = step(&format!("node-{number}"), 5000, renewal, now);
            assert!(last <= now && now < next && next.since(last) == renewal);
            steps.insert(next);
        }
        assert_eq!(steps.len(), 100);
        let together = |name| step(name, 20, renewal, now);
        assert_eq!(together("node-1"), together("node-2"), "nodes share a step");
    }
}
