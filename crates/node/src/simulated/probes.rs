//! Probe results of a simulated container.
//!
//! The result of a known command ([`shell`](crate::rules::shell)) depends on the files that the container's
//! script creates. Every other probe succeeds unless the script makes the container unready or unhealthy.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use setpoint_api::Time;

use super::hook_result;
use crate::behavior::shell::budget::Budget;
use crate::behavior::{ContainerBehavior, evaluate_script};
use crate::pod::{Container, ExecAction, Probe};
use crate::runtime::{KillReason, POST_START, ProbeResults};
use crate::ticks::Ticks;

fn seconds_to_duration(number: i64) -> Duration {
    Duration::from_secs(u64::try_from(number).unwrap_or(0))
}

/// Returns the probe results of a container that runs since a time.
#[must_use]
pub fn probe_results(
    container: &Container,
    behavior: &ContainerBehavior,
    since: Time,
    now: Time,
) -> ProbeResults {
    let age = now.since(since);
    let ready_after = behavior.overrides.ready_after.unwrap_or_default();
    let is_ready_at = |at: Duration| at >= ready_after;
    let is_healthy_at = |at: Duration| behavior.overrides.unhealthy_after.is_none_or(|end| at < end);
    // Probes start after the postStart hook.
    let hook = container.lifecycle.post_start.as_ref();
    let (begin, code) = hook.map(|hook| hook_result(hook, behavior)).unwrap_or_default();
    let startup = container.startup_probe.as_ref();
    let starts = startup.map(|probe| ProbeHistory::compute(probe, behavior, begin, false, &is_ready_at));
    let started = starts.as_ref().map_or(Some(begin), |history| history.first_change_to(true));
    let mut until: Vec<Duration> = starts.iter().flat_map(|history| history.change_times()).collect();
    until.push(begin);
    let grace_period = |probe: &Probe| probe.termination_grace_period_seconds.map(seconds_to_duration);
    let has_failed = code != 0 && begin <= age;
    let mut kill_reason =
        has_failed.then(|| KillReason { cause: POST_START, since: since.after(begin), grace_period: None });
    if let (Some(probe), Some(at)) =
        (startup, starts.as_ref().and_then(|history| history.first_change_to(false)))
        && started.is_none_or(|started| started > at)
        && at <= age
    {
        kill_reason = kill_reason.or(Some(KillReason {
            cause: "startup",
            since: since.after(at),
            grace_period: grace_period(probe),
        }));
    }
    let mut unready_since = None;
    let mut ready = started.is_some_and(|started| started.max(ready_after) <= age);
    until.push(ready_after);
    if let (Some(probe), Some(begin)) = (&container.readiness_probe, started) {
        let history =
            ProbeHistory::compute(probe, behavior, begin, false, &|at| is_ready_at(at) && is_healthy_at(at));
        until.extend(history.change_times());
        until.extend(history.result_changes.iter().map(|(at, _)| *at));
        ready = history.state_at(age);
        unready_since = history.failing_since(age).map(|at| since.after(at));
    }
    if let (Some(probe), Some(begin)) = (&container.liveness_probe, started) {
        let history = ProbeHistory::compute(probe, behavior, begin, true, &is_healthy_at);
        until.extend(history.first_change_to(false));
        if let Some(at) = history.first_change_to(false).filter(|at| *at <= age) {
            kill_reason = kill_reason.or(Some(KillReason {
                cause: "liveness",
                since: since.after(at),
                grace_period: grace_period(probe),
            }));
        }
    }
    let next = until.into_iter().filter(|at| *at > age).min();
    let started = started.is_some_and(|started| started <= age);
    let until = next.map(|at| since.after(at));
    ProbeResults { started, ready: ready && started, unready_since, kill_reason, next_change: until }
}

/// Results of a probe over time.
struct ProbeHistory {
    first: bool,
    /// Transitions of single probe results: `true` for the start of failures.
    result_changes: Vec<(Duration, bool)>,
    state_changes: Vec<(Duration, bool)>,
}

