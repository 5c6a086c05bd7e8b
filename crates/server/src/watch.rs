//! Watches: store cursors as streams of events.
//!
//! The first event after a quiet period is sent at once. Later events wait for the next flush and are sent together, so
//! a burst costs one write for many events. Between flushes a watch is not woken. The flush interval depends on the
//! number of watches, and watches of the same objects share encoded events: see [`WatchCoalescer`].
//!
//! Start at [`start`].

mod coalescer;
mod converting;
mod definition;
mod narrowing;
mod timers;

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use setpoint_api::ResourceType;
use setpoint_api::printing::table::{TableObject, TableOptions, write_object_table, write_partial};
use setpoint_api::status::Status;
use setpoint_api::{Clock, Revision, Value, json, protobuf};
use setpoint_store::{Compacted, Cursor, Record, Store, WatchEvent, WatchEventType, WatchFilter};

pub use self::coalescer::WatchCoalescer;
use self::coalescer::{SharedChunk, WatchSlot};
use self::converting::EventConverter;
pub(crate) use self::definition::DefinitionWatch;
use self::narrowing::Narrowing;
use self::timers::WatchTimers;
use crate::codec;
use crate::conversion::ConversionWebhooks;
use crate::exchange::{Frames, LARGE_BYTES};
use crate::media::{Form, Representation};
use crate::query::QueryParams;
use crate::responses;
use crate::route::Target;
use crate::select::{Selection, ViewKey};

/// Default timeout of a watch.
const WATCH_SECONDS: u64 = 30 * 60;
/// Approximate size of a frame.
const CHUNK_BYTES: usize = 64 << 10;

/// A stream of events.
pub struct WatchStream {
    resource_type: Arc<ResourceType>,
    slot: WatchSlot,
    cursor: Cursor,
    form: Form,
    view: Representation,
    /// Clock for the ages in tables.
    clock: Arc<dyn Clock>,
    table: TableOptions,
    /// `true` after the first row of a table, which has the column definitions.
    columns_shown: Cell<bool>,
    /// Initial objects.
    initial: std::vec::IntoIter<Record>,
    /// Revision of the bookmark that ends the initial objects.
    announce_end: Option<Revision>,
    bookmarks: bool,
    timers: WatchTimers,
    /// Encoded frames that were not taken yet.
    queue: VecDeque<Bytes>,
    /// Size of the last events, as a capacity hint.
    last_bytes: usize,
    /// Error of a watch that cannot start. The response has begun by then, so it is sent as an ERROR event.
    expired: Option<Status>,
    ended: bool,
    /// Conversion of events, for kinds with a conversion webhook.
    converter: Option<EventConverter>,
    /// Fields that the cursor does not filter by.
    narrowing: Narrowing,
    /// Definition of the resource, for custom resources.
    definition: Option<Box<DefinitionWatch>>,
    /// Events since [`WatchStream::take_events`].
    events: Cell<u64>,
}

