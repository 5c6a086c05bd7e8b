//! Leader election Lease of a loop that needs no election.
//!
//! A loop next to an exclusive store is the leader by the lock on the store. It takes the Lease over at once
//! and renews it, so external loops wait, and the holder is visible.

use setpoint_api::rfc3339::Micros;
use setpoint_api::{Key, Time, Value, value};
use setpoint_reconcile::election::{LeaderElectionConfig, LeaderElectionRecord};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Action, Plan, Planner, Seed, Seen, Watch, WorldReader, Write, int32};

const NAMESPACE: &str = "kube-system";

/// Maintains a Lease in the name of this process.
pub struct LeaseHolder {
    /// Name of the Lease, and of the component.
    pub lease: &'static str,
    /// Holder identity, as `host_id`.
    pub identity: String,
}

impl Planner for LeaseHolder {
    type Memo = ();

    fn name(&self) -> &'static str {
        // One process may hold several Leases.
        if self.lease == "kube-scheduler" { "scheduler-lease" } else { "leader-lease" }
    }

    fn user(&self) -> String {
        format!("system:{}", self.lease)
    }

    fn manager(&self) -> &'static str {
        self.lease
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [
            Watch::mapped("namespaces", enqueue_for_namespace),
            Watch::mapped("leases.coordination.k8s.io", enqueue_for_lease),
        ];
        &WATCHES
    }

    fn keys(&self, _: &WorldReader<'_>) -> Vec<Key> {
        key_of("leases.coordination.k8s.io", NAMESPACE, self.lease).into_iter().collect()
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        // Leases of others enqueue their keys too, and are left alone.
        if key.name() != self.lease || world.find("namespaces", "", NAMESPACE).is_none() {
            return plan;
        }
        let LeaderElectionConfig { lease_duration, renew_deadline, .. } = LeaderElectionConfig::default();
        let (time, seconds) =
            (Micros(now).to_string(), i64::try_from(lease_duration.as_secs()).unwrap_or(15));
        let spec = |acquired: &str, transitions: i64| {
            value!({
                "holderIdentity": (self.identity.as_str()),
                "leaseDurationSeconds": (seconds),
                "acquireTime": (acquired),
                "renewTime": (time.as_str()),
                "leaseTransitions": (transitions),
            })
        };
        // Renewals at the same multiple of the interval share a sync, as those of nodes.
        let last = now.whole(renew_deadline);
        plan.requeue_at(last.after(renew_deadline));
        let Some(lease) = world.get(key) else {
            let lease = value!({"metadata": {"name": (self.lease)}, "spec": (spec(&time, 0))});
            plan.push(Action::from(Write::create("leases.coordination.k8s.io", NAMESPACE, lease)));
            return plan;
        };
        let held = LeaderElectionRecord::from_lease(&lease.value(), lease.revision());
        let patch: Value = if held.holder != self.identity {
            spec(&time, int32::saturating_increment(held.transitions))
        } else if lease.commit_time() < last {
            spec(&held.acquired, held.transitions)
        } else {
            return plan;
        };
        plan.push(Action::from(Write::merge(lease, "", value!({"spec": (patch)}))));
        plan
    }
}

/// Enqueues all Leases of the namespace.
fn enqueue_for_namespace(
    namespace: &setpoint_reconcile::Object,
    _: &WorldReader<'_>,
    enqueue: &mut dyn FnMut(Key),
) {
    if &*namespace.meta().name == NAMESPACE {
        let leases = ["kube-controller-manager", "kube-scheduler"];
        leases
            .into_iter()
            .filter_map(|name| key_of("leases.coordination.k8s.io", NAMESPACE, name))
            .for_each(enqueue);
    }
}

fn enqueue_for_lease(lease: &setpoint_reconcile::Object, _: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if &*lease.meta().namespace == NAMESPACE {
        enqueue(lease.key().clone());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use setpoint_sim::cluster::Cluster;

    use super::*;

    fn cluster() -> Cluster {
        let controllers = || {
            let holder = LeaseHolder { lease: "kube-controller-manager", identity: "me_1".to_owned() };
            (vec![Box::new(holder) as Box<dyn setpoint_reconcile::Controller>], crate::indexes::all())
        };
        let mut cluster = Cluster::new(controllers, 1);
        cluster.create("namespaces", "", value!({"metadata": {"name": "kube-system"}}));
        cluster
    }

    fn held(cluster: &Cluster) -> LeaderElectionRecord {
        let lease = cluster.get("leases.coordination.k8s.io", "kube-system/kube-controller-manager").unwrap();
        LeaderElectionRecord::from_lease(&lease, setpoint_api::Revision::ZERO)
    }

    #[test]
    fn lease_is_acquired_at_once_and_renewed() {
        let mut cluster = cluster();
        cluster.settle();
        let first = held(&cluster);
        assert_eq!((first.holder.as_str(), first.transitions), ("me_1", 0));
        cluster.run(Duration::from_secs(61));
        let later = held(&cluster);
        assert_eq!((later.acquired, later.transitions), (first.acquired, 0));
        assert_ne!(later.renewed, first.renewed);
        let patch = value!({"spec": {"holderIdentity": "other"}});
        cluster
            .patch("leases.coordination.k8s.io", "kube-system/kube-controller-manager", "", patch)
            .unwrap();
        cluster.settle();
        assert_eq!((held(&cluster).holder.as_str(), held(&cluster).transitions), ("me_1", 1));
    }

    #[test]
    fn lease_with_the_maximum_of_transitions_is_acquired() {
        let mut cluster = cluster();
        cluster.settle();
        let patch = value!({"spec": {"holderIdentity": "other", "leaseTransitions": (i64::from(i32::MAX))}});
        cluster
            .patch("leases.coordination.k8s.io", "kube-system/kube-controller-manager", "", patch)
            .unwrap();
        cluster.settle();
        assert_eq!(
            (held(&cluster).holder.as_str(), held(&cluster).transitions),
            ("me_1", i64::from(i32::MAX))
        );
    }
}
