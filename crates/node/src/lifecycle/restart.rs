//! Restart policy and crash-loop back-off.
//!
//! The back-off doubles from 10 s to 5 minutes. It is derived from the status, so no state is kept: the last
//! back-off is the time between the end of the previous run and the start of the last.

use std::time::Duration;

use setpoint_api::Time;

use crate::pod::{Container, PodSpec};
use crate::runtime::ContainerRun;

/// Initial back-off, after the second termination.
pub const BACK_OFF_MIN: Duration = Duration::from_secs(10);
/// Maximum back-off.
pub const BACK_OFF_MAX: Duration = Duration::from_secs(300);
/// Run time after which the back-off is reset.
pub const BACK_OFF_RESET_AFTER: Duration = Duration::from_secs(600);

/// Maximum clock skew between nodes and the control plane.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(60);

/// `true` if a container that exited with `code` restarts.
#[must_use]
pub fn should_restart(container: &Container, spec: &PodSpec, code: i64) -> bool {
    if let Some(policy) = &container.restart_policy {
        let matches = |rule: &crate::pod::ContainerRestartRule| {
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
        return policy_restarts(policy, code);
    }
    policy_restarts(&spec.restart_policy, code)
}

fn policy_restarts(policy: &str, code: i64) -> bool {
    match policy {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => true,
    }
}

/// Returns the back-off after a run.
#[must_use]
pub fn back_off(run: &ContainerRun) -> Duration {
    if let Some(decided) = run.back_off {
        return decided;
    }
    let Some(end) = &run.termination else { return Duration::ZERO };
    let Some(last) =
        run.last_termination.as_ref().and_then(|last| last.finished_at).filter(|_| run.restart_count > 0)
    else {
        return Duration::ZERO;
    };
    let ran = end.finished_at.unwrap_or(run.started_at).since(run.started_at);
    if ran > BACK_OFF_RESET_AFTER {
        return Duration::ZERO;
    }
    let waited = run.started_at.since(last);
    // Times are reported in whole seconds, so a back-off may look one second too short.
    let mut next = BACK_OFF_MIN;
    while next <= waited + Duration::from_secs(1) && next < BACK_OFF_MAX {
        next = (next * 2).min(BACK_OFF_MAX);
    }
    // Downtime of the node is not back-off: the number of doublings is bounded by the number of restarts.
    let doublings = u32::try_from(run.restart_count - 1).unwrap_or(0).min(10);
    next.min((BACK_OFF_MIN * (1 << doublings)).min(BACK_OFF_MAX))
}

/// Returns the restart time after a run. A run that ended in the future ended before the clock was set back:
/// its age is unknown, so it restarts at once.
#[must_use]
pub fn restart_time(run: &ContainerRun, now: Time) -> Option<Time> {
    let end = run.termination.as_ref()?.finished_at.unwrap_or(run.started_at);
    Some(if end > now.after(CLOCK_SKEW_MAX) { now } else { end.after(back_off(run)) })
}

/// Returns the message of `CrashLoopBackOff`.
#[must_use]
pub fn back_off_message(wait: Duration, container: &str, pod: &str) -> String {
    format!("back-off {} restarting failed container={container} pod={pod}", format_duration(wait))
}

/// Parses the back-off out of such a message.
#[must_use]
pub fn parse_back_off(message: &str) -> Option<Duration> {
    let text = message.strip_prefix("back-off ")?.split(' ').next()?.strip_suffix('s')?;
    let (minutes, seconds) = text.split_once('m').unwrap_or(("0", text));
    Some(Duration::from_secs(minutes.parse::<u64>().ok()? * 60 + seconds.parse::<u64>().ok()?))
}

/// Formats a duration as Go does: `1m20s`, `1.5s`, `250ms`.
#[must_use]
pub fn format_duration(time: Duration) -> String {
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
    use crate::pod::ContainerStateTerminated;

    fn container(policy: Option<&str>) -> Container {
        Container { restart_policy: policy.map(str::to_owned), ..Container::default() }
    }

    fn ended(started: i64, finished: i64) -> ContainerStateTerminated {
        ContainerStateTerminated {
            started_at: Some(Time::from_seconds(started)),
            finished_at: Some(Time::from_seconds(finished)),
            ..ContainerStateTerminated::default()
        }
    }

    #[test]
    fn restart_follows_rules_then_container_policy_then_pod_policy() {
        let spec = |policy: &str| PodSpec { restart_policy: policy.to_owned(), ..PodSpec::default() };
        assert!(should_restart(&container(None), &spec("Always"), 0));
        assert!(!should_restart(&container(None), &spec("Never"), 1));
        assert!(should_restart(&container(None), &spec("OnFailure"), 1));
        assert!(!should_restart(&container(None), &spec("OnFailure"), 0));
        assert!(should_restart(&container(Some("Always")), &spec("Never"), 0));
        let mut ruled = container(Some("Never"));
        let codes = crate::pod::RestartExitCodes { operator: "In".to_owned(), values: vec![42] };
        ruled.restart_policy_rules =
            vec![crate::pod::ContainerRestartRule { action: "Restart".to_owned(), exit_codes: Some(codes) }];
        assert!(should_restart(&ruled, &spec("Never"), 42) && !should_restart(&ruled, &spec("Always"), 1));
    }

    #[test]
    fn back_off_doubles_from_ten_seconds_to_five_minutes_and_resets() {
        let (mut now, mut last, mut waits) = (0, None, Vec::new());
        for restart_count in 0..9 {
            let end = ended(now, now + 1);
            let run = ContainerRun {
                restart_count,
                container_id: String::new(),
                image: String::new(),
                started_at: Time::from_seconds(now),
                termination: Some(end.clone()),
                last_termination: last.replace(end),
                back_off: None,
            };
            let wait = back_off(&run).as_secs() as i64;
            waits.push(wait);
            now += 1 + wait;
        }
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300, 300]);
        let run = ContainerRun {
            restart_count: 9,
            container_id: String::new(),
            image: String::new(),
            started_at: Time::from_seconds(now),
            termination: Some(ended(now, now + 601)),
            last_termination: last,
            back_off: None,
        };
        assert_eq!(back_off(&run), Duration::ZERO);
    }

    #[test]
    fn run_that_ended_in_the_future_is_restarted_at_once() {
        let run = ContainerRun {
            restart_count: 1,
            container_id: String::new(),
            image: String::new(),
            started_at: Time::from_seconds(10_000),
            termination: Some(ended(10_000, 10_001)),
            last_termination: Some(ended(9_980, 9_990)),
            back_off: None,
        };
        let at = |now| restart_time(&run, Time::from_seconds(now));
        assert_eq!(at(10_002), Some(Time::from_seconds(10_011)));
        assert_eq!(at(9_990), Some(Time::from_seconds(10_011)), "clock skew is tolerated");
        assert_eq!(at(6_400), Some(Time::from_seconds(6_400)), "the clock was set back by an hour");
    }

    #[test]
    fn node_downtime_is_not_back_off() {
        let run = ContainerRun {
            restart_count: 1,
            container_id: String::new(),
            image: String::new(),
            started_at: Time::from_seconds(10_000),
            termination: Some(ended(10_000, 10_001)),
            last_termination: Some(ended(0, 1)),
            back_off: None,
        };
        assert_eq!(back_off(&run), BACK_OFF_MIN);
        assert_eq!(
            (format_duration(BACK_OFF_MIN).as_str(), format_duration(Duration::from_secs(160)).as_str()),
            ("10s", "2m40s")
        );
        let format_duration = |millis| format_duration(Duration::from_millis(millis));
        assert_eq!(
            [0, 250, 1_500, 95_000, 300_000, 3_600_000].map(format_duration),
            ["0s", "250ms", "1.5s", "1m35s", "5m0s", "1h0m0s"]
        );
        for seconds in [0, 10, 20, 80, 300] {
            let wait = Duration::from_secs(seconds);
            assert_eq!(parse_back_off(&back_off_message(wait, "c", "p_ns(u)")), Some(wait));
        }
        assert_eq!(parse_back_off("waiting"), None);
    }
}
