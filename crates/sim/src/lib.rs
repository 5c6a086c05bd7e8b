//! Does it always converge? What tests stand on: oracles, checkers and suites.
//!
//! Nothing here is part of the product. [`log_suite`] holds every log to the same claims, [`redb_log`] is a
//! second log to run it on, made of parts that share nothing with the product's own, [`naive`] is what a log
//! would be if it could be slow, and [`linear`] judges histories recorded from many threads.

pub mod linear;
pub mod log_suite;
pub mod naive;
pub mod redb_log;
