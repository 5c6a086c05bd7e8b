//! Who answers for nodes: what containers said.
//!
//! Which lines of a log are wanted is decided here; where they come from is behind [`LogSource`].

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
use crate::query::Query;

/// How often one who follows a log looks whether the container still runs.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// What a container has said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerLog {
    /// Its lines, and when it said them.
    pub lines: Vec<(Time, String)>,
    /// How many lines came before those, and are kept no longer.
    pub dropped: usize,
    /// Whether it may say more.
    pub is_running: bool,
    /// When the next line comes, if that is known.
    pub next: Option<Time>,
}

/// Answers for nodes that are simulated.
pub trait LogSource: Send + Sync {
    /// What a container of a pod has said, in its present run or the one before.
    ///
    /// # Errors
    /// If it has not run, or its node cannot be reached.
    fn container_log(
        &self,
        pod: &Object,
        container: &str,
        previous: bool,
        now: Time,
    ) -> Result<ContainerLog, Status>;
}

/// Which lines of a log are wanted.
#[derive(Clone, Debug, Default)]
pub struct LogOptions {
    /// Of which container.
    pub container: String,
    /// Whether of the run before the present one.
    pub previous: bool,
    /// Whether those too that are yet to come.
    pub follow: bool,
    timestamps: bool,
    since: Option<Time>,
    tail: Option<usize>,
    limit: Option<usize>,
}

impl LogOptions {
    /// Reads what is wanted.
    ///
    /// # Errors
    /// If a number or a time is none.
    pub fn parse(query: &Query, container: &str, now: Time) -> Result<LogOptions, Status> {
        let number = |name: &str| query.number(name).map_err(|error| Status::bad_request(error.to_string()));
        let size =
            |name: &str| Ok::<_, Status>(number(name)?.map(|number| usize::try_from(number).unwrap_or(0)));
        let flag = |name: &str| query.flag(name) == Some(true);
        let ago = number("sinceSeconds")?
            .map(|seconds| now.before(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))));
        let since = match query.get("sinceTime") {
            "" => ago,
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

    /// The lines that are wanted, but the first so many.
    #[must_use]
    pub fn text(&self, log: &ContainerLog, skipped: usize) -> String {
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

/// A log that is followed until its container ends or its pod goes.
pub struct LogFollower {
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
    /// Follows the log of a container of the pod at a key.
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

    fn container_log(&self) -> Option<ContainerLog> {
        let snapshot = self.store.snapshot();
        let pod = objects::object(self.key.clone(), snapshot.get(&self.key)?)?;
        self.source.container_log(&pod, &self.options.container, self.options.previous, self.clock.now()).ok()
    }
}

impl Frames for LogFollower {
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
            // A run that has said less than was told is another one.
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

    fn log() -> ContainerLog {
        let lines = ["one", "two", "three"].into_iter().zip(1..);
        let lines = lines.map(|(line, at)| (Time::from_seconds(at), line.to_owned()));
        ContainerLog { lines: lines.collect(), dropped: 0, is_running: false, next: None }
    }

    fn text(query: &str) -> String {
        let wanted = LogOptions::parse(&Query::parse(query), "c", Time::from_seconds(10)).unwrap();
        wanted.text(&log(), 0)
    }

    #[test]
    fn the_lines_that_are_wanted_are_told() {
        assert_eq!(text(""), "one\ntwo\nthree\n");
        assert_eq!(text("tailLines=1"), "three\n");
        assert_eq!(text("tailLines=0"), "");
        assert_eq!(text("sinceSeconds=8"), "two\nthree\n");
        assert_eq!(text("sinceTime=1970-01-01T00:00:03Z"), "three\n");
        assert_eq!(text("limitBytes=5"), "one\nt");
        assert_eq!(text("timestamps=true&tailLines=1"), "1970-01-01T00:00:03.000000000Z three\n");
        let wanted = LogOptions::default();
        let later = ContainerLog { dropped: 7, ..log() };
        assert_eq!(wanted.text(&later, 9), "three\n", "two of these, and all before them, were told");
        assert!(LogOptions::parse(&Query::parse("tailLines=x"), "c", Time::EPOCH).is_err());
    }
}
