//! Scenario of a test under faults: a few controllers, its own edits and its own invariants.
//!
//! A smaller [`crate::campaign`] for the tests of one area. In the first phase users edit, pods run, writes and
//! responses are lost, watches lag, break and repeat events, a rival writes the same objects, and the loop crashes and
//! loses its memos; invariants are checked after every step. In the second phase all faults end, and everything must
//! converge within a limit of virtual time and then be quiet. Start at [`run`].

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::value;

use crate::campaign::{digest, path};
use crate::cluster::{Cluster, Controllers};

/// Time within which everything must converge after the faults: twice the longest backoff.
pub const CONVERGENCE_MAX: Duration = Duration::from_secs(600);

/// Edits and invariants of a test.
pub trait Scenario {
    /// Creates the objects.
    fn begin(&self, cluster: &mut Cluster);
    /// Makes a random edit.
    fn edit(&self, cluster: &mut Cluster);
    /// Checks what must hold at every step.
    ///
    /// # Errors
    /// Describes the violation.
    fn always(&self, cluster: &Cluster) -> Result<(), String>;
    /// Checks what must hold after convergence.
    ///
    /// # Errors
    /// Describes the violation.
    fn finally(&self, cluster: &Cluster) -> Result<(), String>;
    /// Resources whose objects a rival may write.
    fn contested(&self) -> &'static [&'static str];
}

/// Counts of rare states.
pub type Marks = BTreeMap<&'static str, u64>;

/// Result of a successful run.
#[derive(Debug, PartialEq, Eq)]
pub struct ScenarioReport {
    /// Counts of rare states.
    pub marks: Marks,
    /// Last revision: the same for every run of a seed.
    pub revision: u64,
    /// Digest of the final state: the same for every run of a seed.
    pub digest: u64,
}

/// Runs a scenario with a number of steps under faults.
///
/// # Errors
/// The violation, with the seed and the step.
pub fn run(
    controllers: Controllers,
    scenario: &dyn Scenario,
    seed: u64,
    steps: usize,
) -> Result<ScenarioReport, String> {
    let mut cluster = Cluster::new(controllers, seed);
    let mut marks = Marks::new();
    scenario.begin(&mut cluster);
    for step in 0..steps {
        let action = random_step(&mut cluster, scenario);
        *marks.entry(action).or_default() += 1;
        if !matches!(action, "write" | "edit" | "nodes" | "rival") {
            cluster.history.push(action.to_owned());
        }
        let checked = scenario.always(&cluster);
        checked
            .map_err(|why| with_history(&cluster, &format!("seed {seed}, step {step} ({action}): {why}")))?;
    }
    cluster.history.push("the faults end".to_owned());
    converge(&mut cluster, scenario)
        .map_err(|why| with_history(&cluster, &format!("seed {seed}, convergence: {why}")))?;
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
    Ok(ScenarioReport { marks, revision: cluster.store.snapshot().revision().0, digest: digest(&cluster) })
}

/// Prepends the last writes to a failure message.
fn with_history(cluster: &Cluster, why: &str) -> String {
    /// Lines of history to print.
    const LINES_MAX: usize = 80;
    let history = &cluster.history[cluster.history.len().saturating_sub(LINES_MAX)..];
    format!("{}\n{why}", history.join("\n"))
}

/// Executes a random step of the first phase. Returns its name.
fn random_step(cluster: &mut Cluster, scenario: &dyn Scenario) -> &'static str {
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
            cluster.lose_response();
            "lost response"
        }
        90..93 => {
            write_as_rival(cluster, scenario.contested());
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
            "lost memos"
        }
        _ => {
            cluster.crash();
            "crash"
        }
    }
}

/// Writes an object that controllers also write.
fn write_as_rival(cluster: &mut Cluster, contested: &[&str]) {
    let Some(resource) = cluster.rng.choice(contested) else { return };
    let objects = cluster.list(resource);
    let Some(object) = cluster.rng.choice(&objects) else { return };
    let path = path(object);
    let word = format!("{:x}", cluster.rng.u16(..));
    // A rejection does not matter to a rival.
    let _ = cluster.patch(resource, &path, "", value!({"metadata": {"annotations": {"rival": (word)}}}));
}

/// Runs the second phase: no faults, until everything is converged and quiet.
fn converge(cluster: &mut Cluster, scenario: &dyn Scenario) -> Result<(), String> {
    cluster.mend_watches();
    let end = cluster.now.after(CONVERGENCE_MAX);
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
        return Err(format!("{} writes after convergence", after.0 - before.0));
    }
    cluster.assert_quiet();
    Ok(())
}
