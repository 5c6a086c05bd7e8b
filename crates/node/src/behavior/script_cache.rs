//! Cache of evaluated scripts. The timeline of a script is a pure function of its words, variables and files,
//! and every sync, log request and usage query of a pod needs it.
//!
//! Losing an entry costs time only. Each fleet has a cache of its own, bounded by [`BYTES_MAX`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::env::Env;
use super::shell::budget::Budget;
use super::shell::{Timeline, evaluate_within};

/// Maximum number of earlier runs that are simulated. Each is a whole script, and their number comes from a
/// status that any client may write. If volumes still change after that many, further runs are taken to equal
/// the last.
const RUNS_MAX: u32 = 32;
/// Maximum estimated bytes of scripts, variables and timelines in the cache.
const BYTES_MAX: usize = 64 << 20;
/// Bytes of an entry besides its texts.
const ENTRY_OVERHEAD_BYTES: usize = 512;

/// Timelines of evaluated scripts. A clone is empty, so that no two fleets share one.
#[derive(Default)]
pub struct ScriptCache(Arc<Mutex<Generations>>);

impl ScriptCache {
    /// Returns another handle of the same cache, for use within the fleet.
    #[must_use]
    pub(crate) fn handle(&self) -> ScriptCache {
        ScriptCache(Arc::clone(&self.0))
    }
}

impl Clone for ScriptCache {
    fn clone(&self) -> ScriptCache {
        ScriptCache::default()
    }
}

/// All caches are equal: their content does not affect the behavior of scripts.
impl PartialEq for ScriptCache {
    fn eq(&self, _: &ScriptCache) -> bool {
        true
    }
}

impl Eq for ScriptCache {}

impl fmt::Debug for ScriptCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScriptCache")
    }
}

/// Consecutive runs of a script; the timeline is that of the last one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ScriptRuns {
    pub restart_count: i64,
    /// Budget of all runs together.
    pub budget: Budget,
    pub words: Vec<String>,
    pub env: Env,
    /// Files before the first run.
    pub files: BTreeMap<String, String>,
    /// Directories whose files outlive a run.
    pub mounts: Vec<String>,
}

#[derive(Clone)]
struct CacheEntry {
    timeline: Arc<Timeline>,
    /// Remaining budget.
    budget_left: Budget,
    bytes: usize,
}

/// Entries in two generations: once the newer one is full, the older one is dropped. Used entries move to the
/// newer one.
#[derive(Default)]
struct Generations {
    new: BTreeMap<ScriptRuns, CacheEntry>,
    old: BTreeMap<ScriptRuns, CacheEntry>,
    /// Bytes of the newer generation.
    bytes: usize,
}

impl Generations {
    fn find(&mut self, runs: &ScriptRuns) -> Option<CacheEntry> {
        if let Some(entry) = self.new.get(runs) {
            return Some(entry.clone());
        }
        let (runs, entry) = self.old.remove_entry(runs)?;
        self.insert(runs, entry.clone());
        Some(entry)
    }

    fn insert(&mut self, runs: ScriptRuns, entry: CacheEntry) {
        self.bytes += entry.bytes;
        if let Some(before) = self.new.insert(runs, entry) {
            self.bytes -= before.bytes;
        }
        if self.bytes > BYTES_MAX / 2 {
            (self.old, self.bytes) = (std::mem::take(&mut self.new), 0);
        }
    }
}

impl ScriptCache {
    /// Returns the timeline of the last run, and the remaining budget.
    pub(super) fn evaluate(&self, runs: ScriptRuns) -> (Arc<Timeline>, Budget) {
        let known = self.0.lock().find(&runs);
        if let Some(known) = known {
            return (known.timeline, known.budget_left);
        }
        let (timeline, budget_left) = runs.evaluate();
        let timeline = Arc::new(timeline);
        let bytes = runs.size() + timeline.size_bytes() + ENTRY_OVERHEAD_BYTES;
        if bytes <= BYTES_MAX / 4 {
            self.0.lock().insert(runs, CacheEntry { timeline: Arc::clone(&timeline), budget_left, bytes });
        }
        (timeline, budget_left)
    }
}

