//! Tests of probe results.

use proptest::prelude::*;

use super::evaluator::EVALUATIONS_MAX;
use super::*;
use crate::behavior::{BehaviorOverrides, shell};
use crate::pod::ExecAction;

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
    for (words, is_ready) in [(&["pg_isready"][..], true), (&["cat", "/tmp/up"], true), (&["false"], false)] {
        let probe = Probe { exec: exec(words), ..Probe::default() };
        let container = Container { readiness_probe: Some(probe), ..Container::default() };
        assert_eq!(at(&container, &ContainerBehavior::default(), 0).ready, is_ready, "{words:?}");
    }
}

/// Reference implementation: the result at a time, computed from the start.
fn expected_result(probe: &Probe, behavior: &ContainerBehavior, at: Duration) -> bool {
    let Some(exec) = &probe.exec else { return true };
    let timeline = &behavior.timeline;
    let succeeds =
        |files| shell::evaluate(&exec.command, files, &behavior.env).exit.is_none_or(|(_, code)| code == 0);
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
    initial: bool,
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
    let (mut tick, mut state, mut streak, mut last_result) = (begin, initial, 0, None);
    let (mut state_changes, mut result_changes) = (Vec::new(), Vec::new());
    while tick <= end {
        let found = holds(tick) && expected_result(probe, behavior, tick);
        if found == last_result.is_some_and(|last_result: bool| !last_result) {
            result_changes.push((tick, !found));
        }
        streak = if last_result == Some(found) { streak + 1 } else { 1 };
        last_result = Some(found);
        let has_reached_threshold = streak >= if found { successes } else { failures };
        if has_reached_threshold && (state != found || state_changes.is_empty() && !found) {
            state = found;
            state_changes.push((tick, found));
        }
        tick += period;
    }
    ProbeHistory { initial, result_changes, state_changes }
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
        let overrides = BehaviorOverrides { ready_after, unhealthy_after, ..BehaviorOverrides::default() };
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
        initial in any::<bool>(),
    ) {
        let overrides = &behavior.overrides;
        let holds = |at: Duration| {
            overrides.ready_after.is_none_or(|ready| at >= ready) && overrides.unhealthy_after.is_none_or(|end| at < end)
        };
        let begin = Duration::from_millis(begin);
        let found = ProbeHistory::compute(&probe, &behavior, begin, initial, &holds);
        let expected = step_by_step(&probe, &behavior, begin, initial, &holds);
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
    let loops = |name: &str, change_times: usize| format!("for {name} in {}; do ", "1 ".repeat(change_times));
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
        let found: Vec<bool> = (0..6_000).map(|at| evaluator.result_at(Duration::from_secs(at))).collect();
        assert!(!found[0] && found[1..].iter().all(|succeeds| *succeeds), "the last result holds");
        assert_eq!(evaluator.evaluations, most);
    }
}

#[test]
fn probe_results_in_the_far_future_are_computed_quickly() {
    let tolerant = Probe {
        period_seconds: Some(1),
        failure_threshold: Some(i64::from(i32::MAX)),
        exec: exec(&["false"]),
        ..Probe::default()
    };
    let container = Container { startup_probe: Some(tolerant), ..Container::default() };
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
