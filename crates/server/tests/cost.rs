//! Cost of requests: instructions per element must not grow with the number of elements.
//!
//! Each case sends one request in three sizes (n, 2n, 4n elements in one list or map) to the API without a socket, and
//! counts the instructions of each with callgrind; `setpoint_sim::cost` judges them. `SETPOINT_COST` tries every list of every kind instead of those of a few kinds, and is the factor of the sizes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "cost/bases.rs"]
mod bases;
#[path = "cost/custom.rs"]
mod custom;
#[path = "cost/generate.rs"]
mod generate;
#[path = "harness/test_server.rs"]
mod harness;
#[path = "cost/meter.rs"]
mod meter;
#[path = "cost/scenarios.rs"]
mod scenarios;
#[path = "cost/sweep.rs"]
mod sweep;

use meter::Meter;
use setpoint_sim::cost::callgrind::{current_shard, run_under_valgrind};

/// Processes that measure at the same time.
const SHARDS: usize = 2;

#[test]
fn cost_of_every_list_is_linear() {
    const NAME: &str = "cost_of_every_list_is_linear";
    match current_shard() {
        Some(shard) => sweep::run(&mut Meter::new(), shard),
        None => run_under_valgrind(NAME, SHARDS),
    }
}

#[test]
fn cost_of_patches_selectors_and_ownership_is_linear() {
    const NAME: &str = "cost_of_patches_selectors_and_ownership_is_linear";
    match current_shard() {
        Some(shard) => scenarios::run(&mut Meter::new(), shard),
        None => run_under_valgrind(NAME, SHARDS),
    }
}

#[test]
fn custom_object_with_rules_costs_at_most_twice_a_config_map_of_its_size() {
    const NAME: &str = "custom_object_with_rules_costs_at_most_twice_a_config_map_of_its_size";
    match current_shard() {
        Some(_) => custom::run(&mut Meter::new()),
        None => run_under_valgrind(NAME, 1),
    }
}

#[test]
fn every_kind_that_is_updated_has_an_object_to_update() {
    assert_eq!(sweep::not_stored(&Meter::new()), []);
}

#[test]
fn every_list_with_rules_per_kind_is_shared_with_an_earlier_kind() {
    assert_eq!(sweep::unneeded_exceptions(), []);
}
