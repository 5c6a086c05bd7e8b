//! What can be said: the words every other crate speaks in.
//!
//! - Identifiers: [`Revision`], [`Time`], [`Resource`], [`Key`].
//! - Objects: the [`Value`] that the write path works on, [`json`] in and out, [`yaml`] in; the [`schema`] of
//!   every built-in kind and the [`resources`] that serve them; [`mod@decode`] brings the two together.
//! - [`metadata`]: what all objects have; [`kinds`]: what is particular to each kind.
//! - [`kinds`]: what is particular to each kind.
//! - [`apply`]: who owns which field, and merging what several writers want.
//! - Small languages: [`quantity`], label selectors ([`labels`]), field selectors ([`fields`]), [`names`],
//!   times ([`rfc3339`]), text as Go quotes it ([`quote`]).
//! - Changes and views: [`patch`]; [`printing`], what `kubectl get` shows.
//! - Refusals: [`field_error`] says what is wrong with a field, [`status`] says it to a client.
//!
//! Nothing here does I/O, reads a clock or draws a random number.

pub mod apply;
mod base64;
pub mod clock;
pub mod decode;
pub mod entropy;
pub mod field_error;
pub mod fields;
pub mod json;
pub mod key;
pub mod kinds;
pub mod labels;
pub mod metadata;
pub mod names;
pub mod openapi;
pub mod patch;
pub mod printing;
pub mod protobuf;
pub mod quantity;
pub mod quote;
pub mod resource_types;
pub mod resources;
pub mod revision;
pub mod rfc3339;
pub mod schema;
pub mod status;
pub mod time;
pub mod value;
pub mod yaml;

pub use clock::{Clock, ManualClock};
pub use entropy::Entropy;
pub use key::{Key, KeyError, Resource};
pub use resource_types::ResourceType;
pub use revision::Revision;
pub use time::Time;
pub use value::{Map, Value};
