//! Soak test: hostile clients and extensions, churn and a well-behaved client on one server.
//!
//! `SETPOINT_SOAK_SECONDS` sets its length (default 20). It requires that the well-behaved client is never
//! delayed, that every request gets a response, and that memory and the data directory reach a plateau:
//! memory in the last third is that of the second third, and the directory stays within its budget although
//! several times as much is written.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "measures processes that run in real time")]

#[path = "soak/extensions.rs"]
mod extensions;
#[path = "clients/server.rs"]
#[expect(dead_code, reason = "other tests use the rest of it")]
mod server;
#[path = "../../server/tests/api/webhook_server.rs"]
#[expect(dead_code, reason = "other tests use the rest of it")]
mod webhook_server;

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use tokio::time::Instant;

use crate::extensions::Attack;
use crate::server::Server;
use crate::webhook_server::{HookReply, HookServer};

/// Maximum latency of a small GET or PATCH. In a debug build on two busy cores it is some 50 ms; a request that
/// blocks the server makes it many seconds.
const LATENCY_MAX: Duration = Duration::from_secs(4);
/// Maximum memory of the server, in KiB: about three times its plateau.
const MEMORY_KIB_MAX: u64 = 300 * 1024;
/// Maximum growth of memory from one third of the time to the next, in KiB.
const MEMORY_KIB_STEP: u64 = 48 * 1024;
/// Maximum bytes of history on disk.
const HISTORY_BYTES: u64 = 4 << 20;
/// Maximum bytes of the data directory: history, commits before the next checkpoint, an old and a new
/// checkpoint of the live objects, and the segments in use, in reserve, and being removed.
const DATA_BYTES_MAX: u64 = 96 << 20;
/// Minimum bytes that are written: several times the budget of history.
const WRITTEN_MIN: usize = 10 * HISTORY_BYTES as usize;
/// Time limit for writing them.
const WRITE_TIMEOUT: Duration = Duration::from_secs(300);
/// Bytes of each object of the churn.
const CHURN_BYTES: usize = 60_000;
/// Number of objects in the lists.
const OBJECTS: usize = 1_000;

