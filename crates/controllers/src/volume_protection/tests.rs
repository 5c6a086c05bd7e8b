//! Protection in a whole control plane, beside those who bind.

use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

use super::*;
use crate::volume_binder::VolumeBinder;

fn cluster() -> Cluster {
    Cluster::new(
        || {
            let list: Vec<Box<dyn setpoint_reconcile::Controller>> = vec![
                Box::new(VolumeBinder::new("/d")),
                Box::new(ClaimProtection),
                Box::new(VolumeProtection),
                Box::new(AttributesClassProtection),
            ];
            (list, crate::indexes::all())
        },
        5,
    )
}

fn bound() -> Cluster {
    let mut cluster = cluster();
    let volume = value!({
        "metadata": {"name": "v"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "nfs": {"server": "s", "path": "/"},
        },
    });
    let claim = value!({
        "metadata": {"name": "c"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
        },
    });
    cluster.create("persistentvolumes", "", volume);
    cluster.create("persistentvolumeclaims", "default", claim);
    cluster.settle();
    cluster
}

fn pod(node: &str) -> Value {
    value!({
        "metadata": {"name": "p"},
        "spec": {
            "nodeName": (node),
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        },
    })
}

fn unused(cluster: &Cluster) -> String {
    let claim = cluster.get("persistentvolumeclaims", "default/c").unwrap();
    let conditions = claim.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
    conditions.iter().map(|one| one.str_at(&["status"]).to_owned()).collect()
}

#[test]
fn a_claim_goes_when_its_pod_is_gone_and_its_volume_after_it() {
    let mut cluster = bound();
    assert_eq!(unused(&cluster), "True");
    cluster.create("pods", "default", pod("n"));
    cluster.settle();
    assert_eq!(unused(&cluster), "False");
    cluster.assert_quiet();
    cluster.delete("persistentvolumes", "v", &Value::map()).unwrap();
    cluster.delete("persistentvolumeclaims", "default/c", &Value::map()).unwrap();
    cluster.settle();
    assert!(cluster.get("persistentvolumeclaims", "default/c").is_some(), "a pod uses it");
    assert!(cluster.get("persistentvolumes", "v").is_some(), "the claim has it");
    cluster.assert_quiet();
    cluster.delete("pods", "default/p", &value!({"gracePeriodSeconds": 0})).unwrap();
    cluster.settle();
    assert!(cluster.get("persistentvolumeclaims", "default/c").is_none());
    assert!(cluster.get("persistentvolumes", "v").is_none());
    cluster.assert_quiet();
}

#[test]
fn a_pod_without_node_does_not_keep_its_claim() {
    let mut cluster = bound();
    cluster.create("pods", "default", pod(""));
    cluster.delete("persistentvolumeclaims", "default/c", &Value::map()).unwrap();
    cluster.settle();
    assert!(cluster.get("persistentvolumeclaims", "default/c").is_none());
    assert_eq!(cluster.get("persistentvolumes", "v").unwrap().str_at(&["status", "phase"]), "Released");
    cluster.assert_quiet();
}

#[test]
fn a_finalizer_that_somebody_took_comes_back() {
    let mut cluster = bound();
    let bare = value!({"metadata": {"finalizers": []}});
    cluster.patch("persistentvolumeclaims", "default/c", "", bare.clone()).unwrap();
    cluster.patch("persistentvolumes", "v", "", bare).unwrap();
    cluster.settle();
    for (resource, path) in [("persistentvolumeclaims", "default/c"), ("persistentvolumes", "v")] {
        let object = cluster.get(resource, path).unwrap();
        assert_eq!(object.at(&["metadata", "finalizers"]).and_then(Value::as_list).unwrap().len(), 1);
    }
    cluster.assert_quiet();
}

#[test]
fn a_class_of_attributes_goes_after_its_last_claim() {
    let mut cluster = cluster();
    let class = value!({"metadata": {"name": "gold"}, "driverName": "d", "parameters": {"a": "b"}});
    cluster.create("volumeattributesclasses.storage.k8s.io", "", class);
    let claim = value!({
        "metadata": {"name": "c"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
            "volumeAttributesClassName": "gold",
        },
    });
    cluster.create("persistentvolumeclaims", "default", claim);
    cluster.settle();
    cluster.delete("volumeattributesclasses.storage.k8s.io", "gold", &Value::map()).unwrap();
    cluster.settle();
    assert!(cluster.get("volumeattributesclasses.storage.k8s.io", "gold").is_some());
    cluster.assert_quiet();
    cluster.delete("persistentvolumeclaims", "default/c", &Value::map()).unwrap();
    cluster.settle();
    assert!(cluster.get("volumeattributesclasses.storage.k8s.io", "gold").is_none());
    cluster.assert_quiet();
}
