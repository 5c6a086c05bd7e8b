//! What can be said: the words every other crate speaks in.
//!
//! Today these are the identifiers that the store needs: [`Revision`], [`Time`], [`Resource`] and
//! [`Key`]. Nothing here does I/O, reads a clock or draws a random number.

pub mod field_error;
pub mod fields;
pub mod key;
pub mod labels;
pub mod names;
pub mod quantity;
pub mod quote;
pub mod revision;
pub mod rfc3339;
pub mod status;
pub mod time;

pub use key::{Key, KeyError, Resource};
pub use revision::Revision;
pub use time::Time;