fn seconds() -> u64 {
    std::env::var("SETPOINT_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

async fn client(server: &Server) -> Client {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(&server.kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

fn config_map(name: &str, bytes: usize) -> ConfigMap {
    serde_json::from_value(
        json!({"metadata": {"name": name, "labels": {"of": "soak"}}, "data": {"text": "x".repeat(bytes)}}),
    )
    .unwrap()
}

/// Sends a request and reads the response to its end. Returns the status code.
async fn send(client: &Client, method: &str, path: &str, accept: &str, content: &str, body: Vec<u8>) -> u16 {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("accept", accept)
        .header("accept-encoding", "gzip")
        .header("content-type", content)
        .body(kube::client::Body::from(body))
        .unwrap();
    let response = client.send(request).await.unwrap();
    let code = response.status().as_u16();
    let mut body = response.into_body();
    while let Some(frame) =
        std::future::poll_fn(|context| http_body::Body::poll_frame(std::pin::Pin::new(&mut body), context))
            .await
    {
        frame.unwrap();
    }
    code
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Sends costly requests, one after the other until the end. Each must get a response that is not a server
/// error.
async fn attack(client: Client, number: usize, running: Arc<AtomicBool>, sent: Arc<AtomicUsize>) {
    let json = "application/json";
    let moves: Vec<_> = (0..2_000)
        .map(|_| json!({"op": "move", "from": "/metadata/finalizers/0", "path": "/metadata/finalizers/-"}))
        .collect();
    let moves = serde_json::to_vec(&moves).unwrap();
    let ports: Vec<_> = (0..200)
        .map(|n| json!({"name": format!("c{n}"), "image": "a", "ports": [{"containerPort": 80}]}))
        .collect();
    let pod = json!({"metadata": {"generateName": "p-"}, "spec": {"containers": ports}});
    let pod = serde_json::to_vec(&pod).unwrap();
    let terms: Vec<String> = (0..2_000).map(|n| format!("l{n}!=v")).collect();
    let selected = format!("{MAPS}?labelSelector={}", terms.join(","));
    let pods = "/api/v1/namespaces/default/pods?dryRun=All";
    let big = format!("{MAPS}/big");
    let attacks: [(&str, &str, &str, &str, &[u8]); 6] = [
        ("GET", MAPS, "application/json;as=Table;v=v1;g=meta.k8s.io", json, b""),
        ("GET", MAPS, "application/yaml", json, b""),
        ("GET", MAPS, json, json, b""),
        ("PATCH", &big, json, "application/json-patch+json", &moves),
        ("POST", pods, json, json, &pod),
        ("GET", &selected, json, json, b""),
    ];
    let (method, path, accept, content, body) = attacks[number % attacks.len()];
    while running.load(Ordering::Relaxed) {
        let code = send(&client, method, path, accept, content, body.to_vec()).await;
        assert!(code < 500, "{method} {path} as {accept}: {code}");
        sent.fetch_add(1, Ordering::Relaxed);
    }
}

/// Repeats an attack by extensions until the end. Each request must get one of the expected responses.
async fn attack_by_extensions(
    client: Client,
    attack: Attack,
    running: Arc<AtomicBool>,
    sent: Arc<AtomicUsize>,
) {
    let Attack { method, path, content_type, body, codes } = attack;
    while running.load(Ordering::Relaxed) {
        let round = sent.fetch_add(1, Ordering::Relaxed);
        let body = match method {
            "PATCH" => String::from_utf8(body.clone()).unwrap().replace("ROUND", &round.to_string()).into(),
            _ => body.clone(),
        };
        let code = send(&client, method, &path, "application/json", content_type, body).await;
        assert!(codes.contains(&code), "{method} {path}: {code}");
    }
}

/// Opens many connections that never send anything.
fn flood(address: SocketAddr, running: &AtomicBool) {
    let mut silent = std::collections::VecDeque::new();
    while running.load(Ordering::Relaxed) {
        // The server may refuse a connection, but must not fail.
        silent.extend(TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok());
        if silent.len() > 500 {
            silent.pop_front();
        }
    }
}

/// Creates, updates and deletes objects, and scales a Deployment up and down.
async fn churn(client: Client, running: Arc<AtomicBool>, written: Arc<AtomicUsize>) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let deployments: Api<Deployment> = Api::default_namespaced(client);
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "churn"},
        "spec": {
            "selector": {"matchLabels": {"app": "churn"}},
            "template": {
                "metadata": {"labels": {"app": "churn"}},
                "spec": {"containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    });
    let apply = PatchParams::apply("soak").force();
    for round in 0_usize.. {
        if !running.load(Ordering::Relaxed) {
            return;
        }
        let name = format!("churn-{}", round % 10);
        let _ = maps.delete(&name, &DeleteParams::default()).await;
        maps.create(&PostParams::default(), &config_map(&name, CHURN_BYTES)).await.unwrap();
        written.fetch_add(CHURN_BYTES, Ordering::Relaxed);
        if round.is_multiple_of(20) {
            let mut deployment = deployment.clone();
            deployment["spec"]["replicas"] = (round / 20 % 10).into();
            deployments.patch("churn", &apply, &Patch::Apply(&deployment)).await.unwrap();
        }
    }
}

/// Gets and patches a small object until the end, without waiting for the disk. Returns the latencies of each, sorted.
async fn measure_latency(client: Client, running: Arc<AtomicBool>) -> [Vec<Duration>; 2] {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let (mut gets, mut patches) = (Vec::new(), Vec::new());
    let patch = Patch::Merge(json!({"data": {"text": "patched"}}));
    while running.load(Ordering::Relaxed) {
        let start = Instant::now();
        maps.get("small").await.unwrap();
        gets.push(start.elapsed());
        tokio::time::sleep(Duration::from_millis(2)).await;
        if gets.len().is_multiple_of(4) {
            let start = Instant::now();
            maps.patch("small", &PatchParams::default().dry_run(), &patch).await.unwrap();
            patches.push(start.elapsed());
        }
    }
    gets.sort();
    patches.sort();
    [gets, patches]
}

/// Checks latencies. Returns the median, the 99th percentile and the maximum.
fn check_latencies(elapsed: &[Duration], request: &str) -> String {
    let at = |part: usize| elapsed[(elapsed.len() - 1) * part / 1000];
    assert!(at(1000) < LATENCY_MAX, "a small {request} waited for {:?}", at(1000));
    let (count, median, p99, longest) = (elapsed.len(), at(500), at(990), at(1000));
    format!("{count} small {request}s: median {median:?}, p99 {p99:?}, longest {longest:?}")
}

/// Resident memory of a process in KiB.
fn memory(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn bytes_of(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_of(&entry.path()),
            // A file may be removed between listing and reading.
            found => found.map_or(0, |metadata| metadata.len()),
        })
        .sum()
}

async fn prepare(client: &Client) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let create = |map: ConfigMap| {
        let maps = maps.clone();
        async move { maps.create(&PostParams::default(), &map).await.unwrap() }
    };
    create(config_map("small", 10)).await;
    let finalizers: Vec<String> = (0..2_000).map(|n| format!("soak.example/{n}")).collect();
    let mut big = config_map("big", 100);
    big.metadata.finalizers = Some(finalizers);
    create(big).await;
    for number in 0..OBJECTS {
        create(config_map(&format!("object-{number}"), 1_000)).await;
    }
}

#[test]
fn hostile_clients_delay_no_others_and_memory_is_bounded() {
    let server =
        Server::start_with(&["--nodes=2", "--pod-start=0", &format!("--history-bytes={HISTORY_BYTES}")]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let running = Arc::new(AtomicBool::new(true));
    let (sent, written) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let client = runtime.block_on(client(&server));
    runtime.block_on(prepare(&client));
    let url = std::fs::read_to_string(&server.kubeconfig).unwrap();
    let address = url.lines().find_map(|line| line.trim().strip_prefix("server: https://")).unwrap();
    let address: SocketAddr = address.trim().parse().unwrap();
    let flooded = Arc::clone(&running);
    let flooding = std::thread::spawn(move || flood(address, &flooded));
    let hook = HookServer::start(|_| HookReply::Hang);
    runtime.block_on(extensions::prepare(&client, &hook));
    let ([gets, patches], samples) = runtime.block_on(async {
        let mut attacks: Vec<_> = (0..12)
            .map(|n| tokio::spawn(attack(client.clone(), n, Arc::clone(&running), Arc::clone(&sent))))
            .collect();
        attacks.extend(extensions::attacks().into_iter().map(|attack| {
            let (running, sent) = (Arc::clone(&running), Arc::clone(&sent));
            tokio::spawn(attack_by_extensions(client.clone(), attack, running, sent))
        }));
        let churning = tokio::spawn(churn(client.clone(), Arc::clone(&running), Arc::clone(&written)));
        let latencies = tokio::spawn(measure_latency(self::client(&server).await, Arc::clone(&running)));
        let mut samples = Vec::new();
        let start = Instant::now();
        // A slow machine continues until enough has been written to distinguish a plateau from a slope.
        while start.elapsed() < Duration::from_secs(seconds())
            || (written.load(Ordering::Relaxed) < WRITTEN_MIN && start.elapsed() < WRITE_TIMEOUT)
        {
            tokio::time::sleep(Duration::from_millis(250)).await;
            samples.push((memory(server.pid()), bytes_of(server.dir())));
        }
        running.store(false, Ordering::Relaxed);
        for one in attacks {
            one.await.unwrap();
        }
        churning.await.unwrap();
        (latencies.await.unwrap(), samples)
    });
    flooding.join().unwrap();
    let latencies = [check_latencies(&gets, "GET"), check_latencies(&patches, "PATCH")].join("; ");
    let (sent, written) = (sent.load(Ordering::Relaxed), written.load(Ordering::Relaxed) as u64);
    let thirds = samples.chunks(samples.len().div_ceil(3));
    let peaks: Vec<u64> =
        thirds.map(|third| third.iter().map(|(memory, _)| *memory).max().unwrap()).collect();
    let data = samples.iter().map(|(_, data)| *data).max().unwrap();
    println!(
        "{latencies}; {sent} costly requests; memory by thirds {peaks:?} KiB; \
         data at most {} MiB, written {} MiB",
        data >> 20,
        written >> 20
    );
    assert!(peaks[2] < MEMORY_KIB_MAX && peaks[2] < peaks[1] + MEMORY_KIB_STEP, "{peaks:?} KiB");
    assert!(data < DATA_BYTES_MAX, "{data} bytes");
    assert!(written >= WRITTEN_MIN as u64, "the churn wrote only {written} bytes");
}
