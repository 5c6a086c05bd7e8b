//! Tests of volumes and claims in a control plane.

use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

use super::host_path::{DIRECTORY, DefaultStorageClass};
use super::*;

fn cluster() -> Cluster {
    Cluster::new(|| (vec![Box::new(VolumeBinder::new(DIRECTORY))], crate::indexes::all()), 5)
}

fn volume(name: &str, size: &str, policy: &str) -> Value {
    value!({
        "metadata": {"name": (name), "labels": {"name": (name)}},
        "spec": {
            "capacity": {"storage": (size)},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": (policy),
            "nfs": {"server": "s", "path": "/"},
        },
    })
}

fn claim(name: &str, size: &str, extra: &[(&str, Value)]) -> Value {
    let mut claim = value!({
        "metadata": {"name": (name)},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": (size)}},
            "storageClassName": "",
        },
    });
    for (field, value) in extra {
        claim.ensure_map("spec").insert(*field, value.clone());
    }
    claim
}

fn class(name: &str, provisioner: &str, mode: &str) -> Value {
    value!({
        "metadata": {"name": (name)},
        "provisioner": (provisioner),
        "reclaimPolicy": "Delete",
        "volumeBindingMode": (mode),
    })
}

fn phase(cluster: &Cluster, resource: &str, path: &str) -> String {
    cluster
        .get(resource, path)
        .map_or("gone".to_owned(), |object| object.str_at(&["status", "phase"]).to_owned())
}

fn bound_to(cluster: &Cluster, claim: &str) -> String {
    let claim = cluster.get("persistentvolumeclaims", &format!("default/{claim}")).unwrap();
    claim.str_at(&["spec", "volumeName"]).to_owned()
}

fn has_event_text(cluster: &Cluster, reason: &str, text: &str) -> bool {
    let events = cluster.list("events");
    events
        .iter()
        .any(|event| event.str_at(&["reason"]) == reason && event.str_at(&["message"]).contains(text))
}

/// Deletes a claim and its finalizer: the protection controller does not run here.
fn delete_claim(cluster: &mut Cluster, name: &str) {
    let path = format!("default/{name}");
    cluster.patch("persistentvolumeclaims", &path, "", value!({"metadata": {"finalizers": []}})).unwrap();
    cluster.delete("persistentvolumeclaims", &path, &Value::map()).unwrap();
}

#[test]
fn claim_takes_the_smallest_volume_that_fits() {
    let mut cluster = cluster();
    for (name, size) in [("big", "9Gi"), ("fits", "2Gi"), ("small", "1Mi")] {
        cluster.create("persistentvolumes", "", volume(name, size, "Retain"));
    }
    cluster.settle();
    assert_eq!(phase(&cluster, "persistentvolumes", "fits"), "Available");
    cluster.create("persistentvolumeclaims", "default", claim("c", "1Gi", &[]));
    cluster.settle();
    assert_eq!(bound_to(&cluster, "c"), "fits");
    assert_eq!(phase(&cluster, "persistentvolumes", "fits"), "Bound");
    let found = cluster.get("persistentvolumeclaims", "default/c").unwrap();
    assert_eq!(found.str_at(&["status", "phase"]), "Bound");
    assert_eq!(found.str_at(&["status", "capacity", "storage"]), "2Gi");
    assert_eq!(found.str_at(&["metadata", "annotations", BIND_COMPLETED]), "yes");
    assert_eq!(found.str_at(&["metadata", "annotations", BOUND_BY_CONTROLLER]), "yes");
    let found = cluster.get("persistentvolumes", "fits").unwrap();
    assert_eq!(found.str_at(&["metadata", "annotations", BOUND_BY_CONTROLLER]), "yes");
    cluster.assert_quiet();
}

