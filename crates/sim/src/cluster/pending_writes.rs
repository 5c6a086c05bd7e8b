//! Writes of a simulated control plane in progress: they may wait for webhooks, while virtual time passes.
//!
//! A write is decided by the pipeline. If that needs webhooks, the write waits until all of them have answered, and is
//! decided again on the newest state. The loop that sent a write may have stopped by then, or run elsewhere.

use std::sync::Arc;

use setpoint_api::status::Status;
use setpoint_api::{Resource, Revision, Time};
use setpoint_reconcile::{Jump, Turn, Write, WriteId, WriteOutcome, WriteRejection, WriteRequest};
use setpoint_server::loop_writes::{self, Prepared};
use setpoint_server::pipeline::{PipelineResult, RequestContext, WriteOrigin};
use setpoint_server::webhooks::answers::{AnswerKey, PendingCall, WebhookAnswer, WebhookAnswers};
use setpoint_server::webhooks::{CALLS_MAX, Operation, REQUEST_TIMEOUT, WebhookContext};
use setpoint_store::{Proposal, Snapshot};

use super::webhooks::Review;
use super::{Cluster, CommitOrigin, UserWrite};

const LEASES: &str = "leases.coordination.k8s.io";

/// Identity of a running loop. A loop that stopped and starts again has another one.
#[derive(Clone, Default)]
pub(super) struct LoopId(Arc<()>);

impl PartialEq for LoopId {
    fn eq(&self, other: &LoopId) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Admission of a commit by webhooks.
#[derive(Clone, Debug)]
pub struct AdmissionRecord {
    /// Resource that was written.
    pub resource: Resource,
    /// Operation on the resource itself.
    pub operation: Operation,
    /// Calls of webhooks, in order.
    pub reviews: Vec<Review>,
}

/// A write that waits for webhooks.
pub(super) struct PendingWrite {
    sender: Sender,
    entropy: [u64; 3],
    /// Time of the first decision, which all decisions share.
    now: Time,
    answers: WebhookAnswers,
    reviews: Vec<Review>,
    /// Answers of the calls in flight.
    coming: Vec<(AnswerKey, WebhookAnswer)>,
    /// Time at which all calls in flight are answered.
    answered_at: Time,
    /// Time at which the request ends.
    ends_at: Time,
}

/// Sender of a write.
enum Sender {
    /// A loop. Without an id it is gone, or did not wait.
    Loop {
        id: Option<LoopId>,
        request: Box<WriteRequest>,
        is_response_lost: bool,
    },
    User {
        write: Box<UserWrite>,
        origin: Box<WriteOrigin>,
    },
}

/// Outcome of a write of a loop that is parked.
pub(super) struct ParkedOutcome {
    loop_id: LoopId,
    id: WriteId,
    outcome: WriteOutcome,
}

/// Result of a write.
enum WriteResult {
    Loop(WriteOutcome),
    User(Result<Revision, Status>),
}

/// Result of a decision.
enum Decided {
    Settled(WriteResult),
    Commit(Box<Proposal>, Box<str>),
    Call(Vec<PendingCall>),
}

impl Sender {
    fn resource(&self) -> &str {
        match self {
            Sender::Loop { request, .. } => request.write.resource().as_str(),
            Sender::User { write, .. } => write.resource(),
        }
    }

    /// Operation on the resource itself; `None` for a subresource, and for Events, which webhooks here do not match.
    fn operation(&self) -> Option<Operation> {
        match self {
            Sender::User { write, .. } => write.operation(),
            Sender::Loop { request, .. } => match &request.write {
                Write::Create { .. } => Some(Operation::Create),
                Write::Patch { subresource: "", .. } | Write::Apply { subresource: "", .. } => {
                    Some(Operation::Update)
                }
                Write::Delete { .. } => Some(Operation::Delete),
                Write::Patch { .. } | Write::Apply { .. } | Write::Post { .. } | Write::CreateEvent(_) => {
                    None
                }
            },
        }
    }

    fn rejected(&self, status: Status) -> WriteResult {
        match self {
            Sender::User { .. } => WriteResult::User(Err(status)),
            Sender::Loop { .. } => WriteResult::Loop(WriteOutcome::Rejected(WriteRejection {
                reason: status.reason.as_str().to_owned(),
                message: status.message.to_string(),
            })),
        }
    }
}

impl Cluster {
    /// Performs a write of the loop. `None` if it waits for webhooks; its outcome comes later.
    pub(super) fn write(&mut self, request: WriteRequest, is_response_lost: bool) -> Option<WriteOutcome> {
        self.begin_loop_write(Some(self.loop_id.clone()), request, is_response_lost)
    }

