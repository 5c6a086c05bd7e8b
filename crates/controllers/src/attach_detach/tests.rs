//! Tests of CSI attachments in a control plane with the volume binder. The tests act as the driver.

use std::time::Duration;

use setpoint_api::{Value, value};
use setpoint_sim::cluster::Cluster;

use super::*;
use crate::testing::{has_event, names};
use crate::volume_binder::VolumeBinder;

const ATTACHMENTS: &str = "volumeattachments.storage.k8s.io";

fn empty(seed: u64) -> Cluster {
    let controllers = || {
        let list: Vec<Box<dyn setpoint_reconcile::Controller>> =
            vec![Box::new(AttachDetach), Box::new(VolumeBinder::new("/d"))];
        (list, crate::indexes::all())
    };
    let mut cluster = Cluster::new(controllers, seed);
    for node in ["n", "m"] {
        cluster.create("nodes", "", value!({"metadata": {"name": (node)}}));
        set_ready(&mut cluster, node, true);
    }
    cluster
}

fn set_ready(cluster: &mut Cluster, node: &str, is_healthy: bool) {
    let status = if is_healthy { "True" } else { "Unknown" };
    let status = value!({"status": {"conditions": [{"type": "Ready", "status": (status)}]}});
    cluster.patch("nodes", node, "status", status).unwrap();
}

fn volume(name: &str, handle: &str, mode: &str) -> Value {
    value!({
        "metadata": {"name": (name)},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": [(mode)],
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": "d.example.com", "volumeHandle": (handle)},
            "claimRef": {"namespace": "default", "name": (format!("c-{name}"))},
        },
    })
}

fn claim(name: &str, mode: &str) -> Value {
    value!({
        "metadata": {"name": (format!("c-{name}"))},
        "spec": {
            "accessModes": [(mode)],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
            "volumeName": (name),
        },
    })
}

fn pod(name: &str, volume: &str, node: &str) -> Value {
    value!({
        "metadata": {"name": (name)},
        "spec": {
            "nodeName": (node),
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": (format!("c-{volume}"))}}],
        },
    })
}

fn cluster(mode: &str) -> Cluster {
    let mut cluster = empty(3);
    cluster.create("persistentvolumes", "", volume("v", "h", mode));
    cluster.create("persistentvolumeclaims", "default", claim("v", mode));
    cluster.settle();
    cluster
}

/// CSI driver: attaches requested volumes, and releases deleted attachments.
fn run_attacher(cluster: &mut Cluster) {
    for attachment in cluster.list(ATTACHMENTS) {
        let name = attachment.str_at(&["metadata", "name"]).to_owned();
        if is_deleted(&attachment) {
            let bare = value!({"metadata": {"finalizers": []}});
            cluster.patch(ATTACHMENTS, &name, "", bare).unwrap();
        } else if attachment.at(&["status", "attached"]) != Some(&Value::Bool(true)) {
            let held = value!({"metadata": {"finalizers": ["external-attacher/d-example-com"]}});
            cluster.patch(ATTACHMENTS, &name, "", held).unwrap();
            cluster.patch(ATTACHMENTS, &name, "status", value!({"status": {"attached": true}})).unwrap();
        }
    }
    cluster.settle();
}

fn is_deleted(object: &Value) -> bool {
    object.at(&["metadata", "deletionTimestamp"]).is_some()
}

/// Nodes with an attachment, those being detached with a minus.
fn attachments(cluster: &Cluster) -> Vec<String> {
    let attachments = cluster.list(ATTACHMENTS);
    let mut nodes: Vec<String> = attachments
        .iter()
        .map(|attachment| {
            let sign = if is_deleted(attachment) { "-" } else { "" };
            format!("{sign}{}", attachment.str_at(&["spec", "nodeName"]))
        })
        .collect();
    nodes.sort();
    nodes
}

fn reported(cluster: &Cluster, node: &str) -> Vec<String> {
    let node = cluster.get("nodes", node).unwrap();
    let attached = node.at(&["status", "volumesAttached"]).and_then(Value::as_list).unwrap_or_default();
    attached.iter().map(|volume| volume.str_at(&["name"]).to_owned()).collect()
}

fn set_volumes_in_use(cluster: &mut Cluster, node: &str, names: &[&str]) {
    cluster.patch("nodes", node, "status", value!({"status": {"volumesInUse": (names.to_vec())}})).unwrap();
    cluster.settle();
}

fn delete_pod(cluster: &mut Cluster, pod: &str) {
    cluster.delete("pods", &format!("default/{pod}"), &value!({"gracePeriodSeconds": 0})).unwrap();
    cluster.settle();
}