#[test]
fn pending_claim_has_one_event_and_is_bound_when_a_volume_appears() {
    let mut cluster = cluster();
    cluster.create("persistentvolumeclaims", "default", claim("c", "1Gi", &[]));
    cluster.settle();
    assert!(has_event_text(&cluster, "FailedBinding", "no persistent volumes available for this claim"));
    assert_eq!(phase(&cluster, "persistentvolumeclaims", "default/c"), "Pending");
    cluster.assert_quiet();
    let events = cluster.list("events").len();
    cluster.run(std::time::Duration::from_secs(300));
    assert_eq!(cluster.list("events").len(), events);
    cluster.create("persistentvolumes", "", volume("v", "1Gi", "Retain"));
    cluster.settle();
    assert_eq!(bound_to(&cluster, "c"), "v");
    cluster.assert_quiet();
}

#[test]
fn selector_mode_and_class_must_match() {
    let mut cluster = cluster();
    let mut block = volume("block", "1Gi", "Retain");
    block.ensure_map("spec").insert("volumeMode", "Block");
    let mut classy = volume("classy", "1Gi", "Retain");
    classy.ensure_map("spec").insert("storageClassName", "x");
    for volume in [block, classy, volume("plain", "2Gi", "Retain"), volume("chosen", "3Gi", "Retain")] {
        cluster.create("persistentvolumes", "", volume);
    }
    let selector = value!({"matchLabels": {"name": "chosen"}});
    cluster.create("persistentvolumeclaims", "default", claim("s", "1Gi", &[("selector", selector)]));
    cluster.create("persistentvolumeclaims", "default", claim("p", "1Gi", &[]));
    let many = [("accessModes", value!(["ReadWriteMany"]))];
    cluster.create("persistentvolumeclaims", "default", claim("m", "1Gi", &many));
    cluster.settle();
    assert_eq!((bound_to(&cluster, "s"), bound_to(&cluster, "p")), ("chosen".into(), "plain".into()));
    assert_eq!(bound_to(&cluster, "m"), "");
    cluster.assert_quiet();
}

#[test]
fn reserved_volume_waits_and_claim_by_name_gets_no_other_volume() {
    let mut cluster = cluster();
    let mut kept = volume("kept", "9Gi", "Retain");
    kept.ensure_map("spec").insert("claimRef", value!({"namespace": "default", "name": "mine"}));
    cluster.create("persistentvolumes", "", kept);
    cluster.create("persistentvolumes", "", volume("free", "1Gi", "Retain"));
    cluster.create("persistentvolumeclaims", "default", claim("other", "5Gi", &[]));
    cluster.create("persistentvolumeclaims", "default", claim("mine", "1Gi", &[]));
    let by_name = |name: &str| [("volumeName", Value::from(name))];
    cluster.create("persistentvolumeclaims", "default", claim("named", "5Gi", &by_name("free")));
    cluster.create("persistentvolumeclaims", "default", claim("late", "1Gi", &by_name("kept")));
    cluster.settle();
    assert_eq!((bound_to(&cluster, "mine"), bound_to(&cluster, "other")), ("kept".into(), "".into()));
    let found = cluster.get("persistentvolumes", "kept").unwrap();
    assert!(found.at(&["metadata", "annotations", BOUND_BY_CONTROLLER]).is_none(), "a user chose the volume");
    assert!(has_event_text(
        &cluster,
        "VolumeMismatch",
        "Cannot bind to requested volume \"free\": requested PV is too small"
    ));
    assert!(has_event_text(&cluster, "FailedBinding", "volume \"kept\" already bound to a different claim."));
    assert_eq!(phase(&cluster, "persistentvolumeclaims", "default/late"), "Pending");
    cluster.assert_quiet();
}

