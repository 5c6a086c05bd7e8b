//! Printers of the group `storage.k8s.io`.

use super::cell::{age, annotation, bool_at, count, joined, name, or, text_or, time};
use super::{AGE, Cell, Column, Doc, NAME, Printer, cells, field};
use crate::time::Time;
use crate::value::Value;

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    Some(match kind {
        "CSIDriver" => &CSI_DRIVER,
        "CSINode" => &CSI_NODE,
        "StorageClass" => &STORAGE_CLASS,
        "VolumeAttachment" => &VOLUME_ATTACHMENT,
        "VolumeAttributesClass" => &VOLUME_ATTRIBUTES_CLASS,
        _ => return None,
    })
}

static CSI_DRIVER: Printer = Printer::new(
    &[
        NAME,
        Column::boolean("AttachRequired", field!("storage.v1.CSIDriverSpec", "attachRequired")),
        Column::boolean("PodInfoOnMount", field!("storage.v1.CSIDriverSpec", "podInfoOnMount")),
        Column::boolean("StorageCapacity", field!("storage.v1.CSIDriverSpec", "storageCapacity")),
        Column::text("TokenRequests", field!("storage.v1.CSIDriverSpec", "tokenRequests")),
        Column::boolean("RequiresRepublish", field!("storage.v1.CSIDriverSpec", "requiresRepublish")),
        Column::text("Modes", field!("storage.v1.CSIDriverSpec", "volumeLifecycleModes")),
        AGE,
    ],
    csi_driver,
);

fn csi_driver(object: &Value, now: Time) -> Vec<Cell> {
    let spec = |field: &str| bool_at(object, &["spec", field]);
    let audiences = match object.at(&["spec", "tokenRequests"]) {
        Some(Value::List(requests)) => {
            requests.iter().map(|one| one.str_at(&["audience"])).collect::<Vec<_>>().join(",")
        }
        _ => "<unset>".to_owned(),
    };
    cells![
        name(object),
        object.at(&["spec", "attachRequired"]).and_then(Value::as_bool).unwrap_or(true),
        spec("podInfoOnMount"),
        spec("storageCapacity"),
        audiences,
        spec("requiresRepublish"),
        or(&joined(object, &["spec", "volumeLifecycleModes"], ","), "<none>"),
        age(object, now),
    ]
}

static CSI_NODE: Printer = Printer::new(
    &[NAME, Column::integer("Drivers", Doc::Own("Number of CSI drivers on the node.")), AGE],
    |object, now| cells![name(object), count(object, &["spec", "drivers"]), age(object, now)],
);

static STORAGE_CLASS: Printer = Printer {
    list: Some(mark_default),
    ..Printer::new(
        &[
            NAME,
            Column::text("Provisioner", field!("storage.v1.StorageClass", "provisioner")),
            Column::text("ReclaimPolicy", field!("storage.v1.StorageClass", "reclaimPolicy")),
            Column::text("VolumeBindingMode", field!("storage.v1.StorageClass", "volumeBindingMode")),
            Column::text("AllowVolumeExpansion", field!("storage.v1.StorageClass", "allowVolumeExpansion")),
            AGE,
        ],
        storage_class,
    )
};

fn storage_class(object: &Value, now: Time) -> Vec<Cell> {
    cells![
        name(object),
        object.str_at(&["provisioner"]),
        text_or(object, &["reclaimPolicy"], "Delete"),
        text_or(object, &["volumeBindingMode"], "Immediate"),
        bool_at(object, &["allowVolumeExpansion"]),
        age(object, now),
    ]
}

/// Marks the effective default class: of those with the annotation the newest, then the first by name.
fn mark_default(objects: &[&Value], rows: &mut [Vec<Cell>]) {
    let is_marked_default = |object: &Value| {
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"]
            .iter()
            .any(|key| annotation(object, key) == Some("true"))
    };
    let newest =
        objects.iter().zip(rows).filter(|(object, _)| is_marked_default(object)).max_by(|(a, _), (b, _)| {
            let created = |object: &Value| time(object.at(&["metadata", "creationTimestamp"]));
            created(a).cmp(&created(b)).then_with(|| name(b).cmp(name(a)))
        });
    if let Some((object, row)) = newest
        && let Some(cell) = row.first_mut()
    {
        *cell = Value::from(format!("{} (default)", name(object)));
    }
}

static VOLUME_ATTACHMENT: Printer = Printer::new(
    &[
        NAME,
        Column {
            format: "name",
            ..Column::text("Attacher", field!("storage.v1.VolumeAttachmentSpec", "attacher"))
        },
        Column::text("PV", field!("storage.v1.VolumeAttachmentSource", "persistentVolumeName")),
        Column::text("Node", field!("storage.v1.VolumeAttachmentSpec", "nodeName")),
        Column::boolean("Attached", field!("storage.v1.VolumeAttachmentStatus", "attached")),
        AGE,
    ],
    |object, now| {
        cells![
            name(object),
            object.str_at(&["spec", "attacher"]),
            object.str_at(&["spec", "source", "persistentVolumeName"]),
            object.str_at(&["spec", "nodeName"]),
            bool_at(object, &["status", "attached"]),
            age(object, now),
        ]
    },
);

static VOLUME_ATTRIBUTES_CLASS: Printer = Printer::new(
    &[NAME, Column::text("DriverName", field!("storage.v1.VolumeAttributesClass", "driverName")), AGE],
    |object, now| cells![name(object), object.str_at(&["driverName"]), age(object, now)],
);
