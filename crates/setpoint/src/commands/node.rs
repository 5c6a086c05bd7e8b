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
use setpoint_reconcile::election::Held;
use setpoint_runtime::client::Client;
use setpoint_runtime::remote::{REQUEST_TIMEOUT, Remote};
use tokio::signal::unix::{SignalKind, signal};

use super::fleet::FleetArguments;
use super::{counted, logging, loops};
use crate::clock::{SystemClock, entropy};

/// Maximum time for a fleet to report that a node is on. A fleet watches its nodes and reports at once, so
/// this is for slow machines.
const TAKEN_UP_WITHIN: Duration = Duration::from_secs(10);
/// Interval of checks for that report.
const PAUSE: Duration = Duration::from_millis(100);
/// Path of the Leases of nodes.
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// Arguments of `setpoint node`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    deed: Deed,
}

#[derive(Debug, clap::Subcommand)]
enum Deed {
    /// Run simulated nodes against a server
    Simulate(SimulateArguments),
    /// Power a simulated node off: it stops its heartbeats, and its containers are lost
    Stop(NodeArguments),
    /// Power a simulated node on, or end its partition
    Start(NodeArguments),
    /// Disconnect a simulated node from the network: its containers keep running
    Partition(NodeArguments),
    /// Restart a simulated node and its containers
    Reboot(NodeArguments),
}

#[derive(Debug, clap::Args)]
struct SimulateArguments {
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
    fleet: FleetArguments,
    #[command(flatten)]
    log: logging::LogArguments,
}

#[derive(Debug, clap::Args)]
struct NodeArguments {
    /// Name of the node
    name: String,
    /// Path of the kubeconfig file
    #[arg(long, value_name = "PATH", env = "KUBECONFIG")]
    kubeconfig: PathBuf,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // Raising the limit is optional here: without a store, a low limit only means fewer connections.
    let _ = setpoint_sys::raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match &arguments.deed {
        Deed::Simulate(arguments) => {
            logging::start(&arguments.log);
            runtime.block_on(simulate(arguments))
        }
        Deed::Stop(node) => runtime.block_on(switch(node, |_| Switch::OFF)),
        Deed::Partition(node) => runtime.block_on(switch(node, |_| Switch::CUT_OFF)),
        Deed::Reboot(node) => runtime.block_on(switch(node, |_| Switch::on(true))),
        // A node that was off boots; a partitioned one has kept running.
        Deed::Start(node) => runtime.block_on(switch(node, |power| Switch::on(power == "off"))),
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
    fleet.published_rules.get_or_insert_with(|| "rules: []".to_owned());
    let asking = client()?;
    check_names(&asking, &fleet).await?;
    let nodes = counted(arguments.count as usize, "node");
    println!("simulating {nodes}: {identity} requests the lease kube-system/{lease}");
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

/// Gets an object or a list; not found is an error.
async fn get(client: &Client, place: &str) -> anyhow::Result<Value> {
    find(client, place).await?.map_err(|why| anyhow!(why))
}

/// Gets an object or a list. The inner error is the server's message for 404.
async fn find(client: &Client, place: &str) -> anyhow::Result<Result<Value, String>> {
    let (status, body) = client.ask("GET".parse()?, place, None, Default::default()).await?;
    let found = json::parse(&body).unwrap_or_default();
    let why = || found.str_at(&["message"]).to_owned();
    match status.as_u16() {
        200 => Ok(Ok(found)),
        404 => Ok(Err(why())),
        _ => bail!(why()),
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
                bail!("node {} is there already, and is not simulated: choose another --prefix", name(node))
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
        if lease.is_some_and(|lease| holds(&Held::of(lease, Default::default()), now)) {
            bail!("node {node} belongs to the fleet {owner}, which runs: choose another --prefix");
        }
    }
    Ok(())
}

/// `true` if a Lease has not expired.
fn holds(lease: &Held, now: Time) -> bool {
    let span = Duration::from_secs(u64::try_from(lease.seconds).unwrap_or(0));
    rfc3339::parse_micros(&lease.renewed).is_ok_and(|renewed| now < renewed.after(span))
}

/// `true` if a node is simulated, or has not reported a runtime yet.
fn is_simulated(node: &Value) -> bool {
    let runtime = node.str_at(&["status", "nodeInfo", "containerRuntimeVersion"]);
    runtime.is_empty() || runtime.starts_with(SCHEME)
}

/// Requested state of a node.
#[derive(Clone, Copy)]
struct Switch {
    power: &'static str,
    /// `true` if the node boots.
    boots: bool,
}

impl Switch {
    const OFF: Switch = Switch { power: "off", boots: false };
    const CUT_OFF: Switch = Switch { power: "partitioned", boots: false };

    fn on(boots: bool) -> Switch {
        Switch { power: "on", boots }
    }
}

/// Sets the state of a node, which may depend on its previous state. Waits until a node that is switched on
/// reports.
async fn switch(node: &NodeArguments, choose: impl Fn(&str) -> Switch) -> anyhow::Result<()> {
    let client = Client::from_kubeconfig(&read(&node.kubeconfig)?, "setpoint")?;
    let NodeArguments { name, .. } = node;
    let before = get(&client, &place(name)).await?;
    if !is_simulated(&before) {
        bail!("node {name} is not simulated: nothing here can switch it");
    }
    let Switch { power, boots } = choose(before.str_at(&["metadata", "annotations", POWER_ANNOTATION]));
    let mut annotations = Value::map();
    annotations.make_map().insert(POWER_ANNOTATION, power);
    if boots {
        annotations.make_map().insert(BOOT_TIME_ANNOTATION, Micros(SystemClock.now()).to_string());
    }
    let body = json::to_vec(&value!({"metadata": {"annotations": (annotations)}}));
    let kind = Some("application/merge-patch+json");
    let (status, answer) = client.ask("PATCH".parse()?, &place(name), kind, body.into()).await?;
    if !status.is_success() {
        bail!("{}", json::parse(&answer).unwrap_or_default().str_at(&["message"]));
    }
    // Only a node that is on can report.
    if power == "on" && !is_taken_up(&client, name, boots.then(|| boot(&before))).await? {
        bail!(
            "node {name} is marked as on, but no fleet runs it: it did not report within {TAKEN_UP_WITHIN:?}. Its fleet runs in \
             setpoint node simulate, or in setpoint up with enough --nodes"
        );
    }
    println!("node {name} is {power}");
    Ok(())
}

/// `true` if a fleet runs the node: its boot id differs from `booted`, or, without `booted`, its Lease has
/// not expired. Waits up to [`TAKEN_UP_WITHIN`].
async fn is_taken_up(client: &Client, name: &str, booted: Option<&str>) -> anyhow::Result<bool> {
    let until = SystemClock.uptime() + TAKEN_UP_WITHIN;
    loop {
        let is_taken_up = match booted {
            Some(before) => boot(&get(client, &place(name)).await?) != before,
            None => find(client, &format!("{LEASES}/{name}"))
                .await?
                .is_ok_and(|lease| holds(&Held::of(&lease, Default::default()), SystemClock.now())),
        };
        if is_taken_up || SystemClock.uptime() >= until {
            return Ok(is_taken_up);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Boot id of a node.
fn boot(node: &Value) -> &str {
    node.str_at(&["status", "nodeInfo", "bootID"])
}

fn place(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}
