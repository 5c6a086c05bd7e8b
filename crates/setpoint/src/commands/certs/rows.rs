//! Certificates in files and in the API.

use std::path::Path;

use anyhow::{Context, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use setpoint_api::kinds::certificates::expiry::{
    BUNDLE_RESOURCES, CertificateSummary, ExpiryState, ca_bundles, first_to_expire, read_pem,
};
use setpoint_api::{Time, Value, json, yaml};
use setpoint_pki::certs::renew_at;
use setpoint_runtime::client::Client;

use crate::commands::api_client::status_message;

/// Certificates of a data directory: name, and the file in `pki`.
const OWN: [(&str, &str); 5] = [
    ("ca", "ca.crt"),
    ("apiserver", "apiserver.crt"),
    ("admin", "admin.crt"),
    ("front-proxy-ca", "front-proxy-ca.crt"),
    ("front-proxy-client", "front-proxy-client.crt"),
];
/// Key that signs service account tokens.
const SERVICE_ACCOUNT_KEY: &str = "service-account.key";

/// Renewal of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// By the server, from this time on.
    Server(Time),
    /// Written again by the server with the certificate in it.
    Rewritten,
    /// By the owner of the object or file.
    Owner,
    /// Keys have no validity.
    Never,
}

/// Certificate or key, as it is listed.
#[derive(Clone, Debug)]
pub struct CertificateRow {
    /// Name of a file, or object with a field.
    pub name: String,
    /// The certificate; `None` for a key, or if it cannot be read.
    pub certificate: Option<CertificateSummary>,
    /// Renewal.
    pub renewal: Renewal,
    /// File or resource.
    pub source: String,
}

impl CertificateRow {
    /// State at a time; `None` without a certificate.
    pub fn state(&self, now: Time) -> Option<ExpiryState> {
        self.certificate.as_ref().map(|certificate| certificate.state(now))
    }
}

/// Lists the certificates of a data directory: those in `pki`, and the kubeconfig.
pub fn of_data_dir(dir: &Path) -> anyhow::Result<Vec<CertificateRow>> {
    let mut rows = Vec::new();
    for (name, file) in OWN {
        let path = dir.join("pki").join(file);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let certificate = read_pem(&text).into_iter().next();
        let renewal =
            certificate.as_ref().map_or(Renewal::Never, |one| Renewal::Server(renew_at(one.begin, one.end)));
        rows.push(CertificateRow {
            name: name.to_owned(),
            certificate: Some(certificate.ok_or_else(|| anyhow!("{} has no certificate", path.display()))?),
            renewal,
            source: path.display().to_string(),
        });
    }
    let key = dir.join("pki").join(SERVICE_ACCOUNT_KEY);
    if key.exists() {
        let (name, source) = ("service-account-key".to_owned(), key.display().to_string());
        rows.push(CertificateRow { name, certificate: None, renewal: Renewal::Never, source });
    }
    let kubeconfig = dir.join("kubeconfig");
    if kubeconfig.exists() {
        let own = of_kubeconfig(&kubeconfig)?.into_iter();
        rows.extend(own.map(|row| CertificateRow { renewal: Renewal::Rewritten, ..row }));
    }
    Ok(rows)
}

/// Lists the certificates of a kubeconfig: CA and client certificate of each entry.
pub fn of_kubeconfig(path: &Path) -> anyhow::Result<Vec<CertificateRow>> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let (config, _) = yaml::parse_strict(&text).with_context(|| path.display().to_string())?;
    let mut rows = Vec::new();
    for (list, part, field) in
        [("clusters", "cluster", "certificate-authority"), ("users", "user", "client-certificate")]
    {
        for entry in config.get(list).and_then(Value::as_list).unwrap_or_default() {
            let data = entry.str_at(&[part, &format!("{field}-data")]);
            let file = entry.str_at(&[part, field]);
            let pem = match (data, file) {
                ("", "") => continue,
                // A path is relative to the kubeconfig.
                ("", file) => {
                    let file = path.parent().unwrap_or(Path::new("")).join(file);
                    std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?
                }
                (data, _) => {
                    STANDARD.decode(data).with_context(|| format!("{}: {field}-data", path.display()))?
                }
            };
            rows.extend(first_to_expire(&read_pem(&pem)).map(|certificate| CertificateRow {
                name: format!("kubeconfig/{part}/{}", entry.str_at(&["name"])),
                certificate: Some(certificate.clone()),
                renewal: Renewal::Owner,
                source: path.display().to_string(),
            }));
        }
    }
    Ok(rows)
}

