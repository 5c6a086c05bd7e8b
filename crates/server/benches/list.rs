//! Cost of a long list against its budget: `cargo bench -p setpoint-server`.
//!
//! Two threads send the same bytes to the same client: one is the server with 5,000 ConfigMaps, the other only
//! encrypts a prepared copy. The measure is the CPU time of their threads, as the kernel reports it.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

#[path = "../tests/harness/test_server.rs"]
mod harness;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use harness::{MAPS, SystemClock, request};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConnection, StreamOwned};
use setpoint_api::Clock;
use setpoint_pki::certs::Pki;
use setpoint_server::api::{self, Api};
use setpoint_server::exchange::Service;
use setpoint_server::http::{Bounds, Counters, ServeOptions, ThreadCounts, Threads, Tls, serve};
use setpoint_store::{Retention, Store};

const OBJECTS: usize = 5000;
const ROUNDS: u32 = 30;
const BUDGET: f64 = 1.5;
/// Bytes that a bare copy hands to the TLS library at a time: the size of its buffer.
const COPY_BYTES: usize = 64 * 1024;

/// A server: its address, and the names of its threads.
struct Serving {
    address: SocketAddr,
    threads: Vec<String>,
}

impl Serving {
    fn cpu(&self) -> Duration {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        let own =
            tasks.filter(|task| self.threads.iter().any(|name| read(task.join("comm")).starts_with(name)));
        let nanos = own.map(|task| {
            let text = read(task.join("schedstat"));
            text.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
        });
        Duration::from_nanos(nanos.sum())
    }
}

fn main() {
    let pki = Pki::ephemeral(&["127.0.0.1".to_owned()], SystemClock.now(), 7).unwrap();
    let server = start_server(&pki);
    for query in ["", "?limit=500"] {
        let request = format!("GET {MAPS}{query} HTTP/1.1\r\nhost: bench\r\n\r\n");
        let mut client = connect(&pki, server.address);
        let whole = exchange(&mut client, &request, None);
        let copy = start_copy(&pki, whole.clone());
        let mut other = connect(&pki, copy.address);
        exchange(&mut other, &request, Some(whole.len()));
        let before = (server.cpu(), copy.cpu());
        for _ in 0..ROUNDS {
            exchange(&mut client, &request, Some(whole.len()));
            exchange(&mut other, &request, Some(whole.len()));
        }
        let micros = |spent: Duration| spent.as_secs_f64() * 1e6 / f64::from(ROUNDS);
        let (served, copied) = (micros(server.cpu() - before.0), micros(copy.cpu() - before.1));
        let (bytes, ratio) = (whole.len(), served / copied);
        println!(
            "list{query}: {bytes} bytes, {served:.0} us; bare copy {copied:.0} us; {ratio:.2} times, budget: {BUDGET}"
        );
    }
}

/// Starts the server with its objects in a thread of its own.
fn start_server(pki: &Pki) -> Serving {
    let (ready, serving) = mpsc::channel();
    let tls = Arc::new(Tls::new(pki).unwrap());
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let options = harness::options(Arc::new(SystemClock));
            let api = api::service(Store::in_memory(Retention::default()), options).unwrap();
            for at in 0..OBJECTS {
                create(&api, at).await;
            }
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            ready
                .send(Serving {
                    address: listener.local_addr().unwrap(),
                    threads: vec!["reactor".into(), "worker".into()],
                })
                .unwrap();
            let (bounds, counters) = (Bounds::default(), Arc::new(Counters::default()));
            let counts = ThreadCounts { reactors: 1, workers: 1, on_worker_start: || () };
            let threads = Threads::start(counts).unwrap();
            let options = ServeOptions { bounds, threads, entropy: 9, drain: Duration::ZERO, counters };
            serve(listener, tls, Arc::new(api), options, std::future::pending()).await;
        });
    });
    serving.recv().unwrap()
}

async fn create(api: &Api, at: usize) {
    let payload = "x".repeat(1024);
    let body = format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"a-{at}","labels":{{"app":"bench"}}}},"data":{{"payload":"{payload}"}}}}"#
    );
    assert_eq!(api.answer(request("POST", MAPS, body, &[])).await.status.as_u16(), 201);
}

/// Starts a thread that responds to every request with `bytes`.
fn start_copy(pki: &Pki, bytes: Vec<u8>) -> Serving {
    let (ready, serving) = mpsc::channel();
    let config = Tls::new(pki).unwrap().config();
    let name = format!("copy-{}", bytes.len());
    let copying = std::thread::Builder::new().name(name.clone()).spawn(move || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        ready.send(Serving { address: listener.local_addr().unwrap(), threads: vec![name] }).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
        let mut request = [0; 4096];
        while stream.read(&mut request).is_ok_and(|read| read > 0) {
            bytes.chunks(COPY_BYTES).for_each(|chunk| stream.write_all(chunk).unwrap());
        }
    });
    copying.unwrap();
    serving.recv().unwrap()
}

type Client = StreamOwned<ClientConnection, TcpStream>;

fn connect(pki: &Pki, address: SocketAddr) -> Client {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pki.ca.certificate.as_bytes()).unwrap()).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(pki.admin.certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(pki.admin.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .unwrap();
    let name = ServerName::IpAddress(address.ip().into());
    let session = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(session, TcpStream::connect(address).unwrap())
}

/// Sends a request, and reads the whole response: of the known length, or of the length in its head.
fn exchange(client: &mut Client, request: &str, length: Option<usize>) -> Vec<u8> {
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::with_capacity(length.unwrap_or(0));
    let mut buffer = vec![0; 256 * 1024];
    let mut wanted = length;
    while wanted.is_none_or(|wanted| answer.len() < wanted) {
        let read = client.read(&mut buffer).unwrap();
        assert!(read > 0, "the answer ended early");
        answer.extend_from_slice(&buffer[..read]);
        if wanted.is_none() {
            wanted = whole_length(&answer);
        }
    }
    answer
}

/// Length of a response with its head, once the head has arrived.
fn whole_length(answer: &[u8]) -> Option<usize> {
    let head = answer.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&answer[..head]).unwrap();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    Some(head + length.trim().parse::<usize>().unwrap())
}
