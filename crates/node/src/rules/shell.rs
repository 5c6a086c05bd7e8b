//! What a command line does, as far as that can be told without running it.
//!
//! It knows how long `sleep` sleeps, what `exit`, `true` and `false` end with, what `echo` says and which files come
//! and go, alone or in `sh -c` with sequences, `if` and `while true`. Of anything else it says that it goes on until it is stopped: a guess about
//! a program that nobody runs would be worse.

mod words;

use std::collections::BTreeMap;
use std::time::Duration;

use words::{After, Command, What, parse};

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
        let (mut past, mut next) = (Vec::new(), None);
        let plain = self.log.iter().map(|(at, line)| (*at, line.as_str()));
        let cycles = self.cycle.iter().flat_map(|cycle| {
            let turns = (0_u32..).map(|turn| cycle.begin.saturating_add(cycle.period.saturating_mul(turn)));
            turns.flat_map(|begin| cycle.log.iter().map(move |(at, line)| (begin + *at, line.as_str())))
        });
        for (at, line) in plain.chain(cycles) {
            if at > time {
                next = Some(at);
                break;
            }
            past.push((at, line));
        }
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
}

/// Commands that do nothing which can be seen from outside, and succeed.
const QUIET: [&str; 18] = [
    ":", "true", "cd", "chmod", "chown", "date", "df", "env", "export", "hostname", "id", "ls", "mkdir",
    "pwd", "set", "sync", "trap", "umask",
];

/// What a command line does where these files are.
#[must_use]
pub fn read(words: &[String], files: BTreeMap<String, String>) -> Course {
    let mut machine = Machine { files, now: Duration::ZERO, course: Course::default() };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let Step::Code(code) | Step::Exit(code) = machine.run(&words, None) {
        machine.course.end = Some((machine.now, code));
    }
    machine.course
}

enum Step {
    /// A command ended.
    Code(i64),
    /// The whole ended.
    Exit(i64),
    /// Nobody knows what it does; it goes on.
    Endless,
}

struct Machine {
    files: BTreeMap<String, String>,
    now: Duration,
    course: Course,
}

impl Machine {
    /// Runs one command; what it says goes to a file if one is named.
    fn run(&mut self, words: &[&str], into: Option<(&str, bool)>) -> Step {
        let Some((program, rest)) = words.split_first() else { return Step::Code(0) };
        let name = program.rsplit('/').next().unwrap_or(program);
        match name {
            "sh" | "bash" | "ash" | "dash" => self.shell(rest),
            "sleep" => self.sleep(rest),
            "exit" => match rest {
                [] => Step::Exit(0),
                [code, ..] => code.parse().map_or(Step::Endless, |code: i64| Step::Exit(code & 0xff)),
            },
            "false" => Step::Code(1),
            "exec" => match self.run(rest, into) {
                Step::Code(code) => Step::Exit(code),
                other => other,
            },
            "echo" => {
                let (end, rest) = if rest.first() == Some(&"-n") { ("", &rest[1..]) } else { ("\n", rest) };
                self.say(&format!("{}{end}", rest.join(" ")), into);
                Step::Code(0)
            }
            "printf" => {
                self.say(&rest.first().copied().unwrap_or_default().replace("\\n", "\n"), into);
                Step::Code(0)
            }
            "cat" => self.cat(rest, into),
            "touch" => {
                for file in rest.iter().filter(|word| !word.starts_with('-')) {
                    let text = self.files.get(*file).cloned().unwrap_or_default();
                    self.write(file, Some(text));
                }
                Step::Code(0)
            }
            "rm" => {
                for file in rest.iter().filter(|word| !word.starts_with('-')) {
                    self.write(file, None);
                }
                Step::Code(0)
            }
            "test" => self.test(rest),
            "[" | "[[" => match rest.split_last() {
                Some((&"]" | &"]]", rest)) => self.test(rest),
                _ => Step::Endless,
            },
            name if QUIET.contains(&name) || is_assignment(name) => {
                self.say("", into);
                Step::Code(0)
            }
            _ => Step::Endless,
        }
    }

