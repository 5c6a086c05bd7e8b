//! `setpoint node`: simulated nodes in their own process, and their power and network state.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use setpoint_api::rfc3339::Micros;
use setpoint_api::{Clock, Time, Value, json, rfc3339, value};
use setpoint_node::Fleet;
use setpoint_node::fleet::{BOOT_TIME_ANNOTATION, FLEET_ANNOTATION, POWER_ANNOTATION};
use setpoint_node::simulated::SCHEME;
use setpoint_reconcile::Engine;
use setpoint_reconcile::election::LeaderElectionRecord;
use setpoint_runtime::client::Client;
use setpoint_runtime::remote::{REQUEST_TIMEOUT, Remote};
use setpoint_views::world_config;
use tokio::signal::unix::{SignalKind, signal};

use super::fleet::FleetArgs;
use super::{counted, engine, logging};
use crate::clock::{SystemClock, entropy};

/// Maximum time for a fleet to report that a node is on. A fleet watches its nodes and reports at once, so
/// this is for slow machines.
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of checks for that report.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Path of the Leases of nodes.
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// Arguments of `setpoint node`.
#[derive(Debug, clap::Args)]
pub struct NodeArgs {
    #[command(subcommand)]
    command: NodeCommand,
}

#[derive(Debug, clap::Subcommand)]
enum NodeCommand {
    /// Run simulated nodes against a server
    Simulate(SimulateArgs),
    /// Power a simulated node off: it stops its heartbeats, and its containers are lost
    Stop(TargetArgs),
    /// Power a simulated node on, or end its partition
    Start(TargetArgs),
    /// Disconnect a simulated node from the network: its containers keep running
    Partition(TargetArgs),
    /// Restart a simulated node and its containers
    Reboot(TargetArgs),
}

#[derive(Debug, clap::Args)]
struct SimulateArgs {
    /// Path of the kubeconfig file
    #[arg(long, value_name = "PATH", env = "KUBECONFIG")]
    kubeconfig: PathBuf,
    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Prefix of the node names, followed by a number
    #[arg(long, value_name = "PREFIX", default_value = "sim-")]
    prefix: String,
    #[command(flatten)]
    fleet: FleetArgs,
    #[command(flatten)]
    log: logging::LogArgs,
}

#[derive(Debug, clap::Args)]
struct TargetArgs {
    /// Name of the node
    name: String,
    /// Path of the kubeconfig file
    #[arg(long, value_name = "PATH", env = "KUBECONFIG")]
    kubeconfig: PathBuf,
}

/// Runs the command.
pub fn run(args: &NodeArgs) -> anyhow::Result<()> {
    // Raising the limit is optional here: without a store, a low limit only means fewer connections.
    let _ = setpoint_sys::raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match &args.command {
        NodeCommand::Simulate(args) => {
            logging::start(&args.log);
            runtime.block_on(simulate(args))
        }
        NodeCommand::Stop(node) => runtime.block_on(set_power(node, |_| PowerChange::OFF)),
        NodeCommand::Partition(node) => runtime.block_on(set_power(node, |_| PowerChange::PARTITION)),
        NodeCommand::Reboot(node) => runtime.block_on(set_power(node, |_| PowerChange::on(true))),
        // A node that was off boots; a partitioned one has kept running.
        NodeCommand::Start(node) => {
            runtime.block_on(set_power(node, |power| PowerChange::on(power == "off")))
        }
    }
}

