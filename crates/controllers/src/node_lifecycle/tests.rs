//! Tests of silent and recovering nodes in a control plane.

use std::time::Duration;

use setpoint_api::rfc3339::{Micros, Seconds};
use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

fn cluster(nodes: &[&str]) -> Cluster {
    let mut cluster =
        Cluster::new(|| (vec![Box::new(super::NodeLifecycle::default())], crate::indexes::all()), 7);
    cluster.create("namespaces", "", value!({"metadata": {"name": "kube-node-lease"}}));
    for name in nodes {
        let labels = value!({"topology.kubernetes.io/zone": "z", "kubernetes.io/os": "linux"});
        cluster.create("nodes", "", value!({"metadata": {"name": (*name), "labels": (labels)}}));
        let lease = value!({"metadata": {"name": (*name)}, "spec": {"holderIdentity": (*name)}});
        cluster.create("leases.coordination.k8s.io", "kube-node-lease", lease);
        say(&mut cluster, name, "True");
    }
    cluster.settle();
    cluster
}

/// Node: posts its status.
fn say(cluster: &mut Cluster, name: &str, ready: &str) {
    let now = Seconds(cluster.now).to_string();
    let condition = value!({
        "type": "Ready", "status": (ready), "reason": "KubeletReady", "message": "said",
        "lastHeartbeatTime": (now.as_str()), "lastTransitionTime": (now.as_str()),
    });
    cluster.patch("nodes", name, "status", value!({"status": {"conditions": [(condition)]}})).unwrap();
}

/// Advances the time while these nodes renew their Leases.
fn live(cluster: &mut Cluster, seconds: u64, alive: &[&str]) {
    for _ in 0..seconds / 10 {
        for name in alive {
            let renewed = Micros(cluster.now).to_string();
            let path = format!("kube-node-lease/{name}");
            let patch = value!({"spec": {"renewTime": (renewed)}});
            cluster.patch("leases.coordination.k8s.io", &path, "", patch).unwrap();
        }
        cluster.run(Duration::from_secs(10));
    }
}

fn ready(cluster: &Cluster, name: &str) -> (String, String) {
    let node = cluster.get("nodes", name).unwrap();
    let conditions = node.at(&["status", "conditions"]).and_then(Value::as_list).unwrap();
    let ready = conditions.iter().find(|condition| condition.str_at(&["type"]) == "Ready").unwrap();
    (ready.str_at(&["status"]).to_owned(), ready.str_at(&["reason"]).to_owned())
}

fn taints(cluster: &Cluster, name: &str) -> Vec<String> {
    let node = cluster.get("nodes", name).unwrap();
    let taints = node.at(&["spec", "taints"]).and_then(Value::as_list).unwrap_or_default();
    let mut words: Vec<String> = taints
        .iter()
        .map(|taint| format!("{}:{}", taint.str_at(&["key"]), taint.str_at(&["effect"])))
        .collect();
    words.sort();
    words
}

const GIVEN_UP: [&str; 2] =
    ["node.kubernetes.io/unreachable:NoExecute", "node.kubernetes.io/unreachable:NoSchedule"];

fn reasons(cluster: &Cluster) -> Vec<String> {
    cluster.list("events").iter().map(|event| event.str_at(&["reason"]).to_owned()).collect()
}

#[test]
fn node_stays_ready_while_its_lease_is_renewed() {
    let mut cluster = cluster(&["a", "b"]);
    live(&mut cluster, 300, &["a", "b"]);
    assert_eq!(ready(&cluster, "a").0, "True");
    assert!(taints(&cluster, "a").is_empty());
    let node = cluster.get("nodes", "a").unwrap();
    assert_eq!(node.str_at(&["metadata", "labels", "beta.kubernetes.io/os"]), "linux");
    assert_eq!(reasons(&cluster), ["RegisteredNode", "RegisteredNode"]);
    cluster.assert_quiet();
}

