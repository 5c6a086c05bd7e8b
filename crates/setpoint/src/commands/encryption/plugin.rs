//! Calls of KMS plugins: gRPC over unix sockets.
//!
//! One thread makes the calls and polls the plugins. Others wait for it, at most for a call's timeout. Each call has a
//! connection of its own: there are few, and a plugin that was restarted needs no reconnect.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::task::Poll;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body::{Body, Frame};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use setpoint_api::Clock;
use setpoint_encryption::Secret;
use setpoint_encryption::config::KmsSettings;
use setpoint_encryption::kms::messages::{
    EncryptResponse, StatusResponse, WrappedSeed, decrypt_request, decrypt_response, encrypt_request,
};
use setpoint_encryption::kms::{
    KmsKeys, STATUS_INTERVAL, STATUS_RETRY_INTERVAL, StatusOutcome, grpc, key_id_hash,
};
use tokio::net::UnixStream;
use tokio::runtime::Handle;

use super::metrics::EncryptionMetrics;
use super::random_bytes;
use crate::clock::SystemClock;

/// Time beyond a call's timeout after which its thread counts as stuck.
const GRACE: Duration = Duration::from_secs(1);

/// A plugin in use.
pub struct Plugin {
    /// Its settings.
    pub settings: KmsSettings,
    /// Its keys.
    pub keys: Arc<KmsKeys>,
}

/// Thread that calls plugins. It ends with the process.
#[derive(Clone)]
pub struct PluginCalls {
    runtime: Handle,
    metrics: Arc<EncryptionMetrics>,
}

impl PluginCalls {
    /// Starts the thread.
    pub fn start(metrics: Arc<EncryptionMetrics>) -> anyhow::Result<PluginCalls> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new().name("kms".to_owned());
        thread
            .spawn(move || runtime.block_on(std::future::pending::<()>()))
            .context("cannot start the thread of KMS plugins")?;
        Ok(PluginCalls { runtime: handle, metrics })
    }

    /// Reads the status of a plugin and makes its first key, then polls it until it is dropped.
    pub fn connect(&self, settings: &KmsSettings) -> anyhow::Result<Arc<Plugin>> {
        let client = PluginClient { settings: settings.clone(), metrics: Arc::clone(&self.metrics) };
        let (calls, unwrapping) = (self.clone(), client.clone());
        let unwrap = move |wrapped: &WrappedSeed| calls.unwrap(&unwrapping, wrapped);
        let keys = Arc::new(KmsKeys::new(&settings.name, Box::new(unwrap)));
        let (first, polled) = (client.clone(), Arc::clone(&keys));
        self.wait(settings.timeout * 2, async move { first.poll(&polled).await })
            .map_err(|error| anyhow!(error))?;
        let plugin = Arc::new(Plugin { settings: settings.clone(), keys: Arc::clone(&keys) });
        let polled = Arc::downgrade(&plugin);
        self.runtime.spawn(async move {
            let mut interval = STATUS_INTERVAL;
            loop {
                sleep(interval).await;
                let Some(plugin) = polled.upgrade() else { break };
                let outcome = client.poll(&plugin.keys).await;
                interval = if outcome.is_ok() { STATUS_INTERVAL } else { STATUS_RETRY_INTERVAL };
                if let Err(error) = &outcome {
                    tracing::warn!(provider = %plugin.settings.name, error, "kms plugin failed its check");
                }
                plugin.keys.record_poll(outcome);
            }
        });
        Ok(plugin)
    }

    fn unwrap(&self, client: &PluginClient, wrapped: &WrappedSeed) -> Result<Secret, String> {
        let request = decrypt_request(wrapped, &uid());
        let calling = client.clone();
        let response =
            self.wait(client.settings.timeout, async move { calling.call("Decrypt", &request).await })?;
        decrypt_response(&response).map_err(|error| format!("Decrypt: {error}"))
    }

    /// Runs a call on the thread and waits for its result.
    fn wait<T: Send + 'static>(
        &self,
        timeout: Duration,
        call: impl Future<Output = Result<T, String>> + Send + 'static,
    ) -> Result<T, String> {
        let (sender, receiver) = sync_channel(1);
        self.runtime.spawn(async move {
            // The receiver is gone only if it has stopped waiting.
            let _ = sender.send(call.await);
        });
        match receiver.recv_timeout(timeout + GRACE) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                Err("the call did not end in time".to_owned())
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "plugins are polled in real time")]
async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Client of a plugin.
#[derive(Clone)]
struct PluginClient {
    settings: KmsSettings,
    metrics: Arc<EncryptionMetrics>,
}

