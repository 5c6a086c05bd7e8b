//! What a writer hands to the store, and what it may be told.
//!
//! A [`Proposal`] is a set of puts and deletes that happen together or not at all. It becomes a commit
//! when its preconditions hold and its record is durable; only then is its revision known. So a value
//! that shows its own revision to clients leaves a hole for it ([`Draft::with_hole`]), and whoever applies
//! the commit fills it.
//!
//! A commit changes at most one key of a resource. What must change more of them together follows another proposal
//! ([`Proposal::after`]): two commits then, side by side in the one order, and both or neither.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use setpoint_api::{Key, Resource, Revision, Time};
use thiserror::Error;

use crate::record::{Envelope, Listed};

/// The most bytes a commit may take in the log, keys and envelopes included.
pub const COMMIT_BYTES_MAX: usize = 4 << 20;
/// The most changes, and the most guards, a commit may hold.
pub const COMMIT_CHANGES_MAX: usize = 64;
/// The most commits that are made together ([`Proposal::after`]): an object and the quotas that it is charged to.
pub const CHAIN_COMMITS_MAX: usize = 1024;
/// The most bytes that commits made together may take in the log: they are written as one frame.
pub const CHAIN_BYTES_MAX: usize = 16 << 20;

/// A commit that somebody asks for.
#[derive(Clone, Debug)]
pub struct Proposal {
    pub(crate) time: Time,
    pub(crate) changes: Vec<Change>,
    pub(crate) guards: Vec<(Key, Expect)>,
    cause: Arc<Cause>,
    /// What is committed just before it.
    ahead: Vec<Proposal>,
    /// Whether it is only admitted together with the next one.
    pub(crate) linked: bool,
}

impl Proposal {
    /// An empty proposal: say next what it changes.
    #[must_use]
    pub fn new(cause: impl Into<Arc<Cause>>, time: Time) -> Proposal {
        Proposal {
            time,
            changes: Vec::with_capacity(1),
            guards: Vec::new(),
            cause: cause.into(),
            ahead: Vec::new(),
            linked: false,
        }
    }

    /// Puts `draft` at `key` if the key is as expected.
    #[must_use]
    pub fn put(mut self, key: Key, expect: Expect, draft: Draft) -> Proposal {
        let envelope = Envelope::encode(&self.cause, &draft.labels, &draft.fields);
        let body = Body { bytes: draft.bytes, hole: draft.hole, expires: draft.expires };
        self.changes.push(Change { expect, write: Write { key, body: Some(body), envelope } });
        self
    }

    /// Deletes `key` if it is there and as expected.
    #[must_use]
    pub fn delete(mut self, key: Key, expect: Expect) -> Proposal {
        let envelope = Envelope::encode(&self.cause, &Listed::default(), &Listed::default());
        self.changes.push(Change { expect, write: Write { key, body: None, envelope } });
        self
    }

    /// Holds the commit to the state of a key that it does not change.
    #[must_use]
    pub fn guard(mut self, key: Key, expect: Expect) -> Proposal {
        self.guards.push((key, expect));
        self
    }

    /// Has `first` committed just before it, at a revision of its own. Either both are admitted or none is; the newest
    /// state never shows one without the other, also when a log is opened again.
    #[must_use]
    pub fn after(mut self, mut first: Proposal) -> Proposal {
        self.ahead.append(&mut first.ahead);
        self.ahead.push(Proposal { linked: true, ..first });
        self
    }

    /// What is committed just before it, in order.
    #[must_use]
    pub fn ahead(&self) -> &[Proposal] {
        &self.ahead
    }

    /// The proposal and what goes ahead of it, as a log takes them.
    pub fn in_order(mut self) -> impl Iterator<Item = Proposal> {
        self.linked = false;
        std::mem::take(&mut self.ahead).into_iter().chain([self])
    }

    /// When its writer says it is.
    #[must_use]
    pub fn time(&self) -> Time {
        self.time
    }

    /// What the commit writes if it is admitted, in order: what a log has to keep.
    pub fn writes(&self) -> impl ExactSizeIterator<Item = &Write> {
        self.changes.iter().map(|change| &change.write)
    }

