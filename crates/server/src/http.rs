//! HTTP server: TLS, HTTP/1.1 and HTTP/2, and the bounds on what clients can consume.
//!
//! [`serve`] accepts connections and turns each request into an [`exchange::Request`](crate::exchange::Request) with
//! a bounded body and an authenticated identity. It guarantees that
//! - no request reaches the service without a valid client certificate or token;
//! - every bound of [`Bounds`] holds, and reaching one gives an error response or closes the connection;
//! - a panic in the service fails one request, is counted and answered with 500;
//! - after the stop signal, responses in flight finish and streams end, within the drain time.
//!
//! The protocol is chosen by ALPN. No timer is armed per request: one tick per connection checks if there was
//! activity since the last one, which closes idle connections, slow headers and stuck readers alike.
//!
//! A request is handled in this order: authenticate by its head, take seats or wait for them, authorize, take an
//! in-flight permit, read the body within the byte budget, respond on the reactor or on a worker by its cost ([`handler`]).

mod body;
mod budget;
mod connection;
mod counters;
mod date;
mod error_body;
mod handler;
mod request_body;
mod stall;
mod threads;
mod tls;
mod unauthenticated;

pub use counters::Counters;
pub use threads::{ThreadCounts, Threads};
pub use tls::{ClientTrust, Tls, TlsError};

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, watch};

use self::budget::ByteBudget;
use self::unauthenticated::UnauthenticatedConnections;
use crate::exchange::Service;

/// Maximum size of a request body, as upstream's.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;
/// Bytes of an oversized body that are read and discarded, so that the client gets to read the error.
const BODY_DISCARD_MAX: usize = 16 * 1024 * 1024;
/// Time for the body of a request, whatever its size.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for a body that announces no bytes; each [`BODY_BYTES_PER_SECOND`] announced adds a second.
const BODY_GRACE: Duration = Duration::from_secs(5);
/// Slowest rate at which a client may send a body.
const BODY_BYTES_PER_SECOND: u64 = 128 * 1024;
/// Bytes of request bodies that are in memory at a time.
const BODIES_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Bytes that responses in flight hold at a time, beside the stored objects that they refer to.
const RESPONSES_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Authenticated connections at a time.
const CONNECTIONS_MAX: usize = 4096;
/// Unauthenticated connections at a time: beyond it the oldest is closed for a new one.
const UNAUTHENTICATED_MAX: usize = 2048;
/// Time for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval of activity checks: a connection without a complete request for two to three intervals is closed.
const TICK: Duration = Duration::from_secs(30);
/// Time that a client may leave its receive window closed while data is pending.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Header fields of a request.
const HEADERS_MAX: usize = 100;
/// Bytes of all header fields of a request.
const HEADER_BYTES_MAX: usize = 64 * 1024;
/// Header bytes that the HTTP/2 library accepts, so that oversized headers get our error instead of its bare one.
const HEADER_BYTES_READ_MAX: usize = 4 * HEADER_BYTES_MAX;
/// Concurrent requests and watches on one HTTP/2 connection.
const STREAMS_MAX: u32 = 250;
/// Streams that a client may open and reset before they are accepted (the "rapid reset" attack).
const PENDING_RESETS_MAX: usize = 50;
/// Streams that are reset for a client's errors. Clients end watches by resets, so it is not small.
const LOCAL_RESETS_MAX: usize = 1024;
/// Buffered bytes of an HTTP/2 response whose client reads slowly.
const SEND_BUFFER_BYTES_MAX: usize = 256 * 1024;
/// Interval of pings on an idle HTTP/2 connection.
const PING_INTERVAL: Duration = Duration::from_secs(60);
/// Time for the reply to a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause of accepting when the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// File descriptors that are reserved for the store, logs and outgoing connections.
const DESCRIPTORS_RESERVED: u64 = 256;

/// Bounds of the server, adjustable for tests.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Time for the body of a request.
    pub body_timeout: Duration,
    /// Bytes of request bodies in memory at a time.
    pub bodies_bytes: usize,
    /// Bytes that responses in flight hold at a time.
    pub responses_bytes: usize,
    /// Authenticated connections at a time.
    pub connections: usize,
    /// Unauthenticated connections at a time.
    pub unauthenticated: usize,
    /// Time for a TLS handshake.
    pub handshake_timeout: Duration,
    /// Interval of activity checks.
    pub tick: Duration,
    /// Time that a client may leave its receive window closed.
    pub stall_timeout: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            body_bytes: BODY_BYTES_MAX,
            body_timeout: BODY_TIMEOUT,
            bodies_bytes: BODIES_BYTES_MAX,
            responses_bytes: RESPONSES_BYTES_MAX,
            connections: CONNECTIONS_MAX,
            unauthenticated: UNAUTHENTICATED_MAX,
            handshake_timeout: HANDSHAKE_TIMEOUT,
            tick: TICK,
            stall_timeout: STALL_TIMEOUT,
        }
    }
}

