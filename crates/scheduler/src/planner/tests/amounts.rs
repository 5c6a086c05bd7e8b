//! Claims about what counts: of pods that change their size, and of the first pod of a group.

use std::time::Duration;

use super::*;

#[test]
fn what_a_pod_still_has_is_not_given_to_another_while_it_shrinks() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "4", value!({}));
    cluster.create("pods", "default", pod("first", "3"));
    cluster.settle();
    assert_eq!(node_of(&cluster, "first"), "n");
    let has = |cpu: &str| {
        let amounts = value!({"cpu": (cpu)});
        let container = value!({
            "name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}},
            "allocatedResources": (amounts.clone()), "resources": {"requests": (amounts)},
        });
        value!({"status": {"phase": "Running", "containerStatuses": [(container)]}})
    };
    cluster.patch("pods", "default/first", "status", has("3")).unwrap();
    let resize = value!({"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}});
    cluster.patch("pods", "default/first", "resize", resize).unwrap();
    cluster.create("pods", "default", pod("second", "2"));
    cluster.settle();
    assert_eq!(node_of(&cluster, "second"), "", "the node has not let go of it");
    cluster.patch("pods", "default/first", "status", has("1")).unwrap();
    cluster.create("pods", "default", pod("third", "1"));
    cluster.run(Duration::from_secs(20));
    assert_eq!((node_of(&cluster, "second").as_str(), node_of(&cluster, "third").as_str()), ("n", "n"));
    cluster.assert_quiet();
}

#[test]
fn the_first_of_a_group_need_not_be_near_to_pods_that_are_nowhere() {
    let mut cluster = cluster();
    add_node(&mut cluster, "bare", "4", value!({}));
    cluster.create("pods", "default", pod("stray", "1"));
    cluster.settle();
    assert_eq!(node_of(&cluster, "stray"), "bare");
    add_node(&mut cluster, "n", "4", value!({"zone": "a"}));
    let term = value!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}});
    let near = value!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [(term)]}});
    cluster.create("pods", "default", with(pod("first", "1"), "affinity", near));
    cluster.settle();
    assert_eq!(node_of(&cluster, "first"), "n");
    cluster.assert_quiet();
}

#[test]
fn a_pod_that_needs_what_only_some_nodes_can_do_goes_to_those() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n1", "4", value!({}));
    let rule = value!({"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}});
    let mut new = pod("p", "1");
    let container =
        value!({"name": "c", "image": "i", "restartPolicy": "Never", "restartPolicyRules": [(rule)]});
    new.get_mut("spec").unwrap().make_map().insert("containers", vec![container]);
    cluster.create("pods", "default", new);
    cluster.settle();
    assert!(
        why(&cluster, "p").contains("1 node(s) didn't match Pod's required features"),
        "{}",
        why(&cluster, "p")
    );
    let can = value!({"status": {"declaredFeatures": ["RestartAllContainersOnContainerExits"]}});
    cluster.patch("nodes", "n1", "status", can).unwrap();
    cluster.run(Duration::from_secs(20));
    assert_eq!(node_of(&cluster, "p"), "n1");
    cluster.assert_quiet();
}

#[test]
fn names_of_nodes_that_contradict_each_other_are_told() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n1", "4", value!({}));
    let fields =
        ["n1", "n2"].map(|name| value!({"key": "metadata.name", "operator": "In", "values": [(name)]}));
    let required = value!({"nodeSelectorTerms": [{"matchFields": (fields.to_vec())}]});
    let affinity = value!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": (required)}});
    cluster.create("pods", "default", with(pod("p", "1"), "affinity", affinity));
    cluster.settle();
    assert!(
        why(&cluster, "p").contains("0/1 nodes are available: pod affinity terms conflict."),
        "{}",
        why(&cluster, "p")
    );
    let events = cluster.list("events");
    let told = events.iter().find(|event| event.str_at(&["reason"]) == "FailedScheduling").unwrap();
    assert_eq!(told.str_at(&["action"]), "Scheduling");
}

#[test]
fn how_much_an_image_counts_for_follows_the_number_of_nodes() {
    let mut cluster = cluster();
    let large = value!({"status": {"images": [{"names": ["i:latest"], "sizeBytes": 1_000_000_000}]}});
    for name in ["has1", "has2"] {
        add_node(&mut cluster, name, "8", value!({}));
        cluster.patch("nodes", name, "status", large.clone()).unwrap();
    }
    add_node(&mut cluster, "bare", "64", value!({}));
    cluster.create("pods", "default", pod("p1", "1"));
    cluster.settle();
    assert!(node_of(&cluster, "p1").starts_with("has"), "the image is on most nodes");
    for i in 0..30 {
        let tainted = value!({"metadata": {"name": (format!("far{i}"))},
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
        cluster.create("nodes", "", tainted);
    }
    cluster.create("pods", "default", pod("p2", "1"));
    cluster.settle();
    assert_eq!(node_of(&cluster, "p2"), "bare", "hardly any node has it: room decides");
}