/// Starts the requested watch.
///
/// # Errors
/// If the options are invalid.
pub fn start(
    store: &Store,
    coalescer: &Arc<WatchCoalescer>,
    target: &Target,
    query: &QueryParams,
    (form, view): (Form, Representation),
    clock: &Arc<dyn Clock>,
) -> Result<WatchStream, Status> {
    let table = match view {
        Representation::Table(version) => responses::table_options(query, version)?,
        _ => TableOptions::default(),
    };
    let selection = Selection::parse(target, query)?;
    let narrowing = Narrowing::new(selection.served_fields());
    let filter = selection.filter(target);
    let resource = &target.resource_type.resource;
    let initial_events = query.flag("sendInitialEvents");
    let bookmarks = query.flag("allowWatchBookmarks").unwrap_or(false);
    let requested = query.get("resourceVersion");
    let from_list = match initial_events {
        Some(initial_events) => initial_events,
        None => matches!(requested, "" | "0"),
    };
    let mut expired = None;
    let (records, cursor, announce_end) = if from_list {
        let (snapshot, cursor) = store.list_and_watch(resource, filter.clone());
        let records = matching(&snapshot, target, &filter);
        let end = bookmarks.then(|| snapshot.revision());
        (records, cursor, end)
    } else {
        let revision = match requested {
            "" | "0" => store.snapshot().revision(),
            text => text.parse().map(Revision).map_err(|_| {
                Status::bad_request(format!(
                    "resourceVersion: Invalid value: {text:?}: must be an unsigned integer"
                ))
            })?,
        };
        let cursor = match store.watch_after(resource, filter.clone(), revision) {
            Ok(cursor) => cursor,
            Err(Compacted { floor }) => {
                expired = Some(Status::too_old_resource_version(revision.0, floor.0));
                store.list_and_watch(resource, filter).1
            }
        };
        (Vec::new(), cursor, None)
    };
    let seconds = query.number("timeoutSeconds").map_err(|error| Status::bad_request(error.to_string()))?;
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let seconds = seconds.filter(|seconds| *seconds > 0).unwrap_or(WATCH_SECONDS);
    Ok(WatchStream {
        resource_type: Arc::clone(&target.resource_type),
        slot: WatchSlot::new(coalescer, ViewKey::new(target, query, (form, view), table)),
        cursor,
        form,
        view,
        clock: Arc::clone(clock),
        table,
        columns_shown: Cell::new(false),
        initial: records.into_iter(),
        announce_end,
        bookmarks,
        timers: WatchTimers::new(Duration::from_secs(seconds)),
        queue: VecDeque::new(),
        last_bytes: 0,
        expired,
        ended: false,
        converter: None,
        narrowing,
        definition: None,
        events: Cell::new(0),
    })
}

fn matching(snapshot: &setpoint_store::Snapshot, target: &Target, filter: &WatchFilter) -> Vec<Record> {
    let Some(table) = snapshot.table(&target.resource_type.resource) else { return Vec::new() };
    let prefix = if target.namespace.is_empty() { String::new() } else { format!("{}/", target.namespace) };
    table.range(&prefix, None).filter(|record| filter.matches(record)).cloned().collect()
}

impl WatchStream {
    /// Has webhooks convert the objects.
    #[must_use]
    pub(crate) fn with_conversions(mut self, webhooks: Option<&Arc<ConversionWebhooks>>) -> WatchStream {
        self.converter = webhooks.map(|webhooks| EventConverter::new(webhooks, self.narrowing.fields()));
        self
    }

    /// Ends the watch when a definition changes.
    #[must_use]
    pub(crate) fn with_definition(mut self, definition: Option<Box<DefinitionWatch>>) -> WatchStream {
        self.definition = definition;
        self
    }

    /// `true` if the definition of the resource has changed or is gone, and all events before that are sent.
    fn has_lost_definition(&mut self, context: &mut Context<'_>) -> bool {
        let Some(definition) = &mut self.definition else { return false };
        definition.has_ended(&self.resource_type, context) && !self.timers.is_delayed(context)
    }

    /// Resource type of the objects.
    #[must_use]
    pub fn resource_type(&self) -> &ResourceType {
        &self.resource_type
    }

    /// Returns the number of events since the last call.
    pub(crate) fn take_events(&mut self) -> u64 {
        self.events.take()
    }

    /// Appends an event with an object as it is stored.
    fn put_stored(&self, out: &mut FrameBuffer, word: &str, object: Bytes) {
        if self.resource_type.is_converted() && !self.view.is_table() {
            let object = self.resource_type.to_served(json::parse(&object).unwrap_or(Value::Null));
            self.put(out, word, json::to_vec(&object).into());
        } else {
            self.put(out, word, object);
        }
    }

    fn put_event(&self, out: &mut FrameBuffer, event: &WatchEvent) {
        let word = event_word(event.event_type);
        // An object that stopped matching is shown with the revision of that change.
        let left = event.event_type == WatchEventType::Deleted && !event.after.is_tombstone();
        if left {
            self.put_stored(out, word, event.value());
        } else {
            self.put_record(out, word, &event.after);
        }
    }

