//! `setpoint up`: runs the control plane.
//!
//! It opens the store, creates or loads the certificates, listens, writes the kubeconfig, and serves until a
//! signal stops it. Messages for people go to the standard output, the log to the standard error.

mod addresses;
mod audit;
mod authentication;
mod authorization;
mod certificate_files;
mod encryption;
mod first_pass;
mod memory;
mod paths;
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
use setpoint_server::audit::{Auditor, LoopAudit};
use setpoint_server::exchange::{Identity, Request, Service};
use setpoint_server::health::Check;
use setpoint_server::http::{self, Bounds, Counters, ThreadCounts, Threads, Tls};
use setpoint_server::loop_writes::InFlightWrites;
use setpoint_server::pipeline::admission::AdmissionConfig;
use setpoint_server::pipeline::service_network::ranges::{self, RangeError, Ranges};
use setpoint_server::{api, kubeconfig};
use setpoint_store::log::LogError;
use setpoint_store::{MaintenanceThread, Retention, Sealer, Store};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use self::addresses::{advertised, names, parse_names, reachable};
use self::audit::AuditArgs;
use self::authentication::{AuthenticationArgs, FileReloader};
use self::authorization::{AuthorizationArgs, ConfigurationFile};
use self::certificate_files::{CertificateFile, CertificateMonitor};
use self::encryption::ServerEncryptionArgs;
use self::paths::Paths;
use super::admission_flags::AdmissionArgs;
use super::encryption::Encryption;
use super::flags::{ControllerArgs, TolerationArgs};
use super::fleet::{FleetArgs, Kubelets};
use super::logging::{self, ComponentLogs};
use super::request_limits::RequestLimitArgs;
use super::store::open;
use super::{counted, engine, human_bytes};
use crate::clock::{SystemClock, entropy};

/// Maximum time for responses to finish after Ctrl-C, so that the process exits within a second.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(700);
/// Maximum time for audit events to be written once the responses have finished, within the same second.
const AUDIT_FLUSH_TIMEOUT: Duration = Duration::from_millis(250);
/// Interval at which the server polls its own readiness.
const READY_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Arguments of `setpoint up`.
#[derive(Debug, clap::Args)]
pub struct UpArgs {
    /// Directory for the store and the certificates [default: `setpoint` in the user's data directory]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Keep all data in memory; it is lost when the process exits
    #[arg(long, conflicts_with = "data_dir")]
    ephemeral: bool,
    /// Maximum bytes of live objects; creates are rejected above it [default: an eighth of the memory]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    quota_backend_bytes: Option<u64>,
    /// Maximum bytes of history on disk, in addition to live objects
    #[arg(long, value_name = "BYTES", default_value_t = Retention::default().cold_bytes, conflicts_with = "ephemeral")]
    history_bytes: u64,
    /// IP address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    listen: IpAddr,
    /// Port to listen on (0 chooses a free port)
    #[arg(long, value_name = "PORT", default_value_t = 6443)]
    port: u16,
    /// Additional DNS names and IP addresses for the serving certificate
    #[arg(long, value_name = "NAME[,NAME]", value_parser = CertificateNames::from_str)]
    tls_san: Option<CertificateNames>,
    /// File to write the kubeconfig to [default: in the data directory]
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// CIDR range for Services, or one of each IP family; the first is the default family [default: the
    /// range in use, or 10.0.0.0/16]
    #[arg(long, value_name = "CIDR[,CIDR]", value_parser = ServiceRanges::from_str)]
    service_cluster_ip_range: Option<ServiceRanges>,
    /// Controllers to run: `*` for all, `-NAME` for all but one, NAME for one
    #[arg(long, value_name = "LIST", default_value = "*", value_parser = engine::parse_controllers, allow_hyphen_values = true)]
    controllers: engine::ControllerSelection,
    /// File with a KubeSchedulerConfiguration
    #[arg(long, value_name = "PATH", value_parser = engine::read_scheduler_config)]
    scheduler_config: Option<engine::SchedulerConfig>,
    #[command(flatten)]
    network: engine::NetworkArgs,
    #[command(flatten)]
    controller_args: ControllerArgs,
    #[command(flatten)]
    tolerations: TolerationArgs,
    #[command(flatten)]
    authentication: AuthenticationArgs,
    #[command(flatten)]
    admission: AdmissionArgs,
    #[command(flatten)]
    authorization: AuthorizationArgs,
    #[command(flatten)]
    audit: AuditArgs,
    #[command(flatten)]
    encryption: ServerEncryptionArgs,
    #[command(flatten)]
    requests: RequestLimitArgs,
    /// Number of simulated nodes to run in this process (0 runs none)
    #[arg(long, value_name = "N", default_value_t = 1)]
    nodes: u32,
    #[command(flatten)]
    fleet: FleetArgs,
    #[command(flatten)]
    log: logging::LogArgs,
}

