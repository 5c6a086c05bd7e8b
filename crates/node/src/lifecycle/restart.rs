//! Restart policy and crash-loop back-off.
//!
//! The back-off doubles from 10 s to 5 minutes. It is derived from the status, so no state is kept: the last
//! back-off is the time between the end of the previous run and the start of the last.

use std::time::Duration;

use setpoint_api::Time;

use crate::pod::{Container, Spec};
use crate::runtime::Run;

/// Initial back-off, after the second termination.
pub const WAIT_MIN: Duration = Duration::from_secs(10);
/// Maximum back-off.
pub const WAIT_MAX: Duration = Duration::from_secs(300);
/// Run time after which the back-off is reset.
pub const FORGIVEN: Duration = Duration::from_secs(600);

/// Maximum clock skew between nodes and the control plane.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(60);

/// `true` if a container that exited with `code` restarts.
#[must_use]
pub fn is_due(container: &Container, spec: &Spec, code: i64) -> bool {
    if let Some(policy) = &container.restart_policy {
        let matches = |rule: &crate::pod::RestartRule| {
            rule.exit_codes.as_ref().is_some_and(|codes| match codes.operator.as_str() {
                "In" => codes.values.contains(&code),
                "NotIn" => !codes.values.contains(&code),
                _ => false,
            })
        };
        let rule = container.restart_policy_rules.iter().find(|rule| matches(rule));
        if rule.is_some_and(|rule| rule.action == "Restart") {
            return true;
        }
        return follows(policy, code);
    }
    follows(&spec.restart_policy, code)
}

fn follows(policy: &str, code: i64) -> bool {
    match policy {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => true,
    }
}

/// Returns the back-off after a run.
#[must_use]
pub fn wait(run: &Run) -> Duration {
    if let Some(decided) = run.wait {
        return decided;
    }
    let Some(end) = &run.end else { return Duration::ZERO };
    let Some(last) = run.last.as_ref().and_then(|last| last.finished_at).filter(|_| run.restarts > 0) else {
        return Duration::ZERO;
    };
    let ran = end.finished_at.unwrap_or(run.started).since(run.started);
    if ran > FORGIVEN {
        return Duration::ZERO;
    }
    let waited = run.started.since(last);
    // Times are reported in whole seconds, so a back-off may look one second too short.
    let mut next = WAIT_MIN;
    while next <= waited + Duration::from_secs(1) && next < WAIT_MAX {
        next = (next * 2).min(WAIT_MAX);
    }
    // Downtime of the node is not back-off: the number of doublings is bounded by the number of restarts.
    let doublings = u32::try_from(run.restarts - 1).unwrap_or(0).min(10);
    next.min((WAIT_MIN * (1 << doublings)).min(WAIT_MAX))
}

/// Returns the restart time after a run. A run that ended in the future ended before the clock was set back:
/// its age is unknown, so it restarts at once.
#[must_use]
pub fn at(run: &Run, now: Time) -> Option<Time> {
    let end = run.end.as_ref()?.finished_at.unwrap_or(run.started);
    Some(if end > now.after(CLOCK_SKEW_MAX) { now } else { end.after(wait(run)) })
}

/// Returns the message of `CrashLoopBackOff`.
#[must_use]
pub fn message(wait: Duration, container: &str, pod: &str) -> String {
    format!("back-off {} restarting failed container={container} pod={pod}", shown(wait))
}

/// Parses the back-off out of such a message.
#[must_use]
pub fn told(message: &str) -> Option<Duration> {
    let text = message.strip_prefix("back-off ")?.split(' ').next()?.strip_suffix('s')?;
    let (minutes, seconds) = text.split_once('m').unwrap_or(("0", text));
    Some(Duration::from_secs(minutes.parse::<u64>().ok()? * 60 + seconds.parse::<u64>().ok()?))
}