#[test]
fn silent_node_becomes_unknown_is_tainted_and_recovers() {
    let mut cluster = cluster(&["a", "b"]);
    let pod = value!({
        "metadata": {"name": "p"},
        "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i"}]},
    });
    cluster.create("pods", "default", pod);
    cluster.run_pods();
    live(&mut cluster, 40, &["b"]);
    assert_eq!(ready(&cluster, "a").0, "True", "not yet");
    live(&mut cluster, 30, &["b"]);
    assert_eq!(ready(&cluster, "a"), ("Unknown".to_owned(), "NodeStatusUnknown".to_owned()));
    assert_eq!(taints(&cluster, "a"), GIVEN_UP);
    assert!(taints(&cluster, "b").is_empty());
    let pod = cluster.get("pods", "default/p").unwrap();
    let conditions = pod.at(&["status", "conditions"]).and_then(Value::as_list).unwrap();
    assert!(
        conditions
            .iter()
            .any(|condition| condition.str_at(&["type"]) == "Ready"
                && condition.str_at(&["status"]) == "False")
    );
    let reasons = reasons(&cluster);
    assert_eq!(reasons.iter().filter(|reason| *reason == "NodeNotReady").count(), 2, "{reasons:?}");
    cluster.assert_quiet();
    say(&mut cluster, "a", "True");
    live(&mut cluster, 10, &["a", "b"]);
    assert_eq!(taints(&cluster, "a"), Vec::<String>::new());
    cluster.assert_quiet();
}

#[test]
fn not_ready_node_is_tainted_and_the_key_follows_the_condition() {
    let mut cluster = cluster(&["a", "b"]);
    say(&mut cluster, "a", "False");
    live(&mut cluster, 10, &["a", "b"]);
    let not_ready = ["node.kubernetes.io/not-ready:NoExecute", "node.kubernetes.io/not-ready:NoSchedule"];
    assert_eq!(taints(&cluster, "a"), not_ready);
    live(&mut cluster, 70, &["b"]);
    assert_eq!(taints(&cluster, "a"), GIVEN_UP);
    cluster.assert_quiet();
}

#[test]
fn no_node_is_tainted_for_eviction_if_all_are_down() {
    let mut cluster = cluster(&["a", "b", "c"]);
    live(&mut cluster, 70, &["b", "c"]);
    assert_eq!(taints(&cluster, "a"), GIVEN_UP);
    live(&mut cluster, 70, &[]);
    for name in ["a", "b", "c"] {
        assert_eq!(taints(&cluster, name), ["node.kubernetes.io/unreachable:NoSchedule"], "{name}");
    }
    cluster.assert_quiet();
    say(&mut cluster, "c", "True");
    live(&mut cluster, 60, &["c"]);
    assert!(taints(&cluster, "c").is_empty());
    assert_eq!(
        (taints(&cluster, "a").len(), taints(&cluster, "b").len()),
        (2, 2),
        "one healthy node ends the pause"
    );
}

