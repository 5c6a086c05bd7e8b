//! Probe results of a simulated container.
//!
//! The result of a known command ([`shell`](crate::rules::shell)) depends on the files that the container's
//! script creates. Every other probe succeeds unless the script makes the container unready or unhealthy.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_api::Time;

use super::outcome;
use crate::pod::{Command, Container, Probe};
use crate::rules::shell::budget::Budget;
use crate::rules::{Script, read};
use crate::runtime::{POST_START, Probed, Sick};
use crate::ticks::Ticks;

fn seconds(number: i64) -> Duration {
    Duration::from_secs(u64::try_from(number).unwrap_or(0))
}

/// Returns the probe results of a container that runs since a time.
#[must_use]
pub fn probe(container: &Container, script: &Script, since: Time, now: Time) -> Probed {
    let age = now.since(since);
    let ready_after = script.said.ready_after.unwrap_or_default();
    let is_up = |at: Duration| at >= ready_after;
    let is_well = |at: Duration| script.said.unwell_after.is_none_or(|end| at < end);
    // Probes start after the postStart hook.
    let hook = container.lifecycle.post_start.as_ref();
    let (begin, code) = hook.map(|hook| outcome(hook, script)).unwrap_or_default();
    let startup = container.startup_probe.as_ref();
    let starts = startup.map(|probe| Findings::of(probe, script, begin, false, &is_up));
    let started = starts.as_ref().map_or(Some(begin), |findings| findings.first(true));
    let mut until: Vec<Duration> = starts.iter().flat_map(|findings| findings.times()).collect();
    until.push(begin);
    let grace = |probe: &Probe| probe.termination_grace_period_seconds.map(seconds);
    let has_failed = code != 0 && begin <= age;
    let mut sick = has_failed.then(|| Sick { probe: POST_START, since: since.after(begin), grace: None });
    if let (Some(probe), Some(at)) = (startup, starts.as_ref().and_then(|findings| findings.first(false)))
        && started.is_none_or(|started| started > at)
        && at <= age
    {
        sick = sick.or(Some(Sick { probe: "startup", since: since.after(at), grace: grace(probe) }));
    }
    let mut unready = None;
    let mut ready = started.is_some_and(|started| started.max(ready_after) <= age);
    until.push(ready_after);
    if let (Some(probe), Some(begin)) = (&container.readiness_probe, started) {
        let findings = Findings::of(probe, script, begin, false, &|at| is_up(at) && is_well(at));
        until.extend(findings.times());
        until.extend(findings.spells.iter().map(|(at, _)| *at));
        ready = findings.at(age);
        unready = findings.failing(age).map(|at| since.after(at));
    }
    if let (Some(probe), Some(begin)) = (&container.liveness_probe, started) {
        let findings = Findings::of(probe, script, begin, true, &is_well);
        until.extend(findings.first(false));
        if let Some(at) = findings.first(false).filter(|at| *at <= age) {
            sick = sick.or(Some(Sick { probe: "liveness", since: since.after(at), grace: grace(probe) }));
        }
    }
    let next = until.into_iter().filter(|at| *at > age).min();
    let started = started.is_some_and(|started| started <= age);
    let until = next.map(|at| since.after(at));
    Probed { started, ready: ready && started, unready, sick, until }
}

/// Results of a probe over time.
struct Findings {
    first: bool,
    /// Transitions of single probe results: `true` for the start of failures.
    spells: Vec<(Duration, bool)>,
    changes: Vec<(Duration, bool)>,
}

impl Findings {
    /// Computes all results. A result changes only at an event in the container, so the probe is evaluated
    /// once between two such events; thresholds are arithmetic.
    fn of(
        probe: &Probe,
        script: &Script,
        begin: Duration,
        first: bool,
        holds: &dyn Fn(Duration) -> bool,
    ) -> Findings {
        let ticks = ticks(probe, begin);
        let threshold = |number: Option<i64>, otherwise| {
            number.map_or(otherwise, |number| u128::try_from(number).unwrap_or(0).max(1))
        };
        let successes = threshold(probe.success_threshold, 1);
        let failures = threshold(probe.failure_threshold, 3);
        let moments = moments(probe, script, ticks.begin);
        let (mut state, mut streak, mut same) = (first, 0_u128, None);
        let (mut changes, mut spells) = (Vec::new(), Vec::new());
        let mut answers = Answers::new(probe, script);
        for (at, moment) in moments.iter().enumerate() {
            let tick = ticks.next(*moment);
            let next = moments.get(at + 1).map(|next| ticks.next(*next));
            // No probe is due between these two events.
            if next == Some(tick) {
                continue;
            }
            let Some(asked) = ticks.at(tick) else { break };
            let found = holds(asked) && answers.at(asked);
            if found == same.is_some_and(|same: bool| !same) {
                spells.push((asked, !found));
            }
            if same.replace(found) != Some(found) {
                streak = 0;
            }
            let missing = if found { successes } else { failures }.saturating_sub(streak).max(1);
            let enough = tick.saturating_add(missing - 1);
            // Failures count from the start: a startup probe that never succeeds must end.
            if (state != found || changes.is_empty() && !found)
                && next.is_none_or(|next| enough < next)
                && let Some(at) = ticks.at(enough)
            {
                state = found;
                changes.push((at, found));
            }
            streak = streak.saturating_add(next.map_or(0, |next| next - tick));
        }
        Findings { first, spells, changes }
    }

