//! Configuration of admission: flags of plugins, and the AdmissionConfiguration file.
//!
//! The file has kube-apiserver's format, YAML or JSON:
//!
//! ```yaml
//! apiVersion: apiserver.config.k8s.io/v1
//! kind: AdmissionConfiguration
//! plugins:
//! - name: PodSecurity
//!   configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, …}
//! - name: EventRateLimit
//!   path: eventconfig.yaml
//! ```
//!
//! Paths are relative to the directory of the file. Reading is an argument, so that this module is pure. Unlike upstream,
//! a configuration of an unknown plugin, of one without configuration, and unknown fields are errors: they would have no
//! effect.

mod plugin;

use std::path::{Path, PathBuf};

use setpoint_api::{Value, yaml};

use super::context::{AdmissionConfig, list};
use super::plugins::{Plugin, PluginSet};

const API_VERSIONS: [&str; 2] = ["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"];
const KIND: &str = "AdmissionConfiguration";
/// Field by which a file is recognized that is itself the configuration of PodNodeSelector.
const NODE_SELECTOR_FIELD: &str = "podNodeSelectorPluginConfig";

/// Error in flags or configurations of admission.
#[derive(Debug, thiserror::Error)]
pub enum AdmissionConfigError {
    /// A flag names a plugin that does not exist.
    #[error("{flag} plugin {name:?} is unknown")]
    UnknownPlugin {
        /// The flag.
        flag: &'static str,
        /// Name of the plugin.
        name: String,
    },
    /// Both flags name a plugin.
    #[error("[{}] in enable-admission-plugins and disable-admission-plugins overlapped", .0.join(" "))]
    Overlapping(Vec<String>),
    /// An enabled plugin that this server cannot run.
    #[error("admission plugin {0:?} is not implemented: remove it from --enable-admission-plugins")]
    NotImplemented(&'static str),
    /// A file cannot be read.
    #[error("unable to read admission control configuration from {path:?} [{error}]")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: std::io::Error,
    },
    /// A file is malformed.
    #[error("admission control configuration {path:?}: {why}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A plugin cannot be configured.
    #[error("couldn't init admission plugin {plugin:?}: {why}")]
    Plugin {
        /// Name of the plugin.
        plugin: String,
        /// The reason.
        why: String,
    },
}

/// Flags of admission.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdmissionFlags<'a> {
    /// Plugins to enable in addition to the default ones.
    pub enabled: &'a [String],
    /// Plugins to disable.
    pub disabled: &'a [String],
    /// The AdmissionConfiguration file.
    pub config_file: Option<&'a Path>,
}

/// Reads flags and configurations. `read` reads a file.
///
/// # Errors
/// If a plugin is unknown or not implemented, or its configuration is invalid.
pub fn read_config(
    flags: AdmissionFlags<'_>,
    read: &dyn Fn(&Path) -> std::io::Result<Vec<u8>>,
) -> Result<AdmissionConfig, AdmissionConfigError> {
    let mut config = AdmissionConfig { plugins: plugins(flags)?, ..AdmissionConfig::default() };
    let read = |path: &Path| {
        let bytes = read(path);
        let bytes =
            bytes.map_err(|error| AdmissionConfigError::Unreadable { path: path.to_owned(), error })?;
        parse(path, &bytes)
    };
    if let Some(path) = flags.config_file {
        for (name, configuration) in plugin_configurations(path, &read)? {
            let failed = |why| AdmissionConfigError::Plugin { plugin: name.clone(), why };
            let plugin = Plugin::from_name(&name).ok_or_else(|| failed("it is unknown".to_owned()))?;
            if let Some(configuration) = configuration {
                plugin::configure(plugin, &configuration, &mut config).map_err(failed)?;
            }
        }
    }
    if config.is_enabled(Plugin::EventRateLimit) && config.event_rate_limits.is_empty() {
        let plugin = Plugin::EventRateLimit.name().to_owned();
        let why = "limits: Invalid value: null: must not be empty".to_owned();
        return Err(AdmissionConfigError::Plugin { plugin, why });
    }
    Ok(config)
}

/// Plugins that the flags enable.
fn plugins(flags: AdmissionFlags<'_>) -> Result<PluginSet, AdmissionConfigError> {
    let named = |flag: &'static str, names: &[String]| -> Result<Vec<Plugin>, AdmissionConfigError> {
        let unknown = |name: &String| AdmissionConfigError::UnknownPlugin { flag, name: name.clone() };
        names.iter().map(|name| Plugin::from_name(name).ok_or_else(|| unknown(name))).collect()
    };
    let enabled = named("enable-admission-plugins", flags.enabled)?;
    let disabled = named("disable-admission-plugins", flags.disabled)?;
    let mut both: Vec<String> = enabled
        .iter()
        .filter(|plugin| disabled.contains(plugin))
        .map(|plugin| plugin.name().to_owned())
        .collect();
    both.sort();
    both.dedup();
    if !both.is_empty() {
        return Err(AdmissionConfigError::Overlapping(both));
    }
    if let Some(plugin) = enabled.iter().find(|plugin| !plugin.is_implemented()) {
        return Err(AdmissionConfigError::NotImplemented(plugin.name()));
    }
    let set = disabled.into_iter().fold(PluginSet::default(), PluginSet::without);
    Ok(enabled.into_iter().fold(set, PluginSet::with))
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Value, AdmissionConfigError> {
    let malformed = |why: String| AdmissionConfigError::Malformed { path: path.to_owned(), why };
    let (value, duplicates) = yaml::parse_strict(bytes).map_err(|error| malformed(error.to_string()))?;
    match (&value, duplicates.is_empty()) {
        (_, false) => Err(malformed("a field is given twice".to_owned())),
        (Value::Map(_), true) => Ok(value),
        _ => Err(malformed("it is not an object".to_owned())),
    }
}

/// Configurations of the plugins in a file, by name. Of several for one plugin the first counts.
fn plugin_configurations(
    path: &Path,
    read: &dyn Fn(&Path) -> Result<Value, AdmissionConfigError>,
) -> Result<Vec<(String, Option<Value>)>, AdmissionConfigError> {
    let file = read(path)?;
    let malformed = |why: String| AdmissionConfigError::Malformed { path: path.to_owned(), why };
    if file.get("kind").is_none() && file.get(NODE_SELECTOR_FIELD).is_some() {
        return Ok(vec![(Plugin::PodNodeSelector.name().to_owned(), Some(file))]);
    }
    plugin::check_type(&file, &API_VERSIONS, &[KIND]).map_err(malformed)?;
    plugin::check_fields(&file, &["apiVersion", "kind", "plugins"], "").map_err(malformed)?;
    let mut found: Vec<(String, Option<Value>)> = Vec::new();
    for entry in list(&file, "plugins") {
        plugin::check_fields(entry, &["name", "path", "configuration"], "plugins").map_err(malformed)?;
        let name = entry.str_at(&["name"]).to_owned();
        if found.iter().any(|(known, _)| *known == name) {
            continue;
        }
        let nested = entry.get("configuration").filter(|nested| !nested.is_null());
        let configuration = match (nested, entry.str_at(&["path"])) {
            (Some(nested), _) => Some(nested.clone()),
            (None, "") => None,
            (None, relative) => Some(read(&path.parent().unwrap_or(Path::new("")).join(relative))?),
        };
        found.push((name, configuration));
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
