//! Tests of PodDisruptionBudgets in a control plane.

use std::time::Duration;

use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

use crate::replica_set::ReplicaSetController;

fn cluster(seed: u64) -> Cluster {
    Cluster::new(
        || {
            (
                vec![Box::new(super::DisruptionController), Box::new(ReplicaSetController)],
                crate::indexes::all(),
            )
        },
        seed,
    )
}

fn pod_spec() -> Value {
    value!({"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]})
}

fn set(replicas: i64) -> Value {
    value!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": (replicas),
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": (pod_spec())},
        },
    })
}

fn budget(field: &str, number: impl Into<Value>) -> Value {
    let mut budget = value!({
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    });
    budget.ensure_map("spec").insert(field, number.into());
    budget
}

fn start(replicas: i64, field: &str, number: impl Into<Value>) -> Cluster {
    let mut cluster = cluster(7);
    cluster.create("replicasets.apps", "default", set(replicas));
    cluster.create("poddisruptionbudgets.policy", "default", budget(field, number));
    cluster.settle_with_pods();
    cluster
}

fn status(cluster: &Cluster) -> Value {
    let budget = cluster.get("poddisruptionbudgets.policy", "default/web").unwrap();
    budget.get("status").cloned().unwrap_or_default()
}

/// Expected pods, desired healthy, current healthy, disruptions allowed.
fn numbers(cluster: &Cluster) -> [i64; 4] {
    let status = status(cluster);
    ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"]
        .map(|field| status.get(field).and_then(Value::as_i64).unwrap_or(0))
}

fn reason(cluster: &Cluster) -> String {
    let status = status(cluster);
    let conditions = status.get("conditions").and_then(Value::as_list).unwrap();
    assert_eq!(conditions.len(), 1);
    conditions[0].str_at(&["reason"]).to_owned()
}

fn event_count(cluster: &Cluster, reason: &str) -> usize {
    cluster.list("events").iter().filter(|event| event.str_at(&["reason"]) == reason).count()
}

#[test]
fn budget_follows_the_pods_and_their_controllers() {
    for (field, number, expected) in [
        ("minAvailable", Value::from(2), [5, 2, 5, 3]),
        ("minAvailable", Value::from("50%"), [5, 3, 5, 2]),
        ("maxUnavailable", Value::from(1), [5, 4, 5, 1]),
        ("maxUnavailable", Value::from("30%"), [5, 3, 5, 2]),
        ("minAvailable", Value::from(9), [5, 9, 5, 0]),
    ] {
        let mut cluster = start(5, field, number.clone());
        assert_eq!(numbers(&cluster), expected, "{field} {number:?}");
        let reason_wanted = if expected[3] > 0 { "SufficientPods" } else { "InsufficientPods" };
        assert_eq!(reason(&cluster), reason_wanted);
        assert_eq!(status(&cluster).get("observedGeneration").and_then(Value::as_i64), Some(1));
        cluster.assert_quiet();
    }
}

#[test]
fn unready_and_evicted_pods_are_not_healthy() {
    let mut cluster = start(4, "maxUnavailable", 1);
    let pods = cluster.list("pods");
    let path = |at: usize| format!("default/{}", pods[at].str_at(&["metadata", "name"]));
    let now = Seconds(cluster.now).to_string();
    let unready = value!({"type": "Ready", "status": "False", "lastTransitionTime": (now.clone())});
    cluster.patch("pods", &path(0), "status", value!({"status": {"conditions": [(unready)]}})).unwrap();
    cluster.settle();
    assert_eq!(numbers(&cluster), [4, 3, 3, 0]);
    let ready = value!({"type": "Ready", "status": "True", "lastTransitionTime": (now.clone())});
    cluster.patch("pods", &path(0), "status", value!({"status": {"conditions": [(ready)]}})).unwrap();
    let mut disrupted = Value::map();
    disrupted.make_map().insert(pods[1].str_at(&["metadata", "name"]), now);
    disrupted.make_map().insert("gone", "2020-01-01T00:00:00Z");
    cluster
        .patch(
            "poddisruptionbudgets.policy",
            "default/web",
            "status",
            value!({"status": {"disruptedPods": (disrupted)}}),
        )
        .unwrap();
    cluster.settle();
    assert_eq!(numbers(&cluster), [4, 3, 3, 0], "a pod with a granted eviction is not healthy");
    let listed = |cluster: &Cluster| {
        status(cluster).get("disruptedPods").and_then(Value::as_map).map_or(0, setpoint_api::Map::len)
    };
    assert_eq!(listed(&cluster), 1, "a deleted pod is removed from disruptedPods");
    cluster.assert_quiet();
    cluster.run(Duration::from_secs(121));
    assert_eq!((numbers(&cluster), listed(&cluster)), ([4, 3, 4, 1], 0), "a granted eviction expires");
    assert_eq!(event_count(&cluster, "NotDeleted"), 1);
    cluster.assert_quiet();
}

