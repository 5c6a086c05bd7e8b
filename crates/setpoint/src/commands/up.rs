//! `setpoint up`: runs the control plane.
//!
//! It opens the store, creates or loads the certificates, listens, writes the kubeconfig, and serves until a
//! signal stops it. Messages for people go to the standard output, the log to the standard error.

mod addresses;
mod first_pass;
mod memory;
mod places;
mod renewal;

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
use setpoint_api::names::ip::Cidr;
use setpoint_api::{Clock, Entropy, Time};
use setpoint_controllers::Settings;
use setpoint_node::control_plane::Components;
use setpoint_node::fleet::{DEFAULT_PREFIX, Fleet};
use setpoint_pki::certs::Pki;
use setpoint_runtime::in_process::{LoopEnd, Shell};
use setpoint_runtime::queries::QueryHandler;
use setpoint_server::api::Api;
use setpoint_server::exchange::{Identity, Request, Service};
use setpoint_server::health::Check;
use setpoint_server::http::{self, Bounds, Counters, ThreadCounts, Threads, Tls};
use setpoint_server::loop_writes::InFlightWrites;
use setpoint_server::pipeline::service_network::ranges::{self, RangeError, Ranges};
use setpoint_server::{api, kubeconfig};
use setpoint_store::log::LogError;
use setpoint_store::{Housekeeper, Retention, Store};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use self::addresses::{advertised, names, parse_names, reachable};
use self::places::Places;
use super::fleet::{FleetArguments, Kubelets};
use super::logging::{self, Rings};
use super::patience::{ControllerArguments, TolerationArguments};
use super::store::open;
use super::{counted, human_bytes, loops};
use crate::clock::{SystemClock, entropy};

/// Maximum time for responses to finish after Ctrl-C, so that the process exits within a second.
const DRAIN: Duration = Duration::from_millis(700);
/// Interval at which the server polls its own readiness.
const READY_PAUSE: Duration = Duration::from_millis(5);

/// Arguments of `setpoint up`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Data directory [default: in the user's data directory]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Keep all data in memory only
    #[arg(long, conflicts_with = "data_dir")]
    ephemeral: bool,
    /// Maximum bytes of live objects; creates are rejected above it [default: an eighth of the memory]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    quota_backend_bytes: Option<u64>,
    /// Maximum size of history on disk, in bytes; live objects come on top
    #[arg(long, value_name = "BYTES", default_value_t = Retention::default().cold_bytes, conflicts_with = "ephemeral")]
    history_bytes: u64,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    listen: IpAddr,
    /// Port to listen on (0 chooses a free port)
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    port: u16,
    /// Additional DNS names and IP addresses for the serving certificate
    #[arg(long, value_name = "NAME[,NAME]", value_parser = AddedNames::from_str)]
    tls_san: Option<AddedNames>,
    /// File to write the kubeconfig to [default: in the data directory]
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// CIDR range for Services, or one of each IP family; the first is the default family [default: the
    /// range in use, or 10.0.0.0/16]
    #[arg(long, value_name = "CIDR[,CIDR]", value_parser = ServiceRanges::from_str)]
    service_cluster_ip_range: Option<ServiceRanges>,
    /// Controllers to run: `*` for all, `-NAME` for all but one, NAME for one
    #[arg(long, value_name = "LIST", default_value = "*", value_parser = loops::choice, allow_hyphen_values = true)]
    controllers: loops::Choice,
    /// File with a KubeSchedulerConfiguration
    #[arg(long, value_name = "PATH", value_parser = loops::scheduler_config)]
    scheduler_config: Option<loops::SchedulerConfig>,
    #[command(flatten)]
    network: loops::NetworkArguments,
    #[command(flatten)]
    patience: ControllerArguments,
    #[command(flatten)]
    tolerations: TolerationArguments,
    /// Number of simulated nodes in the server's process
    #[arg(long, value_name = "N", default_value_t = 1)]
    nodes: u32,
    #[command(flatten)]
    fleet: FleetArguments,
    #[command(flatten)]
    log: logging::LogArguments,
}

/// Additional names of the serving certificate.
#[derive(Clone, Debug)]
struct AddedNames(Vec<String>);

impl FromStr for AddedNames {
    type Err = String;