#[test]
fn released_volume_is_retained_or_fails_deletion() {
    let mut cluster = cluster();
    cluster.create("persistentvolumes", "", volume("kept", "1Gi", "Retain"));
    cluster.create("persistentvolumes", "", volume("nobodys", "2Gi", "Delete"));
    cluster.create("persistentvolumeclaims", "default", claim("a", "1Gi", &[]));
    cluster.create("persistentvolumeclaims", "default", claim("b", "2Gi", &[]));
    cluster.settle();
    delete_claim(&mut cluster, "a");
    delete_claim(&mut cluster, "b");
    cluster.settle();
    assert_eq!(phase(&cluster, "persistentvolumes", "kept"), "Released");
    assert_eq!(phase(&cluster, "persistentvolumes", "nobodys"), "Failed");
    assert!(has_event_text(&cluster, "VolumeFailedDelete", "no deletable volume plugin matched"));
    cluster.assert_quiet();
    // A new claim of the same name is another claim.
    cluster.create("persistentvolumeclaims", "default", claim("a", "1Gi", &[]));
    cluster.settle();
    assert_eq!(bound_to(&cluster, "a"), "");
    cluster.patch("persistentvolumes", "kept", "", value!({"spec": {"claimRef": null}})).unwrap();
    cluster.settle();
    assert_eq!(bound_to(&cluster, "a"), "kept");
    cluster.assert_quiet();
}

#[test]
fn claim_of_a_deleted_volume_is_lost() {
    let mut cluster = cluster();
    cluster.create("persistentvolumes", "", volume("v", "1Gi", "Retain"));
    cluster.create("persistentvolumeclaims", "default", claim("c", "1Gi", &[]));
    cluster.settle();
    cluster.patch("persistentvolumes", "v", "", value!({"metadata": {"finalizers": []}})).unwrap();
    cluster.delete("persistentvolumes", "v", &Value::map()).unwrap();
    cluster.settle();
    assert_eq!(phase(&cluster, "persistentvolumeclaims", "default/c"), "Lost");
    assert!(has_event_text(
        &cluster,
        "ClaimLost",
        "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
    ));
    cluster.assert_quiet();
}

#[test]
fn wait_for_first_consumer_waits_for_pod_and_node() {
    let mut cluster = cluster();
    let waiting = class("local", "kubernetes.io/host-path", "WaitForFirstConsumer");
    cluster.create("storageclasses.storage.k8s.io", "", waiting);
    let classed = [("storageClassName", Value::from("local"))];
    cluster.create("persistentvolumeclaims", "default", claim("c", "1Gi", &classed));
    cluster.settle();
    assert!(has_event_text(
        &cluster,
        "WaitForFirstConsumer",
        "waiting for first consumer to be created before binding"
    ));
    let pod = value!({
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        },
    });
    cluster.create("pods", "default", pod);
    cluster.settle();
    assert!(has_event_text(&cluster, "WaitForPodScheduled", "waiting for pod p to be scheduled"));
    cluster.create(
        "nodes",
        "",
        value!({"metadata": {"name": "n", "labels": {"kubernetes.io/hostname": "n"}}}),
    );
    let chosen = value!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}});
    cluster.patch("persistentvolumeclaims", "default/c", "", chosen).unwrap();
    cluster.settle();
    let name = bound_to(&cluster, "c");
    let found = cluster.get("persistentvolumes", &name).unwrap();
    assert!(found.at(&["spec", "nodeAffinity", "required"]).is_some(), "{found:?}");
    cluster.assert_quiet();
}

#[test]
fn external_provisioner_is_annotated_and_awaited() {
    let mut cluster = cluster();
    cluster.create("storageclasses.storage.k8s.io", "", class("ext", "example.com/maker", "Immediate"));
    let none = class("none", "kubernetes.io/no-provisioner", "Immediate");
    cluster.create("storageclasses.storage.k8s.io", "", none);
    for (name, class) in [("a", "ext"), ("b", "none"), ("c", "absent")] {
        let classed = [("storageClassName", Value::from(class))];
        cluster.create("persistentvolumeclaims", "default", claim(name, "1Gi", &classed));
    }
    cluster.settle();
    assert!(has_event_text(
        &cluster,
        "ExternalProvisioning",
        "by the external provisioner 'example.com/maker' or manually"
    ));
    assert!(has_event_text(
        &cluster,
        "ProvisioningFailed",
        "no volume plugin matched name: kubernetes.io/no-provisioner"
    ));
    assert!(has_event_text(
        &cluster,
        "ProvisioningFailed",
        "storageclass.storage.k8s.io \"absent\" not found"
    ));
    let found = cluster.get("persistentvolumeclaims", "default/a").unwrap();
    let named = ["metadata", "annotations", "volume.kubernetes.io/storage-provisioner"];
    assert_eq!(found.str_at(&named), "example.com/maker");
    cluster.assert_quiet();
}

