//! Tests of DaemonSets in a control plane.

use std::time::Duration;

use setpoint_api::{Value, json, value};
use setpoint_sim::cluster::Cluster;

use crate::testing::{has_event, is_ready, is_terminating, names, number, template};

const D: &str = "daemonsets.apps";
const REVISIONS: &str = "controllerrevisions.apps";
const LOG: &str = "default/log";

fn cluster(seed: u64, nodes: usize) -> Cluster {
    let controllers = || -> (Vec<Box<dyn setpoint_reconcile::Controller>>, _) {
        (vec![Box::new(super::DaemonSetController)], crate::indexes::all())
    };
    let mut cluster = Cluster::new(controllers, seed);
    for number in 0..nodes {
        add_node(&mut cluster, &format!("n{number}"));
    }
    cluster
}

/// Adds a ready node without taints.
fn add_node(cluster: &mut Cluster, name: &str) {
    cluster.create("nodes", "", value!({"metadata": {"name": (name), "labels": {"zone": "a"}}}));
    cluster.patch("nodes", name, "", value!({"spec": {"taints": null}})).unwrap();
}

fn taint(cluster: &mut Cluster, node: &str, effect: &str) {
    let taints = value!({"spec": {"taints": [{"key": "example.com/t", "effect": (effect)}]}});
    cluster.patch("nodes", node, "", taints).unwrap();
}

fn set() -> Value {
    value!({
        "metadata": {"name": "log"},
        "spec": {"selector": {"matchLabels": {"app": "log"}}, "template": (template("log", "v1"))},
    })
}

fn rolling(surge: i64, unavailable: i64) -> Value {
    value!({"rollingUpdate": {"maxSurge": (surge), "maxUnavailable": (unavailable)}})
}

fn image(image: &str) -> Value {
    value!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": (image)}]}}}})
}

fn image_of(pod: &Value) -> String {
    let containers = pod.at(&["spec", "containers"]).and_then(Value::as_list).unwrap();
    containers[0].str_at(&["image"]).to_owned()
}

/// Node that a pod is bound to, or the one in its affinity.
fn node_of(pod: &Value) -> String {
    let bound = pod.str_at(&["spec", "nodeName"]);
    if !bound.is_empty() {
        return bound.to_owned();
    }
    let terms = crate::placement::required_terms(pod.at(&["spec", "affinity"])).unwrap();
    let fields = terms[0].get("matchFields").and_then(Value::as_list).unwrap();
    fields[0].get("values").and_then(Value::as_list).unwrap()[0].as_str().unwrap().to_owned()
}

/// Scheduler: binds every pod to the node in its affinity.
fn bind(cluster: &mut Cluster) {
    for pod in cluster.list("pods") {
        if pod.str_at(&["spec", "nodeName"]).is_empty() && !is_terminating(&pod) {
            let path = format!("default/{}", pod.str_at(&["metadata", "name"]));
            let _ = cluster.bind(&path, &node_of(&pod));
        }
    }
}

fn settle(cluster: &mut Cluster) {
    for _ in 0..40 {
        let before = cluster.store.snapshot().revision();
        cluster.settle();
        bind(cluster);
        cluster.run_pods();
        if cluster.store.snapshot().revision() == before {
            return;
        }
    }
}

fn nodes(cluster: &Cluster) -> Vec<String> {
    let mut nodes: Vec<String> = cluster.list("pods").iter().map(node_of).collect();
    nodes.sort();
    nodes
}

fn assert_at_rest(cluster: &mut Cluster, version: &str, expected: &[&str]) {
    assert_eq!(nodes(cluster), expected);
    assert!(cluster.list("pods").iter().all(|pod| image_of(pod) == version));
    let count = i64::try_from(expected.len()).unwrap();
    for field in ["desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberAvailable"] {
        assert_eq!(number(cluster, D, LOG, field), count, "{field}");
    }
    assert_eq!(number(cluster, D, LOG, "updatedNumberScheduled"), count);
    assert_eq!(
        (number(cluster, D, LOG, "numberUnavailable"), number(cluster, D, LOG, "numberMisscheduled")),
        (0, 0)
    );
    let log = cluster.get(D, LOG).unwrap();
    assert_eq!(log.at(&["status", "observedGeneration"]), log.at(&["metadata", "generation"]));
    cluster.assert_quiet();
}

