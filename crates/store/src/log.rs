//! Log: the durable sequence of commits from which mirrors are built.
//!
//! A [`Log`] takes proposals, decides each against the state that the previous ones left, and returns when
//! the admitted ones are durable. One test suite runs against all implementations: [`MemoryLog`] for tests,
//! forks and ephemeral servers, and [`DiskLog`] for persistent ones. The trait also allows for etcd, which
//! decides by compare-and-swap and returns the revision. Therefore no caller chooses a revision, and a log
//! can be *shared*: then commits of other writers reach the mirror through [`Log::tail`].

mod admission;
pub mod disk;
mod memory;
mod wire;

use setpoint_api::{Key, Revision, Time};
use thiserror::Error;

pub use admission::decide;
pub use disk::DiskLog;
pub use memory::MemoryLog;
pub use wire::{
    CommitDecodeError, Interner, decode_commit, encode_commit, encode_record, open_write, seal_record,
};

use std::sync::Arc;

use crate::commit::{Commit, Proposal, RejectReason};
use crate::mirror::Snapshot;
use crate::seal::{OpenError, Sealing};

/// Decision of the log about a proposal.
pub type Verdict = Result<Revision, RejectReason>;

/// Durable, ordered sequence of commits.
pub trait Log: Send {
    /// Replays everything that was acknowledged: the newest base, then each commit after it in order. Called
    /// once, before any other method. Drops a torn tail.
    fn replay(&mut self, into: &mut dyn Replay) -> Result<(), LogError>;

    /// Decides the proposals in order and makes the admitted ones durable with one sync. The proposals of a
    /// chain ([`Proposal::after`]) are adjacent and in order, and are admitted and durable together.
    ///
    /// `current` is the state after the last commit. A log with one writer decides by it, a shared log by its
    /// own state. After an error the outcome of the batch is unknown: the process must exit and recover.
    fn append(
        &mut self,
        batch: &[Proposal],
        current: &dyn CurrentRevisions,
    ) -> Result<Vec<Verdict>, LogError>;

    /// `true` if other processes append to the same log. Then commits are only taken from [`Log::tail`].
    fn is_shared(&self) -> bool {
        false
    }

    /// Passes every durable commit after `after` to `each`, in order.
    fn tail(&mut self, after: Revision, each: &mut dyn FnMut(Commit)) -> Result<(), LogError> {
        self.reader().tail(after, Revision(u64::MAX), each)
    }

    /// Returns a reader of past states that does not block the writer.
    fn reader(&self) -> Box<dyn LogReader>;

    /// Called with the mirror after every batch, so that a log in memory can keep it instead of its own
    /// copy.
    fn published(&mut self, _snapshot: &Snapshot) {}

    /// `true` if [`Log::maintenance_task`] would return a task. Called after every batch.
    fn needs_maintenance(&self) -> bool {
        false
    }

    /// Returns the maintenance task that is due, to be run beside the writer: preallocation or compaction.
    fn maintenance_task(
        &mut self,
        snapshot: &Snapshot,
        now: Time,
    ) -> Result<Option<Box<dyn MaintenanceTask>>, LogError>;

    /// Returns the task that folds everything up to `snapshot`, the current state, into a base, also if it
    /// is not due.
    fn compact(&mut self, snapshot: &Snapshot, now: Time) -> Result<Box<dyn MaintenanceTask>, LogError>;

    /// Returns the sealing of records; `None` if they are stored as they are.
    fn sealing(&self) -> Option<Arc<Sealing>> {
        None
    }

    /// Records how far the log is durable, before an orderly exit.
    fn record_durable_end(&mut self) {}

    /// Returns the sizes of the log.
    fn stat(&self) -> LogStat;
}

/// Receiver of a log's replay.
pub trait Replay {
    /// Receives the base state.
    fn base(&mut self, snapshot: Snapshot);
    /// Receives the next commit.
    fn commit(&mut self, commit: Commit);
}

/// Reader of a log that may be written concurrently.
pub trait LogReader: Send {
    /// Returns the newest base at or before `at_most`.
    fn base(&mut self, at_most: Revision) -> Result<Snapshot, LogError>;

