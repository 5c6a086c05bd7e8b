//! The socket side: TLS, HTTP/1.1 and HTTP/2, and the bounds on what strangers may ask of us.
//!
//! [`serve`] takes connections and turns each request into an [`exchange::Request`](crate::exchange::Request)
//! with a bounded body and a proved identity. It guarantees that
//! - no request reaches the service without a client certificate of our authority;
//! - every bound of [`Bounds`] holds, and reaching one gives a clear answer or ends the connection;
//! - a panic in the service ends one request, is counted and answered;
//! - after the call to stop, whole answers finish and streams end, within the time given.
//!
//! The protocol is chosen by ALPN. No timer is armed per request: one tick per connection looks whether
//! anything has moved since the last, and that one rule cuts the idle, slow headers and stuck readers alike.
//!
//! A request is handled in this order: authenticate and authorize by its head, take a place, read the body within the
//! byte budget, answer on the reactor or on a worker by its cost ([`handler`]).

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
pub use tls::{Tls, TlsError};

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

/// The largest body of a request, as upstream bounds it.
pub const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;
/// How much of a body that is too large is read and thrown away, so that the client gets to read the refusal.
const BODY_DISCARD_MAX: usize = 16 * 1024 * 1024;
/// Time for the body of a request, whatever its size.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for a body that announces no bytes; each [`BODY_BYTES_PER_SECOND`] announced adds a second.
const BODY_GRACE: Duration = Duration::from_secs(5);
/// Slowest rate at which a client may send a body.
const BODY_BYTES_PER_SECOND: u64 = 128 * 1024;
/// Bytes of request bodies that are in memory at a time.
const BODIES_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Bytes that answers in flight hold at a time, beside the stored objects that they refer to.
const RESPONSES_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Authenticated connections at a time.
const CONNECTIONS_MAX: usize = 4096;
/// Unauthenticated connections at a time: beyond it the oldest is closed for a new one.
const UNAUTHENTICATED_MAX: usize = 2048;
/// Time for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// The time between two looks at a connection: after two to three without a whole request it is cut.
const TICK: Duration = Duration::from_secs(30);
/// How long a client may leave its receive window closed while we have something for it.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// The most header fields in a request.
const HEADERS_MAX: usize = 100;
/// The most bytes that the header fields of a request may take together.
const HEADER_BYTES_MAX: usize = 64 * 1024;
/// What the HTTP/2 library lets through of them, so that those that are too large get our answer, not its bare one.
const HEADER_BYTES_READ_MAX: usize = 4 * HEADER_BYTES_MAX;
/// The most requests and watches at a time on one HTTP/2 connection.
const STREAMS_MAX: u32 = 250;
/// How many streams a client may open and reset before we have seen them (the "rapid reset" attack).
const PENDING_RESETS_MAX: usize = 50;
/// How many streams we may have to reset for a client's errors. Clients end watches by resets, so it is not small.
const LOCAL_RESETS_MAX: usize = 1024;
/// How much of an HTTP/2 answer is held for a stream that is slow to take it.
const SEND_BUFFER_BYTES_MAX: usize = 256 * 1024;
/// How often a silent HTTP/2 client is asked whether it is still there.
const PING_INTERVAL: Duration = Duration::from_secs(60);
/// How long it may take to say so.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long accepting rests when the system has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// File descriptors that are left for the store, logs and outgoing connections.
const DESCRIPTORS_RESERVED: u64 = 256;

/// The bounds that a test may want to reach sooner than the defaults let it.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Time for the body of a request.
    pub body_timeout: Duration,
    /// Bytes of request bodies in memory at a time.
    pub bodies_bytes: usize,
    /// Bytes that answers in flight hold at a time.
    pub responses_bytes: usize,
    /// Authenticated connections at a time.
    pub connections: usize,
    /// Unauthenticated connections at a time.
    pub unauthenticated: usize,
    /// Time for a TLS handshake.
    pub handshake_timeout: Duration,
    /// The time between two looks at a connection.
    pub tick: Duration,
    /// How long a client may not read what we have for it.
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

/// What [`serve`] needs beside its listener.
pub struct ServeOptions {
    /// The bounds.
    pub bounds: Bounds,
    /// Threads that serve the connections.
    pub threads: Threads,
    /// A number that nobody can foresee, for the ids of requests.
    pub entropy: u64,
    /// How long answers may take to finish after the call to stop.
    pub drain: Duration,
    /// Where things are counted.
    pub counters: Arc<Counters>,
}

/// Where the server is in its life. Connections and streams follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// All is served. Leads to `Draining`.
    Serving,
    /// Nothing new is taken, streams end, whole answers finish. Leads to `Ended`.
    Draining,
    /// What is left is dropped.
    Ended,
}

/// What all connections share.
struct Shared {
    service: Arc<dyn Service>,
    bounds: Bounds,
    counters: Arc<Counters>,
    /// Executor for what would hold a reactor up.
    workers: Handle,
    /// Slots of authenticated connections.
    slots: Arc<Semaphore>,
    /// Memory of request bodies.
    bodies: Arc<ByteBudget>,
    /// Memory of answers.
    responses: Arc<ByteBudget>,
    seed: u64,
    requests: AtomicU64,
}

/// Serves until `stop` is done, then drains. Returns whether everything finished in time.
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
    // Each connection holds a sender until it has ended; nothing is ever sent.
    let (open, mut all_ended) = mpsc::channel::<()>(1);
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        // A socket leaves the event queue of this thread for that of its reactor.
        match accepted.and_then(|(stream, peer)| Ok((stream.into_std()?, peer))) {
            Ok((stream, peer)) => {
                let (membership, evicted, closed) = unauthenticated.join(peer.ip());
                shared.counters.connections_evicted(closed);
                let (reactor, assign_reactor) = threads.assign_reactor();
                let incoming = connection::Accepted {
                    stream,
                    tls: tls.secured(),
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
            Err(error) => rest(&error).await,
        }
    }
    drop((listener, open));
    phase.send_replace(Phase::Draining);
    let drained = tokio::time::timeout(drain, all_ended.recv()).await.is_ok();
    phase.send_replace(Phase::Ended);
    if !drained {
        // Connections end by themselves now; dropping the threads would only hide that from their clients.
        let _ = tokio::time::timeout(ACCEPT_PAUSE, all_ended.recv()).await;
    }
    drained
}

/// Waits after a failed accept: an error of one peer costs nothing, a lack of descriptors calls for a pause.
async fn rest(error: &io::Error) {
    let of_the_peer = [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset];
    if !of_the_peer.contains(&error.kind()) {
        tracing::warn!(%error, "cannot accept connections");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

#[cfg(test)]
mod tests;
