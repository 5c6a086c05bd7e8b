//! Static evaluation of a command line, without running it.
//!
//! It supports `sleep`, `exit`, `true`, `false`, `echo` and file commands, alone or in `sh -c` with
//! sequences, variables, `if`, `for`, `while true`, `set -e` and background jobs. The evaluation stops at any other
//! command, since a guess could be wrong: [`Timeline::unknown_from`].

pub(crate) mod budget;
mod escapes;
mod evaluator;
mod parser;
mod tokenizer;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use self::budget::Budget;
use self::evaluator::{Evaluator, StepResult};
use super::env::Env;
use crate::ticks::Ticks;

/// Timeline of a command: its output, file changes and exit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Run time and exit code; `None` if it runs until it is killed, or this is unknown.
    pub exit: Option<(Duration, i64)>,
    /// Time of the first command with an unknown result, at which the timeline stops.
    pub unknown_from: Option<Duration>,
    /// Output lines with their times.
    pub log: Vec<(Duration, String)>,
    /// File changes with their times; `None` for a removal.
    pub files: Vec<(Duration, String, Option<String>)>,
    /// Output that repeats from some time on.
    pub repeated: Option<RepeatedOutput>,
    /// `true` if the last line has no newline yet.
    pub(super) has_open_line: bool,
}

/// Repeated output of a loop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepeatedOutput {
    /// Start of the first iteration.
    pub begin: Duration,
    /// Duration of an iteration.
    pub period: Duration,
    /// Output lines, with times relative to the start of the iteration.
    pub log: Vec<(Duration, String)>,
}

/// Maximum number of log lines kept, the latest ones. A loop may print millions per second.
const LOG_LINES_MAX: usize = 10_000;
/// Maximum bytes of log kept; the kubelet's default of `containerLogMaxSize`.
const LOG_BYTES_MAX: usize = 10 << 20;

impl RepeatedOutput {
    /// Returns its lines with the times of each, as far as they can be represented.
    fn lines(&self) -> impl Iterator<Item = (Ticks, &str)> {
        self.log.iter().filter_map(move |(at, line)| {
            let begin = self.begin.checked_add(*at)?;
            Some((Ticks { begin, period: self.period }, line.as_str()))
        })
    }

    /// Returns the output up to a time, latest line first, up to the maximum kept. It goes backward from that
    /// time, so its cost does not depend on the number of iterations.
    fn latest_lines(&self, time: Duration) -> Vec<(Duration, &str)> {
        // With background jobs, the output of iterations overlaps. So time is divided into windows of one
        // period: each line has a fixed offset in them, and appears in every window from its first on.
        let period = self.period.as_nanos().max(1);
        let positions = self.lines().map(|(ticks, line)| {
            let offset = ticks.begin.saturating_sub(self.begin).as_nanos();
            (offset / period, offset % period, ticks, line)
        });
        let mut lines: Vec<(u128, u128, Ticks, &str)> = positions.collect();
        lines.sort_by_key(|(from, offset_in_window, ..)| (*offset_in_window, Reverse(*from)));
        let mut latest_lines = Vec::new();
        let mut window = time.saturating_sub(self.begin).as_nanos() / period;
        loop {
            // A line that is not in a window is in no earlier one, so every window but the latest is
            // complete.
            lines.retain(|(from, ..)| *from <= window);
            for (from, _, ticks, line) in lines.iter().rev() {
                if latest_lines.len() == LOG_LINES_MAX {
                    return latest_lines;
                }
                latest_lines
                    .extend(ticks.time_of(window - from).filter(|at| *at <= time).map(|at| (at, *line)));
            }
            match window.checked_sub(1).filter(|_| !lines.is_empty()) {
                Some(before) => window = before,
                None => return latest_lines,
            }
        }
    }
}

