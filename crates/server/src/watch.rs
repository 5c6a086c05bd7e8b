//! Watches: a cursor as a stream of lines.
//!
//! The first change after a quiet while goes out at once. A watch that has just sent something then rests for a moment,
//! and what happened meanwhile goes out together: a burst costs a write for many events instead of one for each. While
//! it rests it is not woken. How long it rests depends on how many watches there are, see [`Crowd`].

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use setpoint_api::printing::table::{TableObject, TableOptions, write_object_table, write_partial};
use setpoint_api::status::Status;
use setpoint_api::{Revision, Value, json, protobuf};
use setpoint_store::{Change, Clock, Compacted, Cursor, Event, Filter, Record, Store};
use tokio::time::{Instant, Sleep};

use crate::answers;
use crate::exchange::Frames;
use crate::media::{Form, View};
use crate::query::Query;
use crate::route::Target;
use crate::select::Selection;
use crate::served::Served;
use crate::stored;

/// How often a quiet watch says how far it has come, where the client asked for that.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long a watch lasts unless the client says.
const WATCH_SECONDS: u64 = 30 * 60;
/// How many writes all watches together make in a second of changes without pause. At about ten microseconds for a
/// write, that is a tenth of a core.
const WRITES_PER_SECOND: u32 = 10_000;
/// The shortest and the longest that a change waits for others, so that they go out together.
const REST: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(40));
/// About how many bytes are sent at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// The watches that there are. The more they are, the longer each rests between writes: few watches are quick, and many
/// do not take the server away from everyone else.
#[derive(Debug, Default)]
pub struct Crowd(AtomicU32);

impl Crowd {
    fn rest(&self) -> Duration {
        (Duration::from_secs(1) / WRITES_PER_SECOND * self.0.load(Ordering::Relaxed)).clamp(REST.0, REST.1)
    }
}

/// One of a [`Crowd`].
struct Member(Arc<Crowd>);