    fn shell(&mut self, words: &[&str]) -> Step {
        let is_script = |word: &&str| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
        match words.iter().position(is_script).and_then(|at| words.get(at + 1)) {
            // An exit ends the script, not who called it.
            Some(script) => match self.sequence(&parse(script)) {
                Step::Exit(code) => Step::Code(code),
                other => other,
            },
            None => Step::Endless,
        }
    }

    /// Runs one command after the other, as far as each is due.
    fn sequence(&mut self, commands: &[Command]) -> Step {
        let mut code = 0;
        for command in commands {
            let is_due = match command.after {
                After::Any => true,
                After::Success => code == 0,
                After::Failure => code != 0,
            };
            if !is_due {
                continue;
            }
            match self.command(&command.what) {
                Step::Code(ended) => code = ended,
                other => return other,
            }
        }
        Step::Code(code)
    }

    fn command(&mut self, what: &What) -> Step {
        match what {
            What::Plain { words, into } => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                self.run(&words, into.as_ref().map(|(file, appends)| (file.as_str(), *appends)))
            }
            What::If { condition, then, otherwise } => match self.sequence(condition) {
                Step::Code(0) => self.sequence(then),
                Step::Code(_) => self.sequence(otherwise),
                other => other,
            },
            What::Forever(body) => {
                self.cycle(body);
                Step::Endless
            }
            What::Unknown => Step::Endless,
        }
    }

    /// Does something for ever: what it does once is known, if it ends and takes time.
    fn cycle(&mut self, body: &[Command]) {
        let mut once = Machine { files: self.files.clone(), now: Duration::ZERO, course: Course::default() };
        if let Step::Code(_) = once.sequence(body)
            && !once.now.is_zero()
            && !once.course.log.is_empty()
        {
            self.course.cycle = Some(Cycle { begin: self.now, period: once.now, log: once.course.log });
        }
    }

    fn sleep(&mut self, words: &[&str]) -> Step {
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

    fn cat(&mut self, words: &[&str], into: Option<(&str, bool)>) -> Step {
        let mut code = 0;
        for file in words {
            match self.files.get(*file).cloned() {
                Some(text) => self.say(&text, into),
                None => code = 1,
            }
        }
        Step::Code(code)
    }

    fn test(&self, words: &[&str]) -> Step {
        let code = |holds: bool| Step::Code(i64::from(!holds));
        match words {
            ["-e" | "-f" | "-r", file] => code(self.files.contains_key(*file)),
            ["!", "-e" | "-f" | "-r", file] => code(!self.files.contains_key(*file)),
            ["-s", file] => code(self.files.get(*file).is_some_and(|text| !text.is_empty())),
            [a, "=" | "==", b] => code(a == b),
            [a, "!=", b] => code(a != b),
            _ => Step::Endless,
        }
    }

    fn say(&mut self, text: &str, into: Option<(&str, bool)>) {
        match into {
            Some(("/dev/null", _)) => {}
            Some(("/dev/stdout" | "/dev/stderr", _)) | None => {
                self.course.log.extend(text.lines().map(|line| (self.now, line.to_owned())));
            }
            Some((file, appends)) => {
                let before = self.files.get(file).filter(|_| appends).cloned().unwrap_or_default();
                self.write(file, Some(before + text));
            }
        }
    }

    fn write(&mut self, file: &str, text: Option<String>) {
        match &text {
            Some(text) => self.files.insert(file.to_owned(), text.clone()),
            None => self.files.remove(file),
        };
        self.course.files.push((self.now, file.to_owned(), text));
    }
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name).unwrap_or_default();
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(words: &[&str]) -> Course {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        read(&words, BTreeMap::new())
    }

    fn end(words: &[&str]) -> Option<(u64, i64)> {
        course(words).end.map(|(at, code)| (at.as_secs(), code))
    }

    #[test]
    fn plain_commands_end_as_they_say() {
        assert_eq!(end(&["sleep", "5"]), Some((5, 0)));
        assert_eq!(end(&["/bin/sleep", "1m", "2s"]), Some((62, 0)));
        assert_eq!(end(&["true"]), Some((0, 0)));
        assert_eq!(end(&["/bin/false"]), Some((0, 1)));
        for endless in [&["sleep", "infinity"][..], &["nginx"], &["sh"], &["sh", "x.sh"], &["sleep", "$N"]] {
            assert_eq!(end(endless), None, "{endless:?}");
        }
        assert_eq!(end(&[]), Some((0, 0)));
    }

    #[test]
    fn sequences_run_one_after_the_other() {
        let course = course(&["sh", "-c", "echo one; sleep 2 && echo 'two three'; exit 7; echo never"]);
        let at = Duration::from_secs;
        assert_eq!(course.end, Some((at(2), 7)));
        assert_eq!(course.log, [(at(0), "one".to_owned()), (at(2), "two three".to_owned())]);
        assert_eq!(end(&["sh", "-c", "false && sleep 9 || sleep 3"]), Some((3, 0)));
        assert_eq!(end(&["sh", "-ec", "false || exit 3"]), Some((0, 3)));
        assert_eq!(end(&["sh", "-c", "exec sleep 4"]), Some((4, 0)));
        assert_eq!(end(&["sh", "-c", "sh -c 'exit 4'; exit 5"]), Some((0, 5)));
    }

    #[test]
    fn what_is_not_known_goes_on_until_it_is_stopped() {
        for script in
            ["while true; do sleep 1; done", "sleep 1; nginx", "a | b", "exit $(cat x)", "sleep 1 &"]
        {
            assert_eq!(end(&["sh", "-c", script]), None, "{script}");
        }
        assert_eq!(course(&["sh", "-c", "echo up; while true; do :; done"]).log.len(), 1);
    }

    #[test]
    fn branches_are_taken_as_their_condition_ends() {
        for (script, ends) in [
            ("if true; then exit 3; fi", Some((0, 3))),
            ("if false; then exit 3; fi; sleep 2", Some((2, 0))),
            ("if [ -f /x ]; then exit 1; elif [[ a == a ]]; then sleep 4; else exit 2; fi", Some((4, 0))),
            (
                "touch /x\nif [ -f /x ] && true\nthen\n if false; then exit 1; else exit 5; fi\nfi",
                Some((0, 5)),
            ),
            ("if nginx; then exit 1; fi", None),
            ("if true; then for i in 1 2; do exit 1; done; fi", None),
            ("if true; then exit 1", None),
            ("if true; then exit 1; fi | cat", None),
        ] {
            assert_eq!(end(&["sh", "-c", script]), ends, "{script}");
        }
    }

    #[test]
    fn a_loop_says_the_same_again_and_again() {
        let course = course(&["sh", "-c", "echo up; sleep 3; while true; do echo hello; sleep 2; done"]);
        assert_eq!(course.end, None);
        let (said, next) = course.said_by(Duration::from_secs(8));
        let times: Vec<(u64, &str)> = said.iter().map(|(at, line)| (at.as_secs(), *line)).collect();
        assert_eq!(times, [(0, "up"), (3, "hello"), (5, "hello"), (7, "hello")]);
        assert_eq!(next, Some(Duration::from_secs(9)));
        let endless = self::course(&["sh", "-c", "while :; do echo x; done"]);
        let (said, next) = endless.said_by(Duration::MAX);
        assert_eq!((said.len(), next), (0, None), "one that takes no time would never end");
    }

    #[test]
    fn files_come_and_go() {
        let script = "echo ok >/tmp/health; sleep 10; rm -rf /tmp/health; sleep 600";
        let course = course(&["/bin/sh", "-c", script]);
        let at = |seconds| course.files_at(Duration::from_secs(seconds));
        let probe = |seconds| {
            let cat = ["cat".to_owned(), "/tmp/health".to_owned()];
            read(&cat, at(seconds)).end
        };
        assert_eq!((probe(9), probe(10)), (Some((Duration::ZERO, 0)), Some((Duration::ZERO, 1))));
        assert_eq!(course.end, Some((Duration::from_secs(610), 0)));
    }

    #[test]
    fn words_go_into_files() {
        let course = course(&["sh", "-c", "echo -n DONE > /dev/termination-log 2>&1; echo x >/dev/null"]);
        assert_eq!(
            course.files_at(Duration::ZERO).get("/dev/termination-log").map(String::as_str),
            Some("DONE")
        );
        assert_eq!((course.log.len(), course.end), (0, Some((Duration::ZERO, 0))));
    }
}
