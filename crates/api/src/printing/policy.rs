//! Printers of the group `policy`.

use super::cell::{age, int, int_or_text, name};
use super::{AGE, Column, Doc, NAME, Printer, cells};

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    (kind == "PodDisruptionBudget").then_some(&POD_DISRUPTION_BUDGET)
}

static POD_DISRUPTION_BUDGET: Printer = Printer::new(
    &[
        NAME,
        Column::text("Min Available", Doc::Own("Minimum number of pods that must stay available.")),
        Column::text("Max Unavailable", Doc::Own("Maximum number of pods that may be unavailable.")),
        Column::integer("Allowed Disruptions", Doc::Own("Number of pods that may be disrupted now.")),
        AGE,
    ],
    |object, now| {
        cells![
            name(object),
            int_or_text(object, &["spec", "minAvailable"], "N/A"),
            int_or_text(object, &["spec", "maxUnavailable"], "N/A"),
            int(object, &["status", "disruptionsAllowed"]),
            age(object, now),
        ]
    },
);
