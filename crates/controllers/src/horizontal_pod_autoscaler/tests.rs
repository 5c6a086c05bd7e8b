//! Tests of autoscalers in a control plane, with generated metrics.

use std::time::Duration;

use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Key, Resource, Value, value};
use setpoint_reconcile::{Query, Seed};
use setpoint_sim::cluster::Cluster;

use crate::replica_set::ReplicaSetController;

const NAME: &str = "horizontal-pod-autoscaler";
const RESOURCE: &str = "horizontalpodautoscalers.autoscaling";

fn cluster() -> Cluster {
    Cluster::new(
        || {
            (
                vec![Box::new(super::HorizontalPodAutoscalerController), Box::new(ReplicaSetController)],
                crate::indexes::all(),
            )
        },
        7,
    )
}

fn set(replicas: i64) -> Value {
    let container = value!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}});
    value!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": (replicas),
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [(container)]}},
        },
    })
}

fn cpu(percent: i64) -> Value {
    value!({"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": (percent)},
    }})
}

fn autoscaler(min: i64, max: i64, metrics: Value, more: &Value) -> Value {
    let mut autoscaler = value!({
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"},
            "minReplicas": (min), "maxReplicas": (max), "metrics": (metrics),
        },
    });
    for (name, value) in more.as_map().unwrap().iter() {
        autoscaler.ensure_map("spec").insert(name, value.clone());
    }
    autoscaler
}

fn start(replicas: i64, min: i64, max: i64, metrics: Value, more: &Value) -> Cluster {
    let mut cluster = cluster();
    cluster.create("replicasets.apps", "default", set(replicas));
    run_pods(&mut cluster);
    // The pods have been running for an hour.
    cluster.now = cluster.now.after(Duration::from_secs(3600));
    cluster.create(RESOURCE, "default", autoscaler(min, max, metrics, more));
    cluster
}

/// Node: every pod runs as of now.
fn run_pods(cluster: &mut Cluster) {
    cluster.settle_with_pods();
    for pod in cluster.list("pods") {
        if pod.at(&["status", "startTime"]).is_none() {
            let path = format!("default/{}", pod.str_at(&["metadata", "name"]));
            let now = Seconds(cluster.now).to_string();
            cluster.patch("pods", &path, "status", value!({"status": {"startTime": (now)}})).unwrap();
        }
    }
    cluster.settle();
}

/// Answers pending queries by a rule, as a shell would, and runs the loop until it is idle.
fn run_round(cluster: &mut Cluster, answer: &dyn Fn(&Cluster, &Query) -> Result<Value, String>) -> usize {
    cluster.now = cluster.now.after(Duration::from_secs(15));
    let mut queries = 0;
    for _ in 0..20 {
        cluster.observe();
        let turn = cluster.engine.turn(cluster.now, Seed(1));
        for (controller, key, query) in &turn.queries {
            queries += 1;
            assert_eq!((*controller, query.target), (NAME, "metrics"));
            let answer = answer(cluster, query);
            cluster.engine.answer_query(controller, key, &query.id, answer, cluster.now);
        }
        cluster.send(turn);
        while cluster.perform() {}
    }
    run_pods(cluster);
    queries
}

/// Rule: every pod uses `value` thousandths.
fn usage_per_pod(value: i64) -> impl Fn(&Cluster, &Query) -> Result<Value, String> {
    move |cluster, _| {
        let mut pods = Value::map();
        for pod in cluster.list("pods") {
            pods.make_map().insert(pod.str_at(&["metadata", "name"]), value!({"value": (value)}));
        }
        Ok(value!({"pods": (pods)}))
    }
}

fn replicas(cluster: &Cluster) -> i64 {
    let set = cluster.get("replicasets.apps", "default/web").unwrap();
    set.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap()
}

fn status(cluster: &Cluster) -> Value {
    cluster.get(RESOURCE, "default/web").unwrap().get("status").cloned().unwrap_or_default()
}

fn condition(cluster: &Cluster, kind: &str) -> (String, String) {
    let status = status(cluster);
    let conditions = status.get("conditions").and_then(Value::as_list).unwrap_or_default();
    let found = conditions.iter().find(|condition| condition.str_at(&["type"]) == kind);
    let text = |field: &str| found.map_or(String::new(), |condition| condition.str_at(&[field]).to_owned());
    (text("status"), text("reason"))
}

fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

