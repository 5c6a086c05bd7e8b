//! Audit of requests: which requests are recorded, at which level, and how their records are encoded.
//!
//! The crate is pure: it reads no clock and writes no file. [`Policy::read`] reads a policy file, [`Policy::decide`]
//! matches a request to its rules, and [`Event`] encodes one stage of a request as `audit.k8s.io/v1` JSON or as a line
//! of the legacy format. [`objects`] prepares request and response objects; [`source_ips`] has the addresses of a client.
//!
//! Invariant: an event has no object above its level. The encoder checks the level itself, so a caller cannot leak one:
//! `event::tests::objects_are_encoded_only_at_their_level`.

mod event;
mod level;
pub mod objects;
mod policy;
mod source;

pub use event::{
    API_VERSION, Event, EventList, KIND_PREFIX, ObjectReference, TRUNCATED_ANNOTATION, USER_AGENT_BYTES_MAX,
    user_agent,
};
pub use level::{Level, Stage, StageSet};
pub use policy::{AuditDecision, GroupResources, Policy, PolicyError, Rule};
pub use source::{ForwardingHeaders, source_ips};
