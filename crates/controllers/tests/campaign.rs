//! Every controller under faults: thousands of seeds, each a small history of everything that can go wrong.
//!
//! `SETPOINT_SIM_SEEDS` says how many (default 2000); `SETPOINT_SIM_SEED` replays one and prints what it came to;
//! `SETPOINT_SIM_SURVEY` goes on after failures and prints them all, a line each.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "campaign/month.rs"]
mod month;
#[path = "campaign/mutants.rs"]
mod mutants;
#[path = "campaign/properties.rs"]
mod properties;

use setpoint_controllers::Settings;
use setpoint_sim::campaign::marks::RARE;
use setpoint_sim::campaign::{self, Setup};
use setpoint_sim::cluster::Controllers;

const CONTROLLERS: Controllers =
    || (setpoint_controllers::all(&Settings::default()), setpoint_controllers::indexes::all());

const SETUP: Setup = Setup { controllers: CONTROLLERS, is_reckless: false };

/// How many threads run seeds side by side.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn everything_converges_under_faults() {
    if let Ok(seed) = std::env::var("SETPOINT_SIM_SEED") {
        match campaign::run_seed(SETUP, seed.parse().unwrap()) {
            Ok(report) => println!("{report:#?}"),
            Err(story) => panic!("{story}"),
        }
        return;
    }
    let seeds = std::env::var("SETPOINT_SIM_SEEDS").map_or(2000, |text| text.parse().unwrap());
    if std::env::var("SETPOINT_SIM_SURVEY").is_ok() {
        let (failed, marks) = campaign::survey(SETUP, seeds, threads());
        println!("{marks:#?}\nnever: {:?}", marks.missing(&RARE));
        failed.iter().for_each(|(seed, why)| println!("{seed}: {why}"));
        assert_eq!(failed.len(), 0, "of {seeds} seeds");
        return;
    }
    let marks = campaign::run_seeds(SETUP, seeds, threads()).unwrap_or_else(|story| panic!("{story}"));
    println!("{marks:#?}");
    assert_eq!(marks.missing(&RARE), [""; 0], "never happened in {seeds} seeds");
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in [1, 2, 3] {
        let run = || campaign::run_seed(SETUP, seed).unwrap();
        assert_eq!(run(), run());
    }
}
