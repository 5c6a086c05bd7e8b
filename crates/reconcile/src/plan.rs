//! What a planner answers: data, never deeds.
//!
//! A [`Plan`] is a list of stages. The acts of a stage go out together, in batches of 1, 2, 4 … so that a refusal
//! stops early; the next stage starts when all are committed; a failure or a conflict drops the rest, and the key
//! is planned anew. Every write carries its precondition, and every act the words that people get to read.
//!
//! A plan is bounded whatever the spec of an object says: [`Plan::stage`] takes at most [`PLAN_ACTIONS_MAX`] acts and
//! leaves the iterator unread beyond that, and the loop cuts what a planner put into `stages` by other means. What is
//! left out is counted in [`Plan::deferred`], and the key is planned again as soon as the plan is carried out.

use serde::Serialize;
use setpoint_api::{Key, Resource, Revision, Time, Value};

use crate::news::News;
use crate::object::Object;
use crate::to_value::to_value;

/// Maximum number of acts in a plan, over all stages. It bounds memory per key, and the time for which one key keeps
/// others waiting. Larger than every bound that single controllers have after upstream's example (500 pods at a time).
pub const PLAN_ACTIONS_MAX: usize = 2000;
/// Maximum number of notes of a plan; the recorder would drop most of them anyway.
pub const PLAN_NOTES_MAX: usize = 500;

/// What to do about a key.
#[derive(Clone, Debug)]
pub struct Plan<M = ()> {
    /// What to do, one stage after the other.
    pub stages: Vec<Vec<Act>>,
    /// What to tell people, whatever becomes of the stages.
    pub notes: Vec<Note>,
    /// Questions to the world outside of the API.
    pub asks: Vec<Ask>,
    /// When to look again, though nothing may have changed.
    pub look_again: Option<Time>,
    /// Lower bound of the number of acts that wait for the next plan, because this one is full. If it is not 0, the key
    /// is planned again as soon as this plan is carried out.
    pub deferred: u64,
    /// What to be reminded of the next time. It may be lost.
    pub memo: M,
}

impl<M: Default> Default for Plan<M> {
    fn default() -> Plan<M> {
        let (stages, notes, asks) = (Vec::new(), Vec::new(), Vec::new());
        Plan { stages, notes, asks, look_again: None, deferred: 0, memo: M::default() }
    }
}

impl<M> Plan<M> {
    /// Whether nothing is to be done: the world is as it should be.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.stages.iter().all(Vec::is_empty) && self.notes.is_empty() && self.asks.is_empty()
    }

    /// Number of acts, over all stages.
    #[must_use]
    pub fn actions(&self) -> usize {
        self.stages.iter().map(Vec::len).sum()
    }

    /// Adds a stage of acts; none if there are none. A full plan takes no more: the rest of the iterator is not read,
    /// and neither this stage's rest nor any later stage is carried out before the key is planned again.
    pub fn stage(&mut self, acts: impl IntoIterator<Item = Act>) {
        self.stage_at_most(PLAN_ACTIONS_MAX, acts);
    }

    /// The same for a planner with a bound of its own.
    pub fn stage_at_most(&mut self, max: usize, acts: impl IntoIterator<Item = Act>) {
        let mut acts = acts.into_iter();
        let room = PLAN_ACTIONS_MAX.saturating_sub(self.actions()).min(max);
        let taken: Vec<Act> = acts.by_ref().take(room).collect();
        if !taken.is_empty() {
            self.stages.push(taken);
        }
        if acts.next().is_some() {
            self.defer(acts.size_hint().0.saturating_add(1));
        }
    }

    /// Notes that so many acts wait for the next plan, at least.
    pub fn defer(&mut self, acts: usize) {
        self.deferred = self.deferred.saturating_add(acts as u64);
    }

    /// Adds an act to the last stage.
    pub fn act(&mut self, act: impl Into<Act>) {
        match self.stages.last_mut() {
            Some(stage) => stage.push(act.into()),
            None => self.stages.push(vec![act.into()]),
        }
    }

    /// Cuts what exceeds the bounds of a plan, however it came to be there.
    pub fn cut(&mut self) {
        let mut room = PLAN_ACTIONS_MAX;
        let mut cut = 0;
        for stage in &mut self.stages {
            cut += stage.len().saturating_sub(room);
            stage.truncate(room);
            room -= stage.len();
        }
        self.defer(cut);
        self.notes.truncate(PLAN_NOTES_MAX);
        self.asks.truncate(crate::engine::ANSWERS_MAX);
    }

    /// Looks again at a time, or earlier if that was planned already.
    pub fn look_again_at(&mut self, time: Time) {
        self.look_again = Some(self.look_again.map_or(time, |planned| planned.min(time)));
    }

    /// The same plan with another memo.
    pub fn with_memo<N>(self, memo: N) -> Plan<N> {
        let Plan { stages, notes, asks, look_again, deferred, .. } = self;
        Plan { stages, notes, asks, look_again, deferred, memo }
    }
}