impl PluginClient {
    /// Reads the status, and replaces the seed if the key id is new.
    async fn poll(&self, keys: &KmsKeys) -> Result<(), String> {
        let requested_at = SystemClock.uptime();
        let status = self.call("Status", &[]).await?;
        let status = StatusResponse::decode(&status).map_err(|error| format!("Status: {error}"))?;
        let outcome = keys.apply_status(&status, requested_at).inspect_err(|error| {
            if error.contains("KeyID") {
                self.metrics.record_invalid_key_id(&self.settings.name);
            }
        })?;
        let hash = key_id_hash(&status.key_id);
        self.metrics.record_key_id(&self.settings.name, hash, SystemClock.now());
        let StatusOutcome::NeedsSeed { key_id } = outcome else { return Ok(()) };
        let seed = KmsKeys::new_seed(&random_bytes);
        let request = Secret::new(encrypt_request(&seed, &uid()));
        let response = self.call("Encrypt", request.expose()).await?;
        let response = EncryptResponse::decode(&response).map_err(|error| format!("Encrypt: {error}"))?;
        keys.install(&seed, response, &key_id, requested_at)?;
        tracing::debug!(provider = %self.settings.name, key_id_hash = key_id_hash(&key_id), "made a new data key");
        Ok(())
    }

    /// Calls a method, within the timeout.
    async fn call(&self, method: &'static str, message: &[u8]) -> Result<Vec<u8>, String> {
        let started_at = SystemClock.uptime();
        let timeout = self.settings.timeout;
        let called = tokio::time::timeout(timeout, self.exchange(method, message)).await;
        let result = called.unwrap_or_else(|_| {
            Err(format!(
                "rpc error: code = DeadlineExceeded desc = no response in {} ms",
                timeout.as_millis()
            ))
        });
        let duration = SystemClock.uptime().saturating_sub(started_at);
        self.metrics.record_call(&self.settings.name, method, result.is_ok(), duration);
        result.map_err(|error| format!("{method}: {error}"))
    }

    async fn exchange(&self, method: &str, message: &[u8]) -> Result<Vec<u8>, String> {
        let unavailable =
            |error: &dyn std::fmt::Display| format!("rpc error: code = Unavailable desc = {error}");
        // An abstract socket, as gRPC writes it.
        let path = self.settings.socket.strip_prefix('@').map(|name| format!("\0{name}"));
        let path = path.as_deref().unwrap_or(&self.settings.socket);
        let stream = UnixStream::connect(path).await.map_err(|error| unavailable(&error))?;
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(|error| unavailable(&error))?;
        let connection = tokio::spawn(connection);
        let response = sender.send_request(request(method, message)?).await;
        let outcome = match response {
            Ok(response) => read(response).await,
            Err(error) => Err(unavailable(&error)),
        };
        connection.abort();
        outcome
    }
}

fn uid() -> String {
    let mut bytes = [0; 16];
    random_bytes(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn request(method: &str, message: &[u8]) -> Result<Request<OneFrame>, String> {
    let mut request = Request::new(OneFrame(Some(Bytes::from(grpc::frame(message)))));
    *request.method_mut() = Method::POST;
    let uri = format!("http://localhost{}", grpc::path(method));
    *request.uri_mut() = uri.parse::<Uri>().map_err(|error| error.to_string())?;
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    request.headers_mut().insert(TE, HeaderValue::from_static("trailers"));
    Ok(request)
}

/// Reads the message of a response and checks its status.
async fn read(response: http::Response<Incoming>) -> Result<Vec<u8>, String> {
    let (head, mut body) = response.into_parts();
    if head.status != StatusCode::OK {
        return Err(format!(
            "rpc error: code = Unknown desc = the plugin responded with HTTP status {}",
            head.status
        ));
    }
    let (mut bytes, mut trailers) = (Vec::new(), None);
    let mut body = Pin::new(&mut body);
    while let Some(frame) = std::future::poll_fn(|context| body.as_mut().poll_frame(context)).await {
        let frame = frame.map_err(|error| format!("rpc error: code = Unavailable desc = {error}"))?;
        match frame.into_data() {
            Ok(data) => bytes.extend_from_slice(&data),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
        if bytes.len() > grpc::RESPONSE_BYTES_MAX {
            let max = grpc::RESPONSE_BYTES_MAX;
            return Err(format!(
                "rpc error: code = ResourceExhausted desc = the response exceeds {max} bytes"
            ));
        }
    }
    // A response without a message may have its status in the headers.
    let trailers = trailers.as_ref().unwrap_or(&head.headers);
    grpc::check_status(text(trailers, "grpc-status"), text(trailers, "grpc-message"))?;
    grpc::unframe(&bytes).map(<[u8]>::to_vec)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Body of a request: one message.
struct OneFrame(Option<Bytes>);

impl Body for OneFrame {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }
}