/// Formats a duration as Go does: `1m20s`, `1.5s`, `250ms`.
#[must_use]
pub fn shown(time: Duration) -> String {
    let (all, millis) = (time.as_secs(), time.subsec_millis());
    if all == 0 && millis > 0 {
        return format!("{millis}ms");
    }
    let part = format!(".{millis:03}");
    let part = if millis == 0 { "" } else { part.trim_end_matches('0') };
    match (all / 3600, all / 60 % 60, all % 60) {
        (0, 0, seconds) => format!("{seconds}{part}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}{part}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}{part}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::Terminated;

    fn container(policy: Option<&str>) -> Container {
        Container { restart_policy: policy.map(str::to_owned), ..Container::default() }
    }

    fn ended(started: i64, finished: i64) -> Terminated {
        Terminated {
            started_at: Some(Time::from_seconds(started)),
            finished_at: Some(Time::from_seconds(finished)),
            ..Terminated::default()
        }
    }

    #[test]
    fn restart_follows_rules_then_container_policy_then_pod_policy() {
        let spec = |policy: &str| Spec { restart_policy: policy.to_owned(), ..Spec::default() };
        assert!(is_due(&container(None), &spec("Always"), 0));
        assert!(!is_due(&container(None), &spec("Never"), 1));
        assert!(is_due(&container(None), &spec("OnFailure"), 1));
        assert!(!is_due(&container(None), &spec("OnFailure"), 0));
        assert!(is_due(&container(Some("Always")), &spec("Never"), 0));
        let mut ruled = container(Some("Never"));
        let codes = crate::pod::ExitCodes { operator: "In".to_owned(), values: vec![42] };
        ruled.restart_policy_rules =
            vec![crate::pod::RestartRule { action: "Restart".to_owned(), exit_codes: Some(codes) }];
        assert!(is_due(&ruled, &spec("Never"), 42) && !is_due(&ruled, &spec("Always"), 1));
    }

    #[test]
    fn back_off_doubles_from_ten_seconds_to_five_minutes_and_resets() {
        let (mut now, mut last, mut waits) = (0, None, Vec::new());
        for restarts in 0..9 {
            let end = ended(now, now + 1);
            let run = Run {
                restarts,
                id: String::new(),
                image: String::new(),
                started: Time::from_seconds(now),
                end: Some(end.clone()),
                last: last.replace(end),
                wait: None,
            };
            let wait = wait(&run).as_secs() as i64;
            waits.push(wait);
            now += 1 + wait;
        }
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300, 300]);
        let run = Run {
            restarts: 9,
            id: String::new(),
            image: String::new(),
            started: Time::from_seconds(now),
            end: Some(ended(now, now + 601)),
            last,
            wait: None,
        };
        assert_eq!(wait(&run), Duration::ZERO);
    }

    #[test]
    fn run_that_ended_in_the_future_is_restarted_at_once() {
        let run = Run {
            restarts: 1,
            id: String::new(),
            image: String::new(),
            started: Time::from_seconds(10_000),
            end: Some(ended(10_000, 10_001)),
            last: Some(ended(9_980, 9_990)),
            wait: None,
        };
        let at = |now| at(&run, Time::from_seconds(now));
        assert_eq!(at(10_002), Some(Time::from_seconds(10_011)));
        assert_eq!(at(9_990), Some(Time::from_seconds(10_011)), "clock skew is tolerated");
        assert_eq!(at(6_400), Some(Time::from_seconds(6_400)), "the clock was set back by an hour");
    }

    #[test]
    fn node_downtime_is_not_back_off() {
        let run = Run {
            restarts: 1,
            id: String::new(),
            image: String::new(),
            started: Time::from_seconds(10_000),
            end: Some(ended(10_000, 10_001)),
            last: Some(ended(0, 1)),
            wait: None,
        };
        assert_eq!(wait(&run), WAIT_MIN);
        assert_eq!((shown(WAIT_MIN).as_str(), shown(Duration::from_secs(160)).as_str()), ("10s", "2m40s"));
        let shown = |millis| shown(Duration::from_millis(millis));
        assert_eq!(
            [0, 250, 1_500, 95_000, 300_000, 3_600_000].map(shown),
            ["0s", "250ms", "1.5s", "1m35s", "5m0s", "1h0m0s"]
        );
        for seconds in [0, 10, 20, 80, 300] {
            let wait = Duration::from_secs(seconds);
            assert_eq!(told(&message(wait, "c", "p_ns(u)")), Some(wait));
        }
        assert_eq!(told("waiting"), None);
    }
}
