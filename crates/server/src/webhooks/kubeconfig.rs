//! Endpoints of webhooks that a kubeconfig describes: the server, its CA, and the credentials of this server.
//!
//! Fields that would have no effect here are rejected.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderValue;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use setpoint_api::quote::Quoted;
use setpoint_api::{Value, yaml};

use super::endpoint::{WebhookEndpoint, parse_url};

/// Supported fields of a cluster.
const CLUSTER_FIELDS: [&str; 6] = [
    "server",
    "certificate-authority",
    "certificate-authority-data",
    "tls-server-name",
    "extensions",
    "insecure-skip-tls-verify",
];
/// Supported fields of a user.
const USER_FIELDS: [&str; 8] = [
    "client-certificate",
    "client-certificate-data",
    "client-key",
    "client-key-data",
    "token",
    "username",
    "password",
    "extensions",
];

/// Failure to read the endpoint of a kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum EndpointFileError {
    /// The kubeconfig, or a file that it names, cannot be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The kubeconfig is malformed.
    #[error("{path}: {why}")]
    Malformed {
        /// The file.
        path: String,
        /// Fault and remedy.
        why: String,
    },
}

/// Credentials of this server for a webhook.
pub struct ClientCredentials {
    /// Value of the header `Authorization`.
    pub authorization: Option<HeaderValue>,
    certificate: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    fingerprint: [u8; 32],
}

impl ClientCredentials {
    /// Digest of the credentials, which distinguishes connections.
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }

    /// Certificate chain and key of the client.
    #[must_use]
    pub fn certificate(&self) -> Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
        self.certificate.as_ref().map(|(chain, key)| (chain.clone(), key.clone_key()))
    }
}

impl fmt::Debug for ClientCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCredentials").finish_non_exhaustive()
    }
}

impl PartialEq for ClientCredentials {
    fn eq(&self, other: &ClientCredentials) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl Eq for ClientCredentials {}

/// Reads the endpoint of the current context of a kubeconfig.
///
/// # Errors
/// If a file cannot be read, or the kubeconfig is malformed or has an unsupported field.
pub fn read_endpoint(path: &Path) -> Result<WebhookEndpoint, EndpointFileError> {
    let text = std::fs::read(path)
        .map_err(|source| EndpointFileError::Io { path: path.display().to_string(), source })?;
    Kubeconfig::parse(path, &text)?.endpoint()
}

/// Cluster and user of the current context.
struct Kubeconfig<'a> {
    path: &'a Path,
    cluster: Value,
    user: Value,
}

