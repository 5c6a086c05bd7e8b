//! Claims about pods with volumes.

use std::time::Duration;

use super::*;

/// Uses a claim.
fn using(pod: Value, claim: &str) -> Value {
    with(pod, "volumes", value!([{"name": "v", "persistentVolumeClaim": {"claimName": (claim)}}]))
}

/// Makes a claim that is bound to a volume of a driver.
fn bound_claim(cluster: &mut Cluster, name: &str, mode: &str) {
    let volume = value!({
        "metadata": {"name": (name)},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": [(mode)], "storageClassName": "",
            "csi": {"driver": "x.example.com", "volumeHandle": (name)}},
    });
    cluster.create("persistentvolumes", "", volume);
    let claim = value!({
        "metadata": {"name": (name), "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {"storageClassName": "", "accessModes": [(mode)], "volumeName": (name),
            "resources": {"requests": {"storage": "1Gi"}}},
    });
    cluster.create("persistentvolumeclaims", "default", claim);
}

fn add_priority(cluster: &mut Cluster) {
    let high = value!({"metadata": {"name": "high"}, "value": 100});
    cluster.create("priorityclasses.scheduling.k8s.io", "", high);
}

const SINGLE: &str = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";

#[test]
fn of_two_pods_that_come_at_once_only_one_gets_what_one_may_have() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n1", "4", value!({}));
    add_node(&mut cluster, "n2", "4", value!({}));
    bound_claim(&mut cluster, "c", "ReadWriteOncePod");
    for name in ["p1", "p2"] {
        cluster.create("pods", "default", using(pod(name, "1"), "c"));
    }
    cluster.settle();
    assert_ne!(node_of(&cluster, "p1"), "");
    assert_eq!(node_of(&cluster, "p2"), "");
    assert!(why(&cluster, "p2").contains(&format!("2 {SINGLE}")), "{}", why(&cluster, "p2"));
    cluster.delete("pods", "default/p1", &value!({"gracePeriodSeconds": 0})).unwrap();
    cluster.run(Duration::from_secs(20));
    assert_ne!(node_of(&cluster, "p2"), "", "nobody uses the claim any more");
    cluster.assert_quiet();
}

#[test]
fn a_more_important_pod_pushes_aside_the_one_that_has_what_one_may_have() {
    let mut cluster = cluster();
    for name in ["n1", "n2", "n3"] {
        add_node(&mut cluster, name, "4", value!({}));
    }
    add_priority(&mut cluster);
    bound_claim(&mut cluster, "c", "ReadWriteOncePod");
    cluster.create("pods", "default", using(pod("low", "1"), "c"));
    cluster.create("pods", "default", pod("bystander", "1"));
    cluster.settle();
    let on = node_of(&cluster, "low");
    cluster.create(
        "pods",
        "default",
        with(using(pod("high", "1"), "c"), "priorityClassName", value!("high")),
    );
    cluster.settle();
    let going = |cluster: &Cluster, name: &str| {
        cluster
            .get("pods", &format!("default/{name}"))
            .is_none_or(|pod| pod.at(&["metadata", "deletionTimestamp"]).is_some())
    };
    assert!(going(&cluster, "low"));
    assert!(!going(&cluster, "bystander"));
    let high = cluster.get("pods", "default/high").unwrap();
    assert_eq!(high.str_at(&["status", "nominatedNodeName"]), on);
    let_go(&mut cluster);
    cluster.run(Duration::from_secs(20));
    assert_eq!(node_of(&cluster, "high"), on);
    cluster.assert_quiet();
}

/// A class whose volumes are made for the first pod, and a claim of it.
fn waiting_claim(cluster: &mut Cluster, name: &str) {
    let class = value!({
        "metadata": {"name": "late"}, "provisioner": "x.example.com", "volumeBindingMode": "WaitForFirstConsumer",
    });
    cluster.create("storageclasses.storage.k8s.io", "", class);
    let claim = value!({
        "metadata": {"name": (name)},
        "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}},
    });
    cluster.create("persistentvolumeclaims", "default", claim);
}

/// Says how many volumes a node can have.
fn limit(cluster: &mut Cluster, node: &str, count: i64) {
    let driver = value!({"name": "x.example.com", "nodeID": (node), "allocatable": {"count": (count)}});
    let limits = value!({"metadata": {"name": (node)}, "spec": {"drivers": [(driver)]}});
    cluster.create("csinodes.storage.k8s.io", "", limits);
}

fn chosen(cluster: &Cluster, claim: &str) -> String {
    let claim = cluster.get("persistentvolumeclaims", &format!("default/{claim}")).unwrap();
    claim.str_at(&["metadata", "annotations", "volume.kubernetes.io/selected-node"]).to_owned()
}