const NAME: &str = "kubernetes.io/csi/d.example.com^h";

#[test]
fn volume_is_attached_for_its_pod_and_detached_after_it() {
    let mut cluster = cluster("ReadWriteOnce");
    assert!(attachments(&cluster).is_empty(), "no pod uses it");
    cluster.create("pods", "default", pod("p", "v", "n"));
    cluster.settle();
    // The name that every driver expects: the digest of volume, driver and node.
    let found = cluster.list(ATTACHMENTS).remove(0);
    let name = "csi-6f50f41227a8b176bdb8f16917f5785c6f29d47af0c6e4fb07ef999717e5cb6d";
    assert_eq!(found.str_at(&["metadata", "name"]), name);
    assert_eq!(found.str_at(&["spec", "attacher"]), "d.example.com");
    assert_eq!(found.str_at(&["spec", "source", "persistentVolumeName"]), "v");
    assert!(reported(&cluster, "n").is_empty(), "it is not attached yet");
    cluster.assert_quiet();
    run_attacher(&mut cluster);
    assert_eq!(reported(&cluster, "n"), [NAME]);
    assert!(has_event(&cluster, "SuccessfulAttachVolume", "AttachVolume.Attach succeeded for volume \"v\" "));
    cluster.assert_quiet();
    set_volumes_in_use(&mut cluster, "n", &[NAME]);
    delete_pod(&mut cluster, "p");
    cluster.run(Duration::from_secs(3600));
    assert_eq!(attachments(&cluster), ["n"], "the node holds it");
    assert_eq!(reported(&cluster, "n"), [NAME]);
    cluster.assert_quiet();
    set_volumes_in_use(&mut cluster, "n", &[]);
    assert_eq!(attachments(&cluster), ["-n"]);
    assert!(reported(&cluster, "n").is_empty(), "it leaves volumesAttached before it is detached");
    cluster.assert_quiet();
    run_attacher(&mut cluster);
    assert!(attachments(&cluster).is_empty());
    cluster.assert_quiet();
}

#[test]
fn single_node_volume_waits_for_its_detachment() {
    let mut cluster = cluster("ReadWriteOnce");
    cluster.create("pods", "default", pod("p", "v", "n"));
    cluster.settle();
    run_attacher(&mut cluster);
    set_volumes_in_use(&mut cluster, "n", &[NAME]);
    cluster.create("pods", "default", pod("q", "v", "m"));
    cluster.settle();
    assert_eq!(attachments(&cluster), ["n"]);
    let message = "Waiting for detach for volume \"v\" Volume is already used by pod(s) p";
    assert!(has_event(&cluster, "FailedAttachVolume", message));
    cluster.assert_quiet();
    delete_pod(&mut cluster, "p");
    let message = "Waiting for detach for volume \"v\" Volume is already exclusively attached to one node, waiting on \
                   detach before it can be attached to another node";
    assert!(has_event(&cluster, "FailedAttachVolume", message));
    set_volumes_in_use(&mut cluster, "n", &[]);
    assert_eq!(attachments(&cluster), ["-n"], "the detachment is in progress");
    run_attacher(&mut cluster);
    assert_eq!(attachments(&cluster), ["m"]);
    run_attacher(&mut cluster);
    assert_eq!(reported(&cluster, "m"), [NAME]);
    cluster.assert_quiet();
}

#[test]
fn shared_volume_is_attached_to_all_nodes_and_single_node_volume_to_that_of_the_oldest_pod() {
    let mut shared = cluster("ReadWriteMany");
    shared.create("pods", "default", pod("p", "v", "n"));
    shared.create("pods", "default", pod("q", "v", "m"));
    shared.settle();
    assert_eq!(attachments(&shared), ["m", "n"]);
    let mut single = cluster("ReadWriteOncePod");
    single.create("pods", "default", pod("z", "v", "m"));
    single.now = single.now.after(Duration::from_secs(2));
    single.create("pods", "default", pod("a", "v", "n"));
    single.settle();
    assert_eq!(attachments(&single), ["m"]);
    single.assert_quiet();
}

