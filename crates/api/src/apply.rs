//! Server-side apply and field ownership, the counterpart of structured-merge-diff and `managedFields`.
//!
//! - Start with [`apply()`] and [`update()`], one of which runs for every write, for a [`ApplyContext`].
//! - [`field_set`] is a set of field paths, [`element`] a path element; [`managers`] has one set per field manager.
//! - [`mod@paths`], [`mod@compare`] and [`mod@merge`] walk objects by their schema.
//!
//! Everything here is a pure function. Other clients of the API read and compare `managedFields`, so order,
//! encoding and messages are those of upstream.

pub mod atomics;
pub mod compare;
pub mod config;
pub mod conflict;
mod created;
pub mod element;
pub mod field_set;
mod field_set_writer;
pub mod filter;
pub mod last_applied;
pub mod managers;
pub mod merge;
pub mod owned_fields;
pub mod paths;
mod prune;
pub mod scale;
mod types;
pub mod update;
pub mod writer;

pub use atomics::atomic_paths;
pub use compare::Comparison;
pub use config::{Applied, ApplyError, apply};
pub use conflict::{Conflicts, FieldConflict};
pub use element::Element;
pub use field_set::{FieldPath, FieldSet};
pub use filter::Filter;
pub use managers::{Entry, ManagedOperation, Managers};
pub use types::MergeType;
pub use update::{Updated, keep_times, update};
pub use writer::{ApplyContext, OneVersion, Versions, manager_name};
