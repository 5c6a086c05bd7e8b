//! Does it always converge? What tests stand on: worlds owned by a seed, oracles, checkers and suites.
//!
//! Nothing here is part of the product. [`cluster`] is the whole control plane in one thread on a virtual clock,
//! [`campaign`] puts it under faults.
//! [`full_log`] has no room at times; [`disk`] loses what was not synced; [`watch`] checks the promises that
//! a watch makes; [`model`] is a naive store and [`store_world`] sets it beside the real one. [`log_suite`]
//! holds every log to the same claims, [`redb_log`] is a second log to run it on, [`naive`] is what a log
//! would be if it could be slow, and [`linear`] judges histories recorded from many threads. [`cost`] counts
//! instructions and judges how they grow.

pub mod campaign;
pub mod cluster;
pub mod cost;
pub mod disk;
pub mod full_log;
pub mod linear;
pub mod log_suite;
pub mod model;
pub mod naive;
pub mod redb_log;
pub mod scenario;
pub mod store_world;
pub mod watch;