    fn from_str(text: &str) -> Result<AddedNames, String> {
        parse_names(text).map(AddedNames)
    }
}

/// CIDR ranges for Services.
#[derive(Clone, Debug)]
struct ServiceRanges(Vec<Cidr>);

impl FromStr for ServiceRanges {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<ServiceRanges, RangeError> {
        ranges::parse_ranges(text).map(ServiceRanges)
    }
}

impl Arguments {
    /// CIDR ranges for Services, as far as they are set.
    fn service_ranges(&self) -> &[Cidr] {
        self.service_cluster_ip_range.as_ref().map_or(&[], |ranges| &ranges.0)
    }

    /// Rejects a pod range that conflicts with the Service ranges, if this process assigns pod CIDRs.
    fn check_networks(&self, services: &[Cidr]) -> anyhow::Result<()> {
        if self.controllers.gives_addresses() { self.network.check(services) } else { Ok(()) }
    }
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let begun = SystemClock.now();
    let descriptors = setpoint_sys::raise_descriptor_limit();
    // Validate all flags before creating the data directory.
    let fleet = arguments.fleet.fleet(arguments.nodes, DEFAULT_PREFIX)?;
    if fleet.count > 0 {
        arguments.patience.check(fleet.renewal())?;
    }
    arguments.check_networks(arguments.service_ranges())?;
    let places = Places::choose(arguments)?;
    say(format_args!("setpoint {}: starting {}", env!("CARGO_PKG_VERSION"), places.shown()));
    let rings = logging::start(&arguments.log);
    let live_bytes = arguments.quota_backend_bytes.unwrap_or_else(memory::live_bytes);
    let retention = Retention { live_bytes, cold_bytes: arguments.history_bytes, ..Retention::default() };
    let store = open_store(&places, retention)?;
    let stat = store.stat();
    let (objects, bytes) = (counted(stat.objects, "object"), human_bytes(stat.bytes));
    say(format_args!("store: {objects} ({bytes}) at revision {}", stat.revision));
    // Without the flag, only the store contains the Service ranges.
    arguments.check_networks(Ranges::of(&store.snapshot()).cluster_with(arguments.service_ranges()))?;
    let keeping = Keeping::start(&store)?;
    // Accepts connections and waits for signals; requests run on their own threads.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome =
        runtime.block_on(serve(arguments, &places, store, Beginning { begun, rings, fleet, descriptors }));
    // Unfinished requests are dropped; the store has every acknowledged commit.
    Runtime::shutdown_background(runtime);
    drop(keeping);
    // A plan that had to be aborted counts as a crash, as if the process had been killed in it.
    if let Some(dir) = places.data_dir.as_deref().filter(|_| matches!(outcome, Ok(LoopEnd::Stopped))) {
        first_pass::forget(dir);
    }
    places.clean_up();
    outcome.map(drop)
}

