//! Printers of PersistentVolumes and PersistentVolumeClaims.

use crate::printing::cell::{age, annotation, is_deleted, list, name, quantity, text_or};
use crate::printing::{AGE, Cell, Column, Doc, NAME, Printer, cells, field};
use crate::time::Time;
use crate::value::Value;

pub(super) static PERSISTENT_VOLUME: Printer = Printer::new(
    &[
        NAME,
        Column::text("Capacity", field!("core.v1.PersistentVolumeSpec", "capacity")),
        Column::text("Access Modes", field!("core.v1.PersistentVolumeSpec", "accessModes")),
        Column::text(
            "Reclaim Policy",
            field!("core.v1.PersistentVolumeSpec", "persistentVolumeReclaimPolicy"),
        ),
        Column::text("Status", field!("core.v1.PersistentVolumeStatus", "phase")),
        Column::text("Claim", field!("core.v1.PersistentVolumeSpec", "claimRef")),
        Column::text("StorageClass", Doc::Own("Storage class of the volume.")),
        Column::text("VolumeAttributesClass", Doc::Own("VolumeAttributesClass of the volume.")),
        Column::text("Reason", field!("core.v1.PersistentVolumeStatus", "reason")),
        AGE,
        Column::wide("VolumeMode", field!("core.v1.PersistentVolumeSpec", "volumeMode")),
    ],
    persistent_volume,
);

fn persistent_volume(object: &Value, now: Time) -> Vec<Cell> {
    let claim = match object.at(&["spec", "claimRef"]) {
        Some(claim @ Value::Map(_)) => {
            format!("{}/{}", claim.str_at(&["namespace"]), claim.str_at(&["name"]))
        }
        _ => String::new(),
    };
    cells![
        name(object),
        quantity(object, &["spec", "capacity", "storage"]),
        access_modes(object, &["spec", "accessModes"]),
        object.str_at(&["spec", "persistentVolumeReclaimPolicy"]),
        phase(object),
        claim,
        class(object),
        text_or(object, &["spec", "volumeAttributesClassName"], "<unset>"),
        object.str_at(&["status", "reason"]),
        age(object, now),
        text_or(object, &["spec", "volumeMode"], "<unset>"),
    ]
}

pub(super) static PERSISTENT_VOLUME_CLAIM: Printer = Printer::new(
    &[
        NAME,
        Column::text("Status", field!("core.v1.PersistentVolumeClaimStatus", "phase")),
        Column::text("Volume", field!("core.v1.PersistentVolumeClaimSpec", "volumeName")),
        Column::text("Capacity", field!("core.v1.PersistentVolumeClaimStatus", "capacity")),
        Column::text("Access Modes", field!("core.v1.PersistentVolumeClaimStatus", "accessModes")),
        Column::text("StorageClass", Doc::Own("Storage class of the claim.")),
        Column::text("VolumeAttributesClass", Doc::Own("VolumeAttributesClass of the claim.")),
        AGE,
        Column::wide("VolumeMode", field!("core.v1.PersistentVolumeClaimSpec", "volumeMode")),
    ],
    persistent_volume_claim,
);

fn persistent_volume_claim(object: &Value, now: Time) -> Vec<Cell> {
    let volume = object.str_at(&["spec", "volumeName"]);
    let (capacity, modes) = match volume {
        "" => (String::new(), String::new()),
        _ => (
            quantity(object, &["status", "capacity", "storage"]),
            access_modes(object, &["status", "accessModes"]),
        ),
    };
    cells![
        name(object),
        phase(object),
        volume,
        capacity,
        modes,
        class(object),
        text_or(object, &["spec", "volumeAttributesClassName"], "<unset>"),
        age(object, now),
        text_or(object, &["spec", "volumeMode"], "<unset>"),
    ]
}

fn phase(object: &Value) -> &str {
    if is_deleted(object) { "Terminating" } else { object.str_at(&["status", "phase"]) }
}

fn class(object: &Value) -> &str {
    let old = annotation(object, "volume.beta.kubernetes.io/storage-class");
    old.unwrap_or_else(|| object.str_at(&["spec", "storageClassName"]))
}

fn access_modes(object: &Value, path: &[&str]) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let modes = list(object, path);
    let has = |mode: &str| modes.iter().any(|one| one.as_str() == Some(mode));
    SHORT.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}
