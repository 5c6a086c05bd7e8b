//! Test harness of the API server: requests and responses over an in-memory store, without sockets.
//!
//! The clock of [`TestServer`] is manual and its entropy is a counter, so responses are the same in every run. Start
//! at [`TestServer`].

#![allow(dead_code, reason = "each test binary uses a part of the harness")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use setpoint_api::{Clock, Entropy, ManualClock, Time, Value, json};
use setpoint_server::api::{Api, Options, service};
use setpoint_server::exchange::{Credentials, Frames, Identity, Payload, Request, Response, Service};
use setpoint_server::pipeline::admission::AdmissionConfig;
use setpoint_store::{Retention, Store};
use tokio::runtime::{Builder, Runtime};

/// Time at which tests start: 2023-11-14T22:13:20Z.
pub const START: Time = Time::from_seconds(1_700_000_000);
/// Path of the ConfigMaps of a namespace that exists.
pub const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Path of the Pods of a namespace that exists.
pub const PODS: &str = "/api/v1/namespaces/default/pods";
/// User agent of requests that name no other. Its field manager is `tester`.
const USER_AGENT: &str = "tester/1";

/// Headers of a request.
pub type Headers<'a> = [(&'static str, &'a str)];

/// Clock of the system, for tests with TLS: handshakes compare certificates with it.
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "a TLS handshake reads the real clock")]
    fn now(&self) -> Time {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Time(i64::try_from(since.as_micros()).unwrap())
    }
}

/// Deterministic entropy: distinct numbers with many bits set.
pub fn entropy() -> Arc<Entropy> {
    let counter = AtomicU64::new(1);
    Arc::new(move || counter.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed))
}

/// Options of an API server on loopback.
pub fn options(clock: Arc<dyn Clock>) -> Options {
    Options {
        clock,
        entropy: entropy(),
        address: "127.0.0.1:6443".into(),
        advertised: None,
        service_ranges: Vec::new(),
        tolerations: Default::default(),
        admission: Default::default(),
    }
}

