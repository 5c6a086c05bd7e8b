//! `setpoint run`: a part of the control plane in a process of its own, over HTTP.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use setpoint_server::client::Client;
use setpoint_server::remote::{PATIENCE, Remote};
use tokio::signal::unix::{SignalKind, signal};

use super::{logging, loops};
use crate::clock::{SystemClock, entropy};

/// What can be said to `setpoint run`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, clap::Subcommand)]
enum Part {
    /// Run the controllers; of several such processes one acts at a time
    Controllers(ControllersArguments),
}

#[derive(Debug, clap::Args)]
struct ControllersArguments {
    /// How to reach the server
    #[arg(long, value_name = "PATH", env = "KUBECONFIG")]
    kubeconfig: PathBuf,
    /// Which controllers run: `*` for all, `-NAME` for all but one, NAME for one
    #[arg(long, value_name = "LIST", default_value = "*", value_parser = loops::choice, allow_hyphen_values = true)]
    controllers: loops::Choice,
    #[command(flatten)]
    network: loops::NetworkArguments,
    #[command(flatten)]
    log: logging::LogArguments,
}

/// Runs it.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Part::Controllers(arguments) = &arguments.part;
    logging::start(&arguments.log);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(controllers(arguments))
}

async fn controllers(arguments: &ControllersArguments) -> anyhow::Result<()> {
    let path = &arguments.kubeconfig;
    let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let client = || Client::from_kubeconfig(&text, "kube-controller-manager").map(Arc::new);
    let settings = arguments.network.settings(Client::authority(&text)?, &[])?;
    let identity = loops::identity();
    println!("controllers: {identity} asks for the lease kube-system/{}", loops::LEASE);
    let remote = Remote {
        watches: client()?,
        writes: client()?,
        lease: loops::LEASE,
        identity,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(entropy),
        oracle: Arc::default(),
        patience: PATIENCE,
    };
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        outcome = remote.run(|| arguments.controllers.engine(&settings)) => outcome.map_err(Into::into),
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}
