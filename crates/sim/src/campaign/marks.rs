//! What happened how often. A campaign that never reaches a rare state proves nothing about it, so it demands that
//! each of [`RARE`] was reached by some seed.

use std::collections::BTreeMap;

/// How often something happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks(BTreeMap<&'static str, u64>);

impl Marks {
    /// It happened once more.
    pub fn note(&mut self, mark: &'static str) {
        self.add(mark, 1);
    }

    /// It happened so many times more.
    pub fn add(&mut self, mark: &'static str, times: u64) {
        *self.0.entry(mark).or_default() += times;
    }

    /// How often it happened.
    #[must_use]
    pub fn count(&self, mark: &str) -> u64 {
        self.0.get(mark).copied().unwrap_or(0)
    }

    /// Adds what others counted.
    pub fn join(&mut self, other: &Marks) {
        for (mark, times) in &other.0 {
            self.add(mark, *times);
        }
    }

    /// Those of a list that never happened.
    #[must_use]
    pub fn missing<'a>(&self, wanted: &[&'a str]) -> Vec<&'a str> {
        wanted.iter().filter(|mark| self.count(mark) == 0).copied().collect()
    }
}

/// The rare states that a campaign must have reached.
pub const RARE: [&str; 58] = [
    // What goes wrong.
    "write lost",
    "answer lost",
    "watch broken",
    "events repeated",
    "memory lost",
    "crash between two writes",
    "crash with nothing under way",
    "rival wrote",
    "disk full refused a controller",
    "disk full refused a user",
    "leader changed",
    "leader deposed with writes under way",
    "election lost its answer",
    "conflict",
    "power cut in the middle of a commit",
    "late write was done",
    "late write was refused",
    "clock was set back",
    "clock was set right again",
    "clock was set forward",
    "clock was ahead and set right again",
    "machine slept",
    "node was cut off",
    "node died",
    "node died with pods",
    "node was started anew",
    "node was removed",
    "node evicted a pod",
    "node lost an answer",
    "nodes were started anew",
    "pod failed",
    "pod succeeded",
    "pod lost its readiness",
    "pod vanished",
    // What users do at bad moments.
    "edit refused",
    "eviction granted",
    "eviction refused",
    "rolled back in the middle of a rollout",
    "scaled in the middle of a rollout",
    "deleted in the foreground",
    "deleted and orphaned",
    "namespace deleted while full",
    // What follows.
    "rollout surged",
    "orphan was adopted",
    "pod was released",
    "ordinal was replaced",
    "job failed for good",
    "job counted a pod that was deleted",
    "cron job skipped or replaced a run",
    "claim was bound for its first consumer",
    "node was held for lost",
    "node returned",
    "pod was evicted by a taint",
    "pod was replaced elsewhere",
    "pod made room for another",
    "pod had no place, and then it had",
    "quota was used up",
    "user raced for a quota",
];
