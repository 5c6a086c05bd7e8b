//! Does it always converge? A world that is owned by a seed.
//!
//! Today: a disk that loses what was not synced ([`disk`]), checkers of the promises that a watch makes
//! ([`watch`]), a naive store to compare with ([`model`]), and both side by side ([`store_world`]). Everything
//! here is used by tests of other crates and is no part of the product.

pub mod disk;
pub mod model;
pub mod store_world;
pub mod watch;
