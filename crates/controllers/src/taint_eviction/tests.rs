//! Tests of pods on tainted nodes in a control plane.

use std::time::Duration;

use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

fn cluster() -> Cluster {
    let mut cluster = Cluster::new(|| (vec![Box::new(super::TaintEviction)], crate::indexes::all()), 7);
    cluster.create("nodes", "", value!({"metadata": {"name": "n"}}));
    for (name, seconds) in [("at-once", None), ("patient", Some(100)), ("for-ever", Some(-1))] {
        let mut toleration = value!({"key": "bad", "operator": "Exists", "effect": "NoExecute"});
        if let Some(seconds) = seconds.filter(|seconds| *seconds >= 0) {
            toleration.make_map().insert("tolerationSeconds", seconds);
        }
        let tolerations = if seconds.is_some() { value!([(toleration)]) } else { value!([]) };
        let pod = value!({
            "metadata": {"name": (name)},
            "spec": {"nodeName": "n", "tolerations": (tolerations), "containers": [{"name": "c", "image": "i"}]},
        });
        cluster.create("pods", "default", pod);
    }
    cluster.run_pods();
    cluster.settle();
    cluster
}

fn taint(cluster: &mut Cluster, taints: Value) {
    cluster.patch("nodes", "n", "", value!({"spec": {"taints": (taints)}})).unwrap();
    cluster.settle();
}

fn running(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.list("pods");
    let alive = pods.iter().filter(|pod| pod.at(&["metadata", "deletionTimestamp"]).is_none());
    alive.map(|pod| pod.str_at(&["metadata", "name"]).to_owned()).collect()
}

fn has_event_message(cluster: &Cluster, message: &str) -> bool {
    let events = cluster.list("events");
    events.iter().any(|event| {
        event.str_at(&["reason"]) == "TaintManagerEviction" && event.str_at(&["message"]) == message
    })
}

#[test]
fn pods_are_evicted_when_their_toleration_ends() {
    let mut cluster = cluster();
    taint(&mut cluster, value!([{"key": "bad", "effect": "NoExecute"}]));
    assert_eq!(running(&cluster), ["for-ever", "patient"]);
    assert!(has_event_message(&cluster, "Marking for deletion Pod default/at-once"));
    let evicted = cluster.get("pods", "default/at-once").unwrap();
    let conditions = evicted.at(&["status", "conditions"]).and_then(Value::as_list).unwrap();
    let target =
        conditions.iter().find(|condition| condition.str_at(&["type"]) == "DisruptionTarget").unwrap();
    assert_eq!(target.str_at(&["reason"]), "DeletionByTaintManager");
    cluster.run(Duration::from_secs(90));
    assert_eq!(running(&cluster), ["for-ever", "patient"]);
    cluster.run(Duration::from_secs(15));
    assert_eq!(running(&cluster), ["for-ever"]);
    cluster.assert_quiet();
}

#[test]
fn removed_taint_cancels_the_eviction() {
    let mut cluster = cluster();
    taint(&mut cluster, value!([{"key": "bad", "effect": "NoExecute"}]));
    cluster.run(Duration::from_secs(50));
    taint(&mut cluster, value!([{"key": "bad", "effect": "NoSchedule"}]));
    assert!(has_event_message(&cluster, "Cancelling deletion of Pod default/patient"));
    cluster.run(Duration::from_secs(200));
    assert_eq!(running(&cluster), ["for-ever", "patient"]);
}

#[test]
fn toleration_starts_at_time_added_after_a_restart() {
    let mut cluster = cluster();
    let added = setpoint_api::rfc3339::Seconds(cluster.now).to_string();
    taint(&mut cluster, value!([{"key": "bad", "effect": "NoExecute", "timeAdded": (added)}]));
    cluster.now = cluster.now.after(Duration::from_secs(99));
    cluster.crash();
    cluster.settle();
    assert_eq!(running(&cluster), ["for-ever", "patient"]);
    cluster.run(Duration::from_secs(2));
    assert_eq!(running(&cluster), ["for-ever"]);
}

#[test]
fn one_untolerated_taint_evicts_at_once() {
    let mut cluster = cluster();
    taint(
        &mut cluster,
        value!([{"key": "bad", "effect": "NoExecute"}, {"key": "worse", "effect": "NoExecute"}]),
    );
    assert_eq!(running(&cluster), Vec::<String>::new());
    cluster.assert_quiet();
}
