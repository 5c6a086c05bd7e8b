//! What can be said: the words every other crate speaks in.
//!
//! These are the identifiers that the store needs ([`Revision`], [`Time`], [`Resource`] and [`Key`]); the
//! [`Value`] that the write path works on, with [`json`] in and out and [`yaml`] in; the [`schema`] of every
//! built-in kind and the [`resources`] that serve them; and [`mod@decode`], which brings the two together.
//! Nothing here does I/O, reads a clock or draws a random number.

pub mod decode;
pub mod json;
pub mod key;
pub mod resources;
pub mod revision;
pub mod schema;
pub mod time;
pub mod value;
pub mod yaml;

pub use key::{Key, KeyError, Resource};
pub use revision::Revision;
pub use time::Time;
pub use value::{Map, Value};