impl ProbeHistory {
    /// Computes all results. A result changes only at an event in the container, so the probe is evaluated
    /// once between two such events; thresholds are arithmetic.
    fn compute(
        probe: &Probe,
        behavior: &ContainerBehavior,
        begin: Duration,
        first: bool,
        holds: &dyn Fn(Duration) -> bool,
    ) -> ProbeHistory {
        let ticks = ticks(probe, begin);
        let threshold = |number: Option<i64>, otherwise| {
            number.map_or(otherwise, |number| u128::try_from(number).unwrap_or(0).max(1))
        };
        let successes = threshold(probe.success_threshold, 1);
        let failures = threshold(probe.failure_threshold, 3);
        let change_points = change_points(probe, behavior, ticks.begin);
        let (mut state, mut streak, mut same) = (first, 0_u128, None);
        let (mut state_changes, mut result_changes) = (Vec::new(), Vec::new());
        let mut evaluator = ProbeEvaluator::new(probe, behavior);
        for (at, point) in change_points.iter().enumerate() {
            let tick = ticks.next_index(*point);
            let next = change_points.get(at + 1).map(|next| ticks.next_index(*next));
            // No probe is due between these two events.
            if next == Some(tick) {
                continue;
            }
            let Some(evaluations) = ticks.time_of(tick) else { break };
            let found = holds(evaluations) && evaluator.result_at(evaluations);
            if found == same.is_some_and(|same: bool| !same) {
                result_changes.push((evaluations, !found));
            }
            if same.replace(found) != Some(found) {
                streak = 0;
            }
            let missing = if found { successes } else { failures }.saturating_sub(streak).max(1);
            let enough = tick.saturating_add(missing - 1);
            // Failures count from the start: a startup probe that never succeeds must end.
            if (state != found || state_changes.is_empty() && !found)
                && next.is_none_or(|next| enough < next)
                && let Some(at) = ticks.time_of(enough)
            {
                state = found;
                state_changes.push((at, found));
            }
            streak = streak.saturating_add(next.map_or(0, |next| next - tick));
        }
        ProbeHistory { first, result_changes, state_changes }
    }

    /// Returns the time since which the probe fails.
    fn failing_since(&self, age: Duration) -> Option<Duration> {
        let last = self.result_changes.iter().rev().find(|(at, _)| *at <= age)?;
        last.1.then_some(last.0)
    }

    fn first_change_to(&self, state: bool) -> Option<Duration> {
        self.state_changes.iter().find(|(_, found)| *found == state).map(|(at, _)| *at)
    }

    fn state_at(&self, age: Duration) -> bool {
        self.state_changes.iter().rev().find(|(at, _)| *at <= age).map_or(self.first, |(_, found)| *found)
    }

    fn change_times(&self) -> impl Iterator<Item = Duration> {
        self.state_changes.iter().map(|(at, _)| *at)
    }
}

/// Returns the times of a probe.
fn ticks(probe: &Probe, begin: Duration) -> Ticks {
    let period = seconds_to_duration(probe.period_seconds.unwrap_or(10)).max(Duration::from_secs(1));
    Ticks { begin: begin.max(seconds_to_duration(probe.initial_delay_seconds)), period }
}

/// Returns the start, and the times at which the result of a probe can change: when the container becomes
/// ready or unhealthy and, for exec probes, when one of its files changes.
fn change_points(probe: &Probe, behavior: &ContainerBehavior, begin: Duration) -> Vec<Duration> {
    let overrides =
        [behavior.overrides.ready_after, behavior.overrides.unhealthy_after].into_iter().flatten();
    let files = behavior.timeline.files.iter().filter(|_| probe.exec.is_some()).map(|(at, _, _)| *at);
    let mut change_points = vec![begin];
    change_points.extend(overrides.chain(files).filter(|at| *at > begin));
    change_points.sort_unstable();
    change_points.dedup();
    change_points
}

/// Maximum number of evaluations of a probe command per sync; after that, its last result holds. A script may
/// change its files thousands of times, and an evaluation may cost as much as the script itself: without a
/// bound, one sync could block the loop for minutes.
const EVALUATIONS_MAX: u32 = 64;
/// Number of cached results. Two are enough for a file that is created and removed repeatedly.
const CACHED_RESULTS_MAX: usize = 2;

/// Evaluator of a probe command at increasing times.
struct ProbeEvaluator<'a> {
    probe: &'a Probe,
    behavior: &'a ContainerBehavior,
    /// Current files, and the number of changes applied to them.
    files: BTreeMap<String, String>,
    state_changes: usize,
    /// Files in the command that an unknown program may have created, since the script does not determine
    /// them.
    external_files: BTreeSet<&'a str>,
    /// Cached results by files, the most recent first.
    cache: Vec<(BTreeMap<String, String>, bool)>,
    evaluations: u32,
    /// Remaining budget of the command.
    budget: Budget,
}

