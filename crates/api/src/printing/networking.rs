//! Printers of the group `networking.k8s.io`.

use super::cell::{age, annotation, joined, list, load_balancer, name, or, selector_text, text_or};
use super::{AGE, Cell, Column, Doc, NAME, Printer, cells, field};
use crate::time::Time;
use crate::value::Value;

/// Maximum number of hosts of an Ingress to show.
const HOSTS_MAX: usize = 3;

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    Some(match kind {
        "Ingress" => &INGRESS,
        "IngressClass" => &INGRESS_CLASS,
        "IPAddress" => &IP_ADDRESS,
        "NetworkPolicy" => &NETWORK_POLICY,
        "ServiceCIDR" => &SERVICE_CIDR,
        _ => return None,
    })
}

static INGRESS: Printer = Printer::new(
    &[
        NAME,
        Column::text("Class", Doc::Own("Ingress class.")),
        Column::text("Hosts", Doc::Own("Hosts of the rules.")),
        Column::text("Address", Doc::Own("Addresses of the load balancer.")),
        Column::text("Ports", Doc::Own("Ports of the ingress: 80, and 443 with TLS.")),
        AGE,
    ],
    ingress,
);

fn ingress(object: &Value, now: Time) -> Vec<Cell> {
    let ports = if list(object, &["spec", "tls"]).is_empty() { "80" } else { "80, 443" };
    cells![
        name(object),
        text_or(object, &["spec", "ingressClassName"], "<none>"),
        hosts(list(object, &["spec", "rules"])),
        load_balancer(object).join(","),
        ports,
        age(object, now),
    ]
}

/// The first hosts. The rest is counted in rules, with or without a host.
fn hosts(rules: &[Value]) -> String {
    let mut shown = Vec::new();
    let mut has_more = false;
    for rule in rules {
        has_more |= shown.len() == HOSTS_MAX;
        let host = rule.str_at(&["host"]);
        if !has_more && !host.is_empty() {
            shown.push(host);
        }
    }
    let text = shown.join(",");
    if has_more { format!("{text} + {} more...", rules.len() - HOSTS_MAX) } else { or(&text, "*").to_owned() }
}

static INGRESS_CLASS: Printer = Printer::new(
    &[
        NAME,
        Column::text("Controller", Doc::Own("Controller that handles ingresses of this class.")),
        Column::text("Parameters", Doc::Own("Object with parameters of the controller, if any.")),
        AGE,
    ],
    |object, now| {
        let is_default = annotation(object, "ingressclass.kubernetes.io/is-default-class") == Some("true");
        let mark = if is_default { " (default)" } else { "" };
        cells![
            format!("{}{mark}", name(object)),
            object.str_at(&["spec", "controller"]),
            parameters(object.at(&["spec", "parameters"])),
            age(object, now),
        ]
    },
);

fn parameters(parameters: Option<&Value>) -> String {
    let Some(parameters @ Value::Map(_)) = parameters else { return "<none>".to_owned() };
    let (kind, name) = (parameters.str_at(&["kind"]), parameters.str_at(&["name"]));
    match parameters.get("apiGroup").and_then(Value::as_str) {
        Some(group) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

/// As upstream, a row has one cell more than there are columns.
static IP_ADDRESS: Printer = Printer::new(
    &[NAME, Column::text("ParentRef", field!("networking.v1.IPAddressSpec", "parentRef"))],
    |object, now| cells![name(object), parent(object.at(&["spec", "parentRef"])), age(object, now)],
);

fn parent(parent: Option<&Value>) -> String {
    let Some(parent @ Value::Map(_)) = parent else { return "<none>".to_owned() };
    let mut text = parent.str_at(&["resource"]).to_lowercase();
    for (mark, part) in
        [(".", parent.str_at(&["group"]).to_lowercase().as_str()), ("/", parent.str_at(&["namespace"]))]
    {
        if !part.is_empty() {
            text.push_str(mark);
            text.push_str(part);
        }
    }
    format!("{text}/{}", parent.str_at(&["name"]))
}

static NETWORK_POLICY: Printer = Printer::new(
    &[NAME, Column::text("Pod-Selector", field!("networking.v1.NetworkPolicySpec", "podSelector")), AGE],
    |object, now| cells![name(object), selector_text(object.at(&["spec", "podSelector"])), age(object, now)],
);

static SERVICE_CIDR: Printer = Printer::new(
    &[NAME, Column::text("CIDRs", field!("networking.v1.ServiceCIDRSpec", "cidrs")), AGE],
    |object, now| cells![name(object), joined(object, &["spec", "cidrs"], ","), age(object, now)],
);