fn event_messages(cluster: &Cluster, reason: &str) -> Vec<String> {
    let events = cluster.list("events");
    let matching = events.iter().filter(|event| event.str_at(&["reason"]) == reason);
    matching.map(|event| event.str_at(&["message"]).to_owned()).collect()
}

#[test]
fn target_is_scaled_to_its_load() {
    let mut cluster = start(2, 1, 10, value!([(cpu(50))]), &Value::map());
    assert_eq!(run_round(&mut cluster, &usage_per_pod(52)), 1, "one query per metric");
    assert_eq!(replicas(&cluster), 2, "within the tolerance");
    assert_eq!(condition(&cluster, "AbleToScale"), is("True", "ReadyForNewScale"));
    assert_eq!(condition(&cluster, "ScalingActive"), is("True", "ValidMetricFound"));
    assert_eq!(condition(&cluster, "ScalingLimited"), is("False", "DesiredWithinRange"));
    let status = status(&cluster);
    let current = &status.get("currentMetrics").and_then(Value::as_list).unwrap()[0];
    assert_eq!(current.at(&["resource", "current", "averageUtilization"]).and_then(Value::as_i64), Some(52));
    assert_eq!(current.str_at(&["resource", "current", "averageValue"]), "52m");
    run_round(&mut cluster, &usage_per_pod(90));
    assert_eq!(replicas(&cluster), 4);
    assert_eq!(condition(&cluster, "AbleToScale"), is("True", "SucceededRescale"));
    let reason = "New size: 4; reason: cpu resource utilization (percentage of request) above target";
    assert_eq!(event_messages(&cluster, "SuccessfulRescale"), [reason]);
    run_round(&mut cluster, &usage_per_pod(50));
    assert_eq!(condition(&cluster, "AbleToScale"), is("True", "ReadyForNewScale"));
    cluster.assert_quiet();
}

#[test]
fn scale_down_is_stabilized_for_five_minutes() {
    let mut cluster = start(8, 1, 10, value!([(cpu(50))]), &Value::map());
    run_round(&mut cluster, &usage_per_pod(50));
    for _ in 0..19 {
        run_round(&mut cluster, &usage_per_pod(10));
        assert_eq!(replicas(&cluster), 8);
        assert_eq!(condition(&cluster, "AbleToScale"), is("True", "ScaleDownStabilized"));
    }
    run_round(&mut cluster, &usage_per_pod(10));
    run_round(&mut cluster, &usage_per_pod(10));
    assert_eq!(replicas(&cluster), 2);
    assert_eq!(
        event_messages(&cluster, "SuccessfulRescale"),
        ["New size: 2; reason: All metrics below target"]
    );
}

#[test]
fn replicas_out_of_range_are_corrected_without_metrics() {
    for (replicas_now, desired, reason) in [
        (9, 5, "New size: 5; reason: Current number of replicas above Spec.MaxReplicas"),
        (1, 3, "New size: 3; reason: Current number of replicas below Spec.MinReplicas"),
    ] {
        let mut cluster = start(replicas_now, 3, 5, value!([(cpu(50))]), &Value::map());
        cluster.settle();
        assert_eq!(replicas(&cluster), desired);
        assert_eq!(event_messages(&cluster, "SuccessfulRescale"), [reason]);
        cluster.assert_quiet();
    }
    let mut cluster = start(0, 1, 5, value!([(cpu(50))]), &Value::map());
    run_round(&mut cluster, &usage_per_pod(500));
    assert_eq!(replicas(&cluster), 0, "a target scaled to zero by a user stays there");
    assert_eq!(condition(&cluster, "ScalingActive"), is("False", "ScalingDisabled"));
}

