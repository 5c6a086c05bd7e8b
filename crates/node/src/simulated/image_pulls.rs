//! Image pulls of a simulated node.
//!
//! The attempts of a failing pull are a function of the time at which the image was first needed. The
//! back-off is 10 s and doubles up to 5 minutes.

use std::time::Duration;

use setpoint_api::Time;

use super::NodeState;
use crate::behavior::BehaviorOverrides;
use crate::images::{UnpullableReason, unpullable_reason};
use crate::lifecycle::restart::{BACK_OFF_MAX, BACK_OFF_MIN};
use crate::pod::Container;
use crate::runtime::ImageState;

/// Interval at which a node checks again for an image that it must not pull.
const IMAGE_CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Duration of `ErrImagePull` before `ImagePullBackOff`.
const PULL_ERROR_DURATION: Duration = Duration::from_secs(2);

/// Returns the state of a container's image.
#[must_use]
pub fn image_state(
    container: &Container,
    overrides: &BehaviorOverrides,
    node: &NodeState<'_>,
    needed_since: Time,
    now: Time,
) -> ImageState {
    let name = &container.image;
    let unpullable = unpullable_reason(name);
    if unpullable == Some(UnpullableReason::Invalid) {
        let error = format!("couldn't parse image name {name:?}: invalid reference format");
        let message = format!("Failed to apply default image tag {name:?}: {error}");
        return ImageState::Failed { reason: "InvalidImageName", message, error, until: None };
    }
    if overrides.image_present == Some(true) && container.image_pull_policy != "Always" {
        return ImageState::Present { pull_duration: None };
    }
    let error = overrides.pull_fails.clone().or_else(|| {
        let cause = match unpullable? {
            UnpullableReason::NoSuchHost(host) => format!("lookup {host}: no such host"),
            UnpullableReason::NotFound | UnpullableReason::Invalid => format!("{name}: not found"),
        };
        Some(format!("failed to resolve reference {name:?}: {cause}"))
    });
    let pull_duration = overrides.pull_takes.unwrap_or_default();
    let is_present = container.image_pull_policy != "Always"
        && overrides.image_present != Some(false)
        && (node.has_image)(name);
    if container.image_pull_policy == "Never" && !(is_present && error.is_none()) {
        let message = format!("Container image {name:?} is not present with pull policy of Never");
        let error = error.unwrap_or_default();
        let until = Some(now.after(IMAGE_CHECK_INTERVAL));
        return ImageState::Failed { reason: "ErrImageNeverPull", message, error, until };
    }
    let Some(error) = error else {
        let pulled_at = needed_since.after(pull_duration);
        return match (is_present, pulled_at > now) {
            (true, _) => ImageState::Present { pull_duration: None },
            (false, true) => ImageState::Pulling { since: needed_since, until: Some(pulled_at) },
            (false, false) => {
                ImageState::Present { pull_duration: Some(pull_duration.max(node.default_delay)) }
            }
        };
    };
    failing_pull(
        name,
        error,
        overrides.pull_recovers.map(|after| needed_since.after(after)),
        needed_since,
        pull_duration,
        now,
    )
}

/// Returns the state of the image of a container that restarts; the image was pulled before.
#[must_use]
pub fn image_state_on_restart(
    container: &Container,
    overrides: &BehaviorOverrides,
    needed_since: Time,
    now: Time,
) -> ImageState {
    if container.image_pull_policy != "Always" {
        return ImageState::Present { pull_duration: None };
    }
    let pull_duration = overrides.pull_takes.unwrap_or_default();
    match needed_since.after(pull_duration) {
        pulled_at if pulled_at > now => ImageState::Pulling { since: needed_since, until: Some(pulled_at) },
        _ => ImageState::Present { pull_duration: Some(pull_duration) },
    }
}

