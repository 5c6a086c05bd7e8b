//! Memo of simulated scripts: the course of a script is a pure function of its words, variables and files,
//! and every plan, log read and usage query of a pod needs it.
//!
//! Losing an entry costs time only. Each fleet has a memo of its own, bounded by [`BYTES_MAX`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::env::Env;
use super::shell::budget::Budget;
use super::shell::{Course, read_within};

/// Maximum number of earlier runs that are simulated. Each is a whole script, and their number comes from a
/// status that any client may write. If volumes still change after that many, further runs are taken to equal
/// the last.
const RUNS_MAX: u32 = 32;
/// Estimated bytes of scripts, variables and courses in the memo.
const BYTES_MAX: usize = 64 << 20;
/// Bytes of an entry besides its texts.
const ENTRY: usize = 512;

/// Courses of scripts that were followed. A copy is empty, so that no two fleets share one.
#[derive(Default)]
pub struct ScriptMemo(Arc<Mutex<Memo>>);

impl ScriptMemo {
    /// Returns another handle of the same memo, for use within the fleet.
    #[must_use]
    pub(crate) fn share(&self) -> ScriptMemo {
        ScriptMemo(Arc::clone(&self.0))
    }
}

impl Clone for ScriptMemo {
    fn clone(&self) -> ScriptMemo {
        ScriptMemo::default()
    }
}

/// All memos are equal: their content does not affect the behavior of scripts.
impl PartialEq for ScriptMemo {
    fn eq(&self, _: &ScriptMemo) -> bool {
        true
    }
}

impl Eq for ScriptMemo {}

impl fmt::Debug for ScriptMemo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScriptMemo")
    }
}

/// Consecutive runs of a script; its course is that of the last one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Runs {
    pub restarts: i64,
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
struct Entry {
    course: Arc<Course>,
    /// Remaining budget.
    left: Budget,
    bytes: usize,
}

/// Entries in two generations: once the newer one is full, the older one is dropped. Used entries move to the
/// newer one.
#[derive(Default)]
struct Memo {
    new: BTreeMap<Runs, Entry>,
    old: BTreeMap<Runs, Entry>,
    /// Bytes of the newer generation.
    bytes: usize,
}

impl Memo {
    fn find(&mut self, runs: &Runs) -> Option<Entry> {
        if let Some(entry) = self.new.get(runs) {
            return Some(entry.clone());
        }
        let (runs, entry) = self.old.remove_entry(runs)?;
        self.insert(runs, entry.clone());
        Some(entry)
    }

    fn insert(&mut self, runs: Runs, entry: Entry) {
        self.bytes += entry.bytes;
        if let Some(before) = self.new.insert(runs, entry) {
            self.bytes -= before.bytes;
        }
        if self.bytes > BYTES_MAX / 2 {
            (self.old, self.bytes) = (std::mem::take(&mut self.new), 0);
        }
    }
}

impl ScriptMemo {
    /// Returns the course of the last run, and the remaining budget.
    pub(super) fn follow(&self, runs: Runs) -> (Arc<Course>, Budget) {
        let known = self.0.lock().find(&runs);
        if let Some(known) = known {
            return (known.course, known.left);
        }
        let (course, left) = runs.follow();
        let course = Arc::new(course);
        let bytes = runs.size() + course.size() + ENTRY;
        if bytes <= BYTES_MAX / 4 {
            self.0.lock().insert(runs, Entry { course: Arc::clone(&course), left, bytes });
        }
        (course, left)
    }
}

impl Runs {
    fn size(&self) -> usize {
        let files = self.files.iter().map(|(name, text)| name.len() + text.len()).sum::<usize>();
        let words = self.words.iter().chain(&self.mounts).map(String::len).sum::<usize>();
        files + words + self.env.size()
    }

    /// Follows the runs in order.
    fn follow(&self) -> (Course, Budget) {
        let (mut files, mut left) = (self.files.clone(), self.budget);
        let read = |files: &BTreeMap<String, String>, left: &mut Budget| {
            let given = left.limit();
            let (course, rest) = read_within(given, &self.words, files.clone(), &self.env);
            left.spend(given, rest);
            // A run that is cut short only because earlier runs used up the budget is ignored.
            (rest.is_spent() && given != self.budget.limit(), course)
        };
        let (_, mut course) = read(&files, &mut left);
        // Files that an earlier run found, the number of runs since, and the number of runs to come.
        let (mut earlier, mut ago, mut rest) = (files.clone(), 0, self.restarts);
        for run in 1..=RUNS_MAX {
            if rest <= 0 {
                break;
            }
            // If a run leaves the volumes unchanged, all further runs are equal.
            let mut kept = course.files_from(files.clone(), Duration::MAX);
            kept.retain(|file, _| self.mounts.iter().any(|mount| is_in(file, mount)));
            if kept == files {
                break;
            }
            (ago, rest) = (ago + 1, rest - 1);
            // The files repeat with a period of `ago` runs, so whole periods are skipped.
            if kept == earlier {
                rest %= ago;
            } else if run.is_power_of_two() {
                // Cycle detection after Brent: moving the reference at powers of two finds periods of any
                // length.
                (earlier, ago) = (kept.clone(), 0);
            }
            files = kept;
            let (is_cut, next) = read(&files, &mut left);
            if is_cut {
                break;
            }
            course = next;
        }
        (course, left)
    }
}

/// `true` if the file is in the directory, at any depth.
fn is_in(file: &str, directory: &str) -> bool {
    file.strip_prefix(directory.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(bytes: usize) -> Entry {
        Entry { course: Arc::default(), left: Budget::default(), bytes }
    }

    fn runs(restarts: i64) -> Runs {
        let (words, env, files) = (Vec::new(), Env::default(), BTreeMap::new());
        Runs { restarts, budget: Budget::default(), words, env, files, mounts: Vec::new() }
    }

    #[test]
    fn memo_keeps_used_entries_within_its_bound() {
        let mut memo = Memo::default();
        for at in 0..1_000 {
            memo.insert(runs(at), entry(1 << 20));
            assert!(memo.find(&runs(0)).is_some(), "after {at}");
            let held: usize = memo.new.values().chain(memo.old.values()).map(|entry| entry.bytes).sum();
            assert!(held <= BYTES_MAX + (2 << 20), "{held}");
        }
        assert!(memo.find(&runs(500)).is_none() && memo.find(&runs(999)).is_some());
    }

    #[test]
    fn script_is_followed_once() {
        let text = "for i in 1 2 3; do echo $i; done; exit 7";
        let once = Runs { words: ["sh", "-c", text].map(str::to_owned).to_vec(), ..runs(0) };
        let memo = ScriptMemo::default();
        let (first, left) = memo.follow(once.clone());
        let (second, same) = memo.share().follow(once.clone());
        assert!(Arc::ptr_eq(&first, &second) && left == same && left != once.budget);
        assert_eq!((first.end, first.log.len()), (Some((Duration::ZERO, 7)), 3));
        assert_eq!(once.follow(), ((*first).clone(), left), "the memo does not change the course");
        let (other, _) = memo.clone().follow(once);
        assert!(!Arc::ptr_eq(&first, &other), "fleets do not share a memo");
    }
}
