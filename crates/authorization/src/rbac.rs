//! Role-based access control, with upstream's semantics.
//!
//! [`Policy`] has the roles and bindings of a cluster. It is a value: a change makes a new one, which shares all else.
//! [`SubjectCache`] compiles the rules of a user on first use, so a decision does a few lookups and does not depend on
//! the number of bindings and rules. [`uncovered`] finds the rules that a user would grant without having them.

mod compiled;
mod cover;
mod policy;
mod rule;
mod subjects;

pub use compiled::RuleIndex;
pub use cover::{SUBRULES_MAX, TooManyRules, describe, uncovered};
pub use policy::{Binding, BoundRules, Policy, RoleRef, Subject, SubjectKind};
pub use rule::PolicyRule;
pub use subjects::SubjectCache;
