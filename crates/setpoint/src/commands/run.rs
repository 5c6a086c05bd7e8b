//! `setpoint run`: a part of the control plane in its own process, over HTTP.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use setpoint_reconcile::Engine;
use setpoint_reconcile::election::LeaderElectionConfig;
use setpoint_runtime::client::Client;
use setpoint_runtime::remote::{REQUEST_TIMEOUT, Remote};
use tokio::signal::unix::{SignalKind, signal};

use super::patience::{ControllerArguments, ElectionArguments};
use super::{logging, loops};
use crate::clock::{SystemClock, entropy};

/// Arguments of `setpoint run`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, clap::Subcommand)]
enum Part {
    /// Run the controllers, with leader election between several such processes
    Controllers(ControllersArguments),
    /// Run the scheduler, with leader election between several such processes
    Scheduler(SchedulerArguments),
}

#[derive(Debug, clap::Args)]
struct ControllersArguments {
    /// Path of the kubeconfig file
    #[arg(long, value_name = "PATH", env = "KUBECONFIG")]
    kubeconfig: PathBuf,
    /// Controllers to run: `*` for all, `-NAME` for all but one, NAME for one
    #[arg(long, value_name = "LIST", default_value = "*", value_parser = loops::choice, allow_hyphen_values = true)]
    controllers: loops::Choice,
    #[command(flatten)]
    network: loops::NetworkArguments,
    #[command(flatten)]
    patience: ControllerArguments,
    #[command(flatten)]
    election: ElectionArguments,
    #[command(flatten)]
    log: logging::LogArguments,
}

#[derive(Debug, clap::Args)]
struct SchedulerArguments {
    /// Path of the kubeconfig file
    #[arg(long, value_name = "PATH", env = "KUBECONFIG")]
    kubeconfig: PathBuf,
    /// File with a KubeSchedulerConfiguration
    #[arg(long, value_name = "PATH", value_parser = loops::scheduler_config)]
    config: Option<loops::SchedulerConfig>,
    #[command(flatten)]
    election: ElectionArguments,
    #[command(flatten)]
    log: logging::LogArguments,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // Raising the limit is optional here: without a store, a low limit only means fewer connections.
    let _ = setpoint_sys::raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match &arguments.part {
        Part::Controllers(arguments) => {
            logging::start(&arguments.log);
            let kubeconfig = read(&arguments.kubeconfig)?;
            let settings = arguments.network.settings(Client::authority(&kubeconfig)?, Vec::new())?;
            let settings = arguments.patience.complete(settings);
            let engine = || arguments.controllers.engine(&settings);
            let timing = arguments.election.timing()?;
            runtime.block_on(lead("controllers", loops::LEASE, &kubeconfig, timing, engine))
        }
        Part::Scheduler(arguments) => {
            logging::start(&arguments.log);
            let kubeconfig = read(&arguments.kubeconfig)?;
            let lease = setpoint_scheduler::planner::LEASE;
            let timing = arguments.election.timing()?;
            let engine = || loops::scheduler_alone(arguments.config.as_ref());
            runtime.block_on(lead("scheduler", lease, &kubeconfig, timing, engine))
        }
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Runs a loop while this process holds its Lease.
async fn lead(
    what: &str,
    lease: &'static str,
    kubeconfig: &[u8],
    timing: LeaderElectionConfig,
    engine: impl Fn() -> Engine,
) -> anyhow::Result<()> {
    let client = || Client::from_kubeconfig(kubeconfig, lease).map(Arc::new);
    let identity = loops::identity();
    println!("{what}: {identity} requests the lease kube-system/{lease}");
    let remote = Remote {
        watches: client()?,
        writes: client()?,
        lease,
        identity,
        timing,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(entropy),
        queries: Arc::default(),
        timeout: REQUEST_TIMEOUT,
    };
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        outcome = remote.run(engine) => outcome.map_err(Into::into),
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}
