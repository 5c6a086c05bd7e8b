//! Printers of the group `storagemigration.k8s.io`.

use super::cell::{list, name};
use super::{Column, Doc, NAME, Printer, cells};
use crate::value::Value;

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    (kind == "StorageVersionMigration").then_some(&MIGRATION)
}

static MIGRATION: Printer = Printer::new(
    &[
        Column { format: "", ..NAME },
        Column::text("Resource", Doc::Own("Resource whose objects are migrated to the storage version.")),
        Column::text("Status", Doc::Own("Status of the migration.")),
    ],
    |object, _| {
        let resource = match object.str_at(&["spec", "resource", "group"]) {
            "" => object.str_at(&["spec", "resource", "resource"]).to_owned(),
            group => format!("{}.{group}", object.str_at(&["spec", "resource", "resource"])),
        };
        cells![name(object), resource, status(object)]
    },
);

/// Last condition that describes the progress.
fn status(object: &Value) -> &str {
    let holds = |one: &&Value| {
        one.str_at(&["status"]) == "True"
            && matches!(one.str_at(&["type"]), "Running" | "Failed" | "Succeeded")
    };
    let conditions = list(object, &["status", "conditions"]).iter();
    conditions.rev().find(holds).map_or("Unknown", |condition| condition.str_at(&["type"]))
}
