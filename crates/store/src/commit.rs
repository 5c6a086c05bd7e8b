//! Proposals, commits, and the reasons for which a proposal is rejected.
//!
//! A [`Proposal`] is a set of puts and deletes that are applied atomically. It becomes a commit when its
//! preconditions hold and its frame is durable; only then is its revision known. A value that contains its
//! own `resourceVersion` therefore leaves out the digits ([`Draft::with_revision_at`]), which are inserted
//! when the commit is applied.
//!
//! A commit changes at most one key of a resource. Changes to several keys of one resource are made atomic
//! by chaining proposals ([`Proposal::after`]): consecutive commits of which all are admitted, or none.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use setpoint_api::{Key, Resource, Revision, Time};
use thiserror::Error;

use crate::record::{EncodedPairs, RecordEnvelope};
use crate::seal::SealedWrite;

/// Maximum bytes of a commit in the log, including keys and envelopes.
pub const COMMIT_BYTES_MAX: usize = 4 << 20;
/// Maximum number of changes in a commit, and of guards.
pub const COMMIT_CHANGES_MAX: usize = 64;
/// Maximum number of commits in a chain ([`Proposal::after`]): an object and the quotas that it is charged
/// to.
pub const CHAIN_COMMITS_MAX: usize = 1024;
/// Maximum bytes of a chain in the log, which is written as one frame.
pub const CHAIN_BYTES_MAX: usize = 16 << 20;

/// Requested commit: puts and deletes with preconditions.
#[derive(Clone, Debug)]
pub struct Proposal {
    pub(crate) time: Time,
    pub(crate) changes: Vec<ConditionalWrite>,
    pub(crate) guards: Vec<(Key, Precondition)>,
    cause: Arc<CommitCause>,
    /// Proposals of the chain before this one.
    predecessors: Vec<Proposal>,
    /// `true` if it is only admitted together with the next proposal.
    pub(crate) linked: bool,
}

impl Proposal {
    /// Returns a proposal without changes.
    #[must_use]
    pub fn new(cause: impl Into<Arc<CommitCause>>, time: Time) -> Proposal {
        Proposal {
            time,
            changes: Vec::with_capacity(1),
            guards: Vec::new(),
            cause: cause.into(),
            predecessors: Vec::new(),
            linked: false,
        }
    }

    /// Puts `draft` at `key` if the precondition holds.
    #[must_use]
    pub fn put(mut self, key: Key, precondition: Precondition, draft: Draft) -> Proposal {
        let envelope = RecordEnvelope::encode(&self.cause, &draft.labels, &draft.fields);
        let body =
            RecordBody { bytes: draft.bytes, revision_offset: draft.revision_offset, expires: draft.expires };
        self.changes.push(ConditionalWrite {
            precondition,
            write: LogWrite { key, body: Some(body), envelope, sealed: None },
        });
        self
    }

    /// Deletes `key` if it exists and the precondition holds.
    #[must_use]
    pub fn delete(mut self, key: Key, precondition: Precondition) -> Proposal {
        let envelope =
            RecordEnvelope::encode(&self.cause, &EncodedPairs::default(), &EncodedPairs::default());
        self.changes.push(ConditionalWrite {
            precondition,
            write: LogWrite { key, body: None, envelope, sealed: None },
        });
        self
    }

    /// Adds a precondition on a key that the commit does not change.
    #[must_use]
    pub fn guard(mut self, key: Key, precondition: Precondition) -> Proposal {
        self.guards.push((key, precondition));
        self
    }

    /// Chains `first` before this proposal, at its own revision. Both are admitted or neither is. The
    /// current state never contains one without the other, also after a restart.
    #[must_use]
    pub fn after(mut self, mut first: Proposal) -> Proposal {
        self.predecessors.append(&mut first.predecessors);
        self.predecessors.push(Proposal { linked: true, ..first });
        self
    }

    /// Proposals of the chain before this one, in order.
    #[must_use]
    pub fn predecessors(&self) -> &[Proposal] {
        &self.predecessors
    }

    /// Returns the proposals of the chain in commit order.
    pub fn in_order(mut self) -> impl Iterator<Item = Proposal> {
        self.linked = false;
        std::mem::take(&mut self.predecessors).into_iter().chain([self])
    }

    /// Time of the writer's clock.
    #[must_use]
    pub fn time(&self) -> Time {
        self.time
    }

    /// Writes of the commit, in order, as a log stores them.
    pub fn writes(&self) -> impl ExactSizeIterator<Item = &LogWrite> {
        self.changes.iter().map(|change| &change.write)
    }

    /// `true` if it has no puts. Such a commit is admitted when the disk is full.
    #[must_use]
    pub fn only_deletes(&self) -> bool {
        self.changes.iter().all(|change| change.write.body.is_none())
    }

