//! API priority and fairness of this server: classifies requests by the stored FlowSchemas, and has them wait for seats
//! of their priority level.
//!
//! [`Fairness::take_seats`] is called with the head of a request. In the common case it takes the lock of one level,
//! and the request continues with its [`Seats`]. Otherwise the request is rejected, or waits as a task, with its body
//! unread, until it is dispatched, its deadline passes, or its client disconnects, which drops the task. Seats are
//! released when they are dropped: with the last byte of the response, or when a watch has sent its initial events.
//!
//! The configuration is compiled when a stored object has changed. Each thread keeps the classifications of recent
//! requests: see [`classifier`].
//!
//! Clients that use HTTP/1.1 and send a body are not seen to disconnect while they wait, since nothing reads the
//! connection then; they leave the queue at their deadline.

mod classifier;
mod current_requests;
pub mod deadline;
mod estimate;
mod metrics;
mod objects;
mod seats;
mod timer;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use setpoint_api::rfc3339::Nanos;
use setpoint_api::{Clock, RequestInfo};
use setpoint_fairness::{Controller, Start, WatchScope, WatchTracker, priority_levels, queues, requests};
use setpoint_store::Snapshot;
use tokio::sync::{Notify, oneshot};

pub use self::seats::{Refusal, Seats};

use self::classifier::Classified;
use self::current_requests::{CountedRequest, CurrentRequests, RequestPhase};
use self::objects::{CompiledConfiguration, StoredObjects};
use self::seats::{OccupiedSeats, WatchRegistration};
use crate::catalog::Catalogs;
use crate::exchange::Request;
use crate::query::QueryParams;
use crate::request_info::RequestAttributes;

/// Seats of a server that configures none: upstream's defaults for reads and writes.
pub const SEATS_DEFAULT: u32 = 400 + 200;
/// Subresources that connect to a container or Service: such requests are not counted.
const CONNECTING: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// Resumes a request that waited.
type Waiter = oneshot::Sender<()>;

/// Priority levels of a server.
pub struct Fairness {
    clock: Arc<dyn Clock>,
    /// Seed of the flows' hashes.
    seed: u64,
    controller: Controller<Waiter>,
    /// Configuration in force, and its generation.
    compiled: RwLock<Arc<CompiledConfiguration>>,
    generation: AtomicU64,
    /// Newest revision of the store whose objects are in force.
    revision: AtomicU64,
    /// Objects as they were read last. Its lock is held while the configuration changes, before those of the levels.
    stored: Mutex<StoredObjects>,
    watches: Arc<WatchTracker>,
    current: Arc<CurrentRequests>,
    /// Time of the next adjustment of limits, in nanoseconds of the uptime.
    adjust_at: AtomicU64,
    timer: TimerState,
}

/// State of the task that releases seats while requests wait.
#[derive(Default)]
struct TimerState {
    is_running: AtomicBool,
    /// Time at which the task acts next, in nanoseconds of the uptime.
    wakes_at: AtomicU64,
    wake: Notify,
}

/// Decision about a request.
pub enum Seating<F> {
    /// The request may continue.
    Taken(Seats),
    /// The request must wait.
    Waiting(F),
    /// The request is rejected.
    Refused(Refusal),
}

impl Fairness {
    /// Creates the priority levels of a server with so many seats. Stored objects are read at the first request.
    #[must_use]
    pub fn new(server_seats: u32, clock: Arc<dyn Clock>, seed: u64) -> Fairness {
        let now = clock.uptime();
        let controller = Controller::new(server_seats, now);
        let stored = StoredObjects::default();
        let compiled = stored.compile(&controller, now).0;
        let fairness = Fairness {
            clock,
            seed,
            controller,
            generation: AtomicU64::new(compiled.generation()),
            compiled: RwLock::new(compiled),
            revision: AtomicU64::new(0),
            stored: Mutex::new(stored),
            watches: Arc::default(),
            current: Arc::new(CurrentRequests::new(now)),
            adjust_at: AtomicU64::new(0),
            timer: TimerState::default(),
        };
        fairness.schedule_adjustment(now);
        fairness
    }

