//! Goes through commands without running any: what the time is, which files there are, and what was said.

use std::collections::BTreeMap;
use std::time::Duration;

use super::budget::{Budget, cost};
use super::escapes::{printf, unescape};
use super::tokens::{Part, Word};
use super::words::{After, Command, What, parse};
use super::{Course, Cycle};
use crate::rules::env::{Env, Value};

/// How deep sequences are run in one another at most, in one shell and in those that it runs. Of what goes deeper nobody
/// knows what it does: each level takes some of a small stack.
const DEPTH_MAX: u32 = 100;

/// Commands that do nothing which can be seen from outside, and succeed.
const QUIET: [&str; 15] = [
    ":", "true", "cd", "chmod", "chown", "date", "df", "env", "id", "ls", "mkdir", "pwd", "sync", "trap",
    "umask",
];
/// Commands that end the same way whatever their words are.
const SAYING: [&str; 4] = ["echo", "export", "hostname", "printf"];

pub(super) enum Step {
    /// A command ended.
    Code(i64),
    /// The whole ended.
    Exit(i64),
    /// Nobody knows what it does; it goes on.
    Endless,
}

/// What one shell knows.
#[derive(Clone, Default)]
struct Shell {
    env: Env,
    /// Whether it ends at the first command that fails.
    is_strict: bool,
    /// In how many commands it is whose failure somebody asks for.
    guards: u32,
    /// The code of the last command.
    last: i64,
    /// Its own words, its name first.
    words: Vec<String>,
    /// When each of those that go on beside it ends, and with which code; nothing for one that does not.
    jobs: Vec<Option<(Duration, i64)>>,
}

pub(super) struct Machine {
    files: BTreeMap<String, String>,
    pub now: Duration,
    pub course: Course,
    shell: Shell,
    pub budget: Budget,
    /// In how many sequences it is.
    depth: u32,
}

/// Where output goes: to a file, and whether to its end.
type Into<'a> = Option<(&'a str, bool)>;

impl Machine {
    /// One that begins where these files and variables are.
    pub fn new(files: BTreeMap<String, String>, env: Env, budget: Budget) -> Machine {
        let shell = Shell { env, ..Shell::default() };
        Machine { files, now: Duration::ZERO, course: Course::default(), shell, budget, depth: 0 }
    }

    /// Runs one command; what it says goes to a file if one is named.
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

    /// Runs something that is in something else, unless that is too deep.
    fn deeper(&mut self, run: impl FnOnce(&mut Machine) -> Step) -> Step {
        if self.depth == DEPTH_MAX {
            return Step::Endless;
        }
        self.depth += 1;
        let step = run(self);
        self.depth -= 1;
        step
    }

    /// Makes files, or removes them.
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
        // What is left are the shell's own words from now on.
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
        // A token takes several times the room of its text.
        if !self.budget.handle(script.len().saturating_mul(4)) || !self.budget.handle(self.shell.env.size()) {
            return Step::Endless;
        }
        let own = words[at + 1..].iter().map(|word| (*word).to_owned()).collect();
        let inner = Shell { env: self.shell.env.clone(), is_strict, words: own, ..Shell::default() };
        let outer = std::mem::replace(&mut self.shell, inner);
        let step = self.sequence(&parse(script));
        self.shell = outer;
        match step {
            // An exit ends the script, not who called it.
            Step::Exit(code) => Step::Code(code),
            other => other,
        }
    }

    /// Runs one command after the other, as far as each is due.
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
            // Where somebody asks for a failure, it ends nothing.
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

    /// A program with its words, after what is assigned before it.
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

    /// What a word assigns, if it does.
    fn assignment<'a>(&mut self, word: &'a Word) -> Option<(&'a str, Value)> {
        let Some((Part::Text(first), rest)) = word.parts.split_first() else { return None };
        let (name, text) = first.split_once('=')?;
        // The name is looked through and copied as the text is.
        self.budget.handle(first.len());
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_name) || name.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let rest = self.value_of(rest);
        Some((name, Value { text: format!("{text}{}", rest.text), sure: rest.sure }))
    }

    /// The text of a word that stays one; some of it, if that is more than can be afforded.
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

    /// The words that words come to, and whether they are known for sure; some of them, if they are more than can be
    /// afforded.
    fn expand(&mut self, words: &[Word]) -> (Vec<String>, bool) {
        let (mut all, mut is_sure) = (Vec::new(), true);
        for word in words {
            // A word in quotes may have no parts at all, and is still one more that is made.
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
                // What is not quoted falls into words.
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

    /// What a part of a word comes to.
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
            // What may not be set is read as if it were not.
            (Some(value), Some((text, _))) if value.text.is_empty() && !value.sure => {
                Some(Value::unsure(text.clone()))
            }
            (value, _) => value,
        }
        .unwrap_or_else(|| Value::sure(fallback.map_or("", |(text, _)| text)))
    }

    /// The same machine, of which nothing is written down yet.
    fn fork(&mut self) -> Machine {
        let files = self.files.iter().flat_map(|(name, text)| [name.as_str(), text]);
        let copied = cost(files.chain(self.shell.words.iter().map(String::as_str)));
        self.budget.handle(copied + self.shell.env.size());
        let shell = Shell { jobs: Vec::new(), ..self.shell.clone() };
        let (files, course) = (self.files.clone(), Course::default());
        Machine { files, now: self.now, course, shell, budget: self.budget, depth: self.depth }
    }

    /// Writes down what another did.
    fn take_in(&mut self, other: Machine) {
        self.budget = other.budget;
        self.course.log.extend(other.course.log);
        self.course.files.extend(other.course.files);
        if self.course.cycle.is_none() {
            self.course.cycle = other.course.cycle;
        }
    }

    /// Does something for ever: what it does once is known, if it ends and takes time.
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
        // What a pattern stands for is not known.
        if !is_sure || words.iter().any(|word| word.contains(['*', '?', '{'])) {
            return Step::Endless;
        }
        let mut last = Step::Code(0);
        for word in words {
            // A round costs something even where there is nothing to do in it.
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

    /// Waits for what goes on beside.
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
        // What they left behind is there from now on.
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

/// How many processes there are before the first that goes on beside a shell.
const PIDS: usize = 6;

/// The number of the process that goes on beside a shell as the so many-th; nothing before the first.
fn pid(job: usize) -> String {
    if job == 0 { String::new() } else { (job + PIDS).to_string() }
}

/// The so many-th that goes on beside a shell is the process of this number, if any is.
fn job(pid: &str) -> Option<usize> {
    let job = pid.parse::<usize>().ok()?.checked_sub(PIDS)?;
    (self::pid(job) == pid).then_some(job)
}

/// What `echo` makes of its words.
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
