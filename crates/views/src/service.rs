//! View of a Service.

use serde::Deserialize;
use setpoint_reconcile::object::{Pairs, View};

use super::{IntOrString, or_default};

/// View of a Service.
#[derive(Clone, Debug, Deserialize)]
pub struct Service {
    pub spec: ServiceSpec,
}

impl View for Service {
    const RESOURCE: &'static str = "services";
}

/// Spec of a Service.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// Endpoints are managed externally if absent.
    pub selector: Option<Pairs>,
    #[serde(rename = "type")]
    pub kind: String,
    /// `None` for a headless Service; empty for ExternalName.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: String,
    #[serde(rename = "clusterIPs", deserialize_with = "or_default")]
    pub cluster_ips: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub ip_families: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<ServicePort>,
    pub publish_not_ready_addresses: bool,
    pub allocate_load_balancer_node_ports: Option<bool>,
    pub traffic_distribution: Option<String>,
}

/// Port of a Service.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub protocol: String,
    pub port: i64,
    pub target_port: Option<IntOrString>,
    pub app_protocol: Option<String>,
    /// 0 if none.
    #[serde(default)]
    pub node_port: i64,
}

impl Service {
    /// `true` if it has a cluster IP: neither headless nor ExternalName.
    #[must_use]
    pub fn has_ip(&self) -> bool {
        !matches!(self.spec.cluster_ip.as_str(), "" | "None")
    }
}
