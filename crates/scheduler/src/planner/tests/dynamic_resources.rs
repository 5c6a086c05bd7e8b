//! Tests of pods with ResourceClaims.

use std::time::Duration;

use super::*;

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
