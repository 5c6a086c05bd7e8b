//! Node planner of a fleet: registers nodes, renews their Leases and reports their status.
//!
//! A deleted node is not registered again until the process restarts, as with a kubelet. Renewals are spread
//! over the renewal interval in steps, by a hash of the node name: a few nodes write at one time and share a
//! sync of the log.

mod ownership;
mod status;

pub use ownership::is_lease_valid;
pub use status::internal_ip;

use std::sync::Arc;
use std::time::Duration;

use setpoint_api::rfc3339::Micros;
use setpoint_api::{Key, Map, Revision, Time, Value, value};
use setpoint_reconcile::plan::{InvolvedObject, value_of};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{
    Action, ClientIdentity, EventRecord, Jump, Plan, Planner, Seed, Seen, Watch, WorldReader, Write,
};
use setpoint_views::node::{Node, SIMULATED_LABEL};

use crate::fleet::{Fleet, KUBELET, NodeRef, PowerState};
use crate::images::stable_hash;

/// Namespace of node Leases.
pub const LEASE_NAMESPACE: &str = "kube-node-lease";
/// Resource of Leases.
pub const LEASE_RESOURCE: &str = "leases.coordination.k8s.io";
/// Maximum number of steps in a renewal interval.
const STEPS_MAX: u64 = 100;
/// Nodes per additional step.
const NODES_PER_STEP: u64 = 50;

/// Node planner of a fleet.
pub struct Nodes(pub Arc<Fleet>);

/// Memo of a node.
#[derive(Clone, Default)]
pub struct NodeMemo {
    /// `true` if the node existed.
    existed: bool,
    /// Revision at which the status was up to date, and the time until which it stays so.
    reported: Option<(Revision, Time)>,
    /// State of the other fleet that owns the node, if any.
    other_owner: Option<ownership::OtherOwner>,
    /// `spec.unschedulable` at the last plan; `None` since the start of the process.
    was_unschedulable: Option<bool>,
}

impl Planner for Nodes {
    type Memo = NodeMemo;

    fn name(&self) -> &'static str {
        "node-status"
    }

    fn identity(&self) -> Option<ClientIdentity> {
        Some(KUBELET)
    }

    fn node(&self, key: &Key, _: &WorldReader<'_>) -> Option<String> {
        Some(key.name().to_owned())
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::primary("nodes")];
        &WATCHES
    }

    fn clock_jumped(&self, memo: &mut NodeMemo, jump: Jump, _: Time) {
        // Statuses contain times, so they must be compared again.
        memo.reported = None;
        if let Some(other_owner) = &mut memo.other_owner {
            other_owner.clock_jumped(jump);
        }
    }

    fn keys(&self, _: &WorldReader<'_>) -> Vec<Key> {
        (0..self.0.count).filter_map(|number| key_of("nodes", "", &self.0.node_name(number))).collect()
    }

    fn plan(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        seen: &Seen<'_, NodeMemo>,
        now: Time,
        _: Seed,
    ) -> Plan<NodeMemo> {
        let memo =
            NodeMemo { existed: true, was_unschedulable: seen.memo.was_unschedulable, ..NodeMemo::default() };
        let mut plan = Plan { memo, ..Plan::default() };
        let Some(number) = self.0.node_number(key.name()) else { return Plan::default() };
        let Some((object, view)) = world.view::<Node>("", key.name()) else {
            plan.memo = NodeMemo { existed: seen.memo.existed, ..NodeMemo::default() };
            if !seen.memo.existed {
                plan.push(Write::create("nodes", "", self.registration(number, now)));
            }
            return plan;
        };
        let node = NodeRef { object, view, number };
        if node.power() != PowerState::On || object.meta().is_deleted() {
            return plan;
        }
        if !self.0.owns(object) {
            plan.memo.other_owner = ownership::claim_or_wait(
                &self.0,
                object,
                world,
                seen.memo.other_owner.as_ref(),
                now,
                &mut plan,
            );
            return plan;
        }
        plan.events.extend(cordon_event(&node, seen.memo.was_unschedulable));
        plan.memo.was_unschedulable = Some(view.spec.unschedulable);
        self.renew_lease(&node, world, now, &mut plan);
        plan.memo.reported = match seen.memo.reported {
            // The status is still up to date.
            Some((revision, until)) if revision == object.revision() && now < until => {
                plan.requeue_at(until);
                seen.memo.reported
            }
            _ => self.report_status(&node, world, now, &mut plan),
        };
        plan
    }
}