    /// Whether it only deletes: such a commit is admitted when the disk is full.
    #[must_use]
    pub fn only_deletes(&self) -> bool {
        self.changes.iter().all(|change| change.write.body.is_none())
    }

    /// `true` if it, or what goes ahead of it, creates an object.
    pub(crate) fn creates(&self) -> bool {
        let is_create = |change: &Change| change.expect == Expect::Absent && change.write.body.is_some();
        self.changes.iter().any(is_create) || self.ahead.iter().any(Proposal::creates)
    }

    /// Whether it changes one of these resources.
    #[must_use]
    pub fn touches_any(&self, resources: &BTreeSet<Resource>) -> bool {
        !resources.is_empty()
            && self.changes.iter().any(|change| resources.contains(change.write.key.resource()))
    }

    /// About how many bytes the commit takes in the log.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.changes.iter().map(|change| change.write.bytes()).sum()
    }

    /// Refuses what no state of the store could admit.
    pub(crate) fn check_form(&self) -> Result<(), Refusal> {
        if self.changes.is_empty() {
            return Err(Refusal::Empty);
        }
        let parts = self.changes.len().max(self.guards.len());
        if parts > COMMIT_CHANGES_MAX {
            return Err(Refusal::TooManyChanges { changes: parts });
        }
        for (i, change) in self.changes.iter().enumerate() {
            let resource = change.write.key.resource();
            if self.changes[..i].iter().any(|other| other.write.key.resource() == resource) {
                return Err(Refusal::TwoOfOneResource { resource: resource.clone() });
            }
            if let Some(Body { bytes, hole: Some(hole), .. }) = &change.write.body
                && *hole as usize > bytes.len()
            {
                return Err(Refusal::BadHole { key: change.write.key.clone() });
            }
        }
        let bytes = self.bytes();
        if bytes > COMMIT_BYTES_MAX { Err(Refusal::TooLarge { bytes }) } else { Ok(()) }
    }
}

/// One change of a proposal, and the state it needs to find.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub expect: Expect,
    pub write: Write,
}

/// A put (with a body) or a delete (without), in the form that logs keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// What it changes.
    pub key: Key,
    /// What the key holds from now on; nothing if it is deleted.
    pub body: Option<Body>,
    /// Labels, fields and cause, encoded.
    pub envelope: Envelope,
}

impl Write {
    /// About how many bytes it takes in a log.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let body = self.body.as_ref().map_or(0, |body| body.bytes.len());
        self.key.resource().as_str().len() + self.key.path().len() + body + self.envelope.bytes().len() + 32
    }
}

/// The value of a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// The value, without its revision.
    pub bytes: Bytes,
    /// Where the digits of the revision go, if they go anywhere.
    pub hole: Option<u32>,
    /// When the key is to be deleted by the store itself.
    pub expires: Option<Time>,
}

/// A commit as logs keep it and mirrors apply it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its place in the one order.
    pub revision: Revision,
    /// When its writer said it was.
    pub time: Time,
    /// At most one per resource.
    pub writes: Vec<Write>,
}

/// A value to be put.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    bytes: Bytes,
    hole: Option<u32>,
    labels: Listed,
    fields: Listed,
    expires: Option<Time>,
}

impl Draft {
    /// A value that is the same at every revision.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>) -> Draft {
        Draft { bytes: bytes.into(), ..Draft::default() }
    }

    /// A value that shows its revision: the decimal digits are inserted at `hole`.
    #[must_use]
    pub fn with_hole(bytes: impl Into<Bytes>, hole: u32) -> Draft {
        Draft { bytes: bytes.into(), hole: Some(hole), ..Draft::default() }
    }

    /// The labels by which cursors may select it.
    #[must_use]
    pub fn labels<K: AsRef<str>, V: AsRef<str>>(mut self, pairs: impl IntoIterator<Item = (K, V)>) -> Draft {
        self.labels = pairs.into_iter().collect();
        self
    }

    /// The fields by which cursors may select it.
    #[must_use]
    pub fn fields<K: AsRef<str>, V: AsRef<str>>(mut self, pairs: impl IntoIterator<Item = (K, V)>) -> Draft {
        self.fields = pairs.into_iter().collect();
        self
    }

    /// The store deletes the key at this time, by an ordinary commit.
    #[must_use]
    pub fn expires(mut self, at: Time) -> Draft {
        self.expires = Some(at);
        self
    }
}

