//! Printers of the group `resource.k8s.io`.

use super::cell::{age, is_deleted, list, name, since};
use super::{AGE, Column, Doc, NAME, NAME_AND_AGE, Printer, cells, field};
use crate::value::Value;

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    Some(match kind {
        "DeviceClass" | "ResourceClaimTemplate" => &NAME_AND_AGE,
        "DeviceTaintRule" => &DEVICE_TAINT_RULE,
        "ResourceClaim" => &RESOURCE_CLAIM,
        "ResourceSlice" => &RESOURCE_SLICE,
        _ => return None,
    })
}

static DEVICE_TAINT_RULE: Printer = Printer::new(
    &[
        NAME,
        Column::text("Key", field!("resource.v1.DeviceTaint", "key")),
        Column::text("Value", field!("resource.v1.DeviceTaint", "value")),
        Column::text("Effect", field!("resource.v1.DeviceTaint", "effect")),
        Column::text("TimeAdded", field!("resource.v1.DeviceTaint", "timeAdded")),
        AGE,
    ],
    |object, now| {
        let taint = object.at(&["spec", "taint"]).unwrap_or(&Value::Null);
        let added = match taint.get("timeAdded") {
            None | Some(Value::Null) => String::new(),
            added => since(added, now),
        };
        cells![
            name(object),
            taint.str_at(&["key"]),
            taint.str_at(&["value"]),
            taint.str_at(&["effect"]),
            added,
            age(object, now),
        ]
    },
);

static RESOURCE_CLAIM: Printer = Printer::new(
    &[NAME, Column::text("State", Doc::Own("State of the claim: allocated, reserved or pending.")), AGE],
    |object, now| cells![name(object), claim_state(object), age(object, now)],
);

fn claim_state(object: &Value) -> &'static str {
    let is_allocated = object.at(&["status", "allocation"]).is_some_and(|allocation| !allocation.is_null());
    let is_reserved = !list(object, &["status", "reservedFor"]).is_empty();
    match (is_deleted(object), is_allocated, is_reserved) {
        (false, false, _) => "pending",
        (false, true, false) => "allocated",
        (false, true, true) => "allocated,reserved",
        (true, false, _) => "deleted",
        (true, true, false) => "deleted,allocated",
        (true, true, true) => "deleted,allocated,reserved",
    }
}

static RESOURCE_SLICE: Printer = Printer::new(
    &[
        NAME,
        Column::text("Node", field!("resource.v1.ResourceSliceSpec", "nodeName")),
        Column::text("Driver", field!("resource.v1.ResourceSliceSpec", "driver")),
        Column::text("Pool", field!("resource.v1.ResourcePool", "name")),
        AGE,
    ],
    |object, now| {
        cells![
            name(object),
            object.str_at(&["spec", "nodeName"]),
            object.str_at(&["spec", "driver"]),
            object.str_at(&["spec", "pool", "name"]),
            age(object, now),
        ]
    },
);