/// Additional names of the serving certificate.
#[derive(Clone, Debug)]
struct CertificateNames(Vec<String>);

impl FromStr for CertificateNames {
    type Err = String;

    fn from_str(text: &str) -> Result<CertificateNames, String> {
        parse_names(text).map(CertificateNames)
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

impl UpArgs {
    /// CIDR ranges for Services, as far as they are set.
    fn service_ranges(&self) -> &[Cidr] {
        self.service_cluster_ip_range.as_ref().map_or(&[], |ranges| &ranges.0)
    }

    /// Files with certificates that others renew.
    fn certificate_files(&self) -> anyhow::Result<Vec<CertificateFile>> {
        let mut files = self.authentication.certificate_files();
        files.extend(authorization::certificate_files(&self.authorization.configuration()?));
        files.extend(self.audit.certificate_file());
        Ok(files)
    }

    /// Rejects a pod CIDR that conflicts with the Service ranges, if this process assigns pod CIDRs.
    fn validate_networks(&self, services: &[Cidr]) -> anyhow::Result<()> {
        if self.controllers.assigns_pod_cidrs() { self.network.check(services) } else { Ok(()) }
    }
}

/// Runs the command.
pub fn run(args: &UpArgs) -> anyhow::Result<()> {
    let started_at = SystemClock.now();
    let descriptors = setpoint_sys::raise_descriptor_limit();
    // Validate all flags before creating the data directory.
    let fleet = args.fleet.fleet(args.nodes, DEFAULT_PREFIX)?;
    if fleet.count > 0 {
        args.controller_args.validate(fleet.lease_renewal_interval())?;
    }
    args.requests.validate()?;
    args.validate_networks(args.service_ranges())?;
    args.authentication.options(None)?;
    args.authentication.trust()?;
    let admission = args.admission.config()?;
    args.authorization.configuration()?;
    args.audit.validate()?;
    args.encryption.validate(args.ephemeral)?;
    let paths = Paths::from_args(args)?;
    print_line(format_args!("setpoint {}: starting {}", env!("CARGO_PKG_VERSION"), paths.store_location()));
    let component_logs = logging::start(&args.log);
    let live_bytes = args.quota_backend_bytes.unwrap_or_else(memory::live_bytes);
    let retention = Retention { live_bytes, cold_bytes: args.history_bytes, ..Retention::default() };
    let encryption = args.encryption.open()?;
    let store = open_store(&paths, retention, encryption.as_ref().map(|encryption| encryption.sealer()))?;
    let stat = store.stat();
    let (objects, bytes) = (counted(stat.objects, "object"), human_bytes(stat.bytes));
    print_line(format_args!("store: {objects} ({bytes}) at revision {}", stat.revision));
    // Without the flag, only the store contains the Service ranges.
    args.validate_networks(Ranges::of(&store.snapshot()).cluster_with(args.service_ranges()))?;
    let store_threads = StoreThreads::start(&store)?;
    // Accepts connections and waits for signals; requests run on their own threads.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(serve(
        args,
        &paths,
        store,
        StartState { started_at, component_logs, fleet, descriptors, admission, encryption },
    ));
    // Unfinished requests are dropped; the store has every acknowledged commit.
    Runtime::shutdown_background(runtime);
    drop(store_threads);
    // A plan that had to be aborted counts as a crash, as if the process had been killed in it.
    if let Some(dir) = paths.data_dir.as_deref().filter(|_| matches!(outcome, Ok(LoopEnd::Stopped))) {
        first_pass::remove_progress(dir);
    }
    paths.remove_temporary();
    outcome.map(drop)
}