impl ScriptRuns {
    fn size(&self) -> usize {
        let files = self.files.iter().map(|(name, text)| name.len() + text.len()).sum::<usize>();
        let words = self.words.iter().chain(&self.mounts).map(String::len).sum::<usize>();
        files + words + self.env.size()
    }

    /// Evaluates the runs in order.
    fn evaluate(&self) -> (Timeline, Budget) {
        let (mut files, mut budget_left) = (self.files.clone(), self.budget);
        let run = |files: &BTreeMap<String, String>, budget_left: &mut Budget| {
            let limit = budget_left.per_evaluation();
            let (timeline, rest) = evaluate_within(limit, &self.words, files.clone(), &self.env);
            budget_left.charge_evaluation(limit, rest);
            // A run that is cut short only because earlier runs used up the budget is ignored.
            (rest.is_exhausted() && limit != self.budget.per_evaluation(), timeline)
        };
        let (_, mut timeline) = run(&files, &mut budget_left);
        // Files that an earlier run found, the number of runs since, and the number of runs to come.
        let (mut reference_files, mut runs_since, mut rest) = (files.clone(), 0, self.restart_count);
        for number in 1..=RUNS_MAX {
            if rest <= 0 {
                break;
            }
            // If a run leaves the volumes unchanged, all further runs are equal.
            let mut kept_files = timeline.files_after(files.clone(), Duration::MAX);
            kept_files.retain(|file, _| self.mounts.iter().any(|mount| is_inside(file, mount)));
            if kept_files == files {
                break;
            }
            (runs_since, rest) = (runs_since + 1, rest - 1);
            // The files repeat with a period of `runs_since` runs, so whole periods are skipped.
            if kept_files == reference_files {
                rest %= runs_since;
            } else if number.is_power_of_two() {
                // Cycle detection after Brent: moving the reference at powers of two finds periods of any
                // length.
                (reference_files, runs_since) = (kept_files.clone(), 0);
            }
            files = kept_files;
            let (is_cut_short, next) = run(&files, &mut budget_left);
            if is_cut_short {
                break;
            }
            timeline = next;
        }
        (timeline, budget_left)
    }
}

/// `true` if the file is in the directory, at any depth.
fn is_inside(file: &str, directory: &str) -> bool {
    file.strip_prefix(directory.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(bytes: usize) -> CacheEntry {
        CacheEntry { timeline: Arc::default(), budget_left: Budget::default(), bytes }
    }

    fn runs(restart_count: i64) -> ScriptRuns {
        let (words, env, files) = (Vec::new(), Env::default(), BTreeMap::new());
        ScriptRuns { restart_count, budget: Budget::default(), words, env, files, mounts: Vec::new() }
    }

    #[test]
    fn cache_keeps_used_entries_within_its_bound() {
        let mut cache = Generations::default();
        for at in 0..1_000 {
            cache.insert(runs(at), entry(1 << 20));
            assert!(cache.find(&runs(0)).is_some(), "after {at}");
            let cached: usize = cache.new.values().chain(cache.old.values()).map(|entry| entry.bytes).sum();
            assert!(cached <= BYTES_MAX + (2 << 20), "{cached}");
        }
        assert!(cache.find(&runs(500)).is_none() && cache.find(&runs(999)).is_some());
    }

    #[test]
    fn script_is_evaluated_once() {
        let text = "for i in 1 2 3; do echo $i; done; exit 7";
        let once = ScriptRuns { words: ["sh", "-c", text].map(str::to_owned).to_vec(), ..runs(0) };
        let cache = ScriptCache::default();
        let (first, budget_left) = cache.evaluate(once.clone());
        let (second, same) = cache.handle().evaluate(once.clone());
        assert!(Arc::ptr_eq(&first, &second) && budget_left == same && budget_left != once.budget);
        assert_eq!((first.exit, first.log.len()), (Some((Duration::ZERO, 7)), 3));
        assert_eq!(
            once.evaluate(),
            ((*first).clone(), budget_left),
            "the cache does not change the timeline"
        );
        let (other, _) = cache.clone().evaluate(once);
        assert!(!Arc::ptr_eq(&first, &other), "fleets do not share a cache");
    }
}