#[test]
fn a_volume_that_is_still_to_be_made_counts_towards_what_a_node_can_have() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "4", value!({}));
    limit(&mut cluster, "n", 0);
    waiting_claim(&mut cluster, "c");
    cluster.create("pods", "default", using(pod("p", "1"), "c"));
    cluster.settle();
    assert!(why(&cluster, "p").contains("1 node(s) exceed max volume count"), "{}", why(&cluster, "p"));
    assert_eq!(chosen(&cluster, "c"), "");
    cluster.delete("csinodes.storage.k8s.io", "n", &value!({})).unwrap();
    cluster.run(Duration::from_secs(20));
    assert_eq!(chosen(&cluster, "c"), "n");
    cluster.assert_quiet();
}

#[test]
fn a_volume_that_is_still_attached_counts_until_it_is_not() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "4", value!({}));
    limit(&mut cluster, "n", 1);
    bound_claim(&mut cluster, "old", "ReadWriteOnce");
    bound_claim(&mut cluster, "new", "ReadWriteOnce");
    let attachment = value!({
        "metadata": {"name": "a"},
        "spec": {"attacher": "x.example.com", "nodeName": "n", "source": {"persistentVolumeName": "old"}},
    });
    cluster.create("volumeattachments.storage.k8s.io", "", attachment);
    cluster.create("pods", "default", using(pod("p", "1"), "new"));
    cluster.settle();
    assert!(why(&cluster, "p").contains("1 node(s) exceed max volume count"), "{}", why(&cluster, "p"));
    cluster.delete("volumeattachments.storage.k8s.io", "a", &value!({})).unwrap();
    cluster.run(Duration::from_secs(20));
    assert_eq!(node_of(&cluster, "p"), "n");
    cluster.assert_quiet();
}

#[test]
fn a_driver_may_want_its_pods_only_where_it_is() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "4", value!({}));
    let driver =
        value!({"metadata": {"name": "x.example.com"}, "spec": {"preventPodSchedulingIfMissing": true}});
    cluster.create("csidrivers.storage.k8s.io", "", driver);
    bound_claim(&mut cluster, "c", "ReadWriteOnce");
    cluster.create("pods", "default", using(pod("p", "1"), "c"));
    cluster.settle();
    let missing = "1 x.example.com CSI driver is not installed on the node";
    assert!(why(&cluster, "p").contains(missing), "{}", why(&cluster, "p"));
    limit(&mut cluster, "n", 1);
    cluster.run(Duration::from_secs(20));
    assert_eq!(node_of(&cluster, "p"), "n");
    cluster.assert_quiet();
}

#[test]
fn a_volume_is_made_where_its_driver_has_room() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n1", "4", value!({"disk": "no"}));
    add_node(&mut cluster, "n2", "4", value!({"disk": "yes"}));
    let driver = value!({"metadata": {"name": "x.example.com"}, "spec": {"storageCapacity": true}});
    cluster.create("csidrivers.storage.k8s.io", "", driver);
    waiting_claim(&mut cluster, "c");
    cluster.create("pods", "default", using(pod("p", "1"), "c"));
    cluster.settle();
    assert!(
        why(&cluster, "p").contains("2 node(s) did not have enough free storage"),
        "{}",
        why(&cluster, "p")
    );
    for (name, capacity, most) in
        [("small", "512Mi", "512Mi"), ("parts", "9Gi", "1Mi"), ("large", "2Gi", "2Gi")]
    {
        let selected = if name == "large" { "yes" } else { "no" };
        let room = value!({
            "metadata": {"name": (name)}, "storageClassName": "late", "capacity": (capacity),
            "maximumVolumeSize": (most), "nodeTopology": {"matchLabels": {"disk": (selected)}},
        });
        cluster.create("csistoragecapacities.storage.k8s.io", "default", room);
    }
    cluster.run(Duration::from_secs(20));
    assert_eq!(chosen(&cluster, "c"), "n2");
    cluster.assert_quiet();
}

#[test]
fn a_claim_of_the_right_name_that_was_made_for_another_is_not_taken() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "4", value!({}));
    waiting_claim(&mut cluster, "p-v");
    let template = value!({"spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let volumes = value!([{"name": "v", "ephemeral": {"volumeClaimTemplate": (template)}}]);
    cluster.create("pods", "default", with(pod("p", "1"), "volumes", volumes));
    cluster.settle();
    let foreign = "PVC default/p-v was not created for pod default/p (pod is not owner)";
    assert!(why(&cluster, "p").contains(foreign), "{}", why(&cluster, "p"));
    assert_eq!(chosen(&cluster, "p-v"), "");
    cluster.assert_quiet();
}

#[test]
fn two_pods_do_not_share_a_disk_that_one_of_them_writes() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "4", value!({}));
    for (name, reads) in [("p1", true), ("p2", true), ("p3", false)] {
        let volumes = value!([{"name": "v", "gcePersistentDisk": {"pdName": "d", "readOnly": (reads)}}]);
        cluster.create("pods", "default", with(pod(name, "1"), "volumes", volumes));
        cluster.settle();
    }
    assert_eq!((node_of(&cluster, "p1").as_str(), node_of(&cluster, "p2").as_str()), ("n", "n"));
    assert!(why(&cluster, "p3").contains("1 node(s) had no available disk"), "{}", why(&cluster, "p3"));
}