/// Prints a line to the standard output. Ignores a closed pipe.
fn say(line: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn open_store(places: &Places, retention: Retention) -> anyhow::Result<Store> {
    let Some(dir) = &places.data_dir else {
        return Ok(Store::in_memory(retention));
    };
    places.check_store()?;
    open(dir, retention).map_err(|error| match error.downcast_ref() {
        Some(LogError::Lost { .. }) => anyhow::anyhow!("{}: {error}", dir.display()),
        Some(LogError::Corrupt { .. }) => error.context(format!(
            "the store in {} is damaged: restore the directory from a backup, or start with another --data-dir",
            dir.display()
        )),
        Some(LogError::Io { .. }) => {
            anyhow::anyhow!("{error}: choose a directory that you may write, with --data-dir")
        }
        _ => error,
    })
}

/// Threads of the store. Dropping it lets the writer finish the queue.
struct Keeping {
    store: Store,
    stop: Arc<AtomicBool>,
    driver: Option<JoinHandle<()>>,
}

impl Keeping {
    fn start(store: &Store) -> anyhow::Result<Keeping> {
        let stop = Arc::new(AtomicBool::new(false));
        let (driven, stopped) = (store.clone(), Arc::clone(&stop));
        let driver = std::thread::Builder::new().name("writer".to_owned());
        let driver = driver.spawn(move || driven.drive(&stopped)).context("cannot start a thread")?;
        let report = |error: &_| tracing::warn!(%error, "store maintenance failed");
        let housekeeper = Housekeeper::start(store.clone(), Arc::new(SystemClock), report)?;
        // It ends with the process: an interrupted compaction loses nothing, and waiting for one may take
        // long.
        std::mem::forget(housekeeper);
        Ok(Keeping { store: store.clone(), stop, driver: Some(driver) })
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.store.wake();
        if let Some(driver) = self.driver.take() {
            // The panic hook has reported a panic of the thread.
            let _ = driver.join();
        }
        self.store.note_end();
    }
}

/// State of the process before the store is opened.
#[derive(Clone)]
struct Beginning {
    begun: Time,
    rings: Rings,
    fleet: Fleet,
    /// Limit of open files; `None` if unlimited.
    descriptors: Option<u64>,
}

async fn serve(
    arguments: &Arguments,
    places: &Places,
    store: Store,
    beginning: Beginning,
) -> anyhow::Result<LoopEnd> {
    // Signals first: a client that sees a line of output may send one.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let listener = listen(SocketAddr::new(arguments.listen, arguments.port)).await?;
    let address = listener.local_addr()?;
    let url = format!("https://{}", reachable(address));
    let said = arguments.service_ranges();
    // The range of an existing cluster does not change.
    let kept = Ranges::of(&store.snapshot()).cluster().to_vec();
    let advertised = advertised(address);
    let identity = addresses::Identity {
        listen: arguments.listen,
        advertised: advertised.map(|address| address.ip()),
        extra: arguments.tls_san.as_ref().map_or(&[], |names| &names.0),
    };
    let names = names(&identity, said.iter().chain(&kept));
    let options = api::Options {
        clock: Arc::new(SystemClock),
        entropy: Arc::new(entropy),
        address: url.trim_start_matches("https://").to_owned(),
        advertised,
        service_ranges: said.to_vec(),
        tolerations: arguments.tolerations.tolerations(),
    };
    // The initial objects and the certificates are independent, and both wait for the disk.
    let shared = store.clone();
    let starting = tokio::task::spawn_blocking(move || api::service(shared, options));
    let pki = places.pki(&names)?;
    kubeconfig::write(&places.kubeconfig, &kubeconfig::text(&url, &pki))?;
    let tls = Arc::new(Tls::new(&pki)?);
    let api = starting.await?.map_err(|status| anyhow::anyhow!("{status}"))?;
    let api = api.with_tokens_in(places.data_dir.as_ref().map(|dir| dir.join("pki")));
    let (reconciling, queries) = reconcile(arguments, places, &pki, store, &api, beginning.clone())?;
    api.show(reconciling.engine());
    let api = Arc::new(api.with_check(Check::new("loop", false, reconciling.check())));
    let service: Arc<dyn Service> = Arc::clone(&api) as _;
    say(format_args!("kubeconfig: {}", places.kubeconfig.display()));
    let counters = Arc::new(Counters::default());
    let counted = Arc::clone(&counters);
    api.metrics().register(move |text| counted.write(text));
    let bounds = beginning.descriptors.map_or_else(Bounds::default, Bounds::for_descriptors);
    let threads = Threads::start(ThreadCounts::per_core(setpoint_sys::lower_thread_priority))?;
    let options = http::ServeOptions { bounds, threads, entropy: entropy(), drain: DRAIN, counters };
    let announcing =
        tokio::spawn(announce(Arc::clone(&service), url.clone(), beginning.begun, beginning.rings));
    let renewed = Renewed { places: places.clone(), names, url, tls: Arc::clone(&tls), queries };
    let renewing = tokio::spawn(renewed.renew(pki));
    let stop = async move {
        std::future::poll_fn(|context| {
            let first = interrupt.poll_recv(context);
            if first.is_ready() { first } else { terminate.poll_recv(context) }
        })
        .await;
        api.begin_shutdown();
        say(format_args!("stopping"));
    };
    let drained = http::serve(listener, tls, service, options, stop).await;
    announcing.abort();
    renewing.abort();
    let end = reconciling.stop();
    if !drained {
        tracing::warn!("some responses did not finish in time");
    }
    Ok(end)
}

/// Starts the loop, and the log and usage source for simulated nodes.
fn reconcile(
    arguments: &Arguments,
    places: &Places,
    pki: &Pki,
    store: Store,
    api: &Api,
    Beginning { begun, rings, fleet: mut nodes, .. }: Beginning,
) -> anyhow::Result<(Shell, Arc<QueryHandler>)> {
    let ranges = Ranges::of(&store.snapshot());
    let services =
        ranges.cluster().iter().map(|range| range.to_string().parse()).collect::<Result<_, _>>()?;
    let settings = arguments.network.settings(pki.ca.certificate.clone(), services)?;
    let settings =
        arguments.patience.complete(Settings { host_path_directory: places.volumes(), ..settings });
    // This process serves the queries about its own nodes, so their rules need not be published.
    nodes.published = None;
    nodes.components = Components { names: arguments.controllers.components(&settings), since: begun };
    nodes.components.names.iter().for_each(|component| rings.begin(component));
    arguments
        .controllers
        .start_lines(&settings)
        .iter()
        .for_each(|(component, text)| rings.tell(component, text));
    let kubelets = Arc::new(Kubelets::new(nodes.clone(), store.clone(), rings));
    api.set_log_source(Arc::clone(&kubelets) as _);
    api.set_usage_source(Arc::clone(&kubelets) as _);
    let engine = arguments.controllers.engine_of_store(&settings, nodes, arguments.scheduler_config.as_ref());
    let engine = first_pass::guard(engine, places.data_dir.as_deref(), &arguments.controllers);
    let queries = Arc::new(QueryHandler::new(kubelets).with_access_review(api::review_access));
    queries.sign_with(&pki.ca)?;
    let (clock, entropy): (Arc<dyn Clock>, Arc<Entropy>) = (Arc::new(SystemClock), Arc::new(entropy));
    let tolerations = arguments.tolerations.tolerations();
    let executor = InFlightWrites::new(store.clone(), Arc::clone(&clock), Arc::clone(&entropy), tolerations);
    let shell = Shell::start(store, engine, clock, entropy, Arc::clone(&queries), Box::new(executor))?;
    Ok((shell, queries))
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => bail!(
            "port {} on {} is in use: stop what listens there, or choose another with --port (0 takes a free one)",
            address.port(),
            address.ip()
        ),
        Err(error) if error.kind() == std::io::ErrorKind::AddrNotAvailable => {
            bail!("{} is no address of this machine: choose another with --listen", address.ip())
        }
        Err(error) => {
            Err(error).with_context(|| format!("cannot listen on {address}: choose another --port"))
        }
    }
}

