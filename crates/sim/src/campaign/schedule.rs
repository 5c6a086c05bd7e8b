//! What happens when: all of it decided by the seed before anything happens.
//!
//! Each step has its own luck, so steps can be left out without changing what the others choose. That makes a
//! schedule that fails small enough to read: see [`shrink`].

use std::fmt;

use fastrand::Rng;

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    /// A loop takes in some of what changed: of some resources, up to a point.
    Observe,
    /// A loop plans.
    Plan,
    /// Writes of a loop are performed, a few at the most.
    Write,
    /// Time passes.
    Wait,
    /// The nodes do some of their work.
    Nodes,
    /// A user does something.
    Edit,
    /// Somebody else writes an object that controllers write too.
    Rival,
    /// A write is lost on its way.
    LoseWrite,
    /// A write is done, and its answer is lost.
    LoseAnswer,
    /// A watch breaks.
    BreakWatch,
    /// Changes are told again.
    RepeatEvents,
    /// A loop forgets its soft state.
    Forget,
    /// A loop is killed and started anew.
    Crash,
    /// The other candidate has its turn.
    Switch,
    /// The disk is full.
    FillDisk,
    /// There is room on the disk again.
    FreeDisk,
    /// A node dies, is cut off, starts anew, returns, or is removed.
    NodeFault,
    /// What a deposed leader had sent arrives.
    Land,
    /// The power is cut.
    CutPower,
    /// The wall clock is set, or the machine sleeps.
    SetClock,
}

/// How often each deed happens, in hundredths of a step. The clock is set only in some seeds, see [`Schedule::of`].
const WEIGHTS: [(Deed, u32); 19] = [
    (Deed::Observe, 13),
    (Deed::Plan, 14),
    (Deed::Write, 24),
    (Deed::Wait, 8),
    (Deed::Nodes, 9),
    (Deed::Edit, 11),
    (Deed::Rival, 3),
    (Deed::LoseWrite, 2),
    (Deed::LoseAnswer, 2),
    (Deed::BreakWatch, 2),
    (Deed::RepeatEvents, 2),
    (Deed::Forget, 1),
    (Deed::Crash, 2),
    (Deed::Switch, 2),
    (Deed::FillDisk, 1),
    (Deed::FreeDisk, 2),
    (Deed::NodeFault, 4),
    (Deed::Land, 1),
    (Deed::CutPower, 1),
];

impl Deed {
    /// Whether it is something that goes wrong.
    #[must_use]
    pub fn is_fault(self) -> bool {
        self >= Deed::Rival
    }

    fn draw(rng: &mut Rng) -> Deed {
        let mut number = rng.u32(..WEIGHTS.iter().map(|(_, weight)| *weight).sum::<u32>());
        for (deed, weight) in WEIGHTS {
            if number < weight {
                return deed;
            }
            number -= weight;
        }
        Deed::Wait
    }
}

/// A step of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it is.
    pub deed: Deed,
    /// What it draws its chance from.
    pub luck: u64,
}

/// Everything that is decided before anything happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// What it was made from.
    pub seed: u64,
    /// Whether nothing but the control plane moves pods: all nodes but one that is hardly used stay up, pods that are to
    /// run on do not fail, users leave pods alone.
    pub calm: bool,
    /// Whether the log is on a disk, so that the power can be cut.
    pub on_disk: bool,
    /// The scenarios, as numbers among all.
    pub scenarios: Vec<usize>,
    /// The steps.
    pub steps: Vec<Step>,
}

/// How many scenarios a seed has at the least.
pub const SCENARIOS_MIN: usize = 3;
/// How many faults a seed has at the least.
pub const FAULTS_MIN: usize = 15;
/// How many edits a seed has at the least.
pub const EDITS_MIN: usize = 12;
/// How many steps a seed has at the least.
const STEPS_MIN: usize = 140;

impl Schedule {
    /// The schedule of a seed, for so many scenarios.
    #[must_use]
    pub fn of(seed: u64, scenarios: usize) -> Schedule {
        let mut rng = Rng::with_seed(seed);
        let mut chosen: Vec<usize> = (0..scenarios).collect();
        rng.shuffle(&mut chosen);
        chosen.truncate(rng.usize(SCENARIOS_MIN..=SCENARIOS_MIN + 2));
        let calm = rng.u8(..4) == 0;
        let on_disk = rng.u8(..8) == 0;
        let mut schedule = Schedule { seed, calm, on_disk, scenarios: chosen, steps: Vec::new() };
        let more = rng.usize(..40);
        while schedule.steps.len() < STEPS_MIN + more || !schedule.is_enough() {
            schedule.steps.push(Step { deed: Deed::draw(&mut rng), luck: rng.u64(..) });
        }
        schedule.set_clocks();
        schedule
    }

    /// In one of four rough seeds the clock is set now and then. Drawn apart, so that all other steps of a seed stay as
    /// they are.
    fn set_clocks(&mut self) {
        let mut rng = Rng::with_seed(self.seed ^ 0x00c1_0c00);
        if self.calm || rng.u8(..4) > 0 {
            return;
        }
        for _ in 0..rng.usize(2..6) {
            let step = Step { deed: Deed::SetClock, luck: rng.u64(..) };
            self.steps.insert(rng.usize(..=self.steps.len()), step);
        }
    }

    /// Whether it has as many faults and edits as every seed must.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        let count = |is: fn(&Step) -> bool| self.steps.iter().filter(|step| is(step)).count();
        count(|step| step.deed.is_fault()) >= FAULTS_MIN && count(|step| step.deed == Deed::Edit) >= EDITS_MIN
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
        for Step { deed, luck } in &self.steps {
            writeln!(f, "  {deed:?} {luck:#x}")?;
        }
        Ok(())
    }
}

/// How many runs shrinking may take.
const SHRINK_RUNS_MAX: usize = 150;

/// Leaves out steps, and scenarios, for as long as it still fails: large pieces first, then smaller ones.
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
    fn every_seed_has_enough_of_everything() {
        for seed in 0..300 {
            let schedule = Schedule::of(seed, 14);
            assert!(schedule.is_enough() && schedule.scenarios.len() >= SCENARIOS_MIN, "{seed}");
            assert_eq!(schedule, Schedule::of(seed, 14));
        }
    }

    #[test]
    fn a_schedule_shrinks_to_what_matters() {
        let crashes = |schedule: &Schedule| {
            schedule.scenarios.contains(&3)
                && schedule.steps.iter().filter(|step| step.deed == Deed::Crash).count() >= 2
        };
        let found = (0..).map(|seed| Schedule::of(seed, 14)).find(crashes).unwrap();
        let shrunk = shrink(found, crashes);
        assert_eq!(shrunk.scenarios, [3]);
        assert!(shrunk.steps.len() <= 6, "{shrunk}");
    }
}
