//! Static evaluation of a command line, without running it.
//!
//! It supports `sleep`, `exit`, `true`, `false`, `echo` and file commands, alone or in `sh -c` with
//! sequences, variables, `if`, `for`, `while true`, `set -e` and background jobs. Every other command is
//! taken to run until it is stopped, since a guess could be wrong.

pub(crate) mod budget;
mod escapes;
mod machine;
mod tokens;
mod words;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use self::budget::Budget;
use self::machine::{Machine, Step};
use super::env::Env;
use crate::ticks::Ticks;

/// Course of a command: its output, file changes and end over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// Run time and exit code; `None` if it runs until it is stopped.
    pub end: Option<(Duration, i64)>,
    /// Output lines with their times.
    pub log: Vec<(Duration, String)>,
    /// File changes with their times; `None` for a removal.
    pub files: Vec<(Duration, String, Option<String>)>,
    /// Output that repeats from some time on.
    pub cycle: Option<Cycle>,
    /// `true` if the last line has no newline yet.
    pub(super) is_open: bool,
}

/// Repeated output of a loop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cycle {
    /// Start of the first iteration.
    pub begin: Duration,
    /// Duration of an iteration.
    pub period: Duration,
    /// Output lines, with times relative to the start of the iteration.
    pub log: Vec<(Duration, String)>,
}

/// Maximum number of log lines kept, the latest ones. A loop may print millions per second.
const LINES_MAX: usize = 10_000;
/// Maximum bytes of log kept; the kubelet's default of `containerLogMaxSize`.
const BYTES_MAX: usize = 10 << 20;

impl Cycle {
    /// Returns its lines with the times of each, as far as they can be represented.
    fn lines(&self) -> impl Iterator<Item = (Ticks, &str)> {
        self.log.iter().filter_map(move |(at, line)| {
            let begin = self.begin.checked_add(*at)?;
            Some((Ticks { begin, period: self.period }, line.as_str()))
        })
    }

    /// Returns the output up to a time, latest line first, up to the maximum kept. It goes backward from that
    /// time, so its cost does not depend on the number of iterations.
    fn newest(&self, time: Duration) -> Vec<(Duration, &str)> {
        // With background jobs, the output of iterations overlaps. So time is divided into windows of one
        // period: each line has a fixed offset in them, and appears in every window from its first on.
        let period = self.period.as_nanos().max(1);
        let placed = self.lines().map(|(ticks, line)| {
            let offset = ticks.begin.saturating_sub(self.begin).as_nanos();
            (offset / period, offset % period, ticks, line)
        });
        let mut lines: Vec<(u128, u128, Ticks, &str)> = placed.collect();
        lines.sort_by_key(|(from, place, ..)| (*place, Reverse(*from)));
        let mut newest = Vec::new();
        let mut stretch = time.saturating_sub(self.begin).as_nanos() / period;
        loop {
            // A line that is not in a window is in no earlier one, so every window but the latest is
            // complete.
            lines.retain(|(from, ..)| *from <= stretch);
            for (from, _, ticks, line) in lines.iter().rev() {
                if newest.len() == LINES_MAX {
                    return newest;
                }
                newest.extend(ticks.at(stretch - from).filter(|at| *at <= time).map(|at| (at, *line)));
            }
            match stretch.checked_sub(1).filter(|_| !lines.is_empty()) {
                Some(before) => stretch = before,
                None => return newest,
            }
        }
    }
}

impl Course {
    /// Returns the kept output up to a time, and the time of the next line.
    #[must_use]
    pub fn said_by(&self, time: Duration) -> (Vec<(Duration, &str)>, Option<Duration>) {
        let once = self.log.iter().filter(|(at, _)| *at <= time).map(|(at, line)| (*at, line.as_str()));
        let mut past: Vec<(Duration, &str)> = once.collect();
        past.extend(self.cycle.iter().flat_map(|cycle| cycle.newest(time).into_iter().rev()));
        past.sort_by_key(|(at, _)| *at);
        let mut bytes = 0_usize;
        let has_room = |(_, line): &&(Duration, &str)| {
            bytes = bytes.saturating_add(line.len() + 1);
            bytes <= BYTES_MAX
        };
        let kept = past.iter().rev().take(LINES_MAX).take_while(has_room).count();
        past.drain(..past.len() - kept);
        let once = self.log.iter().map(|(at, _)| *at).filter(|at| *at > time);
        let again = self.cycle.iter().flat_map(|cycle| cycle.lines());
        let again = again.filter_map(|(ticks, _)| ticks.at(ticks.until(time)));
        let next = once.chain(again).min();
        (past, next)
    }

    /// Returns the number of lines before those that are kept.
    #[must_use]
    pub fn dropped_by(&self, time: Duration) -> usize {
        let once = self.log.iter().filter(|(at, _)| *at <= time).count();
        let again = self.cycle.iter().flat_map(|cycle| cycle.lines());
        let again = again.map(|(ticks, _)| usize::try_from(ticks.until(time)).unwrap_or(usize::MAX));
        again.fold(once, usize::saturating_add).saturating_sub(self.said_by(time).0.len())
    }

    /// Returns the files at a time, with their content.
    #[must_use]
    pub fn files_at(&self, time: Duration) -> BTreeMap<String, String> {
        self.files_from(BTreeMap::new(), time)
    }

    /// Returns the files at a time, given the initial ones.
    #[must_use]
    pub fn files_from(
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
    pub(super) fn size(&self) -> usize {
        let lines = self.log.iter().chain(self.cycle.iter().flat_map(|cycle| &cycle.log));
        let files = self.files.iter().flat_map(|(_, name, text)| [Some(name.as_str()), text.as_deref()]);
        budget::cost(lines.map(|(_, line)| line.as_str()).chain(files.flatten()))
    }

    /// Appends output, split into lines. An unterminated line is continued if no time has passed.
    fn say(&mut self, now: Duration, text: &str) {
        let mut lines = text.split_inclusive('\n');
        if let Some((at, open)) = self.log.last_mut().filter(|_| self.is_open)
            && *at == now
            && let Some(line) = lines.next()
        {
            open.push_str(line.trim_end_matches('\n'));
        }
        self.log.extend(lines.map(|line| (now, line.trim_end_matches('\n').to_owned())));
        if !text.is_empty() {
            self.is_open = !text.ends_with('\n');
        }
    }
}

/// Evaluates a command line with the given files and variables.
#[cfg(test)]
#[must_use]
pub fn read(words: &[String], files: BTreeMap<String, String>, env: &Env) -> Course {
    read_within(Budget::new(), words, files, env).0
}

/// Evaluates a command line with the given files and variables. Returns its course and the remaining budget.
#[must_use]
pub(crate) fn read_within(
    budget: Budget,
    words: &[String],
    files: BTreeMap<String, String>,
    env: &Env,
) -> (Course, Budget) {
    let mut machine = Machine::new(files, env.clone(), budget);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let step = machine.run(&words, None);
    let Machine { mut course, now, budget, .. } = machine;
    if let Step::Code(code) | Step::Exit(code) = step {
        course.end = Some((now, code));
        // Background jobs end with the command.
        course.log.retain(|(at, _)| *at <= now);
        course.files.retain(|(at, _, _)| *at <= now);
    }
    course.log.sort_by_key(|(at, _)| *at);
    course.files.sort_by_key(|(at, _, _)| *at);
    (course, budget)
}

#[cfg(test)]
mod tests;
