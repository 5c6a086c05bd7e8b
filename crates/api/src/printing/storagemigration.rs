//! The group `storagemigration.k8s.io`.

use super::cell::{list, name};
use super::{Column, Doc, NAME, Printer, cells};
use crate::value::Value;

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    (kind == "StorageVersionMigration").then_some(&MIGRATION)
}

static MIGRATION: Printer = Printer::new(
    &[
        Column { format: "", ..NAME },
        Column::text("Resource", Doc::Own("The resource whose objects are written anew.")),
        Column::text("Status", Doc::Own("How far the migration has come.")),
    ],
    |object, _| {
        let resource = match object.str_at(&["spec", "resource", "group"]) {
            "" => object.str_at(&["spec", "resource", "resource"]).to_owned(),
            group => format!("{}.{group}", object.str_at(&["spec", "resource", "resource"])),
        };
        cells![name(object), resource, status(object)]
    },
);

/// The last condition that says how far it has come.
fn status(object: &Value) -> &str {
    let holds = |one: &&Value| {
        one.str_at(&["status"]) == "True"
            && matches!(one.str_at(&["type"]), "Running" | "Failed" | "Succeeded")
    };
    let conditions = list(object, &["status", "conditions"]).iter();
    conditions.rev().find(holds).map_or("Unknown", |condition| condition.str_at(&["type"]))
}
