//! Quotas under concurrent writes: clients through the API, and the loop.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use setpoint_api::{Key, ManualClock, Resource, Time, json, value};
use setpoint_reconcile::{Action, Engine, Plan, Planner, Seed, Seen, Watch, WorldReader, Write};
use setpoint_runtime::in_process::Shell;
use setpoint_server::exchange::Service;
use setpoint_server::loop_writes::InFlightWrites;
use setpoint_store::{Retention, Store, WatchFilter};

use crate::harness::{MAPS, PODS, TestServer, content_type, entropy, request};

const QUOTA: &str = "/api/v1/namespaces/default/resourcequotas";

/// Creates an enforced quota over ConfigMaps.
fn limit(server: &TestServer, hard: usize) {
    let body = format!(r#"{{"metadata":{{"name":"q"}},"spec":{{"hard":{{"count/configmaps":"{hard}"}}}}}}"#);
    let (code, _) = server.call("POST", QUOTA, &body);
    assert_eq!(code, 201);
    let status = format!(
        r#"{{"status":{{"hard":{{"count/configmaps":"{hard}"}},"used":{{"count/configmaps":"0"}}}}}}"#
    );
    let (code, quota) = server.call("PATCH", &format!("{QUOTA}/q/status"), &status);
    assert_eq!(code, 200, "{}", json::to_text(&quota));
}

fn used(server: &TestServer) -> String {
    let (_, quota) = server.call("GET", &format!("{QUOTA}/q"), "");
    quota.str_at(&["status", "used", "count/configmaps"]).to_owned()
}

/// Sends a request from a thread of its own.
fn send(server: &TestServer, method: &str, path: &str, body: &str) -> u16 {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let request = request(method, path, body, &[content_type(method)]);
    runtime.block_on(server.api.answer(request)).status.as_u16()
}

#[test]
fn concurrent_clients_use_up_a_quota_without_conflicts() {
    const HARD: usize = 50;
    let server = TestServer::new();
    limit(&server, HARD);
    let (made, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let (server, made, refused) = (&server, &made, &refused);
        for thread in 0..8 {
            scope.spawn(move || {
                for n in 0..10 {
                    let body = format!(r#"{{"metadata":{{"name":"m-{thread}-{n}"}}}}"#);
                    match send(server, "POST", MAPS, &body) {
                        201 => made.fetch_add(1, Ordering::Relaxed),
                        403 => refused.fetch_add(1, Ordering::Relaxed),
                        other => panic!("{other}"),
                    };
                }
            });
        }
        // A concurrent update of the quota itself succeeds too.
        scope.spawn(move || {
            for n in 0..20 {
                let body = format!(r#"{{"metadata":{{"labels":{{"n":"{n}"}}}}}}"#);
                assert_eq!(send(server, "PATCH", &format!("{QUOTA}/q"), &body), 200);
            }
        });
    });
    assert_eq!((made.into_inner(), refused.into_inner()), (HARD, 30));
    assert_eq!(used(&server), HARD.to_string());
    let (code, error) = server.call("POST", MAPS, r#"{"metadata":{"name":"more"}}"#);
    assert_eq!((code, error.str_at(&["reason"])), (403, "Forbidden"));
    assert_eq!(
        error.str_at(&["message"]),
        "configmaps \"more\" is forbidden: exceeded quota: q, requested: count/configmaps=1, \
         used: count/configmaps=50, limited: count/configmaps=50"
    );
}

#[test]
fn sixty_four_concurrent_writers_never_exceed_a_quota() {
    const WRITERS: usize = 64;
    const HARD: usize = 40;
    const CPU: usize = 25;
    let server = TestServer::new();
    let hard = format!(r#"{{"pods":"{HARD}","requests.cpu":"{CPU}","count/configmaps":"{HARD}"}}"#);
    let body = format!(r#"{{"metadata":{{"name":"q"}},"spec":{{"hard":{hard}}}}}"#);
    assert_eq!(server.call("POST", QUOTA, &body).0, 201);
    let used = r#"{"pods":"0","requests.cpu":"0","count/configmaps":"0"}"#;
    let status = format!(r#"{{"status":{{"hard":{hard},"used":{used}}}}}"#);
    assert_eq!(server.call("PATCH", &format!("{QUOTA}/q/status"), &status).0, 200);
    let (pods, maps) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let (server, pods, maps) = (&server, &pods, &maps);
        for writer in 0..WRITERS {
            scope.spawn(move || {
                let pod = format!(
                    r#"{{"metadata":{{"name":"p-{writer}"}},"spec":{{"containers":[{{"name":"c","image":"i",
                    "resources":{{"requests":{{"cpu":"1"}}}}}}]}}}}"#
                );
                let map = format!(r#"{{"metadata":{{"name":"m-{writer}"}}}}"#);
                for (path, body, made) in [(PODS, &pod, pods), (MAPS, &map, maps)] {
                    match send(server, "POST", path, body) {
                        201 => made.fetch_add(1, Ordering::Relaxed),
                        403 => 0,
                        other => panic!("{other}"),
                    };
                }
            });
        }
    });
    assert_eq!((pods.into_inner(), maps.into_inner()), (CPU, HARD), "the least limit counts");
    let (_, quota) = server.call("GET", &format!("{QUOTA}/q"), "");
    let used = |name: &str| quota.str_at(&["status", "used", name]).to_owned();
    assert_eq!((used("pods"), used("requests.cpu")), (CPU.to_string(), CPU.to_string()));
    assert_eq!(used("count/configmaps"), HARD.to_string());
    let (_, list) = server.call("GET", PODS, "");
    assert_eq!(list.get("items").and_then(setpoint_api::Value::as_list).unwrap().len(), CPU);
}

