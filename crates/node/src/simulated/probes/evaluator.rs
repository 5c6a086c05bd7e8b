//! Evaluation of probe commands against the files of a container.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::behavior::shell::budget::Budget;
use crate::behavior::{ContainerBehavior, evaluate_script};
use crate::pod::{ExecAction, Probe};

/// Maximum number of evaluations of a probe command per sync; after that, its last result holds. A script may
/// change its files thousands of times, and an evaluation may cost as much as the script itself: without a
/// bound, one sync could block the loop for minutes.
pub(super) const EVALUATIONS_MAX: u32 = 64;
/// Number of cached results. Two are enough for a file that is created and removed repeatedly.
const CACHED_RESULTS_MAX: usize = 2;

/// Evaluator of a probe command at increasing times.
pub(super) struct ProbeEvaluator<'a> {
    probe: &'a Probe,
    behavior: &'a ContainerBehavior,
    /// Current files, and the number of changes applied to them.
    files: BTreeMap<String, String>,
    applied_changes: usize,
    /// Files in the command that an unknown program may have created, since the script does not determine
    /// them.
    external_files: BTreeSet<&'a str>,
    /// Cached results by files, the most recent first.
    cache: Vec<(BTreeMap<String, String>, bool)>,
    pub(super) evaluations: u32,
    /// Remaining budget of the command.
    budget: Budget,
}

impl<'a> ProbeEvaluator<'a> {
    pub(super) fn new(probe: &'a Probe, behavior: &'a ContainerBehavior) -> ProbeEvaluator<'a> {
        let timeline = &behavior.timeline;
        let own: BTreeSet<&str> = timeline.files.iter().map(|(_, name, _)| name.as_str()).collect();
        let is_determined = timeline.exit.is_some() || timeline.repeated.is_some();
        let commands = probe.exec.iter().filter(|_| !is_determined).flat_map(|exec| &exec.command);
        let words = commands.flat_map(|words| words.split_whitespace());
        let external_files = words.filter(|word| !own.contains(word)).collect();
        let (files, cache, budget) = (BTreeMap::new(), Vec::new(), behavior.budget);
        ProbeEvaluator {
            probe,
            behavior,
            files,
            applied_changes: 0,
            external_files,
            cache,
            evaluations: 0,
            budget,
        }
    }

    /// Returns the result at a time, which must not decrease between calls.
    pub(super) fn result_at(&mut self, time: Duration) -> bool {
        let (probe, behavior) = (self.probe, self.behavior);
        let Some(exec) = &probe.exec else { return true };
        // Changes are sorted by time, so each is applied once.
        let pending = &behavior.timeline.files[self.applied_changes..];
        for (_, name, text) in pending.iter().take_while(|(at, _, _)| *at <= time) {
            match text {
                Some(text) => self.files.insert(name.clone(), text.clone()),
                None => self.files.remove(name),
            };
            self.applied_changes += 1;
        }
        if let Some(at) = self.cache.iter().position(|(files, _)| *files == self.files) {
            self.cache[..=at].rotate_right(1);
        } else if self.evaluations < EVALUATIONS_MAX && !self.budget.is_exhausted() {
            self.evaluations += 1;
            let succeeds = self.evaluate(exec);
            self.cache.insert(0, (self.files.clone(), succeeds));
            self.cache.truncate(CACHED_RESULTS_MAX);
        }
        self.cache.first().is_none_or(|(_, succeeds)| *succeeds)
    }

    /// `true` if the command succeeds with the current files.
    fn evaluate(&mut self, exec: &ExecAction) -> bool {
        let (behavior, budget) = (self.behavior, &mut self.budget);
        let mut succeeds = |files| {
            let timeline = evaluate_script(&exec.command, files, behavior, budget);
            timeline.exit.is_none_or(|(_, code)| code == 0)
        };
        if succeeds(self.files.clone()) {
            return true;
        }
        if self.external_files.is_empty() {
            return false;
        }
        let mut files = self.files.clone();
        files.extend(self.external_files.iter().map(|word| ((*word).to_owned(), String::new())));
        succeeds(files)
    }
}
