//! Endpoints of webhooks: a URL, or a Service that is resolved through its EndpointSlices.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use setpoint_api::quote::Quoted;
use setpoint_api::{Value, resource_types};
use setpoint_store::Snapshot;

use super::kubeconfig::ClientCredentials;
use crate::codec;

/// Port of a URL without a port.
const HTTPS_PORT: u16 = 443;

/// Client configuration of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientConfig {
    /// A URL.
    Url {
        /// The URL.
        url: Box<str>,
        /// CA certificates in PEM; those of the system if empty.
        ca_bundle: Bytes,
    },
    /// A Service of the cluster.
    Service {
        /// Namespace of the Service.
        namespace: Box<str>,
        /// Name of the Service.
        name: Box<str>,
        /// Path of the request.
        path: Box<str>,
        /// Port of the Service.
        port: u16,
        /// CA certificates in PEM; those of the system if empty.
        ca_bundle: Bytes,
    },
}

/// Addresses to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointAddress {
    /// A host name that DNS resolves, and a port.
    Name(String, u16),
    /// An address.
    Socket(SocketAddr),
}

/// A resolved endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookEndpoint {
    /// `host` or `host:port` of the URL.
    pub authority: String,
    /// Name for SNI and verification of the certificate.
    pub server_name: String,
    /// Path of the URL.
    pub path: String,
    /// Address to connect to.
    pub address: EndpointAddress,
    /// CA certificates in PEM; those of the system if empty.
    pub ca_bundle: Bytes,
    /// Credentials of this server; `None` to send none.
    pub credentials: Option<Arc<ClientCredentials>>,
}

/// Failure to resolve an endpoint, with upstream's texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Neither a URL nor a Service.
    #[error("webhook configuration must have either service or URL")]
    Missing,
    /// The URL is malformed.
    #[error("Unparsable URL: {}", Quoted(.0))]
    Url(String),
    /// The Service does not exist.
    #[error("Post {}: service {} not found", Quoted(.url), Quoted(.name))]
    ServiceNotFound {
        /// URL of the call.
        url: String,
        /// Name of the Service.
        name: String,
    },
    /// The Service has no such port.
    #[error("Post {}: no service port {port} found for service {}", Quoted(.url), Quoted(.name))]
    NoPort {
        /// URL of the call.
        url: String,
        /// Name of the Service.
        name: String,
        /// The port.
        port: u16,
    },
    /// The Service has no endpoint that is ready.
    #[error("Post {}: no endpoints available for service {}", Quoted(.url), Quoted(.name))]
    NoEndpoints {
        /// URL of the call.
        url: String,
        /// Name of the Service.
        name: String,
    },
}

impl WebhookEndpoint {
    /// URL of the endpoint with the timeout of a call, as errors show it.
    #[must_use]
    pub fn url(&self, timeout_seconds: u64) -> String {
        format!("https://{}{}", self.authority, self.target(timeout_seconds))
    }

    /// Path and query of a call.
    #[must_use]
    pub fn target(&self, timeout_seconds: u64) -> String {
        format!("{}?timeout={timeout_seconds}s", self.path)
    }
}

impl ClientConfig {
    /// Resolves the endpoint. `entropy` selects one of several endpoints of a Service.
    ///
    /// # Errors
    /// If it is malformed, or its Service has no ready endpoint.
    pub fn resolve(
        &self,
        snapshot: &Snapshot,
        entropy: u64,
        timeout_seconds: u64,
    ) -> Result<WebhookEndpoint, EndpointError> {
        match self {
            ClientConfig::Url { url, ca_bundle } if !url.is_empty() => {
                let unparsable = || EndpointError::Url(url.to_string());
                let mut endpoint = parse_url(url).ok_or_else(unparsable)?;
                endpoint.ca_bundle = ca_bundle.clone();
                Ok(endpoint)
            }
            ClientConfig::Url { .. } => Err(EndpointError::Missing),
            ClientConfig::Service { namespace, name, path, port, ca_bundle } => {
                let server_name = format!("{name}.{namespace}.svc");
                let mut endpoint = WebhookEndpoint {
                    authority: format!("{server_name}:{port}"),
                    path: rooted(path),
                    address: EndpointAddress::Name(String::new(), 0),
                    ca_bundle: ca_bundle.clone(),
                    credentials: None,
                    server_name,
                };
                let url = endpoint.url(timeout_seconds);
                endpoint.address = resolve_service(snapshot, (namespace, name), *port, entropy, url)?;
                Ok(endpoint)
            }
        }
    }
}

