//! Tests of ServiceCIDRs in a control plane.

use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

use super::*;

const RANGES: &str = "servicecidrs.networking.k8s.io";

fn cluster() -> Cluster {
    Cluster::new(|| (vec![Box::new(ServiceCidrController)], crate::indexes::all()), 5)
}

fn range(name: &str, cidr: &str) -> Value {
    value!({"metadata": {"name": (name)}, "spec": {"cidrs": [(cidr)]}})
}

fn ready(cluster: &Cluster, name: &str) -> String {
    let range = cluster.get(RANGES, name).unwrap();
    let conditions = range.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    conditions.iter().map(|condition| condition.str_at(&["status"]).to_owned()).collect()
}

fn address(cluster: &mut Cluster, ip: &str) {
    let address = value!({
        "metadata": {"name": (ip), "labels": {
            "ipaddress.kubernetes.io/ip-family": "IPv4",
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        }},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "s"}},
    });
    cluster.create("ipaddresses.networking.k8s.io", "", address);
}

#[test]
fn range_becomes_ready_and_is_removed_ten_seconds_after_deletion() {
    let mut cluster = cluster();
    cluster.create(RANGES, "", range("a", "10.0.0.0/16"));
    cluster.settle();
    assert_eq!(ready(&cluster, "a"), "True");
    cluster.assert_quiet();
    cluster.delete(RANGES, "a", &Value::map()).unwrap();
    cluster.run(Duration::from_secs(9));
    assert!(cluster.get(RANGES, "a").is_some());
    cluster.run(Duration::from_secs(2));
    assert!(cluster.get(RANGES, "a").is_none());
}

#[test]
fn range_with_addresses_stays_until_they_are_covered_elsewhere() {
    let mut cluster = cluster();
    for name in ["a", "b"] {
        cluster.create(RANGES, "", range(name, if name == "a" { "10.0.0.0/16" } else { "10.1.0.0/16" }));
    }
    address(&mut cluster, "10.0.0.7");
    address(&mut cluster, "10.1.0.7");
    cluster.settle();
    cluster.delete(RANGES, "a", &Value::map()).unwrap();
    cluster.delete(RANGES, "b", &Value::map()).unwrap();
    cluster.run(Duration::from_secs(30));
    assert_eq!((ready(&cluster, "a").as_str(), ready(&cluster, "b").as_str()), ("False", "False"));
    cluster.assert_quiet();
    cluster.delete("ipaddresses.networking.k8s.io", "10.0.0.7", &Value::map()).unwrap();
    cluster.create(RANGES, "", range("all", "10.0.0.0/8"));
    cluster.run(Duration::from_secs(11));
    assert!(cluster.get(RANGES, "a").is_none() && cluster.get(RANGES, "b").is_none());
    cluster.assert_quiet();
}

#[test]
fn neither_the_first_nor_the_last_address_is_allocated() {
    let cidr = Cidr::parse("10.0.0.0/24").unwrap();
    let can_allocate = |text: &str| is_allocatable(&cidr, text.parse().unwrap());
    assert!(can_allocate("10.0.0.1") && can_allocate("10.0.0.254"));
    assert!(
        !can_allocate("10.0.0.0")
            && !can_allocate("10.0.0.255")
            && !can_allocate("10.0.1.1")
            && !can_allocate("fd00::1")
    );
}
