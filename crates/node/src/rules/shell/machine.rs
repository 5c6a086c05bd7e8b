//! Evaluator of shell commands: tracks time, files and output without running anything.

use std::collections::BTreeMap;
use std::time::Duration;

use super::budget::{Budget, cost};
use super::escapes::{printf, unescape};
use super::tokens::{Part, Word};
use super::words::{After, Command, What, parse};
use super::{Course, Cycle};
use crate::rules::env::{Env, Value};

/// Maximum nesting of sequences, across nested shells. Deeper ones count as unknown, to bound the use of the
/// stack.
const DEPTH_MAX: u32 = 100;

/// Commands without visible effect that succeed.
const QUIET: [&str; 15] = [
    ":", "true", "cd", "chmod", "chown", "date", "df", "env", "id", "ls", "mkdir", "pwd", "sync", "trap",
    "umask",
];
/// Commands whose exit code does not depend on their arguments.
const SAYING: [&str; 4] = ["echo", "export", "hostname", "printf"];

pub(super) enum Step {
    /// The command ended with an exit code.
    Code(i64),
    /// The script ended with an exit code.
    Exit(i64),
    /// The command is unknown, or runs until it is stopped.
    Endless,
}

/// State of one shell.
#[derive(Clone, Default)]
struct Shell {
    env: Env,
    /// `true` after `set -e`.
    is_strict: bool,
    /// Number of enclosing commands whose failure is tested, which suspends `set -e`.
    guards: u32,
    /// Exit code of the last command (`$?`).
    last: i64,
    /// Positional parameters, beginning with `$0`.
    words: Vec<String>,
    /// End time and exit code of each background job; `None` for one that does not end.
    jobs: Vec<Option<(Duration, i64)>>,
}

pub(super) struct Machine {
    files: BTreeMap<String, String>,
    pub now: Duration,
    pub course: Course,
    shell: Shell,
    pub budget: Budget,
    /// Current nesting of sequences.
    depth: u32,
}

/// Output redirection: file name, and `true` for appending.
type Into<'a> = Option<(&'a str, bool)>;

impl Machine {
    /// Returns an evaluator with the given files and variables.
    pub fn new(files: BTreeMap<String, String>, env: Env, budget: Budget) -> Machine {
        let shell = Shell { env, ..Shell::default() };
        Machine { files, now: Duration::ZERO, course: Course::default(), shell, budget, depth: 0 }
    }

    /// Evaluates one command; its output goes to a file if one is given.
    pub fn run(&mut self, words: &[&str], into: Into<'_>) -> Step {
        if !self.budget.command() {
            return Step::Endless;
        }
        let step = self.run_known(words, into);
        if self.budget.is_spent() { Step::Endless } else { step }
    }

    fn run_known(&mut self, words: &[&str], into: Into<'_>) -> Step {
        let Some((program, rest)) = words.split_first() else {
            self.say("", into);
            return Step::Code(0);
        };
        let name = program.rsplit('/').next().unwrap_or(program);
        match name {
            "sh" | "bash" | "ash" | "dash" => return self.shell(rest),
            "sleep" => return self.sleep(rest),
            "exit" => return self.exit(rest),
            "false" => return Step::Code(1),
            "exec" if !rest.is_empty() => {
                return match self.deeper(|machine| machine.run(rest, into)) {
                    Step::Code(code) => Step::Exit(code),
                    other => other,
                };
            }
            "wait" => return self.wait(rest),
            "cat" => return self.cat(rest, into),
            "test" => return self.test(rest),
            "[" | "[[" => {
                return match rest.split_last() {
                    Some((&"]" | &"]]", rest)) => self.test(rest),
                    _ => Step::Endless,
                };
            }
            "printf" => match printf(rest, self.budget.kept()) {
                Some(text) => self.say(&text, into),
                None => return Step::Endless,
            },
            "echo" => self.say(&echoed(rest), into),
            "hostname" if rest.is_empty() => {
                let name = self.shell.env.get("HOSTNAME").text;
                self.say(&format!("{name}\n"), into);
            }
            "touch" => self.write_all(rest, true),
            "rm" => self.write_all(rest, false),
            "set" => self.set(rest),
            "export" => {
                for (name, value) in rest.iter().filter_map(|word| word.split_once('=')) {
                    self.shell.env.set(name, Value::sure(value));
                }
            }
            "exec" => {}
            name if QUIET.contains(&name) => self.say("", into),
            _ => return Step::Endless,
        }
        Step::Code(0)
    }

