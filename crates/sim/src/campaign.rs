//! Campaign: a control plane under faults, in an order that one seed determines.
//!
//! A run has two phases. In the first, faults happen: users edit objects; nodes die, are partitioned and return; two
//! candidates compete for leadership; writes and responses are lost, or arrive after their sender lost leadership;
//! watches lag, break and repeat events; the disk is full, the power is cut, the clock is set and the machine sleeps;
//! admission webhooks deny, change, fail, hang and lie;
//! a rival writes the same objects; the loop crashes and loses its memos. Every commit must pass the [`checks`]. In
//! the second phase all faults end, and everything must converge within a limit of virtual time and then be quiet.
//!
//! Rare states are recorded as coverage marks ([`coverage`]), so that a test can require each of them. A [`schedule`]
//! is drawn from the seed before the run: a failure is replayed by its seed and printed as a shrunk schedule. Start at
//! [`run_seed`].

mod candidates;
mod checks;
pub mod coverage;
mod ground_truth;
mod machine;
pub mod nodes;
pub mod run;
pub mod schedule;
pub mod users;

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use setpoint_api::Value;

use crate::cluster::{Cluster, Controllers};
use coverage::CoverageMarks;
use run::CampaignRun;
use schedule::Schedule;

/// Minimum number of objects that users create per seed.
const OBJECTS_MIN: u64 = 6;
/// Minimum number of accepted edits per seed.
const ACCEPTED_EDITS_MIN: u64 = 1;

/// Result of a successful run.
#[derive(Debug, PartialEq, Eq)]
pub struct CampaignReport {
    /// Coverage marks that were reached.
    pub marks: CoverageMarks,
    /// Last revision: the same for every run of a seed.
    pub revision: u64,
    /// Digest of the final state: the same for every run of a seed.
    pub digest: u64,
}

impl CampaignReport {
    /// Checks that users created and edited enough.
    fn require_minimum(self) -> Result<CampaignReport, String> {
        for (mark, min) in [("object created", OBJECTS_MIN), ("edit", ACCEPTED_EDITS_MIN)] {
            let count = self.marks.count(mark);
            if count < min {
                return Err(format!("{mark}: only {count} times, at least {min} are required"));
            }
        }
        Ok(self)
    }
}

/// Parts of the control plane, and seeded bugs.
#[derive(Clone, Copy)]
pub struct Setup {
    /// Controllers and scheduler.
    pub controllers: Controllers,
    /// Planners of the nodes.
    pub nodes: Controllers,
    /// Seeded bug: candidates act without holding the Lease.
    pub ignores_lease: bool,
    /// Seeded bug: disks acknowledge syncs without doing them.
    pub ignores_syncs: bool,
    /// Seeded bug: loops wait by the wall clock and do not notice when it is set.
    pub waits_by_wall_clock: bool,
    /// Seeded bug: writes are stored without calls of webhooks.
    pub ignores_webhooks: bool,
    /// Names of the user scenarios of every seed; if empty, each seed draws some.
    pub scenarios: &'static [&'static str],
}

impl Setup {
    /// Draws the schedule of a seed.
    #[must_use]
    pub fn schedule(&self, seed: u64) -> Schedule {
        let mut schedule = Schedule::new(seed, users::BUILT_IN);
        schedule.add_scenarios(users::BUILT_IN..users::ALL.len());
        if !self.scenarios.is_empty() {
            let is_named = |number: &usize| self.scenarios.contains(&users::ALL[*number].name);
            schedule.scenarios = (0..users::ALL.len()).filter(is_named).collect();
        }
        schedule
    }
}

/// A failed run.
#[derive(Debug)]
pub struct CampaignFailure {
    /// Violated check, and the step at which it was found.
    pub message: String,
    /// Events before the failure, if they were kept.
    pub history: Vec<String>,
}

/// Runs a schedule.
///
/// # Errors
/// The violated check, and the step at which it was found.
pub fn run(
    setup: Setup,
    schedule: &Schedule,
    keeps_history: bool,
) -> Result<CampaignReport, CampaignFailure> {
    let mut run = CampaignRun::new(setup, schedule, keeps_history);
    match run_phases(&mut run, schedule) {
        Ok(()) => {
            let revision = run.cluster.store.snapshot().revision().0;
            Ok(CampaignReport { marks: run.marks, revision, digest: digest(&run.cluster) })
        }
        Err(message) => Err(CampaignFailure { message, history: run.cluster.history }),
    }
}

