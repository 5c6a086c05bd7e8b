//! `setpoint node`: simulated nodes in a process of their own, and what happens to nodes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use setpoint_api::rfc3339::Micros;
use setpoint_api::{Value, json, value};
use setpoint_node::fleet::{BOOTED, POWER};
use setpoint_reconcile::Engine;
use setpoint_server::client::Client;
use setpoint_server::remote::{PATIENCE, Remote};
use setpoint_store::Clock;
use tokio::signal::unix::{SignalKind, signal};

use super::fleet::FleetArguments;
use super::{counted, logging, loops};
use crate::clock::{SystemClock, entropy};

/// What can be said to `setpoint node`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    deed: Deed,
}

#[derive(Debug, clap::Subcommand)]
enum Deed {
    /// Run simulated nodes against a server
    Simulate(SimulateArguments),
    /// Switch a simulated node off: it says nothing, and its containers are gone
    Stop(NodeArguments),
    /// Switch a simulated node on, or let it be reached again
    Start(NodeArguments),
    /// Cut a simulated node off: its containers run on, and nobody hears of it
    Partition(NodeArguments),
    /// Start a simulated node again, and with it its containers
    Reboot(NodeArguments),
}

#[derive(Debug, clap::Args)]
struct SimulateArguments {
    /// How to reach the server
    #[arg(long, value_name = "PATH", env = "KUBECONFIG")]
    kubeconfig: PathBuf,
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 1)]
    count: u32,
    /// What their names begin with; a number follows
    #[arg(long, value_name = "PREFIX", default_value = "sim-")]
    prefix: String,
    #[command(flatten)]
    fleet: FleetArguments,
    #[command(flatten)]
    log: logging::LogArguments,
}

#[derive(Debug, clap::Args)]
struct NodeArguments {
    /// The name of the node
    name: String,
    /// How to reach the server
    #[arg(long, value_name = "PATH", env = "KUBECONFIG")]
    kubeconfig: PathBuf,
}

/// Runs it.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match &arguments.deed {
        Deed::Simulate(arguments) => {
            logging::start(&arguments.log);
            runtime.block_on(simulate(arguments))
        }
        Deed::Stop(node) => runtime.block_on(switch(node, "off", false)),
        Deed::Partition(node) => runtime.block_on(switch(node, "partitioned", false)),
        Deed::Reboot(node) => runtime.block_on(switch(node, "on", true)),
        Deed::Start(node) => runtime.block_on(start(node)),
    }
}

async fn simulate(arguments: &SimulateArguments) -> anyhow::Result<()> {
    let text = read(&arguments.kubeconfig)?;
    let client = || Client::from_kubeconfig(&text, "kubelet").map(Arc::new);
    let fleet = arguments.fleet.fleet(arguments.count, &arguments.prefix)?;
    let identity = loops::identity();
    let lease = format!("setpoint-nodes-{}", arguments.prefix.trim_matches('-'));
    let nodes = counted(arguments.count as usize, "node");
    println!("simulating {nodes}: {identity} asks for the lease kube-system/{lease}");
    let remote = Remote {
        watches: client()?,
        writes: client()?,
        // The name lives as long as the process.
        lease: Box::leak(lease.into_boxed_str()),
        identity,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(entropy),
        oracle: Arc::default(),
        timing: Default::default(),
        patience: PATIENCE,
    };
    let engine = || Engine::new(setpoint_node::planners(fleet.clone()), setpoint_node::indexes());
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        outcome = remote.run(engine) => outcome.map_err(Into::into),
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Switches a node on. One that was off starts anew; one that was cut off has never stopped.
async fn start(node: &NodeArguments) -> anyhow::Result<()> {
    let client = Client::from_kubeconfig(&read(&node.kubeconfig)?, "setpoint")?;
    let (status, body) = client.ask("GET".parse()?, &place(&node.name), None, Default::default()).await?;
    let found = json::parse(&body).unwrap_or_default();
    if !status.is_success() {
        bail!("{}", found.str_at(&["message"]));
    }
    let was_off = found.str_at(&["metadata", "annotations", POWER]) == "off";
    switch(node, "on", was_off).await
}

/// Says how a node is to be.
async fn switch(node: &NodeArguments, power: &str, boots: bool) -> anyhow::Result<()> {
    let client = Client::from_kubeconfig(&read(&node.kubeconfig)?, "setpoint")?;
    let mut annotations = Value::map();
    annotations.make_map().insert(POWER, power);
    if boots {
        annotations.make_map().insert(BOOTED, Micros(SystemClock.now()).to_string());
    }
    let body = json::to_vec(&value!({"metadata": {"annotations": (annotations)}}));
    let kind = Some("application/merge-patch+json");
    let (status, answer) = client.ask("PATCH".parse()?, &place(&node.name), kind, body.into()).await?;
    if !status.is_success() {
        bail!("{}", json::parse(&answer).unwrap_or_default().str_at(&["message"]));
    }
    println!("node {} is {power}", node.name);
    Ok(())
}

fn place(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}