impl<'a> Kubeconfig<'a> {
    fn parse(path: &'a Path, text: &[u8]) -> Result<Kubeconfig<'a>, EndpointFileError> {
        let malformed = |why: String| EndpointFileError::Malformed { path: path.display().to_string(), why };
        let (config, _) = yaml::parse_strict(text).map_err(|error| malformed(error.to_string()))?;
        let current = config.str_at(&["current-context"]);
        let named = |list: &str, name: &str, part: &str| {
            let items = config.get(list).and_then(Value::as_list).unwrap_or_default();
            let found = items.iter().find(|entry| entry.str_at(&["name"]) == name);
            found.and_then(|entry| entry.get(part)).filter(|part| !part.is_null()).cloned()
        };
        let context = named("contexts", current, "context")
            .ok_or_else(|| malformed(format!("there is no context {}", Quoted(current))))?;
        let (cluster, user) = (context.str_at(&["cluster"]), context.str_at(&["user"]));
        let cluster = named("clusters", cluster, "cluster")
            .ok_or_else(|| malformed(format!("there is no cluster {}", Quoted(cluster))))?;
        let user = named("users", user, "user").unwrap_or_default();
        for (part, fields, title) in
            [(&cluster, &CLUSTER_FIELDS[..], "cluster"), (&user, &USER_FIELDS[..], "user")]
        {
            let names = part.as_map().into_iter().flat_map(|map| map.iter());
            let mut unknown = names.filter(|(name, value)| !fields.contains(name) && !value.is_empty());
            if let Some((name, _)) = unknown.next() {
                return Err(malformed(format!("{title}.{name} is not supported")));
            }
        }
        if cluster.get("insecure-skip-tls-verify").and_then(Value::as_bool) == Some(true) {
            return Err(malformed("cluster.insecure-skip-tls-verify is not supported".to_owned()));
        }
        Ok(Kubeconfig { path, cluster, user })
    }

    fn malformed(&self, why: impl Into<String>) -> EndpointFileError {
        EndpointFileError::Malformed { path: self.path.display().to_string(), why: why.into() }
    }

    fn endpoint(&self) -> Result<WebhookEndpoint, EndpointFileError> {
        let server = self.cluster.str_at(&["server"]);
        let mut endpoint = parse_url(server).ok_or_else(|| {
            self.malformed(format!("cluster.server {} is not an HTTPS URL", Quoted(server)))
        })?;
        let name = self.cluster.str_at(&["tls-server-name"]);
        if !name.is_empty() {
            endpoint.server_name = name.to_owned();
        }
        endpoint.ca_bundle =
            Bytes::from(self.pem(&self.cluster, "certificate-authority")?.unwrap_or_default());
        endpoint.credentials = self.credentials()?.map(Arc::new);
        Ok(endpoint)
    }

    fn credentials(&self) -> Result<Option<ClientCredentials>, EndpointFileError> {
        let (token, name) = (self.user.str_at(&["token"]), self.user.str_at(&["username"]));
        let header = match (token, name) {
            ("", "") => None,
            ("", name) => {
                let pair = format!("{name}:{}", self.user.str_at(&["password"]));
                Some(format!("Basic {}", STANDARD.encode(pair)))
            }
            (token, _) => Some(format!("Bearer {token}")),
        };
        let authorization = header.as_ref().map(|text| {
            let value = HeaderValue::try_from(text).map_err(|_| self.malformed("user.token is malformed"));
            value.map(|mut value| {
                value.set_sensitive(true);
                value
            })
        });
        let authorization = authorization.transpose()?;
        let pems = (self.pem(&self.user, "client-certificate")?, self.pem(&self.user, "client-key")?);
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(header.unwrap_or_default().as_bytes());
        let certificate = match pems {
            (Some(chain), Some(key)) => {
                context.update(&chain);
                context.update(&key);
                let bad = |_| self.malformed("user.client-certificate or user.client-key is not PEM");
                let parsed = CertificateDer::pem_slice_iter(&chain).collect::<Result<Vec<_>, _>>();
                Some((parsed.map_err(bad)?, PrivateKeyDer::from_pem_slice(&key).map_err(bad)?))
            }
            (None, None) => None,
            _ => return Err(self.malformed("user.client-certificate and user.client-key belong together")),
        };
        if authorization.is_none() && certificate.is_none() {
            return Ok(None);
        }
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(context.finish().as_ref());
        Ok(Some(ClientCredentials { authorization, certificate, fingerprint }))
    }

    /// Returns the inline data of a field, or the contents of the file that it names relative to the kubeconfig.
    fn pem(&self, part: &Value, name: &str) -> Result<Option<Vec<u8>>, EndpointFileError> {
        let (data, file) = (part.str_at(&[&format!("{name}-data")]), part.str_at(&[name]));
        if !data.is_empty() {
            let decoded = STANDARD.decode(data);
            return decoded.map(Some).map_err(|_| self.malformed(format!("{name}-data is not base64")));
        }
        if file.is_empty() {
            return Ok(None);
        }
        let path = self.path.parent().unwrap_or(Path::new("")).join(file);
        let read = std::fs::read(&path);
        read.map(Some).map_err(|source| EndpointFileError::Io { path: path.display().to_string(), source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(cluster: &str, user: &str) -> Result<WebhookEndpoint, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        std::fs::write(dir.path().join("ca.pem"), "PEM").unwrap();
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- {{name: c, context: {{cluster: s, user: u}}}}\n\
             clusters:\n- {{name: s, cluster: {cluster}}}\nusers:\n- {{name: u, user: {user}}}\n"
        );
        std::fs::write(&path, text).unwrap();
        let read = read_endpoint(&path).map_err(|error| error.to_string());
        read.map_err(|error| error.replace(&path.display().to_string(), "FILE"))
    }

    #[test]
    fn kubeconfig_describes_server_authority_and_credentials() {
        let cluster = "{server: 'https://h.example:8443/authorize', certificate-authority: ca.pem, tls-server-name: other}";
        let read = endpoint(cluster, "{token: abc}").unwrap();
        assert_eq!(
            (&*read.authority, &*read.path, &*read.server_name),
            ("h.example:8443", "/authorize", "other")
        );
        assert_eq!(read.ca_bundle, "PEM");
        let credentials = read.credentials.unwrap();
        assert_eq!(credentials.authorization.as_ref().unwrap(), "Bearer abc");
        assert!(!format!("{credentials:?}").contains("abc"));
        let basic =
            endpoint("{server: 'https://h'}", "{username: u, password: p}").unwrap().credentials.unwrap();
        assert_eq!(basic.authorization.as_ref().unwrap(), "Basic dTpw");
        assert_ne!(basic.fingerprint(), credentials.fingerprint());
        assert_eq!(endpoint("{server: 'https://h'}", "{}").unwrap().credentials, None);
    }

    #[test]
    fn unusable_kubeconfig_is_rejected_by_its_field() {
        for (cluster, user, expected) in [
            ("{server: 'http://h'}", "{}", "FILE: cluster.server \"http://h\" is not an HTTPS URL"),
            ("{server: 'https://h', proxy-url: x}", "{}", "FILE: cluster.proxy-url is not supported"),
            (
                "{server: 'https://h', insecure-skip-tls-verify: true}",
                "{}",
                "FILE: cluster.insecure-skip-tls-verify is not supported",
            ),
            ("{server: 'https://h'}", "{exec: {command: x}}", "FILE: user.exec is not supported"),
            ("{server: 'https://h'}", "{tokenFile: /x}", "FILE: user.tokenFile is not supported"),
            (
                "{server: 'https://h'}",
                "{client-key-data: AAAA}",
                "FILE: user.client-certificate and user.client-key belong together",
            ),
            (
                "{server: 'https://h', certificate-authority-data: '!'}",
                "{}",
                "FILE: certificate-authority-data is not base64",
            ),
        ] {
            assert_eq!(endpoint(cluster, user).unwrap_err(), expected);
        }
    }
}
