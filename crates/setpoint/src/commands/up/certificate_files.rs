//! Certificates in files that the server reads and others renew: CAs of clients, kubeconfigs of webhooks.
//!
//! Their expiry is in `/metrics`. A certificate that is due for replacement is logged when that begins, when it expires,
//! and once a day in between.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use setpoint_api::kinds::certificates::expiry::{CertificateSummary, ExpiryState, first_to_expire, read_pem};
use setpoint_api::rfc3339::Seconds;
use setpoint_api::{Clock, Time};
use setpoint_server::api::Api;

use crate::clock::SystemClock;
use crate::commands::certs::of_kubeconfig;

/// Interval at which the files are read.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Interval of log lines on one certificate.
const REMINDER_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// File with certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateFile {
    /// CA certificates in PEM.
    Authorities(PathBuf),
    /// Kubeconfig of a webhook.
    Kubeconfig(PathBuf),
}

/// Certificate of a file.
struct Found {
    path: String,
    field: String,
    certificate: CertificateSummary,
}

impl CertificateFile {
    fn read(&self) -> anyhow::Result<Vec<Found>> {
        match self {
            CertificateFile::Authorities(path) => {
                let name = path.display().to_string();
                let text = std::fs::read(path).with_context(|| format!("cannot read {name}"))?;
                let first = first_to_expire(&read_pem(&text)).cloned();
                let found = first.map(|certificate| Found { path: name, field: String::new(), certificate });
                Ok(found.into_iter().collect())
            }
            CertificateFile::Kubeconfig(path) => {
                let rows = of_kubeconfig(path)?.into_iter();
                let found = rows.filter_map(|row| {
                    let field = row.name.trim_start_matches("kubeconfig/").to_owned();
                    row.certificate.map(|certificate| Found { path: row.source, field, certificate })
                });
                Ok(found.collect())
            }
        }
    }
}

/// Reads the files again and again.
pub struct CertificateMonitor {
    files: Vec<CertificateFile>,
    api: Arc<Api>,
    reminders: Reminders,
}

impl CertificateMonitor {
    /// A monitor of these files.
    pub fn new(files: Vec<CertificateFile>, api: &Arc<Api>) -> CertificateMonitor {
        CertificateMonitor { files, api: Arc::clone(api), reminders: Reminders::default() }
    }

    /// Looks at the files until it is dropped. Never returns.
    #[expect(clippy::disallowed_methods, reason = "certificates expire in real time")]
    pub async fn run(mut self) {
        loop {
            self.check(SystemClock.now());
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    fn check(&mut self, now: Time) {
        // Other readers of the files report those that are unreadable.
        let found: Vec<Found> = self.files.iter().filter_map(|file| file.read().ok()).flatten().collect();
        let all = found.iter().map(|one| (one.path.as_str(), one.field.as_str(), &one.certificate));
        self.api.metrics().certificates().set_files(all);
        for one in &found {
            let state = one.certificate.state(now);
            if self.reminders.is_due((&one.path, &one.field), state, now) {
                let Found { path, field, certificate } = one;
                let (subject, expires) = (&certificate.subject, Seconds(certificate.end));
                if state == ExpiryState::Expired {
                    tracing::warn!(path, field, subject, %expires, "certificate has expired");
                } else {
                    tracing::warn!(path, field, subject, %expires, "certificate expires soon");
                }
            }
        }
    }
}

/// States of certificates at their last log lines.
#[derive(Default)]
struct Reminders(BTreeMap<(String, String), (ExpiryState, Time)>);

impl Reminders {
    /// `true` if the state is to be logged: it is new, or a day has passed.
    fn is_due(&mut self, (path, field): (&str, &str), state: ExpiryState, now: Time) -> bool {
        let key = (path.to_owned(), field.to_owned());
        if state == ExpiryState::Valid {
            self.0.remove(&key);
            return false;
        }
        let is_known = self
            .0
            .get(&key)
            .is_some_and(|(logged, at)| *logged == state && *at <= now && now < at.after(REMINDER_INTERVAL));
        if !is_known {
            self.0.insert(key, (state, now));
        }
        !is_known
    }
}

#[cfg(test)]
mod tests {
    use setpoint_pki::certs::Pki;

    use super::*;

    const NOW: Time = Time::from_seconds(1_790_000_000);

    #[test]
    fn expiring_certificate_is_logged_once_a_day_and_when_it_has_expired() {
        let mut reminders = Reminders::default();
        let hour = |hours: u32| NOW.after(Duration::from_secs(3600) * hours);
        let mut due = |state, hours| reminders.is_due(("file", ""), state, hour(hours));
        assert!(!due(ExpiryState::Valid, 0));
        assert!(due(ExpiryState::Expiring, 1) && !due(ExpiryState::Expiring, 24));
        assert!(due(ExpiryState::Expiring, 25));
        assert!(due(ExpiryState::Expired, 26) && !due(ExpiryState::Expired, 27));
        assert!(!due(ExpiryState::Valid, 28) && due(ExpiryState::Expiring, 29));
    }

    #[test]
    fn certificates_of_both_sorts_of_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::ephemeral(&["localhost".to_owned()], NOW, 1).unwrap();
        let (authorities, kubeconfig) = (dir.path().join("ca.crt"), dir.path().join("kubeconfig"));
        std::fs::write(&authorities, &pki.ca.certificate).unwrap();
        std::fs::write(&kubeconfig, setpoint_server::kubeconfig::text("https://localhost:6443", &pki))
            .unwrap();
        let fields = |file: CertificateFile| -> Vec<String> {
            file.read().unwrap().into_iter().map(|one| one.field + " " + &one.certificate.subject).collect()
        };
        assert_eq!(fields(CertificateFile::Authorities(authorities)), [" CN=kubernetes"]);
        let expected =
            ["cluster/setpoint CN=kubernetes", "user/kubernetes-admin O=system:masters,CN=kubernetes-admin"];
        assert_eq!(fields(CertificateFile::Kubeconfig(kubeconfig)), expected);
        assert!(CertificateFile::Authorities(dir.path().join("missing")).read().is_err());
    }
}