impl Nodes {
    /// Returns the Node object to register.
    fn registration(&self, number: u32, now: Time) -> Value {
        let fleet = &self.0;
        let name = fleet.node_name(number);
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
                "name": (name.as_str()), "labels": (labels), "annotations": (ownership::owner_annotations(fleet)),
            },
            "spec": {},
            "status": (value_of(&status::initial_status(fleet, number, now))),
        });
        if !fleet.taints.is_empty() {
            node.ensure_map("spec").insert("taints", value_of(&fleet.taints));
        }
        node
    }

    /// Renews the Lease of a node once per renewal interval, at the node's step.
    fn renew_lease(&self, node: &NodeRef<'_>, world: &WorldReader<'_>, now: Time, plan: &mut Plan<NodeMemo>) {
        let name = node.object.key().name();
        if world.find("namespaces", "", LEASE_NAMESPACE).is_none() {
            return;
        }
        let (last, next) = renewal_times(name, self.0.count, self.0.lease_renewal_interval(), now);
        let seconds = i64::try_from(self.0.lease_duration.as_secs()).unwrap_or(i64::MAX);
        plan.requeue_at(next);
        let spec = value!({
            "holderIdentity": (name),
            "leaseDurationSeconds": (seconds),
            "renewTime": (Micros(now).to_string()),
        });
        match world.find(LEASE_RESOURCE, LEASE_NAMESPACE, name) {
            None => {
                let owner = value!({
                    "apiVersion": "v1", "kind": "Node", "name": (name), "uid": (&*node.object.meta().uid),
                });
                let lease =
                    value!({"metadata": {"name": (name), "ownerReferences": [(owner)]}, "spec": (spec)});
                plan.push(Write::create(LEASE_RESOURCE, LEASE_NAMESPACE, lease));
            }
            // A Lease from the future was renewed before the clock was set back.
            Some(lease) if lease.commit_time() < last || lease.commit_time() > next => {
                plan.push(Write::merge(lease, "", value!({"spec": (spec)})).at_any_revision());
            }
            Some(_) => {}
        }
    }

    /// Reports the node status if it changed or the heartbeat is due. Otherwise returns the revision of the
    /// node and the time until which its status is up to date.
    fn report_status(
        &self,
        node: &NodeRef<'_>,
        world: &WorldReader<'_>,
        now: Time,
        plan: &mut Plan<NodeMemo>,
    ) -> Option<(Revision, Time)> {
        let (reported_boot_id, update) = status::compute_update(&self.0, node, world, now);
        plan.requeue_at(update.next_report);
        let Some(patch) = update.patch else { return Some((node.object.revision(), update.next_report)) };
        let subject = InvolvedObject::new(node.object, "v1", "Node");
        let name = node.object.key().name();
        let mut action =
            Action::from(Write::merge(node.object, "status", value!({"status": (patch)})).strategic());
        if update.becomes_ready {
            action =
                action.on_done(subject.normal("NodeReady", format!("Node {name} status is now: NodeReady")));
        }
        if let Some(boot_id) =
            update.boot_id.filter(|boot_id| !reported_boot_id.is_empty() && reported_boot_id != *boot_id)
        {
            let message = format!("Node {name} has been rebooted, boot id: {boot_id}");
            action = action.on_done(subject.warning("Rebooted", message));
        }
        plan.push(action);
        None
    }
}

/// Event of a cordon or uncordon since the last plan.
fn cordon_event(node: &NodeRef<'_>, was_unschedulable: Option<bool>) -> Option<EventRecord> {
    let is_unschedulable = node.view.spec.unschedulable;
    was_unschedulable.filter(|before| *before != is_unschedulable)?;
    let reason = if is_unschedulable { "NodeNotSchedulable" } else { "NodeSchedulable" };
    let message = format!("Node {} status is now: {reason}", node.object.key().name());
    Some(InvolvedObject::new(node.object, "v1", "Node").normal(reason, message))
}

/// Returns the last and the next renewal time of a node.
fn renewal_times(name: &str, count: u32, interval: Duration, now: Time) -> (Time, Time) {
    let steps = (u64::from(count) / NODES_PER_STEP).clamp(1, STEPS_MAX);
    let slot = u32::try_from(stable_hash(name) % steps).unwrap_or(0);
    let offset = interval / u32::try_from(steps).unwrap_or(1) * slot;
    let last = now.before(offset).whole(interval).after(offset);
    (last, last.after(interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_renewals_are_spread_in_steps_once_per_interval() {
        let now = Time::from_seconds(1_800_000_003);
        let interval = Fleet::default().lease_renewal_interval();
        let mut steps = std::collections::BTreeSet::new();
        for number in 0..5000 {
            let (last, next) = renewal_times(&format!("node-{number}"), 5000, interval, now);
            assert!(last <= now && now < next && next.since(last) == interval);
            steps.insert(next);
        }
        assert_eq!(steps.len(), 100);
        let together = |name| renewal_times(name, 20, interval, now);
        assert_eq!(together("node-1"), together("node-2"), "nodes share a step");
    }
}
