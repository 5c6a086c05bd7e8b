//! Tests of volume expansion in a control plane with the volume binder.

use std::time::Duration;

use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

use super::*;
use crate::testing::{condition as reported, has_event};
use crate::volume_binder::VolumeBinder;
use crate::volume_binder::host_path::{DIRECTORY, DefaultStorageClass};

fn empty() -> Cluster {
    let controllers = || {
        let list: Vec<Box<dyn setpoint_reconcile::Controller>> =
            vec![Box::new(Expander), Box::new(VolumeBinder::new(DIRECTORY)), Box::new(DefaultStorageClass)];
        (list, crate::indexes::all())
    };
    Cluster::new(controllers, 3)
}

fn claim(name: &str, extra: &[(&str, &str)]) -> Value {
    let mut claim = value!({
        "metadata": {"name": (name)},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    for (field, value) in extra {
        claim.ensure_map("spec").insert(*field, *value);
    }
    claim
}

fn cluster() -> Cluster {
    let mut cluster = empty();
    cluster.settle();
    cluster.create("persistentvolumeclaims", "default", claim("c", &[]));
    cluster.settle();
    cluster
}

fn request_size(cluster: &mut Cluster, size: &str) {
    let patch = value!({"spec": {"resources": {"requests": {"storage": (size)}}}});
    cluster.patch("persistentvolumeclaims", "default/c", "", patch).unwrap();
}

/// Capacity of the claim, capacity of its volume, and the resize conditions.
fn sizes(cluster: &Cluster) -> (String, String, String) {
    let claim = cluster.get("persistentvolumeclaims", "default/c").unwrap();
    let volume = cluster.get("persistentvolumes", claim.str_at(&["spec", "volumeName"])).unwrap();
    (
        claim.str_at(&["status", "capacity", "storage"]).to_owned(),
        volume.str_at(&["spec", "capacity", "storage"]).to_owned(),
        reported(cluster, "persistentvolumeclaims", "default/c", "Resizing"),
    )
}

fn assert_expanded(cluster: &Cluster, size: &str) {
    assert_eq!(sizes(cluster), (size.to_owned(), size.to_owned(), String::new()));
    let claim = cluster.get("persistentvolumeclaims", "default/c").unwrap();
    assert!(claim.at(&["status", "allocatedResourceStatuses"]).is_none_or(Value::is_empty), "{claim:?}");
}

#[test]
fn claim_of_the_built_in_provisioner_grows() {
    let mut cluster = cluster();
    assert_expanded(&cluster, "1Gi");
    cluster.assert_quiet();
    request_size(&mut cluster, "2Gi");
    cluster.settle();
    assert_expanded(&cluster, "2Gi");
    let claim = cluster.get("persistentvolumeclaims", "default/c").unwrap();
    assert_eq!(claim.str_at(&["metadata", "annotations", RESIZER_ANNOTATION]), "kubernetes.io/host-path");
    assert_eq!(claim.str_at(&["status", "allocatedResources", "storage"]), "2Gi");
    assert!(has_event(&cluster, "VolumeResizeSuccessful", "ExpandVolume succeeded for volume default/c"));
    cluster.assert_quiet();
    let class = cluster.get("storageclasses.storage.k8s.io", "standard").unwrap();
    assert_eq!(class.at(&["allowVolumeExpansion"]), Some(&Value::Bool(true)));
}

#[test]
fn growing_claim_has_the_resizing_condition() {
    let mut cluster = cluster();
    request_size(&mut cluster, "2Gi");
    cluster.observe();
    cluster.plan();
    let mut phases = Vec::new();
    while cluster.perform() {
        cluster.observe();
        phases.push(sizes(&cluster));
    }
    let at = |claim: &str, volume: &str, reported: &str| {
        (claim.to_owned(), volume.to_owned(), reported.to_owned())
    };
    assert!(phases.contains(&at("1Gi", "1Gi", "True  ")), "{phases:?}");
    assert!(phases.contains(&at("1Gi", "2Gi", "True  ")), "{phases:?}");
    assert_eq!(phases.last().unwrap(), &at("2Gi", "2Gi", ""));
}

#[test]
fn claim_of_a_csi_volume_waits_for_the_external_resizer() {
    let sources = [
        (
            "csi",
            value!({"driver": "d.example.com", "volumeHandle": "h"}),
            "waiting for an external controller to expand this PVC",
        ),
        (
            "nfs",
            value!({"server": "s", "path": "/"}),
            "waiting for an external controller to expand this PVC",
        ),
        (
            "awsElasticBlockStore",
            value!({"volumeID": "v"}),
            "CSI migration enabled for kubernetes.io/aws-ebs; waiting for external resizer to expand the pvc",
        ),
    ];
    for (field, source, message) in sources {
        let mut cluster = empty();
        let class = value!({"metadata": {"name": "ext"}, "provisioner": "p", "allowVolumeExpansion": true});
        cluster.create("storageclasses.storage.k8s.io", "", class);
        let mut volume = value!({
            "metadata": {"name": "v"},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "ext"},
        });
        volume.ensure_map("spec").insert(field, source);
        cluster.create("persistentvolumes", "", volume);
        cluster.create(
            "persistentvolumeclaims",
            "default",
            claim("c", &[("volumeName", "v"), ("storageClassName", "ext")]),
        );
        cluster.settle();
        assert_eq!(sizes(&cluster).0, "1Gi");
        request_size(&mut cluster, "2Gi");
        cluster.settle();
        assert!(has_event(&cluster, "ExternalExpanding", message), "{field}");
        let events = cluster.list("events");
        let event = events.iter().find(|event| event.str_at(&["reason"]) == "ExternalExpanding").unwrap();
        assert_eq!(event.str_at(&["type"]) == "Warning", field == "nfs", "{field}");
        let found = cluster.get("persistentvolumeclaims", "default/c").unwrap();
        let resizer = if field == "awsElasticBlockStore" { "ebs.csi.aws.com" } else { "" };
        assert_eq!(found.str_at(&["metadata", "annotations", RESIZER_ANNOTATION]), resizer);
        cluster.run(Duration::from_secs(600));
        assert_eq!(cluster.list("events").len(), events.len(), "one Event");
        assert_eq!(sizes(&cluster), ("1Gi".to_owned(), "1Gi".to_owned(), String::new()));
        cluster.assert_quiet();
    }
}

#[test]
fn crash_between_any_two_writes_converges_to_the_same_state() {
    for crash_after in 0..8 {
        let mut cluster = cluster();
        request_size(&mut cluster, "3Gi");
        cluster.observe();
        cluster.plan();
        for _ in 0..crash_after {
            if !cluster.perform() {
                cluster.observe();
                cluster.plan();
            }
        }
        // While the loop is down, the request shrinks, but stays above the capacity.
        if crash_after % 2 == 0 && sizes(&cluster).0 == "1Gi" {
            let patch = value!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}});
            let _ = cluster.patch("persistentvolumeclaims", "default/c", "", patch);
        }
        cluster.crash();
        cluster.settle();
        let (claim, volume, reported) = sizes(&cluster);
        assert_eq!((&claim, reported.as_str()), (&volume, ""), "crash after {crash_after}");
        assert!(matches!(claim.as_str(), "2Gi" | "3Gi"), "{claim}");
        assert_expanded(&cluster, &claim);
        cluster.assert_quiet();
    }
}

