//! Evaluator of shell commands: tracks time, files and output without running anything.

mod builtins;
mod expansion;

use std::collections::BTreeMap;
use std::time::Duration;

use self::builtins::echo_output;
use super::budget::{Budget, cost_of};
use super::escapes::printf;
use super::parser::{Command, CommandKind, RunCondition, parse};
use super::tokenizer::Word;
use super::{RepeatedOutput, Timeline};
use crate::behavior::env::{Env, EnvValue};

/// Maximum nesting of sequences, across nested shells. Deeper ones count as unknown, to bound the use of the
/// stack.
const DEPTH_MAX: u32 = 100;

/// Commands without visible effect that succeed.
const SILENT_COMMANDS: [&str; 15] = [
    ":", "true", "cd", "chmod", "chown", "date", "df", "env", "id", "ls", "mkdir", "pwd", "sync", "trap",
    "umask",
];
/// Commands whose exit code does not depend on their arguments.
const OUTPUT_COMMANDS: [&str; 4] = ["echo", "export", "hostname", "printf"];

/// Result of one command.
#[derive(Clone, Copy)]
pub(super) enum StepResult {
    /// The command ended with an exit code.
    Completed(i64),
    /// The script ended with an exit code.
    Exit(i64),
    /// The command runs until it is killed.
    NeverEnds,
    /// The command is unknown, or exceeds the budget.
    Unknown,
}

/// State of one shell.
#[derive(Clone, Default)]
struct ShellState {
    env: Env,
    /// `true` after `set -e`.
    is_errexit: bool,
    /// Number of enclosing commands whose failure is tested, which suspends `set -e`.
    tested_depth: u32,
    /// Exit code of the last command (`$?`).
    last_exit_code: i64,
    /// Positional parameters, beginning with `$0`.
    positional: Vec<String>,
    /// Result of each background job, and its time.
    jobs: Vec<(Duration, StepResult)>,
}

/// Evaluator of one script.
pub(super) struct Evaluator {
    files: BTreeMap<String, String>,
    pub now: Duration,
    pub timeline: Timeline,
    shell: ShellState,
    pub budget: Budget,
    /// Current nesting of sequences.
    depth: u32,
}

/// `true` if a word is an option of `tail` that makes it follow its files.
fn is_follow_option(word: &&str) -> bool {
    let short = word.strip_prefix('-').filter(|option| !option.starts_with('-'));
    short.map_or(word.starts_with("--follow"), |options| options.contains(['f', 'F']))
}

/// Output redirection: file name, and `true` for appending.
type Redirection<'a> = Option<(&'a str, bool)>;

impl Evaluator {
    /// Returns an evaluator with the given files and variables.
    pub fn new(files: BTreeMap<String, String>, env: Env, budget: Budget) -> Evaluator {
        let shell = ShellState { env, ..ShellState::default() };
        Evaluator { files, now: Duration::ZERO, timeline: Timeline::default(), shell, budget, depth: 0 }
    }

    /// Evaluates one command; its output goes to a file if one is given.
    pub fn run(&mut self, words: &[&str], redirection: Redirection<'_>) -> StepResult {
        if !self.budget.charge_command() {
            return StepResult::Unknown;
        }
        let step = self.run_known(words, redirection);
        if self.budget.is_exhausted() { StepResult::Unknown } else { step }
    }

    fn run_known(&mut self, words: &[&str], redirection: Redirection<'_>) -> StepResult {
        let Some((program, rest)) = words.split_first() else {
            self.print("", redirection);
            return StepResult::Completed(0);
        };
        let name = program.rsplit('/').next().unwrap_or(program);
        match name {
            "sh" | "bash" | "ash" | "dash" => return self.shell(rest),
            "sleep" => return self.sleep(rest),
            "pause" => return StepResult::NeverEnds,
            "tail" if rest.iter().any(is_follow_option) => return StepResult::NeverEnds,
            "exit" => return self.exit(rest),
            "false" => return StepResult::Completed(1),
            "exec" if !rest.is_empty() => {
                return match self.nested(|evaluator| evaluator.run(rest, redirection)) {
                    StepResult::Completed(code) => StepResult::Exit(code),
                    other => other,
                };
            }
            "wait" => return self.wait(rest),
            "cat" => return self.cat(rest, redirection),
            "test" => return self.test(rest),
            "[" | "[[" => {
                return match rest.split_last() {
                    Some((&"]" | &"]]", rest)) => self.test(rest),
                    _ => StepResult::Unknown,
                };
            }
            "printf" => match printf(rest, self.budget.result_bytes_left()) {
                Some(text) => self.print(&text, redirection),
                None => return StepResult::Unknown,
            },
            "echo" => self.print(&echo_output(rest), redirection),
            "hostname" if rest.is_empty() => {
                let name = self.shell.env.get("HOSTNAME").text;
                self.print(&format!("{name}\n"), redirection);
            }
            "touch" => self.write_files(rest, true),
            "rm" => self.write_files(rest, false),
            "set" => self.set(rest),
            "export" => {
                for (name, value) in rest.iter().filter_map(|word| word.split_once('=')) {
                    self.shell.env.set(name, EnvValue::known(value));
                }
            }
            "exec" => {}
            name if SILENT_COMMANDS.contains(&name) => self.print("", redirection),
            _ => return StepResult::Unknown,
        }
        StepResult::Completed(0)
    }

