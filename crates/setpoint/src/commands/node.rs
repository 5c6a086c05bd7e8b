//! `setpoint node`: simulated nodes in a process of their own, and what happens to nodes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use setpoint_api::rfc3339::Micros;
use setpoint_api::{Clock, Time, Value, json, rfc3339, value};
use setpoint_node::Fleet;
use setpoint_node::fleet::{BOOTED, FLEET, POWER};
use setpoint_node::simulated::SCHEME;
use setpoint_reconcile::Engine;
use setpoint_reconcile::election::Held;
use setpoint_runtime::client::Client;
use setpoint_runtime::remote::{REQUEST_TIMEOUT, Remote};
use tokio::signal::unix::{SignalKind, signal};

use super::fleet::FleetArguments;
use super::{counted, logging, loops};
use crate::clock::{SystemClock, entropy};

/// How long whoever runs a node may take to say that it is on. It hears of that at once, so this is for slow machines.
const TAKEN_UP_WITHIN: Duration = Duration::from_secs(10);
/// How often it is asked whether it has.
const PAUSE: Duration = Duration::from_millis(100);
/// Where the Leases of nodes are.
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

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
    // The store is elsewhere, and a limit that stays low only means fewer connections.
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
        // One that was off starts anew; one that was cut off has never stopped.
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

/// What the server says of an object or a list.
async fn get(client: &Client, place: &str) -> anyhow::Result<Value> {
    find(client, place).await?.map_err(|why| anyhow!(why))
}

/// The same; where there is nothing, why.
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

/// How a node is to be.
#[derive(Clone, Copy)]
struct Switch {
    power: &'static str,
    /// Whether it starts anew.
    boots: bool,
}

impl Switch {
    const OFF: Switch = Switch { power: "off", boots: false };
    const CUT_OFF: Switch = Switch { power: "partitioned", boots: false };

    fn on(boots: bool) -> Switch {
        Switch { power: "on", boots }
    }
}

/// Says how a node is to be, which may depend on how it was, and whether it has become so.
async fn switch(node: &NodeArguments, choose: impl Fn(&str) -> Switch) -> anyhow::Result<()> {
    let client = Client::from_kubeconfig(&read(&node.kubeconfig)?, "setpoint")?;
    let NodeArguments { name, .. } = node;
    let before = get(&client, &place(name)).await?;
    if !is_simulated(&before) {
        bail!("node {name} is not simulated: nothing here can switch it");
    }
    let Switch { power, boots } = choose(before.str_at(&["metadata", "annotations", POWER]));
    let mut annotations = Value::map();
    annotations.make_map().insert(POWER, power);
    if boots {
        annotations.make_map().insert(BOOTED, Micros(SystemClock.now()).to_string());
    }
    let body = json::to_vec(&value!({"metadata": {"annotations": (annotations)}}));
    let kind = Some("application/merge-patch+json");
    let (status, answer) = client.ask("PATCH".parse()?, &place(name), kind, body.into()).await?;
    if !status.is_success() {
        bail!("{}", json::parse(&answer).unwrap_or_default().str_at(&["message"]));
    }
    // Whoever is silent cannot say so; whoever is on can.
    if power == "on" && !is_taken_up(&client, name, boots.then(|| boot(&before))).await? {
        bail!(
            "node {name} is marked as on, but nobody runs it: it said nothing within {TAKEN_UP_WITHIN:?}. Its fleet runs in \
             setpoint node simulate, or in setpoint up with enough --nodes"
        );
    }
    println!("node {name} is {power}");
    Ok(())
}

/// Whether somebody runs a node: it says that it has started since it had this boot id, or, if it did not have to, it has
/// a Lease. That is so at once, or whoever runs it hears of it first.
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

/// By what a start of a node is known.
fn boot(node: &Value) -> &str {
    node.str_at(&["status", "nodeInfo", "bootID"])
}

fn place(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}
