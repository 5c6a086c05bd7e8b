//! `setpoint node`: simulated nodes in a process of their own, and what happens to nodes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use setpoint_api::rfc3339::Micros;
use setpoint_api::{Time, Value, json, rfc3339, value};
use setpoint_node::Fleet;
use setpoint_node::fleet::{BOOTED, FLEET, POWER};
use setpoint_node::simulated::SCHEME;
use setpoint_reconcile::Engine;
use setpoint_reconcile::election::Held;
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
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
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
    let mut fleet = arguments.fleet.fleet(arguments.count, &arguments.prefix)?;
    let identity = loops::identity();
    let lease = format!("setpoint-nodes-{}", arguments.prefix);
    let lease = lease.trim_end_matches(['-', '.']).to_owned();
    fleet.owner.clone_from(&lease);
    fleet.published.get_or_insert_with(|| "rules: []".to_owned());
    let asking = client()?;
    check_names(&asking, &fleet).await?;
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

/// What the server says of an object or a list.
async fn get(client: &Client, place: &str) -> anyhow::Result<Value> {
    let (status, body) = client.ask("GET".parse()?, place, None, Default::default()).await?;
    let found = json::parse(&body).unwrap_or_default();
    if !status.is_success() {
        bail!("{}", found.str_at(&["message"]));
    }
    Ok(found)
}

/// Refuses names under which others run: nodes would have them, and this fleet would wait for them for ever.
async fn check_names(client: &Client, fleet: &Fleet) -> anyhow::Result<()> {
    let nodes = get(client, "/api/v1/nodes").await?;
    let items = nodes.get("items").and_then(Value::as_list).unwrap_or_default();
    let name = |node: &Value| node.str_at(&["metadata", "name"]).to_owned();
    let mut others = Vec::new();
    for node in items.iter().filter(|node| fleet.number(&name(node)).is_some()) {
        match node.str_at(&["metadata", "annotations", FLEET]) {
            "" if is_simulated(node) => {}
            "" => {
                bail!("node {} is there already, and is not simulated: choose another --prefix", name(node))
            }
            owner if owner == fleet.owner => {}
            owner => others.push((name(node), owner)),
        }
    }
    if others.is_empty() {
        return Ok(());
    }
    let leases = get(client, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases").await?;
    let leases = leases.get("items").and_then(Value::as_list).unwrap_or_default();
    let now = SystemClock.now();
    for (node, owner) in others {
        let lease = leases.iter().find(|lease| name(lease) == node);
        if lease.is_some_and(|lease| holds(&Held::of(lease, Default::default()), now)) {
            bail!("node {node} belongs to the fleet {owner}, which runs: choose another --prefix");
        }
    }
    Ok(())
}

/// Whether a Lease has not run out.
fn holds(lease: &Held, now: Time) -> bool {
    let span = Duration::from_secs(u64::try_from(lease.seconds).unwrap_or(0));
    rfc3339::parse_micros(&lease.renewed).is_ok_and(|renewed| now < renewed.after(span))
}

/// Whether a node is simulated, or as good as not there.
fn is_simulated(node: &Value) -> bool {
    let runtime = node.str_at(&["status", "nodeInfo", "containerRuntimeVersion"]);
    runtime.is_empty() || runtime.starts_with(SCHEME)
}

/// Switches a node on. One that was off starts anew; one that was cut off has never stopped.
async fn start(node: &NodeArguments) -> anyhow::Result<()> {
    let client = Client::from_kubeconfig(&read(&node.kubeconfig)?, "setpoint")?;
    let found = get(&client, &place(&node.name)).await?;
    let was_off = found.str_at(&["metadata", "annotations", POWER]) == "off";
    switch(node, "on", was_off).await
}

/// Says how a node is to be.
async fn switch(node: &NodeArguments, power: &str, boots: bool) -> anyhow::Result<()> {
    let client = Client::from_kubeconfig(&read(&node.kubeconfig)?, "setpoint")?;
    if !is_simulated(&get(&client, &place(&node.name)).await?) {
        bail!("node {} is not simulated: nothing here can switch it", node.name);
    }
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