/// Why a commit was made: it is kept with the commit, deletes included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// Who asked for it.
    pub user: String,
    /// Under which field manager.
    pub manager: String,
    /// Which reconciler planned it; empty if none did.
    pub reconciler: String,
    /// The revision that its maker had seen.
    pub seen: Revision,
    /// The paths that changed.
    pub paths: Vec<String>,
}

/// What a change or a guard needs to find at its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Anything, or nothing.
    Any,
    /// Nothing.
    Absent,
    /// Anything.
    Present,
    /// The value that this revision put there.
    Revision(Revision),
}

impl Expect {
    /// Whether a key whose last put was at `actual` (nothing: there is no such key) is as expected.
    #[must_use]
    pub fn holds(self, actual: Option<Revision>) -> bool {
        match self {
            Expect::Any => true,
            Expect::Absent => actual.is_none(),
            Expect::Present => actual.is_some(),
            Expect::Revision(revision) => actual == Some(revision),
        }
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expect::Any => f.write_str("anything"),
            Expect::Absent => f.write_str("no object"),
            Expect::Present => f.write_str("an object"),
            Expect::Revision(revision) => write!(f, "revision {revision}"),
        }
    }
}

/// A precondition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{key}: expected {expected}, found {}", Found(*.actual))]
pub struct Conflict {
    /// The key in question.
    pub key: Key,
    /// What the writer expected there.
    pub expected: Expect,
    /// The revision of what is there, if anything is.
    pub actual: Option<Revision>,
}

struct Found(Option<Revision>);

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Expect::Absent, Expect::Revision).fmt(f)
    }
}

/// Why a proposal did not become a commit. Nothing of it was done.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A precondition does not hold: the world moved.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// It changes nothing.
    #[error("the commit is empty")]
    Empty,
    /// It changes two keys of one resource, so that no watch could resume between them.
    #[error("the commit changes two keys of {resource}")]
    TwoOfOneResource {
        /// That resource.
        resource: Resource,
    },
    /// It has more changes than [`COMMIT_CHANGES_MAX`].
    #[error("the commit has {changes} changes or guards, at most {COMMIT_CHANGES_MAX} are allowed")]
    TooManyChanges {
        /// How many it has.
        changes: usize,
    },
    /// It is made together with more commits than [`CHAIN_COMMITS_MAX`].
    #[error("{commits} commits have to be made together, at most {CHAIN_COMMITS_MAX} are allowed")]
    TooManyCommits {
        /// How many there are.
        commits: usize,
    },
    /// It takes more bytes than [`COMMIT_BYTES_MAX`].
    #[error("the commit takes {bytes} bytes, at most {COMMIT_BYTES_MAX} are allowed")]
    TooLarge {
        /// How many it takes.
        bytes: usize,
    },
    /// It and the commits that are made together with it take more bytes than [`CHAIN_BYTES_MAX`].
    #[error(
        "commits that have to be made together take {bytes} bytes, at most {CHAIN_BYTES_MAX} are allowed"
    )]
    ChainTooLarge {
        /// How many they take.
        bytes: usize,
    },
    /// The hole for the revision lies outside of the value.
    #[error("{key}: the hole for the revision lies outside of the value")]
    BadHole {
        /// The key in question.
        key: Key,
    },
    /// There is no room for puts; deletes are still admitted as long as the reserve lasts.
    #[error("the disk is full: free some space, or delete objects")]
    DiskFull,
    /// The live objects take [`Retention::live_bytes`](crate::Retention::live_bytes) or more: objects can be changed and
    /// deleted, not created.
    #[error(
        "the store is full: objects take {bytes} bytes, at most {max} are allowed; delete some, or raise the limit"
    )]
    StoreFull {
        /// Bytes of all live objects.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// The process has no descriptor left for the next file of the log; deletes are still admitted as long as the
    /// reserve lasts. The same proposal is admitted once descriptors have been released.
    #[error("too many open files: the next file of the log cannot be created, retry later")]
    NoDescriptors,
}
