//! Printers of the group `apiextensions.k8s.io`.

use super::cell::{bool_at, created_at, has_condition, joined, list, name};
use super::{CREATED_AT, Cell, Column, Doc, NAME, Printer, cells};
use crate::time::Time;
use crate::value::Value;

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    (kind == "CustomResourceDefinition").then_some(&CUSTOM_RESOURCE_DEFINITION)
}

static CUSTOM_RESOURCE_DEFINITION: Printer = Printer {
    is_null_without_rows: true,
    ..Printer::new(
        &[
            NAME,
            Column::text("Scope", Doc::Own("Scope of the resource: Namespaced or Cluster.")),
            Column::text("Versions", Doc::Own("Served versions, with the storage version.")),
            CREATED_AT,
            Column::wide("Group", Doc::Own("API group of the resource.")),
            Column::wide("Kind", Doc::Own("Kind of the resource.")),
            Column::wide("ShortNames", Doc::Own("Short names of the resource.")),
            Column {
                kind: "boolean",
                ..Column::wide("Established", Doc::Own("True if the resource is served."))
            },
        ],
        custom_resource_definition,
    )
};

fn custom_resource_definition(object: &Value, _: Time) -> Vec<Cell> {
    let served = list(object, &["spec", "versions"]).iter().filter(|version| bool_at(version, &["served"]));
    let mut versions: Vec<String> = served
        .map(|version| {
            let mark = if bool_at(version, &["storage"]) { "(storage)" } else { "" };
            format!("{}{mark}", version.str_at(&["name"]))
        })
        .collect();
    versions.sort_unstable();
    cells![
        name(object),
        object.str_at(&["spec", "scope"]),
        versions.join(","),
        created_at(object),
        object.str_at(&["spec", "group"]),
        object.str_at(&["spec", "names", "kind"]),
        joined(object, &["spec", "names", "shortNames"], ","),
        has_condition(object, "Established"),
    ]
}
