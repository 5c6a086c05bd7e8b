//! Authorization: may this user send this request?
//!
//! The crate is pure: it reads no sockets and no store. An authorizer gets the [`Attributes`] of a request and returns
//! a [`Decision`]; a server asks its authorizers in turn until one has an opinion. [`node`] decides requests of nodes;
//! [`config`] reads the list of authorizers, and [`review`] encodes requests for webhooks.

mod attributes;
pub mod config;
pub mod node;
pub mod review;

pub use attributes::{Attributes, Decision, SelectorRequirement};