#[test]
fn unhealthy_node_is_force_detached_after_six_minutes_and_out_of_service_node_at_once() {
    for is_out in [false, true] {
        let mut cluster = cluster("ReadWriteOnce");
        cluster.create("pods", "default", pod("p", "v", "n"));
        cluster.settle();
        run_attacher(&mut cluster);
        set_volumes_in_use(&mut cluster, "n", &[NAME]);
        delete_pod(&mut cluster, "p");
        cluster.run(Duration::from_secs(3600));
        assert_eq!(attachments(&cluster), ["n"], "a healthy node is never force-detached");
        cluster.create("pods", "default", pod("q", "v", "n"));
        cluster.settle();
        delete_pod(&mut cluster, "q");
        set_ready(&mut cluster, "n", false);
        if is_out {
            let taint = value!({"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"});
            cluster.patch("nodes", "n", "", value!({"spec": {"taints": [(taint)]}})).unwrap();
        } else {
            cluster.run(Duration::from_secs(359));
            assert_eq!(attachments(&cluster), ["n"]);
            cluster.now = cluster.now.after(Duration::from_secs(2));
        }
        cluster.settle();
        assert_eq!(attachments(&cluster), ["-n"], "out of service: {is_out}");
    }
}

#[test]
fn deleted_node_is_force_detached_after_six_minutes() {
    let mut cluster = cluster("ReadWriteOnce");
    cluster.create("pods", "default", pod("p", "v", "n"));
    cluster.settle();
    run_attacher(&mut cluster);
    cluster.delete("nodes", "n", &Value::map()).unwrap();
    cluster.settle();
    delete_pod(&mut cluster, "p");
    assert_eq!(attachments(&cluster), ["n"]);
    cluster.run(Duration::from_secs(361));
    assert_eq!(attachments(&cluster), ["-n"]);
}

#[test]
fn volumes_without_attach_required_are_not_attached() {
    let mut cluster = cluster("ReadWriteOnce");
    let driver = value!({"metadata": {"name": "d.example.com"}, "spec": {"attachRequired": false}});
    cluster.create("csidrivers.storage.k8s.io", "", driver);
    cluster.create("pods", "default", pod("p", "v", "n"));
    cluster.settle();
    assert!(attachments(&cluster).is_empty());
    let mut local = volume("w", "", "ReadWriteOnce");
    let spec = local.ensure_map("spec");
    spec.remove("csi");
    spec.insert("hostPath", value!({"path": "/w"}));
    cluster.create("persistentvolumes", "", local);
    cluster.create("persistentvolumeclaims", "default", claim("w", "ReadWriteOnce"));
    cluster.create("pods", "default", pod("q", "w", "n"));
    cluster.settle();
    assert!(attachments(&cluster).is_empty());
    cluster.assert_quiet();
    cluster.delete("csidrivers.storage.k8s.io", "d.example.com", &Value::map()).unwrap();
    cluster.settle();
    assert_eq!(attachments(&cluster), ["n"], "attachment is required by default");
}

#[test]
fn attach_failure_is_one_event_of_the_pod() {
    let mut cluster = cluster("ReadWriteOnce");
    cluster.create("pods", "default", pod("p", "v", "n"));
    cluster.settle();
    let name = names(&cluster, ATTACHMENTS).remove(0);
    let failed = value!({"status": {"attached": false, "attachError": {"message": "no luck"}}});
    cluster.patch(ATTACHMENTS, &name, "status", failed).unwrap();
    cluster.settle();
    let message = "AttachVolume.Attach failed for volume \"v\" : no luck";
    assert!(has_event(&cluster, "FailedAttachVolume", message));
    let events = cluster.list("events").len();
    cluster.run(Duration::from_secs(600));
    assert_eq!(cluster.list("events").len(), events);
    cluster.assert_quiet();
}

#[test]
fn attachment_of_a_deleted_volume_is_deleted_and_foreign_ones_stay() {
    let mut cluster = cluster("ReadWriteOnce");
    cluster.create("pods", "default", pod("p", "v", "n"));
    cluster.settle();
    run_attacher(&mut cluster);
    let foreign = value!({
        "metadata": {"name": "mine"},
        "spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
    });
    cluster.create(ATTACHMENTS, "", foreign);
    delete_pod(&mut cluster, "p");
    run_attacher(&mut cluster);
    assert_eq!(names(&cluster, ATTACHMENTS), ["mine"]);
    cluster.create("pods", "default", pod("q", "v", "n"));
    cluster.settle();
    assert_eq!(names(&cluster, ATTACHMENTS), ["mine"], "a foreign attachment counts as attached");
    cluster.delete(ATTACHMENTS, "mine", &Value::map()).unwrap();
    cluster.settle();
    run_attacher(&mut cluster);
    run_attacher(&mut cluster);
    assert_eq!(reported(&cluster, "n"), [NAME]);
    for (resource, path) in [("persistentvolumeclaims", "default/c-v"), ("persistentvolumes", "v")] {
        cluster.patch(resource, path, "", value!({"metadata": {"finalizers": []}})).unwrap();
        cluster.delete(resource, path, &Value::map()).unwrap();
    }
    cluster.settle();
    assert_eq!(attachments(&cluster), ["-n"]);
    assert!(reported(&cluster, "n").is_empty());
    cluster.assert_quiet();
}