    /// Returns the time since which the probe fails.
    fn failing(&self, age: Duration) -> Option<Duration> {
        let last = self.spells.iter().rev().find(|(at, _)| *at <= age)?;
        last.1.then_some(last.0)
    }

    fn first(&self, finding: bool) -> Option<Duration> {
        self.changes.iter().find(|(_, found)| *found == finding).map(|(at, _)| *at)
    }

    fn at(&self, age: Duration) -> bool {
        self.changes.iter().rev().find(|(at, _)| *at <= age).map_or(self.first, |(_, found)| *found)
    }

    fn times(&self) -> impl Iterator<Item = Duration> {
        self.changes.iter().map(|(at, _)| *at)
    }
}

/// Returns the times of a probe.
fn ticks(probe: &Probe, begin: Duration) -> Ticks {
    let period = seconds(probe.period_seconds.unwrap_or(10)).max(Duration::from_secs(1));
    Ticks { begin: begin.max(seconds(probe.initial_delay_seconds)), period }
}

/// Returns the start, and the times at which the result of a probe can change: when the container becomes
/// ready or unhealthy and, for exec probes, when one of its files changes.
fn moments(probe: &Probe, script: &Script, begin: Duration) -> Vec<Duration> {
    let said = [script.said.ready_after, script.said.unwell_after].into_iter().flatten();
    let files = script.course.files.iter().filter(|_| probe.exec.is_some()).map(|(at, _, _)| *at);
    let mut moments = vec![begin];
    moments.extend(said.chain(files).filter(|at| *at > begin));
    moments.sort_unstable();
    moments.dedup();
    moments
}

/// Maximum number of evaluations of a probe command per sync; after that, its last result holds. A script may
/// change its files thousands of times, and an evaluation may cost as much as the script itself: without a
/// bound, one sync could block the loop for minutes.
const ASKED_MAX: u32 = 64;
/// Number of cached results. Two are enough for a file that is created and removed repeatedly.
const KNOWN_MAX: usize = 2;

/// Evaluator of a probe command at increasing times.
struct Answers<'a> {
    probe: &'a Probe,
    script: &'a Script,
    /// Current files, and the number of changes applied to them.
    files: BTreeMap<String, String>,
    changes: usize,
    /// Files in the command that an unknown program may have created, since the script does not determine
    /// them.
    foreign: BTreeSet<&'a str>,
    /// Cached results by files, the most recent first.
    known: Vec<(BTreeMap<String, String>, bool)>,
    asked: u32,
    /// Remaining budget of the command.
    budget: Budget,
}

