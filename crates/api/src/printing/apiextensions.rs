//! The group `apiextensions.k8s.io`.

use super::cell::{created_at, has_condition, joined, list, name, truth};
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
            Column::text("Scope", Doc::Own("Whether objects live in namespaces or in the cluster.")),
            Column::text("Versions", Doc::Own("The versions that are served, and which one is stored.")),
            CREATED_AT,
            Column::wide("Group", Doc::Own("The API group of the kind.")),
            Column::wide("Kind", Doc::Own("The kind that is defined.")),
            Column::wide("ShortNames", Doc::Own("Shorter names for the resource.")),
            Column {
                kind: "boolean",
                ..Column::wide("Established", Doc::Own("Whether the kind is served."))
            },
        ],
        custom_resource_definition,
    )
};

fn custom_resource_definition(object: &Value, _: Time) -> Vec<Cell> {
    let served = list(object, &["spec", "versions"]).iter().filter(|version| truth(version, &["served"]));
    let mut versions: Vec<String> = served
        .map(|version| {
            let mark = if truth(version, &["storage"]) { "(storage)" } else { "" };
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