/// Prints a line to the standard output. Ignores a closed pipe.
fn print_line(line: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn open_store(paths: &Paths, retention: Retention, sealer: Option<Arc<dyn Sealer>>) -> anyhow::Result<Store> {
    let Some(dir) = &paths.data_dir else {
        return Ok(Store::in_memory(retention));
    };
    paths.check_store()?;
    open(dir, retention, sealer).map_err(|error| match error.downcast_ref() {
        Some(LogError::Lost { .. }) => anyhow::anyhow!("{}: {error}", dir.display()),
        Some(LogError::Corrupt { .. }) => error.context(format!(
            "the store in {} is damaged: restore the directory from a backup, or start with another --data-dir",
            dir.display()
        )),
        Some(LogError::Io { .. }) => {
            anyhow::anyhow!("{error}: choose a writable directory with --data-dir")
        }
        _ => error,
    })
}

/// Threads of the store. Dropping it lets the writer finish the queue.
struct StoreThreads {
    store: Store,
    stop: Arc<AtomicBool>,
    driver: Option<JoinHandle<()>>,
}

impl StoreThreads {
    fn start(store: &Store) -> anyhow::Result<StoreThreads> {
        let stop = Arc::new(AtomicBool::new(false));
        let (driven, stopped) = (store.clone(), Arc::clone(&stop));
        let driver = std::thread::Builder::new().name("writer".to_owned());
        let driver =
            driver.spawn(move || driven.drive(&stopped)).context("cannot start the writer thread")?;
        let report = |error: &_| tracing::warn!(%error, "store maintenance failed");
        let maintenance = MaintenanceThread::start(store.clone(), Arc::new(SystemClock), report)?;
        // It ends with the process: an interrupted compaction loses nothing, and waiting for one may take
        // long.
        std::mem::forget(maintenance);
        Ok(StoreThreads { store: store.clone(), stop, driver: Some(driver) })
    }
}

impl Drop for StoreThreads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.store.wake();
        if let Some(driver) = self.driver.take() {
            // The panic hook has reported a panic of the thread.
            let _ = driver.join();
        }
        self.store.record_durable_end();
    }
}

/// State of the process before the store is opened.
#[derive(Clone)]
struct StartState {
    started_at: Time,
    component_logs: ComponentLogs,
    fleet: Fleet,
    /// Limit of open files; `None` if unlimited.
    descriptors: Option<u64>,
    /// Admission plugins and their configurations.
    admission: AdmissionConfig,
    /// Encryption at rest; `None` if nothing is encrypted.
    encryption: Option<Arc<Encryption>>,
}

async fn serve(args: &UpArgs, paths: &Paths, store: Store, start: StartState) -> anyhow::Result<LoopEnd> {
    let admission = start.admission.clone();
    // Signals first: a client that sees a line of output may send one.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let listener = listen(SocketAddr::new(args.listen, args.port)).await?;
    let address = listener.local_addr()?;
    let url = format!("https://{}", reachable(address));
    let requested_ranges = args.service_ranges();
    // The range of an existing cluster does not change.
    let stored_ranges = Ranges::of(&store.snapshot()).cluster().to_vec();
    let advertised = advertised(address);
    let identity = addresses::ServerNames {
        listen: args.listen,
        advertised: advertised.map(|address| address.ip()),
        extra: args.tls_san.as_ref().map_or(&[], |names| &names.0),
    };
    let names = names(&identity, requested_ranges.iter().chain(&stored_ranges));
    let options = api_options(args, &url, advertised, admission);
    // The initial objects and the certificates are independent, and both wait for the disk.
    let shared = store.clone();
    let api = tokio::task::spawn_blocking(move || api::service(shared, options));
    let pki = paths.pki(&names)?;
    kubeconfig::write(&paths.kubeconfig, &kubeconfig::text(&url, &pki))?;
    let trust = args.authentication.trust()?;
    let tls = Arc::new(Tls::with_trust(&pki, trust.clone())?);
    let api = api.await?.map_err(|status| anyhow::anyhow!("{status}"))?;
    let api = with_access_control(api, args, paths)?;
    let auditor = api.auditor().cloned();
    let mut tasks = JoinSet::new();
    let api = args.encryption.start(start.encryption.clone(), api, store.clone(), &mut tasks);
    let (shell, queries) = reconcile(args, paths, &pki, store, &api, start.clone())?;
    api.show(shell.engine());
    let api = Arc::new(api.with_check(Check::new("loop", false, shell.check())));
    let service: Arc<dyn Service> = Arc::clone(&api) as _;
    print_line(format_args!("kubeconfig: {}", paths.kubeconfig.display()));
    let counters = Arc::new(Counters::default());
    let metrics = Arc::clone(&counters);
    api.metrics().register(move |text| metrics.write(text));
    let bounds = start.descriptors.map_or_else(Bounds::default, Bounds::for_descriptors);
    let threads = Threads::start(ThreadCounts::per_core(setpoint_sys::lower_thread_priority))?;
    let options = http::ServeOptions { bounds, threads, entropy: entropy(), drain: DRAIN_TIMEOUT, counters };
    queries.set_client_ca(&trust.client_ca);
    tasks.spawn(announce_ready(Arc::clone(&service), url.clone(), start.started_at, start.component_logs));
    let reloader = FileReloader {
        authenticator: Arc::clone(api.authenticator()),
        tls: Arc::clone(&tls),
        queries: Arc::clone(&queries),
        args: args.authentication.clone(),
        in_use: trust,
    };
    tasks.spawn(reloader.run());
    follow_files(&mut tasks, args, &api)?;
    let (tls_in_use, api_in_use) = (Arc::clone(&tls), Arc::clone(&api));
    let renewer =
        CertificateRenewer { paths: paths.clone(), names, url, tls: tls_in_use, api: api_in_use, queries };
    tasks.spawn(renewer.run(pki));
    let stop = async move {
        std::future::poll_fn(|context| {
            let first = interrupt.poll_recv(context);
            if first.is_ready() { first } else { terminate.poll_recv(context) }
        })
        .await;
        api.begin_shutdown();
        print_line(format_args!("stopping"));
    };
    let drained = http::serve(listener, tls, service, options, stop).await;
    drop(tasks);
    if !drained {
        tracing::warn!("responses aborted after the drain timeout");
    }
    Ok(stop_loop(shell, auditor.as_deref()))
}