impl<'a> Answers<'a> {
    fn new(probe: &'a Probe, script: &'a Script) -> Answers<'a> {
        let course = &script.course;
        let own: BTreeSet<&str> = course.files.iter().map(|(_, name, _)| name.as_str()).collect();
        let is_told = course.end.is_some() || course.cycle.is_some();
        let commands = probe.exec.iter().filter(|_| !is_told).flat_map(|exec| &exec.command);
        let words = commands.flat_map(|words| words.split_whitespace());
        let foreign = words.filter(|word| !own.contains(word)).collect();
        let (files, known, budget) = (BTreeMap::new(), Vec::new(), script.budget);
        Answers { probe, script, files, changes: 0, foreign, known, asked: 0, budget }
    }

    /// Returns the result at a time, which must not decrease between calls.
    fn at(&mut self, time: Duration) -> bool {
        let (probe, script) = (self.probe, self.script);
        let Some(exec) = &probe.exec else { return true };
        // Changes are sorted by time, so each is applied once.
        let to_come = &script.course.files[self.changes..];
        for (_, name, text) in to_come.iter().take_while(|(at, _, _)| *at <= time) {
            match text {
                Some(text) => self.files.insert(name.clone(), text.clone()),
                None => self.files.remove(name),
            };
            self.changes += 1;
        }
        if let Some(at) = self.known.iter().position(|(files, _)| *files == self.files) {
            self.known[..=at].rotate_right(1);
        } else if self.asked < ASKED_MAX && !self.budget.is_spent() {
            self.asked += 1;
            let succeeds = self.ask(exec);
            self.known.insert(0, (self.files.clone(), succeeds));
            self.known.truncate(KNOWN_MAX);
        }
        self.known.first().is_none_or(|(_, succeeds)| *succeeds)
    }

    /// `true` if the command succeeds with the current files.
    fn ask(&mut self, exec: &Command) -> bool {
        let (script, budget) = (self.script, &mut self.budget);
        let mut succeeds = |files| {
            let course = read(&exec.command, files, script, budget);
            course.end.is_none_or(|(_, code)| code == 0)
        };
        if succeeds(self.files.clone()) {
            return true;
        }
        if self.foreign.is_empty() {
            return false;
        }
        let mut files = self.files.clone();
        files.extend(self.foreign.iter().map(|word| ((*word).to_owned(), String::new())));
        succeeds(files)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rules::{Said, shell};

    fn course_of(script: &mut Script) -> &mut shell::Course {
        std::sync::Arc::make_mut(&mut script.course)
    }

    fn exec(words: &[&str]) -> Option<Command> {
        Some(Command { command: words.iter().map(|word| (*word).to_owned()).collect() })
    }

    fn at(container: &Container, script: &Script, seconds: i64) -> Probed {
        probe(container, script, Time::EPOCH, Time::from_seconds(seconds))
    }

    #[test]
    fn readiness_follows_the_initial_delay_and_the_script() {
        let mut container = Container::default();
        let plain = Script::default();
        assert!(at(&container, &plain, 0).ready);
        container.readiness_probe = Some(Probe { initial_delay_seconds: 5, ..Probe::default() });
        let early = at(&container, &plain, 4);
        assert_eq!((early.ready, early.until), (false, Some(Time::from_seconds(5))));
        let late = at(&container, &plain, 5);
        assert_eq!((late.ready, late.until), (true, None));
        let script = Script {
            said: Said { ready_after: Some(Duration::from_secs(12)), ..Said::default() },
            ..Script::default()
        };
        assert!(!at(&container, &script, 14).ready && at(&container, &script, 15).ready);
    }

    #[test]
    fn removed_file_fails_the_liveness_probe() {
        let words = ["sh", "-c", "echo ok >/tmp/health; sleep 10; rm /tmp/health; sleep 600"];
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let course = shell::read(&words, Default::default(), &Default::default());
        let script = Script { course: course.into(), ..Script::default() };
        let liveness = Probe {
            initial_delay_seconds: 15,
            failure_threshold: Some(1),
            exec: exec(&["cat", "/tmp/health"]),
            ..Probe::default()
        };
        let container = Container { liveness_probe: Some(liveness), ..Container::default() };
        assert_eq!(at(&container, &script, 14).sick, None);
        assert_eq!(at(&container, &script, 14).until, Some(Time::from_seconds(15)));
        assert_eq!(at(&container, &script, 15).sick.map(|sick| sick.probe), Some("liveness"));
    }

    #[test]
    fn startup_probe_kills_after_its_threshold_and_delays_readiness() {
        let mut startup = Probe {
            period_seconds: Some(2),
            failure_threshold: Some(3),
            exec: exec(&["false"]),
            ..Probe::default()
        };
        let mut container = Container { startup_probe: Some(startup.clone()), ..Container::default() };
        let plain = Script::default();
        assert_eq!(at(&container, &plain, 3).sick, None);
        let end = at(&container, &plain, 4);
        assert_eq!(
            (end.started, end.ready, end.sick.map(|sick| sick.probe)),
            (false, false, Some("startup"))
        );
        startup.exec = exec(&["true"]);
        startup.initial_delay_seconds = 3;
        container.startup_probe = Some(startup);
        assert!(!at(&container, &plain, 2).started && at(&container, &plain, 3).started);
        assert!(at(&container, &plain, 3).ready);
    }

    #[test]
    fn unknown_probe_command_succeeds() {
        for (words, is_ready) in
            [(&["pg_isready"][..], true), (&["cat", "/tmp/up"], true), (&["false"], false)]
        {
            let probe = Probe { exec: exec(words), ..Probe::default() };
            let container = Container { readiness_probe: Some(probe), ..Container::default() };
            assert_eq!(at(&container, &Script::default(), 0).ready, is_ready, "{words:?}");
        }
    }

    /// Reference implementation: the result at a time, computed from the start.
    fn answers(probe: &Probe, script: &Script, at: Duration) -> bool {
        let Some(exec) = &probe.exec else { return true };
        let course = &script.course;
        let succeeds =
            |files| shell::read(&exec.command, files, &script.env).end.is_none_or(|(_, code)| code == 0);
        let mut files = course.files_at(at);
        if succeeds(files.clone()) {
            return true;
        }
        // An unknown program may have created the files in the command, unless the script determines them.
        if course.end.is_some() || course.cycle.is_some() {
            return false;
        }
        for word in exec.command.iter().flat_map(|words| words.split_whitespace()) {
            if course.files.iter().all(|(_, name, _)| name != word) {
                files.insert(word.to_owned(), String::new());
            }
        }
        succeeds(files)
    }

    /// Reference implementation: evaluates the probe in every period until nothing can change.
    fn step_by_step(
        probe: &Probe,
        script: &Script,
        begin: Duration,
        first: bool,
        holds: &dyn Fn(Duration) -> bool,
    ) -> Findings {
        let Ticks { begin, period } = ticks(probe, begin);
        let successes = probe.success_threshold.unwrap_or(1).max(1);
        let failures = probe.failure_threshold.unwrap_or(3).max(1);
        let said = [script.said.ready_after, script.said.unwell_after].into_iter().flatten();
        let files = script.course.files.iter().map(|(at, _, _)| *at);
        let last = said.chain(files).max().unwrap_or_default().max(begin);
        let end = last + period * u32::try_from(successes.max(failures) + 1).unwrap();
        let (mut tick, mut state, mut streak, mut same) = (begin, first, 0, None);
        let (mut changes, mut spells) = (Vec::new(), Vec::new());
        while tick <= end {
            let found = holds(tick) && answers(probe, script, tick);
            if found == same.is_some_and(|same: bool| !same) {
                spells.push((tick, !found));
            }
            streak = if same == Some(found) { streak + 1 } else { 1 };
            same = Some(found);
            let is_enough = streak >= if found { successes } else { failures };
            if is_enough && (state != found || changes.is_empty() && !found) {
                state = found;
                changes.push((tick, found));
            }
            tick += period;
        }
        Findings { first, spells, changes }
    }

    fn some_script() -> impl Strategy<Value = Script> {
        let moment = || proptest::option::of((0_u64..40_000).prop_map(Duration::from_millis));
        let file = (0_u64..30_000, any::<bool>()).prop_map(|(at, is_made)| {
            (Duration::from_millis(at), "/tmp/x".to_owned(), is_made.then(String::new))
        });
        let files = proptest::collection::vec(file, 0..8);
        let end = proptest::option::of(Just((Duration::from_secs(60), 0)));
        (moment(), moment(), files, end).prop_map(|(ready_after, unwell_after, mut files, end)| {
            files.sort_by_key(|(at, _, _)| *at);
            let said = Said { ready_after, unwell_after, ..Said::default() };
            let mut script = Script { said, ..Script::default() };
            let course = course_of(&mut script);
            (course.end, course.files) = (end, files);
            script
        })
    }

    fn some_probe() -> impl Strategy<Value = Probe> {
        let number = |range: std::ops::Range<i64>| proptest::option::of(range);
        (0_i64..20, number(-1..8), number(-1..6), number(-1..6), any::<bool>()).prop_map(
            |(initial_delay_seconds, period_seconds, success_threshold, failure_threshold, looks)| Probe {
                initial_delay_seconds,
                period_seconds,
                success_threshold,
                failure_threshold,
                exec: exec(&["cat", "/tmp/x"]).filter(|_| looks),
                ..Probe::default()
            },
        )
    }

    proptest! {
        #[test]
        fn probe_results_equal_those_of_probing_every_period(
            probe in some_probe(),
            script in some_script(),
            begin in 0_u64..5_000,
            first in any::<bool>(),
        ) {
            let said = &script.said;
            let holds = |at: Duration| {
                said.ready_after.is_none_or(|ready| at >= ready) && said.unwell_after.is_none_or(|end| at < end)
            };
            let begin = Duration::from_millis(begin);
            let found = Findings::of(&probe, &script, begin, first, &holds);
            let expected = step_by_step(&probe, &script, begin, first, &holds);
            prop_assert_eq!(found.changes, expected.changes);
            prop_assert_eq!(found.spells, expected.spells);
        }
    }

    /// Probe that checks a file each second with an expensive command.
    fn slow_probe() -> Probe {
        let script = format!("for i in {}; do :; done; cat /tmp/f", "1 ".repeat(9_000));
        Probe {
            period_seconds: Some(1),
            failure_threshold: Some(1),
            exec: exec(&["sh", "-c", &script]),
            ..Probe::default()
        }
    }

    #[test]
    fn file_that_toggles_thousands_of_times_is_followed_to_the_end() {
        let turns = "sleep 1; touch /tmp/f; sleep 1; rm /tmp/f";
        let loops = |name: &str, times: usize| format!("for {name} in {}; do ", "1 ".repeat(times));
        let text = format!("{}{}{turns}; done; done", loops("a", 50), loops("b", 40));
        let words = ["sh".to_owned(), "-c".to_owned(), text];
        let course = shell::read(&words, Default::default(), &Default::default());
        assert_eq!((course.files.len(), course.end), (4_000, Some((Duration::from_secs(4_000), 0))));
        let script = Script { course: course.into(), ..Script::default() };
        let container = Container { readiness_probe: Some(slow_probe()), ..Container::default() };
        for (seconds, is_ready) in [(0, false), (1, true), (2, false), (3_998, false), (3_999, true)] {
            let found = at(&container, &script, seconds);
            assert_eq!(found.ready, is_ready, "{seconds}");
            assert_eq!(found.until, Some(Time::from_seconds(seconds + 1)), "{seconds}");
        }
    }

    #[test]
    fn evaluations_of_a_probe_with_ever_changing_files_are_bounded() {
        let mut script = Script::default();
        let file = |at: u64| (Duration::from_secs(at), "/tmp/f".to_owned(), Some(at.to_string()));
        course_of(&mut script).files = (1..5_000).map(file).collect();
        course_of(&mut script).files.push((Duration::from_secs(5_000), "/tmp/f".to_owned(), None));
        course_of(&mut script).end = Some((Duration::from_secs(9_000), 0));
        let quick = Probe { exec: exec(&["cat", "/tmp/f"]), ..slow_probe() };
        // The budget of a pod is five times 9,000 commands.
        for (probe, most) in [(quick, ASKED_MAX), (slow_probe(), 6)] {
            let mut answers = Answers::new(&probe, &script);
            let found: Vec<bool> = (0..6_000).map(|at| answers.at(Duration::from_secs(at))).collect();
            assert!(!found[0] && found[1..].iter().all(|succeeds| *succeeds), "the last result holds");
            assert_eq!(answers.asked, most);
        }
    }

    #[test]
    fn probe_results_in_the_far_future_are_computed_quickly() {
        let patient = Probe {
            period_seconds: Some(1),
            failure_threshold: Some(i64::from(i32::MAX)),
            exec: exec(&["false"]),
            ..Probe::default()
        };
        let container = Container { startup_probe: Some(patient), ..Container::default() };
        let plain = Script::default();
        let last = i64::from(i32::MAX) - 1;
        assert_eq!(at(&container, &plain, last - 1).sick, None);
        assert_eq!(at(&container, &plain, 0).until, Some(Time::from_seconds(last)));
        assert_eq!(at(&container, &plain, last).sick.map(|sick| sick.probe), Some("startup"));
        for far in [Duration::from_secs(99_999_999_999), Duration::MAX] {
            let said = Said { ready_after: Some(far), unwell_after: Some(far), ..Said::default() };
            let mut script = Script { said, ..Script::default() };
            course_of(&mut script).files = vec![(far, "/tmp/x".to_owned(), None)];
            for number in [1, i64::MAX] {
                let probe = Probe {
                    period_seconds: Some(number),
                    failure_threshold: Some(i64::MAX),
                    success_threshold: Some(i64::MAX),
                    ..Probe::default()
                };
                let container = Container {
                    readiness_probe: Some(probe.clone()),
                    liveness_probe: Some(probe),
                    ..Container::default()
                };
                let found = at(&container, &script, 1_000_000_000);
                assert_eq!((found.started, found.ready, found.sick), (true, false, None));
            }
        }
    }
}
