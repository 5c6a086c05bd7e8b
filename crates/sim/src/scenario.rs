//! A test's own scenario under faults: a few controllers, users of its own, and what must hold.
//!
//! It is the small sister of the [`crate::campaign`], for the tests of one area. In the first phase users edit, pods run,
//! writes are lost before or after they happen, watches lag, break and repeat themselves, a rival writes to the same
//! objects, the loop forgets and crashes; safety is checked after every step. In the second all faults end, and
//! everything must come to rest within a bound of virtual time, and then be quiet.

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::value;

use crate::campaign::{digest, path};
use crate::cluster::{Cluster, Controllers};

/// How long everything may take to come to rest after the faults: twice the longest backoff.
pub const HEALING: Duration = Duration::from_secs(600);

/// What users do, and what must hold.
pub trait Scenario {
    /// Sets the stage.
    fn begin(&self, cluster: &mut Cluster);
    /// A user does something, at a bad moment.
    fn edit(&self, cluster: &mut Cluster);
    /// What must hold at every moment. Says what does not.
    ///
    /// # Errors
    /// If something does not hold.
    fn always(&self, cluster: &Cluster) -> Result<(), String>;
    /// What must hold in the end. Says what does not.
    ///
    /// # Errors
    /// If something does not hold.
    fn finally(&self, cluster: &Cluster) -> Result<(), String>;
    /// The resources whose objects a rival may touch.
    fn contested(&self) -> &'static [&'static str];
}

/// How often something rare happened.
pub type Marks = BTreeMap<&'static str, u64>;

/// What a campaign came to.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    /// What happened how often.
    pub marks: Marks,
    /// The last revision: the same for the same seed.
    pub revision: u64,
    /// A digest of the last state: the same for the same seed.
    pub digest: u64,
}

/// Runs a campaign of so many steps.
///
/// # Errors
/// What went wrong, with the seed and the step.
pub fn run(
    controllers: Controllers,
    scenario: &dyn Scenario,
    seed: u64,
    steps: usize,
) -> Result<Report, String> {
    let mut cluster = Cluster::new(controllers, seed);
    let mut marks = Marks::new();
    scenario.begin(&mut cluster);
    for step in 0..steps {
        let deed = misdeed(&mut cluster, scenario);
        *marks.entry(deed).or_default() += 1;
        if !matches!(deed, "write" | "edit" | "nodes" | "rival") {
            cluster.history.push(deed.to_owned());
        }
        let checked = scenario.always(&cluster);
        checked.map_err(|why| told(&cluster, &format!("seed {seed}, step {step} ({deed}): {why}")))?;
    }
    cluster.history.push("the faults end".to_owned());
    heal(&mut cluster, scenario).map_err(|why| told(&cluster, &format!("seed {seed}, healing: {why}")))?;
    for (_, _, stats) in cluster.engine.stats() {
        for (mark, count) in
            [("conflict", stats.conflicts), ("failure", stats.failures), ("contention", stats.contentions)]
        {
            *marks.entry(mark).or_default() += count;
        }
        if stats.panics > 0 {
            return Err(format!("seed {seed}: a planner panicked"));
        }
    }
    Ok(Report { marks, revision: cluster.store.snapshot().revision().0, digest: digest(&cluster) })
}

/// What went wrong, after the last that happened before.
fn told(cluster: &Cluster, why: &str) -> String {
    /// How many lines are worth reading.
    const LINES_MAX: usize = 80;
    let history = &cluster.history[cluster.history.len().saturating_sub(LINES_MAX)..];
    format!("{}\n{why}", history.join("\n"))
}

/// One step of the first phase.
fn misdeed(cluster: &mut Cluster, scenario: &dyn Scenario) -> &'static str {
    match cluster.rng.u32(..100) {
        0..30 => {
            cluster.perform();
            "write"
        }
        30..45 => {
            cluster.observe_some();
            "observe"
        }
        45..60 => {
            cluster.plan();
            "plan"
        }
        60..68 => {
            let micros = 1 << cluster.rng.u32(8..24);
            cluster.now = cluster.now.after(Duration::from_micros(micros));
            "time"
        }
        68..76 => {
            scenario.edit(cluster);
            "edit"
        }
        76..84 => {
            cluster.run_some_pods();
            "nodes"
        }
        84..87 => {
            cluster.lose_write();
            "lost write"
        }
        87..90 => {
            cluster.lose_answer();
            "lost answer"
        }
        90..93 => {
            rival(cluster, scenario.contested());
            "rival"
        }
        93..95 => {
            cluster.break_watch();
            "broken watch"
        }
        95..97 => {
            cluster.repeat_events();
            "repeated events"
        }
        97..99 => {
            cluster.engine.drop_soft_state();
            "forgotten"
        }
        _ => {
            cluster.crash();
            "crash"
        }
    }
}

/// Somebody else writes an object that controllers write too.
fn rival(cluster: &mut Cluster, contested: &[&str]) {
    let Some(resource) = cluster.rng.choice(contested) else { return };
    let objects = cluster.list(resource);
    let Some(object) = cluster.rng.choice(&objects) else { return };
    let path = path(object);
    let word = format!("{:x}", cluster.rng.u16(..));
    // That it is gone or may not be touched is all the same to a rival.
    let _ = cluster.patch(resource, &path, "", value!({"metadata": {"annotations": {"rival": (word)}}}));
}

/// The second phase: no more faults, and everything comes to rest.
fn heal(cluster: &mut Cluster, scenario: &dyn Scenario) -> Result<(), String> {
    cluster.mend_watches();
    let end = cluster.now.after(HEALING);
    while cluster.now < end {
        cluster.settle_with_pods();
        cluster.run(Duration::from_secs(20));
    }
    cluster.settle_with_pods();
    scenario.always(cluster)?;
    scenario.finally(cluster)?;
    let before = cluster.store.snapshot().revision();
    cluster.run(Duration::from_secs(90));
    let after = cluster.store.snapshot().revision();
    if before != after {
        return Err(format!("{} writes after everything had come to rest", after.0 - before.0));
    }
    cluster.assert_quiet();
    Ok(())
}
