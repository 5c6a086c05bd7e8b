//! Connection lifecycle: handshake, authentication state, serving, idle timeout, drain.

use std::future::{Future, pending};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_rustls::server::TlsStream;

use super::error_body::ErrorBodyStream;
use super::stall::BoundedStream;
use super::tls::{ClientCertificate, TlsState};
use super::unauthenticated::Membership;
use super::{
    HEADER_BYTES_MAX, HEADER_BYTES_READ_MAX, HEADERS_MAX, LOCAL_RESETS_MAX, PENDING_RESETS_MAX,
    PING_INTERVAL, PING_TIMEOUT, Phase, SEND_BUFFER_BYTES_MAX, STREAMS_MAX, Shared, date, handler,
};

/// An accepted connection.
pub(super) struct Accepted {
    pub stream: std::net::TcpStream,
    /// Address of the client.
    pub peer: IpAddr,
    pub tls: TlsState,
    pub phase: watch::Receiver<Phase>,
    /// Membership among the unauthenticated connections.
    pub membership: Membership,
    /// Resolves when the membership ends: by eviction, or because the client has authenticated.
    pub evicted: oneshot::Receiver<()>,
}

/// State that the requests of one connection share.
pub(super) struct Connection {
    pub shared: Arc<Shared>,
    /// Address of the client.
    pub peer: IpAddr,
    /// Client certificate, if there is one.
    pub certificate: Option<ClientCertificate>,
    pub auth_state: Arc<AuthState>,
    pub activity: Activity,
    pub phase: watch::Receiver<Phase>,
}

/// Authentication state of a connection: a member of the unauthenticated ones until it authenticates, then the owner of a
/// connection slot.
pub(super) struct AuthState {
    is_authenticated: AtomicBool,
    membership: Mutex<Option<Membership>>,
    slot: Mutex<Option<OwnedSemaphorePermit>>,
}

impl AuthState {
    fn new(membership: Membership) -> Arc<AuthState> {
        let (is_authenticated, membership) = (AtomicBool::new(false), Mutex::new(Some(membership)));
        Arc::new(AuthState { is_authenticated, membership, slot: Mutex::new(None) })
    }

    /// Moves the connection to the authenticated ones. Returns `false` if these have no slot left.
    pub fn authenticate(&self, shared: &Shared) -> bool {
        if self.is_authenticated.load(Ordering::Acquire) {
            return true;
        }
        let mut slot = self.slot.lock();
        if slot.is_none() {
            let Ok(permit) = Arc::clone(&shared.slots).try_acquire_owned() else {
                shared.counters.connection_refused();
                tracing::warn!(connections = shared.bounds.connections, "too many connections");
                return false;
            };
            *slot = Some(permit);
            // Set before the membership ends; otherwise its end would count as an eviction.
            self.is_authenticated.store(true, Ordering::Release);
            *self.membership.lock() = None;
        }
        true
    }
}

/// Activity of a connection, from which the idle check distinguishes idle from dead connections.
#[derive(Default)]
pub(super) struct Activity {
    /// Number of events: complete requests, and chunks of responses that were taken.
    progress: AtomicU64,
    /// Requests whose response is not finished, including streams.
    active: AtomicUsize,
    /// Responses in flight, without streams.
    sending: AtomicUsize,
}

impl Activity {
    pub fn record_progress(&self) {
        self.progress.fetch_add(1, Ordering::Relaxed);
    }

    pub fn begin(&self) {
        self.active.fetch_add(1, Ordering::Relaxed);
        self.record_progress();
    }

    pub fn end(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
        self.record_progress();
    }

    pub(crate) fn begin_sending(&self) {
        self.sending.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_sending(&self) {
        self.sending.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves a connection until either side ends it, or it is evicted before its client has authenticated.
pub(super) async fn run(incoming: Accepted, shared: Arc<Shared>) {
    let Accepted { stream, peer, tls, phase, membership, evicted } = incoming;
    let auth_state = AuthState::new(membership);
    let eviction = async {
        let _ = evicted.await;
        if auth_state.is_authenticated.load(Ordering::Acquire) {
            pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        () = eviction => {}
        () = serve((stream, peer), tls, phase, Arc::clone(&auth_state), shared) => {}
    }
}

async fn serve(
    (stream, peer): (std::net::TcpStream, IpAddr),
    tls: TlsState,
    mut phase: watch::Receiver<Phase>,
    auth_state: Arc<AuthState>,
    shared: Arc<Shared>,
) {
    let stream = match TcpStream::from_std(stream) {
        Ok(stream) => stream,
        Err(error) => return tracing::warn!(%error, "cannot register a connection"),
    };
    // Responses are written at once, so delaying packets only costs time.
    let _ = stream.set_nodelay(true);
    let handshake = tls.acceptor.accept(BoundedStream::new(stream, shared.bounds.stall_timeout));
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
    let now = date::unix_seconds();
    let certificate =
        session.peer_certificates().map(|chain| ClientCertificate::new(tls.clone(), chain, now));
    let is_proved = certificate.as_ref().is_some_and(|certificate| certificate.is_valid(now));
    if is_proved && !auth_state.authenticate(&shared) {
        return;
    }
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let activity = Activity::default();
    let connection = Arc::new(Connection { shared, peer, certificate, auth_state, activity, phase });
    if is_http2 {
        serve_http2(stream, &connection).await;
    } else {
        serve_http1(stream, &connection).await;
    }
}

async fn serve_http1(stream: TlsStream<BoundedStream>, connection: &Arc<Connection>) {
    let handle = service_fn(|request| handler::handle(Arc::clone(connection), request));
    let mut builder = http1::Builder::new();
    builder.max_headers(HEADERS_MAX).max_header_size(HEADER_BYTES_MAX);
    // Slow headers are closed by the tick, without a timer for each request.
    builder.timer(TokioTimer::new()).header_read_timeout(None).auto_date_header(false);
    let stream = TokioIo::new(ErrorBodyStream::new(stream));
    let served = builder.serve_connection(stream, handle).with_upgrades();
    drive(served, |served| served.graceful_shutdown(), connection).await;
}

async fn serve_http2(stream: TlsStream<BoundedStream>, connection: &Arc<Connection>) {
    let held = Arc::clone(connection);
    let handle = service_fn(move |request| handler::handle(Arc::clone(&held), request));
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .auto_date_header(false)
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

/// Drives a connection. Shuts it down gracefully when the server drains or there is no activity, and drops it if that
/// takes too long.
#[expect(clippy::disallowed_methods, reason = "a connection owns the timer of its activity")]
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
    let mut last_progress = 0;
    loop {
        tokio::select! {
            biased;
            ended = served.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection closed");
                }
                return;
            }
            // A client that floods the connection uses up the budget of its task, which must not hide the clock.
            changed = unconstrained(phase.changed()) => {
                if changed.is_err() || *phase.borrow_and_update() == Phase::Ended {
                    return;
                }
                retire(served.as_mut());
            }
            _ = unconstrained(ticks.tick()) => {
                let activity = &connection.activity;
                let progress = activity.progress.load(Ordering::Relaxed);
                let is_unchanged = progress == std::mem::replace(&mut last_progress, progress);
                let is_idle = is_unchanged && activity.active.load(Ordering::Relaxed) == 0;
                let is_stuck = is_unchanged && activity.sending.load(Ordering::Relaxed) > 0;
                if is_stuck || (is_idle && retiring) {
                    return connection.shared.counters.connection_cut();
                }
                if is_idle {
                    retiring = true;
                    retire(served.as_mut());
                }
            }
        }
    }
}
