//! Object store: a durable log of commits, an in-memory mirror of it, and watches.
//!
//! The [`log`] is the source of truth: a durable sequence of commits. The [`mirror`] is a pure function of
//! the log: all objects at one revision, as an immutable value. Readers take a [`Snapshot`], watches hold a
//! [`Cursor`], and writers submit a [`Proposal`], which gets a revision when it is durable. [`Store`] ties
//! the three together; start reading there.
//!
//! Time, randomness and the disk are arguments, so that a simulator can control them.

pub mod codec;
pub mod commit;
pub mod cursor;
pub mod disk;
mod idle;
mod lane;
pub mod log;
mod maintenance;
pub mod mirror;
mod pack;
mod pending;
mod pins;
pub mod record;
pub mod retention;
mod ring;
pub mod seal;
pub mod store;
mod writer;

pub use commit::{Commit, CommitCause, Draft, FailedPrecondition, Precondition, Proposal, RejectReason};
pub use cursor::{Cursor, RecordSelector, WatchEvent, WatchEventType, WatchFilter};
pub use maintenance::MaintenanceThread;
pub use mirror::{Snapshot, Table};
pub use pending::PendingCommit;
pub use record::Record;
pub use retention::Retention;
pub use ring::Compacted;
pub use seal::Sealer;
pub use store::{CommitError, CommitResponse, MaintenanceError, ReadError, Store, StoreStat};
pub use writer::{BATCH_BYTES_MAX, BATCH_COMMITS_MAX};
