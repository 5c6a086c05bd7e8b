//! Field ownership: who wrote which field of an object, and merging what several writers want.
//!
//! - Start with [`apply()`] and [`update()`], one of which runs for every write, for a [`Writer`].
//! - [`field_set`] is a set of field paths, [`element`] a step of a path; [`managers`] has one set per writer.
//! - [`mod@paths`], [`mod@compare`] and [`mod@merge`] look at objects by their schema.
//!
//! Everything here is a pure function. Objects with owners are what other clients of the API expect to find, so
//! order, form and words are those that upstream has.

pub mod compare;
pub mod config;
pub mod conflict;
mod created;
pub mod element;
pub mod field_set;
pub mod fields;
mod fields_text;
pub mod filter;
pub mod last_applied;
pub mod managers;
pub mod merge;
pub mod paths;
mod prune;
pub mod scale;
mod types;
pub mod update;
pub mod writer;

pub use compare::Comparison;
pub use config::{Applied, ApplyError, apply};
pub use conflict::{Conflict, Conflicts};
pub use element::Element;
pub use field_set::{FieldSet, Path};
pub use filter::Filter;
pub use managers::{Entry, Managers};
pub use update::{Updated, keep_times, update};
pub use writer::{OneVersion, Versions, Writer, manager_name};
