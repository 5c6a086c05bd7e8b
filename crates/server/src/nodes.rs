//! Container logs: options, formatting and following of `pods/log`.
//!
//! [`LogSource`] supplies the lines; [`LogOptions`] selects them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use setpoint_api::rfc3339::{self, Nanos};
use setpoint_api::status::Status;
use setpoint_api::{Clock, Key, Time};
use setpoint_reconcile::Object;
use setpoint_runtime::objects;
use setpoint_store::Store;
use tokio::time::{Sleep, sleep};

use crate::exchange::Frames;
use crate::query::QueryParams;

/// Interval at which a follower checks if the container still runs.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Log of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogResponse {
    /// Lines with their times.
    pub lines: Vec<(Time, String)>,
    /// Number of older lines that are no longer kept.
    pub dropped: usize,
    /// `true` if the container still runs.
    pub is_running: bool,
    /// Time of the next line, if it is known.
    pub next: Option<Time>,
}

/// Source of container logs.
pub trait LogSource: Send + Sync {
    /// Log of a container, of its current or previous run.
    ///
    /// # Errors
    /// If the container has not run, or its node is unreachable.
    fn container_log(
        &self,
        pod: &Object,
        container: &str,
        previous: bool,
        now: Time,
    ) -> Result<LogResponse, Status>;
}

/// Options of a log request.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogOptions {
    /// Name of the container.
    pub container: String,
    /// `true` for the previous run.
    pub previous: bool,
    /// `true` to stream new lines.
    pub follow: bool,
    timestamps: bool,
    since: Option<Time>,
    tail: Option<usize>,
    limit: Option<usize>,
}

impl LogOptions {
    /// Parses the options of a request.
    ///
    /// # Errors
    /// If a number or a time is malformed.
    pub fn parse(query: &QueryParams, container: &str, now: Time) -> Result<LogOptions, Status> {
        let number = |name: &str| query.number(name).map_err(|error| Status::bad_request(error.to_string()));
        let size =
            |name: &str| Ok::<_, Status>(number(name)?.map(|number| usize::try_from(number).unwrap_or(0)));
        let flag = |name: &str| query.flag(name) == Some(true);
        let since_seconds_ago = number("sinceSeconds")?
            .map(|seconds| now.before(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))));
        let since = match query.get("sinceTime") {
            "" => since_seconds_ago,
            text => Some(rfc3339::parse(text).map_err(|error| Status::bad_request(error.to_string()))?),
        };
        Ok(LogOptions {
            container: container.to_owned(),
            previous: flag("previous"),
            follow: flag("follow"),
            timestamps: flag("timestamps"),
            since,
            tail: size("tailLines")?,
            limit: size("limitBytes")?,
        })
    }

    /// Formats the selected lines after the first `skipped` ones.
    #[must_use]
    pub fn text(&self, log: &LogResponse, skipped: usize) -> String {
        let since = |(at, _): &&(Time, String)| self.since.is_none_or(|since| *at >= since);
        let skipped_here = skipped.saturating_sub(log.dropped);
        let lines: Vec<&(Time, String)> = log.lines.iter().skip(skipped_here).filter(since).collect();
        let tail = self.tail.filter(|_| skipped == 0).unwrap_or(usize::MAX);
        let mut text = String::new();
        for (at, line) in &lines[lines.len().saturating_sub(tail)..] {
            if self.timestamps {
                text.push_str(&Nanos(*at).to_string());
                text.push(' ');
            }
            text.push_str(line);
            text.push('\n');
        }
        if let Some(limit) = self.limit {
            let mut end = limit.min(text.len());
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
        }
        text
    }
}

/// A log stream that ends with its container or pod.
pub(crate) struct LogFollower {
    store: Store,
    key: Key,
    source: Arc<dyn LogSource>,
    clock: Arc<dyn Clock>,
    options: LogOptions,
    sent_lines: usize,
    pause: Option<Pin<Box<Sleep>>>,
    ended: bool,
}

impl LogFollower {
    /// Follows the log of a container of the pod `key`.
    #[must_use]
    pub fn new(
        store: Store,
        key: Key,
        source: Arc<dyn LogSource>,
        clock: Arc<dyn Clock>,
        options: LogOptions,
    ) -> LogFollower {
        LogFollower { store, key, source, clock, options, sent_lines: 0, pause: None, ended: false }
    }

    fn container_log(&self) -> Option<LogResponse> {
        let snapshot = self.store.snapshot();
        let pod = objects::object(self.key.clone(), snapshot.get(&self.key)?)?;
        self.source.container_log(&pod, &self.options.container, self.options.previous, self.clock.now()).ok()
    }
}

impl Frames for LogFollower {
    #[expect(clippy::disallowed_methods, reason = "a followed log is polled in real time")]
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(pause) = &mut self.pause {
                if pause.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.pause = None;
            }
            if self.ended {
                return Poll::Ready(None);
            }
            // A log with fewer lines than were sent belongs to another run.
            let Some(log) =
                self.container_log().filter(|log| log.dropped + log.lines.len() >= self.sent_lines)
            else {
                return Poll::Ready(None);
            };
            let text = self.options.text(&log, self.sent_lines);
            self.sent_lines = log.dropped + log.lines.len();
            self.ended = !log.is_running;
            if !text.is_empty() {
                return Poll::Ready(Some(text.into()));
            }
            let now = self.clock.now();
            let next = log.next.map_or(POLL_INTERVAL, |next| next.since(now).min(POLL_INTERVAL));
            self.pause = Some(Box::pin(sleep(next.max(Duration::from_millis(1)))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> LogResponse {
        let lines = ["one", "two", "three"].into_iter().zip(1..);
        let lines = lines.map(|(line, at)| (Time::from_seconds(at), line.to_owned()));
        LogResponse { lines: lines.collect(), dropped: 0, is_running: false, next: None }
    }

    fn text(query: &str) -> String {
        let options = LogOptions::parse(&QueryParams::parse(query), "c", Time::from_seconds(10)).unwrap();
        options.text(&log(), 0)
    }

    #[test]
    fn log_options_select_lines() {
        assert_eq!(text(""), "one\ntwo\nthree\n");
        assert_eq!(text("tailLines=1"), "three\n");
        assert_eq!(text("tailLines=0"), "");
        assert_eq!(text("sinceSeconds=8"), "two\nthree\n");
        assert_eq!(text("sinceTime=1970-01-01T00:00:03Z"), "three\n");
        assert_eq!(text("limitBytes=5"), "one\nt");
        assert_eq!(text("timestamps=true&tailLines=1"), "1970-01-01T00:00:03.000000000Z three\n");
        let options = LogOptions::default();
        let later = LogResponse { dropped: 7, ..log() };
        assert_eq!(
            options.text(&later, 9),
            "three\n",
            "nine lines were sent: seven dropped ones and two of these"
        );
        assert!(LogOptions::parse(&QueryParams::parse("tailLines=x"), "c", Time::EPOCH).is_err());
    }
}
