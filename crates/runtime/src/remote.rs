//! Remote shell of the loop: lists, watches and writes over HTTP while it holds the Lease.
//!
//! Each resource has a task that lists and watches it, and each write a task that sends it. Only one task touches the
//! engine, so it needs no lock. Start at [`Remote::run`].

mod endpoint;
mod queries;
mod reflectors;
mod watch;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use setpoint_api::{Clock, Entropy, Key, Resource, Revision, Time, Value, json, value};
use setpoint_reconcile::election::{LeaderElectionConfig, LeaderElectionRecord, LeaderElector, LeaseAction};
use setpoint_reconcile::{
    Engine, Jump, LoopTime, Object, ObservedChange, Query, Seed, Turn, WriteId, WriteOutcome,
};
use tokio::sync::mpsc;

use self::queries::RemoteQueries;
use self::reflectors::{Reflectors, Tasks, Touched};
use crate::client::{Client, ClientError};
use crate::in_process::SLEEP_MAX;
use crate::queries::QueryHandler;

/// Maximum number of queued reports for the loop.
const REPORTS_MAX: usize = 4096;
/// Maximum number of own writes that are kept to attribute their watch events.
const OWN_WRITES_MAX: usize = 4096;
/// Time after which a request counts as lost. A server ends requests after a minute.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Path of the Leases.
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// Message from a task to the loop.
enum Report {
    Listed { resource: Resource, objects: Vec<Object>, revision: Revision },
    Changed(ObservedChange),
    Reached { resource: Resource, revision: Revision },
    Replied { controller: &'static str, key: Key, query: Query, answer: Result<Value, String> },
    Written { id: WriteId, outcome: WriteOutcome, by: Arc<str> },
}

/// A loop over HTTP.
pub struct Remote {
    /// Connection for watches.
    pub watches: Arc<Client>,
    /// Connection for writes, so that they never wait behind watches.
    pub writes: Arc<Client>,
    /// Name of the Lease.
    pub lease: &'static str,
    /// Holder identity, as `host_id`.
    pub identity: String,
    /// Timing of the leader election.
    pub timing: LeaderElectionConfig,
    /// Wall clock and uptime.
    pub clock: Arc<dyn Clock>,
    /// Random numbers.
    pub entropy: Arc<Entropy>,
    /// Handler of queries that do not need the server.
    pub queries: Arc<QueryHandler>,
    /// Time after which a write or a list counts as lost; usually [`REQUEST_TIMEOUT`].
    pub timeout: Duration,
}

/// Time of a candidate and its loop, see [`LoopTime`].
struct LoopClock {
    clock: Arc<dyn Clock>,
    time: LoopTime,
}

impl LoopClock {
    fn new(clock: &Arc<dyn Clock>) -> LoopClock {
        LoopClock { time: LoopTime::new(clock.now(), clock.uptime()), clock: Arc::clone(clock) }
    }

    fn now(&self) -> Time {
        self.time.now(self.clock.uptime())
    }

    /// Follows the wall clock. A leader calls this before it checks its Lease.
    fn follow(&mut self, elector: &mut LeaderElector) -> Option<Jump> {
        let jump = self.time.follow(self.clock.now(), self.clock.uptime())?;
        let (seconds, is_forward) = (jump.size().as_secs(), jump.is_forward());
        tracing::warn!(seconds, is_forward, "clock jump detected");
        elector.clock_jumped(jump);
        Some(jump)
    }
}

/// State of the loop during one leadership.
#[derive(Default)]
struct LeaderState {
    /// Reconcilers by the revision of their write.
    own_writes: BTreeMap<u64, Arc<str>>,
    /// Targets whose failure has been logged.
    failed_targets: BTreeSet<&'static str>,
}

impl Remote {
    /// Runs forever: acquires the Lease, runs a new loop while it holds it, and starts over. `engine` creates a loop
    /// with an empty world.
    ///
    /// # Errors
    /// If the first request fails.
    pub async fn run(&self, engine: impl Fn() -> Engine) -> Result<(), ClientError> {
        let mut elector = LeaderElector::new(self.identity.clone()).with_config(self.timing);
        // Fails early if the server is unreachable.
        self.writes.request(Method::GET, "/version", None, Bytes::new()).await?;
        let mut clock = LoopClock::new(&self.clock);
        loop {
            self.acquire(&mut elector, &mut clock).await;
            tracing::info!(lease = self.lease, holder = %self.identity, "became leader");
            self.lead(&mut elector, &mut clock, engine()).await;
            tracing::warn!(lease = self.lease, holder = %self.identity, "lost leadership");
        }
    }