    /// `true` if the chain creates an object.
    pub(crate) fn creates(&self) -> bool {
        let is_create = |change: &ConditionalWrite| {
            change.precondition == Precondition::Absent && change.write.body.is_some()
        };
        self.changes.iter().any(is_create) || self.predecessors.iter().any(Proposal::creates)
    }

    /// `true` if it changes one of these resources.
    #[must_use]
    pub fn touches_any(&self, resources: &BTreeSet<Resource>) -> bool {
        !resources.is_empty()
            && self.changes.iter().any(|change| resources.contains(change.write.key.resource()))
    }

    /// Approximate bytes of the commit in the log.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.changes.iter().map(|change| change.write.bytes()).sum()
    }

    /// Rejects proposals that are invalid in every state of the store.
    pub(crate) fn validate(&self) -> Result<(), RejectReason> {
        if self.changes.is_empty() {
            return Err(RejectReason::Empty);
        }
        let parts = self.changes.len().max(self.guards.len());
        if parts > COMMIT_CHANGES_MAX {
            return Err(RejectReason::TooManyChanges { changes: parts });
        }
        for (i, change) in self.changes.iter().enumerate() {
            let resource = change.write.key.resource();
            if self.changes[..i].iter().any(|other| other.write.key.resource() == resource) {
                return Err(RejectReason::TwoOfOneResource { resource: resource.clone() });
            }
            if let Some(RecordBody { bytes, revision_offset: Some(revision_offset), .. }) = &change.write.body
                && *revision_offset as usize > bytes.len()
            {
                return Err(RejectReason::InvalidRevisionOffset { key: change.write.key.clone() });
            }
        }
        let bytes = self.bytes();
        if bytes > COMMIT_BYTES_MAX { Err(RejectReason::TooLarge { bytes }) } else { Ok(()) }
    }
}

/// Write of a proposal, with its precondition.
#[derive(Clone, Debug)]
pub(crate) struct ConditionalWrite {
    pub precondition: Precondition,
    pub write: LogWrite,
}

/// Put (with a body) or delete (without), as logs store it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogWrite {
    /// Key that it changes.
    pub key: Key,
    /// New value of the key; `None` for a delete.
    pub body: Option<RecordBody>,
    /// Labels, fields and cause, encoded.
    pub envelope: RecordEnvelope,
    /// Sealed form, if it was left sealed when it was read. Then the body and the envelope are empty.
    pub sealed: Option<Box<SealedWrite>>,
}

impl LogWrite {
    /// Approximate bytes in a log.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let body = self.body.as_ref().map_or(0, |body| body.bytes.len());
        self.key.resource().as_str().len() + self.key.path().len() + body + self.envelope.bytes().len() + 32
    }
}

/// Value of a put.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordBody {
    /// Value without its revision.
    pub bytes: Bytes,
    /// Byte offset at which the digits of the revision are inserted; `None` if the value does not contain
    /// it.
    pub revision_offset: Option<u32>,
    /// Time at which the store deletes the key.
    pub expires: Option<Time>,
}

/// Commit as logs store it and mirrors apply it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Position in the order of all commits.
    pub revision: Revision,
    /// Time of the writer's clock.
    pub time: Time,
    /// Writes, at most one per resource.
    pub writes: Vec<LogWrite>,
}

/// Value to be put, with its labels, fields and expiry.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    bytes: Bytes,
    revision_offset: Option<u32>,
    labels: EncodedPairs,
    fields: EncodedPairs,
    expires: Option<Time>,
}

impl Draft {
    /// Returns a draft of a value that does not contain its revision.
    #[must_use]
    pub fn new(bytes: impl Into<Bytes>) -> Draft {
        Draft { bytes: bytes.into(), ..Draft::default() }
    }

    /// Returns a draft of a value that contains its revision: the decimal digits are inserted at `offset`.
    #[must_use]
    pub fn with_revision_at(bytes: impl Into<Bytes>, offset: u32) -> Draft {
        Draft { bytes: bytes.into(), revision_offset: Some(offset), ..Draft::default() }
    }

    /// Sets the labels by which cursors can select the object.
    #[must_use]
    pub fn labels<K: AsRef<str>, V: AsRef<str>>(mut self, pairs: impl IntoIterator<Item = (K, V)>) -> Draft {
        self.labels = pairs.into_iter().collect();
        self
    }

    /// Sets the fields by which cursors can select the object.
    #[must_use]
    pub fn fields<K: AsRef<str>, V: AsRef<str>>(mut self, pairs: impl IntoIterator<Item = (K, V)>) -> Draft {
        self.fields = pairs.into_iter().collect();
        self
    }

    /// Sets the time at which the store deletes the key, by an ordinary commit.
    #[must_use]
    pub fn expires(mut self, at: Time) -> Draft {
        self.expires = Some(at);
        self
    }
}

