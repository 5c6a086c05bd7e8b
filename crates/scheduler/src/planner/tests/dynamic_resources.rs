//! Tests of pods with ResourceClaims.

use std::time::Duration;

use super::*;

mod allocation;
mod binding;
mod selection;

const CLAIMS: &str = "resourceclaims.resource.k8s.io";
const CLASSES: &str = "deviceclasses.resource.k8s.io";
const SLICES: &str = "resourceslices.resource.k8s.io";
const DRIVER: &str = "x.example.com";

/// Cluster with a device class `k` and nodes `n1` and `n2`.
fn device_cluster() -> Cluster {
    let mut cluster = cluster();
    add_node(&mut cluster, "n1", "4", value!({}));
    add_node(&mut cluster, "n2", "4", value!({}));
    let class = value!({"metadata": {"name": "k"}, "spec": {}});
    cluster.create(CLASSES, "", class);
    cluster
}

/// Pool of one slice, for a node or for all nodes.
fn add_pool(cluster: &mut Cluster, name: &str, node: Option<&str>, devices: Vec<Value>) {
    let pool = value!({"name": (name), "generation": 1, "resourceSliceCount": 1});
    let mut spec = value!({"driver": (DRIVER), "pool": (pool), "devices": (devices)});
    match node {
        Some(node) => spec.make_map().insert("nodeName", node),
        None => spec.make_map().insert("allNodes", true),
    };
    cluster.create(SLICES, "", value!({"metadata": {"name": (name)}, "spec": (spec)}));
}

fn device(name: &str) -> Value {
    value!({"name": (name)})
}

/// Request for devices of the class `k`.
fn request(name: &str, count: i64) -> Value {
    value!({"name": (name), "exactly": {"deviceClassName": "k", "count": (count)}})
}

fn add_claim(cluster: &mut Cluster, name: &str, devices: Value) {
    let claim = value!({"metadata": {"name": (name)}, "spec": {"devices": (devices)}});
    cluster.create(CLAIMS, "default", claim);
}

/// Pod that uses a claim.
fn add_pod(cluster: &mut Cluster, name: &str, claim: &str) {
    let claims = value!([{"name": "r", "resourceClaimName": (claim)}]);
    cluster.create("pods", "default", with_field(pod(name, "1"), "resourceClaims", claims));
}

/// Devices of a claim: `request=pool/device`.
fn devices_of(cluster: &Cluster, claim: &str) -> Vec<String> {
    let claim = cluster.get(CLAIMS, &format!("default/{claim}")).unwrap();
    let results = claim.at(&["status", "allocation", "devices", "results"]).and_then(Value::as_list);
    let text = |one: &Value| {
        let part = |name| one.str_at(&[name]).to_owned();
        format!("{}={}/{}", part("request"), part("pool"), part("device"))
    };
    results.unwrap_or_default().iter().map(text).collect()
}

fn users_of(cluster: &Cluster, claim: &str) -> Vec<String> {
    let claim = cluster.get(CLAIMS, &format!("default/{claim}")).unwrap();
    let users = claim.at(&["status", "reservedFor"]).and_then(Value::as_list).unwrap_or_default().to_vec();
    users.iter().map(|user| user.str_at(&["name"]).to_owned()).collect()
}

/// Removes the allocation of a claim, as the claim controller does when no pod uses it.
fn release(cluster: &mut Cluster, claim: &str) {
    let status = value!({"status": {"allocation": null, "reservedFor": null, "devices": null}});
    cluster.patch(CLAIMS, &format!("default/{claim}"), "status", status).unwrap();
}

#[test]
fn allocated_claim_is_reserved_for_the_pod_on_a_node_that_reaches_it() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n1", "4", value!({"gpu": "no"}));
    add_node(&mut cluster, "n2", "4", value!({"gpu": "yes"}));
    let claims = value!([{"name": "r", "resourceClaimName": "c"}]);
    cluster.create("pods", "default", with_field(pod("p", "1"), "resourceClaims", claims));
    cluster.settle();
    let missing = "0/2 nodes are available: could not find ResourceClaim \"default/c\".";
    assert!(condition(&cluster, "p").contains(missing), "{}", condition(&cluster, "p"));
    let request = value!({"name": "q", "exactly": {"deviceClassName": "k"}});
    let claim = value!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [(request)]}}});
    cluster.create("resourceclaims.resource.k8s.io", "default", claim);
    cluster.run(Duration::from_secs(20));
    let no_class = "available: request q: device class k does not exist.";
    assert!(condition(&cluster, "p").contains(no_class), "{}", condition(&cluster, "p"));
    cluster.create(CLASSES, "", value!({"metadata": {"name": "k"}, "spec": {}}));
    cluster.run(Duration::from_secs(20));
    assert!(
        condition(&cluster, "p").contains("available: 2 cannot allocate all claims."),
        "{}",
        condition(&cluster, "p")
    );
    let device = value!({"request": "q", "driver": "x.example.com", "pool": "n2", "device": "d"});
    let reach = value!({"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["yes"]}]});
    let allocation =
        value!({"devices": {"results": [(device)]}, "nodeSelector": {"nodeSelectorTerms": [(reach)]}});
    let status = value!({"status": {"allocation": (allocation)}});
    cluster.patch("resourceclaims.resource.k8s.io", "default/c", "status", status).unwrap();
    cluster.run(Duration::from_secs(20));
    assert_eq!(node_of(&cluster, "p"), "n2");
    let claim = cluster.get("resourceclaims.resource.k8s.io", "default/c").unwrap();
    let users = claim.at(&["status", "reservedFor"]).and_then(Value::as_list).unwrap().to_vec();
    let uid = cluster.get("pods", "default/p").unwrap().str_at(&["metadata", "uid"]).to_owned();
    assert_eq!(users, [value!({"resource": "pods", "name": "p", "uid": (uid)})]);
    cluster.assert_quiet();
}