/// Creates `count` enforced quotas over ConfigMaps.
fn limit_by_many(server: &TestServer, count: usize) {
    for n in 0..count {
        let body =
            format!(r#"{{"metadata":{{"name":"q-{n:04}"}},"spec":{{"hard":{{"count/configmaps":"5"}}}}}}"#);
        assert_eq!(server.call("POST", QUOTA, &body).0, 201);
        let status = r#"{"status":{"hard":{"count/configmaps":"5"},"used":{"count/configmaps":"0"}}}"#;
        assert_eq!(server.call("PATCH", &format!("{QUOTA}/q-{n:04}/status"), status).0, 200);
    }
}

#[test]
fn object_is_charged_to_each_of_two_hundred_quotas() {
    let server = TestServer::new();
    limit_by_many(&server, 200);
    for n in 0..5 {
        let (code, answer) = server.call("POST", MAPS, &format!(r#"{{"metadata":{{"name":"m-{n}"}}}}"#));
        assert_eq!(code, 201, "{}", json::to_text(&answer));
    }
    let (code, error) = server.call("POST", MAPS, r#"{"metadata":{"name":"more"}}"#);
    assert_eq!(code, 403);
    assert!(error.str_at(&["message"]).contains("exceeded quota: q-0000, "));
    let (_, quotas) = server.call("GET", QUOTA, "");
    let quotas = quotas.get("items").and_then(setpoint_api::Value::as_list).unwrap();
    assert!(quotas.iter().all(|quota| quota.str_at(&["status", "used", "count/configmaps"]) == "5"));
}

#[test]
fn object_in_too_many_quotas_is_rejected() {
    let server = TestServer::new();
    limit_by_many(&server, 1024);
    let (code, error) = server.call("POST", MAPS, r#"{"metadata":{"name":"m"}}"#);
    assert_eq!((code, error.str_at(&["reason"])), (403, "Forbidden"), "{}", json::to_text(&error));
    assert_eq!(
        error.str_at(&["message"]),
        "configmaps \"m\" is forbidden: 1024 quotas of its namespace count it, at most 1023 are supported: \
         remove some of them"
    );
    assert_eq!(server.call("DELETE", &format!("{QUOTA}/q-0007"), "").0, 200);
    assert_eq!(server.call("POST", MAPS, r#"{"metadata":{"name":"m"}}"#).0, 201);
}

/// ConfigMaps that the loop creates.
const WANTED: usize = 60;

/// Creates ConfigMaps until there are enough.
struct Maker;

impl Planner for Maker {
    type Memo = ();

    fn name(&self) -> &'static str {
        "maker"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [Watch::primary("namespaces"), Watch::mapped("configmaps", |_, _, _| ())];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let name = |n: usize| format!("own-{n}");
        let maps = Resource::new("configmaps").unwrap();
        let missing = (0..WANTED)
            .filter(|n| world.get(&Key::namespaced(&maps, "default", &name(*n)).unwrap()).is_none())
            .map(|n| {
                Action::from(Write::create(
                    "configmaps",
                    "default",
                    value!({"metadata": {"name": (name(n))}}),
                ))
            });
        if key.name() == "default" {
            plan.stage(missing);
        }
        plan
    }
}

#[test]
fn loop_creating_many_objects_sees_no_conflict() {
    const RIVALS: usize = 20;
    let store = Store::in_memory(Retention::default());
    let server = TestServer::over(store.clone());
    limit(&server, WANTED + RIVALS);
    let maps = Resource::new("configmaps").unwrap();
    let (before, mut watch) = store.list_and_watch(&maps, WatchFilter::default());
    let before = before.table(&maps).map_or(0, setpoint_store::Table::len);
    let engine = Engine::new(vec![Box::new(Maker)], setpoint_reconcile::WorldConfig::default());
    let shell = {
        let clock = Arc::new(ManualClock::with_tick(Time::EPOCH, Duration::from_micros(50)));
        let entropy = entropy();
        let executor =
            InFlightWrites::new(store.clone(), clock.clone(), Arc::clone(&entropy), Default::default());
        Shell::start(store.clone(), engine, clock, entropy, Arc::default(), Box::new(executor)).unwrap()
    };
    std::thread::scope(|scope| {
        let server = &server;
        scope.spawn(move || {
            for n in 0..RIVALS {
                let body = format!(r#"{{"metadata":{{"name":"rival-{n}"}}}}"#);
                assert_eq!(send(server, "POST", MAPS, &body), 201);
            }
        });
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        for n in 0..WANTED + RIVALS {
            let next = poll_fn(|context| watch.poll_next(context));
            let next = tokio::time::timeout(Duration::from_secs(60), next).await;
            next.unwrap_or_else(|_| panic!("only {n} were made")).unwrap();
        }
    });
    let engine = Arc::clone(shell.engine());
    drop(shell);
    let engine = engine.lock();
    let (_, _, stats) = engine.stats().next().unwrap();
    assert_eq!((stats.conflicts, stats.failures), (0, 0));
    let snapshot = store.snapshot();
    assert_eq!(snapshot.table(&maps).unwrap().len(), before + WANTED + RIVALS);
    assert_eq!(used(&server), (WANTED + RIVALS).to_string());
}

/// Creates an enforced quota with a further field of its `spec`.
fn limit_scoped(server: &TestServer, name: &str, resource: &str, hard: usize, more: &str) {
    let hard = format!(r#""hard":{{"{resource}":"{hard}"}}"#);
    server.create(QUOTA, &format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{{hard}{more}}}}}"#));
    let status = format!(r#"{{"status":{{{hard},"used":{{"{resource}":"0"}}}}}}"#);
    let (code, quota) = server.call("PATCH", &format!("{QUOTA}/{name}/status"), &status);
    assert_eq!(code, 200, "{}", json::to_text(&quota));
}

#[test]
fn create_of_a_custom_kind_over_its_quota_is_rejected() {
    let server = TestServer::defined();
    limit_scoped(&server, "q", "count/widgets.example.com", 2, "");
    let widget = |name: &str| {
        let body = format!(
            r#"{{"kind":"Widget","apiVersion":"example.com/v1","metadata":{{"name":"{name}"}},"spec":{{"size":3}}}}"#
        );
        server.call("POST", "/apis/example.com/v1/namespaces/default/widgets", &body)
    };
    assert_eq!([widget("a").0, widget("b").0], [201, 201]);
    let (code, refused) = widget("c");
    assert_eq!(code, 403);
    assert_eq!(
        refused.str_at(&["message"]),
        "widgets.example.com \"c\" is forbidden: exceeded quota: q, requested: count/widgets.example.com=1, \
         used: count/widgets.example.com=2, limited: count/widgets.example.com=2"
    );
}

#[test]
fn quota_of_a_priority_class_counts_only_its_pods() {
    let server = TestServer::new();
    for (name, value) in [("high", 1000), ("low", 1)] {
        let class = format!(r#"{{"metadata":{{"name":"{name}"}},"value":{value}}}"#);
        server.create("/apis/scheduling.k8s.io/v1/priorityclasses", &class);
    }
    let scope = r#","scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"In","values":["high"]}]}"#;
    limit_scoped(&server, "q", "pods", 1, scope);
    let pod = |name: &str, class: &str| {
        let body = format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"priorityClassName":"{class}","containers":[{{"name":"c","image":"i"}}]}}}}"#
        );
        server.call("POST", PODS, &body)
    };
    assert_eq!([pod("a", "high").0, pod("b", "low").0, pod("c", "low").0], [201, 201, 201]);
    let (code, refused) = pod("d", "high");
    assert_eq!(code, 403);
    let why = "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1";
    assert!(refused.str_at(&["message"]).ends_with(why), "{}", json::to_text(&refused));
    let quota = server.object(&format!("{QUOTA}/q"));
    assert_eq!(quota.str_at(&["status", "used", "pods"]), "1");
}
