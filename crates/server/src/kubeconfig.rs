//! Kubeconfig of the administrator, self-contained.
//!
//! It is written atomically, readable by its owner alone, and never replaces a file of other origin.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use setpoint_api::{value, yaml};
use setpoint_store::disk::is_full;

use setpoint_pki::certs::users::UserCertificate;
use setpoint_pki::certs::{ADMIN_NAME, Pki};
use setpoint_pki::private_file;

/// First line, which marks files of this program.
const MARK: &str = "# Written by `setpoint up`, and written again at each start.\n";

/// Failure to write the kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The existing file was not written by this program.
    #[error("{} exists and was not written by setpoint: choose another path with --kubeconfig", .0.display())]
    NotOurs(PathBuf),
    /// The file could not be read or written.
    #[error("cannot write {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// Contents of a kubeconfig for the server at `url`.
#[must_use]
pub fn text(url: &str, pki: &Pki) -> String {
    let encoded = |pem: &str| STANDARD.encode(pem);
    format!(
        "{MARK}apiVersion: v1
kind: Config
current-context: setpoint
clusters:
- name: setpoint
  cluster:
    server: {url}
    certificate-authority-data: {ca}
contexts:
- name: setpoint
  context:
    cluster: setpoint
    user: {ADMIN_NAME}
users:
- name: {ADMIN_NAME}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
",
        ca = encoded(&pki.ca.certificate),
        certificate = encoded(&pki.admin.certificate),
        key = encoded(&pki.admin.key),
    )
}

/// Contents of the kubeconfig of a user for the server at `url`.
#[must_use]
pub fn user_text(url: &str, name: &str, issued: &UserCertificate) -> String {
    let encoded = |pem: &str| STANDARD.encode(pem);
    let context = value!({"cluster": "setpoint", "user": (name)});
    let cluster = value!({"server": (url), "certificate-authority-data": (encoded(&issued.ca))});
    let user = value!({
        "client-certificate-data": (encoded(&issued.certificate)),
        "client-key-data": (encoded(&issued.key)),
    });
    let config = value!({
        "apiVersion": "v1", "kind": "Config", "current-context": "setpoint",
        "clusters": [{"name": "setpoint", "cluster": (cluster)}],
        "contexts": [{"name": "setpoint", "context": (context)}],
        "users": [{"name": (name), "user": (user)}],
    });
    let mut text = Vec::new();
    yaml::write(&config, &mut text);
    format!("# Written by `setpoint users add`.\n{}", String::from_utf8_lossy(&text))
}

/// Writes the file, and creates its directory. An identical file is not touched. On a full disk the old file stays:
/// the server has to start, so that objects can be deleted.
///
/// # Errors
/// If the existing file is not ours, or cannot be written.
pub fn write(path: &Path, text: &str) -> Result<(), KubeconfigError> {
    write_with(path, text, private_file::replace)
}

fn write_with(
    path: &Path,
    text: &str,
    replace: impl FnOnce(&Path, &[u8]) -> io::Result<()>,
) -> Result<(), KubeconfigError> {
    let failed = |source| KubeconfigError::Io { path: path.to_owned(), source };
    let has_old = match std::fs::read(path) {
        Ok(old) if old == text.as_bytes() => return Ok(()),
        Ok(old) if old.is_empty() => false,
        Ok(old) if old.starts_with(MARK.as_bytes()) => true,
        Ok(_) => return Err(KubeconfigError::NotOurs(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(failed(error)),
    };
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        private_file::make_dir(dir).map_err(failed)?;
    }
    match replace(path, text.as_bytes()) {
        Err(error) if has_old && is_full(&error) => {
            let path = path.display();
            tracing::warn!(%path, %error, "cannot update the kubeconfig, keeping the old one");
            Ok(())
        }
        written => written.map_err(failed),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use setpoint_api::Time;

    use super::*;

    fn sample() -> String {
        let names = ["localhost".to_owned()];
        text("https://localhost:6443", &Pki::ephemeral(&names, Time::from_seconds(1_700_000_000), 1).unwrap())
    }

    #[test]
    fn kubeconfig_is_private_and_replaces_only_a_generated_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/down/config");
        write(&path, &sample()).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let second = sample();
        write(&path, &second).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), second);
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left aside");
        std::fs::write(&path, "apiVersion: v1\n").unwrap();
        assert!(matches!(write(&path, &second), Err(KubeconfigError::NotOurs(_))));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "apiVersion: v1\n");
    }

    #[test]
    fn unchanged_kubeconfig_or_full_disk_keeps_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        let full = |_: &Path, _: &[u8]| Err(io::Error::from(io::ErrorKind::StorageFull));
        let (first, second) = (sample(), sample());
        assert!(write_with(&path, &first, full).is_err(), "there is none");
        write(&path, &first).unwrap();
        write_with(&path, &first, |_, _| panic!("nothing to write")).unwrap();
        write_with(&path, &second, full).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), first);
        let denied = |_: &Path, _: &[u8]| Err(io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(write_with(&path, &second, denied).is_err());
    }
}