#[test]
fn started_binding_completes_on_a_deleted_volume() {
    let mut cluster = cluster();
    cluster.create("persistentvolumes", "", volume("v", "1Gi", "Retain"));
    cluster.settle();
    cluster.create("persistentvolumeclaims", "default", claim("c", "1Gi", &[]));
    cluster.observe();
    cluster.plan();
    while phase(&cluster, "persistentvolumes", "v") != "Bound" {
        assert!(cluster.perform());
    }
    assert_eq!(bound_to(&cluster, "c"), "", "the volume is bound before the claim relies on it");
    cluster.crash();
    cluster.delete("persistentvolumes", "v", &Value::map()).unwrap();
    cluster.settle();
    assert_eq!(bound_to(&cluster, "c"), "v");
    assert_eq!(phase(&cluster, "persistentvolumeclaims", "default/c"), "Bound");
    cluster.assert_quiet();
}

#[test]
fn volume_of_another_mode_is_not_bound_with_events_on_both() {
    let mut cluster = cluster();
    cluster.create("persistentvolumeclaims", "default", claim("c", "1Gi", &[]));
    let found = cluster.get("persistentvolumeclaims", "default/c").unwrap();
    let mut block = volume("block", "1Gi", "Retain");
    let spec = block.ensure_map("spec");
    spec.insert("volumeMode", "Block");
    let uid = found.str_at(&["metadata", "uid"]);
    spec.insert("claimRef", value!({"namespace": "default", "name": "c", "uid": (uid)}));
    cluster.create("persistentvolumes", "", block);
    cluster.settle();
    assert_eq!(bound_to(&cluster, "c"), "");
    for message in [
        "Cannot bind PersistentVolume to requested PersistentVolumeClaim \"c\" due to incompatible volumeMode.",
        "Cannot bind PersistentVolume \"block\" to requested PersistentVolumeClaim due to incompatible volumeMode.",
    ] {
        assert!(has_event_text(&cluster, "VolumeMismatch", message), "{message}");
    }
    let events = cluster.list("events");
    assert!(
        events.iter().all(|event| event.str_at(&["source", "component"]) == "persistentvolume-controller")
    );
    cluster.assert_quiet();
}

#[test]
fn recycled_volume_waits_for_pods_and_then_fails() {
    let mut cluster = cluster();
    cluster.create("persistentvolumes", "", volume("v", "1Gi", "Recycle"));
    cluster.create("persistentvolumeclaims", "default", claim("c", "1Gi", &[]));
    let pod = value!({
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        },
    });
    cluster.create("pods", "default", pod);
    cluster.settle();
    delete_claim(&mut cluster, "c");
    cluster.settle();
    assert_eq!(phase(&cluster, "persistentvolumes", "v"), "Released");
    assert!(has_event_text(&cluster, "VolumeFailedRecycle", "Volume is used by pods: default/p"));
    cluster.delete("pods", "default/p", &value!({"gracePeriodSeconds": 0})).unwrap();
    cluster.patch("persistentvolumes", "v", "", value!({"metadata": {"labels": {"look": "again"}}})).unwrap();
    cluster.settle();
    assert_eq!(phase(&cluster, "persistentvolumes", "v"), "Failed");
    assert!(has_event_text(&cluster, "VolumeFailedRecycle", "No recycler plugin found for the volume!"));
    cluster.assert_quiet();
}

