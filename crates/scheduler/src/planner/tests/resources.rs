//! Tests of what counts against a node: resized pods, affinity groups, features, node names and images.

use std::time::Duration;

use super::*;

#[test]
fn resources_of_a_shrinking_pod_are_free_only_after_actuation() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "4", value!({}));
    cluster.create("pods", "default", pod("first", "3"));
    cluster.settle();
    assert_eq!(node_of(&cluster, "first"), "n");
    let actual = |cpu: &str| {
        let amounts = value!({"cpu": (cpu)});
        let container = value!({
            "name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}},
            "allocatedResources": (amounts.clone()), "resources": {"requests": (amounts)},
        });
        value!({"status": {"phase": "Running", "containerStatuses": [(container)]}})
    };
    cluster.patch("pods", "default/first", "status", actual("3")).unwrap();
    let resize = value!({"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}});
    cluster.patch("pods", "default/first", "resize", resize).unwrap();
    cluster.create("pods", "default", pod("second", "2"));
    cluster.settle();
    assert_eq!(node_of(&cluster, "second"), "", "the resize is not actuated yet");
    cluster.patch("pods", "default/first", "status", actual("1")).unwrap();
    cluster.create("pods", "default", pod("third", "1"));
    cluster.run(Duration::from_secs(20));
    assert_eq!((node_of(&cluster, "second").as_str(), node_of(&cluster, "third").as_str()), ("n", "n"));
    cluster.assert_quiet();
}

#[test]
fn first_pod_of_an_affinity_group_ignores_pods_outside_any_domain() {
    let mut cluster = cluster();
    add_node(&mut cluster, "bare", "4", value!({}));
    cluster.create("pods", "default", pod("stray", "1"));
    cluster.settle();
    assert_eq!(node_of(&cluster, "stray"), "bare");
    add_node(&mut cluster, "n", "4", value!({"zone": "a"}));
    let term = value!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}});
    let affinity = value!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [(term)]}});
    cluster.create("pods", "default", with_field(pod("first", "1"), "affinity", affinity));
    cluster.settle();
    assert_eq!(node_of(&cluster, "first"), "n");
    cluster.assert_quiet();
}

#[test]
fn pod_is_bound_to_a_node_that_declares_its_required_feature() {
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
        condition(&cluster, "p").contains("1 node(s) didn't match Pod's required features"),
        "{}",
        condition(&cluster, "p")
    );
    let declared = value!({"status": {"declaredFeatures": ["RestartAllContainersOnContainerExits"]}});
    cluster.patch("nodes", "n1", "status", declared).unwrap();
    cluster.run(Duration::from_secs(20));
    assert_eq!(node_of(&cluster, "p"), "n1");
    cluster.assert_quiet();
}

#[test]
fn contradictory_node_names_are_reported_as_conflict() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n1", "4", value!({}));
    let fields =
        ["n1", "n2"].map(|name| value!({"key": "metadata.name", "operator": "In", "values": [(name)]}));
    let required = value!({"nodeSelectorTerms": [{"matchFields": (fields.to_vec())}]});
    let affinity = value!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": (required)}});
    cluster.create("pods", "default", with_field(pod("p", "1"), "affinity", affinity));
    cluster.settle();
    assert!(
        condition(&cluster, "p").contains("0/1 nodes are available: pod affinity terms conflict."),
        "{}",
        condition(&cluster, "p")
    );
    let events = cluster.list("events");
    let event = events.iter().find(|event| event.str_at(&["reason"]) == "FailedScheduling").unwrap();
    assert_eq!(event.str_at(&["action"]), "Scheduling");
}

#[test]
fn image_score_follows_the_share_of_nodes_that_have_the_image() {
    let mut cluster = cluster();
    let large = value!({"status": {"images": [{"names": ["i:latest"], "sizeBytes": 1_000_000_000}]}});
    for name in ["has1", "has2"] {
        add_node(&mut cluster, name, "8", value!({}));
        cluster.patch("nodes", name, "status", large.clone()).unwrap();
    }
    add_node(&mut cluster, "bare", "64", value!({}));
    cluster.create("pods", "default", pod("p1", "1"));
    cluster.settle();
    assert!(node_of(&cluster, "p1").starts_with("has"), "most nodes have the image");
    for i in 0..30 {
        let tainted = value!({"metadata": {"name": (format!("far{i}"))},
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
        cluster.create("nodes", "", tainted);
    }
    cluster.create("pods", "default", pod("p2", "1"));
    cluster.settle();
    assert_eq!(node_of(&cluster, "p2"), "bare", "few nodes have the image, so free resources decide");
}
