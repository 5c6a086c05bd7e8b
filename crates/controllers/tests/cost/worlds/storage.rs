//! Worlds of volumes and claims.

use setpoint_api::{Value, value};
use setpoint_reconcile::Object;
use sha2::{Digest, Sha256};

use super::Case;
use crate::objects::*;

const CLAIMS: &str = "persistentvolumeclaims";
const VOLUMES: &str = "persistentvolumes";
const ATTACHMENTS: &str = "volumeattachments.storage.k8s.io";
const CLASSES: &str = "volumeattributesclasses.storage.k8s.io";

/// Volume and its claim `c`, used by pods on the nodes with these numbers.
fn used(mode: &str, len: usize, on: impl Fn(usize) -> usize) -> Vec<Object> {
    let pods = many(len, "pods", "default/p", |at| using(pod(&name("n", on(at))), "c"));
    let nodes = many(len, "nodes", "n", |_| node());
    let pair = [object(CLAIMS, "default/c", claim("v")), object(VOLUMES, "v", volume("c", mode))];
    pods.chain(nodes).chain(pair).collect()
}

/// VolumeAttachment of a volume and a node. It is not one of the controller's unless its name is hashed.
fn attachment(volume: &str, node: &str) -> Value {
    value!({
        "spec": {"attacher": "d", "nodeName": (node), "source": {"persistentVolumeName": (volume)}},
        "status": {"attached": true},
    })
}

/// Name of the VolumeAttachment of a claim's volume and a node.
fn attachment_name(claim: &str, node: &str) -> String {
    let hash = Sha256::digest(format!("handle-{claim}d{node}"));
    hash.iter().fold("csi-".to_owned(), |name, byte| format!("{name}{byte:02x}"))
}

/// Node with `len` attached volumes.
fn attached(len: usize, in_use: bool, has_volumes: bool) -> Vec<Object> {
    let called = |at| Value::from(format!("kubernetes.io/csi/d^handle-{}", name("c", at)));
    let reported = list(len, |at| value!({"name": (called(at)), "devicePath": ""}));
    let holding = list(len, called);
    let node = saying(saying(node(), "volumesAttached", reported), "volumesInUse", holding);
    let attachments = (0..len).map(|at| {
        let own = attachment_name(&name("c", at), "n0");
        object(ATTACHMENTS, &own, attachment(&name("v", at), "n0"))
    });
    let volumes =
        many(if has_volumes { len } else { 0 }, VOLUMES, "v", |at| volume(&name("c", at), "ReadWriteOnce"));
    let claims = many(len, CLAIMS, "default/c", |at| claim(&name("v", at)));
    let pods = many(if in_use { len } else { 0 }, "pods", "default/p", |at| using(pod("n0"), &name("c", at)));
    attachments.chain(volumes).chain(claims).chain(pods).chain([object("nodes", "n0", node)]).collect()
}

fn unclaimed_volume(at: usize) -> Value {
    let mut volume = saying(volume("x", "ReadWriteOnce"), "phase", "Available");
    volume.ensure_map("spec").remove("claimRef");
    labeled(volume, "number", name("x", at))
}

fn pending_claim() -> Value {
    with(saying(claim(""), "phase", "Pending"), "volumeName", "")
}