async fn simulate(args: &SimulateArgs) -> anyhow::Result<()> {
    let text = read(&args.kubeconfig)?;
    let client = || Client::from_kubeconfig(&text, "kubelet").map(Arc::new);
    let mut fleet = args.fleet.fleet(args.count, &args.prefix)?;
    let identity = engine::identity();
    let lease = format!("setpoint-nodes-{}", args.prefix);
    let lease = lease.trim_end_matches(['-', '.']).to_owned();
    fleet.owner.clone_from(&lease);
    fleet.published_rules.get_or_insert_with(|| "rules: []".to_owned());
    let client_for_checks = client()?;
    check_names(&client_for_checks, &fleet).await?;
    let nodes = counted(args.count as usize, "node");
    println!("simulating {nodes}: {identity} requests lease kube-system/{lease}");
    let remote = Remote {
        watches: client()?,
        writes: client()?,
        // The name is needed until the process exits.
        lease: Box::leak(lease.into_boxed_str()),
        identity,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(entropy),
        queries: Arc::default(),
        timing: Default::default(),
        timeout: REQUEST_TIMEOUT,
    };
    let engine =
        || Engine::new(setpoint_node::planners(fleet.clone()), world_config(setpoint_node::indexes()));
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

/// Gets an object or a list; not found is an error.
async fn get(client: &Client, path: &str) -> anyhow::Result<Value> {
    get_optional(client, path).await?.map_err(|message| anyhow!(message))
}

/// Gets an object or a list. The inner error is the server's message for 404.
async fn get_optional(client: &Client, path: &str) -> anyhow::Result<Result<Value, String>> {
    let (status, body) = client.request("GET".parse()?, path, None, Default::default()).await?;
    let found = json::parse(&body).unwrap_or_default();
    let message = || found.str_at(&["message"]).to_owned();
    match status.as_u16() {
        200 => Ok(Ok(found)),
        404 => Ok(Err(message())),
        _ => bail!(message()),
    }
}

/// Rejects a prefix whose node names belong to real nodes or to a running fleet: this fleet would wait for
/// them forever.
async fn check_names(client: &Client, fleet: &Fleet) -> anyhow::Result<()> {
    let nodes = get(client, "/api/v1/nodes").await?;
    let items = nodes.get("items").and_then(Value::as_list).unwrap_or_default();
    let name = |node: &Value| node.str_at(&["metadata", "name"]).to_owned();
    let mut others = Vec::new();
    for node in items.iter().filter(|node| fleet.node_number(&name(node)).is_some()) {
        match node.str_at(&["metadata", "annotations", FLEET_ANNOTATION]) {
            "" if is_simulated(node) => {}
            "" => {
                bail!("node {} already exists and is not simulated: choose another --prefix", name(node))
            }
            owner if owner == fleet.owner => {}
            owner => others.push((name(node), owner)),
        }
    }
    if others.is_empty() {
        return Ok(());
    }
    let leases = get(client, LEASES).await?;
    let leases = leases.get("items").and_then(Value::as_list).unwrap_or_default();
    let now = SystemClock.now();
    for (node, owner) in others {
        let lease = leases.iter().find(|lease| name(lease) == node);
        if lease.is_some_and(|lease| {
            is_unexpired(&LeaderElectionRecord::from_lease(lease, Default::default()), now)
        }) {
            bail!("node {node} is run by fleet {owner}: choose another --prefix");
        }
    }
    Ok(())
}

/// `true` if a Lease has not expired.
fn is_unexpired(lease: &LeaderElectionRecord, now: Time) -> bool {
    let duration = Duration::from_secs(u64::try_from(lease.seconds).unwrap_or(0));
    rfc3339::parse_micros(&lease.renewed).is_ok_and(|renewed| now < renewed.after(duration))
}

/// `true` if a node is simulated, or has not reported a runtime yet.
fn is_simulated(node: &Value) -> bool {
    let runtime = node.str_at(&["status", "nodeInfo", "containerRuntimeVersion"]);
    runtime.is_empty() || runtime.starts_with(SCHEME)
}

/// Requested state of a node.
#[derive(Clone, Copy)]
struct PowerChange {
    power: &'static str,
    /// `true` if the node boots.
    boots: bool,
}

impl PowerChange {
    const OFF: PowerChange = PowerChange { power: "off", boots: false };
    const PARTITION: PowerChange = PowerChange { power: "partitioned", boots: false };

    fn on(boots: bool) -> PowerChange {
        PowerChange { power: "on", boots }
    }
}

/// Sets the state of a node, which may depend on its previous state. Waits until a node that is switched on
/// reports.
async fn set_power(node: &TargetArgs, change: impl Fn(&str) -> PowerChange) -> anyhow::Result<()> {
    let client = Client::from_kubeconfig(&read(&node.kubeconfig)?, "setpoint")?;
    let TargetArgs { name, .. } = node;
    let before = get(&client, &node_path(name)).await?;
    if !is_simulated(&before) {
        bail!(
            "node {name} is not simulated: only simulated nodes can be started, stopped, partitioned or rebooted"
        );
    }
    let PowerChange { power, boots } = change(before.str_at(&["metadata", "annotations", POWER_ANNOTATION]));
    let mut annotations = Value::map();
    annotations.make_map().insert(POWER_ANNOTATION, power);
    if boots {
        annotations.make_map().insert(BOOT_TIME_ANNOTATION, Micros(SystemClock.now()).to_string());
    }
    let body = json::to_vec(&value!({"metadata": {"annotations": (annotations)}}));
    let content_type = Some("application/merge-patch+json");
    let (status, response) =
        client.request("PATCH".parse()?, &node_path(name), content_type, body.into()).await?;
    if !status.is_success() {
        bail!("{}", json::parse(&response).unwrap_or_default().str_at(&["message"]));
    }
    // Only a node that is on can report.
    if power == "on" && !wait_for_report(&client, name, boots.then(|| boot_id(&before))).await? {
        bail!(
            "node {name} is powered on, but no fleet reported it within {REPORT_TIMEOUT:?}: start its fleet with \
             `setpoint node simulate`, or `setpoint up` with enough --nodes"
        );
    }
    println!("node {name} is {power}");
    Ok(())
}

/// `true` if a fleet runs the node: its boot id differs from `previous_boot_id`, or, if that is `None`, its
/// Lease has not expired. Waits up to [`REPORT_TIMEOUT`].
#[expect(clippy::disallowed_methods, reason = "a node is polled in real time")]
async fn wait_for_report(
    client: &Client,
    name: &str,
    previous_boot_id: Option<&str>,
) -> anyhow::Result<bool> {
    let deadline = SystemClock.uptime() + REPORT_TIMEOUT;
    loop {
        let is_reported = match previous_boot_id {
            Some(before) => boot_id(&get(client, &node_path(name)).await?) != before,
            None => get_optional(client, &format!("{LEASES}/{name}")).await?.is_ok_and(|lease| {
                is_unexpired(&LeaderElectionRecord::from_lease(&lease, Default::default()), SystemClock.now())
            }),
        };
        if is_reported || SystemClock.uptime() >= deadline {
            return Ok(is_reported);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Boot id of a node.
fn boot_id(node: &Value) -> &str {
    node.str_at(&["status", "nodeInfo", "bootID"])
}

fn node_path(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}
