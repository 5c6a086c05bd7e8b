//! Printer of nodes.

use crate::printing::cell::{age, bool_at, condition, list, name, or};
use crate::printing::{AGE, Cell, Column, Doc, NAME, Printer, cells, field};
use crate::time::Time;
use crate::value::Value;

/// Label of the simulated nodes of this control plane, which show it as their role. Nodes may not set labels of roles.
const SIMULATED_LABEL: &str = "node.kubernetes.io/simulated";

pub(super) static NODE: Printer = Printer::new(
    &[
        NAME,
        Column::text("Status", Doc::Own("Readiness of the node, and whether it is cordoned.")),
        Column::text("Roles", Doc::Own("Roles of the node, from its labels.")),
        AGE,
        Column::text("Version", field!("core.v1.NodeSystemInfo", "kubeletVersion")),
        Column::wide("Internal-IP", field!("core.v1.NodeStatus", "addresses")),
        Column::wide("External-IP", field!("core.v1.NodeStatus", "addresses")),
        Column::wide("OS-Image", field!("core.v1.NodeSystemInfo", "osImage")),
        Column::wide("Kernel-Version", field!("core.v1.NodeSystemInfo", "kernelVersion")),
        Column::wide("Container-Runtime", field!("core.v1.NodeSystemInfo", "containerRuntimeVersion")),
    ],
    node,
);

fn node(object: &Value, now: Time) -> Vec<Cell> {
    let ready = match condition(object, "Ready").map(|ready| ready.str_at(&["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let off = if bool_at(object, &["spec", "unschedulable"]) { ",SchedulingDisabled" } else { "" };
    let info = |field: &str| object.str_at(&["status", "nodeInfo", field]);
    let mut kernel = or(info("kernelVersion"), "<unknown>").to_owned();
    if !info("architecture").is_empty() {
        kernel = format!("{kernel} ({})", info("architecture"));
    }
    cells![
        name(object),
        format!("{ready}{off}"),
        roles(object),
        age(object, now),
        info("kubeletVersion"),
        address(object, "InternalIP"),
        address(object, "ExternalIP"),
        or(info("osImage"), "<unknown>"),
        kernel,
        or(info("containerRuntimeVersion"), "<unknown>"),
    ]
}

fn roles(object: &Value) -> String {
    let labels = object.at(&["metadata", "labels"]).and_then(Value::as_map);
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flat_map(|map| map.iter())
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None if key == SIMULATED_LABEL => Some("simulated"),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    or(&roles.join(","), "<none>").to_owned()
}

fn address<'a>(object: &'a Value, kind: &str) -> &'a str {
    let addresses = list(object, &["status", "addresses"]);
    let found = addresses.iter().find(|address| address.str_at(&["type"]) == kind);
    found.map_or("<none>", |address| address.str_at(&["address"]))
}
