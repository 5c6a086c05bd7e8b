//! Printers of the group `scheduling.k8s.io`.

use super::cell::{age, bool_at, int, name};
use super::{AGE, Column, NAME, Printer, cells, field};

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    (kind == "PriorityClass").then_some(&PRIORITY_CLASS)
}

static PRIORITY_CLASS: Printer = Printer::new(
    &[
        NAME,
        Column::integer("Value", field!("scheduling.v1.PriorityClass", "value")),
        Column::boolean("Global-Default", field!("scheduling.v1.PriorityClass", "globalDefault")),
        AGE,
        Column::text("PreemptionPolicy", field!("scheduling.v1.PriorityClass", "preemptionPolicy")),
    ],
    |object, now| {
        cells![
            name(object),
            int(object, &["value"]),
            bool_at(object, &["globalDefault"]),
            age(object, now),
            object.str_at(&["preemptionPolicy"]),
        ]
    },
);