/// State of a failing pull; `recovers` is the time from which attempts succeed.
fn failing_pull(
    name: &str,
    error: String,
    recovers: Option<Time>,
    needed_since: Time,
    pull_duration: Duration,
    now: Time,
) -> ImageState {
    let (mut attempt_start, mut back_off) = (needed_since, BACK_OFF_MIN);
    loop {
        let attempt_end = attempt_start.after(pull_duration);
        let succeeds = recovers.is_some_and(|recovers| recovers <= attempt_start);
        if now < attempt_end {
            return ImageState::Pulling { since: attempt_start, until: Some(attempt_end) };
        }
        if succeeds {
            return ImageState::Present { pull_duration: Some(pull_duration) };
        }
        let next = attempt_end.after(back_off);
        if now < attempt_end.after(PULL_ERROR_DURATION) {
            let until = Some(attempt_end.after(PULL_ERROR_DURATION));
            return ImageState::Failed { reason: "ErrImagePull", message: error.clone(), error, until };
        }
        if now < next {
            let message = format!("Back-off pulling image {name:?}: ErrImagePull: {error}");
            return ImageState::Failed { reason: "ImagePullBackOff", message, error, until: Some(next) };
        }
        if back_off == BACK_OFF_MAX {
            // From here on the interval is constant: skip to the last attempt before now, or the first that
            // succeeds.
            let interval = pull_duration + back_off;
            let last = recovers.map_or(now, |recovers| recovers.min(now));
            let intervals = last.since(attempt_start).as_micros() / interval.as_micros().max(1);
            let skipped = u32::try_from(intervals).unwrap_or(u32::MAX).max(1);
            attempt_start = attempt_start.after(interval.saturating_mul(skipped));
        } else {
            attempt_start = next;
        }
        back_off = (back_off * 2).min(BACK_OFF_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state_at(container: &Container, overrides: &BehaviorOverrides, seconds: i64) -> String {
        let none = |_: &str| false;
        let (boot_time, last_write, default_delay) = (Time::EPOCH, Time::EPOCH, Duration::from_secs(1));
        let node = NodeState {
            rules: &[],
            cache: &crate::behavior::script_cache::ScriptCache::default(),
            boot_time,
            last_write,
            default_delay,
            has_image: &none,
        };
        match image_state(container, overrides, &node, Time::EPOCH, Time::from_seconds(seconds)) {
            ImageState::Present { .. } => "Present".to_owned(),
            ImageState::Pulling { .. } => "Pulling".to_owned(),
            ImageState::Failed { reason, until, .. } => {
                assert!(
                    until.is_none_or(|until| until > Time::from_seconds(seconds)),
                    "requeue time is in the past"
                );
                reason.to_owned()
            }
        }
    }

    fn of(image: &str) -> Container {
        Container { image: image.to_owned(), ..Container::default() }
    }

    #[test]
    fn impossible_image_is_retried_with_back_off() {
        let (bad, overrides) = (of("registry.invalid/x"), BehaviorOverrides::default());
        let shown: Vec<String> =
            [0, 3, 10, 13, 29, 30, 33].iter().map(|at| state_at(&bad, &overrides, *at)).collect();
        let (err, off) = ("ErrImagePull", "ImagePullBackOff");
        assert_eq!(shown, [err, off, err, off, off, err, off]);
        let tries = (0..86_400).filter(|at| state_at(&bad, &overrides, *at) == err).count();
        assert_eq!(tries / 2, 6 + (86_400 - 310) / 300, "the back-off ends at five minutes");
        assert_eq!(state_at(&of("Not An Image"), &overrides, 5), "InvalidImageName");
    }

    #[test]
    fn pull_policy_never_requires_the_image_on_the_node() {
        let never = Container { image_pull_policy: "Never".to_owned(), ..of("x") };
        assert_eq!(state_at(&never, &BehaviorOverrides::default(), 5), "ErrImageNeverPull");
        let present = BehaviorOverrides { image_present: Some(true), ..BehaviorOverrides::default() };
        assert_eq!(state_at(&never, &present, 0), "Present");
        let gone = Container { image_pull_policy: "Never".to_owned(), ..of("does-not-exist") };
        assert_eq!(state_at(&gone, &BehaviorOverrides::default(), 5), "ErrImageNeverPull");
    }

    #[test]
    fn pull_takes_its_configured_time_and_may_recover() {
        let slow =
            BehaviorOverrides { pull_takes: Some(Duration::from_secs(5)), ..BehaviorOverrides::default() };
        assert_eq!(
            (state_at(&of("x"), &slow, 4), state_at(&of("x"), &slow, 5)),
            ("Pulling".into(), "Present".into())
        );
        let flaky = BehaviorOverrides {
            pull_fails: Some("no route".to_owned()),
            pull_recovers: Some(Duration::from_secs(20)),
            ..BehaviorOverrides::default()
        };
        assert_eq!(state_at(&of("x"), &flaky, 20), "ImagePullBackOff");
        assert_eq!(state_at(&of("x"), &flaky, 30), "Present");
        assert_eq!(state_at(&of("x"), &flaky, 1_000_000), "Present", "and stays so");
    }
}