    /// Evaluates something nested, up to the maximum depth.
    fn deeper(&mut self, run: impl FnOnce(&mut Machine) -> Step) -> Step {
        if self.depth == DEPTH_MAX {
            return Step::Endless;
        }
        self.depth += 1;
        let step = run(self);
        self.depth -= 1;
        step
    }

    /// Creates or removes files.
    fn write_all(&mut self, words: &[&str], are_made: bool) {
        for file in words.iter().filter(|word| !word.starts_with('-')) {
            let text = are_made.then(|| self.files.get(*file).cloned().unwrap_or_default());
            self.write(file, text);
            if self.budget.is_spent() {
                break;
            }
        }
    }

    fn exit(&self, words: &[&str]) -> Step {
        match words.first() {
            None => Step::Exit(self.shell.last),
            Some(code) => code.parse().map_or(Step::Endless, |code: i64| Step::Exit(code & 0xff)),
        }
    }

    fn set(&mut self, words: &[&str]) {
        let mut at = 0;
        while let Some(word) = words.get(at).filter(|word| word.starts_with(['-', '+']) && **word != "--") {
            at += 1;
            let takes_name = word.ends_with('o');
            if word.contains('e') || takes_name && words.get(at) == Some(&"errexit") {
                self.shell.is_strict = word.starts_with('-');
            }
            at += usize::from(takes_name);
        }
        // The remaining words are the new positional parameters.
        if let Some(own) = words.get(at..).filter(|own| !own.is_empty()) {
            let name = self.shell.words.first().cloned().unwrap_or_default();
            let own = own.iter().skip_while(|word| **word == "--").map(|word| (*word).to_owned());
            self.shell.words = std::iter::once(name).chain(own).collect();
        }
    }

    fn shell(&mut self, words: &[&str]) -> Step {
        let (mut is_strict, mut at, mut has_script) = (false, 0, false);
        while let Some(word) = words.get(at).filter(|word| word.starts_with('-')) {
            at += 1;
            if word.starts_with("--") {
                continue;
            }
            is_strict |= word.contains('e');
            has_script |= word.contains('c');
            if word.ends_with('o') {
                is_strict |= words.get(at) == Some(&"errexit");
                at += 1;
            }
        }
        let Some(script) = words.get(at).filter(|_| has_script) else { return Step::Endless };
        // Tokens take several times the bytes of their text.
        if !self.budget.handle(script.len().saturating_mul(4)) || !self.budget.handle(self.shell.env.size()) {
            return Step::Endless;
        }
        let own = words[at + 1..].iter().map(|word| (*word).to_owned()).collect();
        let inner = Shell { env: self.shell.env.clone(), is_strict, words: own, ..Shell::default() };
        let outer = std::mem::replace(&mut self.shell, inner);
        let step = self.sequence(&parse(script));
        self.shell = outer;
        match step {
            // An exit ends the inner script, not its caller.
            Step::Exit(code) => Step::Code(code),
            other => other,
        }
    }

    /// Evaluates a sequence, including `&&` and `||`.
    fn sequence(&mut self, commands: &[Command]) -> Step {
        self.deeper(|machine| machine.one_by_one(commands))
    }

    fn one_by_one(&mut self, commands: &[Command]) -> Step {
        let mut code = 0;
        for (at, command) in commands.iter().enumerate() {
            if !self.budget.handle(0) {
                return Step::Endless;
            }
            let is_due = match command.after {
                After::Any => true,
                After::Success => code == 0,
                After::Failure => code != 0,
            };
            if !is_due {
                continue;
            }
            // A tested failure does not trigger `set -e`.
            let is_last = commands.get(at + 1).is_none_or(|next| next.after == After::Any);
            let is_guarded = command.negated || !is_last;
            self.shell.guards += u32::from(is_guarded);
            let step = self.command(&command.what);
            self.shell.guards -= u32::from(is_guarded);
            match step {
                Step::Code(ended) if command.negated => code = i64::from(ended == 0),
                Step::Code(ended) => code = ended,
                other => return other,
            }
            self.shell.last = code;
            let is_plain = matches!(command.what, What::Plain { .. });
            if code != 0 && is_plain && !is_guarded && self.shell.guards == 0 && self.shell.is_strict {
                return Step::Exit(code);
            }
        }
        Step::Code(code)
    }

