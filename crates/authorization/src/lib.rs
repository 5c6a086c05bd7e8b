//! Authorization: may this user send this request?
//!
//! The crate is pure: it reads no sockets and no store. An authorizer gets the [`Attributes`] of a request and returns
//! a [`Decision`]; a server asks its authorizers in turn until one has an opinion.
//!
//! [`rbac`] has the rules of RBAC, compiled per user, and the checks that keep users from granting more than they have.
//! [`bootstrap`] has the roles and bindings that every cluster starts with.

mod attributes;
pub mod bootstrap;
pub mod rbac;

pub use attributes::{Attributes, Decision, SelectorRequirement};