    /// Evaluates something nested, up to the maximum depth.
    fn nested(&mut self, run: impl FnOnce(&mut Evaluator) -> StepResult) -> StepResult {
        if self.depth == DEPTH_MAX {
            return StepResult::Unknown;
        }
        self.depth += 1;
        let step = run(self);
        self.depth -= 1;
        step
    }

    fn shell(&mut self, words: &[&str]) -> StepResult {
        let (mut is_errexit, mut at, mut has_script) = (false, 0, false);
        while let Some(word) = words.get(at).filter(|word| word.starts_with('-')) {
            at += 1;
            if word.starts_with("--") {
                continue;
            }
            is_errexit |= word.contains('e');
            has_script |= word.contains('c');
            if word.ends_with('o') {
                is_errexit |= words.get(at) == Some(&"errexit");
                at += 1;
            }
        }
        let Some(script) = words.get(at).filter(|_| has_script) else { return StepResult::Unknown };
        // Tokens take several times the bytes of their text.
        if !self.budget.charge_bytes(script.len().saturating_mul(4))
            || !self.budget.charge_bytes(self.shell.env.size())
        {
            return StepResult::Unknown;
        }
        let own = words[at + 1..].iter().map(|word| (*word).to_owned()).collect();
        let inner =
            ShellState { env: self.shell.env.clone(), is_errexit, positional: own, ..ShellState::default() };
        let outer = std::mem::replace(&mut self.shell, inner);
        let step = self.sequence(&parse(script));
        self.shell = outer;
        match step {
            // An exit ends the inner script, not its caller.
            StepResult::Exit(code) => StepResult::Completed(code),
            other => other,
        }
    }

    /// Evaluates a sequence, including `&&` and `||`.
    fn sequence(&mut self, commands: &[Command]) -> StepResult {
        self.nested(|evaluator| evaluator.run_commands(commands))
    }

    fn run_commands(&mut self, commands: &[Command]) -> StepResult {
        let mut code = 0;
        for (at, command) in commands.iter().enumerate() {
            if !self.budget.charge_bytes(0) {
                return StepResult::Unknown;
            }
            let is_due = match command.condition {
                RunCondition::Always => true,
                RunCondition::OnSuccess => code == 0,
                RunCondition::OnFailure => code != 0,
            };
            if !is_due {
                continue;
            }
            // A tested failure does not trigger `set -e`.
            let is_last = commands.get(at + 1).is_none_or(|next| next.condition == RunCondition::Always);
            let is_tested = command.is_negated || !is_last;
            self.shell.tested_depth += u32::from(is_tested);
            let step = self.command(&command.kind);
            self.shell.tested_depth -= u32::from(is_tested);
            match step {
                StepResult::Completed(ended) if command.is_negated => code = i64::from(ended == 0),
                StepResult::Completed(ended) => code = ended,
                other => return other,
            }
            self.shell.last_exit_code = code;
            let is_simple = matches!(command.kind, CommandKind::Simple { .. });
            if code != 0 && is_simple && !is_tested && self.shell.tested_depth == 0 && self.shell.is_errexit {
                return StepResult::Exit(code);
            }
        }
        StepResult::Completed(code)
    }

