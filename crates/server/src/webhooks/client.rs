//! HTTPS client of webhooks.
//!
//! A call is one POST with a deadline that includes the connection, and a bounded response; redirects are not followed.
//! Calls run on a thread of their own, which starts with the first call: requests and the loop wait for a [`CallTask`]
//! without blocking a thread. Connections are kept alive and shared by calls of equal endpoints (`pool.rs`).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Request, StatusCode};
use hyper::body::Incoming;
use setpoint_api::json;
use setpoint_api::quote::Quoted;
use setpoint_api::status::{Generic, Status};
use setpoint_runtime::client::{FullBody, next_chunk};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::endpoint::WebhookEndpoint;
use super::pool::ConnectionPool;

/// Characters of an error response in a message.
const ERROR_CHARS_MAX: usize = 1024;
/// Bytes of an error response that are read.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// A call of a webhook.
#[derive(Clone, Debug)]
pub struct WebhookCall {
    /// Endpoint to call.
    pub endpoint: WebhookEndpoint,
    /// Body of the request, JSON.
    pub body: Bytes,
    /// Time for the whole call.
    pub timeout: Duration,
    /// Maximum number of bytes of the response.
    pub response_bytes_max: usize,
}

impl WebhookCall {
    /// The timeout in seconds, rounded up, as the webhook gets it.
    #[must_use]
    pub fn timeout_seconds(&self) -> u64 {
        self.timeout.as_secs() + u64::from(self.timeout.subsec_nanos() > 0)
    }
}

/// Failure of a call. The texts are those of Go's client, as far as it has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The host name cannot be resolved.
    #[error("dial tcp: lookup {0}: no such host")]
    Resolve(String),
    /// The connection cannot be opened.
    #[error("dial tcp {address}: {why}")]
    Connect {
        /// Address of the endpoint.
        address: String,
        /// Reason.
        why: String,
    },
    /// The TLS handshake failed.
    #[error("{0}")]
    Tls(String),
    /// The CA bundle is unusable.
    #[error("unable to load root certificates: {0}")]
    Roots(String),
    /// The connection was closed before the response was complete.
    #[error("EOF")]
    Closed,
    /// The deadline has passed.
    #[error("context deadline exceeded")]
    Timeout,
    /// The response is too large.
    #[error("the response is larger than {0} bytes")]
    TooLarge(usize),
    /// The response is not HTTP, or the connection broke.
    #[error("{0}")]
    Http(String),
    /// The webhook responded with an error.
    #[error("{message}")]
    Status {
        /// HTTP status code.
        code: u16,
        /// Message of the response.
        message: String,
    },
    /// The thread for calls cannot be started.
    #[error("cannot start a thread for calls of webhooks: {0}")]
    Thread(String),
}

impl CallError {
    /// The error with the URL of the call, as Go's client reports it. An error response stands for itself.
    #[must_use]
    pub fn describe(&self, url: &str) -> String {
        match self {
            CallError::Status { message, .. } => message.clone(),
            other => format!("Post {}: {other}", Quoted(url)),
        }
    }
}

/// HTTPS client of webhooks.
#[derive(Default)]
pub struct WebhookClient {
    runtime: OnceLock<Result<CallRuntime, String>>,
    pool: Arc<ConnectionPool>,
}

/// Runtime of the calls. Dropping it ends them.
struct CallRuntime(Option<Runtime>);

impl Drop for CallRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl WebhookClient {
    /// Starts a call. It ends when the task is dropped.
    #[must_use]
    pub fn start(&self, call: WebhookCall) -> CallTask {
        let runtime = self.runtime.get_or_init(|| {
            let built =
                Builder::new_multi_thread().worker_threads(1).thread_name("webhooks").enable_all().build();
            built.map(|runtime| CallRuntime(Some(runtime))).map_err(|error| error.to_string())
        });
        let runtime = match runtime {
            Ok(CallRuntime(runtime)) => {
                runtime.as_ref().expect("the runtime is taken only when it is dropped")
            }
            Err(why) => return CallTask(Err(Some(CallError::Thread(why.clone())))),
        };
        let pool = Arc::clone(&self.pool);
        CallTask(Ok(runtime.spawn(async move { perform(&pool, &call).await })))
    }

    /// Makes a call.
    ///
    /// # Errors
    /// If there is no complete response that is successful within the time limit.
    pub async fn call(&self, call: WebhookCall) -> Result<Bytes, CallError> {
        self.start(call).await
    }
}

/// A call in flight, aborted when it is dropped.
pub struct CallTask(Result<JoinHandle<Result<Bytes, CallError>>, Option<CallError>>);

