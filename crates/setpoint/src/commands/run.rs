//! `setpoint run`: a part of the control plane in its own process, over HTTP.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use setpoint_api::Value;
use setpoint_authentication::keys;
use setpoint_authentication::service_account::legacy_claims;
use setpoint_controllers::Settings;
use setpoint_reconcile::Engine;
use setpoint_reconcile::election::LeaderElectionConfig;
use setpoint_runtime::client::Client;
use setpoint_runtime::queries::QueryHandler;
use setpoint_runtime::remote::{REQUEST_TIMEOUT, Remote};
use tokio::signal::unix::{SignalKind, signal};

use super::flags::{ControllerArgs, LeaderElectionArgs};
use super::{engine, logging};
use crate::clock::{SystemClock, entropy};

/// Arguments of `setpoint run`.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    #[command(subcommand)]
    component: Component,
}

#[derive(Debug, clap::Subcommand)]
enum Component {
    /// Run the controllers, with leader election between several such processes
    Controllers(RunControllersArgs),
    /// Run the scheduler, with leader election between several such processes
    Scheduler(RunSchedulerArgs),
}

#[derive(Debug, clap::Args)]
struct RunControllersArgs {
    /// Path of the kubeconfig file
    #[arg(long, value_name = "PATH", env = "KUBECONFIG")]
    kubeconfig: PathBuf,
    /// Controllers to run: `*` for all, `-NAME` for all but one, NAME for one
    #[arg(long, value_name = "LIST", default_value = "*", value_parser = engine::parse_controllers, allow_hyphen_values = true)]
    controllers: engine::ControllerSelection,
    /// File with the PEM-encoded RSA or ECDSA private key that signs the tokens in Secrets of service accounts; without it
    /// they get no tokens
    #[arg(long, value_name = "PATH")]
    service_account_private_key_file: Option<PathBuf>,
    #[command(flatten)]
    network: engine::NetworkArgs,
    #[command(flatten)]
    controller_args: ControllerArgs,
    #[command(flatten)]
    election: LeaderElectionArgs,
    #[command(flatten)]
    log: logging::LogArgs,
}

#[derive(Debug, clap::Args)]
struct RunSchedulerArgs {
    /// Path of the kubeconfig file
    #[arg(long, value_name = "PATH", env = "KUBECONFIG")]
    kubeconfig: PathBuf,
    /// File with a KubeSchedulerConfiguration
    #[arg(long, value_name = "PATH", value_parser = engine::read_scheduler_config)]
    config: Option<engine::SchedulerConfig>,
    #[command(flatten)]
    election: LeaderElectionArgs,
    #[command(flatten)]
    log: logging::LogArgs,
}

/// Runs the command.
pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    // Raising the limit is optional here: without a store, a low limit only means fewer connections.
    let _ = setpoint_sys::raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match &args.component {
        Component::Controllers(args) => {
            logging::start(&args.log);
            let kubeconfig = read(&args.kubeconfig)?;
            let settings = args.network.settings(Client::authority(&kubeconfig)?, Vec::new())?;
            let queries = token_issuer(args.service_account_private_key_file.as_deref())?;
            let settings = Settings { signs_tokens: queries.is_some(), ..settings };
            let settings = args.controller_args.apply_to(settings);
            let queries = Arc::new(queries.unwrap_or_default());
            let engine = || args.controllers.engine(&settings);
            let timing = args.election.timing()?;
            runtime.block_on(run_elected(
                ("controllers", engine::LEASE),
                &kubeconfig,
                timing,
                queries,
                engine,
            ))
        }
        Component::Scheduler(args) => {
            logging::start(&args.log);
            let kubeconfig = read(&args.kubeconfig)?;
            let lease = setpoint_scheduler::planner::LEASE;
            let timing = args.election.timing()?;
            let engine = || engine::scheduler_engine(args.config.as_ref());
            runtime.block_on(run_elected(("scheduler", lease), &kubeconfig, timing, Arc::default(), engine))
        }
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Returns a query handler that signs tokens with the key of a file; `None` without a file.
fn token_issuer(path: Option<&Path>) -> anyhow::Result<Option<QueryHandler>> {
    let Some(path) = path else { return Ok(None) };
    let key = keys::signing_key(&read(path)?).with_context(|| path.display().to_string())?;
    let issue = move |account: &Value, secret_name: &str| {
        let signed = key.sign(&legacy_claims(account, secret_name));
        signed.map_err(|error| format!("failed to generate token: {error}"))
    };
    Ok(Some(QueryHandler::default().with_token_issuer(issue)))
}

/// Runs a loop while this process holds its Lease.
async fn run_elected(
    (component, lease): (&str, &'static str),
    kubeconfig: &[u8],
    timing: LeaderElectionConfig,
    queries: Arc<QueryHandler>,
    engine: impl Fn() -> Engine,
) -> anyhow::Result<()> {
    let client = || Client::from_kubeconfig(kubeconfig, lease).map(Arc::new);
    let identity = engine::identity();
    println!("{component}: {identity} requests lease kube-system/{lease}");
    let remote = Remote {
        watches: client()?,
        writes: client()?,
        lease,
        identity,
        timing,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(entropy),
        queries,
        timeout: REQUEST_TIMEOUT,
    };
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        outcome = remote.run(engine) => outcome.map_err(Into::into),
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}
