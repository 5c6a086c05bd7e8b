//! Claims about pods that push others aside, and about the room that is promised to them.

use std::time::Duration;

use setpoint_reconcile::{Outcome, Refusal, Turn};

use super::*;

/// A cluster with priority classes, by their names.
fn with_classes(classes: &[(&str, i64)]) -> Cluster {
    let mut cluster = cluster();
    for (name, number) in classes {
        let class = value!({"metadata": {"name": (*name)}, "value": (*number)});
        cluster.create("priorityclasses.scheduling.k8s.io", "", class);
    }
    cluster
}

fn of_class(pod: Value, class: &str) -> Value {
    with(pod, "priorityClassName", Value::from(class))
}

fn nominated(cluster: &Cluster, name: &str) -> String {
    let pod = cluster.get("pods", &format!("default/{name}")).unwrap();
    pod.str_at(&["status", "nominatedNodeName"]).to_owned()
}

fn is_going(cluster: &Cluster, name: &str) -> bool {
    let pod = cluster.get("pods", &format!("default/{name}")).unwrap();
    pod.at(&["metadata", "deletionTimestamp"]).is_some()
}

#[test]
fn a_pod_that_no_node_can_ever_take_pushes_nobody_aside() {
    let mut cluster = with_classes(&[("high", 100)]);
    add_node(&mut cluster, "n", "1", value!({}));
    cluster.create("pods", "default", pod("low", "1"));
    cluster.settle();
    let volumes = value!([{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]);
    cluster.create("pods", "default", of_class(with(pod("high", "1"), "volumes", volumes), "high"));
    cluster.run(Duration::from_secs(20));
    assert!(!is_going(&cluster, "low"));
    let expected = "Unschedulable 0/1 nodes are available: persistentvolumeclaim \"missing\" not found. \
        preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    assert_eq!(why(&cluster, "high"), expected);
    assert_eq!(nominated(&cluster, "high"), "");
    cluster.assert_quiet();
}

/// Plans, and takes a pod away that the plan wants to write about, so that the rest of the plan is dropped.
fn lose_the_rest(cluster: &mut Cluster, gone: &str) {
    cluster.observe();
    cluster.plan();
    cluster.delete("pods", &format!("default/{gone}"), &value!({"gracePeriodSeconds": 0})).unwrap();
    cluster.settle();
}

#[test]
fn a_pod_whose_status_was_not_written_is_told_soon() {
    let mut cluster = with_classes(&[("high", 100)]);
    add_node(&mut cluster, "n", "1", value!({}));
    cluster.settle();
    cluster.create("pods", "default", of_class(pod("gone", "8"), "high"));
    for name in ["a", "b", "c"] {
        cluster.create("pods", "default", pod(name, "8"));
    }
    lose_the_rest(&mut cluster, "gone");
    cluster.run(Duration::from_secs(1));
    for name in ["a", "b", "c"] {
        assert!(why(&cluster, name).starts_with("Unschedulable 0/1 nodes are available"), "{name}");
    }
    cluster.assert_quiet();
}

#[test]
fn victims_that_were_not_deleted_are_deleted_soon() {
    let mut cluster = with_classes(&[("higher", 200), ("high", 100)]);
    add_node(&mut cluster, "n", "1", value!({}));
    cluster.create("pods", "default", pod("low", "1"));
    cluster.settle();
    cluster.create("pods", "default", of_class(pod("gone", "8"), "higher"));
    cluster.create("pods", "default", of_class(pod("high", "1"), "high"));
    cluster.observe();
    cluster.plan();
    // The first write about the victim conflicts, so all others are dropped: nobody is told that it failed.
    let sent = cluster.take_writes();
    let patch = sent.iter().find(|sent| sent.write.verb() == "patch").expect("a victim is warned").ticket;
    cluster.engine.answer(patch, Outcome::Conflict, cluster.now, &mut Turn::default());
    cluster.run(Duration::from_secs(1));
    assert!(is_going(&cluster, "low"));
    assert_eq!(nominated(&cluster, "high"), "n");
    assert!(why(&cluster, "gone").contains("Insufficient cpu"));
}

#[test]
fn no_budget_is_violated_as_long_as_there_is_a_free_victim_anywhere() {
    let mut cluster = with_classes(&[("high", 100)]);
    let protected = value!({"metadata": {"name": "all"}, "spec": {
        "minAvailable": "100%", "selector": {"matchLabels": {"app": "a"}},
    }});
    cluster.create("poddisruptionbudgets.policy", "default", protected);
    for i in 0..600 {
        let (node, name) = (format!("n{i:03}"), format!("low{i:03}"));
        add_node(&mut cluster, &node, "1", value!({}));
        let mut low = with(pod(&name, "1"), "nodeName", Value::from(node.as_str()));
        if i % 300 == 150 {
            low.get_mut("metadata").unwrap().make_map().insert("labels", value!({"app": "free"}));
        }
        cluster.create("pods", "default", low);
    }
    cluster.settle();
    for name in ["high1", "high2"] {
        cluster.create("pods", "default", of_class(pod(name, "1"), "high"));
    }
    cluster.settle();
    for i in 0..600 {
        assert_eq!(is_going(&cluster, &format!("low{i:03}")), i % 300 == 150, "low{i:03}");
    }
}

#[test]
fn room_that_is_made_for_a_pod_is_not_taken_by_one_that_is_as_important_and_older() {
    let mut cluster = with_classes(&[("high", 100)]);
    add_node(&mut cluster, "n", "2", value!({}));
    cluster.create("pods", "default", pod("low", "2"));
    cluster.settle();
    // It is older, but it may push nobody aside, so it waits.
    let humble = value!({"metadata": {"name": "humble"}, "value": 100, "preemptionPolicy": "Never"});
    cluster.create("priorityclasses.scheduling.k8s.io", "", humble);
    cluster.create("pods", "default", of_class(pod("humble", "1"), "humble"));
    cluster.run(Duration::from_secs(5));
    cluster.create("pods", "default", of_class(pod("high", "2"), "high"));
    cluster.settle();
    assert!(is_going(&cluster, "low"));
    let_go(&mut cluster);
    cluster.run(Duration::from_secs(20));
    assert_eq!((node_of(&cluster, "high").as_str(), node_of(&cluster, "humble").as_str()), ("n", ""));
    cluster.assert_quiet();
}

#[test]
fn a_promise_ends_when_somebody_more_important_gets_the_node() {
    let mut cluster = with_classes(&[("higher", 200), ("high", 100)]);
    add_node(&mut cluster, "n", "1", value!({}));
    cluster.create("pods", "default", pod("low", "1"));
    cluster.settle();
    cluster.create("pods", "default", of_class(pod("high", "1"), "high"));
    cluster.settle();
    assert_eq!(nominated(&cluster, "high"), "n");
    cluster.create("pods", "default", of_class(pod("higher", "1"), "higher"));
    cluster.settle();
    assert_eq!((nominated(&cluster, "higher").as_str(), nominated(&cluster, "high").as_str()), ("n", ""));
    // The one that goes already is counted among those that make room, but is not deleted again.
    let told = "preemption: found a potential placement for pod on node n, preempting 1 victims";
    assert!(why(&cluster, "higher").ends_with(told), "{}", why(&cluster, "higher"));
    let events = cluster.list("events");
    assert_eq!(events.iter().filter(|event| event.str_at(&["reason"]) == "Preempted").count(), 1);
    let_go(&mut cluster);
    cluster.run(Duration::from_secs(20));
    assert_eq!((node_of(&cluster, "higher").as_str(), node_of(&cluster, "high").as_str()), ("n", ""));
    cluster.assert_quiet();
}

#[test]
fn a_pod_that_has_not_started_makes_room_before_one_that_runs() {
    let mut cluster = with_classes(&[("high", 100)]);
    add_node(&mut cluster, "n", "2", value!({}));
    cluster.create("pods", "default", pod("new", "1"));
    cluster.run(Duration::from_secs(5));
    cluster.create("pods", "default", pod("old", "1"));
    cluster.settle();
    let started = setpoint_api::rfc3339::Seconds(cluster.now).to_string();
    let status = value!({"status": {"phase": "Running", "startTime": (started)}});
    cluster.patch("pods", "default/old", "status", status).unwrap();
    cluster.settle();
    cluster.create("pods", "default", of_class(pod("high", "1"), "high"));
    cluster.settle();
    assert_eq!((is_going(&cluster, "new"), is_going(&cluster, "old")), (true, false));
}

#[test]
fn a_refused_binding_is_told_of_its_own_pod_and_no_promise_is_lost() {
    let mut cluster = with_classes(&[("high", 100)]);
    add_node(&mut cluster, "n1", "1", value!({}));
    cluster.create("pods", "default", pod("low", "1"));
    cluster.settle();
    cluster.create("pods", "default", of_class(pod("high", "1"), "high"));
    cluster.settle();
    assert_eq!(nominated(&cluster, "high"), "n1");
    add_node(&mut cluster, "n2", "2", value!({"for": "others"}));
    cluster.patch("nodes", "n2", "", value!({"spec": {"unschedulable": true, "taints": null}})).unwrap();
    cluster.run(Duration::from_secs(20));
    for name in ["a", "b"] {
        let tolerations = value!([{"operator": "Exists"}]);
        cluster.create("pods", "default", with(pod(name, "1"), "tolerations", tolerations));
    }
    cluster.observe();
    cluster.plan();
    let sent = cluster.take_writes();
    let bind = sent.iter().find(|sent| matches!(sent.write, setpoint_reconcile::Write::Post { .. }));
    let message = "pods \"a\" is forbidden: not today".to_owned();
    let refusal = Outcome::Refused(Refusal { reason: "Forbidden".to_owned(), message });
    cluster.engine.answer(bind.expect("a is bound first").ticket, refusal, cluster.now, &mut Turn::default());
    cluster.run(Duration::from_millis(500));
    assert_eq!((node_of(&cluster, "a").as_str(), node_of(&cluster, "b").as_str()), ("", "n2"));
    assert_eq!(why(&cluster, "a"), "SchedulerError binding rejected: pods \"a\" is forbidden: not today");
    assert!(why(&cluster, "high").starts_with("Unschedulable"));
    cluster.run(Duration::from_secs(5));
    assert_eq!(node_of(&cluster, "a"), "n2", "it is tried again in its time");
    assert_eq!(nominated(&cluster, "high"), "n1");
}

#[test]
fn nobody_relies_on_a_pod_that_is_only_promised_a_node() {
    let mut cluster = with_classes(&[("high", 100)]);
    add_node(&mut cluster, "n", "4", value!({"zone": "z"}));
    let mut low = pod("low", "4");
    low.get_mut("metadata").unwrap().make_map().insert("labels", value!({"app": "low"}));
    cluster.create("pods", "default", low);
    cluster.settle();
    cluster.create("pods", "default", of_class(pod("high", "1"), "high"));
    cluster.settle();
    assert_eq!(nominated(&cluster, "high"), "n");
    let term = value!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}});
    let affinity = value!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [(term)]}});
    let mut near = with(pod("near", "0"), "affinity", affinity);
    near.get_mut("metadata").unwrap().make_map().insert("labels", value!({"app": "b"}));
    cluster.create("pods", "default", near);
    cluster.settle();
    assert_eq!(node_of(&cluster, "near"), "", "the one it must be near to is not there");
    assert!(why(&cluster, "near").contains("1 node(s) didn't match pod affinity rules"));
    let_go(&mut cluster);
    cluster.run(Duration::from_secs(20));
    assert_eq!((node_of(&cluster, "high").as_str(), node_of(&cluster, "near").as_str()), ("n", "n"));
    cluster.assert_quiet();
}
