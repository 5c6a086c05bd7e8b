//! Schedule of a campaign: the steps of a run, all drawn from the seed before it starts.
//!
//! Each step has a seed of its own, so a step can be removed without changing the others. That allows to [`shrink`] a
//! failing schedule to a few steps.

use std::fmt;

use fastrand::Rng;

/// Kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScheduleAction {
    /// The loop observes some events of some resources.
    Observe,
    /// The loop plans.
    Plan,
    /// A few writes of the loop are performed.
    Write,
    /// Time passes.
    Wait,
    /// The nodes do part of their work.
    Nodes,
    /// A user edits something.
    Edit,
    /// A rival writes an object that controllers also write.
    RivalWrite,
    /// A write of the loop is lost.
    LoseWrite,
    /// A write of the loop is performed and its response is lost.
    LoseResponse,
    /// A watch breaks.
    BreakWatch,
    /// Events are delivered again.
    RepeatEvents,
    /// The loop loses its memos.
    LoseMemos,
    /// The loop crashes and is started again.
    Crash,
    /// The other candidate gets its turn.
    SwitchCandidate,
    /// The disk becomes full.
    FillDisk,
    /// The disk has free space again.
    FreeDisk,
    /// A node dies, is partitioned, restarts, returns or is removed.
    NodeFault,
    /// Late writes of a deposed leader arrive.
    DeliverLateWrites,
    /// The power is cut.
    CutPower,
    /// The wall clock is set, or the machine sleeps.
    SetClock,
}

/// Relative frequencies of actions. [`Schedule::new`] adds `SetClock` separately, in some seeds.
const WEIGHTS: [(ScheduleAction, u32); 19] = [
    (ScheduleAction::Observe, 13),
    (ScheduleAction::Plan, 14),
    (ScheduleAction::Write, 24),
    (ScheduleAction::Wait, 8),
    (ScheduleAction::Nodes, 9),
    (ScheduleAction::Edit, 11),
    (ScheduleAction::RivalWrite, 3),
    (ScheduleAction::LoseWrite, 2),
    (ScheduleAction::LoseResponse, 2),
    (ScheduleAction::BreakWatch, 2),
    (ScheduleAction::RepeatEvents, 2),
    (ScheduleAction::LoseMemos, 1),
    (ScheduleAction::Crash, 2),
    (ScheduleAction::SwitchCandidate, 2),
    (ScheduleAction::FillDisk, 1),
    (ScheduleAction::FreeDisk, 2),
    (ScheduleAction::NodeFault, 4),
    (ScheduleAction::DeliverLateWrites, 1),
    (ScheduleAction::CutPower, 1),
];

impl ScheduleAction {
    /// `true` if the action is a fault.
    #[must_use]
    fn is_fault(self) -> bool {
        self >= ScheduleAction::RivalWrite
    }

    fn draw(rng: &mut Rng) -> ScheduleAction {
        let mut number = rng.u32(..WEIGHTS.iter().map(|(_, weight)| *weight).sum::<u32>());
        for (action, weight) in WEIGHTS {
            if number < weight {
                return action;
            }
            number -= weight;
        }
        ScheduleAction::Wait
    }
}

/// A step of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleStep {
    /// Action of the step.
    pub action: ScheduleAction,
    /// Seed of its random numbers.
    pub seed: u64,
}

/// Steps and settings of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Seed that it was drawn from.
    pub seed: u64,
    /// `true` if only the control plane moves pods: all nodes but the spare one stay up, long-running pods do not
    /// fail, and users do not touch pods.
    pub calm: bool,
    /// `true` if the log is on a disk, so that the power can be cut.
    pub on_disk: bool,
    /// Indexes of the user scenarios.
    pub scenarios: Vec<usize>,
    /// Steps in order.
    pub steps: Vec<ScheduleStep>,
}

/// Minimum number of scenarios per seed.
const SCENARIOS_MIN: usize = 3;
/// Minimum number of faults per seed.
const FAULTS_MIN: usize = 15;
/// Minimum number of edits per seed.
const EDITS_MIN: usize = 12;
/// Minimum number of steps per seed.
const STEPS_MIN: usize = 140;