#[test]
fn nodes_are_tainted_for_eviction_one_after_the_other() {
    let names: Vec<String> = (0..10).map(|n| format!("n{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut cluster = cluster(&names);
    let given_up = |cluster: &Cluster| names.iter().filter(|name| taints(cluster, name).len() == 2).count();
    live(&mut cluster, 60, &names[5..]);
    let mut counts = Vec::new();
    for _ in 0..7 {
        counts.push(given_up(&cluster));
        live(&mut cluster, 10, &names[5..]);
    }
    assert!(counts.windows(2).all(|pair| pair[1] - pair[0] <= 2), "{counts:?}");
    assert!(counts[1] < 3, "{counts:?}");
    assert_eq!(given_up(&cluster), 5);
    live(&mut cluster, 70, &names[8..]);
    assert_eq!(given_up(&cluster), 5, "a small disrupted zone pauses");
}

#[test]
fn restarted_loop_grants_nodes_a_grace_period() {
    let mut cluster = cluster(&["a", "b"]);
    cluster.now = cluster.now.after(Duration::from_secs(3600));
    cluster.crash();
    cluster.run(Duration::from_secs(30));
    assert_eq!(ready(&cluster, "a").0, "True");
    cluster.run(Duration::from_secs(30));
    assert_eq!(ready(&cluster, "a").0, "Unknown");
}

#[test]
fn node_without_any_status_becomes_unknown() {
    let mut cluster = cluster(&["b"]);
    cluster.create("nodes", "", value!({"metadata": {"name": "a"}}));
    live(&mut cluster, 70, &["b"]);
    assert_eq!(ready(&cluster, "a"), ("Unknown".to_owned(), "NodeStatusNeverUpdated".to_owned()));
    cluster.delete("nodes", "a", &value!({})).unwrap();
    cluster.settle();
    assert!(reasons(&cluster).contains(&"RemovingNode".to_owned()));
}

#[test]
fn conditions_of_a_silent_node_keep_their_order() {
    let mut cluster = cluster(&["a", "b"]);
    let condition = |kind: &str| value!({"type": (kind), "status": "False", "reason": "r", "message": "m"});
    let conditions: Vec<Value> = ["Other", "PIDPressure", "DiskPressure", "Ready"].map(condition).to_vec();
    cluster.patch("nodes", "a", "status", value!({"status": {"conditions": (conditions)}})).unwrap();
    live(&mut cluster, 70, &["b"]);
    let node = cluster.get("nodes", "a").unwrap();
    let conditions = node.at(&["status", "conditions"]).and_then(Value::as_list).unwrap();
    let shown =
        conditions.iter().map(|condition| (condition.str_at(&["type"]), condition.str_at(&["status"])));
    let unknown = ["PIDPressure", "DiskPressure", "Ready", "MemoryPressure"].map(|kind| (kind, "Unknown"));
    assert_eq!(shown.collect::<Vec<_>>(), [&[("Other", "False")][..], &unknown].concat());
    cluster.assert_quiet();
}

/// Sets the clock forward or back, in seconds.
fn set_clock(cluster: &mut Cluster, seconds: i64) {
    let to = setpoint_api::Time(cluster.now.0 + seconds * 1_000_000);
    cluster.set_clock(to);
}

#[test]
fn node_that_stops_while_the_clock_is_wrong_is_tainted_within_its_grace() {
    for step in [-3600, 3600] {
        let mut cluster = cluster(&["a", "b"]);
        live(&mut cluster, 60, &["a", "b"]);
        set_clock(&mut cluster, step);
        live(&mut cluster, 30, &["a", "b"]);
        assert_eq!(ready(&cluster, "a").0, "True", "a node that renews is ready after a step of {step} s");
        live(&mut cluster, 30, &["b"]);
        set_clock(&mut cluster, -step);
        live(&mut cluster, 40, &["b"]);
        assert_eq!(
            ready(&cluster, "b").0,
            "True",
            "a node that renews is ready when the clock is right again"
        );
        live(&mut cluster, 30, &["b"]);
        assert_eq!(ready(&cluster, "a").0, "Unknown", "a stopped node stayed ready after a step of {step} s");
        assert_eq!(taints(&cluster, "a"), GIVEN_UP);
        assert_eq!(ready(&cluster, "b").0, "True");
    }
}

#[test]
fn node_that_stops_stays_unknown_while_the_clock_is_behind() {
    let mut cluster = cluster(&["a", "b"]);
    live(&mut cluster, 60, &["a", "b"]);
    set_clock(&mut cluster, -3600);
    live(&mut cluster, 70, &["b"]);
    assert_eq!(ready(&cluster, "a").0, "Unknown", "the Lease of a stopped node is from the future");
    assert_eq!(ready(&cluster, "b").0, "True");
}