    /// Passes the commits after `after` up to `until` to `each`, in order. `until` has been acknowledged, or
    /// is `u64::MAX` for all commits. Compaction may have removed the writes of resources that are exempt
    /// from history.
    fn tail(
        &mut self,
        after: Revision,
        until: Revision,
        each: &mut dyn FnMut(Commit),
    ) -> Result<(), LogError>;
}

/// Rebuilds the state at `until`, or the newest one before it that the log holds.
///
/// # Errors
/// If the revision has been compacted, or the log cannot be read.
pub fn rebuild(reader: &mut dyn LogReader, until: Revision) -> Result<Snapshot, LogError> {
    let mut snapshot = reader.base(until)?;
    let base = snapshot.revision();
    reader.tail(base, until, &mut |commit| snapshot.apply(&commit, |_, _, _| ()))?;
    Ok(snapshot)
}

/// Maintenance task that can run concurrently with the writer.
pub trait MaintenanceTask: Send {
    /// Runs the task.
    fn run(self: Box<Self>) -> Result<(), LogError>;
}

/// Lookup of the current revision of a key.
pub trait CurrentRevisions {
    /// Returns the revision of the key's last put; `None` if the key does not exist.
    fn current_revision(&self, key: &Key) -> Option<Revision>;
}

impl CurrentRevisions for Snapshot {
    fn current_revision(&self, key: &Key) -> Option<Revision> {
        self.get(key).map(crate::record::Record::revision)
    }
}

/// Sizes of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStat {
    /// Oldest revision that can be rebuilt.
    pub floor: Revision,
    /// Bytes of commits since the newest base.
    pub live_bytes: u64,
    /// Bytes of the newest base.
    pub base_bytes: u64,
    /// Bytes of history before the newest base.
    pub history_bytes: u64,
    /// Number of syncs.
    pub syncs: u64,
    /// `true` if puts are rejected for lack of space.
    pub full: bool,
}

/// Failure of a log.
#[derive(Debug, Error)]
pub enum LogError {
    /// The operating system failed an operation.
    #[error("cannot {action} {file}: {source}")]
    Io {
        /// Attempted operation.
        action: &'static str,
        /// Name of the file.
        file: String,
        /// Error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// Written data is damaged or missing.
    #[error("{file} is corrupt at byte {position}: {detail}")]
    Corrupt {
        /// Name of the file.
        file: String,
        /// Byte offset of the damage.
        position: u64,
        /// Description of the damage.
        detail: String,
    },
    /// A sealed write cannot be opened, although it is not known to be damaged.
    #[error(
        "{file} has a sealed object at byte {position} that cannot be opened: {resource} {path} at revision {revision}, sealed with key {key:?}: {error}"
    )]
    Sealed {
        /// Name of the file.
        file: String,
        /// Byte offset of its frame.
        position: u64,
        /// Resource of the object.
        resource: setpoint_api::Resource,
        /// Path of the object.
        path: String,
        /// Revision of the write.
        revision: Revision,
        /// Id of the key.
        key: Arc<str>,
        /// Reason.
        error: OpenError,
    },
    /// The sealer failed.
    #[error("records cannot be encrypted: {0}")]
    Seal(String),
    /// All segments and checkpoints are missing.
    #[error(
        "the data directory has {remaining_file} but no segment-* or checkpoint-* file, so a store has been \
         lost: restore the files from a backup, or remove the data directory to start with an empty one"
    )]
    Lost {
        /// Remaining file that proves that there was a log.
        remaining_file: String,
    },
    /// The file was written by a newer program.
    #[error("{file} has format {found}, this program reads formats up to {known}: use a newer setpoint")]
    Format {
        /// Name of the file.
        file: String,
        /// Format of the file.
        found: u32,
        /// Newest known format.
        known: u32,
    },
    /// Another process holds the lock of the data directory.
    #[error("{dir} is in use by another setpoint process{}: stop it, or choose another data directory", Pid(*.pid))]
    InUse {
        /// Data directory.
        dir: String,
        /// Process that holds the lock, if it recorded its id.
        pid: Option<u32>,
    },
    /// History before this revision has been compacted.
    #[error("history before revision {floor} has been compacted")]
    Compacted {
        /// Oldest revision that is available.
        floor: Revision,
    },
    /// Error of another storage engine.
    #[error("the storage engine failed: {0}")]
    Engine(String),
}

struct Pid(Option<u32>);

impl std::fmt::Display for Pid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |pid| write!(f, " (process {pid})"))
    }
}
