//! Built-in commands of the shell, and output.

use std::time::Duration;

use super::super::budget::cost_of;
use super::super::escapes::unescape;
use super::{Evaluator, Redirection, StepResult};

impl Evaluator {
    /// Creates or removes files.
    pub(super) fn write_files(&mut self, words: &[&str], create: bool) {
        for file in words.iter().filter(|word| !word.starts_with('-')) {
            let text = create.then(|| self.files.get(*file).cloned().unwrap_or_default());
            self.write(file, text);
            if self.budget.is_exhausted() {
                break;
            }
        }
    }

    pub(super) fn exit(&self, words: &[&str]) -> StepResult {
        match words.first() {
            None => StepResult::Exit(self.shell.last_exit_code),
            Some(code) => code.parse().map_or(StepResult::Unknown, |code: i64| StepResult::Exit(code & 0xff)),
        }
    }

    pub(super) fn set(&mut self, words: &[&str]) {
        let mut at = 0;
        while let Some(word) = words.get(at).filter(|word| word.starts_with(['-', '+']) && **word != "--") {
            at += 1;
            let takes_name = word.ends_with('o');
            if word.contains('e') || takes_name && words.get(at) == Some(&"errexit") {
                self.shell.is_errexit = word.starts_with('-');
            }
            at += usize::from(takes_name);
        }
        // The remaining words are the new positional parameters.
        if let Some(own) = words.get(at..).filter(|own| !own.is_empty()) {
            let name = self.shell.positional.first().cloned().unwrap_or_default();
            let own = own.iter().skip_while(|word| **word == "--").map(|word| (*word).to_owned());
            self.shell.positional = std::iter::once(name).chain(own).collect();
        }
    }

    /// Waits for background jobs.
    pub(super) fn wait(&mut self, words: &[&str]) -> StepResult {
        let mut code = 0;
        let jobs: Vec<(Duration, StepResult)> = match words {
            [] => self.shell.jobs.clone(),
            words => {
                let jobs = words.iter().map(|word| self.shell.jobs.get(job(word)?.checked_sub(1)?).copied());
                let Some(jobs) = jobs.collect() else { return StepResult::Unknown };
                jobs
            }
        };
        for (end, step) in jobs {
            let (StepResult::Completed(ended) | StepResult::Exit(ended)) = step else { return step };
            self.now = self.now.max(end);
            code = if words.is_empty() { 0 } else { ended };
        }
        // File changes of the finished jobs become visible.
        let texts = self.timeline.files.iter().flat_map(|(_, name, text)| [Some(name), text.as_ref()]);
        if !self.budget.charge_bytes(cost_of(texts.flatten().map(String::as_str))) {
            return StepResult::Unknown;
        }
        let mut files = self.timeline.files.clone();
        files.retain(|(at, _, _)| *at <= self.now);
        files.sort_by_key(|(at, _, _)| *at);
        for (_, name, text) in files {
            match text {
                Some(text) => self.files.insert(name, text),
                None => self.files.remove(&name),
            };
        }
        StepResult::Completed(code)
    }

    pub(super) fn sleep(&mut self, words: &[&str]) -> StepResult {
        if words.is_empty() {
            self.print("sleep: missing operand\n", None);
            return StepResult::Completed(1);
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
                Ok(number) if number >= 0.0 => total += number * unit,
                _ => return StepResult::Unknown,
            }
        }
        match Duration::try_from_secs_f64(total) {
            Ok(pause) => {
                self.now = self.now.saturating_add(pause);
                StepResult::Completed(0)
            }
            // `infinity`, or centuries.
            Err(_) => StepResult::NeverEnds,
        }
    }

    pub(super) fn cat(&mut self, words: &[&str], redirection: Redirection<'_>) -> StepResult {
        let mut code = 0;
        for file in words {
            match self.files.get(*file).cloned() {
                Some(text) => self.print(&text, redirection),
                None => code = 1,
            }
            if self.budget.is_exhausted() {
                break;
            }
        }
        StepResult::Completed(code)
    }

    pub(super) fn test(&self, mut words: &[&str]) -> StepResult {
        let mut is_negated = false;
        while let ["!", rest @ ..] = words
            && !rest.is_empty()
        {
            (words, is_negated) = (rest, !is_negated);
        }
        let code = |holds: bool| StepResult::Completed(i64::from(holds == is_negated));
        match words {
            [] => code(false),
            ["-e" | "-f" | "-r", file] => code(self.files.contains_key(*file)),
            ["-s", file] => code(self.files.get(*file).is_some_and(|text| !text.is_empty())),
            ["-z", text] => code(text.is_empty()),
            ["-n", text] | [text] => code(!text.is_empty()),
            [a, "=" | "==", b] => code(a == b),
            [a, "!=", b] => code(a != b),
            [a, operator, b] => match (a.parse::<i64>(), b.parse::<i64>()) {
                (Ok(a), Ok(b)) => match *operator {
                    "-eq" => code(a == b),
                    "-ne" => code(a != b),
                    "-lt" => code(a < b),
                    "-le" => code(a <= b),
                    "-gt" => code(a > b),
                    "-ge" => code(a >= b),
                    _ => StepResult::Unknown,
                },
                _ => StepResult::Unknown,
            },
            _ => StepResult::Unknown,
        }
    }

    pub(super) fn print(&mut self, text: &str, redirection: Redirection<'_>) {
        match redirection {
            Some(("/dev/null", _)) => {}
            Some(("/dev/stdout" | "/dev/stderr", _)) | None => {
                if self.budget.charge_result(cost_of(text.split_inclusive('\n'))) {
                    self.timeline.append_output(self.now, text);
                }
            }
            Some((file, is_append)) => {
                let before = self.files.get(file).filter(|_| is_append).cloned().unwrap_or_default();
                self.write(file, Some(before + text));
            }
        }
    }

    pub(super) fn write(&mut self, file: &str, text: Option<String>) {
        if !self.budget.charge_result(file.len() + text.as_ref().map_or(0, String::len)) {
            return;
        }
        match &text {
            Some(text) => self.files.insert(file.to_owned(), text.clone()),
            None => self.files.remove(file),
        };
        self.timeline.files.push((self.now, file.to_owned(), text));
    }
}

/// PID before the first background job.
const FIRST_PID: usize = 6;

/// Returns the PID of the background job with a 1-based number; empty for 0.
pub(super) fn pid(job: usize) -> String {
    if job == 0 { String::new() } else { (job + FIRST_PID).to_string() }
}

/// Returns the number of the background job with a PID, if there is one.
fn job(pid: &str) -> Option<usize> {
    let job = pid.parse::<usize>().ok()?.checked_sub(FIRST_PID)?;
    (self::pid(job) == pid).then_some(job)
}

/// Returns the output of `echo`.
pub(super) fn echo_output(words: &[&str]) -> String {
    let is_option = |word: &&&str| {
        word.len() > 1 && word.starts_with('-') && word[1..].bytes().all(|b| b"neE".contains(&b))
    };
    let options: Vec<&&str> = words.iter().take_while(is_option).collect();
    let text = words[options.len()..].join(" ");
    let has = |option: char| options.iter().any(|word| word.contains(option));
    let (text, ends_output) = if has('e') { unescape(&text) } else { (text, false) };
    if has('n') || ends_output { text } else { text + "\n" }
}
