//! Encryption at rest of a running server: flags, health check, reload, and sealing with new keys.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use setpoint_api::Clock;
use setpoint_server::api::Api;
use setpoint_server::health::Check;
use setpoint_store::Store;
use tokio::task::JoinSet;

use crate::clock::SystemClock;
use crate::commands::encryption::{Encryption, EncryptionArgs};

/// Interval at which the file is read again. Upstream's is a minute.
const RELOAD_INTERVAL: Duration = Duration::from_secs(2);
/// Intervals between two attempts to seal stored records with new keys.
const INTERVALS_BETWEEN_ATTEMPTS: u32 = 30;
/// Name of the health check, upstream's.
const CHECK: &str = "kms-providers";

/// Flags of encryption at rest.
#[derive(Debug, clap::Args)]
pub struct ServerEncryptionArgs {
    #[command(flatten)]
    config: EncryptionArgs,
    /// Reload the file of --encryption-provider-config when it changes
    #[arg(long, requires = "encryption_provider_config")]
    encryption_provider_config_automatic_reload: bool,
}

impl ServerEncryptionArgs {
    /// Rejects a configuration that is not valid, or has no effect.
    pub fn validate(&self, is_ephemeral: bool) -> anyhow::Result<()> {
        let file: Option<&PathBuf> = self.config.encryption_provider_config.as_ref();
        if is_ephemeral && file.is_some() {
            bail!(
                "--encryption-provider-config has no effect with --ephemeral, which writes no data: remove one"
            );
        }
        self.config.validate()
    }

    /// Reads the configuration and asks KMS plugins for keys; `None` if nothing is encrypted.
    pub fn open(&self) -> anyhow::Result<Option<Arc<Encryption>>> {
        self.config.open()
    }

    /// Starts a task that reloads keys and seals stored records with them. Adds metrics, and the health check of KMS
    /// plugins: with automatic reload, there may be plugins later.
    pub fn start(
        &self,
        encryption: Option<Arc<Encryption>>,
        api: Api,
        store: Store,
        tasks: &mut JoinSet<()>,
    ) -> Api {
        let Some(encryption) = encryption else { return api };
        let is_reloaded = self.encryption_provider_config_automatic_reload;
        tasks.spawn(follow(Arc::clone(&encryption), is_reloaded, store));
        let metrics = Arc::clone(encryption.metrics());
        api.metrics().register(move |text| metrics.write(text));
        if !encryption.has_plugins() && !is_reloaded {
            return api;
        }
        api.with_check(Check::new(CHECK, false, move || encryption.check_plugins()))
    }
}

/// Applies changes of the file, if the flag says so, and seals stored records again when their key has changed.
/// Never returns.
#[expect(clippy::disallowed_methods, reason = "the file is read in real time")]
async fn follow(encryption: Arc<Encryption>, is_reloaded: bool, store: Store) {
    let mut intervals_to_skip = 0;
    loop {
        tokio::time::sleep(RELOAD_INTERVAL).await;
        if is_reloaded {
            let reloading = Arc::clone(&encryption);
            let reloaded = tokio::task::spawn_blocking(move || reload(&reloading)).await.unwrap_or(false);
            if reloaded {
                intervals_to_skip = 0;
            }
        }
        if intervals_to_skip > 0 {
            intervals_to_skip -= 1;
        } else if store.has_records_of_old_keys() {
            intervals_to_skip = INTERVALS_BETWEEN_ATTEMPTS;
            let store = store.clone();
            let sealing = tokio::task::spawn_blocking(move || store.seal_again(SystemClock.now()));
            match sealing.await {
                Ok(Ok(())) => tracing::info!("stored objects sealed with the current encryption keys"),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "cannot seal stored objects with the current encryption keys");
                }
                // The panic hook has reported it.
                Err(_) => {}
            }
        }
    }
}

fn reload(encryption: &Encryption) -> bool {
    match encryption.reload() {
        Ok(false) => false,
        Ok(true) => {
            encryption.metrics().record_reload(true, SystemClock.now());
            tracing::info!("reloaded the encryption provider configuration");
            true
        }
        Err(error) => {
            encryption.metrics().record_reload(false, SystemClock.now());
            let error = format!("{error:#}");
            tracing::error!(
                error,
                "cannot reload the encryption provider configuration, keeping the old one"
            );
            false
        }
    }
}