impl Bounds {
    /// Returns the defaults for a process that may open this many file descriptors: a fifth of those not reserved goes
    /// to unauthenticated connections, the rest to authenticated ones.
    #[must_use]
    pub fn for_descriptors(limit: u64) -> Bounds {
        let reserved = DESCRIPTORS_RESERVED.min(limit / 2);
        let free = usize::try_from(limit - reserved).unwrap_or(usize::MAX);
        let unauthenticated = (free / 5).clamp(1, UNAUTHENTICATED_MAX);
        let connections = free.saturating_sub(unauthenticated).clamp(1, CONNECTIONS_MAX);
        Bounds { connections, unauthenticated, ..Bounds::default() }
    }
}

/// Configuration of [`serve`].
pub struct ServeOptions {
    /// The bounds.
    pub bounds: Bounds,
    /// Threads that serve the connections.
    pub threads: Threads,
    /// Random number that seeds the ids of requests.
    pub entropy: u64,
    /// Time for responses to finish after the stop signal.
    pub drain: Duration,
    /// Counters for the metrics.
    pub counters: Arc<Counters>,
}

/// Phase of the server. Connections and streams follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// All requests are served. Next: `Draining`.
    Serving,
    /// No new requests; streams end, responses in flight finish. Next: `Ended`.
    Draining,
    /// Remaining connections are dropped.
    Ended,
}

/// State that all connections share.
struct Shared {
    service: Arc<dyn Service>,
    bounds: Bounds,
    counters: Arc<Counters>,
    /// Executor for work that would block a reactor.
    workers: Handle,
    /// Slots of authenticated connections.
    slots: Arc<Semaphore>,
    /// Memory of request bodies.
    bodies: Arc<ByteBudget>,
    /// Memory of responses.
    responses: Arc<ByteBudget>,
    seed: u64,
    requests: AtomicU64,
}

/// Serves until `stop` resolves, then drains. Returns `true` if everything finished in time.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<Tls>,
    service: Arc<dyn Service>,
    options: ServeOptions,
    stop: impl Future<Output = ()>,
) -> bool {
    let ServeOptions { bounds, threads, entropy, drain, counters } = options;
    let (phase, _) = watch::channel(Phase::Serving);
    let unauthenticated = UnauthenticatedConnections::new(bounds.unauthenticated);
    let shared = Arc::new(Shared {
        service,
        counters,
        workers: threads.workers().clone(),
        slots: Arc::new(Semaphore::new(bounds.connections)),
        bodies: ByteBudget::new(bounds.bodies_bytes),
        responses: ByteBudget::new(bounds.responses_bytes),
        bounds,
        seed: entropy,
        requests: AtomicU64::new(0),
    });
    // Each connection holds a sender until it ends; nothing is ever sent.
    let (open, mut all_ended) = mpsc::channel::<()>(1);
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        // The socket moves from this thread's event queue to that of its reactor.
        match accepted.and_then(|(stream, peer)| Ok((stream.into_std()?, peer))) {
            Ok((stream, peer)) => {
                let (membership, evicted, closed) = unauthenticated.join(peer.ip());
                shared.counters.connections_evicted(closed);
                let (reactor, assign_reactor) = threads.assign_reactor();
                let incoming = connection::Accepted {
                    stream,
                    peer: peer.ip(),
                    tls: tls.state(),
                    phase: phase.subscribe(),
                    membership,
                    evicted,
                };
                let (shared, open) = (Arc::clone(&shared), open.clone());
                reactor.spawn(async move {
                    connection::run(incoming, shared).await;
                    drop((assign_reactor, open));
                });
            }
            Err(error) => pause_after(&error).await,
        }
    }
    drop((listener, open));
    phase.send_replace(Phase::Draining);
    let drained = tokio::time::timeout(drain, all_ended.recv()).await.is_ok();
    phase.send_replace(Phase::Ended);
    if !drained {
        // Connections close by themselves now; dropping the threads would reset them without a shutdown.
        let _ = tokio::time::timeout(ACCEPT_PAUSE, all_ended.recv()).await;
    }
    drained
}

/// Handles an accept error: an error of one peer is ignored, a lack of descriptors causes a pause.
#[expect(
    clippy::disallowed_methods,
    reason = "the kernel does not report when descriptors are available again"
)]
async fn pause_after(error: &io::Error) {
    let of_the_peer = [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset];
    if !of_the_peer.contains(&error.kind()) {
        tracing::warn!(%error, "cannot accept connections");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

#[cfg(test)]
mod tests;