    /// Performs a write of a loop that has stopped.
    pub(super) fn write_detached(&mut self, request: WriteRequest) -> Option<WriteOutcome> {
        let outcome = self.begin_loop_write(None, request, false);
        // A write without effect is not committed: its revision is that of an older commit.
        if let Some(WriteOutcome::Done { revision, .. }) = &outcome
            && let Some(origin) = self.origins.get_mut(revision)
        {
            origin.is_late = true;
        }
        outcome
    }

    /// Performs a write whose outcome the loop never learns.
    pub(super) fn write_unanswered(&mut self, request: WriteRequest) {
        self.begin_loop_write(None, request, false);
    }

    fn begin_loop_write(
        &mut self,
        id: Option<LoopId>,
        request: WriteRequest,
        is_response_lost: bool,
    ) -> Option<WriteOutcome> {
        let sender = Sender::Loop { id, request: Box::new(request), is_response_lost };
        match self.begin(sender)? {
            WriteResult::Loop(outcome) => Some(outcome),
            WriteResult::User(_) => None,
        }
    }

    pub(super) fn begin_user_write(
        &mut self,
        write: UserWrite,
        origin: WriteOrigin,
    ) -> Option<Result<Revision, Status>> {
        match self.begin(Sender::User { write: Box::new(write), origin: Box::new(origin) })? {
            WriteResult::User(result) => Some(result),
            WriteResult::Loop(_) => None,
        }
    }

    fn begin(&mut self, sender: Sender) -> Option<WriteResult> {
        let entropy = [self.rng.u64(..), self.rng.u64(..), self.rng.u64(..)];
        self.advance(PendingWrite {
            sender,
            entropy,
            now: self.now,
            answers: WebhookAnswers::default(),
            reviews: Vec::new(),
            coming: Vec::new(),
            answered_at: self.now,
            ends_at: self.now.after(REQUEST_TIMEOUT),
        })
    }

    /// Decides a write until it ends, or has to wait.
    fn advance(&mut self, mut pending: PendingWrite) -> Option<WriteResult> {
        loop {
            let result = match self.decide(&pending) {
                Decided::Settled(result) => result,
                Decided::Commit(proposal, name) => self.commit_write(&mut pending, *proposal, name),
                Decided::Call(calls) => match self.call(&mut pending, calls) {
                    Err(status) => pending.sender.rejected(status),
                    Ok(()) if pending.answered_at > self.now => {
                        self.calling.push(pending);
                        return None;
                    }
                    Ok(()) => {
                        pending.receive();
                        continue;
                    }
                },
            };
            self.record_result(&pending, &result);
            return Some(result);
        }
    }

    fn decide(&self, pending: &PendingWrite) -> Decided {
        let snapshot = self.store.snapshot();
        match &pending.sender {
            Sender::Loop { request, .. } => {
                let catalog = self.catalogs.of(&snapshot);
                let context = RequestContext {
                    snapshot: &snapshot,
                    now: pending.now,
                    entropy: pending.entropy,
                    tolerations: Default::default(),
                    catalog: &catalog,
                    webhooks: self.webhook_context(&pending.answers),
                    conversions: None,
                    authorization: None,
                };
                match loop_writes::prepare(request, &context) {
                    Prepared::Settled(outcome) => Decided::Settled(WriteResult::Loop(outcome)),
                    Prepared::Commit(proposal, name) => Decided::Commit(proposal, name),
                    Prepared::Call(calls) => Decided::Call(calls),
                    Prepared::Convert(_) => unreachable!("simulated kinds have no conversion webhooks"),
                }
            }
            Sender::User { write, origin } => {
                let context = (pending.entropy, pending.now, &pending.answers);
                match self.decide_user(write, origin, &snapshot, context) {
                    Ok(PipelineResult::Commit(proposal) | PipelineResult::Remove(proposal, _)) => {
                        Decided::Commit(proposal, Box::default())
                    }
                    Ok(PipelineResult::Call(calls)) => Decided::Call(calls),
                    Ok(_) => Decided::Settled(WriteResult::User(Ok(snapshot.revision()))),
                    Err(status) => Decided::Settled(WriteResult::User(Err(status))),
                }
            }
        }
    }

    /// Decides a write of a user once, without answers of webhooks.
    pub(super) fn decide_user_write(
        &self,
        write: &UserWrite,
        origin: &WriteOrigin,
        snapshot: &Snapshot,
        entropy: [u64; 3],
    ) -> Result<PipelineResult, Status> {
        self.decide_user(write, origin, snapshot, (entropy, self.now, &WebhookAnswers::default()))
    }

