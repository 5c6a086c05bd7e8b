//! ReplicationController: the predecessor of ReplicaSet, with the same rules.

use setpoint_api::{Key, Time};
use setpoint_reconcile::{Object, Plan, Planner, Seed, Seen, View, Watch, WorldReader};
use setpoint_views::replication_controller::ReplicationController;
use setpoint_views::resource_quota::ResourceQuota;

use crate::quota_headroom;
use crate::replica_set::PodSetKind;

const KIND: PodSetKind = PodSetKind {
    api_version: "v1",
    name: "ReplicationController",
    resource: <ReplicationController as View>::RESOURCE,
    view: |object| object.view::<ReplicationController>().map(|view| &view.0),
    counts_terminating: false,
};

/// The ReplicationController controller.
pub struct ReplicationControllerController;

impl Planner for ReplicationControllerController {
    type Memo = ();

    fn name(&self) -> &'static str {
        "replication-controller"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 3] = [
            Watch::primary(KIND.resource),
            Watch::mapped("pods", enqueue_for_pod),
            Watch::mapped(ResourceQuota::RESOURCE, enqueue_for_quota).when(quota_headroom::admits_more),
        ];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, seen: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        KIND.plan(key, world, seen, now)
    }
}

fn enqueue_for_quota(quota: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    KIND.enqueue_rejected(quota, world, enqueue);
}

fn enqueue_for_pod(pod: &Object, world: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    KIND.enqueue(pod, world, enqueue);
}

#[cfg(test)]
mod tests {
    use setpoint_api::value;
    use setpoint_sim::cluster::Cluster;

    use crate::testing::{has_event, number, template};

    #[test]
    fn replication_controller_maintains_its_pods() {
        let controllers = || -> (Vec<Box<dyn setpoint_reconcile::Controller>>, _) {
            (vec![Box::new(super::ReplicationControllerController)], crate::indexes::all())
        };
        let mut cluster = Cluster::new(controllers, 1);
        let (resource, path) = ("replicationcontrollers", "default/old");
        let orphan = value!({
            "metadata": {"name": "lone", "labels": {"app": "old"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        cluster.create("pods", "default", orphan);
        let old = value!({
            "metadata": {"name": "old"},
            "spec": {"replicas": 3, "selector": {"app": "old"}, "template": (template("old", "i"))},
        });
        cluster.create(resource, "default", old);
        cluster.settle_with_pods();
        assert_eq!(cluster.list("pods").len(), 3, "the orphan counts");
        assert_eq!(number(&cluster, resource, path, "availableReplicas"), 3);
        let status = cluster.get(resource, path).unwrap();
        assert_eq!(status.at(&["status", "terminatingReplicas"]), None);
        cluster.assert_quiet();
        cluster.patch(resource, path, "", value!({"spec": {"replicas": 0}})).unwrap();
        cluster.settle_with_pods();
        assert_eq!(cluster.list("pods").len(), 0);
        assert!(has_event(&cluster, "SuccessfulDelete", "Deleted pod: lone"));
        cluster.assert_quiet();
    }
}