#[test]
fn scaling_is_limited_by_default_and_by_behavior() {
    let mut cluster = start(1, 1, 100, value!([(cpu(50))]), &Value::map());
    for desired in [4, 8, 16] {
        run_round(&mut cluster, &usage_per_pod(5000));
        assert_eq!(replicas(&cluster), desired);
        assert_eq!(condition(&cluster, "ScalingLimited"), is("True", "ScaleUpLimit"));
    }
    let behavior = value!({"behavior": {
        "scaleUp": {"policies": [{"type": "Pods", "value": 3, "periodSeconds": 60}], "selectPolicy": "Max"},
        "scaleDown": {
            "stabilizationWindowSeconds": 0, "selectPolicy": "Min",
            "policies": [
                {"type": "Percent", "value": 50, "periodSeconds": 15}, {"type": "Pods", "value": 1, "periodSeconds": 15},
            ],
        },
    }});
    let mut cluster = start(5, 1, 100, value!([(cpu(50))]), &behavior);
    run_round(&mut cluster, &usage_per_pod(5000));
    assert_eq!(replicas(&cluster), 8);
    run_round(&mut cluster, &usage_per_pod(5000));
    assert_eq!(replicas(&cluster), 8, "three in a minute");
    for _ in 0..3 {
        run_round(&mut cluster, &usage_per_pod(50));
    }
    run_round(&mut cluster, &usage_per_pod(5000));
    assert_eq!(replicas(&cluster), 11);
    run_round(&mut cluster, &usage_per_pod(1));
    assert_eq!(replicas(&cluster), 10, "the smaller step is chosen");
    assert_eq!(condition(&cluster, "ScalingLimited"), is("True", "ScaleDownLimit"));
}

#[test]
fn tolerances_are_configurable() {
    let behavior = value!({"behavior": {
        "scaleUp": {"tolerance": "500m"}, "scaleDown": {"stabilizationWindowSeconds": 0, "tolerance": "0"},
    }});
    let mut cluster = start(4, 1, 100, value!([(cpu(50))]), &behavior);
    run_round(&mut cluster, &usage_per_pod(74));
    assert_eq!(replicas(&cluster), 4);
    run_round(&mut cluster, &usage_per_pod(37));
    assert_eq!(replicas(&cluster), 3);
}

#[test]
fn highest_metric_wins_and_a_missing_one_prevents_scale_down() {
    let queue = value!({"type": "External", "external": {
        "metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"},
    }});
    let behavior = value!({"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}});
    let mut cluster = start(4, 1, 10, value!([(cpu(50)), (queue)]), &behavior);
    let answers = |queue: Result<i64, &'static str>, used: i64| {
        move |cluster: &Cluster, query: &Query| match query.question.str_at(&["type"]) {
            "External" => queue.map(|length| value!({"values": [(length)]})).map_err(str::to_owned),
            _ => usage_per_pod(used)(cluster, query),
        }
    };
    assert_eq!(run_round(&mut cluster, &answers(Ok(60_000), 50)), 2);
    assert_eq!(replicas(&cluster), 6, "the queue metric is higher");
    run_round(&mut cluster, &answers(Err("no such metric"), 10));
    assert_eq!(replicas(&cluster), 6, "the queue metric is unknown");
    assert_eq!(condition(&cluster, "ScalingActive"), is("False", "FailedGetExternalMetric"));
    assert_eq!(
        event_messages(&cluster, "FailedComputeMetricsReplicas"),
        ["invalid metrics (1 invalid out of 2), first error is: failed to get queue external metric value: \
          unable to get external metric queue: no such metric"]
    );
    run_round(&mut cluster, &answers(Err("no such metric"), 100));
    assert_eq!(replicas(&cluster), 10, "but more are needed anyway");
    run_round(&mut cluster, &answers(Ok(0), 10));
    assert_eq!(replicas(&cluster), 2);
}

