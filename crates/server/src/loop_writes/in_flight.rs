//! Writes of the loop in flight: decided by the pipeline, queued in the store.
//!
//! Writes are decided one after the other and committed together. Writes that charge the quotas of one namespace
//! cannot be committed together: each must see the charge of the one before. They wait for each other, and a write
//! whose quota changed meanwhile is decided again. Both are invisible to the loop.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use setpoint_api::status::Status;
use setpoint_api::{Clock, Entropy, Time};
use setpoint_reconcile::{WriteExecutor, WriteId, WriteOutcome, WriteRejection, WriteRequest};
use setpoint_store::{CommitError, CommitResponse, Proposal, RejectReason, Store};

use super::access::identity;
use super::event_logger::EventLogger;
use super::{Prepared, outcome, prepare, rejected_outcome};
use crate::audit::LoopAudit;
use crate::authorization::{Authorization, AuthorizationContext};
use crate::catalog::Catalogs;
use crate::conversion::shell::ConversionBatch;
use crate::conversion::{ConversionContext, ConversionWebhooks, RequestConversions};
use crate::pipeline::admission::AdmissionControl;
use crate::pipeline::admission::tolerations::Tolerations;
use crate::pipeline::{RequestContext, quota};
use crate::webhooks::answers::WebhookAnswers;
use crate::webhooks::{AdmissionWebhooks, CallBatch, WebhookContext};

/// Maximum number of times that a write is decided again because its quotas changed.
const CONFLICTS_MAX: usize = 100;

/// Commits that are queued before the store is woken. They share a sync, and the first waits only for a moment.
const WAKE_EVERY: usize = 256;

/// Executor of the loop's writes over a store.
pub struct InFlightWrites {
    store: Store,
    clock: Arc<dyn Clock>,
    entropy: Arc<Entropy>,
    tolerations: Tolerations,
    admission: AdmissionControl,
    catalogs: Catalogs,
    commits: Vec<InFlightCommit>,
    /// Namespaces in which a charged commit is in flight, and the writes that wait for it.
    held: BTreeMap<Box<str>, VecDeque<PendingWrite>>,
    /// `true` if a commit was queued since the last submit.
    has_queued: bool,
    logger: EventLogger,
    /// Admission webhooks; without them, none are called.
    webhooks: Option<Arc<AdmissionWebhooks>>,
    /// Conversion webhooks; without them, none are called.
    conversions: Option<Arc<ConversionWebhooks>>,
    /// Authorizers; without them, every write is allowed.
    authorization: Option<Arc<Authorization>>,
    /// Audit of the writes; without it, none are audited.
    audit: Option<LoopAudit>,
    /// Writes that wait for webhooks.
    calling: Vec<(PendingWrite, RunningCalls)>,
}

/// A write to decide, and the number of its quota conflicts so far.
struct PendingWrite {
    request: WriteRequest,
    conflicts: usize,
    /// Set by the first webhook call.
    admission: Option<Box<AdmissionState>>,
}

/// Calls that a write waits for.
enum RunningCalls {
    Admission(CallBatch),
    Conversion(ConversionBatch),
}

/// Inputs that all decisions of a write share once webhooks were called for it.
struct AdmissionState {
    entropy: [u64; 3],
    now: Time,
    answers: WebhookAnswers,
    conversions: RequestConversions,
}

/// A commit in flight.
struct InFlightCommit {
    id: WriteId,
    name: Box<str>,
    charged: Option<Charged>,
    pending: setpoint_store::PendingCommit,
}

/// A write that charges quotas. Only such a write can be decided again, so only these are kept.
struct Charged {
    namespace: Box<str>,
    pending: PendingWrite,
}

impl InFlightWrites {
    /// An executor without writes.
    #[must_use]
    pub fn new(
        store: Store,
        clock: Arc<dyn Clock>,
        entropy: Arc<Entropy>,
        tolerations: Tolerations,
    ) -> InFlightWrites {
        InFlightWrites {
            store,
            clock,
            entropy,
            tolerations,
            admission: AdmissionControl::default(),
            catalogs: Catalogs::default(),
            commits: Vec::new(),
            held: BTreeMap::new(),
            has_queued: false,
            logger: EventLogger::default(),
            webhooks: None,
            conversions: None,
            authorization: None,
            audit: None,
            calling: Vec::new(),
        }
    }

    /// Calls these admission webhooks.
    #[must_use]
    pub fn with_webhooks(mut self, webhooks: Arc<AdmissionWebhooks>) -> InFlightWrites {
        self.webhooks = Some(webhooks);
        self
    }

    /// Runs these admission plugins.
    #[must_use]
    pub fn with_admission(mut self, admission: AdmissionControl) -> InFlightWrites {
        self.admission = admission;
        self
    }

    /// Calls these conversion webhooks.
    #[must_use]
    pub fn with_conversions(mut self, conversions: Arc<ConversionWebhooks>) -> InFlightWrites {
        self.conversions = Some(conversions);
        self
    }