/// One write, and what to tell people about it.
#[derive(Clone, Debug)]
pub struct Act {
    /// The write.
    pub write: Write,
    /// What to say when it is done. `{name}` stands for the name of the object that was written.
    pub done: Vec<Note>,
    /// What to say when it was refused. `{error}` stands for the reason.
    pub failed: Option<Note>,
}

impl Act {
    /// The same act that says this too when it is done.
    #[must_use]
    pub fn on_done(mut self, note: Note) -> Act {
        self.done.push(note);
        self
    }

    /// The same act that says this when it was refused.
    #[must_use]
    pub fn on_failed(mut self, note: Note) -> Act {
        self.failed = Some(note);
        self
    }
}

impl From<Write> for Act {
    fn from(write: Write) -> Act {
        Act { write, done: Vec::new(), failed: None }
    }
}

/// A write to the API.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Makes an object.
    Create {
        /// Its resource.
        resource: Resource,
        /// Its namespace; empty for none.
        namespace: Box<str>,
        /// The object.
        object: Value,
    },
    /// Changes an object.
    Patch {
        /// Which.
        key: Key,
        /// The subresource: empty, `status`, `scale` …
        part: &'static str,
        /// How the patch is meant.
        sort: Sort,
        /// The patch.
        patch: Value,
        /// The identity it must have.
        uid: Option<Box<str>>,
        /// The revision it must have.
        revision: Option<Revision>,
    },
    /// Applies a configuration to an object that is there, whoever owns its fields.
    Apply {
        /// Which.
        key: Key,
        /// The subresource: empty, `status` …
        part: &'static str,
        /// The configuration: all that the writer wants to own.
        config: Value,
        /// The identity it must have.
        uid: Box<str>,
    },
    /// Deletes an object.
    Delete {
        /// Which.
        key: Key,
        /// The identity it must have.
        uid: Option<Box<str>>,
        /// The revision it must have.
        revision: Option<Revision>,
        /// What becomes of what it owns: `Background`, `Foreground`, `Orphan`; the kind's own way if not said.
        propagation: Option<&'static str>,
        /// How long it is given to go.
        grace: Option<i64>,
    },
    /// Posts to a subresource: `binding`, `eviction` …
    Post {
        /// Of which object.
        key: Key,
        /// The subresource.
        part: &'static str,
        /// What is posted.
        object: Value,
    },
    /// Tells people something for the first time: makes an Event.
    Tell(Box<News>),
}

/// How a patch is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// A merge patch (RFC 7386): maps merge, all else is replaced, `null` removes.
    Merge,
    /// A strategic merge patch: lists merge by their keys.
    Strategic,
}

impl Write {
    /// Makes an object of a resource in a namespace, or in none if that is empty.
    ///
    /// # Panics
    /// If the resource has no valid name; planners name resources that exist.
    #[must_use]
    pub fn create(resource: &str, namespace: &str, object: Value) -> Write {
        let resource = Resource::new(resource).expect("a resource has a valid name");
        Write::Create { resource, namespace: namespace.into(), object }
    }

    /// Merges `patch` into a part of an object, if it is still as it was seen.
    #[must_use]
    pub fn merge(seen: &Object, part: &'static str, patch: Value) -> Write {
        Write::Patch {
            key: seen.key().clone(),
            part,
            sort: Sort::Merge,
            patch,
            uid: Some(seen.meta().uid.clone()),
            revision: Some(seen.revision()),
        }
    }

    /// Merges `status` into the status of an object, if it is still as it was seen.
    #[must_use]
    pub fn status(seen: &Object, status: Value) -> Write {
        Write::merge(seen, "status", Value::Map([("status", status)].into_iter().collect()))
    }

    /// Applies a configuration to a part of an object, if it is still the one that was seen.
    #[must_use]
    pub fn apply(seen: &Object, part: &'static str, config: Value) -> Write {
        Write::Apply { key: seen.key().clone(), part, config, uid: seen.meta().uid.clone() }
    }

    /// Deletes an object, if it is still the one that was seen.
    #[must_use]
    pub fn delete(seen: &Object) -> Write {
        Write::Delete {
            key: seen.key().clone(),
            uid: Some(seen.meta().uid.clone()),
            revision: None,
            propagation: None,
            grace: None,
        }
    }

    /// Deletes an object, if nobody has written it since it was seen.
    #[must_use]
    pub fn delete_unchanged(seen: &Object) -> Write {
        match Write::delete(seen) {
            Write::Delete { key, uid, propagation, grace, .. } => {
                Write::Delete { key, uid, revision: Some(seen.revision()), propagation, grace }
            }
            other => other,
        }
    }

