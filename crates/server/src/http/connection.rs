//! One connection from its handshake to its end.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_rustls::server::TlsStream;

use super::refusing::Refusing;
use super::stall::Guarded;
use super::tls::Secured;
use super::{
    HEADER_BYTES_MAX, HEADER_BYTES_READ_MAX, HEADERS_MAX, LOCAL_RESETS_MAX, PENDING_RESETS_MAX,
    PING_INTERVAL, PING_TIMEOUT, Phase, SEND_BUFFER_BYTES_MAX, STREAMS_MAX, Shared, handler,
};
use crate::exchange::Identity;

/// What the requests of one connection share.
pub(super) struct Connection {
    pub shared: Arc<Shared>,
    /// Who the client is; none if it showed no certificate.
    pub identity: Option<Identity>,
    pub activity: Activity,
    pub phase: watch::Receiver<Phase>,
}

/// What moves on a connection, so that its tick can tell a quiet one from a dead one.
#[derive(Default)]
pub(super) struct Activity {
    /// How often something moved: a request came whole, or a part of an answer was taken.
    moved: AtomicU64,
    /// Requests whose answer is not finished, streams too.
    active: AtomicUsize,
    /// Whole answers that are under way to the client.
    sending: AtomicUsize,
}

impl Activity {
    pub fn moved(&self) {
        self.moved.fetch_add(1, Ordering::Relaxed);
    }

    pub fn begin(&self) {
        self.active.fetch_add(1, Ordering::Relaxed);
        self.moved();
    }

    pub fn end(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
        self.moved();
    }

    pub fn begin_sending(&self) {
        self.sending.fetch_add(1, Ordering::Relaxed);
    }

    pub fn end_sending(&self) {
        self.sending.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves a connection until either side ends it.
pub(super) async fn run(
    stream: TcpStream,
    tls: Secured,
    shared: Arc<Shared>,
    mut phase: watch::Receiver<Phase>,
) {
    // Answers are written whole, so waiting for more to fill a packet only costs time.
    let _ = stream.set_nodelay(true);
    let handshake = tls.acceptor.accept(Guarded::new(stream, shared.bounds.stall_timeout));
    let stream = tokio::select! {
        biased;
        finished = tokio::time::timeout(shared.bounds.handshake_timeout, handshake) => match finished {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => return shared.counters.connection_cut(),
        },
        _ = phase.changed() => return,
    };
    let (_, session) = stream.get_ref();
    let identity = session.peer_certificates().and_then(|chain| tls.identity(chain));
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let activity = Activity::default();
    let connection = Arc::new(Connection { shared, identity, activity, phase });
    if is_http2 {
        serve_http2(stream, &connection).await;
    } else {
        serve_http1(stream, &connection).await;
    }
}

async fn serve_http1(stream: TlsStream<Guarded>, connection: &Arc<Connection>) {
    let handle = service_fn(|request| handler::handle(Arc::clone(connection), request));
    let mut builder = http1::Builder::new();
    builder.max_headers(HEADERS_MAX).max_header_size(HEADER_BYTES_MAX);
    // Slow headers are cut by the tick, without a timer for each request.
    builder.timer(TokioTimer::new()).header_read_timeout(None);
    let served = builder.serve_connection(TokioIo::new(Refusing::new(stream)), handle);
    drive(served, |served| served.graceful_shutdown(), connection).await;
}

async fn serve_http2(stream: TlsStream<Guarded>, connection: &Arc<Connection>) {
    let held = Arc::clone(connection);
    let handle = service_fn(move |request| handler::handle(Arc::clone(&held), request));
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
        .max_local_error_reset_streams(LOCAL_RESETS_MAX)
        .max_header_list_size(HEADER_BYTES_READ_MAX as u32)
        .max_send_buf_size(SEND_BUFFER_BYTES_MAX)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    let served = builder.serve_connection(TokioIo::new(stream), handle);
    drive(served, |served| served.graceful_shutdown(), connection).await;
}

/// Lets a connection run; tells it to retire when the server drains or nothing moves, and cuts it when even
/// that does not help.
async fn drive<C, E>(served: C, retire: impl Fn(Pin<&mut C>), connection: &Connection)
where
    C: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    let mut served = pin!(served);
    let mut phase = connection.phase.clone();
    let tick = connection.shared.bounds.tick;
    let mut ticks = tokio::time::interval_at(Instant::now() + tick, tick);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut retiring = false;
    let mut before = 0;
    loop {
        tokio::select! {
            biased;
            ended = served.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection ended");
                }
                return;
            }
            changed = phase.changed() => {
                if changed.is_err() || *phase.borrow_and_update() == Phase::Ended {
                    return;
                }
                retire(served.as_mut());
            }
            _ = ticks.tick() => {
                let activity = &connection.activity;
                let moved = activity.moved.load(Ordering::Relaxed);
                let still = moved == std::mem::replace(&mut before, moved);
                let quiet = still && activity.active.load(Ordering::Relaxed) == 0;
                let stuck = still && activity.sending.load(Ordering::Relaxed) > 0;
                if stuck || (quiet && retiring) {
                    return connection.shared.counters.connection_cut();
                }
                if quiet {
                    retiring = true;
                    retire(served.as_mut());
                }
            }
        }
    }
}