    /// Waits until this process holds the Lease.
    #[expect(clippy::disallowed_methods, reason = "a candidate waits for the Lease in real time")]
    async fn acquire(&self, elector: &mut LeaderElector, clock: &mut LoopClock) {
        let mut logged = None;
        loop {
            let reason = self.try_acquire_or_renew(elector, clock).await.err();
            clock.follow(elector);
            if elector.is_leader(clock.now()) {
                return;
            }
            if reason.is_some() && reason != logged {
                let reason = reason.as_deref().unwrap_or_default();
                tracing::info!(lease = self.lease, holder = %self.identity, reason, "waiting for the lease");
                logged = Some(reason.to_owned());
            }
            tokio::time::sleep(elector.retry_at().since(clock.now()).min(SLEEP_MAX)).await;
        }
    }

    /// Acquires or renews the Lease. Errors and timeouts are retried in the next period: a server that hangs must not
    /// keep a leader from noticing that its Lease has expired.
    ///
    /// # Errors
    /// The reason why the Lease is not held.
    async fn try_acquire_or_renew(
        &self,
        elector: &mut LeaderElector,
        clock: &LoopClock,
    ) -> Result<(), String> {
        elector.start_attempt(clock.now());
        let tried = tokio::time::timeout(self.timing.retry_period, self.update_lease(elector, clock)).await;
        tried.unwrap_or_else(|_| Err("the server does not answer in time".to_owned()))
    }

    async fn update_lease(&self, elector: &mut LeaderElector, clock: &LoopClock) -> Result<(), String> {
        let path = format!("{LEASES}/{}", self.lease);
        let found = self.writes.request(Method::GET, &path, None, Bytes::new()).await;
        let (status, body) = found.map_err(|error| error.to_string())?;
        let held = match status.as_u16() {
            200 => {
                let lease = json::parse(&body).unwrap_or_default();
                let revision = lease.str_at(&["metadata", "resourceVersion"]).parse().unwrap_or(0);
                Some(LeaderElectionRecord::from_lease(&lease, Revision(revision)))
            }
            404 => None,
            _ => return Err(status_message(&body)),
        };
        let holder = held.as_ref().map(|held| held.holder.clone()).unwrap_or_default();
        let started = clock.now();
        let metadata = value!({"name": (self.lease), "namespace": "kube-system"});
        let (method, path, mut lease) = match elector.try_acquire_or_renew(held, started) {
            LeaseAction::Wait(_) => return Err(format!("held by {holder}")),
            LeaseAction::Create(spec) => {
                (Method::POST, LEASES.to_owned(), value!({"metadata": (metadata), "spec": (spec)}))
            }
            LeaseAction::Update(spec, revision) => {
                let mut lease = value!({"metadata": (metadata), "spec": (spec)});
                lease.ensure_map("metadata").insert("resourceVersion", revision.to_string());
                (Method::PUT, path, lease)
            }
        };
        lease.make_map().insert("kind", "Lease");
        lease.make_map().insert("apiVersion", "coordination.k8s.io/v1");
        let body = json::to_vec(&lease).into();
        let response = self.writes.request(method, &path, Some("application/json"), body).await;
        let (status, body) = response.map_err(|error| error.to_string())?;
        if !status.is_success() {
            return Err(status_message(&body));
        }
        elector.lease_written(started);
        Ok(())
    }