#[test]
fn migrated_csi_driver_is_annotated_and_left_alone() {
    let mut cluster = cluster();
    let mut old = volume("old", "1Gi", "Delete");
    let made_by = value!({"pv.kubernetes.io/provisioned-by": "kubernetes.io/aws-ebs"});
    old.ensure_map("metadata").insert("annotations", made_by);
    cluster.create("persistentvolumes", "", old);
    let mut claim_value = claim("c", "1Gi", &[]);
    let annotations = value!({"volume.beta.kubernetes.io/storage-provisioner": "kubernetes.io/aws-ebs"});
    claim_value.ensure_map("metadata").insert("annotations", annotations);
    cluster.create("persistentvolumeclaims", "default", claim_value);
    cluster.settle();
    for (resource, path) in [("persistentvolumes", "old"), ("persistentvolumeclaims", "default/c")] {
        let found = cluster.get(resource, path).unwrap();
        assert_eq!(found.str_at(&["metadata", "annotations", MIGRATED_TO]), "ebs.csi.aws.com", "{resource}");
    }
    assert_eq!(bound_to(&cluster, "c"), "old");
    delete_claim(&mut cluster, "c");
    cluster.settle();
    assert_eq!(phase(&cluster, "persistentvolumes", "old"), "Released", "the driver deletes it");
    cluster.assert_quiet();
}

#[test]
fn volume_whose_claim_is_not_visible_yet_is_not_released() {
    // View of a loop that has seen newer volumes than claims.
    let read = |resource: &str, path: &str, revision: u64, text: &str| {
        let key = Key::from_path(&setpoint_api::Resource::new(resource).unwrap(), path).unwrap();
        let text = text.to_owned();
        Object::read(key, setpoint_api::Revision(revision), Time::from_seconds(1000), text).unwrap()
    };
    let mut world = setpoint_reconcile::World::new(setpoint_views::world_config(crate::indexes::all()));
    world.put(read(
        "persistentvolumeclaims",
        "default/other",
        5,
        r#"{"metadata":{"name":"other","uid":"o"}}"#,
    ));
    let made = r#"{"metadata":{"name":"v","uid":"v"},"spec":{"persistentVolumeReclaimPolicy":"Delete",
        "claimRef":{"namespace":"default","name":"c","uid":"c"}},"status":{"phase":"Pending"}}"#;
    let made = read("persistentvolumes", "v", 7, made);
    world.put(made.clone());
    let answers = std::collections::BTreeMap::new();
    let plan = |world: &WorldReader<'_>, now: i64| {
        let seen = Seen { memo: String::new(), answers: &answers, failure: None };
        let binder = VolumeBinder::new(DIRECTORY);
        Planner::plan(&binder, made.key(), world, &seen, Time::from_seconds(now), Seed(0))
    };
    let early = plan(&world.reader(), 1001);
    assert!(early.is_quiet() && early.requeue_at.is_some());
    assert!(!plan(&world.reader(), 1060).is_quiet(), "the wait is bounded");
    world.advance_to(setpoint_api::Revision(7));
    assert!(!plan(&world.reader(), 1001).is_quiet(), "the world shows that the claim was deleted");
}

fn with_default_class() -> Cluster {
    Cluster::new(
        || {
            let list: Vec<Box<dyn setpoint_reconcile::Controller>> =
                vec![Box::new(VolumeBinder::new(DIRECTORY)), Box::new(DefaultStorageClass)];
            (list, crate::indexes::all())
        },
        9,
    )
}

fn plain(name: &str) -> Value {
    value!({
        "metadata": {"name": (name)},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    })
}

#[test]
fn default_class_binds_a_claim_and_deletes_its_volume_with_it() {
    let mut cluster = with_default_class();
    // The claim is created before the class, which it gets later.
    cluster.create("persistentvolumeclaims", "default", plain("c"));
    cluster.settle();
    assert_eq!(phase(&cluster, "persistentvolumeclaims", "default/c"), "Bound");
    let name = bound_to(&cluster, "c");
    let found = cluster.get("persistentvolumes", &name).unwrap();
    assert_eq!(found.str_at(&["spec", "hostPath", "path"]), format!("{DIRECTORY}/{name}"));
    assert_eq!(found.str_at(&["status", "phase"]), "Bound");
    assert!(has_event_text(&cluster, "ProvisioningSucceeded", "using kubernetes.io/host-path"));
    cluster.assert_quiet();
    delete_claim(&mut cluster, "c");
    cluster.settle();
    let found = cluster.get("persistentvolumes", &name).unwrap();
    assert!(found.at(&["metadata", "deletionTimestamp"]).is_some());
    let left = found.at(&["metadata", "finalizers"]).and_then(Value::as_list).unwrap().to_vec();
    assert_eq!(
        left,
        [Value::from("kubernetes.io/pv-protection")],
        "another controller removes the finalizer"
    );
    cluster.assert_quiet();
}

