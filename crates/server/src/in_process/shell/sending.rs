//! Writes of the loop on their way into the store.
//!
//! They are decided one after the other and committed together. Those that are charged to quotas of one namespace
//! could not be: each must see what the one before it was charged. So they wait for each other, and one that somebody
//! else forestalled is decided again. The loop hears of neither.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use setpoint_reconcile::{Engine, Outcome, Refusal as Refused, Sent, Ticket, Turn};
use setpoint_store::{CommitError, Committed, Proposal, Refusal};

use super::super::{Prepared, outcome, prepare};
use super::Running;
use super::telling::Telling;
use crate::pipeline::{World, quota};

/// How often a write is decided again because others wrote the quotas that it is charged to.
const CONFLICTS_MAX: usize = 100;

/// So many commits are queued up before the store is told: they share a sync, and the first waits only for a moment.
const TOGETHER: usize = 256;

/// What is on its way.
#[derive(Default)]
pub(super) struct Sending {
    under_way: Vec<UnderWay>,
    /// The namespaces in which a charged commit is under way, and the writes that wait for it.
    held: BTreeMap<Box<str>, VecDeque<Wanted>>,
    /// Whether a commit was begun since somebody last looked.
    begun: bool,
    /// What the log says of it.
    telling: Telling,
}

/// A write to make, and how often it was forestalled at its quotas.
struct Wanted {
    sent: Sent,
    conflicts: usize,
}

/// A commit under way.
struct UnderWay {
    ticket: Ticket,
    name: Box<str>,
    charged: Option<Charged>,
    commit: setpoint_store::Ticket,
}

/// A write that is charged to quotas. Only such a one may have to be decided again; what others want is not kept.
struct Charged {
    namespace: Box<str>,
    wanted: Wanted,
}

impl Sending {
    /// Whether nothing is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Whether a commit was begun since this was last asked.
    pub(super) fn take_begun(&mut self) -> bool {
        std::mem::take(&mut self.begun)
    }
}

impl Running {
    /// Decides the writes one after the other, and hands their commits to the store, many at a time.
    pub(super) fn send(&mut self, engine: &mut Engine, mut turn: Turn) {
        // What is settled without a commit may at once lead to more.
        while !turn.writes.is_empty() {
            let mut next = Turn::default();
            for sent in turn.writes {
                self.sending.telling.tell(&sent, || self.clock.now());
                self.begin(Wanted { sent, conflicts: 0 }, engine, &mut next);
            }
            turn = next;
        }
        if self.sending.begun {
            self.store.wake();
        }
    }

    /// Decides a write, and hands its commit to the store unless it has to wait for another one.
    fn begin(&mut self, wanted: Wanted, engine: &mut Engine, turn: &mut Turn) {
        match self.prepare(&wanted.sent) {
            Prepared::Settled(outcome) => {
                log(&wanted.sent, &outcome);
                engine.answer(wanted.sent.ticket, outcome, self.now(), turn);
            }
            Prepared::Commit(proposal, name) => {
                let (ticket, namespace) = (wanted.sent.ticket, charged_namespace(&proposal));
                if let Some(namespace) = &namespace {
                    if let Some(waiting) = self.sending.held.get_mut(namespace) {
                        waiting.push_back(wanted);
                        return;
                    }
                    self.sending.held.insert(namespace.clone(), VecDeque::new());
                }
                let charged = namespace.map(|namespace| Charged { namespace, wanted });
                let commit = self.store.enqueue(*proposal);
                self.sending.under_way.push(UnderWay { ticket, name, charged, commit });
                self.sending.begun = true;
                if self.sending.under_way.len().is_multiple_of(TOGETHER) {
                    self.store.wake();
                }
            }
        }
    }

    fn prepare(&self, sent: &Sent) -> Prepared {
        let snapshot = self.store.snapshot();
        let entropy = [(); 3].map(|()| (self.entropy)());
        prepare(
            sent,
            &World { snapshot: &snapshot, now: self.clock.now(), entropy, tolerations: self.tolerations },
        )
    }

    /// Tells the loop what became of its writes, and begins those that waited for them.
    pub(super) fn take_answers(&mut self, engine: &mut Engine, turn: &mut Turn, context: &mut Context<'_>) {
        let mut answered = Vec::new();
        let mut pending = Vec::new();
        for mut one in self.sending.under_way.drain(..) {
            match Pin::new(&mut one.commit).poll(context) {
                Poll::Ready(committed) => answered.push((one.ticket, one.name, one.charged, committed)),
                Poll::Pending => pending.push(one),
            }
        }
        self.sending.under_way = pending;
        for (ticket, name, charged, committed) in answered {
            match charged {
                None => engine.answer(ticket, outcome(committed, name), self.now(), turn),
                Some(charged) => self.take_charged(charged, name, committed, engine, turn),
            }
        }
    }

    fn take_charged(
        &mut self,
        Charged { namespace, mut wanted }: Charged,
        name: Box<str>,
        committed: Result<Committed, CommitError>,
        engine: &mut Engine,
        turn: &mut Turn,
    ) {
        let mut waiting = self.sending.held.remove(&namespace).unwrap_or_default();
        if was_forestalled(&committed) && wanted.conflicts < CONFLICTS_MAX {
            wanted.conflicts += 1;
            waiting.push_front(wanted);
        } else {
            engine.answer(wanted.sent.ticket, outcome(committed, name), self.now(), turn);
        }
        while let Some(next) = waiting.pop_front() {
            self.begin(next, engine, turn);
            if let Some(held) = self.sending.held.get_mut(&namespace) {
                held.append(&mut waiting);
            }
        }
    }
}

/// What is refused is a line of the log of whoever wanted it.
fn log(Sent { write, manager, by, .. }: &Sent, outcome: &Outcome) {
    if let Outcome::Refused(Refused { reason, message }) = outcome {
        let (verb, resource, by) = (write.verb(), write.resource(), &**by);
        tracing::warn!(component = *manager, by, verb, %resource, reason, why = message, "a write was refused");
    }
}

fn charged_namespace(proposal: &Proposal) -> Option<Box<str>> {
    quota::charged(proposal)?.namespace().map(Into::into)
}

/// Whether somebody else wrote a quota meanwhile.
fn was_forestalled(committed: &Result<Committed, CommitError>) -> bool {
    matches!(
        committed,
        Err(CommitError::Refused(Refusal::Conflict(conflict))) if quota::is_quota(&conflict.key)
    )
}
