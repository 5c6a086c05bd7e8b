//! Remote loop over real sockets, against a server that sometimes does not respond.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "harness/test_server.rs"]
mod harness;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use harness::{MAPS, SystemClock};
use http::Method;
use setpoint_api::{Clock, Key, Time, Value, json, value};
use setpoint_pki::certs::Pki;
use setpoint_reconcile::{Engine, Plan, Planner, Query, Seed, Seen, Watch, WorldReader, Write};
use setpoint_runtime::client::Client;
use setpoint_runtime::remote::{REQUEST_TIMEOUT, Remote};
use setpoint_server::api::{Api, service};
use setpoint_server::authentication::Authentication;
use setpoint_server::exchange::{Credentials, Request, Response, Service};
use setpoint_server::http::{Bounds, Counters, ServeOptions, ThreadCounts, Threads, Tls, serve};
use setpoint_server::kubeconfig;
use setpoint_store::{Retention, Store};
use tokio::net::TcpListener;

/// API server that never responds to the first creates of `first`.
struct HangingServer {
    api: Api,
    left: AtomicUsize,
}

impl Service for HangingServer {
    fn authenticate<'a>(&'a self, credentials: &Credentials<'_>) -> Authentication<'a> {
        self.api.authenticate(credentials)
    }

    fn answer(&self, request: Request) -> Pin<Box<dyn Future<Output = Response> + Send + '_>> {
        let hangs = request.method == Method::POST && request.body.windows(5).any(|word| word == b"first");
        let take = |left: usize| left.checked_sub(1);
        if hangs && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
            return Box::pin(std::future::pending());
        }
        self.api.answer(request)
    }
}