    /// Appends a version of an object.
    fn put_record(&self, out: &mut FrameBuffer, word: &str, record: &Record) {
        if self.form != Form::Protobuf || self.view != Representation::Whole {
            if !self.view.is_table() && codec::is_current(&self.resource_type, record) {
                return self.put(out, word, record.value());
            }
            return self.put_stored(out, word, record.value());
        }
        self.events.set(self.events.get() + 1);
        let message = codec::message(&self.resource_type, record);
        put_frame(out, word, &self.resource_type.api_version(), &self.resource_type.info.kind, &message);
    }

    /// Appends a line of JSON, or a frame of protobuf.
    fn put(&self, out: &mut FrameBuffer, word: &str, object: Bytes) {
        self.events.set(self.events.get() + 1);
        let object = if self.view != Representation::Whole && word != "ERROR" {
            self.viewed(&object).into()
        } else {
            object
        };
        if self.form != Form::Protobuf {
            out.extend(b"{\"type\":\"");
            out.extend(word.as_bytes());
            out.extend(b"\",\"object\":");
            out.push(object);
            out.extend(b"}\n");
            return;
        }
        let value = json::parse(&object).unwrap_or(Value::Null);
        let (api_version, kind) = (value.str_at(&["apiVersion"]), value.str_at(&["kind"]));
        let of = if kind == "Status" { setpoint_api::schema::builtin().meta("Status") } else { None };
        let message = codec::encoded(&value, of.or(self.resource_type.schema.built_in()));
        put_frame(out, word, api_version, kind, &message);
    }

    /// Encodes the view of an object.
    fn viewed(&self, object: &[u8]) -> Vec<u8> {
        let value = json::parse(object).unwrap_or(Value::Null);
        let mut out = Vec::with_capacity(object.len());
        if let Representation::Metadata(version) | Representation::MetadataList(version) = self.view {
            write_partial(&value, version, &mut out);
            return out;
        }
        let kind = self.resource_type.table_kind();
        let with_columns = !self.columns_shown.replace(true);
        let options = TableOptions { with_columns, ..self.table };
        let served = self.resource_type.to_served(value.clone());
        let embedded = responses::row_object(&self.resource_type, &value, &served, options.include);
        let stored = if self.resource_type.custom.is_some() { &served } else { &value };
        let row = TableObject { stored, served: &embedded };
        write_object_table(kind, row, options, self.clock.now(), &mut out);
        out
    }

    fn put_bookmark(&self, out: &mut FrameBuffer, revision: Revision, initial_end: bool) {
        let mark = r#","annotations":{"k8s.io/initial-events-end":"true"}"#;
        let annotations = if initial_end { mark } else { "" };
        let (kind, version) = (&self.resource_type.info.kind, self.resource_type.api_version());
        let object = format!(
            "{{\"kind\":\"{kind}\",\"apiVersion\":\"{version}\",\"metadata\":{{\"resourceVersion\":\"{revision}\"{annotations}}}}}"
        );
        self.put(out, "BOOKMARK", object.into());
    }

    /// Encodes the frames before the events: an error, or the initial objects and their bookmark. Empty if they have
    /// been sent.
    fn encode_initial(&mut self) -> Vec<Bytes> {
        let mut out = FrameBuffer::default();
        if let Some(status) = self.expired.take() {
            self.put(&mut out, "ERROR", status.to_json().into());
            self.ended = true;
            return out.finish();
        }
        while out.len() < CHUNK_BYTES && !self.narrowing.is_due_to_rest() {
            let Some(record) = self.initial.next() else { break };
            if self.narrowing.matches(&record) {
                self.put_record(&mut out, "ADDED", &record);
            }
        }
        if self.initial.len() == 0
            && let Some(revision) = self.announce_end.take()
        {
            self.put_bookmark(&mut out, revision, true);
        }
        out.finish()
    }

