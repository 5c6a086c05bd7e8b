//! What a command line does, as far as that can be told without running it.
//!
//! It knows how long `sleep` sleeps, what `exit`, `true` and `false` end with, what `echo` says and which files come
//! and go, alone or in `sh -c` with sequences, variables, `if`, `for`, `while true`, `set -e` and what goes on beside
//! the rest. Of anything else it says that it goes on until it is stopped: a guess about a program that nobody runs
//! would be worse.

mod budget;
mod escapes;
mod machine;
mod tokens;
mod words;

use std::collections::BTreeMap;
use std::time::Duration;

use self::machine::{Machine, Step};
use super::env::Env;

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

impl Course {
    /// What has been said by a time, and when the next thing is said.
    #[must_use]
    pub fn said_by(&self, time: Duration) -> (Vec<(Duration, &str)>, Option<Duration>) {
        let (mut past, mut next): (Vec<(Duration, &str)>, Option<Duration>) = (Vec::new(), None);
        for (at, line) in &self.log {
            if *at <= time {
                past.push((*at, line));
            } else {
                next = Some(next.map_or(*at, |next| next.min(*at)));
            }
        }
        let cycles = self.cycle.iter().flat_map(|cycle| {
            let turns = (0_u32..).map(|turn| cycle.begin.saturating_add(cycle.period.saturating_mul(turn)));
            turns.flat_map(|begin| cycle.log.iter().map(move |(at, line)| (begin + *at, line.as_str())))
        });
        for (at, line) in cycles {
            if at > time {
                next = Some(next.map_or(at, |next| next.min(at)));
                break;
            }
            past.push((at, line));
        }
        past.sort_by_key(|(at, _)| *at);
        (past, next)
    }

    /// The files that are there at a time, with what is in them.
    #[must_use]
    pub fn files_at(&self, time: Duration) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for (_, name, text) in self.files.iter().filter(|(at, _, _)| *at <= time) {
            match text {
                Some(text) => files.insert(name.clone(), text.clone()),
                None => files.remove(name),
            };
        }
        files
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
#[must_use]
pub fn read(words: &[String], files: BTreeMap<String, String>, env: &Env) -> Course {
    let mut machine = Machine::new(files, env.clone());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let step = machine.run(&words, None);
    let Machine { mut course, now, .. } = machine;
    if let Step::Code(code) | Step::Exit(code) = step {
        course.end = Some((now, code));
        // What went on beside it ends with it.
        course.log.retain(|(at, _)| *at <= now);
        course.files.retain(|(at, _, _)| *at <= now);
    }
    course.log.sort_by_key(|(at, _)| *at);
    course.files.sort_by_key(|(at, _, _)| *at);
    course
}

#[cfg(test)]
mod tests;
