//! APIService of the resource metrics that the server provides.
//!
//! In upstream the API server maintains such objects for its own groups, so this controller runs in every
//! server, whichever controllers are enabled. An APIService that a user created for another server is left
//! alone. The usage of simulated containers follows from their rules. Metrics are therefore always served
//! where simulated nodes run in the server, and otherwise for as long as there is a simulated node.

use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Key, Map, Time, Value, value};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Object, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::api_service::ApiService;
use setpoint_views::node;

/// Resource of APIServices.
pub(crate) const API_SERVICES: &str = "apiservices.apiregistration.k8s.io";
/// Group version of resource metrics.
pub(crate) const METRICS_GROUP_VERSION: &str = "v1beta1.metrics.k8s.io";
/// Label of APIServices that the server maintains.
pub(crate) const AUTOMANAGED_LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Maintains the APIService of resource metrics.
pub struct MetricsService {
    /// `true` if simulated nodes run in the server. Clients cache discovery for long, so the group is then
    /// served even without a node.
    pub has_nodes: bool,
}

impl Planner for MetricsService {
    type Memo = ();

    fn name(&self) -> &'static str {
        "autoregister"
    }

    fn user(&self) -> String {
        "system:apiserver".to_owned()
    }

    fn manager(&self) -> &'static str {
        "kube-apiserver"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [
            Watch::primary(API_SERVICES),
            Watch::mapped("nodes", enqueue_for_node).when(has_simulated_label_changed),
        ];
        &WATCHES
    }

    fn keys(&self, _: &WorldReader<'_>) -> Vec<Key> {
        key_of(API_SERVICES, "", METRICS_GROUP_VERSION).into_iter().collect()
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        if key.name() != METRICS_GROUP_VERSION {
            return plan;
        }
        match (world.get(key), self.has_nodes || world.all("nodes").any(is_simulated)) {
            (None, true) => {
                let spec = value!({
                    "group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
                });
                let mut labels = Map::new();
                labels.insert(AUTOMANAGED_LABEL, "true");
                let metadata = value!({"name": (METRICS_GROUP_VERSION), "labels": (labels)});
                plan.push(Write::create(API_SERVICES, "", value!({"metadata": (metadata), "spec": (spec)})));
            }
            (Some(object), _) if !is_automanaged(object) || object.meta().is_deleted() => {}
            (Some(object), true) if !is_available(object) => {
                let condition = value!({
                    "type": "Available", "status": "True", "reason": "Local",
                    "message": "Local APIServices are always available",
                    "lastTransitionTime": (Seconds(now).to_string()),
                });
                let status = value!({"status": {"conditions": [(condition)]}});
                plan.push(Write::merge(object, "status", status));
            }
            (Some(object), false) => plan.push(Write::delete(object)),
            _ => {}
        }
        plan
    }
}

fn is_simulated(object: &Object) -> bool {
    node::is_simulated(|label| object.meta().labels.get(label).is_some())
}

fn has_simulated_label_changed(before: &Object, after: &Object) -> bool {
    is_simulated(before) != is_simulated(after)
}

fn enqueue_for_node(node: &Object, _: &WorldReader<'_>, enqueue: &mut dyn FnMut(Key)) {
    if is_simulated(node)
        && let Some(key) = key_of(API_SERVICES, "", METRICS_GROUP_VERSION)
    {
        enqueue(key);
    }
}

/// `true` unless a user created the APIService, or gave it a Service.
pub(crate) fn is_automanaged(object: &Object) -> bool {
    let has_service = || object.view::<ApiService>().is_some_and(|view| view.spec.service.is_some());
    object.meta().labels.get(AUTOMANAGED_LABEL).is_some() && !has_service()
}

/// `true` if the status has conditions.
pub(crate) fn is_available(object: &Object) -> bool {
    let value = object.value();
    let conditions = value.at(&["status", "conditions"]).and_then(Value::as_list);
    conditions.is_some_and(|conditions| !conditions.is_empty())
}

#[cfg(test)]
mod tests {
    use setpoint_reconcile::Controller;
    use setpoint_sim::cluster::Cluster;
    use setpoint_views::node::SIMULATED_LABEL;

    use super::*;

    fn cluster(is_served: bool) -> Cluster {
        let own = || -> (Vec<Box<dyn Controller>>, Vec<setpoint_reconcile::Index>) {
            (vec![Box::new(MetricsService { has_nodes: false })], crate::indexes::all())
        };
        let mut cluster = Cluster::new(own, 1);
        let mut labels = Map::new();
        labels.insert(if is_served { SIMULATED_LABEL } else { "node-role.kubernetes.io/worker" }, "");
        cluster.create("nodes", "", value!({"metadata": {"name": "n", "labels": (labels)}}));
        cluster
    }

    fn service(label: &str) -> Value {
        let mut labels = Map::new();
        labels.insert(label, "true");
        value!({
            "metadata": {"name": (METRICS_GROUP_VERSION), "labels": (labels)},
            "spec": {
                "group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
            },
        })
    }

    #[test]
    fn served_metrics_group_has_an_available_api_service() {
        let mut served = cluster(true);
        served.settle();
        let found = served.get(API_SERVICES, METRICS_GROUP_VERSION).unwrap();
        let conditions = found.at(&["status", "conditions"]).and_then(Value::as_list).unwrap();
        assert_eq!(conditions[0].str_at(&["reason"]), "Local");
        served.assert_quiet();
        served.delete("nodes", "n", &value!({})).unwrap();
        served.settle();
        assert!(served.get(API_SERVICES, METRICS_GROUP_VERSION).is_none());
        let mut unserved = cluster(false);
        unserved.create(API_SERVICES, "", service(AUTOMANAGED_LABEL));
        unserved.settle();
        assert!(unserved.get(API_SERVICES, METRICS_GROUP_VERSION).is_none());
    }

    #[test]
    fn api_service_stays_without_nodes_if_the_server_runs_nodes() {
        let own = || -> (Vec<Box<dyn Controller>>, Vec<setpoint_reconcile::Index>) {
            (vec![Box::new(MetricsService { has_nodes: true })], crate::indexes::all())
        };
        let mut cluster = Cluster::new(own, 1);
        cluster.settle();
        let uid = |cluster: &Cluster| {
            let found = cluster.get(API_SERVICES, METRICS_GROUP_VERSION).unwrap();
            found.str_at(&["metadata", "uid"]).to_owned()
        };
        let first = uid(&cluster);
        let mut labels = Map::new();
        labels.insert(SIMULATED_LABEL, "");
        cluster.create("nodes", "", value!({"metadata": {"name": "n", "labels": (labels)}}));
        cluster.settle();
        cluster.delete("nodes", "n", &value!({})).unwrap();
        cluster.settle();
        assert_eq!(uid(&cluster), first);
        cluster.assert_quiet();
    }

    #[test]
    fn api_service_of_another_server_is_left_alone() {
        for is_served in [false, true] {
            let mut cluster = cluster(is_served);
            cluster.create(API_SERVICES, "", service("installed-by-hand"));
            cluster.settle();
            let found = cluster.get(API_SERVICES, METRICS_GROUP_VERSION).unwrap();
            assert!(found.at(&["status", "conditions"]).is_none(), "{is_served}");
        }
    }
}
