//! Tests of pods with volumes.

use std::time::Duration;

use super::*;

fn with_claim(pod: Value, claim: &str) -> Value {
    with_field(pod, "volumes", value!([{"name": "v", "persistentVolumeClaim": {"claimName": (claim)}}]))
}

/// Creates a claim that is bound to a CSI volume.
fn create_bound_claim(cluster: &mut Cluster, name: &str, mode: &str) {
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

fn create_priority_class(cluster: &mut Cluster) {
    let high = value!({"metadata": {"name": "high"}, "value": 100});
    cluster.create("priorityclasses.scheduling.k8s.io", "", high);
}

const SINGLE: &str = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";

#[test]
fn read_write_once_pod_claim_is_used_by_one_pod_only() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n1", "4", value!({}));
    add_node(&mut cluster, "n2", "4", value!({}));
    create_bound_claim(&mut cluster, "c", "ReadWriteOncePod");
    for name in ["p1", "p2"] {
        cluster.create("pods", "default", with_claim(pod(name, "1"), "c"));
    }
    cluster.settle();
    assert_ne!(node_of(&cluster, "p1"), "");
    assert_eq!(node_of(&cluster, "p2"), "");
    assert!(condition(&cluster, "p2").contains(&format!("2 {SINGLE}")), "{}", condition(&cluster, "p2"));
    cluster.delete("pods", "default/p1", &value!({"gracePeriodSeconds": 0})).unwrap();
    cluster.run(Duration::from_secs(20));
    assert_ne!(node_of(&cluster, "p2"), "", "the claim is free again");
    cluster.assert_quiet();
}

#[test]
fn pod_of_higher_priority_preempts_the_user_of_a_read_write_once_pod_claim() {
    let mut cluster = cluster();
    for name in ["n1", "n2", "n3"] {
        add_node(&mut cluster, name, "4", value!({}));
    }
    create_priority_class(&mut cluster);
    create_bound_claim(&mut cluster, "c", "ReadWriteOncePod");
    cluster.create("pods", "default", with_claim(pod("low", "1"), "c"));
    cluster.create("pods", "default", pod("bystander", "1"));
    cluster.settle();
    let on = node_of(&cluster, "low");
    cluster.create(
        "pods",
        "default",
        with_field(with_claim(pod("high", "1"), "c"), "priorityClassName", value!("high")),
    );
    cluster.settle();
    let is_terminating = |cluster: &Cluster, name: &str| {
        cluster
            .get("pods", &format!("default/{name}"))
            .is_none_or(|pod| pod.at(&["metadata", "deletionTimestamp"]).is_some())
    };
    assert!(is_terminating(&cluster, "low"));
    assert!(!is_terminating(&cluster, "bystander"));
    let high = cluster.get("pods", "default/high").unwrap();
    assert_eq!(high.str_at(&["status", "nominatedNodeName"]), on);
    finish_terminating_pods(&mut cluster);
    cluster.run(Duration::from_secs(20));
    assert_eq!(node_of(&cluster, "high"), on);
    cluster.assert_quiet();
}

/// Creates a WaitForFirstConsumer storage class, and a claim of it.
fn create_unbound_claim(cluster: &mut Cluster, name: &str) {
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

/// Creates a CSINode with a limit of volumes.
fn create_csi_node(cluster: &mut Cluster, node: &str, count: i64) {
    let driver = value!({"name": "x.example.com", "nodeID": (node), "allocatable": {"count": (count)}});
    let limits = value!({"metadata": {"name": (node)}, "spec": {"drivers": [(driver)]}});
    cluster.create("csinodes.storage.k8s.io", "", limits);
}

fn selected_node(cluster: &Cluster, claim: &str) -> String {
    let claim = cluster.get("persistentvolumeclaims", &format!("default/{claim}")).unwrap();
    claim.str_at(&["metadata", "annotations", "volume.kubernetes.io/selected-node"]).to_owned()
}

#[test]
fn unprovisioned_volume_counts_towards_the_volume_limit() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "4", value!({}));
    create_csi_node(&mut cluster, "n", 0);
    create_unbound_claim(&mut cluster, "c");
    cluster.create("pods", "default", with_claim(pod("p", "1"), "c"));
    cluster.settle();
    assert!(
        condition(&cluster, "p").contains("1 node(s) exceed max volume count"),
        "{}",
        condition(&cluster, "p")
    );
    assert_eq!(selected_node(&cluster, "c"), "");
    cluster.delete("csinodes.storage.k8s.io", "n", &value!({})).unwrap();
    cluster.run(Duration::from_secs(20));
    assert_eq!(selected_node(&cluster, "c"), "n");
    cluster.assert_quiet();
}

