//! Tests of mirrored Endpoints in a control plane.

use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

use super::*;

fn cluster() -> Cluster {
    let mut cluster = Cluster::new(|| (vec![Box::new(SliceMirroring)], crate::indexes::all()), 5);
    let range = value!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.0.0.0/16"]}});
    cluster.create("servicecidrs.networking.k8s.io", "", range);
    let service = value!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    cluster.create("services", "default", service);
    cluster
}

fn endpoints() -> Value {
    value!({
        "metadata": {"name": "s", "labels": {"a": "b"}, "annotations": {"c": "d"}},
        "subsets": [{
            "addresses": [{"ip": "10.1.0.2"}, {"ip": "10.1.0.1", "hostname": "h"}, {"ip": "fd00::1"}],
            "notReadyAddresses": [{"ip": "10.1.0.3"}],
            "ports": [{"port": 80}],
        }],
    })
}

fn slices(cluster: &Cluster) -> Vec<Value> {
    cluster.list(ENDPOINT_SLICES)
}

#[test]
fn each_address_family_has_a_mirrored_slice() {
    let mut cluster = cluster();
    cluster.create("endpoints", "default", endpoints());
    cluster.settle();
    let found = slices(&cluster);
    assert_eq!(found.len(), 2);
    let four = found.iter().find(|slice| slice.str_at(&["addressType"]) == "IPv4").unwrap();
    assert_eq!(four.at(&["endpoints"]).and_then(Value::as_list).unwrap().len(), 3);
    assert_eq!(four.str_at(&["metadata", "labels", "a"]), "b");
    assert_eq!(four.str_at(&["metadata", "labels", MANAGED_BY]), MANAGER);
    assert_eq!(four.str_at(&["metadata", "annotations", "c"]), "d");
    cluster.assert_quiet();
    let fewer = value!({
        "metadata": {"labels": {"a": null}},
        "subsets": [{"addresses": [{"ip": "10.1.0.9"}], "ports": [{"port": 80}]}],
    });
    cluster.patch("endpoints", "default/s", "", fewer).unwrap();
    cluster.settle();
    let found = slices(&cluster);
    assert_eq!(found.len(), 1);
    assert!(found[0].at(&["metadata", "labels", "a"]).is_none());
    cluster.assert_quiet();
    cluster.delete("endpoints", "default/s", &Value::map()).unwrap();
    cluster.settle();
    assert!(slices(&cluster).is_empty());
}

#[test]
fn services_with_selectors_and_locks_are_not_mirrored() {
    let mut cluster = cluster();
    cluster.create("endpoints", "default", endpoints());
    cluster.settle();
    let skip = value!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}});
    cluster.patch("endpoints", "default/s", "", skip).unwrap();
    cluster.settle();
    assert!(slices(&cluster).is_empty());
    let again = value!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": null}}});
    cluster.patch("endpoints", "default/s", "", again).unwrap();
    cluster.settle();
    assert_eq!(slices(&cluster).len(), 2);
    cluster.patch("services", "default/s", "", value!({"spec": {"selector": {"x": "y"}}})).unwrap();
    cluster.settle();
    assert!(slices(&cluster).is_empty());
    cluster.assert_quiet();
}

#[test]
fn edited_slice_is_repaired_after_a_crash_at_any_write() {
    for crash_after in 0..5 {
        let mut cluster = cluster();
        cluster.create("endpoints", "default", endpoints());
        cluster.crash_after(crash_after);
        cluster.settle();
        assert_eq!(slices(&cluster).len(), 2);
        let name = slices(&cluster)[0].str_at(&["metadata", "name"]).to_owned();
        cluster.patch(ENDPOINT_SLICES, &format!("default/{name}"), "", value!({"endpoints": []})).unwrap();
        cluster.settle();
        assert!(slices(&cluster).iter().all(|slice| !slice.at(&["endpoints"]).unwrap().is_empty()));
        cluster.assert_quiet();
    }
}

#[test]
fn thousands_of_subsets_are_grouped_by_their_ports() {
    let mut cluster = cluster();
    let subset = |at: i64| value!({"addresses": [{"ip": "10.1.0.9"}], "ports": [{"port": (80 + at % 3)}]});
    let subsets: Vec<Value> = (0..20_000).map(subset).collect();
    cluster.create("endpoints", "default", value!({"metadata": {"name": "s"}, "subsets": (subsets)}));
    cluster.settle();
    assert_eq!(slices(&cluster).len(), 3);
    let subsets: Vec<Value> = (1..3).map(subset).collect();
    cluster.patch("endpoints", "default/s", "", value!({"subsets": (subsets)})).unwrap();
    cluster.settle();
    assert_eq!(slices(&cluster).len(), 2);
    cluster.assert_quiet();
}
