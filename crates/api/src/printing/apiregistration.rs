//! Printers of the group `apiregistration.k8s.io`.

use super::cell::{age, condition, name};
use super::{AGE, Column, Doc, NAME, Printer, cells};
use crate::value::Value;

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    (kind == "APIService").then_some(&API_SERVICE)
}

static API_SERVICE: Printer = Printer::new(
    &[
        NAME,
        Column::text("Service", Doc::Own("Service that serves the group version, or Local.")),
        Column::text("Available", Doc::Own("True if the group version is available.")),
        AGE,
    ],
    |object, now| cells![name(object), service(object), available(object), age(object, now)],
);

fn service(object: &Value) -> String {
    match object.at(&["spec", "service"]) {
        Some(service @ Value::Map(_)) => {
            format!("{}/{}", service.str_at(&["namespace"]), service.str_at(&["name"]))
        }
        _ => "Local".to_owned(),
    }
}

fn available(object: &Value) -> String {
    let Some(condition) = condition(object, "Available") else { return "Unknown".to_owned() };
    match (condition.str_at(&["status"]), condition.str_at(&["reason"])) {
        ("True", _) | (_, "") => condition.str_at(&["status"]).to_owned(),
        (status, reason) => format!("{status} ({reason})"),
    }
}
