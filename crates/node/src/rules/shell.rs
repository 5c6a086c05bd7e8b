//! What a command line does, as far as that can be told without running it.
//!
//! It knows how long `sleep` sleeps, what `exit`, `true` and `false` end with, what `echo` says and which files come
//! and go, alone or in `sh -c` with sequences, variables, `if`, `for`, `while true`, `set -e` and what goes on beside
//! the rest. Of anything else it says that it goes on until it is stopped: a guess about a program that nobody runs
//! would be worse.

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

/// What happens in the life of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// When it ends, and with which code; nothing if only others end it.
    pub end: Option<(Duration, i64)>,
    /// What it says, and when.
    pub log: Vec<(Duration, String)>,
    /// Which files it writes and removes, and when.
    pub files: Vec<(Duration, String, Option<String>)>,
    /// What it does again and again from some time on.
    pub cycle: Option<Cycle>,
    /// Whether its last line has not ended.
    pub(super) is_open: bool,
}

/// Something that is said again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cycle {
    /// Since when.
    pub begin: Duration,
    /// How long it takes each time.
    pub period: Duration,
    /// What is said each time, and when in it.
    pub log: Vec<(Duration, String)>,
}

/// How many lines of a log are kept, the newest ones. A loop may say millions in a second, and who reads a log wants its
/// end.
const LINES_MAX: usize = 10_000;
/// How many bytes of a log are kept. That is how much of it a kubelet keeps where nobody says otherwise.
const BYTES_MAX: usize = 10 << 20;

impl Cycle {
    /// Its lines, and when each of them is said, as far as any clock goes.
    fn lines(&self) -> impl Iterator<Item = (Ticks, &str)> {
        self.log.iter().filter_map(move |(at, line)| {
            let begin = self.begin.checked_add(*at)?;
            Some((Ticks { begin, period: self.period }, line.as_str()))
        })
    }

    /// What it has said by a time, the last line first, and no more than is kept. It begins where that time is and goes
    /// back, so that it makes no difference how many turns there were.
    fn newest(&self, time: Duration) -> Vec<(Duration, &str)> {
        // Turns overlap where something goes on beside the next one. So time is cut into stretches as long as a turn:
        // each line has its place in them, and from one of them on it is in all.
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
            // What is not in a stretch is in none before it, so every stretch but the last has a line or is the end.
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
    /// What has been said by a time, as far as that is kept, and when the next thing is said.
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

    /// How many lines have been said by a time and are not kept: they came before those that are.
    #[must_use]
    pub fn dropped_by(&self, time: Duration) -> usize {
        let once = self.log.iter().filter(|(at, _)| *at <= time).count();
        let again = self.cycle.iter().flat_map(|cycle| cycle.lines());
        let again = again.map(|(ticks, _)| usize::try_from(ticks.until(time)).unwrap_or(usize::MAX));
        again.fold(once, usize::saturating_add).saturating_sub(self.said_by(time).0.len())
    }

    /// The files that are there at a time, with what is in them.
    #[must_use]
    pub fn files_at(&self, time: Duration) -> BTreeMap<String, String> {
        self.files_from(BTreeMap::new(), time)
    }

    /// The files at a time, where it found these.
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

    /// Says a text line by line. One that does not end is gone on with, if that happens at once.
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

/// What a command line does where these files and variables are.
#[cfg(test)]
#[must_use]
pub fn read(words: &[String], files: BTreeMap<String, String>, env: &Env) -> Course {
    read_within(Budget::new(), words, files, env).0
}

/// Returns what a command line does where these files and variables are, and what is left of its budget.
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
        // What went on beside it ends with it.
        course.log.retain(|(at, _)| *at <= now);
        course.files.retain(|(at, _, _)| *at <= now);
    }
    course.log.sort_by_key(|(at, _)| *at);
    course.files.sort_by_key(|(at, _, _)| *at);
    (course, budget)
}

#[cfg(test)]
mod tests;