    fn command(&mut self, what: &What) -> Step {
        match what {
            What::Plain { words, into } => self.plain(words, into.as_ref()),
            What::If { condition, then, otherwise } => {
                self.shell.guards += 1;
                let step = self.sequence(condition);
                self.shell.guards -= 1;
                match step {
                    Step::Code(0) => self.sequence(then),
                    Step::Code(_) => self.sequence(otherwise),
                    other => other,
                }
            }
            What::Forever(body) => self.cycle(body),
            What::For { name, words, body } => self.each(name, words, body),
            What::Beside(commands) => {
                let mut job = self.fork();
                let end = match job.sequence(commands) {
                    Step::Code(code) | Step::Exit(code) => Some((job.now, code)),
                    Step::Endless => None,
                };
                self.take_in(job);
                self.shell.jobs.push(end);
                Step::Code(0)
            }
            What::Unknown => Step::Endless,
        }
    }

    /// Evaluates a simple command, after the assignments before it.
    fn plain(&mut self, words: &[Word], into: Option<&(Word, bool)>) -> Step {
        let assigned: Vec<(&str, Value)> = words.iter().map_while(|word| self.assignment(word)).collect();
        let (words, is_sure) = self.expand(&words[assigned.len()..]);
        let into = into.map(|(file, appends)| (self.value_of(&file.parts), *appends));
        let is_sure_where = into.as_ref().is_none_or(|(file, _)| file.sure);
        let into = into.as_ref().map(|(file, appends)| (file.text.as_str(), *appends));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let is_for_now = !words.is_empty() && !assigned.is_empty();
        if is_for_now {
            self.budget.handle(self.shell.env.size());
        }
        if self.budget.is_spent() {
            return Step::Endless;
        }
        let before = is_for_now.then(|| self.shell.env.clone());
        for (name, value) in assigned {
            self.shell.env.set(name, value);
        }
        let ends_anyway =
            words.first().is_none_or(|program| QUIET.contains(program) || SAYING.contains(program));
        if !is_sure_where || !is_sure && !ends_anyway {
            return Step::Endless;
        }
        let step = self.run(&words, into);
        if let Some(env) = before {
            self.shell.env = env;
        }
        step
    }