/// Stops the loop, and flushes the audit events of its last writes.
fn stop_loop(shell: Shell, auditor: Option<&Auditor>) -> LoopEnd {
    let end = shell.stop();
    if let Some(auditor) = auditor {
        auditor.shutdown(AUDIT_FLUSH_TIMEOUT);
    }
    end
}

/// Sets authentication, authorization, audit and the limits of requests.
fn with_access_control(api: Api, args: &UpArgs, paths: &Paths) -> anyhow::Result<Api> {
    let key_dir = paths.data_dir.as_ref().map(|dir| dir.join("pki"));
    let api = api.with_authentication(args.authentication.options(key_dir)?)?;
    api.set_authorizers(args.authorization.configuration()?)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let api = match args.audit.start(&clock)? {
        Some(auditor) => api.with_audit(auditor),
        None => api,
    };
    Ok(args.requests.apply_to(api))
}

fn api_options(
    args: &UpArgs,
    url: &str,
    advertised: Option<SocketAddr>,
    admission: AdmissionConfig,
) -> api::Options {
    api::Options {
        clock: Arc::new(SystemClock),
        entropy: Arc::new(entropy),
        address: url.trim_start_matches("https://").to_owned(),
        advertised,
        service_ranges: args.service_ranges().to_vec(),
        tolerations: args.tolerations.tolerations(),
        admission,
    }
}

/// Starts the loop, and the log and usage source for simulated nodes.
fn reconcile(
    args: &UpArgs,
    paths: &Paths,
    pki: &Pki,
    store: Store,
    api: &Api,
    StartState { started_at, component_logs, fleet: mut nodes, .. }: StartState,
) -> anyhow::Result<(Shell, Arc<QueryHandler>)> {
    let ranges = Ranges::of(&store.snapshot());
    let services =
        ranges.cluster().iter().map(|range| range.to_string().parse()).collect::<Result<_, _>>()?;
    let settings = args.network.settings(pki.ca.certificate.clone(), services)?;
    let settings = Settings { host_path_directory: paths.volumes(), signs_tokens: true, ..settings };
    let settings = args.controller_args.apply_to(settings);
    // This process serves the queries about its own nodes, so their rules need not be published.
    nodes.published_rules = None;
    nodes.components = Components { names: args.controllers.components(&settings), started_at };
    nodes.components.names.iter().for_each(|component| component_logs.log_start(component));
    args.controllers
        .start_lines(&settings)
        .iter()
        .for_each(|(component, text)| component_logs.log(component, text));
    let kubelets = Arc::new(Kubelets::new(nodes.clone(), store.clone(), component_logs));
    api.set_log_source(Arc::clone(&kubelets) as _);
    api.set_usage_source(Arc::clone(&kubelets) as _);
    let engine = args.controllers.server_engine(&settings, nodes, args.scheduler_config.as_ref());
    let engine = first_pass::record_first_pass(engine, paths.data_dir.as_deref(), &args.controllers);
    let queries = QueryHandler::new(kubelets)
        .with_token_issuer({
            let authenticator = Arc::clone(api.authenticator());
            move |account, secret_name| authenticator.legacy_token(account, secret_name)
        })
        .with_api_queries(api.aggregated_queries(tokio::runtime::Handle::current()));
    let queries = Arc::new(queries);
    publish(pki, api, &queries)?;
    let (clock, entropy): (Arc<dyn Clock>, Arc<Entropy>) = (Arc::new(SystemClock), Arc::new(entropy));
    let tolerations = args.tolerations.tolerations();
    let executor = InFlightWrites::new(store.clone(), Arc::clone(&clock), Arc::clone(&entropy), tolerations)
        .with_admission(api.admission().clone())
        .with_webhooks(Arc::clone(api.webhooks()))
        .with_conversions(Arc::clone(api.conversions()))
        .with_authorization(Arc::clone(api.authorization()));
    let executor = match api.auditor() {
        Some(auditor) => executor.with_audit(LoopAudit::new(Arc::clone(auditor), Arc::clone(&entropy))),
        None => executor,
    };
    let shell = Shell::start(store, engine, clock, entropy, Arc::clone(&queries), Box::new(executor))?;
    Ok((shell, queries))
}

