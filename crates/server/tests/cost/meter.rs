//! Instruction counter of requests to the API server.

use http::Method;
use setpoint_server::exchange::{Request, Service};
use setpoint_sim::cost::callgrind::{Counter, current_shard};

use crate::harness::{TestServer, request};

/// Request of a case.
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

impl From<Call<'_>> for Request {
    fn from(call: Call<'_>) -> Request {
        let headers = [("content-type", call.content_type), ("accept", call.accept)];
        request(call.method.as_str(), call.path, call.body, &headers)
    }
}

/// API server with a counter of its instructions.
pub struct Meter {
    server: TestServer,
    /// `None` outside of callgrind.
    counter: Option<Counter>,
}

impl Meter {
    pub fn new() -> Meter {
        Meter { server: TestServer::new(), counter: current_shard().map(|_| Counter::new()) }
    }

    /// Sends a request without counting.
    pub fn call(&self, call: Call<'_>) -> (u16, Vec<u8>) {
        let reply = self.server.read(self.server.answer(call.into()));
        (reply.code, reply.body)
    }

    /// Sends a request, and returns the status code and the instructions that it took.
    pub fn count(&mut self, call: Call<'_>) -> (u16, u64) {
        let request = call.into();
        let TestServer { api, runtime, .. } = &self.server;
        let counter = self.counter.as_mut().expect("requests are counted under callgrind");
        let (answer, count) = counter.count(|| runtime.block_on(api.answer(request)));
        (answer.status.as_u16(), count)
    }
}