impl Timeline {
    /// Returns the kept output up to a time, and the time of the next line.
    #[must_use]
    pub fn log_until(&self, time: Duration) -> (Vec<(Duration, &str)>, Option<Duration>) {
        let once = self.log.iter().filter(|(at, _)| *at <= time).map(|(at, line)| (*at, line.as_str()));
        let mut past: Vec<(Duration, &str)> = once.collect();
        past.extend(self.repeated.iter().flat_map(|repeated| repeated.latest_lines(time).into_iter().rev()));
        past.sort_by_key(|(at, _)| *at);
        let mut bytes = 0_usize;
        let has_room = |(_, line): &&(Duration, &str)| {
            bytes = bytes.saturating_add(line.len() + 1);
            bytes <= LOG_BYTES_MAX
        };
        let kept = past.iter().rev().take(LOG_LINES_MAX).take_while(has_room).count();
        past.drain(..past.len() - kept);
        let once = self.log.iter().map(|(at, _)| *at).filter(|at| *at > time);
        let again = self.repeated.iter().flat_map(|repeated| repeated.lines());
        let again = again.filter_map(|(ticks, _)| ticks.time_of(ticks.count_until(time)));
        let next = once.chain(again).min();
        (past, next)
    }

    /// Returns the number of lines before those that are kept.
    #[must_use]
    pub fn dropped_lines_until(&self, time: Duration) -> usize {
        let once = self.log.iter().filter(|(at, _)| *at <= time).count();
        let again = self.repeated.iter().flat_map(|repeated| repeated.lines());
        let again = again.map(|(ticks, _)| usize::try_from(ticks.count_until(time)).unwrap_or(usize::MAX));
        again.fold(once, usize::saturating_add).saturating_sub(self.log_until(time).0.len())
    }

    /// Returns the files at a time, with their content.
    #[must_use]
    pub fn files_at(&self, time: Duration) -> BTreeMap<String, String> {
        self.files_after(BTreeMap::new(), time)
    }

    /// Returns the files at a time, given the initial ones.
    #[must_use]
    pub fn files_after(
        &self,
        mut files: BTreeMap<String, String>,
        time: Duration,
    ) -> BTreeMap<String, String> {
        for (_, name, text) in self.files.iter().filter(|(at, _, _)| *at <= time) {
            match text {
                Some(text) => files.insert(name.clone(), text.clone()),
                None => files.remove(name),
            };
        }
        files
    }

    /// Estimates its size in bytes.
    #[must_use]
    pub(super) fn size_bytes(&self) -> usize {
        let lines = self.log.iter().chain(self.repeated.iter().flat_map(|repeated| &repeated.log));
        let files = self.files.iter().flat_map(|(_, name, text)| [Some(name.as_str()), text.as_deref()]);
        budget::cost_of(lines.map(|(_, line)| line.as_str()).chain(files.flatten()))
    }

    /// Appends output, split into lines. An unterminated line is continued if no time has passed.
    fn append_output(&mut self, now: Duration, text: &str) {
        let mut lines = text.split_inclusive('\n');
        if let Some((at, open)) = self.log.last_mut().filter(|_| self.has_open_line)
            && *at == now
            && let Some(line) = lines.next()
        {
            open.push_str(line.trim_end_matches('\n'));
        }
        self.log.extend(lines.map(|line| (now, line.trim_end_matches('\n').to_owned())));
        if !text.is_empty() {
            self.has_open_line = !text.ends_with('\n');
        }
    }
}

/// Evaluates a command line with the given files and variables.
#[cfg(test)]
#[must_use]
pub fn evaluate(words: &[String], files: BTreeMap<String, String>, env: &Env) -> Timeline {
    evaluate_within(Budget::new(), words, files, env).0
}

/// Evaluates a command line with the given files and variables. Returns its timeline and the remaining budget.
#[must_use]
pub(crate) fn evaluate_within(
    budget: Budget,
    words: &[String],
    files: BTreeMap<String, String>,
    env: &Env,
) -> (Timeline, Budget) {
    let mut evaluator = Evaluator::new(files, env.clone(), budget);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let step = evaluator.run(&words, None);
    let Evaluator { mut timeline, now, budget, .. } = evaluator;
    match step {
        StepResult::Completed(code) | StepResult::Exit(code) => {
            timeline.exit = Some((now, code));
            // Background jobs end with the command.
            timeline.log.retain(|(at, _)| *at <= now);
            timeline.files.retain(|(at, _, _)| *at <= now);
        }
        StepResult::Unknown => timeline.unknown_from = Some(now),
        StepResult::NeverEnds => {}
    }
    timeline.log.sort_by_key(|(at, _)| *at);
    timeline.files.sort_by_key(|(at, _, _)| *at);
    (timeline, budget)
}

#[cfg(test)]
mod tests;