#[test]
fn crash_between_any_two_writes_converges_to_the_same_state() {
    for crash_after in 0..8 {
        let mut cluster = cluster("ReadWriteOnce");
        let step = |cluster: &mut Cluster, writes: usize| {
            cluster.observe();
            cluster.plan();
            for _ in 0..writes {
                if !cluster.perform() {
                    cluster.observe();
                    cluster.plan();
                }
            }
            cluster.crash();
            cluster.settle();
        };
        cluster.create("pods", "default", pod("p", "v", "n"));
        step(&mut cluster, crash_after);
        assert_eq!(attachments(&cluster), ["n"]);
        run_attacher(&mut cluster);
        cluster.delete("pods", "default/p", &value!({"gracePeriodSeconds": 0})).unwrap();
        cluster.create("pods", "default", pod("q", "v", "m"));
        step(&mut cluster, crash_after);
        run_attacher(&mut cluster);
        run_attacher(&mut cluster);
        assert_eq!(
            (attachments(&cluster), reported(&cluster, "m")),
            (vec!["m".to_owned()], vec![NAME.to_owned()])
        );
        assert!(reported(&cluster, "n").is_empty());
        cluster.assert_quiet();
    }
}

/// Random states converge; a single-node volume is never requested on two nodes.
#[test]
fn random_edits_converge_and_no_single_node_volume_is_on_two_nodes() {
    for seed in 0..40 {
        let mut cluster = empty(seed);
        let mut rng = fastrand::Rng::with_seed(seed);
        for name in ["a", "b"] {
            // Two objects may refer to the same volume.
            let handle = if seed % 2 == 0 { "same" } else { name };
            cluster.create("persistentvolumes", "", volume(name, handle, "ReadWriteOnce"));
            cluster.create("persistentvolumeclaims", "default", claim(name, "ReadWriteOnce"));
        }
        for _ in 0..50 {
            let volume = if rng.bool() { "a" } else { "b" };
            let node = if rng.bool() { "n" } else { "m" };
            let name = format!("p{}", rng.u8(..3));
            match rng.u8(..10) {
                0..3 => drop(cluster.try_create("pods", "default", pod(&name, volume, node))),
                3 => {
                    let _ = cluster.delete(
                        "pods",
                        &format!("default/{name}"),
                        &value!({"gracePeriodSeconds": 0}),
                    );
                }
                4 => {
                    let held: Vec<String> = if rng.bool() { reported(&cluster, node) } else { Vec::new() };
                    let held: Vec<&str> = held.iter().map(String::as_str).collect();
                    let _ =
                        cluster.patch("nodes", node, "status", value!({"status": {"volumesInUse": (held)}}));
                }
                5 => {
                    let failed = value!({"status": {"phase": "Failed"}});
                    let _ = cluster.patch("pods", &format!("default/{name}"), "status", failed);
                }
                6 => {
                    let all = names(&cluster, ATTACHMENTS);
                    if let Some(name) = rng.choice(&all) {
                        let _ = cluster.delete(ATTACHMENTS, name, &Value::map());
                    }
                }
                7 => cluster.crash(),
                8 => {
                    cluster.mend_watches();
                    run_attacher(&mut cluster);
                }
                _ => set_ready(&mut cluster, node, rng.bool()),
            }
            cluster.observe_some();
            cluster.plan();
            for _ in 0..rng.u8(..4) {
                cluster.perform();
            }
            assert_single(&cluster, seed);
        }
        cluster.mend_watches();
        for _ in 0..4 {
            cluster.run(Duration::from_secs(400));
            run_attacher(&mut cluster);
        }
        cluster.assert_quiet();
        assert_single(&cluster, seed);
    }
}

fn assert_single(cluster: &Cluster, seed: u64) {
    let mut taken: Vec<String> = cluster
        .list(ATTACHMENTS)
        .iter()
        .map(|attachment| match seed % 2 {
            0 => String::new(),
            _ => attachment.str_at(&["spec", "source", "persistentVolumeName"]).to_owned(),
        })
        .collect();
    let all = taken.len();
    taken.sort();
    taken.dedup();
    assert_eq!(taken.len(), all, "seed {seed}");
}
