//! Tests of preemption and of nominated pods.

use std::time::Duration;

use setpoint_reconcile::{Turn, WriteOutcome, WriteRejection};

use super::*;

fn cluster_with_priorities(classes: &[(&str, i64)]) -> Cluster {
    let mut cluster = cluster();
    for (name, number) in classes {
        let class = value!({"metadata": {"name": (*name)}, "value": (*number)});
        cluster.create("priorityclasses.scheduling.k8s.io", "", class);
    }
    cluster
}

fn with_priority_class(pod: Value, class: &str) -> Value {
    with_field(pod, "priorityClassName", Value::from(class))
}

fn nominated(cluster: &Cluster, name: &str) -> String {
    let pod = cluster.get("pods", &format!("default/{name}")).unwrap();
    pod.str_at(&["status", "nominatedNodeName"]).to_owned()
}

fn is_terminating(cluster: &Cluster, name: &str) -> bool {
    let pod = cluster.get("pods", &format!("default/{name}")).unwrap();
    pod.at(&["metadata", "deletionTimestamp"]).is_some()
}

#[test]
fn pod_that_every_node_rejects_preempts_no_pod() {
    let mut cluster = cluster_with_priorities(&[("high", 100)]);
    add_node(&mut cluster, "n", "1", value!({}));
    cluster.create("pods", "default", pod("low", "1"));
    cluster.settle();
    let volumes = value!([{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]);
    cluster.create(
        "pods",
        "default",
        with_priority_class(with_field(pod("high", "1"), "volumes", volumes), "high"),
    );
    cluster.run(Duration::from_secs(20));
    assert!(!is_terminating(&cluster, "low"));
    let expected = "Unschedulable 0/1 nodes are available: persistentvolumeclaim \"missing\" not found. \
        preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    assert_eq!(condition(&cluster, "high"), expected);
    assert_eq!(nominated(&cluster, "high"), "");
    cluster.assert_quiet();
}

/// Plans, and deletes the pod of the first write, so that the engine drops the rest of the plan.
fn fail_first_write(cluster: &mut Cluster, gone: &str) {
    cluster.observe();
    cluster.plan();
    cluster.delete("pods", &format!("default/{gone}"), &value!({"gracePeriodSeconds": 0})).unwrap();
    cluster.settle();
}

#[test]
fn missing_status_is_written_by_the_next_plan() {
    let mut cluster = cluster_with_priorities(&[("high", 100)]);
    add_node(&mut cluster, "n", "1", value!({}));
    cluster.settle();
    cluster.create("pods", "default", with_priority_class(pod("gone", "8"), "high"));
    for name in ["a", "b", "c"] {
        cluster.create("pods", "default", pod(name, "8"));
    }
    fail_first_write(&mut cluster, "gone");
    cluster.run(Duration::from_secs(1));
    for name in ["a", "b", "c"] {
        assert!(condition(&cluster, name).starts_with("Unschedulable 0/1 nodes are available"), "{name}");
    }
    cluster.assert_quiet();
}

#[test]
fn victims_that_were_not_deleted_are_deleted_by_the_next_plan() {
    let mut cluster = cluster_with_priorities(&[("higher", 200), ("high", 100)]);
    add_node(&mut cluster, "n", "1", value!({}));
    cluster.create("pods", "default", pod("low", "1"));
    cluster.settle();
    cluster.create("pods", "default", with_priority_class(pod("gone", "8"), "higher"));
    cluster.create("pods", "default", with_priority_class(pod("high", "1"), "high"));
    cluster.observe();
    cluster.plan();
    // The first write for the victim conflicts, so the engine drops all others without reporting a failure.
    let sent = cluster.take_writes();
    let patch = sent.iter().find(|sent| sent.write.verb() == "patch").expect("a condition of the victim").id;
    cluster.engine.complete_write(patch, WriteOutcome::Conflict, cluster.now, &mut Turn::default());
    cluster.run(Duration::from_secs(1));
    assert!(is_terminating(&cluster, "low"));
    assert_eq!(nominated(&cluster, "high"), "n");
    assert!(condition(&cluster, "gone").contains("Insufficient cpu"));
}

#[test]
fn no_disruption_budget_is_violated_if_any_node_has_an_unprotected_victim() {
    let mut cluster = cluster_with_priorities(&[("high", 100)]);
    let protected = value!({"metadata": {"name": "all"}, "spec": {
        "minAvailable": "100%", "selector": {"matchLabels": {"app": "a"}},
    }});
    cluster.create("poddisruptionbudgets.policy", "default", protected);
    for i in 0..600 {
        let (node, name) = (format!("n{i:03}"), format!("low{i:03}"));
        add_node(&mut cluster, &node, "1", value!({}));
        let mut low = with_field(pod(&name, "1"), "nodeName", Value::from(node.as_str()));
        if i % 300 == 150 {
            low.get_mut("metadata").unwrap().make_map().insert("labels", value!({"app": "free"}));
        }
        cluster.create("pods", "default", low);
    }
    cluster.settle();
    for name in ["high1", "high2"] {
        cluster.create("pods", "default", with_priority_class(pod(name, "1"), "high"));
    }
    cluster.settle();
    for i in 0..600 {
        assert_eq!(is_terminating(&cluster, &format!("low{i:03}")), i % 300 == 150, "low{i:03}");
    }
}

#[test]
fn nominated_pod_keeps_its_reservation_against_an_older_pod_of_equal_priority() {
    let mut cluster = cluster_with_priorities(&[("high", 100)]);
    add_node(&mut cluster, "n", "2", value!({}));
    cluster.create("pods", "default", pod("low", "2"));
    cluster.settle();
    // Older, but with `preemptionPolicy: Never`, so it stays queued.
    let never = value!({"metadata": {"name": "never"}, "value": 100, "preemptionPolicy": "Never"});
    cluster.create("priorityclasses.scheduling.k8s.io", "", never);
    cluster.create("pods", "default", with_priority_class(pod("never", "1"), "never"));
    cluster.run(Duration::from_secs(5));
    cluster.create("pods", "default", with_priority_class(pod("high", "2"), "high"));
    cluster.settle();
    assert!(is_terminating(&cluster, "low"));
    finish_terminating_pods(&mut cluster);
    cluster.run(Duration::from_secs(20));
    assert_eq!((node_of(&cluster, "high").as_str(), node_of(&cluster, "never").as_str()), ("n", ""));
    cluster.assert_quiet();
}

#[test]
fn nomination_is_cleared_when_a_pod_of_higher_priority_preempts_on_the_node() {
    let mut cluster = cluster_with_priorities(&[("higher", 200), ("high", 100)]);
    add_node(&mut cluster, "n", "1", value!({}));
    cluster.create("pods", "default", pod("low", "1"));
    cluster.settle();
    cluster.create("pods", "default", with_priority_class(pod("high", "1"), "high"));
    cluster.settle();
    assert_eq!(nominated(&cluster, "high"), "n");
    cluster.create("pods", "default", with_priority_class(pod("higher", "1"), "higher"));
    cluster.settle();
    assert_eq!((nominated(&cluster, "higher").as_str(), nominated(&cluster, "high").as_str()), ("n", ""));
    // The terminating victim is counted in the message, but not deleted again.
    let expected = "preemption: found a potential placement for pod on node n, preempting 1 victims";
    assert!(condition(&cluster, "higher").ends_with(expected), "{}", condition(&cluster, "higher"));
    let events = cluster.list("events");
    assert_eq!(events.iter().filter(|event| event.str_at(&["reason"]) == "Preempted").count(), 1);
    finish_terminating_pods(&mut cluster);
    cluster.run(Duration::from_secs(20));
    assert_eq!((node_of(&cluster, "higher").as_str(), node_of(&cluster, "high").as_str()), ("n", ""));
    cluster.assert_quiet();
}

#[test]
fn pod_that_has_not_started_is_preempted_before_a_running_one() {
    let mut cluster = cluster_with_priorities(&[("high", 100)]);
    add_node(&mut cluster, "n", "2", value!({}));
    cluster.create("pods", "default", pod("new", "1"));
    cluster.run(Duration::from_secs(5));
    cluster.create("pods", "default", pod("old", "1"));
    cluster.settle();
    let started = setpoint_api::rfc3339::Seconds(cluster.now).to_string();
    let status = value!({"status": {"phase": "Running", "startTime": (started)}});
    cluster.patch("pods", "default/old", "status", status).unwrap();
    cluster.settle();
    cluster.create("pods", "default", with_priority_class(pod("high", "1"), "high"));
    cluster.settle();
    assert_eq!((is_terminating(&cluster, "new"), is_terminating(&cluster, "old")), (true, false));
}

#[test]
fn rejected_binding_is_reported_on_its_pod_and_nominations_are_kept() {
    let mut cluster = cluster_with_priorities(&[("high", 100)]);
    add_node(&mut cluster, "n1", "1", value!({}));
    cluster.create("pods", "default", pod("low", "1"));
    cluster.settle();
    cluster.create("pods", "default", with_priority_class(pod("high", "1"), "high"));
    cluster.settle();
    assert_eq!(nominated(&cluster, "high"), "n1");
    add_node(&mut cluster, "n2", "2", value!({"for": "others"}));
    cluster.patch("nodes", "n2", "", value!({"spec": {"unschedulable": true, "taints": null}})).unwrap();
    cluster.run(Duration::from_secs(20));
    for name in ["a", "b"] {
        let tolerations = value!([{"operator": "Exists"}]);
        cluster.create("pods", "default", with_field(pod(name, "1"), "tolerations", tolerations));
    }
    cluster.observe();
    cluster.plan();
    let sent = cluster.take_writes();
    let bind = sent.iter().find(|sent| matches!(sent.write, setpoint_reconcile::Write::Post { .. }));
    let message = "pods \"a\" is forbidden: not today".to_owned();
    let rejected = WriteOutcome::Rejected(WriteRejection { reason: "Forbidden".to_owned(), message });
    cluster.engine.complete_write(
        bind.expect("a is bound first").id,
        rejected,
        cluster.now,
        &mut Turn::default(),
    );
    cluster.run(Duration::from_millis(500));
    assert_eq!((node_of(&cluster, "a").as_str(), node_of(&cluster, "b").as_str()), ("", "n2"));
    assert_eq!(
        condition(&cluster, "a"),
        "SchedulerError binding rejected: pods \"a\" is forbidden: not today"
    );
    assert!(condition(&cluster, "high").starts_with("Unschedulable"));
    cluster.run(Duration::from_secs(5));
    assert_eq!(node_of(&cluster, "a"), "n2", "it is retried after its backoff");
    assert_eq!(nominated(&cluster, "high"), "n1");
}

#[test]
fn nominated_pod_does_not_satisfy_the_affinity_of_another_pod() {
    let mut cluster = cluster_with_priorities(&[("high", 100)]);
    add_node(&mut cluster, "n", "4", value!({"zone": "z"}));
    let mut low = pod("low", "4");
    low.get_mut("metadata").unwrap().make_map().insert("labels", value!({"app": "low"}));
    cluster.create("pods", "default", low);
    cluster.settle();
    cluster.create("pods", "default", with_priority_class(pod("high", "1"), "high"));
    cluster.settle();
    assert_eq!(nominated(&cluster, "high"), "n");
    let term = value!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}});
    let affinity = value!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [(term)]}});
    let mut affine = with_field(pod("affine", "0"), "affinity", affinity);
    affine.get_mut("metadata").unwrap().make_map().insert("labels", value!({"app": "b"}));
    cluster.create("pods", "default", affine);
    cluster.settle();
    assert_eq!(node_of(&cluster, "affine"), "", "the matching pod is only nominated");
    assert!(condition(&cluster, "affine").contains("1 node(s) didn't match pod affinity rules"));
    finish_terminating_pods(&mut cluster);
    cluster.run(Duration::from_secs(20));
    assert_eq!((node_of(&cluster, "high").as_str(), node_of(&cluster, "affine").as_str()), ("n", "n"));
    cluster.assert_quiet();
}