    /// Takes the seats of a request by its head, or queues it.
    pub fn take_seats(
        self: &Arc<Fairness>,
        head: &Request,
        (snapshot, catalogs): (&Snapshot, &Catalogs),
    ) -> Seating<impl Future<Output = Result<Seats, Refusal>> + Send + use<>> {
        let attributes = RequestAttributes::of(head);
        let info = attributes.info();
        let is_watch = info.is_resource && info.verb == "watch";
        if !is_watch && connects(&info) {
            return Seating::Taken(Seats::default());
        }
        self.refresh(snapshot);
        let now = self.clock.uptime();
        self.adjust_if_due(now);
        let selectors = attributes.for_user(&head.identity).field_selector;
        let work = estimate::work(&info, &head.query, (snapshot, catalogs), &self.watches);
        let started = loop {
            let attempt = |classified: &Classified, compiled: &Arc<CompiledConfiguration>| {
                let mut waiting = None;
                let schema = &compiled.schemas()[classified.schema];
                let arrival = classified.arrival(compiled, &info, work);
                let mut level = schema.level.lock();
                let start = level.start(now, &arrival, || {
                    let (sender, receiver) = oneshot::channel();
                    waiting = Some(receiver);
                    sender
                });
                let dispatched = level.take_dispatched();
                drop(level);
                wake(dispatched);
                let headers = compiled.headers(classified.schema);
                (start, Arc::clone(&schema.level), headers, waiting)
            };
            let started = classifier::classify(self, &head.identity, &info, attempt);
            if started.0 != Start::Stale {
                break started;
            }
            // The configuration changes right now: wait for its publication.
            drop(self.stored.lock());
        };
        let (start, level, headers, waiting) = started;
        let watch = is_watch.then(|| estimate::watch_scope(&info, selectors)).flatten();
        let (id, phase) = match start {
            Start::Executing(id) => (id, RequestPhase::Executing),
            Start::Waiting(id) => (id, RequestPhase::Waiting),
            Start::Stale => unreachable!("stale configurations are tried again"),
            Start::Rejected(rejection, retry_after) => {
                tracing::debug!(reason = rejection.as_str(), path = %head.path, "request rejected");
                return Seating::Refused(Refusal { retry_after, headers });
            }
        };
        let counted = CountedRequest::begin(&self.current, now, &info, phase);
        let occupied = OccupiedSeats::new(Arc::clone(self), level, id, counted);
        let seats = Seats::new(occupied, headers, is_watch);
        let Some(waiting) = waiting else { return Seating::Taken(self.registered(seats, watch)) };
        let limit = deadline::wait_limit(&head.query, is_watch);
        Seating::Waiting(Arc::clone(self).wait(seats, watch, waiting, limit))
    }

    /// Waits until a request is dispatched, at most for `limit`.
    async fn wait(
        self: Arc<Fairness>,
        mut seats: Seats,
        watch: Option<WatchScope>,
        dispatched: oneshot::Receiver<()>,
        limit: Duration,
    ) -> Result<Seats, Refusal> {
        timer::ensure_running(&self);
        if tokio::time::timeout(limit, dispatched).await.is_err()
            && let Some(refusal) = seats.expire()
        {
            return Err(refusal);
        }
        seats.execute();
        Ok(self.registered(seats, watch))
    }

    /// Counts the watch of a request that was dispatched.
    fn registered(&self, mut seats: Seats, watch: Option<WatchScope>) -> Seats {
        seats.watch = watch.map(|scope| WatchRegistration::new(Arc::clone(&self.watches), scope));
        seats
    }

    /// Applies the stored objects if they have changed.
    fn refresh(&self, snapshot: &Snapshot) {
        let revision = snapshot.revision().0;
        if self.revision.load(Ordering::Acquire) >= revision {
            return;
        }
        let mut stored = self.stored.lock();
        if stored.read(snapshot) {
            let (compiled, dispatched) = stored.compile(&self.controller, self.clock.uptime());
            let generation = compiled.generation();
            *self.compiled.write() = compiled;
            self.generation.store(generation, Ordering::Release);
            wake(dispatched);
        }
        self.revision.fetch_max(revision, Ordering::AcqRel);
    }

    /// Adjusts the limits once in a period.
    fn adjust_if_due(&self, now: Duration) {
        if nanos(now) >= self.adjust_at.load(Ordering::Relaxed) {
            self.schedule_adjustment(now);
            wake(self.controller.adjust(now));
        }
    }

    fn schedule_adjustment(&self, now: Duration) {
        self.adjust_at.store(nanos(now + setpoint_fairness::ADJUSTMENT_PERIOD), Ordering::Relaxed);
    }

    /// Returns the metrics in Prometheus' text format.
    #[must_use]
    pub(crate) fn metrics(&self) -> String {
        let now = self.clock.uptime();
        self.adjust_if_due(now);
        metrics::text(&self.controller, &self.current, now)
    }

    /// Returns a dump below `/debug/api_priority_and_fairness/`; `None` if there is none of this name.
    #[must_use]
    pub(crate) fn dump(&self, name: &str, query: &str) -> Option<String> {
        let (now, uptime) = (self.clock.now(), self.clock.uptime());
        let time = |at: Duration| Nanos(now.before(uptime.saturating_sub(at))).to_string();
        Some(match name {
            "dump_priority_levels" => priority_levels(&self.controller, uptime),
            "dump_queues" => queues(&self.controller),
            "dump_requests" => {
                let has_details = !QueryParams::parse(query).get("includeRequestDetails").is_empty();
                requests(&self.controller, has_details, &time)
            }
            _ => return None,
        })
    }
}

/// `true` for requests that connect to a container, node or Service.
fn connects(info: &RequestInfo<'_>) -> bool {
    info.verb == "proxy" || info.is_resource && CONNECTING.contains(&info.subresource)
}

/// Resumes requests that were dispatched. Those that have given up meanwhile release their seats themselves.
fn wake(dispatched: Vec<Waiter>) {
    for waiter in dispatched {
        let _ = waiter.send(());
    }
}

fn nanos(uptime: Duration) -> u64 {
    u64::try_from(uptime.as_nanos()).unwrap_or(u64::MAX)
}