#[test]
fn pods_without_metrics_are_assumed_conservatively() {
    let mut cluster = start(
        4,
        1,
        10,
        value!([(cpu(50))]),
        &value!({"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}),
    );
    let only_two = |value: i64| {
        move |cluster: &Cluster, query: &Query| {
            let mut answer = usage_per_pod(value)(cluster, query)?;
            let names: Vec<String> =
                answer.get("pods").unwrap().as_map().unwrap().keys().skip(2).map(str::to_owned).collect();
            for name in names {
                answer.ensure_map("pods").remove(&name);
            }
            Ok(answer)
        }
    };
    run_round(&mut cluster, &only_two(80));
    assert_eq!(replicas(&cluster), 4, "160 of 4 times 50 is not more");
    run_round(&mut cluster, &only_two(10));
    assert_eq!(replicas(&cluster), 4, "20 and two times 100 is not less");
    run_round(&mut cluster, &only_two(150));
    assert_eq!(replicas(&cluster), 6);
}

#[test]
fn missing_target_is_one_event() {
    let mut cluster = cluster();
    cluster.create(RESOURCE, "default", autoscaler(1, 3, value!([(cpu(50))]), &Value::map()));
    for _ in 0..3 {
        run_round(&mut cluster, &usage_per_pod(50));
    }
    assert_eq!(condition(&cluster, "AbleToScale"), is("False", "FailedGetScale"));
    assert_eq!(event_messages(&cluster, "FailedGetScale"), ["replicasets.apps \"web\" not found"]);
    cluster.assert_quiet();
}

#[test]
fn missing_answers_and_answers_after_a_crash_are_harmless() {
    let mut cluster = start(3, 1, 10, value!([(cpu(50))]), &Value::map());
    cluster.settle();
    cluster.crash();
    cluster.settle();
    let key = Key::namespaced(&Resource::new(RESOURCE).unwrap(), "default", "web").unwrap();
    cluster.engine.answer_query(NAME, &key, "9/0", Ok(value!({"pods": {}})), cluster.now);
    cluster.settle();
    assert_eq!(replicas(&cluster), 3);
    cluster.assert_quiet();
    run_round(&mut cluster, &usage_per_pod(100));
    assert_eq!(replicas(&cluster), 6);
}

#[test]
fn overlapping_autoscalers_do_not_scale() {
    let mut cluster = start(2, 1, 10, value!([(cpu(50))]), &Value::map());
    let mut other = autoscaler(1, 10, value!([(cpu(50))]), &Value::map());
    other.ensure_map("metadata").insert("name", "other");
    cluster.create(RESOURCE, "default", other);
    assert_eq!(run_round(&mut cluster, &usage_per_pod(1000)), 0, "no metric is queried");
    assert_eq!(replicas(&cluster), 2);
    assert_eq!(condition(&cluster, "ScalingActive"), is("False", "AmbiguousSelector"));
    assert_eq!(condition(&cluster, "AbleToScale"), is("True", "SucceededGetScale"));
    assert_eq!(status(&cluster).at(&["currentReplicas"]), Some(&Value::Int(2)));
    let message = "pods by selector app=web are controlled by multiple HPAs: [default/other default/web]";
    for reason in ["AmbiguousSelector", "FailedComputeMetricsReplicas"] {
        assert_eq!(event_messages(&cluster, reason), [message; 2], "one Event per autoscaler");
    }
    cluster.delete(RESOURCE, "default/other", &Value::map()).unwrap();
    run_round(&mut cluster, &usage_per_pod(1000));
    assert_eq!(condition(&cluster, "ScalingActive"), is("True", "ValidMetricFound"));
    assert_eq!(replicas(&cluster), 4, "the remaining one scales");
}

#[test]
fn autoscaler_of_replicas_that_another_manager_applied_backs_off() {
    let mut cluster = start(2, 1, 10, value!([(cpu(50))]), &Value::map());
    let strict = value!({"metadata": {"annotations": {"setpoint.dev/field-ownership": "Strict"}}});
    cluster.patch("namespaces", "default", "", strict).unwrap();
    let gitops = value!({
        "manager": "gitops", "operation": "Apply", "apiVersion": "apps/v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}},
    });
    let owned = value!({"metadata": {"managedFields": [(gitops)]}});
    cluster.patch("replicasets.apps", "default/web", "", owned).unwrap();
    let mut conditions = Vec::new();
    for _ in 0..10 {
        run_round(&mut cluster, &usage_per_pod(90));
        assert_eq!(replicas(&cluster), 2);
        conditions.push(condition(&cluster, "AbleToScale"));
    }
    assert!(conditions.contains(&is("False", "FailedUpdateScale")), "{conditions:?}");
    let messages = event_messages(&cluster, "FailedRescale");
    let conflict = "conflict with \"gitops\": .spec.replicas";
    assert!(
        !messages.is_empty() && messages.iter().all(|message| message.contains(conflict)),
        "{messages:?}"
    );
    let (_, _, stats) = cluster.engine.stats().find(|(name, ..)| *name == NAME).unwrap();
    assert!((1..=10).contains(&stats.failures), "at most one attempt in a round: {stats:?}");
    assert_eq!(stats.conflicts, 0, "the key does not expect another plan to succeed at once");

    let free = value!({"metadata": {"annotations": {"setpoint.dev/field-ownership": null}}});
    cluster.patch("namespaces", "default", "", free).unwrap();
    for _ in 0..2 {
        run_round(&mut cluster, &usage_per_pod(90));
    }
    assert!(replicas(&cluster) >= 4, "without strict ownership the autoscaler takes the field");
}
