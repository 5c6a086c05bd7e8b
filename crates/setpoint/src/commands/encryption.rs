//! Encryption at rest: the configuration file, the sealer of the store, and the reload of both.
//!
//! The keys are in `setpoint-encryption`; [`plugin`] calls KMS plugins. [`KeyRingSealer`] hands the key ring to the store,
//! and can replace it at any time.

mod metrics;
mod plugin;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use parking_lot::{Mutex, RwLock};
use setpoint_api::Resource;
use setpoint_encryption::config::{self, EncryptionConfiguration};
use setpoint_encryption::{KeyRing, Random};
use setpoint_store::Sealer;
use setpoint_store::seal::{Context, OpenError, SealedBytes};

pub use self::metrics::EncryptionMetrics;
use self::plugin::{Plugin, PluginCalls};
use crate::clock::SystemClock;

/// Flags of encryption at rest.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct EncryptionArgs {
    /// File with an EncryptionConfiguration: resources to encrypt in the data directory, and the keys
    #[arg(long, value_name = "FILE")]
    pub encryption_provider_config: Option<PathBuf>,
}

impl EncryptionArgs {
    /// Rejects a file that cannot be read or is not valid. Calls no plugin.
    pub fn validate(&self) -> anyhow::Result<()> {
        self.encryption_provider_config.as_deref().map_or(Ok(()), |path| read(path).map(drop))
    }

    /// Reads the file and asks the KMS plugins for keys; `None` without a file.
    pub fn open(&self) -> anyhow::Result<Option<Arc<Encryption>>> {
        self.encryption_provider_config.as_deref().map(Encryption::open).transpose()
    }
}

/// Reads a configuration file. Returns its text too.
fn read(path: &Path) -> anyhow::Result<(EncryptionConfiguration, Vec<u8>)> {
    let text = read_text(path)?;
    let parsed = config::read(&text).with_context(|| path.display().to_string())?;
    Ok((parsed, text))
}

fn read_text(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path)
        .with_context(|| format!("cannot read the encryption provider configuration {}", path.display()))
}

/// Fills bytes from the operating system's generator.
fn random_bytes(bytes: &mut [u8]) {
    aws_lc_rs::rand::fill(bytes).expect("the operating system provides random bytes");
}

/// Encryption of a running process.
pub struct Encryption {
    path: PathBuf,
    sealer: Arc<KeyRingSealer>,
    calls: PluginCalls,
    metrics: Arc<EncryptionMetrics>,
    state: Mutex<State>,
}

struct State {
    /// Digest of the file in use, or of the last one that was rejected.
    digest: Vec<u8>,
    plugins: Vec<Arc<Plugin>>,
}

impl Encryption {
    fn open(path: &Path) -> anyhow::Result<Arc<Encryption>> {
        let (config, text) = read(path)?;
        let metrics = Arc::new(EncryptionMetrics::default());
        let calls = PluginCalls::start(Arc::clone(&metrics))?;
        let (ring, plugins) = connect(&config, &calls, &[])?;
        let sealer = Arc::new(KeyRingSealer(RwLock::new(Arc::new(ring))));
        let state = Mutex::new(State { digest: digest(&text), plugins });
        Ok(Arc::new(Encryption { path: path.to_owned(), sealer, calls, metrics, state }))
    }

    /// Sealer for the store.
    pub fn sealer(&self) -> Arc<dyn Sealer> {
        Arc::clone(&self.sealer) as _
    }

    /// Counters of calls and reloads.
    pub fn metrics(&self) -> &Arc<EncryptionMetrics> {
        &self.metrics
    }

    /// `true` if keys come from KMS plugins.
    pub fn has_plugins(&self) -> bool {
        !self.state.lock().plugins.is_empty()
    }

