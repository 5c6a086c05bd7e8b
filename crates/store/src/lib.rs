//! What is true: the log, the mirror, the watch.
//!
//! The [`log`] is the truth: a durable sequence of commits. The [`mirror`] is a pure function of it: the
//! state of everything at one revision, as a value. Readers take a [`Snapshot`]; followers hold a
//! [`Cursor`]; writers hand in a [`Proposal`] and get a revision when it is durable. [`Store`] ties the three
//! together; start reading there.
//!
//! Time, chance and the disk come in as arguments, so that a simulator can own them.

pub mod codec;
pub mod commit;
pub mod cursor;
pub mod disk;
mod housekeeper;
mod idle;
mod lane;
pub mod log;
pub mod mirror;
mod pack;
mod pins;
pub mod record;
pub mod retention;
mod ring;
pub mod store;
mod ticket;
mod writer;

pub use commit::{Cause, Commit, Conflict, Draft, Expect, Proposal, Refusal};
pub use cursor::{Change, Cursor, Event, Filter, Select};
pub use housekeeper::Housekeeper;
pub use mirror::{Snapshot, Table};
pub use record::Record;
pub use retention::Retention;
pub use ring::Compacted;
pub use store::{ChoreError, CommitError, Committed, ReadError, Store, StoreStat};
pub use ticket::Ticket;
pub use writer::{BATCH_BYTES_MAX, BATCH_COMMITS_MAX};