fn run_phases(run: &mut CampaignRun, schedule: &Schedule) -> Result<(), String> {
    for (number, step) in schedule.steps.iter().enumerate() {
        run.step(*step).map_err(|error| format!("step {number} ({:?}): {error}", step.action))?;
    }
    run.converge().map_err(|error| format!("convergence: {error}"))?;
    for (mark, count) in &run.cluster.webhooks.marks {
        run.marks.add(mark, *count);
    }
    for (_, _, stats) in run.cluster.engine.stats() {
        run.marks.add("conflict", stats.conflicts);
        run.marks.add("contention", stats.contentions);
    }
    run.check_panics()
}

/// Runs a seed.
///
/// # Errors
/// Describes the failure, with a shrunk schedule and the last events of its run.
pub fn run_seed(setup: Setup, seed: u64) -> Result<CampaignReport, String> {
    /// Lines of history to print.
    const LINES_MAX: usize = 120;
    let schedule = setup.schedule(seed);
    let first = match run(setup, &schedule, false) {
        Ok(report) => return report.require_minimum().map_err(|why| format!("seed {seed}: {why}")),
        Err(failure) => failure.message,
    };
    let small = schedule::shrink(schedule, |schedule| {
        run(setup, schedule, false)
            .is_err_and(|failure| failure_kind(&failure.message) == failure_kind(&first))
    });
    let (why, history) = match run(setup, &small, true) {
        Ok(_) => (String::new(), Vec::new()),
        Err(failure) => (failure.message, failure.history),
    };
    let history = &history[history.len().saturating_sub(LINES_MAX)..];
    let names: Vec<&str> = small.scenarios.iter().map(|number| users::ALL[*number].name).collect();
    Err(format!(
        "{}\nSETPOINT_SIM_SEED={seed} fails: {first}\nshrunk ({names:?}) it fails: {why}\n{small}",
        history.join("\n")
    ))
}

/// Words of a failure message without names and numbers. Shrinking must not lead to a different failure.
fn failure_kind(why: &str) -> Vec<&str> {
    let why = why.split_once(": ").map_or(why, |(_, why)| why);
    why.split(' ').filter(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == ',')).take(6).collect()
}

/// Runs seeds on several threads, and merges their coverage marks.
///
/// # Errors
/// Describes the failure with the lowest seed among those found.
pub fn run_seeds(setup: Setup, seeds: u64, threads: usize) -> Result<CoverageMarks, String> {
    let marks = Mutex::new(CoverageMarks::default());
    let failed: Mutex<Option<(u64, String)>> = Mutex::new(None);
    run_parallel(seeds, threads, |seed| {
        match run_seed(setup, seed) {
            Ok(report) => marks.lock().merge(&report.marks),
            Err(story) => {
                let mut failed = failed.lock();
                if failed.as_ref().is_none_or(|(other, _)| seed < *other) {
                    *failed = Some((seed, story));
                }
            }
        }
        failed.lock().is_none()
    });
    match failed.into_inner() {
        Some((_, story)) => Err(story),
        None => Ok(marks.into_inner()),
    }
}

/// Runs all seeds, also after failures. Returns the failures with one line each, and the coverage marks of the rest.
#[must_use]
pub fn survey(setup: Setup, seeds: u64, threads: usize) -> (Vec<(u64, String)>, CoverageMarks) {
    let failed = Mutex::new(Vec::new());
    let marks = Mutex::new(CoverageMarks::default());
    run_parallel(seeds, threads, |seed| {
        let schedule = setup.schedule(seed);
        let ran = run(setup, &schedule, false)
            .map_err(|failure| failure.message)
            .and_then(CampaignReport::require_minimum);
        match ran {
            Ok(report) => marks.lock().merge(&report.marks),
            Err(why) => failed.lock().push((seed, why)),
        }
        true
    });
    let mut failed = failed.into_inner();
    failed.sort();
    (failed, marks.into_inner())
}

/// Calls `each` once per seed on several threads, until it returns `false`.
fn run_parallel(seeds: u64, threads: usize, each: impl Fn(u64) -> bool + Sync) {
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds || !each(seed) {
                        return;
                    }
                }
            });
        }
    });
}

/// Path of an object: `namespace/name`, or the name alone.
#[must_use]
pub fn path(object: &Value) -> String {
    let (namespace, name) = (object.str_at(&["metadata", "namespace"]), object.str_at(&["metadata", "name"]));
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// Digest of everything stored.
#[must_use]
pub fn digest(cluster: &Cluster) -> u64 {
    let snapshot = cluster.store.snapshot();
    let records = snapshot.tables().flat_map(|(_, table)| table.iter());
    let bytes = records.flat_map(|record| record.value());
    // FNV-1a: enough to distinguish two runs.
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
