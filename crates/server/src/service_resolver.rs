//! Service resolver: the addresses behind a port of a Service, from the EndpointSlices of a snapshot.

use std::net::{IpAddr, SocketAddr};

use setpoint_api::quote::Quoted;
use setpoint_api::{Value, resource_types};
use setpoint_store::Snapshot;

use crate::codec;

/// Label of an EndpointSlice with the name of its Service.
const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";

/// Failure to resolve a Service, with upstream's texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The Service does not exist.
    #[error("service {} not found", Quoted(.0))]
    NotFound(String),
    /// The Service has no such port.
    #[error("no service port {port} found for service {}", Quoted(.service))]
    NoPort {
        /// Name of the Service.
        service: String,
        /// The port.
        port: u16,
    },
    /// The Service has no endpoint that is ready.
    #[error("no endpoints available for service {}", Quoted(.0))]
    NoEndpoints(String),
}

/// Resolves a port of a Service to addresses, `host:port`. An ExternalName Service has one, which DNS resolves.
///
/// # Errors
/// If there is no Service, no such port, or no endpoint that is ready.
pub fn resolve(
    snapshot: &Snapshot,
    namespace: &str,
    name: &str,
    port: u16,
) -> Result<Vec<String>, ResolveError> {
    let key = || resource_types::find("", "v1", "services")?.key(namespace, name).ok();
    let Some(service) = key().and_then(|key| snapshot.get(&key)).map(codec::object) else {
        return Err(ResolveError::NotFound(name.to_owned()));
    };
    if service.str_at(&["spec", "type"]) == "ExternalName" {
        return Ok(vec![format!("{}:{port}", service.str_at(&["spec", "externalName"]))]);
    }
    let ports = service.at(&["spec", "ports"]).and_then(Value::as_list).unwrap_or_default();
    let number = |port: &Value| port.get("port").and_then(Value::as_i64);
    let Some(found) = ports.iter().find(|one| number(one) == Some(i64::from(port))) else {
        return Err(ResolveError::NoPort { service: name.to_owned(), port });
    };
    let endpoints = ready_endpoints(snapshot, namespace, name, found.str_at(&["name"]));
    if endpoints.is_empty() {
        return Err(ResolveError::NoEndpoints(name.to_owned()));
    }
    Ok(endpoints.iter().map(SocketAddr::to_string).collect())
}

/// Endpoints of a Service that are ready or not reported as unready, with the number of a named port, in the order of
/// the slices.
#[must_use]
fn ready_endpoints(snapshot: &Snapshot, namespace: &str, service: &str, port_name: &str) -> Vec<SocketAddr> {
    let slices = resource_types::find("discovery.k8s.io", "v1", "endpointslices");
    let Some(table) = slices.and_then(|slices| snapshot.table(&slices.resource)) else { return Vec::new() };
    let prefix = format!("{namespace}/");
    let slices = table
        .range(&prefix, None)
        .filter(|record| record.attributes().label(SERVICE_NAME_LABEL) == Some(service));
    let mut found = Vec::new();
    for slice in slices.map(codec::object) {
        let list = |field: &str| slice.get(field).and_then(Value::as_list).unwrap_or_default();
        let port = list("ports").iter().find(|port| port.str_at(&["name"]) == port_name);
        let number = port.and_then(|port| port.get("port")?.as_i64());
        let Some(number) = number.and_then(|number| u16::try_from(number).ok()) else { continue };
        for endpoint in list("endpoints") {
            if endpoint.at(&["conditions", "ready"]).and_then(Value::as_bool) == Some(false) {
                continue;
            }
            let addresses = endpoint.get("addresses").and_then(Value::as_list).unwrap_or_default();
            let address = addresses.first().and_then(Value::as_str);
            let address = address.and_then(|text| text.parse::<IpAddr>().ok());
            found.extend(address.map(|address| SocketAddr::new(address, number)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use setpoint_api::{Time, json};
    use setpoint_store::{CommitCause, Precondition, Proposal, Retention, Store};

    use super::*;

    fn put(store: &Store, group: &str, plural: &str, name: &str, text: &str) {
        let resource_type = resource_types::find(group, "v1", plural).unwrap();
        let draft = codec::draft(resource_type, json::parse(text.as_bytes()).unwrap(), Time(1)).unwrap();
        let key = resource_type.key("a", name).unwrap();
        let proposal = Proposal::new(CommitCause::default(), Time(1)).put(key, Precondition::Absent, draft);
        store.commit(proposal).unwrap();
    }

    #[test]
    fn service_resolves_to_ready_endpoints_of_the_named_port() {
        let store = Store::in_memory(Retention::default());
        let error = |port| resolve(&store.snapshot(), "a", "web", port).unwrap_err().to_string();
        assert_eq!(error(443), r#"service "web" not found"#);
        let service = r#"{"metadata":{"name":"web","namespace":"a"},"spec":{"type":"ClusterIP",
            "ports":[{"name":"https","port":443},{"name":"other","port":80}]}}"#;
        put(&store, "", "services", "web", service);
        assert_eq!(error(443), r#"no endpoints available for service "web""#);
        let slice = r#"{"metadata":{"name":"web-1","namespace":"a","labels":{"kubernetes.io/service-name":"web"}},
            "addressType":"IPv4","ports":[{"name":"https","port":8443}],
            "endpoints":[{"addresses":["192.0.2.1"],"conditions":{"ready":false}},
                {"addresses":["192.0.2.2"],"conditions":{}},{"addresses":["192.0.2.3"],"conditions":{"ready":true}}]}"#;
        put(&store, "discovery.k8s.io", "endpointslices", "web-1", slice);
        let found = resolve(&store.snapshot(), "a", "web", 443).unwrap();
        assert_eq!(found, ["192.0.2.2:8443", "192.0.2.3:8443"]);
        assert_eq!(error(80), r#"no endpoints available for service "web""#);
        assert_eq!(error(81), r#"no service port 81 found for service "web""#);
    }
}