    fn command(&mut self, kind: &CommandKind) -> StepResult {
        match kind {
            CommandKind::Simple { words, redirection } => self.simple_command(words, redirection.as_ref()),
            CommandKind::If { condition, then, otherwise } => {
                self.shell.tested_depth += 1;
                let step = self.sequence(condition);
                self.shell.tested_depth -= 1;
                match step {
                    StepResult::Completed(0) => self.sequence(then),
                    StepResult::Completed(_) => self.sequence(otherwise),
                    other => other,
                }
            }
            CommandKind::InfiniteLoop(body) => self.infinite_loop(body),
            CommandKind::For { name, words, body } => self.for_loop(name, words, body),
            CommandKind::Background(commands) => {
                let mut job = self.fork();
                let step = job.sequence(commands);
                let end = (job.now, step);
                self.merge(job);
                self.shell.jobs.push(end);
                StepResult::Completed(0)
            }
            CommandKind::Unsupported => StepResult::Unknown,
        }
    }

    /// Evaluates a simple command, after the assignments before it.
    fn simple_command(&mut self, words: &[Word], redirection: Option<&(Word, bool)>) -> StepResult {
        let assignments: Vec<(&str, EnvValue)> =
            words.iter().map_while(|word| self.assignment(word)).collect();
        let (words, are_known) = self.expand(&words[assignments.len()..]);
        let redirection = redirection.map(|(file, is_append)| (self.value_of(&file.parts), *is_append));
        let is_target_known = redirection.as_ref().is_none_or(|(file, _)| file.is_known);
        let redirection = redirection.as_ref().map(|(file, is_append)| (file.text.as_str(), *is_append));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let is_temporary = !words.is_empty() && !assignments.is_empty();
        if is_temporary {
            self.budget.charge_bytes(self.shell.env.size());
        }
        if self.budget.is_exhausted() {
            return StepResult::Unknown;
        }
        let before = is_temporary.then(|| self.shell.env.clone());
        for (name, value) in assignments {
            self.shell.env.set(name, value);
        }
        let ends_for_any_arguments = words
            .first()
            .is_none_or(|program| SILENT_COMMANDS.contains(program) || OUTPUT_COMMANDS.contains(program));
        if !is_target_known || !are_known && !ends_for_any_arguments {
            return StepResult::Unknown;
        }
        let step = self.run(&words, redirection);
        if let Some(env) = before {
            self.shell.env = env;
        }
        step
    }

    /// Returns a copy with an empty timeline.
    fn fork(&mut self) -> Evaluator {
        let files = self.files.iter().flat_map(|(name, text)| [name.as_str(), text]);
        let copied = cost_of(files.chain(self.shell.positional.iter().map(String::as_str)));
        self.budget.charge_bytes(copied + self.shell.env.size());
        let shell = ShellState { jobs: Vec::new(), ..self.shell.clone() };
        let (files, timeline) = (self.files.clone(), Timeline::default());
        Evaluator { files, now: self.now, timeline, shell, budget: self.budget, depth: self.depth }
    }

    /// Merges the timeline of another evaluator.
    fn merge(&mut self, other: Evaluator) {
        self.budget = other.budget;
        self.timeline.log.extend(other.timeline.log);
        self.timeline.files.extend(other.timeline.files);
        if self.timeline.repeated.is_none() {
            self.timeline.repeated = other.timeline.repeated;
        }
    }

    /// Evaluates an infinite loop: one iteration determines all, if it ends and takes time.
    fn infinite_loop(&mut self, body: &[Command]) -> StepResult {
        let mut once = self.fork();
        match once.sequence(body) {
            StepResult::Completed(_) => {
                self.budget = once.budget;
                let (begin, period) = (self.now, once.now.saturating_sub(self.now));
                if !period.is_zero() && !once.timeline.log.is_empty() {
                    let mut log = once.timeline.log;
                    log.iter_mut().for_each(|(at, _)| *at = at.saturating_sub(begin));
                    self.timeline.repeated = Some(RepeatedOutput { begin, period, log });
                }
                StepResult::NeverEnds
            }
            step => {
                self.now = once.now;
                self.merge(once);
                step
            }
        }
    }

    fn for_loop(&mut self, name: &str, words: &[Word], body: &[Command]) -> StepResult {
        let (words, are_known) = self.expand(words);
        // The files that a pattern matches are unknown.
        if !are_known || words.iter().any(|word| word.contains(['*', '?', '{'])) {
            return StepResult::Unknown;
        }
        let mut last = StepResult::Completed(0);
        for word in words {
            // An iteration costs something even if its body is empty.
            if !self.budget.charge_bytes(name.len() + word.len()) {
                return StepResult::Unknown;
            }
            self.shell.env.set(name, EnvValue::known(&word));
            last = self.sequence(body);
            if !matches!(last, StepResult::Completed(_)) {
                break;
            }
        }
        last
    }
}
