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