#[test]
fn every_node_runs_one_pod_and_new_nodes_get_one() {
    let mut cluster = cluster(1, 2);
    cluster.create(D, "default", set());
    settle(&mut cluster);
    assert_at_rest(&mut cluster, "v1", &["n0", "n1"]);
    let pod = &cluster.list("pods")[0];
    let tolerations = pod.at(&["spec", "tolerations"]).and_then(Value::as_list).unwrap();
    let tolerates = |key: &str, effect: &str| {
        tolerations
            .iter()
            .any(|toleration| toleration.str_at(&["key"]) == key && toleration.str_at(&["effect"]) == effect)
    };
    assert!(tolerates("node.kubernetes.io/not-ready", "NoExecute"));
    assert!(tolerates("node.kubernetes.io/unschedulable", "NoSchedule"));
    assert!(!tolerates("node.kubernetes.io/network-unavailable", "NoSchedule"));
    let revision = &cluster.list(REVISIONS)[0];
    let hash = revision.str_at(&["metadata", "labels", "controller-revision-hash"]);
    assert_eq!(pod.str_at(&["metadata", "labels", "controller-revision-hash"]), hash);
    assert_eq!(revision.str_at(&["metadata", "name"]), format!("log-{hash}"));
    let mut sorted = revision.at(&["data"]).unwrap().clone();
    sorted.sort_fields();
    assert_eq!(
        json::to_text(revision.at(&["data"]).unwrap()),
        json::to_text(&sorted),
        "clients compare bytes"
    );
    assert_eq!(pod.str_at(&["metadata", "labels", "pod-template-generation"]), "1");
    let name = pod.str_at(&["metadata", "name"]);
    assert!(has_event(&cluster, "SuccessfulCreate", &format!("Created pod: {name}")));

    add_node(&mut cluster, "n2");
    settle(&mut cluster);
    assert_at_rest(&mut cluster, "v1", &["n0", "n1", "n2"]);
}

#[test]
fn labels_and_taints_decide_where_pods_run_and_stay() {
    let mut cluster = cluster(2, 3);
    let mut log = set();
    let spec = log.ensure_map("spec").ensure_map("template").ensure_map("spec");
    spec.insert("nodeSelector", value!({"zone": "a"}));
    cluster.create(D, "default", log);
    settle(&mut cluster);
    taint(&mut cluster, "n0", "NoSchedule");
    settle(&mut cluster);
    assert_eq!(nodes(&cluster), ["n0", "n1", "n2"], "a running pod stays");
    assert_eq!(number(&cluster, D, LOG, "numberMisscheduled"), 1);
    assert_eq!(number(&cluster, D, LOG, "desiredNumberScheduled"), 2);
    cluster.assert_quiet();
    taint(&mut cluster, "n0", "NoExecute");
    settle(&mut cluster);
    assert_at_rest(&mut cluster, "v1", &["n1", "n2"]);
    cluster.patch("nodes", "n1", "", value!({"metadata": {"labels": {"zone": "b"}}})).unwrap();
    settle(&mut cluster);
    assert_at_rest(&mut cluster, "v1", &["n2"]);
    cluster.patch("nodes", "n0", "", value!({"spec": {"taints": null}})).unwrap();
    settle(&mut cluster);
    assert_at_rest(&mut cluster, "v1", &["n0", "n2"]);
}

#[test]
fn pending_pod_of_a_deleted_node_is_deleted() {
    let mut cluster = cluster(3, 2);
    cluster.create(D, "default", set());
    cluster.settle();
    cluster.delete("nodes", "n0", &Value::map()).unwrap();
    settle(&mut cluster);
    assert_at_rest(&mut cluster, "v1", &["n1"]);
}

fn roll(seed: u64, strategy: Value, max_per_node: usize, min_ready: usize) {
    let mut cluster = cluster(seed, 5);
    let mut log = set();
    log.ensure_map("spec").insert("updateStrategy", strategy);
    cluster.create(D, "default", log);
    settle(&mut cluster);
    cluster.patch(D, LOG, "", image("v2")).unwrap();
    for _ in 0..60 {
        cluster.settle();
        bind(&mut cluster);
        let pods = cluster.list("pods");
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        assert!(ready >= min_ready, "{ready} ready");
        for node in 0..5 {
            let name = format!("n{node}");
            let there = pods.iter().filter(|pod| node_of(pod) == name && !is_terminating(pod)).count();
            assert!(there <= max_per_node);
        }
        let chosen = cluster.rng.usize(..pods.len());
        cluster.run_pod(&pods[chosen]);
    }
    settle(&mut cluster);
    assert_eq!(cluster.list(REVISIONS).len(), 2);
    assert_at_rest(&mut cluster, "v2", &["n0", "n1", "n2", "n3", "n4"]);
}

#[test]
fn rollout_stays_within_its_bounds() {
    for seed in 0..3 {
        roll(seed, rolling(0, 1), 1, 4);
        roll(seed, rolling(0, 3), 1, 2);
        roll(seed, rolling(2, 0), 2, 5);
    }
}

#[test]
fn on_delete_replaces_only_deleted_pods() {
    let mut cluster = cluster(5, 2);
    let mut log = set();
    log.ensure_map("spec").insert("updateStrategy", value!({"type": "OnDelete"}));
    cluster.create(D, "default", log);
    settle(&mut cluster);
    cluster.patch(D, LOG, "", image("v2")).unwrap();
    settle(&mut cluster);
    assert!(cluster.list("pods").iter().all(|pod| image_of(pod) == "v1"));
    assert_eq!(number(&cluster, D, LOG, "updatedNumberScheduled"), 0);
    cluster.assert_quiet();
    for name in names(&cluster, "pods") {
        cluster.delete("pods", &format!("default/{name}"), &Value::map()).unwrap();
    }
    settle(&mut cluster);
    assert_at_rest(&mut cluster, "v2", &["n0", "n1"]);
}

