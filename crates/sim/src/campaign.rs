//! A control plane under faults: everything that can go wrong goes wrong, in an order that one seed decides.
//!
//! A campaign has two phases. In the first, users edit, nodes die, are cut off and return, two candidates contend for
//! the leadership, writes are lost before or after they happen or arrive when their sender leads no more, watches lag,
//! break and repeat themselves, the disk is full, the power is cut, the clock is set and the machine sleeps, a rival
//! writes to the same objects, the loop forgets and crashes;
//! every commit is held against the [`checks`]. In the second all faults end, and everything must come to rest within a bound of virtual time, and
//! then be quiet. What happened rarely is marked ([`marks`]), so that a test can demand that it happened at all.
//!
//! A [`schedule`] is made from the seed before anything happens: a failure is replayed by its seed, and printed as
//! a schedule that was shrunk.

pub mod checks;
pub mod faults;
pub mod loops;
pub mod machine;
pub mod marks;
pub mod nodes;
pub mod schedule;
pub mod truth;
pub mod users;

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use setpoint_api::Value;

use crate::cluster::{Cluster, Controllers};
use faults::Trial;
use marks::Marks;
use schedule::Schedule;

/// How many objects users make per seed at the least.
pub const OBJECTS_MIN: u64 = 6;
/// How many edits of users are granted per seed at the least.
pub const GRANTED_MIN: u64 = 1;

/// What a seed came to.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    /// What happened how often.
    pub marks: Marks,
    /// The last revision: the same for the same seed.
    pub revision: u64,
    /// A digest of the last state: the same for the same seed.
    pub digest: u64,
}

impl Report {
    /// The report, if as much happened as must in every seed.
    fn with_enough(self) -> Result<Report, String> {
        for (mark, least) in [("object made", OBJECTS_MIN), ("edit", GRANTED_MIN)] {
            let count = self.marks.count(mark);
            if count < least {
                return Err(format!("{mark}: only {count} times, at least {least} are wanted"));
            }
        }
        Ok(self)
    }
}

/// What the control plane is made of, and which seeded bug it has beside that.
#[derive(Clone, Copy)]
pub struct Setup {
    /// Its controllers, and its scheduler.
    pub controllers: Controllers,
    /// The planners of its nodes.
    pub nodes: Controllers,
    /// Candidates act without asking whether they lead.
    pub is_reckless: bool,
    /// Disks say that they have synced, and have not.
    pub is_lossy: bool,
    /// Loops wait by the wall clock, and do not notice that it is set.
    pub waits_by_wall_clock: bool,
}

/// A failure: what went wrong, after what.
#[derive(Debug)]
pub struct Failure {
    /// What went wrong.
    pub why: String,
    /// What happened before, as far as it was kept.
    pub history: Vec<String>,
}

/// Runs a schedule.
///
/// # Errors
/// What went wrong, and where.
pub fn run(setup: Setup, schedule: &Schedule, keeps_history: bool) -> Result<Report, Failure> {
    let mut trial = Trial::new(setup, schedule, keeps_history);
    match phases(&mut trial, schedule) {
        Ok(()) => {
            let revision = trial.cluster.store.snapshot().revision().0;
            Ok(Report { marks: trial.marks, revision, digest: digest(&trial.cluster) })
        }
        Err(why) => Err(Failure { why, history: trial.cluster.history }),
    }
}

fn phases(trial: &mut Trial, schedule: &Schedule) -> Result<(), String> {
    for (number, step) in schedule.steps.iter().enumerate() {
        trial.step(*step).map_err(|why| format!("step {number} ({:?}): {why}", step.deed))?;
    }
    trial.heal().map_err(|why| format!("healing: {why}"))?;
    for (_, _, stats) in trial.cluster.engine.stats() {
        trial.marks.add("conflict", stats.conflicts);
        trial.marks.add("contention", stats.contentions);
    }
    trial.check_panics()
}

/// Runs a seed, and tells how it fails: with its shrunk schedule and the last of what happened in that.
///
/// # Errors
/// The story of the failure.
pub fn run_seed(setup: Setup, seed: u64) -> Result<Report, String> {
    /// How many lines of history are worth reading.
    const LINES_MAX: usize = 120;
    let schedule = Schedule::of(seed, users::ALL.len());
    let first = match run(setup, &schedule, false) {
        Ok(report) => return report.with_enough().map_err(|why| format!("seed {seed}: {why}")),
        Err(failure) => failure.why,
    };
    let small = schedule::shrink(schedule, |schedule| {
        run(setup, schedule, false).is_err_and(|failure| gist(&failure.why) == gist(&first))
    });
    let (why, history) = match run(setup, &small, true) {
        Ok(_) => (String::new(), Vec::new()),
        Err(failure) => (failure.why, failure.history),
    };
    let history = &history[history.len().saturating_sub(LINES_MAX)..];
    let names: Vec<&str> = small.scenarios.iter().map(|number| users::ALL[*number].name).collect();
    Err(format!(
        "{}\nSETPOINT_SIM_SEED={seed} fails: {first}\nshrunk ({names:?}) it fails: {why}\n{small}",
        history.join("\n")
    ))
}

/// What a failure is about, but for where and how many: shrinking must not lead to another one.
fn gist(why: &str) -> Vec<&str> {
    let why = why.split_once(": ").map_or(why, |(_, why)| why);
    why.split(' ').filter(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == ',')).take(6).collect()
}

/// Runs many seeds on so many threads, and adds up what happened.
///
/// # Errors
/// The story of the failure with the least seed among those that were found.
pub fn run_seeds(setup: Setup, seeds: u64, threads: usize) -> Result<Marks, String> {
    let marks = Mutex::new(Marks::default());
    let failed: Mutex<Option<(u64, String)>> = Mutex::new(None);
    side_by_side(seeds, threads, |seed| {
        match run_seed(setup, seed) {
            Ok(report) => marks.lock().join(&report.marks),
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

/// Runs many seeds to the end, and tells in a line each which failed, and what happened in the others: to see how far
/// a bug reaches.
#[must_use]
pub fn survey(setup: Setup, seeds: u64, threads: usize) -> (Vec<(u64, String)>, Marks) {
    let failed = Mutex::new(Vec::new());
    let marks = Mutex::new(Marks::default());
    side_by_side(seeds, threads, |seed| {
        let schedule = Schedule::of(seed, users::ALL.len());
        let ran = run(setup, &schedule, false).map_err(|failure| failure.why).and_then(Report::with_enough);
        match ran {
            Ok(report) => marks.lock().join(&report.marks),
            Err(why) => failed.lock().push((seed, why)),
        }
        true
    });
    let mut failed = failed.into_inner();
    failed.sort();
    (failed, marks.into_inner())
}

/// Calls for each seed once, on so many threads, until one says that it is enough.
fn side_by_side(seeds: u64, threads: usize, each: impl Fn(u64) -> bool + Sync) {
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

/// `namespace/name` of an object, or its name.
#[must_use]
pub fn path(object: &Value) -> String {
    let (namespace, name) = (object.str_at(&["metadata", "namespace"]), object.str_at(&["metadata", "name"]));
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// A digest of everything stored.
#[must_use]
pub fn digest(cluster: &Cluster) -> u64 {
    let snapshot = cluster.store.snapshot();
    let records = snapshot.tables().flat_map(|(_, table)| table.iter());
    let bytes = records.flat_map(|record| record.value());
    // FNV-1a: enough to tell two runs apart.
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
