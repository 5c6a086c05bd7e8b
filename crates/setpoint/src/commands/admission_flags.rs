//! Flags of admission plugins, with upstream's names.

use std::path::PathBuf;

use setpoint_server::pipeline::admission::AdmissionConfig;
use setpoint_server::pipeline::admission::config::{AdmissionFlags, read_config};

/// Flags of admission plugins.
#[derive(Debug, clap::Args)]
pub struct AdmissionArgs {
    /// Admission plugins to enable in addition to the default ones; the order does not matter
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',')]
    enable_admission_plugins: Vec<String>,
    /// Admission plugins to disable although they are enabled by default; the order does not matter
    #[arg(long, value_name = "NAME[,NAME]", value_delimiter = ',')]
    disable_admission_plugins: Vec<String>,
    /// File with an AdmissionConfiguration
    #[arg(long, value_name = "PATH")]
    admission_control_config_file: Option<PathBuf>,
}

impl AdmissionArgs {
    /// Returns the enabled plugins and their configurations.
    pub fn config(&self) -> anyhow::Result<AdmissionConfig> {
        let flags = AdmissionFlags {
            enabled: &self.enable_admission_plugins,
            disabled: &self.disable_admission_plugins,
            config_file: self.admission_control_config_file.as_deref(),
        };
        Ok(read_config(flags, &|path| std::fs::read(path))?)
    }
}
