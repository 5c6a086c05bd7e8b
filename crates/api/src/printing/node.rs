//! Printers of the group `node.k8s.io`.

use super::cell::{age, name};
use super::{AGE, Column, NAME, Printer, cells, field};

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    (kind == "RuntimeClass").then_some(&RUNTIME_CLASS)
}

static RUNTIME_CLASS: Printer = Printer::new(
    &[NAME, Column::text("Handler", field!("node.v1.RuntimeClass", "handler")), AGE],
    |object, now| cells![name(object), object.str_at(&["handler"]), age(object, now)],
);