#[test]
fn crash_between_any_two_writes_converges_to_the_same_state() {
    for crash_after in 0..14 {
        let mut cluster = with_default_class();
        cluster.create("persistentvolumes", "", volume("v", "1Gi", "Retain"));
        cluster.create("persistentvolumeclaims", "default", claim("c", "1Gi", &[]));
        cluster.create("persistentvolumeclaims", "default", claim("rival", "1Gi", &[]));
        cluster.create("persistentvolumeclaims", "default", plain("d"));
        cluster.observe();
        cluster.plan();
        for _ in 0..crash_after {
            if !cluster.perform() {
                cluster.observe();
                cluster.plan();
            }
        }
        cluster.crash();
        cluster.settle();
        let bound = [bound_to(&cluster, "c"), bound_to(&cluster, "rival")];
        assert_eq!(bound.iter().filter(|name| *name == "v").count(), 1, "crash after {crash_after}");
        assert_eq!(phase(&cluster, "persistentvolumeclaims", "default/d"), "Bound");
        assert_eq!(cluster.list("persistentvolumes").len(), 2, "no volume was created twice");
        cluster.assert_quiet();
    }
}

/// Random edits at random times converge, and no volume is bound to two claims.
#[test]
fn random_edits_converge_and_no_volume_has_two_claims() {
    for seed in 0..60 {
        let mut cluster = with_default_class();
        let mut rng = fastrand::Rng::with_seed(seed);
        for _ in 0..40 {
            let (v, c) = (format!("v{}", rng.u8(..4)), format!("c{}", rng.u8(..4)));
            let at = format!("default/{c}");
            let class = if rng.bool() { "" } else { "standard" };
            match rng.u8(..9) {
                0 | 1 => drop(cluster.try_create("persistentvolumes", "", volume(&v, "1Gi", "Retain"))),
                2 | 3 => {
                    let named = if rng.bool() { v.as_str() } else { "" };
                    let extra =
                        [("storageClassName", Value::from(class)), ("volumeName", Value::from(named))];
                    let extra = if named.is_empty() { &extra[..1] } else { &extra[..] };
                    let _ = cluster.try_create("persistentvolumeclaims", "default", claim(&c, "1Gi", extra));
                }
                4 => drop(cluster.delete("persistentvolumeclaims", &at, &Value::map())),
                5 => {
                    let bare = value!({"metadata": {"finalizers": []}});
                    let _ = cluster.patch("persistentvolumeclaims", &at, "", bare.clone());
                    let _ = cluster.patch("persistentvolumes", &v, "", bare);
                }
                6 => drop(cluster.delete("persistentvolumes", &v, &Value::map())),
                7 => {
                    let free = value!({"spec": {"claimRef": null}});
                    let _ = cluster.patch("persistentvolumes", &v, "", free);
                }
                _ => cluster.crash(),
            }
            cluster.observe_some();
            cluster.plan();
            for _ in 0..rng.u8(..4) {
                cluster.perform();
            }
        }
        cluster.mend_watches();
        cluster.settle();
        cluster.run(std::time::Duration::from_secs(600));
        cluster.assert_quiet();
        let mut bound: Vec<String> = cluster
            .list("persistentvolumeclaims")
            .iter()
            .filter(|claim| claim.str_at(&["status", "phase"]) == "Bound")
            .map(|claim| claim.str_at(&["spec", "volumeName"]).to_owned())
            .collect();
        let all = bound.len();
        bound.sort();
        bound.dedup();
        assert_eq!(bound.len(), all, "seed {seed}");
    }
}
