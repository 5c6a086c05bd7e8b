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

mod body;
mod connection;
mod counters;
mod handler;
mod refusing;
mod stall;
mod tls;

pub use counters::Counters;
pub use tls::{Tls, TlsError};

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::exchange::Service;

/// The largest body of a request, as upstream bounds it.
pub const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;
/// How much of a body that is too large is read and thrown away, so that the client gets to read the refusal.
const BODY_DISCARD_MAX: usize = 16 * 1024 * 1024;
/// How long a client may take over one body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How many connections are served at a time; more are closed at once.
const CONNECTIONS_MAX: usize = 4096;
/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
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

/// The bounds that a test may want to reach sooner than the defaults let it.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// The largest body of a request.
    pub body_bytes: usize,
    /// How long a client may take over one body.
    pub body_timeout: Duration,
    /// How many connections are served at a time.
    pub connections: usize,
    /// How long a TLS handshake may take.
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
            connections: CONNECTIONS_MAX,
            handshake_timeout: HANDSHAKE_TIMEOUT,
            tick: TICK,
            stall_timeout: STALL_TIMEOUT,
        }
    }
}

/// What [`serve`] needs beside its listener.
pub struct Options {
    /// The bounds.
    pub bounds: Bounds,
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
    seed: u64,
    requests: AtomicU64,
}

/// Serves until `stop` is done, then drains. Returns whether everything finished in time.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<Tls>,
    service: Arc<dyn Service>,
    options: Options,
    stop: impl Future<Output = ()>,
) -> bool {
    let Options { bounds, entropy, drain, counters } = options;
    let slots_max = u32::try_from(bounds.connections).unwrap_or(u32::MAX);
    let slots = Arc::new(Semaphore::new(slots_max as usize));
    let (phase, _) = watch::channel(Phase::Serving);
    let requests = AtomicU64::new(0);
    let shared = Arc::new(Shared { service, bounds, counters, seed: entropy, requests });
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => match Arc::clone(&slots).try_acquire_owned() {
                Ok(slot) => {
                    let (shared, phase) = (Arc::clone(&shared), phase.subscribe());
                    let tls = tls.secured();
                    tokio::spawn(async move {
                        connection::run(stream, tls, shared, phase).await;
                        drop(slot);
                    });
                }
                Err(_) => {
                    shared.counters.connection_refused();
                    tracing::warn!(%peer, connections = shared.bounds.connections, "too many connections");
                }
            },
            Err(error) => rest(&error).await,
        }
    }
    drop(listener);
    phase.send_replace(Phase::Draining);
    // Each connection holds one slot until it has ended, so all slots together mean that none is left.
    let drained = tokio::time::timeout(drain, slots.acquire_many(slots_max)).await.is_ok();
    phase.send_replace(Phase::Ended);
    drained
}

/// After a failed accept: an error of one peer costs nothing, a lack of descriptors calls for a pause.
async fn rest(error: &io::Error) {
    let of_the_peer = [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset];
    if !of_the_peer.contains(&error.kind()) {
        tracing::warn!(%error, "cannot accept connections");
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

#[cfg(test)]
mod tests;