impl Future for CallTask {
    type Output = Result<Bytes, CallError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Ok(task) => Pin::new(task)
                .poll(context)
                .map(|ended| ended.unwrap_or_else(|error| Err(CallError::Thread(error.to_string())))),
            Err(error) => Poll::Ready(Err(error.take().unwrap_or(CallError::Closed))),
        }
    }
}

impl Drop for CallTask {
    fn drop(&mut self) {
        if let Ok(task) = &self.0 {
            task.abort();
        }
    }
}

async fn perform(pool: &ConnectionPool, call: &WebhookCall) -> Result<Bytes, CallError> {
    let exchange = exchange(pool, call);
    tokio::time::timeout(call.timeout, exchange).await.unwrap_or(Err(CallError::Timeout))
}

async fn exchange(pool: &ConnectionPool, call: &WebhookCall) -> Result<Bytes, CallError> {
    let mut is_retried = false;
    loop {
        let mut connection = pool.connect(&call.endpoint, is_retried).await?;
        let response = match connection.sender.send_request(encode(call)?).await {
            Ok(response) => response,
            // The server may have closed an idle connection at the same moment.
            Err(error) if connection.is_reused && is_cut(&error) => {
                is_retried = true;
                continue;
            }
            Err(error) => return Err(broken(&error)),
        };
        let status = response.status();
        let bytes_max = if status.is_success() { call.response_bytes_max } else { ERROR_BYTES_MAX };
        let body = read(response.into_body(), bytes_max).await;
        if !status.is_success() {
            return Err(error_response(status, &body.unwrap_or_default()));
        }
        let body = body?;
        pool.release(&call.endpoint, connection);
        return Ok(body);
    }
}

fn encode(call: &WebhookCall) -> Result<Request<FullBody>, CallError> {
    let invalid = |error: http::Error| CallError::Http(error.to_string());
    let host = HeaderValue::try_from(&call.endpoint.authority)
        .map_err(|error| CallError::Http(error.to_string()))?;
    let mut request = Request::post(call.endpoint.target(call.timeout_seconds()));
    let credentials = call.endpoint.credentials.as_ref();
    if let Some(authorization) = credentials.and_then(|credentials| credentials.authorization.clone()) {
        request = request.header(AUTHORIZATION, authorization);
    }
    request
        .header(HOST, host)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, */*")
        .header(USER_AGENT, "kube-apiserver-admission")
        .body(FullBody::new(call.body.clone()))
        .map_err(invalid)
}

async fn read(mut body: Incoming, bytes_max: usize) -> Result<Bytes, CallError> {
    let mut bytes = BytesMut::new();
    loop {
        match next_chunk(&mut body).await {
            Ok(Some(chunk)) if bytes.len() + chunk.len() > bytes_max => {
                return Err(CallError::TooLarge(bytes_max));
            }
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) => return Ok(bytes.freeze()),
            Err(setpoint_runtime::client::ClientError::Broken(error)) => return Err(broken(&error)),
            Err(error) => return Err(CallError::Http(error.to_string())),
        }
    }
}

/// `true` if the server closed the connection before its response was complete.
fn is_cut(error: &hyper::Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<io::Error>());
    let is_end = |source: &io::Error| {
        let ends = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
        ends.contains(&source.kind())
    };
    error.is_incomplete_message() || error.is_canceled() || error.is_closed() || source.is_some_and(is_end)
}

fn broken(error: &hyper::Error) -> CallError {
    if is_cut(error) {
        return CallError::Closed;
    }
    if error.is_parse() {
        return CallError::Http(format!("malformed HTTP response: {error}"));
    }
    let source = std::error::Error::source(error).map(ToString::to_string);
    CallError::Http(source.unwrap_or_else(|| error.to_string()))
}

/// Error for a response that is not successful: the message of its Status, or that of Go's client for the code.
fn error_response(status: StatusCode, body: &[u8]) -> CallError {
    let code = status.as_u16();
    let object = json::parse(body).unwrap_or_default();
    if object.str_at(&["kind"]) == "Status" && !object.str_at(&["message"]).is_empty() {
        return CallError::Status { code, message: object.str_at(&["message"]).to_owned() };
    }
    let text: String = String::from_utf8_lossy(body).trim().chars().take(ERROR_CHARS_MAX).collect();
    let text = if text.is_empty() { "unknown".to_owned() } else { text };
    let about = Generic { method: "POST", message: &text, unexpected: true, ..Generic::default() };
    CallError::Status { code, message: Status::generic(code, &about).message.into_owned() }
}