impl Member {
    fn of(crowd: &Arc<Crowd>) -> Member {
        crowd.0.fetch_add(1, Ordering::Relaxed);
        Member(Arc::clone(crowd))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A stream of changes.
pub struct Watch {
    served: &'static Served,
    crowd: Member,
    cursor: Cursor,
    form: Form,
    view: View,
    /// Ages are told as of the time of each event.
    clock: Arc<dyn Clock>,
    table: TableOptions,
    /// Whether a table has shown its columns yet.
    columns_shown: Cell<bool>,
    /// Objects that are shown first.
    initial: std::vec::IntoIter<Record>,
    /// After the first objects, say so with a bookmark.
    announce_end: Option<Revision>,
    bookmarks: bool,
    timeout: Pin<Box<Sleep>>,
    bookmark: Pin<Box<Sleep>>,
    /// Until when it rests.
    rest: Pin<Box<Sleep>>,
    resting: bool,
    /// Why there is nothing to show. A watch has begun by then, so that it is said as its only event.
    expired: Option<Status>,
    ended: bool,
    /// How many events were shown since somebody last asked.
    events: Cell<u64>,
}

/// Starts the watch that a request asks for.
///
/// # Errors
/// If its options are wrong.
pub fn start(
    store: &Store,
    crowd: &Arc<Crowd>,
    target: &Target,
    query: &Query,
    (form, view): (Form, View),
    clock: &Arc<dyn Clock>,
) -> Result<Watch, Status> {
    let table = match view {
        View::Table(version) => answers::table_options(query, version)?,
        _ => TableOptions::default(),
    };
    let selection = Selection::parse(target, query)?;
    let filter = selection.filter(target);
    let resource = &target.served.resource;
    let initial_events = query.flag("sendInitialEvents");
    let bookmarks = query.flag("allowWatchBookmarks").unwrap_or(false);
    let asked = query.get("resourceVersion");
    let from_list = match initial_events {
        Some(wanted) => wanted,
        None => matches!(asked, "" | "0"),
    };
    let mut expired = None;
    let (records, cursor, announce_end) = if from_list {
        let (snapshot, cursor) = store.list_and_follow(resource, filter.clone());
        let records = matching(&snapshot, target, &filter);
        let end = bookmarks.then(|| snapshot.revision());
        (records, cursor, end)
    } else {
        let revision = match asked {
            "" | "0" => store.snapshot().revision(),
            text => text.parse().map(Revision).map_err(|_| {
                Status::bad_request(format!(
                    "resourceVersion: Invalid value: {text:?}: must be an unsigned integer"
                ))
            })?,
        };
        let cursor = match store.follow_after(resource, filter.clone(), revision) {
            Ok(cursor) => cursor,
            Err(Compacted { floor }) => {
                expired = Some(Status::too_old_resource_version(revision.0, floor.0));
                store.list_and_follow(resource, filter).1
            }
        };
        (Vec::new(), cursor, None)
    };
    let seconds = query.number("timeoutSeconds").map_err(|error| Status::bad_request(error.to_string()))?;
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let seconds = seconds.filter(|seconds| *seconds > 0).unwrap_or(WATCH_SECONDS);
    Ok(Watch {
        served: target.served,
        crowd: Member::of(crowd),
        cursor,
        form,
        view,
        clock: Arc::clone(clock),
        table,
        columns_shown: Cell::new(false),
        initial: records.into_iter(),
        announce_end,
        bookmarks,
        timeout: Box::pin(tokio::time::sleep(Duration::from_secs(seconds))),
        bookmark: Box::pin(tokio::time::sleep(BOOKMARK_EVERY)),
        rest: Box::pin(tokio::time::sleep(REST.0)),
        resting: false,
        expired,
        ended: false,
        events: Cell::new(0),
    })
}

fn matching(snapshot: &setpoint_store::Snapshot, target: &Target, filter: &Filter) -> Vec<Record> {
    let Some(table) = snapshot.table(&target.served.resource) else { return Vec::new() };
    let prefix = if target.namespace.is_empty() { String::new() } else { format!("{}/", target.namespace) };
    table.range(&prefix, None).filter(|record| filter.passes(record)).cloned().collect()
}

impl Watch {
    /// What is watched.
    #[must_use]
    pub fn served(&self) -> &'static Served {
        self.served
    }

    /// How many events were shown since the last call.
    pub fn take_events(&mut self) -> u64 {
        self.events.take()
    }

    /// Appends an object that is given as it is stored.
    fn put_stored(&self, out: &mut BytesMut, word: &str, object: &[u8]) {
        if self.served.is_converted() && !self.view.is_table() {
            let object = self.served.to_served(json::parse(object).unwrap_or(Value::Null));
            self.put(out, word, &json::to_vec(&object));
        } else {
            self.put(out, word, object);
        }
    }

    fn put_event(&self, out: &mut BytesMut, event: &Event) {
        let word = match event.change {
            Change::Added => "ADDED",
            Change::Modified => "MODIFIED",
            Change::Deleted => "DELETED",
        };
        // A version that only left the sight of this watch is shown under a revision of its own.
        let left = event.change == Change::Deleted && !event.after.is_tombstone();
        if left {
            self.put_stored(out, word, &event.value());
        } else {
            self.put_record(out, word, &event.after);
        }
    }

    /// Appends a version of an object.
    fn put_record(&self, out: &mut BytesMut, word: &str, record: &Record) {
        if self.form != Form::Protobuf || self.view != View::Whole {
            return self.put_stored(out, word, &record.value_bytes());
        }
        self.events.set(self.events.get() + 1);
        let message = stored::message(self.served, record);
        put_frame(out, word, &self.served.api_version(), self.served.info.kind, &message);
    }

    /// Appends one line, or one frame of protobuf.
    fn put(&self, out: &mut BytesMut, word: &str, object: &[u8]) {
        self.events.set(self.events.get() + 1);
        let viewed;
        let object = if self.view != View::Whole && word != "ERROR" {
            viewed = self.viewed(object);
            &viewed[..]
        } else {
            object
        };
        if self.form != Form::Protobuf {
            out.extend_from_slice(b"{\"type\":\"");
            out.extend_from_slice(word.as_bytes());
            out.extend_from_slice(b"\",\"object\":");
            out.extend_from_slice(object);
            out.extend_from_slice(b"}\n");
            return;
        }
        let value = json::parse(object).unwrap_or(Value::Null);
        let (api_version, kind) = (value.str_at(&["apiVersion"]), value.str_at(&["kind"]));
        let of = if kind == "Status" { setpoint_api::schema::builtin().meta("Status") } else { None };
        let message = stored::encoded(&value, of.unwrap_or(self.served.schema));
        put_frame(out, word, api_version, kind, &message);
    }

    /// What is to be shown of an object.
    fn viewed(&self, object: &[u8]) -> Vec<u8> {
        let value = json::parse(object).unwrap_or(Value::Null);
        let mut out = Vec::with_capacity(object.len());
        if let View::Metadata(version) | View::MetadataList(version) = self.view {
            write_partial(&value, version, &mut out);
            return out;
        }
        let kind = (self.served.info.group, self.served.info.kind);
        let with_columns = !self.columns_shown.replace(true);
        let options = TableOptions { with_columns, ..self.table };
        let shown = self.served.to_served(value.clone());
        let beside = answers::beside_row(self.served, &value, &shown, options.include);
        let row = TableObject { stored: &value, served: &beside };
        write_object_table(kind, row, options, self.clock.now(), &mut out);
        out
    }

    fn put_bookmark(&self, out: &mut BytesMut, revision: Revision, initial_end: bool) {
        let mark = r#","annotations":{"k8s.io/initial-events-end":"true"}"#;
        let annotations = if initial_end { mark } else { "" };
        let (kind, version) = (self.served.info.kind, self.served.api_version());
        let object = format!(
            "{{\"kind\":\"{kind}\",\"apiVersion\":\"{version}\",\"metadata\":{{\"resourceVersion\":\"{revision}\"{annotations}}}}}"
        );
        self.put(out, "BOOKMARK", object.as_bytes());
    }

    fn fill(&mut self, out: &mut BytesMut, context: &mut Context<'_>) {
        if let Some(status) = self.expired.take() {
            self.put(out, "ERROR", &status.to_json());
            self.ended = true;
            return;
        }
        while out.len() < CHUNK_BYTES {
            let Some(record) = self.initial.next() else { break };
            self.put_record(out, "ADDED", &record);
        }
        if self.initial.len() > 0 {
            return;
        }
        if let Some(revision) = self.announce_end.take() {
            self.put_bookmark(out, revision, true);
        }
        if self.resting && out.is_empty() {
            if self.rest.as_mut().poll(context).is_pending() {
                return;
            }
            self.resting = false;
        }
        while out.len() < CHUNK_BYTES {
            match self.cursor.poll_next(context) {
                Poll::Ready(Ok(event)) => self.put_event(out, &event),
                Poll::Ready(Err(_)) => {
                    self.put(out, "ERROR", &Status::watch_expired().to_json());
                    self.ended = true;
                    return;
                }
                Poll::Pending => return,
            }
        }
    }
}

/// Appends an event as protobuf, with its length before it.
fn put_frame(out: &mut BytesMut, word: &str, api_version: &str, kind: &str, message: &[u8]) {
    let mut frame = Vec::with_capacity(message.len() + 64);
    protobuf::write_watch_event(word, api_version, kind, message, &mut frame);
    out.extend_from_slice(&u32::try_from(frame.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(&frame);
}

impl Frames for Watch {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.ended || self.timeout.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        let mut out = BytesMut::new();
        self.fill(&mut out, context);
        while self.bookmark.as_mut().poll(context).is_ready() {
            self.bookmark = Box::pin(tokio::time::sleep(BOOKMARK_EVERY));
            if self.bookmarks && self.initial.len() == 0 && !self.ended {
                self.put_bookmark(&mut out, self.cursor.position(), false);
            }
        }
        if out.is_empty() {
            return Poll::Pending;
        }
        // A full chunk says that there is more, which is late already.
        self.resting = self.initial.len() == 0 && out.len() < CHUNK_BYTES;
        if self.resting {
            self.rest.as_mut().reset(Instant::now() + self.crowd.0.rest());
        }
        Poll::Ready(Some(out.freeze()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_watches_rest_briefly_and_many_longer_but_never_long() {
        let crowd = Arc::<Crowd>::default();
        let rest_of = |count: usize| {
            let members: Vec<Member> = (0..count).map(|_| Member::of(&crowd)).collect();
            let rest = crowd.rest();
            drop(members);
            rest.as_millis()
        };
        assert_eq!([1, 40, 200, 100_000].map(rest_of), [4, 4, 20, 40]);
        assert_eq!(rest_of(1), 4, "who has gone does not count");
    }
}
