//! Simulation campaign: all controllers, the scheduler and nodes under faults, one short history per seed.
//!
//! `SETPOINT_SIM_SEEDS` is the number of seeds (default 2000); `SETPOINT_SIM_SEED` replays one and prints its
//! end state; `SETPOINT_SIM_SURVEY` continues after failures and prints each on a line. An eighth as many seeds run with
//! custom resources and webhooks only.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "campaign/bounds.rs"]
mod bounds;
#[path = "campaign/month.rs"]
mod month;
#[path = "campaign/mutants.rs"]
mod mutants;
#[path = "campaign/permissions.rs"]
mod permissions;
#[path = "campaign/planners.rs"]
mod planners;
#[path = "campaign/properties.rs"]
mod properties;
#[path = "campaign/quota_walk.rs"]
mod quota_walk;

use std::time::Duration;

use setpoint_controllers::{Settings, crd};
use setpoint_node::Fleet;
use setpoint_scheduler::Scheduler;
use setpoint_sim::campaign::coverage::{REQUIRED, REQUIRED_CUSTOM};
use setpoint_sim::campaign::{self, Setup, nodes};
use setpoint_sim::cluster::Controllers;

const CONTROLLERS: Controllers =
    || (setpoint_controllers::all(&Settings::default()), setpoint_controllers::indexes::all());

/// Controllers and scheduler, in one loop, with the controllers of custom resources.
const CONTROL_PLANE: Controllers = || {
    let (mut all, indexes) = CONTROLLERS();
    all.extend(crd::server_controllers());
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
    ignores_webhooks: false,
    scenarios: &[],
};

/// Number of threads that run seeds in parallel.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs the seeds of a setup, and requires that some seed reaches each of the marks.
fn run_campaign(setup: Setup, seeds: impl Fn(u64) -> u64, required: &[&str]) {
    if let Ok(seed) = std::env::var("SETPOINT_SIM_SEED") {
        match campaign::run_seed(setup, seed.parse().unwrap()) {
            Ok(report) => println!("{report:#?}"),
            Err(story) => panic!("{story}"),
        }
        return;
    }
    let seeds = seeds(std::env::var("SETPOINT_SIM_SEEDS").map_or(2000, |text| text.parse().unwrap()));
    if std::env::var("SETPOINT_SIM_SURVEY").is_ok() {
        let (failed, marks) = campaign::survey(setup, seeds, threads());
        println!("{marks:#?}\nnever: {:?}", marks.missing(required));
        failed.iter().for_each(|(seed, error)| println!("{seed}: {error}"));
        assert_eq!(failed.len(), 0, "of {seeds} seeds");
        return;
    }
    let marks = campaign::run_seeds(setup, seeds, threads()).unwrap_or_else(|story| panic!("{story}"));
    println!("{marks:#?}");
    assert_eq!(marks.missing(required), [""; 0], "never happened in {seeds} seeds");
}

#[test]
fn everything_converges_under_faults() {
    run_campaign(SETUP, |seeds| seeds, &REQUIRED);
}

#[test]
fn custom_resources_and_webhooks_converge_under_faults() {
    let scenarios = &["custom resources", "webhooks", "replica set"];
    run_campaign(Setup { scenarios, ..SETUP }, |seeds| seeds.div_ceil(8), &REQUIRED_CUSTOM);
}

#[test]
fn same_seed_gives_the_same_history() {
    for seed in [1, 2, 3] {
        let custom = Setup { scenarios: &["custom resources", "webhooks"], ..SETUP };
        for setup in [SETUP, custom] {
            let run = || campaign::run_seed(setup, seed).unwrap();
            assert_eq!(run(), run());
        }
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
