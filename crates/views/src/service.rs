//! What planners read of a Service.

use serde::Deserialize;
use setpoint_reconcile::object::{Pairs, View};

use super::{IntOrString, or_default};

/// A Service.
#[derive(Clone, Debug, Deserialize)]
pub struct Service {
    /// What is wanted.
    pub spec: ServiceSpec,
}

impl View for Service {
    const RESOURCE: &'static str = "services";
}

/// What is wanted of a Service.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// Which pods serve; none if somebody else says who does.
    pub selector: Option<Pairs>,
    /// Its sort.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its address; `None` for one that has none of its own.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: String,
    /// All its addresses.
    #[serde(rename = "clusterIPs", deserialize_with = "or_default")]
    pub cluster_ips: Vec<String>,
    /// Its families of addresses.
    #[serde(deserialize_with = "or_default")]
    pub ip_families: Vec<String>,
    /// Its ports.
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<ServicePort>,
    /// Whether pods serve that are not ready.
    pub publish_not_ready_addresses: bool,
    /// Whether a load balancer gets ports on the nodes.
    pub allocate_load_balancer_node_ports: Option<bool>,
    /// Which endpoints clients prefer.
    pub traffic_distribution: Option<String>,
}

/// A port of a Service.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Its protocol.
    #[serde(default)]
    pub protocol: String,
    /// Its number.
    pub port: i64,
    /// The port of the pod.
    pub target_port: Option<IntOrString>,
    /// What is spoken on it.
    pub app_protocol: Option<String>,
    /// Its number on the nodes; 0 for none.
    #[serde(default)]
    pub node_port: i64,
}

impl Service {
    /// Whether it has an address of its own.
    #[must_use]
    pub fn has_ip(&self) -> bool {
        !matches!(self.spec.cluster_ip.as_str(), "" | "None")
    }
}
