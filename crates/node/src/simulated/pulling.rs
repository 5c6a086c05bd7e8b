//! Image pulls of a simulated node.
//!
//! The attempts of a failing pull are a function of the time at which the image was first needed. The
//! back-off is 10 s and doubles up to 5 minutes.

use std::time::Duration;

use setpoint_api::Time;

use super::Host;
use crate::images::{Impossible, impossible};
use crate::lifecycle::restart::{WAIT_MAX, WAIT_MIN};
use crate::pod::Container;
use crate::rules::Said;
use crate::runtime::Image;

/// Interval at which a node checks again for an image that it must not pull.
const LOOKED_FOR: Duration = Duration::from_secs(60);
/// Duration of `ErrImagePull` before `ImagePullBackOff`.
const SHOWN: Duration = Duration::from_secs(2);

/// Returns the state of a container's image that is needed since `wanted`.
#[must_use]
pub fn image(container: &Container, said: &Said, host: &Host<'_>, wanted: Time, now: Time) -> Image {
    let name = &container.image;
    let nowhere = impossible(name);
    if nowhere == Some(Impossible::Invalid) {
        let error = format!("couldn't parse image name {name:?}: invalid reference format");
        let message = format!("Failed to apply default image tag {name:?}: {error}");
        return Image::Failed { reason: "InvalidImageName", message, error, until: None };
    }
    if said.image_present == Some(true) && container.image_pull_policy != "Always" {
        return Image::Present { took: None };
    }
    let fails = said.pull_fails.clone().or_else(|| {
        let why = match nowhere? {
            Impossible::NoSuchHost(host) => format!("lookup {host}: no such host"),
            Impossible::NotFound | Impossible::Invalid => format!("{name}: not found"),
        };
        Some(format!("failed to resolve reference {name:?}: {why}"))
    });
    let takes = said.pull_takes.unwrap_or_default();
    let is_there = container.image_pull_policy != "Always"
        && said.image_present != Some(false)
        && (host.has_image)(name);
    if container.image_pull_policy == "Never" && !(is_there && fails.is_none()) {
        let message = format!("Container image {name:?} is not present with pull policy of Never");
        let error = fails.unwrap_or_default();
        let until = Some(now.after(LOOKED_FOR));
        return Image::Failed { reason: "ErrImageNeverPull", message, error, until };
    }
    let Some(error) = fails else {
        let there = wanted.after(takes);
        return match (is_there, there > now) {
            (true, _) => Image::Present { took: None },
            (false, true) => Image::Pulling { since: wanted, until: Some(there) },
            (false, false) => Image::Present { took: Some(takes.max(host.pause)) },
        };
    };
    failing(name, error, said.pull_recovers.map(|after| wanted.after(after)), wanted, takes, now)
}

/// Returns the state of the image of a container that restarts; the image was pulled before.
#[must_use]
pub fn again(container: &Container, said: &Said, wanted: Time, now: Time) -> Image {
    if container.image_pull_policy != "Always" {
        return Image::Present { took: None };
    }
    let takes = said.pull_takes.unwrap_or_default();
    match wanted.after(takes) {
        there if there > now => Image::Pulling { since: wanted, until: Some(there) },
        _ => Image::Present { took: Some(takes) },
    }
}

/// State of a failing pull; `recovers` is the time from which attempts succeed.
fn failing(
    name: &str,
    error: String,
    recovers: Option<Time>,
    wanted: Time,
    takes: Duration,
    now: Time,
) -> Image {
    let (mut begins, mut wait) = (wanted, WAIT_MIN);
    loop {
        let ends = begins.after(takes);
        let works = recovers.is_some_and(|recovers| recovers <= begins);
        if now < ends {
            return Image::Pulling { since: begins, until: Some(ends) };
        }
        if works {
            return Image::Present { took: Some(takes) };
        }
        let next = ends.after(wait);
        if now < ends.after(SHOWN) {
            let until = Some(ends.after(SHOWN));
            return Image::Failed { reason: "ErrImagePull", message: error.clone(), error, until };
        }
        if now < next {
            let message = format!("Back-off pulling image {name:?}: ErrImagePull: {error}");
            return Image::Failed { reason: "ImagePullBackOff", message, error, until: Some(next) };
        }
        if wait == WAIT_MAX {
            // From here on the interval is constant: skip to the last attempt before now, or the first that
            // succeeds.
            let span = takes + wait;
            let last = recovers.map_or(now, |recovers| recovers.min(now));
            let whole = last.since(begins).as_micros() / span.as_micros().max(1);
            let skipped = u32::try_from(whole).unwrap_or(u32::MAX).max(1);
            begins = begins.after(span.saturating_mul(skipped));
        } else {
            begins = next;
        }
        wait = (wait * 2).min(WAIT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(container: &Container, said: &Said, seconds: i64) -> String {
        let none = |_: &str| false;
        let (booted, written, pause) = (Time::EPOCH, Time::EPOCH, Duration::from_secs(1));
        let host = Host {
            rules: &[],
            memo: &crate::rules::memo::ScriptMemo::default(),
            booted,
            written,
            pause,
            has_image: &none,
        };
        match image(container, said, &host, Time::EPOCH, Time::from_seconds(seconds)) {
            Image::Present { .. } => "Present".to_owned(),
            Image::Pulling { .. } => "Pulling".to_owned(),
            Image::Failed { reason, until, .. } => {
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
        let (bad, said) = (of("registry.invalid/x"), Said::default());
        let shown: Vec<String> = [0, 3, 10, 13, 29, 30, 33].iter().map(|at| seen(&bad, &said, *at)).collect();
        let (err, off) = ("ErrImagePull", "ImagePullBackOff");
        assert_eq!(shown, [err, off, err, off, off, err, off]);
        let tries = (0..86_400).filter(|at| seen(&bad, &said, *at) == err).count();
        assert_eq!(tries / 2, 6 + (86_400 - 310) / 300, "the back-off ends at five minutes");
        assert_eq!(seen(&of("Not An Image"), &said, 5), "InvalidImageName");
    }

    #[test]
    fn pull_policy_never_requires_the_image_on_the_node() {
        let never = Container { image_pull_policy: "Never".to_owned(), ..of("x") };
        assert_eq!(seen(&never, &Said::default(), 5), "ErrImageNeverPull");
        let present = Said { image_present: Some(true), ..Said::default() };
        assert_eq!(seen(&never, &present, 0), "Present");
        let gone = Container { image_pull_policy: "Never".to_owned(), ..of("does-not-exist") };
        assert_eq!(seen(&gone, &Said::default(), 5), "ErrImageNeverPull");
    }

    #[test]
    fn pull_takes_its_configured_time_and_may_recover() {
        let slow = Said { pull_takes: Some(Duration::from_secs(5)), ..Said::default() };
        assert_eq!(
            (seen(&of("x"), &slow, 4), seen(&of("x"), &slow, 5)),
            ("Pulling".into(), "Present".into())
        );
        let flaky = Said {
            pull_fails: Some("no route".to_owned()),
            pull_recovers: Some(Duration::from_secs(20)),
            ..Said::default()
        };
        assert_eq!(seen(&of("x"), &flaky, 20), "ImagePullBackOff");
        assert_eq!(seen(&of("x"), &flaky, 30), "Present");
        assert_eq!(seen(&of("x"), &flaky, 1_000_000), "Present", "and stays so");
    }
}