    /// Queues the events that are due.
    fn queue_events(&mut self, context: &mut Context<'_>) {
        // The first row of a table has the columns, so it differs between watches.
        let has_columns_to_send = self.view.is_table() && !self.columns_shown.get();
        let Some(group) = self.slot.shared().filter(|_| !has_columns_to_send) else {
            self.queue = self.encode_events(u64::MAX, context).0.into();
            return;
        };
        let mut chunks = group.chunks.lock();
        if let Some(chunk) = chunks.at(&self.cursor) {
            self.cursor.skip_to(chunk.to, chunk.position);
            self.events.set(self.events.get() + chunk.events);
            self.queue.extend(chunk.bytes.iter().cloned());
            return;
        }
        let (from, before) = (self.cursor.sequence(), self.events.get());
        let (bytes, first) = self.encode_events(chunks.limit(from), context);
        self.queue.extend(bytes.iter().cloned());
        if let Some(first) = first.filter(|_| !self.ended) {
            let (to, position) = (self.cursor.sequence(), self.cursor.position());
            let events = self.events.get() - before;
            chunks.push(SharedChunk { from, to, first, position, events, bytes: bytes.into() });
        }
    }

    /// Encodes the due events before `limit`. Returns the revision of the first one, too.
    fn encode_events(&mut self, limit: u64, context: &mut Context<'_>) -> (Vec<Bytes>, Option<Revision>) {
        let (mut out, mut first) = (FrameBuffer::default(), None);
        while out.len() < CHUNK_BYTES
            && !self.narrowing.is_due_to_rest()
            && (first.is_none() || self.cursor.sequence() < limit)
        {
            match self.cursor.poll_next(context) {
                Poll::Ready(Ok(event)) => {
                    let Some(event) = self.narrowing.narrowed(event) else { continue };
                    if first.is_none() {
                        first = Some(event.revision());
                        out.reserve(self.last_bytes);
                    }
                    self.put_event(&mut out, &event);
                }
                Poll::Ready(Err(_)) => {
                    self.put(&mut out, "ERROR", Status::watch_expired().to_json().into());
                    self.ended = true;
                    break;
                }
                Poll::Pending => break,
            }
        }
        self.last_bytes = out.len().min(CHUNK_BYTES);
        (out.finish(), first)
    }

    /// Encodes the events that a webhook has converted. A batch is taken from the watch when the one before is sent.
    fn encode_converted(&mut self, converter: &mut EventConverter, context: &mut Context<'_>) -> Vec<Bytes> {
        let mut out = FrameBuffer::default();
        // A batch whose objects are not selected leaves nothing to send, and the cursor is not registered for a wakeup.
        while out.len() == 0 && !self.ended && !self.narrowing.is_due_to_rest() {
            if !converter.is_busy() {
                self.take_batch(converter, &mut out, context);
            }
            if !converter.is_busy() {
                break;
            }
            match converter.poll(&self.resource_type, context) {
                Poll::Pending => break,
                Poll::Ready(Ok(events)) => {
                    self.narrowing.count_batch();
                    for (head, record) in events {
                        match head.revision {
                            Some(revision) => {
                                self.put_stored(&mut out, head.word, record.value_at(revision));
                            }
                            None => self.put_record(&mut out, head.word, &record),
                        }
                    }
                }
                Poll::Ready(Err(status)) => {
                    self.put(&mut out, "ERROR", status.to_json().into());
                    self.ended = true;
                }
            }
        }
        out.finish()
    }

    /// Moves the next initial objects or the due events to a converter. The bookmark after the initial objects needs no
    /// conversion.
    fn take_batch(
        &mut self,
        converter: &mut EventConverter,
        out: &mut FrameBuffer,
        context: &mut Context<'_>,
    ) {
        while !converter.is_full()
            && let Some(record) = self.initial.next()
        {
            converter.push_initial(record);
        }
        if converter.is_busy() {
            return;
        }
        if let Some(revision) = self.announce_end.take() {
            self.put_bookmark(out, revision, true);
        }
        while !converter.is_full() {
            match self.cursor.poll_next(context) {
                Poll::Ready(Ok(event)) => converter.push_event(event),
                // The cursor stays expired, so the events before are sent first.
                Poll::Ready(Err(_)) if converter.is_busy() => break,
                Poll::Ready(Err(_)) => {
                    self.put(out, "ERROR", Status::watch_expired().to_json().into());
                    self.ended = true;
                    break;
                }
                Poll::Pending => break,
            }
        }
    }