impl<'a> ProbeEvaluator<'a> {
    fn new(probe: &'a Probe, behavior: &'a ContainerBehavior) -> ProbeEvaluator<'a> {
        let timeline = &behavior.timeline;
        let own: BTreeSet<&str> = timeline.files.iter().map(|(_, name, _)| name.as_str()).collect();
        let is_determined = timeline.exit.is_some() || timeline.repeated.is_some();
        let commands = probe.exec.iter().filter(|_| !is_determined).flat_map(|exec| &exec.command);
        let words = commands.flat_map(|words| words.split_whitespace());
        let external_files = words.filter(|word| !own.contains(word)).collect();
        let (files, cache, budget) = (BTreeMap::new(), Vec::new(), behavior.budget);
        ProbeEvaluator {
            probe,
            behavior,
            files,
            state_changes: 0,
            external_files,
            cache,
            evaluations: 0,
            budget,
        }
    }

    /// Returns the result at a time, which must not decrease between calls.
    fn result_at(&mut self, time: Duration) -> bool {
        let (probe, behavior) = (self.probe, self.behavior);
        let Some(exec) = &probe.exec else { return true };
        // Changes are sorted by time, so each is applied once.
        let pending = &behavior.timeline.files[self.state_changes..];
        for (_, name, text) in pending.iter().take_while(|(at, _, _)| *at <= time) {
            match text {
                Some(text) => self.files.insert(name.clone(), text.clone()),
                None => self.files.remove(name),
            };
            self.state_changes += 1;
        }
        if let Some(at) = self.cache.iter().position(|(files, _)| *files == self.files) {
            self.cache[..=at].rotate_right(1);
        } else if self.evaluations < EVALUATIONS_MAX && !self.budget.is_exhausted() {
            self.evaluations += 1;
            let succeeds = self.evaluate(exec);
            self.cache.insert(0, (self.files.clone(), succeeds));
            self.cache.truncate(CACHED_RESULTS_MAX);
        }
        self.cache.first().is_none_or(|(_, succeeds)| *succeeds)
    }

    /// `true` if the command succeeds with the current files.
    fn evaluate(&mut self, exec: &ExecAction) -> bool {
        let (behavior, budget) = (self.behavior, &mut self.budget);
        let mut succeeds = |files| {
            let timeline = evaluate_script(&exec.command, files, behavior, budget);
            timeline.exit.is_none_or(|(_, code)| code == 0)
        };
        if succeeds(self.files.clone()) {
            return true;
        }
        if self.external_files.is_empty() {
            return false;
        }
        let mut files = self.files.clone();
        files.extend(self.external_files.iter().map(|word| ((*word).to_owned(), String::new())));
        succeeds(files)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::behavior::{BehaviorOverrides, shell};

    fn timeline_of(behavior: &mut ContainerBehavior) -> &mut shell::Timeline {
        std::sync::Arc::make_mut(&mut behavior.timeline)
    }

    fn exec(words: &[&str]) -> Option<ExecAction> {
        Some(ExecAction { command: words.iter().map(|word| (*word).to_owned()).collect() })
    }

    fn at(container: &Container, behavior: &ContainerBehavior, seconds: i64) -> ProbeResults {
        probe_results(container, behavior, Time::EPOCH, Time::from_seconds(seconds))
    }

    #[test]
    fn readiness_follows_the_initial_delay_and_the_script() {
        let mut container = Container::default();
        let plain = ContainerBehavior::default();
        assert!(at(&container, &plain, 0).ready);
        container.readiness_probe = Some(Probe { initial_delay_seconds: 5, ..Probe::default() });
        let early = at(&container, &plain, 4);
        assert_eq!((early.ready, early.next_change), (false, Some(Time::from_seconds(5))));
        let late = at(&container, &plain, 5);
        assert_eq!((late.ready, late.next_change), (true, None));
        let behavior = ContainerBehavior {
            overrides: BehaviorOverrides {
                ready_after: Some(Duration::from_secs(12)),
                ..BehaviorOverrides::default()
            },
            ..ContainerBehavior::default()
        };
        assert!(!at(&container, &behavior, 14).ready && at(&container, &behavior, 15).ready);
    }

    #[test]
    fn removed_file_fails_the_liveness_probe() {
        let words = ["sh", "-c", "echo ok >/tmp/health; sleep 10; rm /tmp/health; sleep 600"];
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let timeline = shell::evaluate(&words, Default::default(), &Default::default());
        let behavior = ContainerBehavior { timeline: timeline.into(), ..ContainerBehavior::default() };
        let liveness = Probe {
            initial_delay_seconds: 15,
            failure_threshold: Some(1),
            exec: exec(&["cat", "/tmp/health"]),
            ..Probe::default()
        };
        let container = Container { liveness_probe: Some(liveness), ..Container::default() };
        assert_eq!(at(&container, &behavior, 14).kill_reason, None);
        assert_eq!(at(&container, &behavior, 14).next_change, Some(Time::from_seconds(15)));
        assert_eq!(at(&container, &behavior, 15).kill_reason.map(|reason| reason.cause), Some("liveness"));
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
        let plain = ContainerBehavior::default();
        assert_eq!(at(&container, &plain, 3).kill_reason, None);
        let end = at(&container, &plain, 4);
        assert_eq!(
            (end.started, end.ready, end.kill_reason.map(|reason| reason.cause)),
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
            assert_eq!(at(&container, &ContainerBehavior::default(), 0).ready, is_ready, "{words:?}");
        }
    }

    /// Reference implementation: the result at a time, computed from the start.
    fn evaluator(probe: &Probe, behavior: &ContainerBehavior, at: Duration) -> bool {
        let Some(exec) = &probe.exec else { return true };
        let timeline = &behavior.timeline;
        let succeeds = |files| {
            shell::evaluate(&exec.command, files, &behavior.env).exit.is_none_or(|(_, code)| code == 0)
        };
        let mut files = timeline.files_at(at);
        if succeeds(files.clone()) {
            return true;
        }
        // An unknown program may have created the files in the command, unless the script determines them.
        if timeline.exit.is_some() || timeline.repeated.is_some() {
            return false;
        }
        for word in exec.command.iter().flat_map(|words| words.split_whitespace()) {
            if timeline.files.iter().all(|(_, name, _)| name != word) {
                files.insert(word.to_owned(), String::new());
            }
        }
        succeeds(files)
    }

    /// Reference implementation: evaluates the probe in every period until nothing can change.
    fn step_by_step(
        probe: &Probe,
        behavior: &ContainerBehavior,
        begin: Duration,
        first: bool,
        holds: &dyn Fn(Duration) -> bool,
    ) -> ProbeHistory {
        let Ticks { begin, period } = ticks(probe, begin);
        let successes = probe.success_threshold.unwrap_or(1).max(1);
        let failures = probe.failure_threshold.unwrap_or(3).max(1);
        let overrides =
            [behavior.overrides.ready_after, behavior.overrides.unhealthy_after].into_iter().flatten();
        let files = behavior.timeline.files.iter().map(|(at, _, _)| *at);
        let last = overrides.chain(files).max().unwrap_or_default().max(begin);
        let end = last + period * u32::try_from(successes.max(failures) + 1).unwrap();
        let (mut tick, mut state, mut streak, mut same) = (begin, first, 0, None);
        let (mut state_changes, mut result_changes) = (Vec::new(), Vec::new());
        while tick <= end {
            let found = holds(tick) && evaluator(probe, behavior, tick);
            if found == same.is_some_and(|same: bool| !same) {
                result_changes.push((tick, !found));
            }
            streak = if same == Some(found) { streak + 1 } else { 1 };
            same = Some(found);
            let has_reached_threshold = streak >= if found { successes } else { failures };
            if has_reached_threshold && (state != found || state_changes.is_empty() && !found) {
                state = found;
                state_changes.push((tick, found));
            }
            tick += period;
        }
        ProbeHistory { first, result_changes, state_changes }
    }

    fn some_behavior() -> impl Strategy<Value = ContainerBehavior> {
        let point = || proptest::option::of((0_u64..40_000).prop_map(Duration::from_millis));
        let file = (0_u64..30_000, any::<bool>()).prop_map(|(at, is_made)| {
            (Duration::from_millis(at), "/tmp/x".to_owned(), is_made.then(String::new))
        });
        let files = proptest::collection::vec(file, 0..8);
        let end = proptest::option::of(Just((Duration::from_secs(60), 0)));
        (point(), point(), files, end).prop_map(|(ready_after, unhealthy_after, mut files, end)| {
            files.sort_by_key(|(at, _, _)| *at);
            let overrides =
                BehaviorOverrides { ready_after, unhealthy_after, ..BehaviorOverrides::default() };
            let mut behavior = ContainerBehavior { overrides, ..ContainerBehavior::default() };
            let timeline = timeline_of(&mut behavior);
            (timeline.exit, timeline.files) = (end, files);
            behavior
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
            behavior in some_behavior(),
            begin in 0_u64..5_000,
            first in any::<bool>(),
        ) {
            let overrides = &behavior.overrides;
            let holds = |at: Duration| {
                overrides.ready_after.is_none_or(|ready| at >= ready) && overrides.unhealthy_after.is_none_or(|end| at < end)
            };
            let begin = Duration::from_millis(begin);
            let found = ProbeHistory::compute(&probe, &behavior, begin, first, &holds);
            let expected = step_by_step(&probe, &behavior, begin, first, &holds);
            prop_assert_eq!(found.state_changes, expected.state_changes);
            prop_assert_eq!(found.result_changes, expected.result_changes);
        }
    }

    /// Probe that checks a file each second with an expensive command.
    fn slow_probe() -> Probe {
        let behavior = format!("for i in {}; do :; done; cat /tmp/f", "1 ".repeat(9_000));
        Probe {
            period_seconds: Some(1),
            failure_threshold: Some(1),
            exec: exec(&["sh", "-c", &behavior]),
            ..Probe::default()
        }
    }

    #[test]
    fn file_that_toggles_thousands_of_times_is_followed_to_the_end() {
        let turns = "sleep 1; touch /tmp/f; sleep 1; rm /tmp/f";
        let loops =
            |name: &str, change_times: usize| format!("for {name} in {}; do ", "1 ".repeat(change_times));
        let text = format!("{}{}{turns}; done; done", loops("a", 50), loops("b", 40));
        let words = ["sh".to_owned(), "-c".to_owned(), text];
        let timeline = shell::evaluate(&words, Default::default(), &Default::default());
        assert_eq!((timeline.files.len(), timeline.exit), (4_000, Some((Duration::from_secs(4_000), 0))));
        let behavior = ContainerBehavior { timeline: timeline.into(), ..ContainerBehavior::default() };
        let container = Container { readiness_probe: Some(slow_probe()), ..Container::default() };
        for (seconds, is_ready) in [(0, false), (1, true), (2, false), (3_998, false), (3_999, true)] {
            let found = at(&container, &behavior, seconds);
            assert_eq!(found.ready, is_ready, "{seconds}");
            assert_eq!(found.next_change, Some(Time::from_seconds(seconds + 1)), "{seconds}");
        }
    }

    #[test]
    fn evaluations_of_a_probe_with_ever_changing_files_are_bounded() {
        let mut behavior = ContainerBehavior::default();
        let file = |at: u64| (Duration::from_secs(at), "/tmp/f".to_owned(), Some(at.to_string()));
        timeline_of(&mut behavior).files = (1..5_000).map(file).collect();
        timeline_of(&mut behavior).files.push((Duration::from_secs(5_000), "/tmp/f".to_owned(), None));
        timeline_of(&mut behavior).exit = Some((Duration::from_secs(9_000), 0));
        let quick = Probe { exec: exec(&["cat", "/tmp/f"]), ..slow_probe() };
        // The budget of a pod is five times 9,000 commands.
        for (probe, most) in [(quick, EVALUATIONS_MAX), (slow_probe(), 6)] {
            let mut evaluator = ProbeEvaluator::new(&probe, &behavior);
            let found: Vec<bool> =
                (0..6_000).map(|at| evaluator.result_at(Duration::from_secs(at))).collect();
            assert!(!found[0] && found[1..].iter().all(|succeeds| *succeeds), "the last result holds");
            assert_eq!(evaluator.evaluations, most);
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
        let plain = ContainerBehavior::default();
        let last = i64::from(i32::MAX) - 1;
        assert_eq!(at(&container, &plain, last - 1).kill_reason, None);
        assert_eq!(at(&container, &plain, 0).next_change, Some(Time::from_seconds(last)));
        assert_eq!(at(&container, &plain, last).kill_reason.map(|reason| reason.cause), Some("startup"));
        for far in [Duration::from_secs(99_999_999_999), Duration::MAX] {
            let overrides = BehaviorOverrides {
                ready_after: Some(far),
                unhealthy_after: Some(far),
                ..BehaviorOverrides::default()
            };
            let mut behavior = ContainerBehavior { overrides, ..ContainerBehavior::default() };
            timeline_of(&mut behavior).files = vec![(far, "/tmp/x".to_owned(), None)];
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
                let found = at(&container, &behavior, 1_000_000_000);
                assert_eq!((found.started, found.ready, found.kill_reason), (true, false, None));
            }
        }
    }
}