#[test]
fn random_edits_converge_and_sizes_agree() {
    for seed in 0..30 {
        let mut cluster = cluster();
        let mut rng = fastrand::Rng::with_seed(seed);
        for _ in 0..25 {
            match rng.u8(..5) {
                0..2 => {
                    let patch = value!({"spec": {"resources": {"requests": {"storage": (format!("{}Gi", rng.u8(1..9)))}}}});
                    let _ = cluster.patch("persistentvolumeclaims", "default/c", "", patch);
                }
                2 => {
                    let words = value!({"status": {"conditions": [{"type": "Resizing", "status": "True"}]}});
                    let _ = cluster.patch("persistentvolumeclaims", "default/c", "status", words);
                }
                3 => cluster.crash(),
                _ => cluster.lose_response(),
            }
            cluster.observe_some();
            cluster.plan();
            for _ in 0..rng.u8(..4) {
                cluster.perform();
            }
        }
        cluster.mend_watches();
        cluster.run(Duration::from_secs(700));
        cluster.assert_quiet();
        let claim = cluster.get("persistentvolumeclaims", "default/c").unwrap();
        let (requested, volume, reported) = sizes(&cluster);
        let amount = |text: &str| setpoint_api::quantity::Quantity::parse(text).unwrap();
        let wants = amount(claim.str_at(&["spec", "resources", "requests", "storage"]));
        assert!(
            amount(&requested) >= wants && amount(&volume) >= amount(&requested),
            "seed {seed}: {requested} of {volume}"
        );
        assert_eq!(reported, "", "seed {seed}");
    }
}