impl Schedule {
    /// Draws the schedule of a seed. `scenarios` is the number of scenarios to choose from.
    #[must_use]
    pub fn new(seed: u64, scenarios: usize) -> Schedule {
        let mut rng = Rng::with_seed(seed);
        let mut chosen: Vec<usize> = (0..scenarios).collect();
        rng.shuffle(&mut chosen);
        chosen.truncate(rng.usize(SCENARIOS_MIN..=SCENARIOS_MIN + 2));
        let calm = rng.u8(..4) == 0;
        let on_disk = rng.u8(..8) == 0;
        let mut schedule = Schedule { seed, calm, on_disk, scenarios: chosen, steps: Vec::new() };
        let more = rng.usize(..40);
        while schedule.steps.len() < STEPS_MIN + more || !schedule.has_minimum() {
            schedule.steps.push(ScheduleStep { action: ScheduleAction::draw(&mut rng), seed: rng.u64(..) });
        }
        schedule.add_clock_changes();
        schedule
    }

    /// Adds each of more scenarios in a sixth of the seeds. Uses random numbers of its own, so that the steps of a seed
    /// and its other scenarios stay the same.
    pub fn add_scenarios(&mut self, more: std::ops::Range<usize>) {
        let mut rng = Rng::with_seed(self.seed ^ 0x00c0_57e2);
        self.scenarios.extend(more.filter(|_| rng.u8(..6) == 0));
    }

    /// Adds clock changes in a quarter of the seeds that are not calm. Uses random numbers of its own, so that the
    /// other steps of a seed stay the same.
    fn add_clock_changes(&mut self) {
        let mut rng = Rng::with_seed(self.seed ^ 0x00c1_0c00);
        if self.calm || rng.u8(..4) > 0 {
            return;
        }
        for _ in 0..rng.usize(2..6) {
            let step = ScheduleStep { action: ScheduleAction::SetClock, seed: rng.u64(..) };
            self.steps.insert(rng.usize(..=self.steps.len()), step);
        }
    }

    /// `true` if it has the minimum number of faults and edits.
    #[must_use]
    fn has_minimum(&self) -> bool {
        let count = |is: fn(&ScheduleStep) -> bool| self.steps.iter().filter(|step| is(step)).count();
        count(|step| step.action.is_fault()) >= FAULTS_MIN
            && count(|step| step.action == ScheduleAction::Edit) >= EDITS_MIN
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mood = if self.calm { "calm" } else { "rough" };
        writeln!(
            f,
            "seed {}, {mood}, scenarios {:?}, {} steps:",
            self.seed,
            self.scenarios,
            self.steps.len()
        )?;
        for ScheduleStep { action, seed } in &self.steps {
            writeln!(f, "  {action:?} {seed:#x}")?;
        }
        Ok(())
    }
}

/// Maximum number of runs for shrinking.
const SHRINK_RUNS_MAX: usize = 150;

/// Removes scenarios and steps while the schedule still fails: large groups of steps first, then smaller ones.
pub fn shrink(schedule: Schedule, mut fails: impl FnMut(&Schedule) -> bool) -> Schedule {
    let mut smallest = schedule;
    let mut runs = 0;
    for scenario in smallest.scenarios.clone() {
        let mut without = smallest.clone();
        without.scenarios.retain(|other| *other != scenario);
        runs += 1;
        if !without.scenarios.is_empty() && fails(&without) {
            smallest = without;
        }
    }
    let mut piece = smallest.steps.len().div_ceil(2);
    while piece > 0 && runs < SHRINK_RUNS_MAX {
        let mut start = 0;
        while start < smallest.steps.len() && runs < SHRINK_RUNS_MAX {
            let mut without = smallest.clone();
            without.steps.drain(start..(start + piece).min(smallest.steps.len()));
            runs += 1;
            if fails(&without) {
                smallest = without;
            } else {
                start += piece;
            }
        }
        piece /= 2;
    }
    smallest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_has_the_minimum_of_faults_edits_and_scenarios() {
        for seed in 0..300 {
            let schedule = Schedule::new(seed, 14);
            assert!(schedule.has_minimum() && schedule.scenarios.len() >= SCENARIOS_MIN, "{seed}");
            assert_eq!(schedule, Schedule::new(seed, 14));
        }
    }

    #[test]
    fn schedule_shrinks_to_the_steps_that_fail() {
        let crashes = |schedule: &Schedule| {
            schedule.scenarios.contains(&3)
                && schedule.steps.iter().filter(|step| step.action == ScheduleAction::Crash).count() >= 2
        };
        let found = (0..).map(|seed| Schedule::new(seed, 14)).find(crashes).unwrap();
        let shrunk = shrink(found, crashes);
        assert_eq!(shrunk.scenarios, [3]);
        assert!(shrunk.steps.len() <= 6, "{shrunk}");
    }
}