/// Lists the certificates in objects of the API. What the user may not list is reported, and left out.
pub async fn of_api(client: &Client, includes_secrets: bool) -> anyhow::Result<Vec<CertificateRow>> {
    let mut rows = Vec::new();
    for (resource, version, _) in BUNDLE_RESOURCES {
        let plural = resource.split('.').next().unwrap_or_default();
        for object in list(client, &format!("/apis/{version}/{plural}"), resource).await? {
            for (field, pem) in ca_bundles(resource, &object) {
                let name = format!("{plural}/{} {field}", object.str_at(&["metadata", "name"]));
                rows.extend(row(name, &pem, resource));
            }
        }
    }
    if includes_secrets {
        let path = "/api/v1/secrets?fieldSelector=type%3Dkubernetes.io%2Ftls";
        for secret in list(client, path, "secrets").await? {
            let meta = |field| secret.str_at(&["metadata", field]);
            let name = format!("secrets/{}/{}", meta("namespace"), meta("name"));
            let pem = STANDARD.decode(secret.str_at(&["data", "tls.crt"])).unwrap_or_default();
            rows.extend(row(name, &pem, "secrets"));
        }
    }
    Ok(rows)
}

fn row(name: String, pem: &[u8], source: &str) -> Option<CertificateRow> {
    let certificate = first_to_expire(&read_pem(pem)).cloned();
    let source = source.to_owned();
    certificate.map(|one| CertificateRow { name, certificate: Some(one), renewal: Renewal::Owner, source })
}

async fn list(client: &Client, path: &str, resource: &str) -> anyhow::Result<Vec<Value>> {
    let (status, body) = client.get(path, None).await?;
    if !status.is_success() {
        eprintln!("{resource} are not listed: {}", status_message(status.as_u16(), &body));
        return Ok(Vec::new());
    }
    let found =
        json::parse(&body).with_context(|| format!("the server sent a malformed list of {resource}"))?;
    Ok(found.get("items").and_then(Value::as_list).unwrap_or_default().to_vec())
}

#[cfg(test)]
mod tests {
    use setpoint_pki::certs::Pki;

    use super::*;

    const NOW: Time = Time::from_seconds(1_790_000_000);

    #[test]
    fn certificates_of_a_data_directory_are_listed_with_their_renewal() {
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::load_or_create(&dir.path().join("pki"), &["localhost".to_owned()], NOW, 1).unwrap();
        std::fs::write(dir.path().join("pki").join(SERVICE_ACCOUNT_KEY), "").unwrap();
        let text = setpoint_server::kubeconfig::text("https://localhost:6443", &pki);
        std::fs::write(dir.path().join("kubeconfig"), text).unwrap();
        let rows = of_data_dir(dir.path()).unwrap();
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        let expected = [
            "ca",
            "apiserver",
            "admin",
            "front-proxy-ca",
            "front-proxy-client",
            "service-account-key",
            "kubeconfig/cluster/setpoint",
            "kubeconfig/user/kubernetes-admin",
        ];
        assert_eq!(names, expected);
        assert_eq!(rows[2].certificate, rows[7].certificate);
        assert!(matches!(rows[1].renewal, Renewal::Server(at) if at > NOW));
        assert_eq!((rows[5].renewal, rows[7].renewal), (Renewal::Never, Renewal::Rewritten));
    }

    #[test]
    fn damaged_certificate_is_an_error_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("pki")).unwrap();
        std::fs::write(dir.path().join("pki/ca.crt"), "damaged").unwrap();
        let error = of_data_dir(dir.path()).unwrap_err().to_string();
        assert!(error.ends_with("pki/ca.crt has no certificate"), "{error}");
    }
}