    /// Fills the queue with due frames, and schedules the next flush.
    fn fill_queue(&mut self, context: &mut Context<'_>) {
        if self.expired.is_none()
            && let Some(mut converter) = self.converter.take()
        {
            self.queue = self.encode_converted(&mut converter, context).into();
            self.converter = Some(converter);
            return;
        }
        self.queue = self.encode_initial().into();
        if self.queue.is_empty() {
            if self.narrowing.is_due_to_rest() {
                return;
            }
            if self.timers.is_delayed(context) {
                return;
            }
            self.queue_events(context);
        }
        let bytes: usize = self.queue.iter().map(Bytes::len).sum();
        // After a full chunk more events are pending, so the next flush is not delayed.
        let is_delayed = bytes > 0 && bytes < CHUNK_BYTES && self.initial.len() == 0;
        self.timers.set_delayed(is_delayed, &self.slot);
    }
}

/// Type of an event in a watch.
fn event_word(event_type: WatchEventType) -> &'static str {
    match event_type {
        WatchEventType::Added => "ADDED",
        WatchEventType::Modified => "MODIFIED",
        WatchEventType::Deleted => "DELETED",
    }
}

/// Appends an event as protobuf, with its length before it.
fn put_frame(out: &mut FrameBuffer, word: &str, api_version: &str, kind: &str, message: &[u8]) {
    let mut frame = Vec::with_capacity(message.len() + 64);
    protobuf::write_watch_event(word, api_version, kind, message, &mut frame);
    out.extend(&u32::try_from(frame.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.push(frame.into());
}

impl Frames for WatchStream {
    fn is_initialized(&self) -> bool {
        self.initial.len() == 0 && self.announce_end.is_none()
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(bytes) = self.queue.pop_front() {
            return Poll::Ready(Some(bytes));
        }
        if self.ended || self.timers.has_timed_out(context) {
            return Poll::Ready(None);
        }
        // Examined before the events, so that those before a change of the definition are sent.
        let is_last = self.has_lost_definition(context);
        self.narrowing.resume();
        self.fill_queue(context);
        let is_converting = self.converter.as_ref().is_some_and(EventConverter::is_busy);
        if self.queue.is_empty() && self.narrowing.is_due_to_rest() {
            // More events are to be examined, after those of other watches.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.queue.is_empty() && !is_converting {
            if is_last {
                return Poll::Ready(None);
            }
            let mut out = FrameBuffer::default();
            while self.timers.poll_bookmark(context).is_ready() {
                if self.bookmarks {
                    self.put_bookmark(&mut out, self.cursor.position(), false);
                }
            }
            self.queue = out.finish().into();
        }
        self.queue.pop_front().map_or(Poll::Pending, |bytes| Poll::Ready(Some(bytes)))
    }
}

/// Encoded events. Small pieces are merged; large ones are referred to, so that a watch whose client does not read
/// holds no copy of a large object.
#[derive(Default)]
struct FrameBuffer {
    pieces: Vec<Bytes>,
    /// Bytes in `pieces`.
    piece_bytes: usize,
    /// Small pieces that follow, put together.
    tail: BytesMut,
}

impl FrameBuffer {
    fn len(&self) -> usize {
        self.piece_bytes + self.tail.len()
    }

    fn reserve(&mut self, bytes: usize) {
        self.tail.reserve(bytes);
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
    }

    fn push(&mut self, bytes: Bytes) {
        if bytes.len() < LARGE_BYTES {
            return self.extend(&bytes);
        }
        let tail = self.tail.split().freeze();
        self.piece_bytes += tail.len() + bytes.len();
        self.pieces.extend([tail, bytes].into_iter().filter(|piece| !piece.is_empty()));
    }

    fn finish(mut self) -> Vec<Bytes> {
        if !self.tail.is_empty() {
            self.pieces.push(self.tail.freeze());
        }
        self.pieces
    }
}