fn rooted(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

pub(super) fn parse_url(url: &str) -> Option<WebhookEndpoint> {
    let rest = url.strip_prefix("https://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            (host, if port.is_empty() { HTTPS_PORT } else { port.parse().ok()? })
        }
        _ => (authority, HTTPS_PORT),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_host = |byte: u8| byte.is_ascii_graphic() && byte != b'@';
    if host.is_empty() || !host.bytes().all(is_host) || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let address = match host.parse::<IpAddr>() {
        Ok(ip) => EndpointAddress::Socket(SocketAddr::new(ip, port)),
        Err(_) => EndpointAddress::Name(host.to_owned(), port),
    };
    Some(WebhookEndpoint {
        authority: authority.to_owned(),
        server_name: host.to_owned(),
        path: rooted(path),
        address,
        ca_bundle: Bytes::new(),
        credentials: None,
    })
}

fn resolve_service(
    snapshot: &Snapshot,
    (namespace, name): (&str, &str),
    port: u16,
    entropy: u64,
    url: String,
) -> Result<EndpointAddress, EndpointError> {
    let key = || resource_types::find("", "v1", "services")?.key(namespace, name).ok();
    let Some(service) = key().and_then(|key| snapshot.get(&key)).map(codec::object) else {
        return Err(EndpointError::ServiceNotFound { url, name: name.to_owned() });
    };
    if service.str_at(&["spec", "type"]) == "ExternalName" {
        return Ok(EndpointAddress::Name(service.str_at(&["spec", "externalName"]).to_owned(), port));
    }
    let ports = service.at(&["spec", "ports"]).and_then(Value::as_list).unwrap_or_default();
    let number = |port: &Value| port.get("port").and_then(Value::as_i64);
    let Some(found) = ports.iter().find(|one| number(one) == Some(i64::from(port))) else {
        return Err(EndpointError::NoPort { url, name: name.to_owned(), port });
    };
    let endpoints = ready_endpoints(snapshot, namespace, name, found.str_at(&["name"]));
    let count = endpoints.len() as u64;
    let chosen = usize::try_from(entropy.checked_rem(count).unwrap_or(0)).unwrap_or(0);
    match endpoints.get(chosen) {
        Some(address) => Ok(EndpointAddress::Socket(*address)),
        None => Err(EndpointError::NoEndpoints { url, name: name.to_owned() }),
    }
}

/// Ready endpoints of a port of a Service, in the order of its slices.
#[must_use]
pub fn ready_endpoints(
    snapshot: &Snapshot,
    namespace: &str,
    service: &str,
    port_name: &str,
) -> Vec<SocketAddr> {
    let slices = resource_types::find("discovery.k8s.io", "v1", "endpointslices");
    let Some(table) = slices.and_then(|slices| snapshot.table(&slices.resource)) else { return Vec::new() };
    let prefix = format!("{namespace}/");
    let slices = table
        .range(&prefix, None)
        .filter(|record| record.attributes().label("kubernetes.io/service-name") == Some(service));
    let mut found = Vec::new();
    for slice in slices.map(codec::object) {
        let list = |field: &str| slice.get(field).and_then(Value::as_list).unwrap_or_default();
        let port = list("ports").iter().find(|port| port.str_at(&["name"]) == port_name);
        let number =
            port.and_then(|port| port.get("port")?.as_i64()).and_then(|port| u16::try_from(port).ok());
        let Some(number) = number else { continue };
        for endpoint in list("endpoints") {
            if endpoint.at(&["conditions", "ready"]).and_then(Value::as_bool) == Some(false) {
                continue;
            }
            let addresses = endpoint.get("addresses").and_then(Value::as_list).unwrap_or_default();
            let address =
                addresses.first().and_then(Value::as_str).and_then(|text| text.parse::<IpAddr>().ok());
            found.extend(address.map(|address| SocketAddr::new(address, number)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::admission::testing::snapshot_with;

    #[test]
    fn url_is_split_into_name_address_and_path() {
        let parse = |url: &str| parse_url(url).map(|one| (one.server_name, one.address, one.path));
        let name = |host: &str, port| EndpointAddress::Name(host.to_owned(), port);
        assert_eq!(
            parse("https://h.example"),
            Some(("h.example".into(), name("h.example", 443), "/".into()))
        );
        let (host, address, path) = parse("https://127.0.0.1:8443/a/b?x#y").unwrap();
        assert_eq!((host.as_str(), path.as_str()), ("127.0.0.1", "/a/b"));
        assert_eq!(address, EndpointAddress::Socket("127.0.0.1:8443".parse().unwrap()));
        assert_eq!(parse("https://[::1]:1/").unwrap().1, EndpointAddress::Socket("[::1]:1".parse().unwrap()));
        for bad in ["http://h", "https://", "https://h:x/", "https://u@h/", "https://a b/", "https://h/a b"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    fn service(port: u16) -> ClientConfig {
        ClientConfig::Service {
            namespace: "a".into(),
            name: "hook".into(),
            path: "check".into(),
            port,
            ca_bundle: Bytes::new(),
        }
    }

    #[test]
    fn service_resolves_to_a_ready_endpoint_of_the_named_port() {
        let snapshot = snapshot_with(&[
            (
                "",
                "v1",
                "services",
                r#"{"kind":"Service","apiVersion":"v1","metadata":{"name":"hook","namespace":"a"},
                    "spec":{"ports":[{"name":"web","port":443,"protocol":"TCP","targetPort":8443}]}}"#,
            ),
            (
                "discovery.k8s.io",
                "v1",
                "endpointslices",
                r#"{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1","addressType":"IPv4",
                    "metadata":{"name":"s","namespace":"a","labels":{"kubernetes.io/service-name":"hook"}},
                    "endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":false}},
                                 {"addresses":["10.0.0.2"],"conditions":{"ready":true}},
                                 {"addresses":["10.0.0.3"],"conditions":{}}],
                    "ports":[{"name":"web","port":8443,"protocol":"TCP"}]}"#,
            ),
        ]);
        let found = |entropy| service(443).resolve(&snapshot, entropy, 10).unwrap();
        let socket = |text: &str| EndpointAddress::Socket(text.parse().unwrap());
        assert_eq!(found(0).address, socket("10.0.0.2:8443"));
        assert_eq!(found(5).address, socket("10.0.0.3:8443"));
        assert_eq!(found(0).server_name, "hook.a.svc");
        assert_eq!(found(0).url(10), "https://hook.a.svc:443/check?timeout=10s");
        assert_eq!(
            service(80).resolve(&snapshot, 0, 5).unwrap_err().to_string(),
            r#"Post "https://hook.a.svc:80/check?timeout=5s": no service port 80 found for service "hook""#
        );
    }

    #[test]
    fn missing_service_is_named() {
        let error = service(443).resolve(&Snapshot::default(), 0, 10).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"Post "https://hook.a.svc:443/check?timeout=10s": service "hook" not found"#
        );
    }
}