    /// Allows each write only if these authorizers allow it to its user.
    #[must_use]
    pub fn with_authorization(mut self, authorization: Arc<Authorization>) -> InFlightWrites {
        self.authorization = Some(authorization);
        self
    }

    /// Audits the writes.
    #[must_use]
    pub fn with_audit(mut self, audit: LoopAudit) -> InFlightWrites {
        self.audit = Some(audit);
        self
    }

    fn begin_audit(&mut self, request: &WriteRequest) {
        let Some(audit) = &mut self.audit else { return };
        let catalog = self.catalogs.of(&self.store.snapshot());
        if let Some(resource_type) = catalog.storage_type(request.write.resource()) {
            audit.begin(request, resource_type, identity(&request.user));
        }
    }

    fn end_audit(&mut self, ended: &[(WriteId, WriteOutcome)]) {
        let Some(audit) = self.audit.as_mut().filter(|_| !ended.is_empty()) else { return };
        let snapshot = self.store.snapshot();
        ended.iter().for_each(|(id, outcome)| audit.end(*id, outcome, &snapshot));
    }

    /// Decides a write, and queues its commit unless it has to wait for another one.
    fn begin(&mut self, pending: PendingWrite) -> Option<(WriteId, WriteOutcome)> {
        let (entropy, now) = match &pending.admission {
            Some(admission) => (admission.entropy, admission.now),
            None => ([(); 3].map(|()| (self.entropy)()), self.clock.now()),
        };
        match self.prepare(&pending, entropy, now) {
            Prepared::Call(calls) => self.call(pending, (entropy, now), |writes, state| {
                let webhooks = writes.webhooks.as_ref()?;
                Some(webhooks.start(calls, &mut state.answers).map(RunningCalls::Admission))
            }),
            Prepared::Convert(calls) => self.call(pending, (entropy, now), |writes, state| {
                let webhooks = writes.conversions.as_ref()?;
                Some(webhooks.start(calls, &mut state.conversions).map(RunningCalls::Conversion))
            }),
            Prepared::Settled(outcome) => {
                log_rejected(&pending.request, &outcome);
                Some((pending.request.id, outcome))
            }
            Prepared::Commit(proposal, name) => {
                let (id, namespace) = (pending.request.id, charged_namespace(&proposal));
                if let Some(namespace) = &namespace {
                    if let Some(waiting) = self.held.get_mut(namespace) {
                        waiting.push_back(pending);
                        return None;
                    }
                    self.held.insert(namespace.clone(), VecDeque::new());
                }
                let charged = namespace.map(|namespace| Charged { namespace, pending });
                let commit = self.store.enqueue(*proposal);
                self.commits.push(InFlightCommit { id, name, charged, pending: commit });
                self.has_queued = true;
                if self.commits.len().is_multiple_of(WAKE_EVERY) {
                    self.store.wake();
                }
                None
            }
        }
    }

    fn prepare(&self, pending: &PendingWrite, entropy: [u64; 3], now: Time) -> Prepared {
        let snapshot = self.store.snapshot();
        let catalog = self.catalogs.of(&snapshot);
        let none = (WebhookAnswers::default(), RequestConversions::default());
        let (answers, conversions) = match &pending.admission {
            Some(admission) => (&admission.answers, &admission.conversions),
            None => (&none.0, &none.1),
        };
        let conversions = self
            .conversions
            .as_ref()
            .map(|_| ConversionContext { request: conversions, keeps_version: true });
        let webhooks = self.webhooks.as_ref();
        let webhooks = webhooks.map(|webhooks| WebhookContext { registry: &webhooks.registry, answers });
        prepare(
            &pending.request,
            &RequestContext {
                snapshot: &snapshot,
                now,
                entropy,
                tolerations: self.tolerations,
                catalog: &catalog,
                admission: self.admission.context(None),
                webhooks,
                conversions,
                authorization: self
                    .authorization
                    .as_deref()
                    .map(|authorization| AuthorizationContext { authorization, answers: None }),
            },
        )
    }

    /// Calls webhooks for a write, which is decided again with their answers.
    fn call(
        &mut self,
        mut pending: PendingWrite,
        (entropy, now): ([u64; 3], Time),
        start: impl FnOnce(&InFlightWrites, &mut AdmissionState) -> Option<Result<RunningCalls, Status>>,
    ) -> Option<(WriteId, WriteOutcome)> {
        let state = || {
            let (answers, conversions) = (WebhookAnswers::default(), RequestConversions::default());
            Box::new(AdmissionState { entropy, now, answers, conversions })
        };
        let admission = pending.admission.get_or_insert_with(state);
        match start(self, admission)? {
            Ok(calls) => {
                self.calling.push((pending, calls));
                self.has_queued = true;
                None
            }
            Err(status) => Some(rejected(&pending.request, &status)),
        }
    }

