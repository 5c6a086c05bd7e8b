//! Printers of the group `coordination.k8s.io`.

use super::cell::{age, name};
use super::{AGE, Column, NAME, Printer, cells, field};

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    (kind == "Lease").then_some(&LEASE)
}

static LEASE: Printer = Printer::new(
    &[NAME, Column::text("Holder", field!("coordination.v1.LeaseSpec", "holderIdentity")), AGE],
    |object, now| cells![name(object), object.str_at(&["spec", "holderIdentity"]), age(object, now)],
);