#[test]
fn unknown_scale_allows_no_disruptions() {
    let mut cluster = cluster(7);
    cluster.create("poddisruptionbudgets.policy", "default", budget("maxUnavailable", 1));
    cluster.settle();
    assert_eq!((numbers(&cluster), event_count(&cluster, "NoPods")), ([0, 0, 0, 0], 1));
    let lone = value!({"metadata": {"name": "lone", "labels": {"app": "web"}}, "spec": (pod_spec())});
    cluster.create("pods", "default", lone);
    cluster.settle_with_pods();
    assert_eq!((numbers(&cluster), event_count(&cluster, "UnmanagedPods")), ([0, 0, 1, 0], 1));
    let owner =
        value!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true});
    let owned = value!({
        "metadata": {"name": "owned", "labels": {"app": "web"}, "ownerReferences": [(owner)]},
        "spec": (pod_spec()),
    });
    cluster.create("pods", "default", owned);
    cluster.settle_with_pods();
    assert_eq!(reason(&cluster), "SyncFailed");
    let conditions = status(&cluster).get("conditions").cloned().unwrap();
    let message = conditions.as_list().unwrap()[0].str_at(&["message"]).to_owned();
    assert_eq!(message, "daemonsets.apps does not implement the scale subresource");
    assert_eq!(event_count(&cluster, "CalculateExpectedPodCountFailed"), 1);
    cluster.assert_quiet();
}

#[test]
fn spec_replicas_count_before_the_pods_exist() {
    let mut cluster = start(2, "maxUnavailable", 1);
    cluster.patch("replicasets.apps", "default/web", "", value!({"spec": {"replicas": 10}})).unwrap();
    cluster.settle();
    assert_eq!(numbers(&cluster), [10, 9, 2, 0]);
    cluster.settle_with_pods();
    assert_eq!(numbers(&cluster), [10, 9, 10, 1]);
    cluster.assert_quiet();
}

#[test]
fn stale_disruption_target_is_reset() {
    let mut cluster = start(1, "maxUnavailable", 1);
    let path = format!("default/{}", cluster.list("pods")[0].str_at(&["metadata", "name"]));
    let now = Seconds(cluster.now).to_string();
    let target = value!({
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "lastTransitionTime": (now),
    });
    cluster.patch("pods", &path, "status", value!({"status": {"conditions": [(target)]}})).unwrap();
    let is = |cluster: &Cluster| {
        let pod = cluster.get("pods", &path).unwrap();
        let conditions = pod.at(&["status", "conditions"]).and_then(Value::as_list).unwrap().to_vec();
        let target = conditions
            .into_iter()
            .find(|condition| condition.str_at(&["type"]) == "DisruptionTarget")
            .unwrap();
        (target.str_at(&["status"]).to_owned(), target.get("reason").is_some())
    };
    cluster.run(Duration::from_secs(119));
    assert_eq!(is(&cluster), ("True".to_owned(), true));
    cluster.run(Duration::from_secs(2));
    assert_eq!(is(&cluster), ("False".to_owned(), false));
    cluster.assert_quiet();
}

#[test]
fn random_states_converge_to_the_same_budget() {
    for seed in 0..30 {
        let mut cluster = cluster(seed);
        let replicas = cluster.rng.i64(0..6);
        cluster.create("replicasets.apps", "default", set(replicas));
        cluster.create("poddisruptionbudgets.policy", "default", budget("maxUnavailable", "34%"));
        let wrong = value!({"status": {
            "disruptionsAllowed": 7, "currentHealthy": 1, "desiredHealthy": 0, "expectedPods": 3,
            "disruptedPods": {"x": "2027-01-15T08:00:00Z"}, "observedGeneration": 1,
        }});
        cluster.patch("poddisruptionbudgets.policy", "default/web", "status", wrong).unwrap();
        for _ in 0..cluster.rng.u32(..20) {
            cluster.observe();
            cluster.plan();
            cluster.perform();
            if cluster.rng.u32(..5) == 0 {
                cluster.crash();
            }
        }
        cluster.settle_with_pods();
        let max_unavailable = (replicas * 34 + 99) / 100;
        assert_eq!(
            numbers(&cluster),
            [replicas, replicas - max_unavailable, replicas, max_unavailable],
            "seed {seed}"
        );
        cluster.assert_quiet();
    }
}
