//! Simulation campaign: all controllers, the scheduler and nodes under faults, one short history per seed.
//!
//! `SETPOINT_SIM_SEEDS` is the number of seeds (default 2000); `SETPOINT_SIM_SEED` replays one and prints its
//! end state; `SETPOINT_SIM_SURVEY` continues after failures and prints each on a line.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "campaign/bounds.rs"]
mod bounds;
#[path = "campaign/month.rs"]
mod month;
#[path = "campaign/mutants.rs"]
mod mutants;
#[path = "campaign/planners.rs"]
mod planners;
#[path = "campaign/properties.rs"]
mod properties;

use std::time::Duration;

use setpoint_controllers::Settings;
use setpoint_node::Fleet;
use setpoint_scheduler::Scheduler;
use setpoint_sim::campaign::coverage::REQUIRED;
use setpoint_sim::campaign::{self, Setup, nodes};
use setpoint_sim::cluster::Controllers;

const CONTROLLERS: Controllers =
    || (setpoint_controllers::all(&Settings::default()), setpoint_controllers::indexes::all());

/// Controllers and scheduler, in one loop.
const CONTROL_PLANE: Controllers = || {
    let (mut all, indexes) = CONTROLLERS();
    all.push(Box::new(Scheduler::default()));
    (all, indexes)
};

/// Small nodes.
const NODES: Controllers = || {
    let count = u32::try_from(nodes::NAMES.len()).unwrap();
    let mut fleet = Fleet { count, pod_start_delay: Duration::ZERO, ..Fleet::default() };
    fleet.set_capacity("cpu", "5");
    (setpoint_node::planners(fleet), setpoint_node::indexes())
};

const SETUP: Setup = Setup {
    controllers: CONTROL_PLANE,
    nodes: NODES,
    ignores_lease: false,
    ignores_syncs: false,
    waits_by_wall_clock: false,
};

/// Number of threads that run seeds in parallel.
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
        println!("{marks:#?}\nnever: {:?}", marks.missing(&REQUIRED));
        failed.iter().for_each(|(seed, error)| println!("{seed}: {error}"));
        assert_eq!(failed.len(), 0, "of {seeds} seeds");
        return;
    }
    let marks = campaign::run_seeds(SETUP, seeds, threads()).unwrap_or_else(|story| panic!("{story}"));
    println!("{marks:#?}");
    assert_eq!(marks.missing(&REQUIRED), [""; 0], "never happened in {seeds} seeds");
}

#[test]
fn same_seed_gives_the_same_history() {
    for seed in [1, 2, 3] {
        let run = || campaign::run_seed(SETUP, seed).unwrap();
        assert_eq!(run(), run());
    }
}

#[test]
fn node_switches_match_the_product() {
    assert_eq!(
        (nodes::POWER, nodes::BOOTED),
        (setpoint_node::fleet::POWER_ANNOTATION, setpoint_node::fleet::BOOT_TIME_ANNOTATION)
    );
    assert_eq!(nodes::EXIT_CODE, format!("{}exit-code", setpoint_node::behavior::ANNOTATION_PREFIX));
    let fleet = Fleet::default();
    for (number, name) in (0..).zip(nodes::NAMES) {
        assert_eq!(fleet.node_name(number), name);
    }
}
