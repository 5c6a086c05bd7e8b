//! KMS plugin for tests: speaks gRPC over a unix socket, and fails in chosen ways.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::net::UnixListener;
use tokio::runtime::Runtime;

/// Answers of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behavior {
    /// Works, with this key id.
    Working(&'static str),
    /// Each call fails.
    Failing,
    /// No call ends.
    Hanging,
    /// Its status is not `ok`.
    Unhealthy,
    /// Wraps with another key than its status has.
    OtherKey,
    /// Wraps by doing nothing.
    Plaintext,
    /// Unwraps to another seed.
    WrongSeed,
    /// Sends bytes that are no messages.
    Garbage,
}

/// A plugin that runs until it is dropped.
pub struct KmsPlugin {
    dir: tempfile::TempDir,
    state: Arc<State>,
    _runtime: Runtime,
}

struct State {
    behavior: Mutex<Behavior>,
    decrypt_calls: AtomicUsize,
}

impl KmsPlugin {
    /// Starts a plugin that works with key `1`.
    pub fn start() -> KmsPlugin {
        let dir = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap();
        let state = Arc::new(State {
            behavior: Mutex::new(Behavior::Working("1")),
            decrypt_calls: AtomicUsize::new(0),
        });
        let (listened, path) = (Arc::clone(&state), socket_in(dir.path()));
        let listener = runtime.block_on(async { UnixListener::bind(path) }).unwrap();
        runtime.spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { break };
                let state = Arc::clone(&listened);
                let service = service_fn(move |request| respond(Arc::clone(&state), request));
                let connection =
                    http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        KmsPlugin { dir, state, _runtime: runtime }
    }

    pub fn socket(&self) -> PathBuf {
        socket_in(self.dir.path())
    }

    pub fn set(&self, behavior: Behavior) {
        *self.state.behavior.lock() = behavior;
    }

    pub fn decrypt_calls(&self) -> usize {
        self.state.decrypt_calls.load(Ordering::Relaxed)
    }
}

fn socket_in(dir: &Path) -> PathBuf {
    dir.join("kms.sock")
}

async fn respond(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Frames>, Infallible> {
    let behavior = *state.behavior.lock();
    if behavior == Behavior::Hanging {
        std::future::pending::<()>().await;
    }
    if behavior == Behavior::Failing {
        return Ok(response(&[], "14", "the%20vault%20is%20sealed"));
    }
    if behavior == Behavior::Garbage {
        return Ok(response(b"\x0a\xff\xff", "0", ""));
    }
    assert_eq!(request.headers()["content-type"], "application/grpc");
    let method = request.uri().path().strip_prefix("/v2.KeyManagementService/").unwrap().to_owned();
    let body = read(request.into_body()).await;
    let message = match &*method {
        "Status" => status(behavior),
        "Encrypt" => encrypt(behavior, &field(&body[5..], 1)),
        "Decrypt" => {
            state.decrypt_calls.fetch_add(1, Ordering::Relaxed);
            decrypt(behavior, &body[5..])
        }
        other => panic!("{other}"),
    };
    Ok(response(&message, "0", ""))
}

fn status(behavior: Behavior) -> Vec<u8> {
    let healthz = if behavior == Behavior::Unhealthy { "not ok" } else { "ok" };
    let key_id = if let Behavior::Working(key_id) = behavior { key_id } else { "1" };
    [text(1, b"v2"), text(2, healthz.as_bytes()), text(3, key_id.as_bytes())].concat()
}

fn encrypt(behavior: Behavior, seed: &[u8]) -> Vec<u8> {
    let key_id = match behavior {
        Behavior::Working(key_id) => key_id,
        Behavior::OtherKey => "9",
        _ => "1",
    };
    let wrapped: Vec<u8> = match behavior {
        Behavior::Plaintext => seed.to_vec(),
        _ => seed.iter().map(|byte| byte ^ 0xa5).collect(),
    };
    let annotation = [text(1, b"vault.example.com"), text(2, b"1")].concat();
    [text(1, &wrapped), text(2, key_id.as_bytes()), text(3, &annotation)].concat()
}

fn decrypt(behavior: Behavior, request: &[u8]) -> Vec<u8> {
    assert_eq!(field(request, 4), [text(1, b"vault.example.com"), text(2, b"1")].concat());
    assert!(!field(request, 2).is_empty() && !field(request, 3).is_empty());
    let mask = if behavior == Behavior::WrongSeed { 0xa4 } else { 0xa5 };
    let seed: Vec<u8> = field(request, 1).iter().map(|byte| byte ^ mask).collect();
    text(1, &seed)
}

/// Encodes a field of less than 128 bytes.
fn text(number: u8, value: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, u8::try_from(value.len()).unwrap()];
    out.extend_from_slice(value);
    out
}

/// Returns a field of a message with fields of less than 128 bytes.
fn field(mut message: &[u8], number: u8) -> Vec<u8> {
    while let [tag, length, rest @ ..] = message {
        let (value, rest) = rest.split_at(usize::from(*length));
        if *tag == number << 3 | 2 {
            return value.to_vec();
        }
        message = rest;
    }
    Vec::new()
}

async fn read(mut body: Incoming) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(frame) =
        std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await.transpose().unwrap()
    {
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    bytes
}

fn response(message: &[u8], status: &'static str, text: &'static str) -> Response<Frames> {
    let mut body = vec![0];
    body.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    body.extend_from_slice(message);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static(status));
    trailers.insert("grpc-message", HeaderValue::from_static(text));
    let mut response = Response::new(Frames(Some(body.into()), Some(trailers)));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}

/// A message and trailers.
struct Frames(Option<Bytes>, Option<HeaderMap>);

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = self.0.take().map(Frame::data);
        Poll::Ready(data.or_else(|| self.1.take().map(Frame::trailers)).map(Ok))
    }
}