    /// Decides writes again whose webhooks have answered.
    fn poll_calls(&mut self, context: &mut Context<'_>, ended: &mut Vec<(WriteId, WriteOutcome)>) {
        let mut has_answers = true;
        // A decision may begin further calls, which must be polled too.
        while has_answers {
            has_answers = false;
            for (mut pending, mut calls) in std::mem::take(&mut self.calling) {
                let state = pending.admission.as_mut().expect("a write that calls webhooks has a state");
                let Poll::Ready(answered) = calls.poll(state, context) else {
                    self.calling.push((pending, calls));
                    continue;
                };
                has_answers = true;
                ended.extend(match answered {
                    Ok(()) => self.begin(pending),
                    Err(status) => Some(rejected(&pending.request, &status)),
                });
            }
        }
        if std::mem::take(&mut self.has_queued) {
            self.store.wake();
        }
    }

    fn end_charged(
        &mut self,
        Charged { namespace, mut pending }: Charged,
        name: Box<str>,
        committed: Result<CommitResponse, CommitError>,
        ended: &mut Vec<(WriteId, WriteOutcome)>,
    ) {
        let mut waiting = self.held.remove(&namespace).unwrap_or_default();
        if has_quota_conflict(&committed) && pending.conflicts < CONFLICTS_MAX {
            pending.conflicts += 1;
            waiting.push_front(pending);
        } else {
            ended.push((pending.request.id, outcome(committed, name)));
        }
        while let Some(next) = waiting.pop_front() {
            ended.extend(self.begin(next));
            if let Some(held) = self.held.get_mut(&namespace) {
                held.append(&mut waiting);
            }
        }
    }
}

impl RunningCalls {
    /// Adds the answers to the state of the write, once all are there.
    fn poll(&mut self, state: &mut AdmissionState, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        match self {
            RunningCalls::Admission(batch) => {
                let answers = std::task::ready!(Pin::new(batch).poll(context));
                state.answers.extend(answers);
            }
            RunningCalls::Conversion(batch) => match std::task::ready!(batch.as_mut().poll(context)) {
                Ok(converted) => state.conversions.extend(converted),
                Err(status) => return Poll::Ready(Err(status)),
            },
        }
        Poll::Ready(Ok(()))
    }
}

/// Outcome of a write whose webhooks could not be called.
fn rejected(request: &WriteRequest, status: &Status) -> (WriteId, WriteOutcome) {
    let outcome = rejected_outcome(&request.write, status);
    log_rejected(request, &outcome);
    (request.id, outcome)
}

impl WriteExecutor for InFlightWrites {
    fn start(&mut self, request: WriteRequest) -> Option<(WriteId, WriteOutcome)> {
        self.logger.log(&request, || self.clock.now());
        self.begin_audit(&request);
        let ended = self.begin(PendingWrite { request, conflicts: 0, admission: None });
        self.end_audit(ended.as_slice());
        ended
    }

    fn submit(&mut self) -> bool {
        if self.has_queued {
            self.store.wake();
        }
        std::mem::take(&mut self.has_queued)
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Vec<(WriteId, WriteOutcome)> {
        let mut ended = Vec::new();
        if !self.calling.is_empty() {
            self.poll_calls(context, &mut ended);
        }
        let mut done = Vec::new();
        let mut unfinished = Vec::new();
        for mut commit in self.commits.drain(..) {
            match Pin::new(&mut commit.pending).poll(context) {
                Poll::Ready(committed) => done.push((commit.id, commit.name, commit.charged, committed)),
                Poll::Pending => unfinished.push(commit),
            }
        }
        self.commits = unfinished;
        for (id, name, charged, committed) in done {
            match charged {
                None => ended.push((id, outcome(committed, name))),
                Some(charged) => self.end_charged(charged, name, committed, &mut ended),
            }
        }
        self.end_audit(&ended);
        ended
    }

    fn is_idle(&self) -> bool {
        self.commits.is_empty() && self.calling.is_empty()
    }
}

/// Logs a write that was rejected.
fn log_rejected(WriteRequest { write, manager, reconciler: by, .. }: &WriteRequest, outcome: &WriteOutcome) {
    if let WriteOutcome::Rejected(WriteRejection { reason, message }) = outcome {
        let (verb, resource, by) = (write.verb(), write.resource(), &**by);
        tracing::warn!(component = *manager, by, verb, %resource, reason, why = message, "write rejected");
    }
}

fn charged_namespace(proposal: &Proposal) -> Option<Box<str>> {
    quota::charged_quota(proposal)?.namespace().map(Into::into)
}

/// `true` if a quota that the write is charged to changed meanwhile.
fn has_quota_conflict(committed: &Result<CommitResponse, CommitError>) -> bool {
    matches!(
        committed,
        Err(CommitError::Rejected(RejectReason::Conflict(conflict))) if quota::is_quota(&conflict.key)
    )
}
