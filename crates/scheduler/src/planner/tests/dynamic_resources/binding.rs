//! Devices that drivers prepare before the pod is bound: binding conditions.

use super::*;

const RUN: Duration = Duration::from_secs(30);

/// Cluster with a pod whose devices have binding conditions; returns once the first one is allocated.
fn waiting_cluster() -> Cluster {
    let mut cluster = device_cluster();
    let with_conditions = |name: &str| {
        value!({
            "name": (name), "bindsToNode": true, "bindingConditions": ["x.example.com/ready"],
            "bindingFailureConditions": ["x.example.com/failed"],
        })
    };
    add_pool(&mut cluster, "net", None, vec![with_conditions("a"), with_conditions("b")]);
    add_claim(&mut cluster, "c", value!({"requests": [(request("q", 1))]}));
    add_pod(&mut cluster, "p", "c");
    cluster.run(RUN);
    assert_eq!(devices_of(&cluster, "c"), ["q=net/a"]);
    assert_eq!(node_of(&cluster, "p"), "", "bound before the device is ready");
    cluster
}

fn set_condition(cluster: &mut Cluster, kind: &str) {
    let condition = value!({
        "type": (kind), "status": "True", "reason": "Test", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let device = value!({"driver": (DRIVER), "pool": "net", "device": "a", "conditions": [(condition)]});
    cluster.patch(CLAIMS, "default/c", "status", value!({"status": {"devices": [(device)]}})).unwrap();
}

fn nominated(cluster: &Cluster) -> String {
    cluster.get("pods", "default/p").unwrap().str_at(&["status", "nominatedNodeName"]).to_owned()
}

#[test]
fn pod_waits_for_the_binding_conditions_of_its_devices() {
    let mut cluster = waiting_cluster();
    let node = nominated(&cluster);
    let message = format!("waiting for binding conditions for device on node {node}");
    assert!(has_event(&cluster, "BindingConditionsPending", &message));
    let claim = cluster.get(CLAIMS, "default/c").unwrap();
    let terms = claim.at(&["status", "allocation", "nodeSelector", "nodeSelectorTerms"]).unwrap();
    assert!(setpoint_api::json::to_text(terms).contains(&node), "the device binds to the node");
    set_condition(&mut cluster, "x.example.com/ready");
    cluster.run(RUN);
    assert_eq!(node_of(&cluster, "p"), node);
    cluster.assert_quiet();
}

#[test]
fn device_that_fails_is_released() {
    let mut cluster = waiting_cluster();
    set_condition(&mut cluster, "x.example.com/failed");
    cluster.settle();
    let claim = cluster.get(CLAIMS, "default/c").unwrap();
    assert_eq!(claim.at(&["status", "devices"]), None, "the state of the device goes with the allocation");
    cluster.run(RUN);
    assert_eq!(devices_of(&cluster, "c"), ["q=net/a"], "the claim is allocated from the start");
    assert_eq!(node_of(&cluster, "p"), "");
}

#[test]
fn device_that_is_not_ready_in_time_is_released() {
    let mut cluster = waiting_cluster();
    let since = |cluster: &Cluster| {
        let claim = cluster.get(CLAIMS, "default/c").unwrap();
        claim.str_at(&["status", "allocation", "allocationTimestamp"]).to_owned()
    };
    let before = since(&cluster);
    cluster.run(Duration::from_secs(500));
    assert_eq!(since(&cluster), before);
    cluster.run(Duration::from_secs(200));
    let after = since(&cluster);
    assert!(after > before, "{before} {after}");
    assert_eq!(node_of(&cluster, "p"), "");
}
