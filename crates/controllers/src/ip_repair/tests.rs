//! Tests of Service addresses in a control plane.

use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

use super::*;

fn cluster() -> Cluster {
    let mut cluster = Cluster::new(|| (vec![Box::new(IpRepair)], crate::indexes::all()), 5);
    let range = value!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.0.0.0/16"]}});
    cluster.create("servicecidrs.networking.k8s.io", "", range);
    cluster.create(
        "services",
        "default",
        value!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "clusterIP": "10.0.0.9"}}),
    );
    cluster.settle();
    cluster
}

fn address(name: &str, service: &str) -> Value {
    value!({
        "metadata": {"name": (name), "labels": {
            "ipaddress.kubernetes.io/ip-family": "IPv4",
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        }},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": (service)}},
    })
}

#[test]
fn lost_address_is_allocated_again() {
    let mut cluster = cluster();
    cluster.assert_quiet();
    cluster.delete(IP_ADDRESSES, "10.0.0.9", &Value::map()).unwrap();
    cluster.settle();
    let found = cluster.get(IP_ADDRESSES, "10.0.0.9").unwrap();
    assert_eq!(found.str_at(&["spec", "parentRef", "name"]), "s");
    let events = cluster.list("events");
    assert!(events.iter().any(|event| event.str_at(&["reason"]) == "ClusterIPNotAllocated"), "{events:?}");
    cluster.assert_quiet();
}

#[test]
fn leaked_address_is_deleted_after_a_minute() {
    let mut cluster = cluster();
    cluster.create(IP_ADDRESSES, "", address("10.0.0.77", "nobody"));
    cluster.run(Duration::from_secs(50));
    assert!(cluster.get(IP_ADDRESSES, "10.0.0.77").is_some());
    cluster.run(Duration::from_secs(15));
    assert!(cluster.get(IP_ADDRESSES, "10.0.0.77").is_none());
    assert!(cluster.get(IP_ADDRESSES, "10.0.0.9").is_some());
    cluster.assert_quiet();
}

#[test]
fn stale_address_is_deleted_and_one_of_another_parent_is_reassigned() {
    let mut cluster = cluster();
    cluster.create(IP_ADDRESSES, "", address("10.0.0.78", "s"));
    cluster.delete(IP_ADDRESSES, "10.0.0.9", &Value::map()).unwrap();
    cluster.create(IP_ADDRESSES, "", address("10.0.0.9", "stranger"));
    cluster.run(Duration::from_secs(90));
    assert!(cluster.get(IP_ADDRESSES, "10.0.0.78").is_none());
    let found = cluster.get(IP_ADDRESSES, "10.0.0.9").unwrap();
    assert_eq!(found.str_at(&["spec", "parentRef", "name"]), "s");
    cluster.assert_quiet();
}