    /// Fails if a KMS plugin failed at its last poll.
    pub fn check_plugins(&self) -> Result<(), String> {
        let plugins = self.state.lock().plugins.clone();
        let checked = plugins.iter().enumerate();
        let errors: Vec<String> = checked
            .filter_map(|(index, plugin)| {
                plugin.keys.check_health().err().map(|error| format!("kms-provider-{index}: {error}"))
            })
            .collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join(", ")) }
    }

    /// Applies the file if it has changed. A file that is not usable is reported once, and the keys stay. May block
    /// for calls of KMS plugins.
    pub fn reload(&self) -> anyhow::Result<bool> {
        let text = read_text(&self.path)?;
        let mut state = self.state.lock();
        let digest = digest(&text);
        if digest == state.digest {
            return Ok(false);
        }
        state.digest = digest;
        let in_use = state.plugins.clone();
        drop(state);
        let config = config::read(&text).with_context(|| self.path.display().to_string())?;
        let (ring, plugins) = connect(&config, &self.calls, &in_use)?;
        *self.sealer.0.write() = Arc::new(ring);
        self.state.lock().plugins = plugins;
        Ok(true)
    }
}

fn digest(text: &[u8]) -> Vec<u8> {
    aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text).as_ref().to_vec()
}

/// Creates the key ring of a configuration. Plugins in use with the same settings stay; others must respond.
fn connect(
    config: &EncryptionConfiguration,
    calls: &PluginCalls,
    in_use: &[Arc<Plugin>],
) -> anyhow::Result<(KeyRing, Vec<Arc<Plugin>>)> {
    let mut plugins: Vec<Arc<Plugin>> = Vec::new();
    for settings in config.kms() {
        let kept = in_use.iter().find(|plugin| plugin.settings == *settings);
        let plugin = match kept {
            Some(plugin) => Arc::clone(plugin),
            None => calls.connect(settings).with_context(|| {
                format!(
                    "KMS provider {:?} at {} is not usable: start its plugin, or change the configuration",
                    settings.name, settings.socket
                )
            })?,
        };
        plugins.push(plugin);
    }
    let keys_of = |name: &str| {
        let plugin = plugins.iter().find(|plugin| *plugin.settings.name == *name);
        Arc::clone(&plugin.expect("each provider has a plugin").keys)
    };
    let random: Arc<Random> = Arc::new(random_bytes);
    let ring = KeyRing::new(config, &keys_of, random, Arc::new(SystemClock))?;
    ensure!(plugins.len() == config.kms().count(), "a KMS provider has no plugin");
    Ok((ring, plugins))
}

/// The key ring as the sealer of the store.
pub struct KeyRingSealer(RwLock<Arc<KeyRing>>);

impl KeyRingSealer {
    fn ring(&self) -> Arc<KeyRing> {
        Arc::clone(&self.0.read())
    }
}

impl Sealer for KeyRingSealer {
    fn write_key(&self, resource: &Resource) -> Option<Arc<str>> {
        self.ring().write_key(resource.as_str())
    }

    fn check_writable(&self, resource: &Resource) -> Result<(), String> {
        self.ring().check_writable(resource.as_str())
    }

    fn seal(&self, context: &Context<'_>, plain: &[u8]) -> Result<Option<SealedBytes>, String> {
        let sealed = self.ring().seal(context.resource.as_str(), &context.to_bytes(), plain);
        let sealed = sealed.map_err(|error| error.to_string())?;
        Ok(sealed.map(|sealed| SealedBytes { key: sealed.key, bytes: sealed.bytes.into() }))
    }

    fn open(&self, context: &Context<'_>, sealed: &SealedBytes) -> Result<Option<Vec<u8>>, OpenError> {
        let ring = self.ring();
        let opened = ring.open(context.resource.as_str(), &sealed.key, &context.to_bytes(), &sealed.bytes);
        opened.map(Some).map_err(|error| match error {
            setpoint_encryption::OpenError::MissingKey => OpenError::MissingKey,
            setpoint_encryption::OpenError::Unavailable(why) => OpenError::Unavailable(why),
            setpoint_encryption::OpenError::Damaged => OpenError::Damaged,
        })
    }
}
