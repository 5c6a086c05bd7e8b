//! What is served until the API is: health and version.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};
use setpoint_api::status::{Reason, Status};
use setpoint_store::{Clock, Store};

use crate::exchange::{Answer, Body, Request, Service};

const VERSION: &str = r#"{
  "major": "1",
  "minor": "37",
  "gitVersion": "v1.37.0",
  "gitCommit": "",
  "gitTreeState": "clean",
  "buildDate": "",
  "goVersion": "",
  "compiler": "rustc",
  "platform": "linux/amd64"
}"#;

/// What the service needs beside the store.
pub struct Options {
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// A number that nobody can foresee.
    pub entropy: u64,
}

/// The service over a store.
#[must_use]
pub fn service(store: Store, options: Options) -> impl Service {
    Health { _store: store, _options: options }
}

struct Health {
    _store: Store,
    _options: Options,
}

impl Service for Health {
    fn answer(&self, request: Request) -> Pin<Box<dyn Future<Output = Answer> + Send + '_>> {
        let (code, kind, text) = match request.path.as_str() {
            "/healthz" | "/livez" | "/readyz" => (200, "text/plain; charset=utf-8", b"ok".to_vec()),
            "/version" => (200, "application/json", VERSION.as_bytes().to_vec()),
            _ => {
                let message = "the server could not find the requested resource";
                let status = Status::failure(Reason::NotFound, message);
                (404, "application/json", status.to_json())
            }
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Box::pin(std::future::ready(Answer { status, headers, body: Body::Whole(vec![text.into()]) }))
    }
}
