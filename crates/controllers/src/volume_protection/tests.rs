//! Tests of storage object protection in a control plane with the volume binder.

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
    conditions.iter().map(|condition| condition.str_at(&["status"]).to_owned()).collect()
}

#[test]
fn claim_is_removed_after_its_pod_and_volume_after_its_claim() {
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
fn unscheduled_pod_does_not_keep_its_claim() {
    let mut cluster = bound();
    cluster.create("pods", "default", pod(""));
    cluster.delete("persistentvolumeclaims", "default/c", &Value::map()).unwrap();
    cluster.settle();
    assert!(cluster.get("persistentvolumeclaims", "default/c").is_none());
    assert_eq!(cluster.get("persistentvolumes", "v").unwrap().str_at(&["status", "phase"]), "Released");
    cluster.assert_quiet();
}

#[test]
fn removed_finalizer_is_restored() {
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
fn attributes_class_is_removed_after_its_last_claim() {
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

#[test]
fn attributes_class_stays_while_volumes_or_claims_refer_to_it() {
    let class = value!({"metadata": {"name": "gold"}, "driverName": "d", "parameters": {"a": "b"}});
    let had = value!({"currentVolumeAttributesClassName": "gold"});
    let gets =
        value!({"modifyVolumeStatus": {"targetVolumeAttributesClassName": "gold", "status": "Pending"}});
    for status in [had, gets] {
        let mut cluster = bound();
        cluster.create("volumeattributesclasses.storage.k8s.io", "", class.clone());
        cluster.patch("persistentvolumeclaims", "default/c", "status", value!({"status": (status)})).unwrap();
        cluster.settle();
        cluster.delete("volumeattributesclasses.storage.k8s.io", "gold", &Value::map()).unwrap();
        cluster.settle();
        assert!(cluster.get("volumeattributesclasses.storage.k8s.io", "gold").is_some());
        cluster.assert_quiet();
        let none = value!({"currentVolumeAttributesClassName": null, "modifyVolumeStatus": null});
        cluster.patch("persistentvolumeclaims", "default/c", "status", value!({"status": (none)})).unwrap();
        cluster.settle();
        assert!(cluster.get("volumeattributesclasses.storage.k8s.io", "gold").is_none());
        cluster.assert_quiet();
    }
    let mut cluster = cluster();
    cluster.create("volumeattributesclasses.storage.k8s.io", "", class);
    let volume = value!({
        "metadata": {"name": "v"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "d", "volumeHandle": "h"},
            "volumeAttributesClassName": "gold",
        },
    });
    cluster.create("persistentvolumes", "", volume);
    cluster.delete("volumeattributesclasses.storage.k8s.io", "gold", &Value::map()).unwrap();
    cluster.settle();
    assert!(cluster.get("volumeattributesclasses.storage.k8s.io", "gold").is_some());
    cluster.delete("persistentvolumes", "v", &Value::map()).unwrap();
    cluster.settle();
    assert!(cluster.get("volumeattributesclasses.storage.k8s.io", "gold").is_none());
    cluster.assert_quiet();
}

#[test]
fn claim_whose_pods_are_not_visible_yet_is_kept() {
    let read = |resource: &str, path: &str, revision: u64, text: &str| {
        let key = Key::from_path(&setpoint_api::Resource::new(resource).unwrap(), path).unwrap();
        let text = text.to_owned();
        Object::read(key, setpoint_api::Revision(revision), Time::from_seconds(1000), text).unwrap()
    };
    let mut world = setpoint_reconcile::World::new(setpoint_views::world_config(crate::indexes::all()));
    world.put(read("pods", "default/other", 5, r#"{"metadata":{"name":"other","uid":"o"}}"#));
    let going = r#"{"metadata":{"name":"c","namespace":"default","uid":"c","finalizers":["kubernetes.io/pvc-protection"],
        "deletionTimestamp":"2026-11-15T20:07:00Z"}}"#;
    let going = read("persistentvolumeclaims", "default/c", 7, going);
    world.put(going.clone());
    let answers = std::collections::BTreeMap::new();
    let plan = |world: &WorldReader<'_>| {
        let seen = Seen { memo: (), answers: &answers, failure: None };
        Planner::plan(&ClaimProtection, going.key(), world, &seen, Time::from_seconds(1001), Seed(0))
    };
    let early = plan(&world.reader());
    assert!(early.is_quiet() && early.requeue_at.is_some());
    world.advance_to(setpoint_api::Revision(7));
    assert!(!plan(&world.reader()).is_quiet());
}
