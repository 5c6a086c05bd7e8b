//! API types and rules: the part of the control plane that every other crate depends on.
//!
//! - Identifiers: [`Revision`], [`Time`], [`Resource`], [`Key`].
//! - Objects: [`Value`], the dynamic object of the write path; [`json`] and [`yaml`] codecs; the [`schema`] of
//!   every built-in kind and the [`resources`] that serve them; [`mod@decode`] checks a value against its schema.
//! - Custom resources: [`structural`] schemas, their pruning, defaulting and validation.
//! - Validation: [`metadata`] for what all objects share, [`kinds`] for the rules of each kind.
//! - Writes: [`apply`] is server-side apply (field ownership and merge), [`patch`] the other three patch types.
//! - Other encodings: [`protobuf`], [`printing`] (the Table of `kubectl get`), [`openapi`].
//! - Custom resources: [`custom`] reads their definitions.
//! - Small grammars: [`quantity`], [`json_path`], label selectors ([`labels`]), field selectors ([`fields`]), [`names`],
//!   timestamps ([`rfc3339`]), Go's `%q` ([`quote`]).
//! - Requests: [`identity`] is the user, [`request_info`] the attributes.
//! - Errors: [`field_error`] is the error of one field, [`status`] the `Status` that a client receives.
//!
//! The crate is pure: it does no I/O, reads no clock and draws no random numbers. Start at [`kinds`] for a kind's
//! rules, at [`mod@decode`] for the path of a request body.

pub mod apply;
mod base64;
pub mod clock;
pub mod custom;
pub mod custom_kind;
pub mod decode;
pub mod entropy;
pub mod field_error;
pub mod fields;
pub mod go_format;
pub mod identity;
pub mod json;
pub mod json_path;
pub mod key;
pub mod kind_schema;
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
pub mod request_info;
pub mod resource_types;
pub mod resources;
pub mod revision;
pub mod rfc3339;
pub mod schema;
pub mod status;
pub mod structural;
pub mod time;
pub mod value;
pub mod yaml;

pub use clock::{Clock, ManualClock};
pub use entropy::Entropy;
pub use go_format::format_label_selector;
pub use identity::Identity;
pub use key::{Key, KeyError, Resource};
pub use request_info::RequestInfo;
pub use resource_types::ResourceType;
pub use revision::Revision;
pub use time::Time;
pub use value::{Map, Value};