    /// Parses an assignment; `None` if the word is not one.
    fn assignment<'a>(&mut self, word: &'a Word) -> Option<(&'a str, Value)> {
        let Some((Part::Text(first), rest)) = word.parts.split_first() else { return None };
        let (name, text) = first.split_once('=')?;
        // The name is scanned and copied like the text.
        self.budget.handle(first.len());
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_name) || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let rest = self.value_of(rest);
        Some((name, Value { text: format!("{text}{}", rest.text), sure: rest.sure }))
    }

    /// Expands a word without splitting; the result is truncated once the budget is used up.
    fn value_of(&mut self, parts: &[Part]) -> Value {
        let mut whole = Value::sure("");
        for part in parts {
            let value = self.part(part);
            if self.budget.is_spent() {
                break;
            }
            whole.text.push_str(&value.text);
            whole.sure &= value.sure;
        }
        whole
    }

    /// Expands words with splitting. Returns `true` if all values are known; the result is truncated once the
    /// budget is used up.
    fn expand(&mut self, words: &[Word]) -> (Vec<String>, bool) {
        let (mut all, mut is_sure) = (Vec::new(), true);
        for word in words {
            // An empty quoted word has no parts, but still costs an item.
            if !self.budget.handle(0) {
                return (all, false);
            }
            let mut open = word.quoted.then(String::new);
            for part in &word.parts {
                let value = self.part(part);
                if self.budget.is_spent() {
                    return (all, false);
                }
                is_sure &= value.sure;
                if !matches!(part, Part::Variable { quoted: false, .. }) {
                    open.get_or_insert_default().push_str(&value.text);
                    continue;
                }
                // Unquoted expansions are split at whitespace.
                for (at, piece) in value.text.split(char::is_whitespace).enumerate() {
                    if at > 0 && open.is_some() {
                        self.budget.handle(0);
                        all.extend(open.take());
                    }
                    if !piece.is_empty() {
                        open.get_or_insert_default().push_str(piece);
                    }
                }
            }
            all.extend(open);
        }
        (all, is_sure)
    }

    /// Expands a part of a word.
    fn part(&mut self, part: &Part) -> Value {
        let value = match part {
            Part::Text(text) => Value::sure(text),
            Part::Variable { name, fallback, .. } => self.variable(name, fallback.as_ref()),
        };
        self.budget.handle(value.text.len());
        value
    }

    fn variable(&self, name: &str, fallback: Option<&(String, bool)>) -> Value {
        let shell = &self.shell;
        let number = name.parse::<usize>().ok();
        let value = match (name, number) {
            ("?", _) => Some(Value::sure(&shell.last.to_string())),
            ("!", _) => Some(Value::sure(&pid(shell.jobs.len()))),
            ("$", _) => Some(Value::sure("1")),
            (_, Some(number)) => shell.words.get(number).map(|word| Value::sure(word)),
            (name, None) => shell.env.find(name),
        };
        match (value, fallback) {
            (Some(value), Some((_, true))) if value.sure && value.text.is_empty() => None,
            // A variable that may be unset is taken as unset.
            (Some(value), Some((text, _))) if value.text.is_empty() && !value.sure => {
                Some(Value::unsure(text.clone()))
            }
            (value, _) => value,
        }
        .unwrap_or_else(|| Value::sure(fallback.map_or("", |(text, _)| text)))
    }

    /// Returns a copy with an empty course.
    fn fork(&mut self) -> Machine {
        let files = self.files.iter().flat_map(|(name, text)| [name.as_str(), text]);
        let copied = cost(files.chain(self.shell.words.iter().map(String::as_str)));
        self.budget.handle(copied + self.shell.env.size());
        let shell = Shell { jobs: Vec::new(), ..self.shell.clone() };
        let (files, course) = (self.files.clone(), Course::default());
        Machine { files, now: self.now, course, shell, budget: self.budget, depth: self.depth }
    }

    /// Merges the course of another evaluator.
    fn take_in(&mut self, other: Machine) {
        self.budget = other.budget;
        self.course.log.extend(other.course.log);
        self.course.files.extend(other.course.files);
        if self.course.cycle.is_none() {
            self.course.cycle = other.course.cycle;
        }
    }

    /// Evaluates an infinite loop: one iteration determines all, if it ends and takes time.
    fn cycle(&mut self, body: &[Command]) -> Step {
        let mut once = self.fork();
        match once.sequence(body) {
            Step::Code(_) => {
                self.budget = once.budget;
                let (begin, period) = (self.now, once.now.saturating_sub(self.now));
                if !period.is_zero() && !once.course.log.is_empty() {
                    let mut log = once.course.log;
                    log.iter_mut().for_each(|(at, _)| *at = at.saturating_sub(begin));
                    self.course.cycle = Some(Cycle { begin, period, log });
                }
                Step::Endless
            }
            step => {
                self.now = once.now;
                self.take_in(once);
                step
            }
        }
    }

    fn each(&mut self, name: &str, words: &[Word], body: &[Command]) -> Step {
        let (words, is_sure) = self.expand(words);
        // The files that a pattern matches are unknown.
        if !is_sure || words.iter().any(|word| word.contains(['*', '?', '{'])) {
            return Step::Endless;
        }
        let mut last = Step::Code(0);
        for word in words {
            // An iteration costs something even if its body is empty.
            if !self.budget.handle(name.len() + word.len()) {
                return Step::Endless;
            }
            self.shell.env.set(name, Value::sure(&word));
            last = self.sequence(body);
            if !matches!(last, Step::Code(_)) {
                break;
            }
        }
        last
    }

    /// Waits for background jobs.
    fn wait(&mut self, words: &[&str]) -> Step {
        let mut code = 0;
        let jobs: Vec<Option<(Duration, i64)>> = match words {
            [] => self.shell.jobs.clone(),
            words => {
                let jobs = words.iter().map(|word| self.shell.jobs.get(job(word)?.checked_sub(1)?).copied());
                let Some(jobs) = jobs.collect() else { return Step::Endless };
                jobs
            }
        };
        for job in jobs {
            let Some((end, ended)) = job else { return Step::Endless };
            self.now = self.now.max(end);
            code = if words.is_empty() { 0 } else { ended };
        }
        // File changes of the finished jobs become visible.
        let texts = self.course.files.iter().flat_map(|(_, name, text)| [Some(name), text.as_ref()]);
        if !self.budget.handle(cost(texts.flatten().map(String::as_str))) {
            return Step::Endless;
        }
        let mut files = self.course.files.clone();
        files.retain(|(at, _, _)| *at <= self.now);
        files.sort_by_key(|(at, _, _)| *at);
        for (_, name, text) in files {
            match text {
                Some(text) => self.files.insert(name, text),
                None => self.files.remove(&name),
            };
        }
        Step::Code(code)
    }

    fn sleep(&mut self, words: &[&str]) -> Step {
        if words.is_empty() {
            self.say("sleep: missing operand\n", None);
            return Step::Code(1);
        }
        let mut total = 0.0;
        for word in words {
            let (number, unit) = match word.char_indices().last() {
                Some((at, 's')) => (&word[..at], 1.0),
                Some((at, 'm')) => (&word[..at], 60.0),
                Some((at, 'h')) => (&word[..at], 3600.0),
                Some((at, 'd')) => (&word[..at], 86400.0),
                _ => (*word, 1.0),
            };
            match number.parse::<f64>() {
                Ok(number) if number.is_finite() && number >= 0.0 => total += number * unit,
                _ => return Step::Endless,
            }
        }
        match Duration::try_from_secs_f64(total) {
            Ok(pause) => {
                self.now = self.now.saturating_add(pause);
                Step::Code(0)
            }
            Err(_) => Step::Endless,
        }
    }

    fn cat(&mut self, words: &[&str], into: Into<'_>) -> Step {
        let mut code = 0;
        for file in words {
            match self.files.get(*file).cloned() {
                Some(text) => self.say(&text, into),
                None => code = 1,
            }
            if self.budget.is_spent() {
                break;
            }
        }
        Step::Code(code)
    }

    fn test(&self, mut words: &[&str]) -> Step {
        let mut negated = false;
        while let ["!", rest @ ..] = words
            && !rest.is_empty()
        {
            (words, negated) = (rest, !negated);
        }
        let code = |holds: bool| Step::Code(i64::from(holds == negated));
        match words {
            [] => code(false),
            ["-e" | "-f" | "-r", file] => code(self.files.contains_key(*file)),
            ["-s", file] => code(self.files.get(*file).is_some_and(|text| !text.is_empty())),
            ["-z", text] => code(text.is_empty()),
            ["-n", text] | [text] => code(!text.is_empty()),
            [a, "=" | "==", b] => code(a == b),
            [a, "!=", b] => code(a != b),
            [a, how, b] => match (a.parse::<i64>(), b.parse::<i64>()) {
                (Ok(a), Ok(b)) => match *how {
                    "-eq" => code(a == b),
                    "-ne" => code(a != b),
                    "-lt" => code(a < b),
                    "-le" => code(a <= b),
                    "-gt" => code(a > b),
                    "-ge" => code(a >= b),
                    _ => Step::Endless,
                },
                _ => Step::Endless,
            },
            _ => Step::Endless,
        }
    }

    fn say(&mut self, text: &str, into: Into<'_>) {
        match into {
            Some(("/dev/null", _)) => {}
            Some(("/dev/stdout" | "/dev/stderr", _)) | None => {
                if self.budget.keep(cost(text.split_inclusive('\n'))) {
                    self.course.say(self.now, text);
                }
            }
            Some((file, appends)) => {
                let before = self.files.get(file).filter(|_| appends).cloned().unwrap_or_default();
                self.write(file, Some(before + text));
            }
        }
    }

    fn write(&mut self, file: &str, text: Option<String>) {
        if !self.budget.keep(file.len() + text.as_ref().map_or(0, String::len)) {
            return;
        }
        match &text {
            Some(text) => self.files.insert(file.to_owned(), text.clone()),
            None => self.files.remove(file),
        };
        self.course.files.push((self.now, file.to_owned(), text));
    }
}

/// PID before the first background job.
const PIDS: usize = 6;

/// Returns the PID of the background job with a 1-based number; empty for 0.
fn pid(job: usize) -> String {
    if job == 0 { String::new() } else { (job + PIDS).to_string() }
}

/// Returns the number of the background job with a PID, if there is one.
fn job(pid: &str) -> Option<usize> {
    let job = pid.parse::<usize>().ok()?.checked_sub(PIDS)?;
    (self::pid(job) == pid).then_some(job)
}

/// Returns the output of `echo`.
fn echoed(words: &[&str]) -> String {
    let is_option = |word: &&&str| {
        word.len() > 1 && word.starts_with('-') && word[1..].bytes().all(|b| b"neE".contains(&b))
    };
    let options: Vec<&&str> = words.iter().take_while(is_option).collect();
    let text = words[options.len()..].join(" ");
    let has = |option: char| options.iter().any(|word| word.contains(option));
    let (text, is_over) = if has('e') { unescape(&text) } else { (text, false) };
    if has('n') || is_over { text } else { text + "\n" }
}
