//! Coverage marks: counts of rare states. A campaign that never reaches a state proves nothing about it, so a test
//! requires that each state in [`REQUIRED`] is reached by some seed.

use std::collections::BTreeMap;

/// Counts by mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoverageMarks(BTreeMap<&'static str, u64>);

impl CoverageMarks {
    /// Counts a mark once.
    pub fn record(&mut self, mark: &'static str) {
        self.add(mark, 1);
    }

    /// Counts a mark several times.
    pub fn add(&mut self, mark: &'static str, times: u64) {
        *self.0.entry(mark).or_default() += times;
    }

    /// Count of a mark.
    #[must_use]
    pub fn count(&self, mark: &str) -> u64 {
        self.0.get(mark).copied().unwrap_or(0)
    }

    /// Adds the counts of another run.
    pub fn merge(&mut self, other: &CoverageMarks) {
        for (mark, times) in &other.0 {
            self.add(mark, *times);
        }
    }

    /// Marks of a list that were never reached.
    #[must_use]
    pub fn missing<'a>(&self, required: &[&'a str]) -> Vec<&'a str> {
        required.iter().filter(|mark| self.count(mark) == 0).copied().collect()
    }
}

/// Marks that a campaign must reach.
pub const REQUIRED: [&str; 58] = [
    // Faults.
    "write lost",
    "response lost",
    "watch broken",
    "events repeated",
    "memos lost",
    "crash between two writes",
    "crash without writes in flight",
    "rival wrote",
    "full disk rejected a controller",
    "full disk rejected a user",
    "leader changed",
    "leader deposed with writes in flight",
    "election lost a response",
    "conflict",
    "power cut during a commit",
    "late write succeeded",
    "late write was rejected",
    "clock was set back",
    "clock was set right again",
    "clock was set forward",
    "clock was ahead and set right again",
    "machine slept",
    "node was partitioned",
    "node died",
    "node died with pods",
    "node restarted",
    "node was removed",
    "node evicted a pod",
    "node lost a response",
    "node process restarted",
    "pod failed",
    "pod succeeded",
    "pod lost its readiness",
    "pod was removed",
    // Edits at bad moments.
    "edit rejected",
    "eviction allowed",
    "eviction rejected",
    "rolled back during a rollout",
    "scaled during a rollout",
    "deleted in the foreground",
    "deleted and orphaned",
    "namespace with pods deleted",
    // Reactions.
    "rollout surged",
    "orphan was adopted",
    "pod was released",
    "ordinal was replaced",
    "job failed",
    "job counted a pod that was deleted",
    "cron job skipped or replaced a run",
    "claim was bound for its first consumer",
    "node became unreachable",
    "node returned",
    "pod was evicted by a taint",
    "pod was replaced on another node",
    "pod was preempted",
    "unschedulable pod was bound",
    "quota was used up",
    "users raced for a quota",
];

/// Marks that a campaign with custom resources and webhooks must reach.
pub const REQUIRED_CUSTOM: [&str; 29] = [
    // Custom resources.
    "definition was established",
    "definition was deleted under finalizers",
    "established definition was removed",
    "definition was removed",
    "names of a definition clashed",
    "released names were granted",
    "schema was changed with instances",
    "storage version was switched with instances",
    "write of an instance raced with its schema",
    "instance was created",
    "instance was collected",
    "instance was deleted with its namespace",
    "instance was deleted with its definition",
    // Webhooks.
    "failure of a webhook was ignored",
    "late write called a webhook",
    "webhook allowed a write of a user",
    "webhook allowed a write of the loop",
    "webhook changed a write of a user",
    "webhook changed a write of the loop",
    "webhook denied a write of a user",
    "webhook denied a write of the loop",
    "webhook failed for a write of a user",
    "webhook failed for a write of the loop",
    "webhook hung for a write of a user",
    "webhook hung for a write of the loop",
    "webhook lied about a write of a user",
    "webhook lied about a write of the loop",
    "webhook spoiled a write of a user",
    "webhook spoiled a write of the loop",
];
