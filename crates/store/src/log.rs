//! The log: the truth that mirrors are made of.
//!
//! A [`Log`] takes proposals, decides each by the state that the ones before it left, and answers when they
//! are durable. It is one trait so that one test suite can hold every implementation to it: [`MemoryLog`]
//! for tests, forks and ephemeral servers, [`DiskLog`] for everybody else, and later etcd, which decides by
//! compare-and-swap on its own and learns the revision only from its answer. So nothing here lets a caller
//! choose a revision, and a log may be *shared*: commits then come from other writers too, and reach the
//! mirror through [`Log::tail`].

mod decide;
pub mod disk;
mod memory;
mod wire;

use setpoint_api::{Key, Revision, Time};
use thiserror::Error;

pub use decide::decide;
pub use disk::DiskLog;
pub use memory::MemoryLog;
pub use wire::{Interner, decode_commit, encode_commit, encode_record};

use crate::commit::{Commit, Proposal, Refusal};
use crate::mirror::Snapshot;

/// What became of a proposal.
pub type Verdict = Result<Revision, Refusal>;

/// A durable, ordered sequence of commits.
pub trait Log: Send {
    /// Gives back all that was ever acknowledged: the newest base, then each commit after it in order. Called
    /// once, before anything else; this is where a torn tail is dropped.
    fn replay(&mut self, into: &mut dyn Replay) -> Result<(), LogError>;

    /// Decides the proposals one after another and makes the admitted ones durable with one sync. Those that are made
    /// together ([`Proposal::after`]) stand side by side, the last one last, and are admitted and durable together.
    ///
    /// `heads` is the state after the last commit; a log with one writer decides by it, a shared log by its
    /// own. An error means that nothing can be said of the batch: the process must end and recover.
    fn append(&mut self, batch: &[Proposal], heads: &dyn Heads) -> Result<Vec<Verdict>, LogError>;

    /// Whether others append to the same log. Then commits are to be taken from [`Log::tail`] only.
    fn is_shared(&self) -> bool {
        false
    }

    /// Gives every durable commit after `after`, in order.
    fn tail(&mut self, after: Revision, each: &mut dyn FnMut(Commit)) -> Result<(), LogError> {
        self.reader().tail(after, Revision(u64::MAX), each)
    }

    /// A reader of the past that does not stand in the writer's way.
    fn reader(&self) -> Box<dyn LogReader>;

    /// Told after every batch what the mirror now is, so that a log in memory can keep that instead of a
    /// copy of its own.
    fn published(&mut self, _snapshot: &Snapshot) {}

    /// Whether [`Log::chore`] would find something worth doing. Asked after every batch.
    fn has_chore(&self) -> bool {
        false
    }

    /// Work that should be done aside: make room ahead of need, fold old commits into a base.
    fn chore(&mut self, snapshot: &Snapshot, now: Time) -> Result<Option<Box<dyn Chore>>, LogError>;

    /// The chore that folds everything up to `snapshot`, the newest state, into a base, whether it is time
    /// for it or not.
    fn compact(&mut self, snapshot: &Snapshot, now: Time) -> Result<Box<dyn Chore>, LogError>;

    /// Notes how far it is durable, before a process ends as it should.
    fn note_end(&mut self) {}

    /// How large it is.
    fn stat(&self) -> LogStat;
}

/// What a log gives back when it is opened.
pub trait Replay {
    /// The state to start from.
    fn base(&mut self, snapshot: Snapshot);
    /// The next commit.
    fn commit(&mut self, commit: Commit);
}

/// Reads what a log holds while others write to it.
pub trait LogReader: Send {
    /// The newest base at or before `at_most`.
    fn base(&mut self, at_most: Revision) -> Result<Snapshot, LogError>;

    /// Gives the commits after `after` up to `until`, in order; `until` has been acknowledged, or is `u64::MAX`
    /// for all there are. Compaction may have left out the writes of resources that are exempt from history.
    fn tail(
        &mut self,
        after: Revision,
        until: Revision,
        each: &mut dyn FnMut(Commit),
    ) -> Result<(), LogError>;
}

/// Rebuilds the state at `until`, or the newest one before it that the log knows.
///
/// # Errors
/// If the log does not reach so far back, or cannot be read.
pub fn rebuild(reader: &mut dyn LogReader, until: Revision) -> Result<Snapshot, LogError> {
    let mut snapshot = reader.base(until)?;
    let base = snapshot.revision();
    reader.tail(base, until, &mut |commit| snapshot.apply(&commit, |_, _, _| ()))?;
    Ok(snapshot)
}

/// A piece of work that may run beside the writer.
pub trait Chore: Send {
    /// Does it.
    fn run(self: Box<Self>) -> Result<(), LogError>;
}

/// Answers which revision last put a key.
pub trait Heads {
    /// The revision, if the key is there.
    fn head(&self, key: &Key) -> Option<Revision>;
}

impl Heads for Snapshot {
    fn head(&self, key: &Key) -> Option<Revision> {
        self.get(key).map(crate::record::Record::revision)
    }
}

/// How large a log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStat {
    /// The oldest revision that can still be rebuilt.
    pub floor: Revision,
    /// The bytes of commits since the newest base.
    pub live_bytes: u64,
    /// The bytes of the newest base.
    pub base_bytes: u64,
    /// The bytes of history before it.
    pub history_bytes: u64,
    /// How many syncs have been waited for.
    pub syncs: u64,
    /// Whether puts are refused for want of room.
    pub full: bool,
}

/// Why a log cannot go on.
#[derive(Debug, Error)]
pub enum LogError {
    /// The operating system refused an operation.
    #[error("cannot {action} {file}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        file: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// What was written is not there any more.
    #[error("{file} is corrupt at byte {position}: {what}")]
    Corrupt {
        /// Which file.
        file: String,
        /// Where in it.
        position: u64,
        /// What is wrong there.
        what: String,
    },
    /// All segments and checkpoints are gone.
    #[error(
        "no segment-* or checkpoint-* file is left, but {leftover} is, so there was a store: restore the files from a \
         backup, or remove the data directory to start with an empty one"
    )]
    Lost {
        /// A file that shows it.
        leftover: String,
    },
    /// Files written by a newer program.
    #[error("{file} has format {found}, this program reads formats up to {known}: use a newer setpoint")]
    Format {
        /// Which file.
        file: String,
        /// Its format.
        found: u32,
        /// The newest known one.
        known: u32,
    },
    /// The directory belongs to another process.
    #[error("{dir} is in use by another setpoint process{}: stop it, or choose another data directory", Pid(*.pid))]
    InUse {
        /// The data directory.
        dir: String,
        /// The process that holds it, if it said so.
        pid: Option<u32>,
    },
    /// History before this revision is gone.
    #[error("history before revision {floor} has been compacted")]
    Compacted {
        /// The oldest revision that is left.
        floor: Revision,
    },
    /// Another storage engine's word on what went wrong.
    #[error("the storage engine failed: {0}")]
    Engine(String),
}

struct Pid(Option<u32>);

impl std::fmt::Display for Pid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |pid| write!(f, " (process {pid})"))
    }
}
