//! Printers of the group `discovery.k8s.io`.

use super::cell::{age, first_of, int_or_text, list, name, text_or};
use super::{AGE, Column, NAME, Printer, cells, field};
use crate::value::Value;

/// Maximum number of ports and of addresses to show.
const SHOWN_MAX: usize = 3;

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    (kind == "EndpointSlice").then_some(&ENDPOINT_SLICE)
}

static ENDPOINT_SLICE: Printer = Printer::new(
    &[
        NAME,
        Column::text("AddressType", field!("discovery.v1.EndpointSlice", "addressType")),
        Column::text("Ports", field!("discovery.v1.EndpointSlice", "ports")),
        Column::text("Endpoints", field!("discovery.v1.EndpointSlice", "endpoints")),
        AGE,
    ],
    |object, now| {
        cells![
            name(object),
            object.str_at(&["addressType"]),
            ports(object),
            addresses(object),
            age(object, now)
        ]
    },
);

fn ports(object: &Value) -> String {
    let ports: Vec<String> = list(object, &["ports"])
        .iter()
        .map(|port| int_or_text(port, &["port"], text_or(port, &["name"], "*")))
        .collect();
    first_of(ports.iter().map(String::as_str), SHOWN_MAX)
}

fn addresses(object: &Value) -> String {
    let endpoints = list(object, &["endpoints"]).iter();
    let addresses =
        endpoints.flat_map(|endpoint| list(endpoint, &["addresses"]).iter().filter_map(Value::as_str));
    first_of(addresses, SHOWN_MAX)
}