/// Starts a server. Returns its kubeconfig.
async fn start(hanging: usize) -> String {
    let store = Store::in_memory(Retention::default());
    let options = harness::options(Arc::new(SystemClock));
    let api = tokio::task::spawn_blocking(move || service(store, options).unwrap()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let pki = Pki::ephemeral(&["127.0.0.1".to_owned()], SystemClock.now(), 7).unwrap();
    let tls = Arc::new(Tls::new(&pki).unwrap());
    let threads = Threads::start(ThreadCounts { reactors: 1, workers: 1, on_worker_start: || () }).unwrap();
    let sockets = ServeOptions {
        threads,
        bounds: Bounds::default(),
        entropy: 9,
        drain: Duration::from_secs(1),
        counters: Arc::new(Counters::default()),
    };
    let server = Arc::new(HangingServer { api, left: AtomicUsize::new(hanging) });
    tokio::spawn(serve(listener, tls, server, sockets, std::future::pending()));
    kubeconfig::text(&url, &pki)
}

fn client(kubeconfig: &str) -> Arc<Client> {
    Arc::new(Client::from_kubeconfig(kubeconfig.as_bytes(), "test").unwrap())
}

/// Runs a planner over HTTP until the test ends.
fn run(kubeconfig: &str, timeout: Duration, engine: fn() -> Engine) {
    let remote = Remote {
        watches: client(kubeconfig),
        writes: client(kubeconfig),
        lease: "test",
        identity: "test_1".to_owned(),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(|| 7),
        queries: Arc::default(),
        timing: Default::default(),
        timeout,
    };
    tokio::spawn(async move { remote.run(engine).await });
}

async fn create_config_map(client: &Client, name: &str) {
    let object = value!({"metadata": {"name": (name), "labels": {"source": "yes"}}});
    let body = json::to_vec(&object).into();
    let (status, _) = client.request(Method::POST, MAPS, Some("application/json"), body).await.unwrap();
    assert!(status.is_success());
}

/// Polls until an object exists, and returns its data.
#[expect(clippy::disallowed_methods, reason = "polls a server over real sockets")]
async fn wait_for(client: &Client, name: &str, limit: Duration) -> Value {
    let waiting = async {
        loop {
            let path = format!("{MAPS}/{name}");
            let (status, body) = client.request(Method::GET, &path, None, Bytes::new()).await.unwrap();
            if status.is_success() {
                return json::parse(&body).unwrap().get("data").cloned().unwrap_or_default();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(limit, waiting).await.unwrap_or_else(|_| panic!("{name} never came"))
}

/// Creates a copy of every ConfigMap with a label.
struct Copier;

impl Planner for Copier {
    type Memo = ();

    fn name(&self) -> &'static str {
        "copier"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::primary("configmaps")];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        let copy = format!("copy-of-{}", key.name());
        if object.meta().labels.get("source").is_some()
            && world.find("configmaps", "default", &copy).is_none()
        {
            plan.stage([
                Write::create("configmaps", "default", value!({"metadata": {"name": (copy)}})).into()
            ]);
        }
        plan
    }
}

fn copier() -> Engine {
    Engine::new(vec![Box::new(Copier)], setpoint_reconcile::WorldConfig::default())
}

#[tokio::test(flavor = "multi_thread")]
async fn write_without_response_is_retried() {
    let kubeconfig = start(2).await;
    let user = client(&kubeconfig);
    run(&kubeconfig, Duration::from_millis(200), copier);
    // The loop's requests hang, not the user's: they create the copy.
    create_config_map(&user, "source").await;
    wait_for(&user, "copy-of-source", Duration::from_secs(30)).await;
    create_first(&user).await;
    wait_for(&user, "copy-of-first", Duration::from_secs(30)).await;
}

/// Creates `first` through a path on which the server responds.
async fn create_first(client: &Client) {
    let body = value!({
        "kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "first", "labels": {"source": "yes"}},
    });
    let path = format!("{MAPS}/first?fieldManager=test&force=true");
    let kind = Some("application/apply-patch+yaml");
    let (status, _) = client.request(Method::PATCH, &path, kind, json::to_vec(&body).into()).await.unwrap();
    assert!(status.is_success(), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_write_blocks_no_other() {
    let kubeconfig = start(usize::MAX).await;
    let user = client(&kubeconfig);
    run(&kubeconfig, REQUEST_TIMEOUT, copier);
    create_first(&user).await;
    for name in ["a", "b"] {
        create_config_map(&user, name).await;
        wait_for(&user, &format!("copy-of-{name}"), Duration::from_secs(30)).await;
    }
}

/// Sends a query to every target, and writes the answers to a ConfigMap.
struct Querier;

const TARGETS: [&str; 5] = ["access", "hmac-sha256", "metrics", "policy-types", "sign"];

impl Planner for Querier {
    type Memo = ();

    fn name(&self) -> &'static str {
        "querier"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::primary("configmaps")];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, seen: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let is_done = world.find("configmaps", "default", "answers").is_some();
        if is_done || key.name() != "source" || world.get(key).is_none() {
            return plan;
        }
        let mut data = Value::map();
        for target in TARGETS {
            let answer = match seen.answers.get(target).map(|answered| &answered.answer) {
                Some(Ok(answer)) => json::to_text(answer),
                Some(Err(error)) => format!("error: {error}"),
                None => {
                    let question = value!({
                        "user": "u", "groups": ["system:masters"], "resourceAttributes": {"verb": "get"},
                        "key": "k", "text": "t", "type": "Resource", "name": "cpu", "namespace": "default",
                        "selector": "app in (a, b)", "request": (REQUEST),
                        "kinds": [{"group": "", "version": "v1", "kind": "Pod"}],
                        "validations": [{"expression": "object.nothing"}],
                    });
                    plan.queries.push(Query { target, id: target.to_owned(), question });
                    continue;
                }
            };
            data.make_map().insert(target, answer);
        }
        if plan.queries.is_empty() {
            let map = value!({"metadata": {"name": "answers"}, "data": (data)});
            plan.stage([Write::create("configmaps", "default", map).into()]);
        }
        plan
    }
}

const REQUEST: &str = include_str!("../../pki/tests/request.b64").trim_ascii();

#[tokio::test(flavor = "multi_thread")]
async fn queries_are_answered_by_the_server_or_locally() {
    let kubeconfig = start(0).await;
    let user = client(&kubeconfig);
    run(&kubeconfig, REQUEST_TIMEOUT, || {
        Engine::new(vec![Box::new(Querier)], setpoint_reconcile::WorldConfig::default())
    });
    create_config_map(&user, "source").await;
    let data = wait_for(&user, "answers", Duration::from_secs(30)).await;
    assert_eq!(data.str_at(&["access"]), r#"{"allowed":true}"#);
    assert_eq!(data.str_at(&["hmac-sha256"]), r#""5_y8FvgmrZZIXqzu_gOg2VRhbfq-H1I71ju3YhteC9U""#);
    assert_eq!(
        data.str_at(&["metrics"]),
        "error: unable to fetch metrics from resource metrics API: the server could not find the requested resource \
         (get pods.metrics.k8s.io)"
    );
    let warnings = r#"{"expressionWarnings":[{"fieldRef":"spec.validations[0].expression","warning":"#;
    assert!(data.str_at(&["policy-types"]).starts_with(warnings), "{}", data.str_at(&["policy-types"]));
    assert_eq!(data.str_at(&["sign"]), "error: this process has no key to sign certificates with");
}
