//! Test harness: simulations that one seed determines, reference models, checkers and conformance suites. Not part of
//! the product.
//!
//! - [`cluster`]: the whole control plane in one thread on a virtual clock. [`campaign`]: the same under faults.
//! - [`scenario`]: a small campaign for the tests of one area.
//! - [`disk`]: a disk that loses unsynced writes at a power cut. [`full_log`]: a log whose disk can be full.
//! - [`model`]: a reference store. [`store_world`]: the product's store compared with it.
//! - [`log_suite`]: conformance tests for every log. [`naive`]: their reference log. [`redb_log`]: a second
//!   implementation.
//! - [`watch`]: checkers for the guarantees of a watch. [`linear`]: a linearizability checker.
//! - [`cost`]: counts instructions and checks how they grow.
//!
//! Start at [`cluster`].

pub mod campaign;
pub mod cluster;
pub mod cost;
pub mod disk;
mod full_log;
pub mod linear;
pub mod log_suite;
pub mod model;
pub mod naive;
pub mod redb_log;
pub mod scenario;
pub mod sim_sealer;
pub mod store_world;
mod watch;
