//! Client of a running server, for commands.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use setpoint_api::json;
use setpoint_runtime::client::Client;

use super::data_dir_or_default;

/// User agent of the commands.
const AGENT: &str = "setpoint";

/// Flags of a command that sends requests.
#[derive(Debug, clap::Args)]
pub struct ClientArgs {
    /// Path of the kubeconfig file [default: $KUBECONFIG, or that of the data directory]
    #[arg(long, value_name = "PATH", conflicts_with = "data_dir")]
    kubeconfig: Option<PathBuf>,
    /// Data directory with the kubeconfig [default: `setpoint` in the user's data directory]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl ClientArgs {
    /// Returns a client, and the path of its kubeconfig. Flags precede the environment variable.
    pub fn connect(&self) -> anyhow::Result<(Client, PathBuf)> {
        let environment =
            || std::env::var_os("KUBECONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
        let path = match (&self.kubeconfig, &self.data_dir) {
            (Some(path), _) => Some(path.clone()),
            (None, Some(_)) => None,
            (None, None) => environment(),
        };
        let path = match path {
            Some(path) => path,
            None => data_dir_or_default(self.data_dir.as_deref())?.join("kubeconfig"),
        };
        ensure!(
            path.exists(),
            "there is no kubeconfig {}: start a server with `setpoint up`, or set --kubeconfig",
            path.display()
        );
        connect(&path).map(|client| (client, path))
    }
}

/// Returns a client for the server of a kubeconfig.
pub fn connect(path: &Path) -> anyhow::Result<Client> {
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Client::from_kubeconfig(&text, AGENT).with_context(|| path.display().to_string())
}

/// Message of an error response: that of its Status, or the code.
pub fn status_message(status: u16, body: &[u8]) -> String {
    let parsed = json::parse(body).unwrap_or_default();
    match parsed.str_at(&["message"]) {
        "" => format!("the server answered with the code {status}"),
        message => message.to_owned(),
    }
}
