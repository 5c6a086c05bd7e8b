//! Probe results of a simulated container.
//!
//! The result of a known command ([`shell`](crate::behavior::shell)) depends on the files that the container's
//! script creates. Every other probe succeeds unless an override makes the container unready or unhealthy.

mod evaluator;

use std::time::Duration;

use setpoint_api::Time;

use self::evaluator::ProbeEvaluator;
use super::hook_result;
use crate::behavior::ContainerBehavior;
use crate::pod::{Container, Probe};
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
    let (probes_start, code) = hook.map(|hook| hook_result(hook, behavior)).unwrap_or_default();
    let startup = container.startup_probe.as_ref();
    let startup_history =
        startup.map(|probe| ProbeHistory::compute(probe, behavior, probes_start, false, &is_ready_at));
    let started_after =
        startup_history.as_ref().map_or(Some(probes_start), |history| history.first_change_to(true));
    let mut change_times: Vec<Duration> =
        startup_history.iter().flat_map(|history| history.change_times()).collect();
    change_times.push(probes_start);
    let grace_period = |probe: &Probe| probe.termination_grace_period_seconds.map(seconds_to_duration);
    let has_failed = code != 0 && probes_start <= age;
    let mut kill_reason = has_failed.then(|| KillReason {
        cause: POST_START,
        since: since.after(probes_start),
        grace_period: None,
    });
    if let (Some(probe), Some(at)) =
        (startup, startup_history.as_ref().and_then(|history| history.first_change_to(false)))
        && started_after.is_none_or(|started| started > at)
        && at <= age
    {
        kill_reason = kill_reason.or(Some(KillReason {
            cause: "startup",
            since: since.after(at),
            grace_period: grace_period(probe),
        }));
    }
    let mut unready_since = None;
    let mut ready = started_after.is_some_and(|started| started.max(ready_after) <= age);
    change_times.push(ready_after);
    if let (Some(probe), Some(probes_start)) = (&container.readiness_probe, started_after) {
        let history = ProbeHistory::compute(probe, behavior, probes_start, false, &|at| {
            is_ready_at(at) && is_healthy_at(at)
        });
        change_times.extend(history.change_times());
        change_times.extend(history.result_changes.iter().map(|(at, _)| *at));
        ready = history.state_at(age);
        unready_since = history.failing_since(age).map(|at| since.after(at));
    }
    if let (Some(probe), Some(probes_start)) = (&container.liveness_probe, started_after) {
        let history = ProbeHistory::compute(probe, behavior, probes_start, true, &is_healthy_at);
        change_times.extend(history.first_change_to(false));
        if let Some(at) = history.first_change_to(false).filter(|at| *at <= age) {
            kill_reason = kill_reason.or(Some(KillReason {
                cause: "liveness",
                since: since.after(at),
                grace_period: grace_period(probe),
            }));
        }
    }
    let next = change_times.into_iter().filter(|at| *at > age).min();
    let started = started_after.is_some_and(|started| started <= age);
    let next_change = next.map(|at| since.after(at));
    ProbeResults { started, ready: ready && started, unready_since, kill_reason, next_change }
}

/// Results of a probe over time, as durations since the start of the container.
struct ProbeHistory {
    /// State before the first transition.
    initial: bool,
    /// Transitions of single probe results: `true` for the start of failures.
    result_changes: Vec<(Duration, bool)>,
    /// Transitions of the probe state, after success and failure thresholds.
    state_changes: Vec<(Duration, bool)>,
}

impl ProbeHistory {
    /// Computes all results. A result changes only at an event in the container, so the probe is evaluated
    /// once between two such events; thresholds are arithmetic.
    fn compute(
        probe: &Probe,
        behavior: &ContainerBehavior,
        probes_start: Duration,
        initial: bool,
        succeeds: &dyn Fn(Duration) -> bool,
    ) -> ProbeHistory {
        let ticks = ticks(probe, probes_start);
        let threshold = |number: Option<i64>, otherwise| {
            number.map_or(otherwise, |number| u128::try_from(number).unwrap_or(0).max(1))
        };
        let successes = threshold(probe.success_threshold, 1);
        let failures = threshold(probe.failure_threshold, 3);
        let change_points = change_points(probe, behavior, ticks.begin);
        let (mut state, mut streak, mut last_result) = (initial, 0_u128, None);
        let (mut state_changes, mut result_changes) = (Vec::new(), Vec::new());
        let mut evaluator = ProbeEvaluator::new(probe, behavior);
        for (at, point) in change_points.iter().enumerate() {
            let tick = ticks.next_index(*point);
            let next = change_points.get(at + 1).map(|next| ticks.next_index(*next));
            // No probe is due between these two events.
            if next == Some(tick) {
                continue;
            }
            let Some(probed_at) = ticks.time_of(tick) else { break };
            let result = succeeds(probed_at) && evaluator.result_at(probed_at);
            if result == last_result.is_some_and(|last_result: bool| !last_result) {
                result_changes.push((probed_at, !result));
            }
            if last_result.replace(result) != Some(result) {
                streak = 0;
            }
            let missing = if result { successes } else { failures }.saturating_sub(streak).max(1);
            let threshold_index = tick.saturating_add(missing - 1);
            // Failures count from the start: a startup probe that never succeeds must end.
            if (state != result || state_changes.is_empty() && !result)
                && next.is_none_or(|next| threshold_index < next)
                && let Some(at) = ticks.time_of(threshold_index)
            {
                state = result;
                state_changes.push((at, result));
            }
            streak = streak.saturating_add(next.map_or(0, |next| next - tick));
        }
        ProbeHistory { initial, result_changes, state_changes }
    }

    /// Returns the time since which the probe fails.
    fn failing_since(&self, age: Duration) -> Option<Duration> {
        let last = self.result_changes.iter().rev().find(|(at, _)| *at <= age)?;
        last.1.then_some(last.0)
    }

    fn first_change_to(&self, state: bool) -> Option<Duration> {
        self.state_changes.iter().find(|(_, result)| *result == state).map(|(at, _)| *at)
    }

    fn state_at(&self, age: Duration) -> bool {
        self.state_changes.iter().rev().find(|(at, _)| *at <= age).map_or(self.initial, |(_, result)| *result)
    }

    fn change_times(&self) -> impl Iterator<Item = Duration> {
        self.state_changes.iter().map(|(at, _)| *at)
    }
}

/// Returns the times of a probe.
fn ticks(probe: &Probe, probes_start: Duration) -> Ticks {
    let period = seconds_to_duration(probe.period_seconds.unwrap_or(10)).max(Duration::from_secs(1));
    Ticks { begin: probes_start.max(seconds_to_duration(probe.initial_delay_seconds)), period }
}

/// Returns the start, and the times at which the result of a probe can change: when the container becomes
/// ready or unhealthy and, for exec probes, when one of its files changes.
fn change_points(probe: &Probe, behavior: &ContainerBehavior, probes_start: Duration) -> Vec<Duration> {
    let overrides =
        [behavior.overrides.ready_after, behavior.overrides.unhealthy_after].into_iter().flatten();
    let files = behavior.timeline.files.iter().filter(|_| probe.exec.is_some()).map(|(at, _, _)| *at);
    let mut change_points = vec![probes_start];
    change_points.extend(overrides.chain(files).filter(|at| *at > probes_start));
    change_points.sort_unstable();
    change_points.dedup();
    change_points
}

#[cfg(test)]
mod tests;