    fn decide_user(
        &self,
        write: &UserWrite,
        origin: &WriteOrigin,
        snapshot: &Snapshot,
        (entropy, now, answers): ([u64; 3], Time, &WebhookAnswers),
    ) -> Result<PipelineResult, Status> {
        let catalog = self.catalogs.of(snapshot);
        let context = RequestContext {
            snapshot,
            now,
            entropy,
            tolerations: Default::default(),
            catalog: &catalog,
            webhooks: self.webhook_context(answers),
            conversions: None,
            authorization: None,
        };
        write.decide(origin, &context)
    }

    fn webhook_context<'a>(&'a self, answers: &'a WebhookAnswers) -> Option<WebhookContext<'a>> {
        let registry = &self.webhooks.registry;
        (!self.webhooks.is_bypassed).then_some(WebhookContext { registry, answers })
    }

    /// Sends calls to the simulated webhooks.
    fn call(&mut self, pending: &mut PendingWrite, calls: Vec<PendingCall>) -> Result<(), Status> {
        if self.now >= pending.ends_at {
            return Err(Status::timeout("request did not complete within requested timeout", 0));
        }
        if pending.answers.len() + calls.len() > CALLS_MAX {
            return Err(Status::internal_error("the request caused too many calls of admission webhooks"));
        }
        let is_loop = matches!(pending.sender, Sender::Loop { .. });
        let left = pending.ends_at.since(self.now);
        self.webhooks.check_exemption(pending.sender.resource());
        pending.answered_at = self.now;
        for mut call in calls {
            call.call.timeout = call.call.timeout.min(left);
            let (response, delay) = self.webhooks.respond(&call, is_loop, &mut self.rng);
            let answer = call.answer(response);
            pending.reviews.push(Review::new(&call, &answer));
            pending.coming.push((call.key, answer));
            pending.answered_at = pending.answered_at.max(self.now.after(delay));
        }
        Ok(())
    }

    fn commit_write(
        &mut self,
        pending: &mut PendingWrite,
        proposal: Proposal,
        name: Box<str>,
    ) -> WriteResult {
        let written: Vec<String> = proposal.writes().map(|write| write.key.to_string()).collect();
        let has_webhooks = self.webhooks.registry.compiled(&self.store.snapshot()).is_some();
        let committed = self.commit(proposal);
        if let (Ok(committed), Some(operation)) = (&committed, pending.sender.operation())
            && has_webhooks
            && let Ok(resource) = Resource::new(pending.sender.resource())
        {
            let reviews = std::mem::take(&mut pending.reviews);
            self.admissions.insert(committed.revision, AdmissionRecord { resource, operation, reviews });
        }
        match &pending.sender {
            Sender::Loop { .. } => WriteResult::Loop(loop_writes::outcome(committed, name)),
            Sender::User { .. } => {
                let committed = committed.map(|committed| committed.revision);
                // Lease renewals are too many to record.
                if let Ok(at) = &committed
                    && self.keeps_history
                    && pending.sender.resource() != LEASES
                {
                    self.history.push(format!("{}: {} at {at}", self.user, written.join(", ")));
                }
                WriteResult::User(committed.map_err(Status::internal_error))
            }
        }
    }

    fn record_result(&mut self, pending: &PendingWrite, result: &WriteResult) {
        let (Sender::Loop { id, request, .. }, WriteResult::Loop(outcome)) = (&pending.sender, result) else {
            return;
        };
        if let WriteOutcome::Done { revision, .. } = outcome {
            // The loop that runs now is the only one that leads.
            let is_late = !pending.answers.is_empty() && id.as_ref() != Some(&self.loop_id);
            self.origins.entry(*revision).or_insert(CommitOrigin { seen: request.seen, is_late });
        }
        if self.keeps_history {
            self.record_history(request, outcome);
        }
    }

    /// Decides the writes again whose webhooks have answered.
    pub fn poll_webhooks(&mut self) {
        let now = self.now;
        while let Some(at) = self.calling.iter().position(|pending| pending.answered_at <= now) {
            let mut pending = self.calling.remove(at);
            pending.receive();
            let target = match &pending.sender {
                Sender::Loop { id: Some(id), request, is_response_lost } => {
                    Some((id.clone(), request.id, *is_response_lost))
                }
                Sender::Loop { .. } | Sender::User { .. } => None,
            };
            let Some(WriteResult::Loop(outcome)) = self.advance(pending) else { continue };
            let Some((loop_id, id, is_response_lost)) = target else { continue };
            let by = self.store.snapshot().revision();
            let outcome = if is_response_lost { WriteOutcome::Lost { by } } else { outcome };
            self.parked_outcomes.push(ParkedOutcome { loop_id, id, outcome });
        }
        self.deliver_parked_outcomes();
    }

    /// Time at which the next write that waits for webhooks is decided again.
    #[must_use]
    pub fn next_answer_at(&self) -> Option<Time> {
        self.calling.iter().map(|pending| pending.answered_at).min()
    }

