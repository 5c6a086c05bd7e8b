//! The same load on etcd: 64 clients, each with its own connection and one put in flight.
//!
//! gRPC over h2 with a hand-written encoding of `PutRequest { key = 1, value = 2 }`.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::net::TcpStream;

use crate::meter::{Spent, measure_process};
use crate::write::{KEYS, VALUE_BYTES, WRITERS, directory};

const PUTS: u64 = 60_000;

/// Returns the time that etcd spends on the puts and their number; `None` if etcd is not installed.
pub fn sixty_four_writers() -> Option<(Spent, u64)> {
    let dir = directory("etcd");
    let (client, peer) = (free_port(), free_port());
    let mut child = start(&dir, client, peer)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ready = runtime.block_on(until_ready(client));
    let spent = ready.then(|| {
        measure_process(child.id(), || {
            runtime.block_on(async {
                let local = tokio::task::LocalSet::new();
                for writer in 0..WRITERS {
                    local.spawn_local(put_in_turn(client, writer));
                }
                local.await;
            });
        })
        .1
    });
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    spent.map(|spent| (spent, PUTS / WRITERS * WRITERS))
}

fn start(dir: &std::path::Path, client: u16, peer: u16) -> Option<Child> {
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    Command::new("etcd")
        .args(["--name", "bench", "--logger", "zap", "--log-level", "error"])
        .args(["--listen-client-urls", &url(client), "--advertise-client-urls", &url(client)])
        .args(["--listen-peer-urls", &url(peer), "--initial-advertise-peer-urls", &url(peer)])
        .args(["--initial-cluster", &format!("bench={}", url(peer))])
        .arg("--data-dir")
        .arg(dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Retries a first put until it succeeds.
#[expect(clippy::disallowed_methods, reason = "polls a process that starts")]
async fn until_ready(port: u16) -> bool {
    for _ in 0..200 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        if let Some(mut connection) = connect(port).await
            && put(&mut connection, port, b"ready", b"x").await.is_some()
        {
            return true;
        }
    }
    false
}

async fn put_in_turn(port: u16, writer: u64) {
    let mut connection = connect(port).await.unwrap();
    let value = vec![b'v'; VALUE_BYTES];
    for n in 0..PUTS / WRITERS {
        let key = format!("/registry/pods/w{writer}/k{}", n % KEYS);
        put(&mut connection, port, key.as_bytes(), &value).await.unwrap();
    }
}

async fn connect(port: u16) -> Option<SendRequest<Bytes>> {
    let tcp = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    tcp.set_nodelay(true).ok()?;
    let (sender, connection) = h2::client::handshake(tcp).await.ok()?;
    tokio::spawn(connection);
    Some(sender)
}

async fn put(sender: &mut SendRequest<Bytes>, port: u16, key: &[u8], value: &[u8]) -> Option<()> {
    let request = http::Request::post(format!("http://127.0.0.1:{port}/etcdserverpb.KV/Put"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .ok()?;
    futures_ready(sender).await?;
    let (response, mut body) = sender.send_request(request, false).ok()?;
    body.send_data(message(key, value), true).ok()?;
    let mut answer = response.await.ok()?.into_body();
    while let Some(chunk) = answer.data().await {
        let chunk = chunk.ok()?;
        answer.flow_control().release_capacity(chunk.len()).ok()?;
    }
    let trailers = answer.trailers().await.ok()??;
    (trailers.get("grpc-status")?.as_bytes() == b"0").then_some(())
}

async fn futures_ready(sender: &mut SendRequest<Bytes>) -> Option<()> {
    std::future::poll_fn(|context| sender.poll_ready(context)).await.ok()
}

/// Returns a gRPC frame with a `PutRequest`.
fn message(key: &[u8], value: &[u8]) -> Bytes {
    let mut body = Vec::with_capacity(key.len() + value.len() + 16);
    for (tag, field) in [(0x0a, key), (0x12, value)] {
        body.push(tag);
        setpoint_store::codec::put_bytes(&mut body, field);
    }
    let mut frame = vec![0];
    frame.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(&body);
    frame.into()
}
