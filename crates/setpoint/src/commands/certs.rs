//! `setpoint certs`: the certificates of a data directory and of the API, with their expiry.
//!
//! The data directory is read with and without a running server. Certificates in the API are those that other servers
//! depend on; only their owners renew them. [`rows`] collects, [`table`] formats.

mod rows;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use clap::ValueEnum;
use setpoint_api::kinds::certificates::expiry::ExpiryState;
use setpoint_api::{Clock, json, yaml};

use self::rows::CertificateRow;
pub use self::rows::of_kubeconfig;
use super::api_client::connect;
use super::{counted, data_dir_or_default};
use crate::clock::SystemClock;

const EXAMPLES: &str = "\
Examples:
  # List the certificates of the default data directory, and those in the API if its server runs
  setpoint certs

  # Include TLS Secrets, and print JSON
  setpoint certs --secrets -o json

The exit code is 1 if a certificate has expired. `setpoint up` renews its own certificates in the last third of their
validity, without a restart; others are renewed by their owners.";

/// Arguments of `setpoint certs`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CertsArgs {
    /// Data directory [default: `setpoint` in the user's data directory]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Path of a kubeconfig file: list its certificates and those in its API [default: that of the data directory]
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// Include Secrets of the type kubernetes.io/tls
    #[arg(long)]
    secrets: bool,
    /// Output format
    #[arg(long, short, value_name = "FORMAT", value_enum)]
    output: Option<Output>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Json,
    Yaml,
    Wide,
}

/// Runs the command.
pub fn run(args: &CertsArgs) -> anyhow::Result<()> {
    let now = SystemClock.now();
    let mut found = Vec::new();
    let dir = data_dir_or_default(args.data_dir.as_deref())?;
    // With a kubeconfig, the default directory is optional: the server may be another machine's.
    let is_optional = args.data_dir.is_none() && args.kubeconfig.is_some();
    if !is_optional || dir.join("pki").is_dir() {
        ensure!(
            dir.join("pki").is_dir(),
            "there are no certificates in {}: start a server with `setpoint up`, or set --data-dir",
            dir.display()
        );
        found.extend(rows::of_data_dir(&dir)?);
    }
    let own_kubeconfig = dir.join("kubeconfig");
    match &args.kubeconfig {
        Some(path) => {
            found.extend(rows::of_kubeconfig(path)?);
            found.extend(in_api(path, args.secrets)?);
        }
        None if own_kubeconfig.exists() => match in_api(&own_kubeconfig, args.secrets) {
            Ok(rows) => found.extend(rows),
            Err(error) => eprintln!("certificates in the API are not listed: {error:#}"),
        },
        None => {}
    }
    print(&found, args.output, now)?;
    let is_expired = |row: &&CertificateRow| row.state(now) == Some(ExpiryState::Expired);
    let expired: Vec<&str> = found.iter().filter(is_expired).map(|row| row.name.as_str()).collect();
    if !expired.is_empty() {
        bail!("{} expired: {}", counted(expired.len(), "certificate"), expired.join(", "));
    }
    Ok(())
}

fn in_api(kubeconfig: &Path, includes_secrets: bool) -> anyhow::Result<Vec<CertificateRow>> {
    let client = connect(kubeconfig)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(rows::of_api(&client, includes_secrets))
}

fn print(rows: &[CertificateRow], output: Option<Output>, now: setpoint_api::Time) -> anyhow::Result<()> {
    use std::io::Write;
    let mut text = Vec::new();
    match output {
        None => text.extend(table::format(rows, false, now).into_bytes()),
        Some(Output::Wide) => text.extend(table::format(rows, true, now).into_bytes()),
        Some(Output::Json) => json::write_pretty(&table::document(rows, now), &mut text),
        Some(Output::Yaml) => yaml::write(&table::document(rows, now), &mut text),
    }
    if !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    match std::io::stdout().lock().write_all(&text) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}