    /// The same delete with another fate for what the object owns.
    #[must_use]
    pub fn propagating(self, policy: &'static str) -> Write {
        match self {
            Write::Delete { key, uid, revision, grace, .. } => {
                Write::Delete { key, uid, revision, propagation: Some(policy), grace }
            }
            other => other,
        }
    }

    /// The same delete with so many seconds for the object to go.
    #[must_use]
    pub fn within(self, seconds: i64) -> Write {
        match self {
            Write::Delete { key, uid, revision, propagation, .. } => {
                Write::Delete { key, uid, revision, propagation, grace: Some(seconds) }
            }
            other => other,
        }
    }

    /// The same patch as a strategic merge patch.
    #[must_use]
    pub fn strategic(self) -> Write {
        match self {
            Write::Patch { key, part, patch, uid, revision, .. } => {
                Write::Patch { key, part, sort: Sort::Strategic, patch, uid, revision }
            }
            other => other,
        }
    }

    /// The same patch whatever the revision of the object is, as long as it is the same object.
    #[must_use]
    pub fn at_any_revision(self) -> Write {
        match self {
            Write::Patch { key, part, sort, patch, uid, .. } => {
                Write::Patch { key, part, sort, patch, uid, revision: None }
            }
            other => other,
        }
    }

    /// The resource it writes.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        match self {
            Write::Create { resource, .. } => resource,
            Write::Tell(news) => news.event.resource(),
            Write::Patch { key, .. }
            | Write::Apply { key, .. }
            | Write::Delete { key, .. }
            | Write::Post { key, .. } => key.resource(),
        }
    }

    /// What it does, in one word.
    #[must_use]
    pub fn verb(&self) -> &'static str {
        match self {
            Write::Create { .. } | Write::Post { .. } | Write::Tell(_) => "create",
            Write::Patch { .. } | Write::Apply { .. } => "patch",
            Write::Delete { .. } => "delete",
        }
    }
}

/// A plain struct as a value, to write it. What is absent becomes `null`, which removes it in a merge patch.
#[must_use]
pub fn value_of(part: &impl Serialize) -> Value {
    to_value(part).unwrap_or_default()
}

/// Whether a note is good news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// What was meant to happen happened.
    Normal,
    /// Somebody may want to look.
    Warning,
}

impl Severity {
    /// As Events say it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        }
    }
}

/// What people read in `kubectl describe`: an Event about an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// What it is about.
    pub about: Subject,
    /// Whether it is good news.
    pub severity: Severity,
    /// The reason, one word in camel case.
    pub reason: &'static str,
    /// The message.
    pub message: String,
    /// What was done, or tried; empty where nobody says so.
    pub action: &'static str,
    /// Who says so, where it is not the controller under its own name.
    pub speaker: Option<Box<str>>,
}

impl Note {
    /// The same, and what was done, or tried.
    #[must_use]
    pub fn by(self, action: &'static str) -> Note {
        Note { action, ..self }
    }

    /// The same, said by another.
    #[must_use]
    pub fn said_by(self, speaker: &str) -> Note {
        Note { speaker: Some(speaker.into()), ..self }
    }
}

/// What a note is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Where it is kept.
    pub key: Key,
    /// Its group and version.
    pub api_version: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// Its identity.
    pub uid: Box<str>,
    /// The revision at which it was seen.
    pub revision: Revision,
    /// Which part of it, as in `spec.containers{name}`; empty for the whole.
    pub part: String,
}

impl Subject {
    /// An object as a note's subject.
    #[must_use]
    pub fn of(object: &Object, api_version: &'static str, kind: &'static str) -> Subject {
        Subject {
            key: object.key().clone(),
            api_version,
            kind,
            uid: object.meta().uid.clone(),
            revision: object.revision(),
            part: String::new(),
        }
    }

    /// The same, but only a part of it.
    #[must_use]
    pub fn part(mut self, part: String) -> Subject {
        self.part = part;
        self
    }

    /// Good news about it.
    #[must_use]
    pub fn normal(&self, reason: &'static str, message: impl Into<String>) -> Note {
        self.note(Severity::Normal, reason, message.into())
    }

    /// Bad news about it.
    #[must_use]
    pub fn warning(&self, reason: &'static str, message: impl Into<String>) -> Note {
        self.note(Severity::Warning, reason, message.into())
    }

    fn note(&self, severity: Severity, reason: &'static str, message: String) -> Note {
        Note { about: self.clone(), severity, reason, message, action: "", speaker: None }
    }
}

/// A question to the world outside of the API: a metric, a signature. The answer is in [`crate::Seen`] next time.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// Who can answer it.
    pub whom: &'static str,
    /// Which of the key's questions it is.
    pub id: String,
    /// The question.
    pub question: Value,
}