#[test]
fn attached_volume_counts_towards_the_volume_limit_until_it_is_detached() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "4", value!({}));
    create_csi_node(&mut cluster, "n", 1);
    create_bound_claim(&mut cluster, "old", "ReadWriteOnce");
    create_bound_claim(&mut cluster, "new", "ReadWriteOnce");
    let attachment = value!({
        "metadata": {"name": "a"},
        "spec": {"attacher": "x.example.com", "nodeName": "n", "source": {"persistentVolumeName": "old"}},
    });
    cluster.create("volumeattachments.storage.k8s.io", "", attachment);
    cluster.create("pods", "default", with_claim(pod("p", "1"), "new"));
    cluster.settle();
    assert!(
        condition(&cluster, "p").contains("1 node(s) exceed max volume count"),
        "{}",
        condition(&cluster, "p")
    );
    cluster.delete("volumeattachments.storage.k8s.io", "a", &value!({})).unwrap();
    cluster.run(Duration::from_secs(20));
    assert_eq!(node_of(&cluster, "p"), "n");
    cluster.assert_quiet();
}

#[test]
fn pod_is_not_scheduled_to_a_node_without_its_required_csi_driver() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "4", value!({}));
    let driver =
        value!({"metadata": {"name": "x.example.com"}, "spec": {"preventPodSchedulingIfMissing": true}});
    cluster.create("csidrivers.storage.k8s.io", "", driver);
    create_bound_claim(&mut cluster, "c", "ReadWriteOnce");
    cluster.create("pods", "default", with_claim(pod("p", "1"), "c"));
    cluster.settle();
    let missing = "1 x.example.com CSI driver is not installed on the node";
    assert!(condition(&cluster, "p").contains(missing), "{}", condition(&cluster, "p"));
    create_csi_node(&mut cluster, "n", 1);
    cluster.run(Duration::from_secs(20));
    assert_eq!(node_of(&cluster, "p"), "n");
    cluster.assert_quiet();
}

#[test]
fn volume_is_provisioned_where_its_driver_has_capacity() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n1", "4", value!({"disk": "no"}));
    add_node(&mut cluster, "n2", "4", value!({"disk": "yes"}));
    let driver = value!({"metadata": {"name": "x.example.com"}, "spec": {"storageCapacity": true}});
    cluster.create("csidrivers.storage.k8s.io", "", driver);
    create_unbound_claim(&mut cluster, "c");
    cluster.create("pods", "default", with_claim(pod("p", "1"), "c"));
    cluster.settle();
    assert!(
        condition(&cluster, "p").contains("2 node(s) did not have enough free storage"),
        "{}",
        condition(&cluster, "p")
    );
    for (name, capacity, max) in
        [("small", "512Mi", "512Mi"), ("parts", "9Gi", "1Mi"), ("large", "2Gi", "2Gi")]
    {
        let selected = if name == "large" { "yes" } else { "no" };
        let reported = value!({
            "metadata": {"name": (name)}, "storageClassName": "late", "capacity": (capacity),
            "maximumVolumeSize": (max), "nodeTopology": {"matchLabels": {"disk": (selected)}},
        });
        cluster.create("csistoragecapacities.storage.k8s.io", "default", reported);
    }
    cluster.run(Duration::from_secs(20));
    assert_eq!(selected_node(&cluster, "c"), "n2");
    cluster.assert_quiet();
}

#[test]
fn claim_with_the_name_of_an_ephemeral_volume_but_another_owner_is_not_used() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "4", value!({}));
    create_unbound_claim(&mut cluster, "p-v");
    let template = value!({"spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let volumes = value!([{"name": "v", "ephemeral": {"volumeClaimTemplate": (template)}}]);
    cluster.create("pods", "default", with_field(pod("p", "1"), "volumes", volumes));
    cluster.settle();
    let foreign = "PVC default/p-v was not created for pod default/p (pod is not owner)";
    assert!(condition(&cluster, "p").contains(foreign), "{}", condition(&cluster, "p"));
    assert_eq!(selected_node(&cluster, "p-v"), "");
    cluster.assert_quiet();
}

#[test]
fn pods_share_a_disk_only_if_all_mount_it_read_only() {
    let mut cluster = cluster();
    add_node(&mut cluster, "n", "4", value!({}));
    for (name, read_only) in [("p1", true), ("p2", true), ("p3", false)] {
        let volumes = value!([{"name": "v", "gcePersistentDisk": {"pdName": "d", "readOnly": (read_only)}}]);
        cluster.create("pods", "default", with_field(pod(name, "1"), "volumes", volumes));
        cluster.settle();
    }
    assert_eq!((node_of(&cluster, "p1").as_str(), node_of(&cluster, "p2").as_str()), ("n", "n"));
    assert!(
        condition(&cluster, "p3").contains("1 node(s) had no available disk"),
        "{}",
        condition(&cluster, "p3")
    );
}