/// Follows files that change while the server runs: the authorizers, and certificates that others renew.
fn follow_files(tasks: &mut JoinSet<()>, args: &UpArgs, api: &Arc<Api>) -> anyhow::Result<()> {
    if let Some(file) = ConfigurationFile::of(&args.authorization)? {
        tasks.spawn(file.follow(Arc::clone(api)));
    }
    tasks.spawn(CertificateMonitor::new(args.certificate_files()?, api).run());
    Ok(())
}

/// Uses certificates from now on, wherever it is not the socket that does.
fn publish(pki: &Pki, api: &Api, queries: &QueryHandler) -> anyhow::Result<()> {
    queries.sign_with(&pki.ca)?;
    queries.publish_trust(pki);
    api.use_front_proxy(pki);
    api.metrics().certificates().set_own(pki);
    Ok(())
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => bail!(
            "port {} on {} is in use: stop the process that listens on it, or choose another --port (0 chooses a free port)",
            address.port(),
            address.ip()
        ),
        Err(error) if error.kind() == std::io::ErrorKind::AddrNotAvailable => {
            bail!("{} is not an address of this machine: choose another --listen address", address.ip())
        }
        Err(error) => {
            Err(error).with_context(|| format!("cannot listen on {address}: choose another --port"))
        }
    }
}

/// Prints that the server is ready, once its readiness check succeeds.
#[expect(clippy::disallowed_methods, reason = "the readiness check is polled in real time")]
async fn announce_ready(
    service: Arc<dyn Service>,
    url: String,
    started_at: Time,
    component_logs: ComponentLogs,
) {
    loop {
        let request = Request {
            method: "GET".parse().expect("GET is a method"),
            path: "/readyz".to_owned(),
            query: String::new(),
            headers: Default::default(),
            body: Default::default(),
            identity: Identity::new(
                "system:apiserver",
                vec!["system:masters".to_owned(), "system:authenticated".to_owned()],
            ),
            impersonator: None,
            impersonation_constraint: "",
            annotations: Default::default(),
        };
        if service.answer(request).await.status.is_success() {
            break;
        }
        tokio::time::sleep(READY_POLL_INTERVAL).await;
    }
    let milliseconds = SystemClock.now().since(started_at).as_millis();
    let line = format!("ready after {milliseconds} ms: {url}");
    component_logs.log("kube-apiserver", &line);
    print_line(format_args!("{line}"));
}

/// Renews the certificates of a running server and replaces them wherever they are used.
struct CertificateRenewer {
    paths: Paths,
    names: Vec<String>,
    url: String,
    tls: Arc<Tls>,
    api: Arc<Api>,
    queries: Arc<QueryHandler>,
}

impl CertificateRenewer {
    /// Renews the certificates whenever they are due.
    #[expect(clippy::disallowed_methods, reason = "certificates are renewed in real time")]
    async fn run(self, pki: Pki) {
        renewal::renew_when_due(&SystemClock, pki, tokio::time::sleep, || self.renew()).await;
    }

    fn renew(&self) -> anyhow::Result<Pki> {
        let pki = self.paths.pki(&self.names)?;
        self.tls.replace(&pki)?;
        publish(&pki, &self.api, &self.queries)?;
        kubeconfig::write(&self.paths.kubeconfig, &kubeconfig::text(&self.url, &pki))?;
        Ok(pki)
    }
}