    /// Delivers outcomes that came while the loop was parked.
    pub(super) fn deliver_parked_outcomes(&mut self) {
        for parked in std::mem::take(&mut self.parked_outcomes) {
            if parked.loop_id == self.loop_id {
                let mut turn = Turn::default();
                self.engine.complete_write(parked.id, parked.outcome, self.now, &mut turn);
                self.outbox.extend(turn.writes);
            } else {
                self.parked_outcomes.push(parked);
            }
        }
    }

    /// Lets the writes of the loop that wait for webhooks continue without it.
    pub(super) fn detach_writes(&mut self) {
        let stopped = std::mem::take(&mut self.loop_id);
        self.parked_outcomes.retain(|parked| parked.loop_id != stopped);
        for pending in &mut self.calling {
            if let Sender::Loop { id, .. } = &mut pending.sender {
                id.take_if(|id| *id == stopped);
            }
        }
    }

    /// Cancels the writes of users that wait for webhooks.
    pub fn cancel_user_writes(&mut self) {
        self.calling.retain(|pending| matches!(pending.sender, Sender::Loop { .. }));
    }

    /// Shifts the calls in flight with the clock: timeouts are monotonic.
    pub(super) fn shift_calls(&mut self, jump: Jump) {
        for pending in &mut self.calling {
            pending.answered_at = jump.shift(pending.answered_at);
            pending.ends_at = jump.shift(pending.ends_at);
        }
    }
}

impl PendingWrite {
    /// Receives the answers of the calls in flight.
    fn receive(&mut self) {
        self.answers.extend(std::mem::take(&mut self.coming));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use setpoint_api::{Value, value};

    use super::*;
    use crate::cluster::{DENYING, MIXED};

    const PATH: &str = "default/notes";

    /// A cluster without controllers, whose webhook for ConfigMaps has a time of 20 seconds.
    fn cluster(path: &str, policy: &str, seed: u64) -> Cluster {
        let mut cluster = Cluster::new(|| (Vec::new(), Vec::new()), seed);
        let webhook = value!({
            "name": "guard.webhooks.example.com", "failurePolicy": (policy), "timeoutSeconds": 20,
            "clientConfig": {"url": (format!("https://webhooks.example{path}"))},
            "rules": [{
                "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"], "operations": ["*"],
            }],
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
        });
        let resource = "validatingwebhookconfigurations.admissionregistration.k8s.io";
        cluster.create(resource, "", value!({"metadata": {"name": "guard"}, "webhooks": [(webhook)]}));
        cluster
    }

    fn notes() -> Value {
        value!({"metadata": {"name": "notes"}})
    }

    /// Creates the ConfigMap, and waits for the webhook. Returns the time that it took.
    fn create(cluster: &mut Cluster) -> Duration {
        assert_eq!(cluster.try_create("configmaps", "default", notes()).unwrap(), Revision::ZERO);
        assert!(cluster.get("configmaps", PATH).is_none(), "it waits for the webhook");
        let start = cluster.now;
        while let Some(at) = cluster.next_answer_at() {
            cluster.now = at;
            cluster.poll_webhooks();
        }
        cluster.now.since(start)
    }

    #[test]
    fn denied_write_is_not_stored() {
        let mut cluster = cluster(DENYING, "Ignore", 1);
        assert!(create(&mut cluster) > Duration::ZERO);
        assert!(cluster.get("configmaps", PATH).is_none());
    }

    #[test]
    fn hanging_webhook_takes_its_timeout_and_its_policy_decides() {
        for (policy, is_stored) in [("Fail", false), ("Ignore", true)] {
            let hangs = |seed| {
                let mut cluster = cluster(MIXED, policy, seed);
                let took = create(&mut cluster);
                (cluster.webhooks.marks.contains_key("webhook hung for a write of a user"), took, cluster)
            };
            let (_, took, cluster) = (0..200).map(hangs).find(|(hung, ..)| *hung).unwrap();
            assert_eq!(took, Duration::from_secs(20));
            assert_eq!(cluster.get("configmaps", PATH).is_some(), is_stored, "{policy}");
        }
    }

    #[test]
    fn webhooks_that_behave_answer_at_once() {
        let mut cluster = cluster(MIXED, "Fail", 1);
        cluster.webhooks.behaves = true;
        assert!(cluster.try_create("configmaps", "default", notes()).unwrap() > Revision::ZERO);
        assert!(cluster.get("configmaps", PATH).is_some() && cluster.next_answer_at().is_none());
    }

    #[test]
    fn canceled_write_is_not_stored() {
        let mut cluster = cluster(MIXED, "Ignore", 1);
        assert_eq!(cluster.try_create("configmaps", "default", notes()).unwrap(), Revision::ZERO);
        cluster.cancel_user_writes();
        assert!(cluster.next_answer_at().is_none());
    }
}
