//! Properties of all controllers together: planning is deterministic, and converges to the same state in any
//! order, with any repetition and interruption.

use std::collections::BTreeMap;

use setpoint_reconcile::Seed;
use setpoint_sim::campaign::run::{CampaignRun, LoopBehavior};
use setpoint_sim::campaign::schedule::{Schedule, ScheduleAction, ScheduleStep};
use setpoint_sim::campaign::users;

use super::{SETUP, threads};

/// Number of edits before the loop starts.
const EDITS: u64 = 25;

/// Mixed objects, edited before any controller has planned.
fn trial(seed: u64) -> CampaignRun {
    let scenarios = (0..users::ALL.len()).collect();
    let schedule = Schedule { seed, calm: true, on_disk: false, scenarios, steps: Vec::new() };
    let mut trial = CampaignRun::new(SETUP, &schedule, false);
    for luck in 0..EDITS {
        trial.step(ScheduleStep { action: ScheduleAction::Edit, seed: Seed(seed).draw(luck) }).unwrap();
    }
    trial
}

/// End state of mixed objects, and the number of writes.
fn place(seed: u64, behavior: LoopBehavior) -> (BTreeMap<String, usize>, usize) {
    let mut trial = trial(seed);
    trial.behavior = behavior;
    if behavior.repeats_writes {
        trial.disable_checks();
    }
    trial.converge().unwrap_or_else(|error| panic!("seed {seed}, {behavior:?}: {error}"));
    (trial.final_state(), trial.writes)
}

#[test]
fn planning_is_deterministic() {
    for seed in 0..5 {
        let mut trial = trial(seed);
        trial.cluster.crash();
        for _ in 0..40 {
            trial.cluster.observe();
            let (now, engine) = (trial.cluster.now, &trial.cluster.engine);
            let ask = || format!("{:?}", engine.gaps(now, Seed(1)));
            assert_eq!(ask(), ask(), "seed {seed}");
            trial.cluster.plan();
            while trial.cluster.perform() {}
            trial.run_nodes();
        }
    }
}

#[test]
fn duplicate_planning_converges_to_the_same_state() {
    for seed in 0..20 {
        let (once, _) = place(seed, LoopBehavior::default());
        let (twice, _) = place(seed, LoopBehavior { repeats_writes: true, ..LoopBehavior::default() });
        assert_eq!(once, twice, "seed {seed}");
    }
}

#[test]
fn changes_in_any_order_converge_to_the_same_state() {
    for seed in 0..20 {
        let (in_order, _) = place(seed, LoopBehavior::default());
        let (scrambled, _) = place(seed, LoopBehavior { delays_events: true, ..LoopBehavior::default() });
        assert_eq!(in_order, scrambled, "seed {seed}");
    }
}

#[test]
fn crash_between_any_two_writes_converges_to_the_same_state() {
    let seed = 1;
    let (undisturbed, writes) = place(seed, LoopBehavior::default());
    assert!(writes > 100, "{writes} writes are too few to say anything");
    std::thread::scope(|scope| {
        let (undisturbed, threads) = (&undisturbed, threads());
        for thread in 0..threads {
            scope.spawn(move || {
                for after in (1..=writes).skip(thread).step_by(threads) {
                    let (place, _) = place(
                        seed,
                        LoopBehavior { crash_after_writes: Some(after), ..LoopBehavior::default() },
                    );
                    assert_eq!(*undisturbed, place, "after {after} writes");
                }
            });
        }
    });
}