/// Origin of a commit. Stored with the commit, also for deletes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitCause {
    /// User that sent the request.
    pub user: String,
    /// Field manager.
    pub manager: String,
    /// Reconciler that planned it; empty for other clients.
    pub reconciler: String,
    /// Revision that the writer had observed.
    pub seen: Revision,
    /// Paths of the changed fields.
    pub paths: Vec<String>,
}

/// Precondition on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The key may exist or not.
    Any,
    /// The key must not exist.
    Absent,
    /// The key must exist.
    Present,
    /// The key's last put must be at this revision.
    Revision(Revision),
}

impl Precondition {
    /// `true` if the precondition holds for a key whose last put was at `actual` (`None` if the key does not
    /// exist).
    #[must_use]
    pub fn holds(self, actual: Option<Revision>) -> bool {
        match self {
            Precondition::Any => true,
            Precondition::Absent => actual.is_none(),
            Precondition::Present => actual.is_some(),
            Precondition::Revision(revision) => actual == Some(revision),
        }
    }
}

impl fmt::Display for Precondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Precondition::Any => f.write_str("any state"),
            Precondition::Absent => f.write_str("no object"),
            Precondition::Present => f.write_str("an object"),
            Precondition::Revision(revision) => write!(f, "revision {revision}"),
        }
    }
}

/// Precondition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{key}: expected {expected}, found {}", ActualRevision(*.actual))]
pub struct FailedPrecondition {
    /// Key of the precondition.
    pub key: Key,
    /// Expected state of the key.
    pub expected: Precondition,
    /// Revision of the key's last put; `None` if the key does not exist.
    pub actual: Option<Revision>,
}

struct ActualRevision(Option<Revision>);

impl fmt::Display for ActualRevision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Precondition::Absent, Precondition::Revision).fmt(f)
    }
}

/// Reason for which a proposal was rejected. No part of it was applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RejectReason {
    /// A precondition does not hold.
    #[error(transparent)]
    Conflict(#[from] FailedPrecondition),
    /// It has no changes.
    #[error("the commit has no changes")]
    Empty,
    /// It changes two keys of one resource, between which no watch could resume.
    #[error("the commit changes two keys of {resource}")]
    TwoOfOneResource {
        /// Resource of both keys.
        resource: Resource,
    },
    /// It has more changes or guards than [`COMMIT_CHANGES_MAX`].
    #[error("the commit has {changes} changes or guards, at most {COMMIT_CHANGES_MAX} are allowed")]
    TooManyChanges {
        /// Number of changes or guards.
        changes: usize,
    },
    /// Its chain has more commits than [`CHAIN_COMMITS_MAX`].
    #[error("the chain has {commits} commits, at most {CHAIN_COMMITS_MAX} are allowed")]
    TooManyCommits {
        /// Number of commits in the chain.
        commits: usize,
    },
    /// It takes more bytes than [`COMMIT_BYTES_MAX`].
    #[error("the commit takes {bytes} bytes, at most {COMMIT_BYTES_MAX} are allowed")]
    TooLarge {
        /// Bytes of the commit.
        bytes: usize,
    },
    /// Its chain takes more bytes than [`CHAIN_BYTES_MAX`].
    #[error("the chain takes {bytes} bytes, at most {CHAIN_BYTES_MAX} are allowed")]
    ChainTooLarge {
        /// Bytes of the chain.
        bytes: usize,
    },
    /// The offset of the revision is greater than the length of the value.
    #[error("{key}: the offset of the revision is greater than the length of the value")]
    InvalidRevisionOffset {
        /// Key of the value.
        key: Key,
    },
    /// The disk has no space for puts. Deletes are admitted as long as the reserve lasts.
    #[error("the disk is full: free some space, or delete objects")]
    DiskFull,
    /// The live objects take [`Retention::live_bytes`](crate::Retention::live_bytes) or more: objects can be
    /// updated and deleted, but not created.
    #[error(
        "the store is full: objects take {bytes} bytes, at most {max} are allowed; delete some, or raise the limit"
    )]
    StoreFull {
        /// Bytes of all live objects.
        bytes: u64,
        /// Maximum bytes.
        max: u64,
    },
    /// The resource is sealed, and there is no valid key to seal puts with.
    #[error("{resource} cannot be encrypted: {reason}")]
    NoValidKey {
        /// Sealed resource.
        resource: Resource,
        /// Reason, from the sealer.
        reason: String,
    },
    /// The process has no file descriptor left for the next file of the log. Deletes are admitted as long as
    /// the reserve lasts. A retry succeeds once descriptors have been released.
    #[error("too many open files: the next file of the log cannot be created, retry later")]
    NoDescriptors,
}