pub const CASES: &[Case] = &[
    Case::new(
        "attachdetach-controller",
        "pods of a shared volume on a node each",
        "persistentvolumes v",
        |len| used("ReadWriteMany", len, |at| at),
    ),
    Case::new(
        "attachdetach-controller",
        "pods of a shared volume on one node",
        "persistentvolumes v",
        |len| used("ReadWriteMany", len, |_| 0),
    ),
    Case::new(
        "attachdetach-controller",
        "pods of a volume that is elsewhere",
        "persistentvolumes v",
        |len| {
            let there = object(ATTACHMENTS, &attachment_name("c", "n000000"), attachment("v", "n000000"));
            used("ReadWriteOnce", len, |at| at).into_iter().chain([there]).collect()
        },
    ),
    Case::new(
        "attachdetach-controller",
        "pods on the node of a volume, and pods elsewhere",
        "persistentvolumes v",
        |len| {
            let there = object(ATTACHMENTS, &attachment_name("c", "n000000"), attachment("v", "n000000"));
            used("ReadWriteOnce", len, |at| at % 2).into_iter().chain([there]).collect()
        },
    ),
    Case::new("attachdetach-controller", "unused volumes of a node", "nodes n0", |len| {
        attached(len, false, true)
    }),
    Case::new("attachdetach-controller", "volumes of a node in use", "nodes n0", |len| {
        attached(len, true, true)
    }),
    Case::new("attachdetach-controller", "volumes of a node that are gone", "nodes n0", |len| {
        attached(len, false, false)
    }),
    Case::new("persistent-volume-binder", "free volumes", "persistentvolumeclaims default/c", |len| {
        many(len, VOLUMES, "v", unclaimed_volume)
            .chain([object(CLAIMS, "default/c", pending_claim())])
            .collect()
    }),
    Case::new(
        "persistent-volume-binder",
        "pods of a volume that is recycled",
        "persistentvolumes v",
        |len| {
            let volume = saying(volume("c", "ReadWriteOnce"), "phase", "Released");
            let volume = with(volume, "persistentVolumeReclaimPolicy", "Recycle");
            many(len, "pods", "default/p", |_| using(pod("n0"), "c"))
                .chain([object(VOLUMES, "v", volume)])
                .collect()
        },
    ),
    Case::new("persistent-volume-binder", "claims that wait", "persistentvolumes v", |len| {
        many(len, CLAIMS, "default/c", |_| pending_claim())
            .chain([object(VOLUMES, "v", saying(unclaimed_volume(0), "phase", "Pending"))])
            .collect()
    }),
    Case::new(
        "default-storage-class-controller",
        "namespaces",
        "storageclasses.storage.k8s.io standard",
        |len| many(len, "namespaces", "n", |_| value!({})).collect(),
    ),
    Case::new("expand-controller", "conditions", "persistentvolumeclaims default/c", |len| {
        let condition = |at| value!({"type": (name("T", at)), "status": "True"});
        let claim = saying(claim("v"), "conditions", list(len, condition));
        let claim = with(claim, "resources", value!({"requests": {"storage": "9Gi"}}));
        vec![object(CLAIMS, "default/c", claim), object(VOLUMES, "v", volume("c", "ReadWriteOnce"))]
    }),
    Case::new("ephemeral-volume-controller", "volumes of a pod", "pods default/p", |len| {
        let volume =
            |at| value!({"name": (name("v", at)), "ephemeral": {"volumeClaimTemplate": {"spec": {}}}});
        vec![object("pods", "default/p", with(pending(), "volumes", list(len, volume)))]
    }),
    Case::new(
        "pvc-protection-controller",
        "pods of a claim that goes",
        "persistentvolumeclaims default/c",
        |len| {
            let claim = deleted(claim("v"), "kubernetes.io/pvc-protection");
            many(len, "pods", "default/p", |_| using(pending(), "c"))
                .chain([object(CLAIMS, "default/c", claim)])
                .collect()
        },
    ),
    Case::new("pvc-protection-controller", "pods of a claim", "persistentvolumeclaims default/c", |len| {
        many(len, "pods", "default/p", |_| saying(using(pending(), "c"), "phase", "Failed"))
            .chain([object(CLAIMS, "default/c", claim("v"))])
            .collect()
    }),
    Case::new("pv-protection-controller", "volumes", "persistentvolumes v000000", |len| {
        many(len, VOLUMES, "v", |_| volume("c", "ReadWriteOnce")).collect()
    }),
    Case::new(
        "volumeattributesclass-protection-controller",
        "claims of a class",
        "volumeattributesclasses.storage.k8s.io a",
        |len| {
            many(len, CLAIMS, "default/c", |_| with(claim("v"), "volumeAttributesClassName", "a"))
                .chain([object(CLASSES, "a", value!({"driverName": "d"}))])
                .collect()
        },
    ),
];
