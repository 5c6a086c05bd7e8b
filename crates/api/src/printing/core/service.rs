//! Printers of Services and Endpoints.

use crate::printing::cell::{age, int, joined, labels, list, load_balancer, name, or};
use crate::printing::{AGE, Cell, Column, NAME, Printer, cells, field};
use crate::time::Time;
use crate::value::Value;

/// Maximum number of endpoints to show.
const ENDPOINTS_MAX: usize = 3;

pub(super) static SERVICE: Printer = Printer::new(
    &[
        NAME,
        Column::text("Type", field!("core.v1.ServiceSpec", "type")),
        Column::text("Cluster-IP", field!("core.v1.ServiceSpec", "clusterIP")),
        Column::text("External-IP", field!("core.v1.ServiceSpec", "externalIPs")),
        Column::text("Port(s)", field!("core.v1.ServiceSpec", "ports")),
        AGE,
        Column::wide("Selector", field!("core.v1.ServiceSpec", "selector")),
    ],
    service,
);

fn service(object: &Value, now: Time) -> Vec<Cell> {
    let cluster_ip = list(object, &["spec", "clusterIPs"]).first().and_then(Value::as_str);
    let ports: Vec<String> = list(object, &["spec", "ports"]).iter().map(port).collect();
    cells![
        name(object),
        object.str_at(&["spec", "type"]),
        cluster_ip.unwrap_or("<none>"),
        external_ip(object),
        or(&ports.join(","), "<none>"),
        age(object, now),
        labels(object.at(&["spec", "selector"])),
    ]
}

fn port(port: &Value) -> String {
    let (number, protocol) = (int(port, &["port"]), port.str_at(&["protocol"]));
    match int(port, &["nodePort"]) {
        node_port @ 1.. => format!("{number}:{node_port}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}

fn external_ip(object: &Value) -> String {
    let own = joined(object, &["spec", "externalIPs"], ",");
    match object.str_at(&["spec", "type"]) {
        "ClusterIP" | "NodePort" => or(&own, "<none>").to_owned(),
        "LoadBalancer" => {
            let mut all = load_balancer(object);
            all.extend(Some(own.as_str()).filter(|own| !own.is_empty()));
            or(&all.join(","), "<pending>").to_owned()
        }
        "ExternalName" => object.str_at(&["spec", "externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

pub(super) static ENDPOINTS: Printer = Printer::new(
    &[NAME, Column::text("Endpoints", field!("core.v1.Endpoints", "subsets")), AGE],
    |object, now| cells![name(object), endpoints(object), age(object, now)],
);

fn endpoints(object: &Value) -> String {
    let subsets = list(object, &["subsets"]);
    if subsets.is_empty() {
        return "<none>".to_owned();
    }
    let mut shown: Vec<String> = Vec::new();
    let mut count = 0;
    for subset in subsets {
        let ports: Vec<Option<i64>> = match list(subset, &["ports"]) {
            [] => vec![None],
            ports => ports.iter().map(|port| Some(int(port, &["port"]))).collect(),
        };
        for port in ports {
            let addresses = list(subset, &["addresses"]);
            count += addresses.len();
            let room = ENDPOINTS_MAX - shown.len();
            shown.extend(addresses.iter().take(room).map(|address| {
                let ip = address.str_at(&["ip"]);
                match port {
                    None => ip.to_owned(),
                    Some(port) if ip.contains(':') => format!("[{ip}]:{port}"),
                    Some(port) => format!("{ip}:{port}"),
                }
            }));
        }
    }
    match count.checked_sub(ENDPOINTS_MAX) {
        Some(more @ 1..) => format!("{} + {more} more...", shown.join(",")),
        _ => shown.join(","),
    }
}
