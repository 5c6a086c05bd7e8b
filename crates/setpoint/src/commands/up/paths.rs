//! Paths of the data directory, the certificates and the kubeconfig.

use std::path::PathBuf;

use setpoint_api::Clock;
use setpoint_pki::certs::Pki;
use setpoint_store::log::LogError;
use setpoint_store::log::disk::files::LogFile;

use super::UpArgs;
use crate::clock::{SystemClock, entropy};
use crate::commands::default_data_dir;

/// Paths of the store, the certificates and the kubeconfig.
#[derive(Clone)]
pub struct Paths {
    /// Data directory; `None` if the store is in memory.
    pub data_dir: Option<PathBuf>,
    pub kubeconfig: PathBuf,
    /// Directory that was created for this run only.
    temporary: Option<PathBuf>,
}

impl Paths {
    /// Returns the paths from the flags, with defaults.
    pub fn from_args(args: &UpArgs) -> anyhow::Result<Paths> {
        let data_dir = match (&args.data_dir, args.ephemeral) {
            (_, true) => None,
            (Some(dir), false) => Some(dir.clone()),
            (None, false) => Some(default_data_dir()?),
        };
        let (kubeconfig, temporary) = match (&args.kubeconfig, &data_dir) {
            (Some(path), _) => (path.clone(), None),
            (None, Some(dir)) => (dir.join("kubeconfig"), None),
            (None, None) => {
                // The random number prevents other users of the machine from creating the directory first.
                let dir = std::env::temp_dir().join(format!("setpoint-{:016x}", entropy()));
                (dir.join("kubeconfig"), Some(dir))
            }
        };
        Ok(Paths { data_dir, kubeconfig: std::path::absolute(kubeconfig)?, temporary })
    }

    /// Location of the store, for messages.
    pub fn store_location(&self) -> String {
        match &self.data_dir {
            Some(dir) => format!("in {}", dir.display()),
            None => "in memory".to_owned(),
        }
    }

    /// Directory for the volumes of the built-in provisioner: beside the store, or a temporary one.
    pub fn volumes(&self) -> String {
        let dir = match (&self.data_dir, &self.temporary) {
            (Some(dir), _) | (None, Some(dir)) => dir.clone(),
            (None, None) => std::env::temp_dir().join(format!("setpoint-{}", std::process::id())),
        };
        let dir = std::path::absolute(&dir).unwrap_or(dir);
        dir.join("volumes").to_string_lossy().into_owned()
    }

    /// Fails if there are issued certificates but no store: the store is always created before the first
    /// certificate. A certificate authority alone is accepted, because an administrator may have provided
    /// it.
    pub fn check_store(&self) -> anyhow::Result<()> {
        const SERVING_CERTIFICATE: &str = "pki/apiserver.crt";
        let Some(dir) = self.data_dir.as_ref().filter(|dir| dir.join(SERVING_CERTIFICATE).exists()) else {
            return Ok(());
        };
        for entry in std::fs::read_dir(dir)? {
            let name = entry?.file_name();
            if name.to_str().and_then(LogFile::parse).is_some() {
                return Ok(());
            }
        }
        let error = LogError::Lost { remaining_file: SERVING_CERTIFICATE.to_owned() };
        anyhow::bail!("{}: {error}", dir.display())
    }

    /// Returns the certificates, which are stored beside the store.
    pub fn pki(&self, names: &[String]) -> anyhow::Result<Pki> {
        let now = SystemClock.now();
        Ok(match &self.data_dir {
            Some(dir) => Pki::load_or_create(&dir.join("pki"), names, now, entropy())?,
            None => Pki::ephemeral(names, now, entropy())?,
        })
    }

    /// Removes the directory that was created for this run only.
    pub fn remove_temporary(&self) {
        if let Some(dir) = &self.temporary {
            // It holds a key of a server that no longer runs, so leftovers are harmless.
            let _ = std::fs::remove_dir_all(dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_without_a_store_are_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths {
            data_dir: Some(dir.path().join("data")),
            kubeconfig: dir.path().join("kubeconfig"),
            temporary: None,
        };
        paths.check_store().unwrap();
        std::fs::create_dir_all(dir.path().join("data/pki")).unwrap();
        std::fs::write(dir.path().join("data/pki/ca.crt"), "custom authority").unwrap();
        paths.check_store().unwrap();
        std::fs::write(dir.path().join("data/pki/apiserver.crt"), "issued").unwrap();
        let error = paths.check_store().unwrap_err().to_string();
        assert!(error.contains("has pki/apiserver.crt but no segment-*"), "{error}");
        std::fs::write(dir.path().join("data/checkpoint-00000000000000000000.log"), "").unwrap();
        paths.check_store().unwrap();
    }
}