#[test]
fn failed_pod_is_replaced_with_exponential_backoff() {
    let mut cluster = cluster(6, 1);
    cluster.create(D, "default", set());
    settle(&mut cluster);
    let fail = |cluster: &mut Cluster| {
        let name = names(cluster, "pods")[0].clone();
        let failed = value!({"status": {"phase": "Failed"}});
        cluster.patch("pods", &format!("default/{name}"), "status", failed).unwrap();
        settle(cluster);
        name
    };
    let first = fail(&mut cluster);
    assert_ne!(names(&cluster, "pods"), std::slice::from_ref(&first));
    let message = format!("Found failed daemon pod default/{first} on node n0, will try to kill it");
    assert!(has_event(&cluster, "FailedDaemonPod", &message));
    let second = fail(&mut cluster);
    assert_eq!(names(&cluster, "pods"), std::slice::from_ref(&second), "it waits for a second");
    cluster.run(Duration::from_secs(1));
    settle(&mut cluster);
    assert_ne!(names(&cluster, "pods"), [second]);
    assert_at_rest(&mut cluster, "v1", &["n0"]);
}

#[test]
fn revision_history_limit_is_enforced() {
    let mut cluster = cluster(7, 1);
    let mut log = set();
    log.ensure_map("spec").insert("revisionHistoryLimit", 1);
    cluster.create(D, "default", log);
    for version in ["v1", "v2", "v3", "v2"] {
        cluster.patch(D, LOG, "", image(version)).unwrap();
        settle(&mut cluster);
        assert_at_rest(&mut cluster, version, &["n0"]);
    }
    let mut revisions: Vec<i64> =
        cluster.list(REVISIONS).iter().filter_map(|object| object.get("revision")?.as_i64()).collect();
    revisions.sort_unstable();
    assert_eq!(revisions, [3, 4]);
}

#[test]
fn crash_between_any_two_writes_converges_to_the_same_state() {
    for crash_after in 0..20 {
        let mut cluster = cluster(8, 2);
        cluster.create(D, "default", set());
        cluster.run_steps(crash_after, |cluster| {
            bind(cluster);
            cluster.run_pods();
        });
        cluster.crash();
        cluster.patch(D, LOG, "", image("v2")).unwrap();
        settle(&mut cluster);
        assert_at_rest(&mut cluster, "v2", &["n0", "n1"]);
    }
}

#[test]
fn random_states_converge_to_the_spec() {
    for seed in 0..30 {
        let mut cluster = cluster(seed, 3);
        cluster.create(D, "default", set());
        for _ in 0..120 {
            let node = format!("n{}", cluster.rng.u8(..3));
            match cluster.rng.u8(..14) {
                0 => {
                    let version = format!("v{}", cluster.rng.u8(..3));
                    let _ = cluster.patch(D, LOG, "", image(&version));
                }
                1 => {
                    let strategy = if cluster.rng.bool() { rolling(1, 0) } else { rolling(0, 1) };
                    let mut patch = Value::map();
                    patch.ensure_map("spec").insert("updateStrategy", strategy);
                    let _ = cluster.patch(D, LOG, "", patch);
                }
                2 => {
                    let effect = if cluster.rng.bool() { "NoSchedule" } else { "NoExecute" };
                    taint(&mut cluster, &node, effect);
                }
                3 => {
                    let _ = cluster.patch("nodes", &node, "", value!({"spec": {"taints": null}}));
                }
                4 => {
                    for pod in cluster.list("pods").iter().take(1) {
                        let path = format!("default/{}", pod.str_at(&["metadata", "name"]));
                        let _ =
                            cluster.patch("pods", &path, "status", value!({"status": {"phase": "Failed"}}));
                    }
                }
                5 => cluster.lose_write(),
                6 => cluster.crash(),
                7 => cluster.observe(),
                8 | 9 => {
                    cluster.observe();
                    cluster.plan();
                }
                10 => bind(&mut cluster),
                11 => cluster.run_pods(),
                _ => {
                    cluster.perform();
                }
            }
        }
        for node in ["n0", "n1", "n2"] {
            cluster.patch("nodes", node, "", value!({"spec": {"taints": null}})).unwrap();
        }
        cluster.patch(D, LOG, "", image("end")).unwrap();
        for _ in 0..4 {
            settle(&mut cluster);
            cluster.run(Duration::from_secs(901));
        }
        settle(&mut cluster);
        assert_at_rest(&mut cluster, "end", &["n0", "n1", "n2"]);
    }
}