/// Returns a request of the administrator `ann`.
pub fn request(method: &str, path: &str, body: impl AsRef<[u8]>, headers: &Headers<'_>) -> Request {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut fields = HeaderMap::new();
    for (name, value) in [("user-agent", USER_AGENT)].iter().chain(headers) {
        fields.insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    Request {
        method: method.parse().unwrap(),
        path: path.into(),
        query: query.into(),
        headers: fields,
        body: Bytes::copy_from_slice(body.as_ref()),
        identity: Identity::new("ann", vec!["system:masters".into()]),
        impersonator: None,
        impersonation_constraint: "",
        annotations: Default::default(),
    }
}

/// Content type of the body of a request of [`TestServer::call`].
pub fn content_type(method: &str) -> (&'static str, &'static str) {
    let form = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    ("content-type", form)
}

/// A response that was read to its end.
#[derive(Debug)]
pub struct Reply {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Reply {
    /// Returns a header, or an empty string.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Returns the values of the `Warning` headers.
    pub fn warnings(&self) -> Vec<String> {
        let warnings = self.headers.get_all("warning").iter();
        warnings.map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    /// Returns the body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Returns the body, which must be JSON.
    pub fn value(&self) -> Value {
        json::parse(&self.body).unwrap()
    }

    /// Returns the code and the body, or null if it is not JSON.
    pub fn into_call(self) -> (u16, Value) {
        (self.code, json::parse(&self.body).unwrap_or(Value::Null))
    }
}

/// An API server over an in-memory store.
pub struct TestServer {
    pub api: Api,
    pub clock: ManualClock,
    pub runtime: Runtime,
}

impl TestServer {
    pub fn new() -> TestServer {
        TestServer::over(Store::in_memory(Retention::default()))
    }

    pub fn over(store: Store) -> TestServer {
        TestServer::with_options(store, |options| options)
    }

    /// Returns a server with these admission plugins and configurations.
    pub fn with_admission(admission: AdmissionConfig) -> TestServer {
        let store = Store::in_memory(Retention::default());
        TestServer::with_options(store, |options| Options { admission, ..options })
    }

    fn with_options(store: Store, change: impl FnOnce(Options) -> Options) -> TestServer {
        let clock = ManualClock::new(START);
        let api = service(store, change(options(Arc::new(clock.clone())))).unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        TestServer { api, clock, runtime }
    }

    /// Returns a server whose timers fire only when the test advances them (`tokio::time::advance`).
    pub fn paused() -> TestServer {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        TestServer { runtime, ..TestServer::new() }
    }

    /// Returns the user of a bearer token; `None` if it is invalid.
    pub fn authenticate(&self, token: &str) -> Option<Identity> {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_str(&format!("Bearer {token}")).unwrap());
        let credentials = Credentials { headers: &headers, path: "/api", certificate: None };
        let authenticated = self.runtime.block_on(self.api.authenticate(&credentials).wait());
        authenticated.ok().map(|authenticated| authenticated.identity)
    }

    /// Returns the response to a request, with its body unread.
    pub fn answer(&self, request: Request) -> Response {
        self.runtime.block_on(self.api.answer(request))
    }

    /// Reads a response. The body of a watch ends with the last frame that is ready.
    pub fn read(&self, response: Response) -> Reply {
        let mut body = Vec::new();
        match response.body {
            Payload::Whole(parts) => parts.iter().for_each(|part| body.extend_from_slice(part)),
            Payload::Chunked(mut chunks) => {
                std::iter::from_fn(|| chunks.next_chunk()).for_each(|chunk| body.extend_from_slice(&chunk));
            }
            Payload::Stream(mut frames) => body = self.ready_frames(&mut *frames).concat(),
        }
        Reply { code: response.status.as_u16(), headers: response.headers, body }
    }

    /// Returns the frames of a watch that are ready.
    pub fn ready_frames(&self, frames: &mut dyn Frames) -> Vec<Bytes> {
        let mut context = Context::from_waker(Waker::noop());
        let next = || match frames.poll_frame(&mut context) {
            Poll::Ready(frame) => frame,
            Poll::Pending => None,
        };
        self.runtime.block_on(async { std::iter::from_fn(next).collect() })
    }

    /// Sends a request and reads its response.
    pub fn send(&self, method: &str, path: &str, body: impl AsRef<[u8]>, headers: &Headers<'_>) -> Reply {
        self.read(self.answer(request(method, path, body, headers)))
    }

    /// Sends a request of another user. Its body is JSON.
    pub fn call_as(&self, identity: Identity, method: &str, path: &str, body: &str) -> (u16, Value) {
        let request = request(method, path, body, &[content_type(method)]);
        self.read(self.answer(Request { identity, ..request })).into_call()
    }

    /// Sends a request with a body of JSON, which is a merge patch if the method is PATCH.
    pub fn call(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        self.send(method, path, body, &[content_type(method)]).into_call()
    }

    /// Sends a GET request without headers.
    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, "", &[])
    }

    /// Sends a GET request that accepts a media type.
    pub fn get_as(&self, path: &str, accept: &str) -> Reply {
        self.send("GET", path, "", &[("accept", accept)])
    }

    /// Returns an object, which must exist.
    pub fn object(&self, path: &str) -> Value {
        let (code, object) = self.call("GET", path, "");
        assert_eq!(code, 200, "{path}: {}", json::to_text(&object));
        object
    }

    /// Creates an object, which must be accepted.
    pub fn create(&self, path: &str, body: &str) -> Value {
        let (code, object) = self.call("POST", path, body);
        assert_eq!(code, 201, "{path}: {}", json::to_text(&object));
        object
    }

    /// Opens a watch.
    pub fn watch(&self, path: &str, accept: &str) -> Box<dyn Frames> {
        match self.answer(request("GET", path, "", &[("accept", accept)])).body {
            Payload::Stream(frames) => frames,
            _ => panic!("{path} is not a stream"),
        }
    }
}