/// Prints that the server is ready, once its readiness check succeeds.
async fn announce(service: Arc<dyn Service>, url: String, begun: Time, rings: Rings) {
    loop {
        let request = Request {
            method: "GET".parse().expect("GET is a method"),
            path: "/readyz".to_owned(),
            query: String::new(),
            headers: Default::default(),
            body: Default::default(),
            identity: Identity {
                user: "system:apiserver".to_owned(),
                groups: vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
            },
        };
        if service.answer(request).await.status.is_success() {
            break;
        }
        tokio::time::sleep(READY_PAUSE).await;
    }
    let milliseconds = SystemClock.now().since(begun).as_millis();
    let line = format!("ready after {milliseconds} ms: {url}");
    rings.tell("kube-apiserver", &line);
    say(format_args!("{line}"));
}

/// Holders of certificates that are renewed.
struct Renewed {
    places: Places,
    names: Vec<String>,
    url: String,
    tls: Arc<Tls>,
    queries: Arc<QueryHandler>,
}

impl Renewed {
    /// Renews the certificates of a long-running server.
    async fn renew(self, pki: Pki) {
        renewal::renew_when_due(&SystemClock, pki, tokio::time::sleep, || self.renew_now()).await;
    }

    fn renew_now(&self) -> anyhow::Result<Pki> {
        let pki = self.places.pki(&self.names)?;
        self.tls.replace(&pki)?;
        self.queries.sign_with(&pki.ca)?;
        kubeconfig::write(&self.places.kubeconfig, &kubeconfig::text(&self.url, &pki))?;
        Ok(pki)
    }
}