    /// Runs the loop while this process holds the Lease.
    async fn lead(&self, elector: &mut LeaderElector, clock: &mut LoopClock, mut engine: Engine) {
        let (reports, mut inbox) = mpsc::channel(REPORTS_MAX);
        let mut tasks = Tasks { set: tokio::task::JoinSet::new(), reports };
        let mut reflectors = Reflectors::start(self, &mut tasks);
        let mut state = LeaderState::default();
        let mut next_turn_at = clock.now();
        while elector.is_leader(clock.now()) {
            let pause = next_turn_at.min(elector.retry_at()).since(clock.now()).min(SLEEP_MAX);
            let first = tokio::time::timeout(pause, inbox.recv()).await.ok().flatten();
            if let Some(jump) = clock.follow(elector) {
                engine.clock_jumped(jump, clock.now());
            }
            let mut turn = Turn::default();
            let mut next = first;
            while let Some(report) = next {
                if reflectors.accepts(&report) {
                    let touched = Touched::by(&report);
                    apply_report(report, &mut engine, &mut state, clock.now(), &mut turn);
                    reflectors.update(self, &mut tasks, &mut engine, touched, clock.now());
                }
                next = inbox.try_recv().ok();
            }
            if clock.now() >= elector.retry_at() {
                // The elector has the outcome; an error is retried.
                let _ = self.try_acquire_or_renew(elector, clock).await;
            }
            // The Lease may have expired during the request.
            if !elector.is_leader(clock.now()) {
                break;
            }
            // Planning starts when every resource is listed: with an incomplete world a planner would create objects
            // twice.
            if reflectors.is_ready() {
                let planned = engine.turn(clock.now(), Seed((self.entropy)()));
                turn.writes.extend(planned.writes);
                turn.queries.extend(planned.queries);
                next_turn_at = planned.next_turn_at.unwrap_or_else(|| clock.now().after(SLEEP_MAX));
            } else {
                next_turn_at = elector.retry_at();
            }
            for request in turn.writes {
                let (client, reports) = (Arc::clone(&self.writes), tasks.reports.clone());
                let endpoint = reflectors.endpoint(request.write.resource());
                tasks.set.spawn(writes::write(client, request, endpoint, self.timeout, reports));
            }
            for query in turn.queries {
                tasks.set.spawn(self.queries().answer(query, tasks.reports.clone()));
            }
            while tasks.set.try_join_next().is_some() {}
        }
        // Dropping the tasks cancels requests in flight; the next leadership lists their effects.
    }

    fn queries(&self) -> RemoteQueries {
        RemoteQueries {
            client: Arc::clone(&self.writes),
            local: Arc::clone(&self.queries),
            clock: Arc::clone(&self.clock),
            entropy: Arc::clone(&self.entropy),
        }
    }
}

fn apply_report(report: Report, engine: &mut Engine, state: &mut LeaderState, now: Time, turn: &mut Turn) {
    let own_writes = &mut state.own_writes;
    match report {
        Report::Listed { resource, objects, revision } => {
            engine.relist(&resource, objects, revision, now);
        }
        Report::Changed(mut observed) => {
            observed.reconciler = own_writes.get(&observed.revision.0).cloned();
            engine.observe(observed, now);
        }
        Report::Reached { resource, revision } => engine.reach_of(&resource, revision),
        Report::Replied { controller, key, query, answer } => {
            if let Err(error) = &answer
                && state.failed_targets.insert(query.target)
            {
                tracing::warn!(controller, %key, query = query.target, error, "query failed");
            }
            engine.answer_query(controller, &key, &query.id, answer, now);
        }
        Report::Written { id, outcome, by } => {
            if let WriteOutcome::Done { revision, .. } = &outcome {
                own_writes.insert(revision.0, by);
                if own_writes.len() > OWN_WRITES_MAX {
                    own_writes.pop_first();
                }
            }
            engine.complete_write(id, outcome, now, turn);
        }
    }
}

/// Message of a `Status` body.
fn status_message(body: &[u8]) -> String {
    json::parse(body).unwrap_or_default().str_at(&["message"]).to_owned()
}

/// A text field of a body's `metadata`.
fn meta<'a>(body: &'a Value, field: &str) -> &'a str {
    body.str_at(&["metadata", field])
}

/// Time of a change: its arrival.
fn arrived(clock: &dyn Clock) -> Time {
    clock.now()
}
