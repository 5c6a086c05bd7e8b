//! The API without a socket, and the instructions of a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderValue, Method};
use setpoint_api::{ManualClock, Time};
use setpoint_server::api::{Api, Options, service};
use setpoint_server::exchange::{Body, Identity, Request, Response, Service};
use setpoint_sim::cost::callgrind::{Counter, current_shard};
use setpoint_store::{Retention, Store};

/// A request as a case writes it.
pub struct Call<'a> {
    pub method: Method,
    pub path: &'a str,
    pub content_type: &'a str,
    pub accept: &'a str,
    pub body: Vec<u8>,
}

impl<'a> Call<'a> {
    pub fn new(method: Method, path: &'a str, body: Vec<u8>) -> Call<'a> {
        Call { method, path, content_type: "application/json", accept: "application/json", body }
    }
}

/// The API, and the counter of its instructions.
pub struct Meter {
    api: Api,
    runtime: tokio::runtime::Runtime,
    /// Nothing where nothing is counted.
    counter: Option<Counter>,
}

impl Meter {
    pub fn new() -> Meter {
        let count = AtomicU64::new(1);
        let options = Options {
            clock: Arc::new(ManualClock::new(Time::from_seconds(1_800_000_000))),
            entropy: Arc::new(move || count.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)),
            address: "127.0.0.1:6443".into(),
            advertised: None,
            service_ranges: Vec::new(),
            tolerations: Default::default(),
        };
        let api = service(Store::in_memory(Retention::default()), options).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Meter { api, runtime, counter: current_shard().map(|_| Counter::new()) }
    }

    fn request(call: Call<'_>) -> Request {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_str(call.content_type).unwrap());
        headers.insert("accept", HeaderValue::from_str(call.accept).unwrap());
        headers.insert("user-agent", HeaderValue::from_static("tester/1"));
        let (path, query) = call.path.split_once('?').unwrap_or((call.path, ""));
        Request {
            method: call.method,
            path: path.into(),
            query: query.into(),
            headers,
            body: call.body.into(),
            identity: Identity { user: "ann".into(), groups: vec!["system:masters".into()] },
        }
    }

    /// Sends a request without counting.
    pub fn call(&self, call: Call<'_>) -> (u16, Vec<u8>) {
        shown(self.runtime.block_on(self.api.answer(Self::request(call))))
    }

    /// Sends a request, and returns the status code and the instructions that it took.
    pub fn count(&mut self, call: Call<'_>) -> (u16, u64) {
        let request = Self::request(call);
        let Meter { api, runtime, counter } = self;
        let counter = counter.as_mut().expect("requests are counted under callgrind");
        let (answer, count) = counter.count(|| runtime.block_on(api.answer(request)));
        (answer.status.as_u16(), count)
    }
}

fn shown(answer: Response) -> (u16, Vec<u8>) {
    let mut out = Vec::new();
    if let Body::Whole(parts) = &answer.body {
        parts.iter().for_each(|part| out.extend_from_slice(part));
    }
    (answer.status.as_u16(), out)
}
