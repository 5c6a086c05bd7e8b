//! Printers of the group `flowcontrol.apiserver.k8s.io`.

use super::cell::{age, condition, int, name};
use super::{AGE, Cell, Column, Doc, NAME, Printer, cells, field};
use crate::time::Time;
use crate::value::Value;

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    Some(match kind {
        "FlowSchema" => &FLOW_SCHEMA,
        "PriorityLevelConfiguration" => &PRIORITY_LEVEL,
        _ => return None,
    })
}

static FLOW_SCHEMA: Printer = Printer::new(
    &[
        NAME,
        Column::text("PriorityLevel", field!("flowcontrol.v1.PriorityLevelConfigurationReference", "name")),
        Column::text("MatchingPrecedence", field!("flowcontrol.v1.FlowSchemaSpec", "matchingPrecedence")),
        Column::text("DistinguisherMethod", field!("flowcontrol.v1.FlowSchemaSpec", "distinguisherMethod")),
        AGE,
        Column::text("MissingPL", Doc::Own("True if the referenced priority level does not exist.")),
    ],
    |object, now| {
        let method = match object.at(&["spec", "distinguisherMethod"]) {
            Some(method @ Value::Map(_)) => method.str_at(&["type"]),
            _ => "<none>",
        };
        cells![
            name(object),
            object.str_at(&["spec", "priorityLevelConfiguration", "name"]),
            int(object, &["spec", "matchingPrecedence"]),
            method,
            age(object, now),
            condition(object, "Dangling").map_or("?", |condition| condition.str_at(&["status"])),
        ]
    },
);

static PRIORITY_LEVEL: Printer = Printer::new(
    &[
        NAME,
        Column::text("Type", field!("flowcontrol.v1.PriorityLevelConfigurationSpec", "type")),
        Column::text(
            "NominalConcurrencyShares",
            field!("flowcontrol.v1.LimitedPriorityLevelConfiguration", "nominalConcurrencyShares"),
        ),
        Column::text("Queues", field!("flowcontrol.v1.QueuingConfiguration", "queues")),
        Column::text("HandSize", field!("flowcontrol.v1.QueuingConfiguration", "handSize")),
        Column::text("QueueLengthLimit", field!("flowcontrol.v1.QueuingConfiguration", "queueLengthLimit")),
        AGE,
    ],
    priority_level,
);

fn priority_level(object: &Value, now: Time) -> Vec<Cell> {
    let limited = object.at(&["spec", "limited"]).filter(|limited| limited.as_map().is_some());
    let queuing = limited
        .and_then(|limited| limited.at(&["limitResponse", "queuing"]))
        .filter(|queuing| queuing.as_map().is_some());
    let number = |of: Option<&Value>, field: &str| {
        of.map_or_else(|| Value::from("<none>"), |of| Value::Int(int(of, &[field])))
    };
    cells![
        name(object),
        object.str_at(&["spec", "type"]),
        number(limited, "nominalConcurrencyShares"),
        number(queuing, "queues"),
        number(queuing, "handSize"),
        number(queuing, "queueLengthLimit"),
        age(object, now),
    ]
}
