//! Watch coalescer: flush interval of watches, and encoded events that equal watches share.
//!
//! Watches of the same objects in the same form are a [`Group`]. They flush at the same instants, so at a flush all of
//! them continue at the same event, and the chunk that the first of them encodes serves the others.
//!
//! For example, 200 watches of one namespace flush at multiples of 40 ms. Thirty ConfigMaps change in between. The
//! first watch to run encodes the events 100 to 129 as one chunk. Of the others, 198 continue at event 100 too: each
//! sends that chunk and continues at 130, without reading the ring. The last one started later and continues at 110: it
//! encodes the events 110 to 129, even if event 130 exists by then, and shares the chunks of the others from there on.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use setpoint_api::Revision;
use setpoint_store::Cursor;
use tokio::time::Instant;

use crate::select::ViewKey;

/// Maximum number of writes per second of all watches together under continuous changes. At about ten microseconds per
/// write, that is a twentieth of a core.
const WRITES_PER_SECOND: u32 = 5_000;
/// Minimum flush interval.
const FLUSH_INTERVAL_MIN: Duration = Duration::from_millis(4);
/// Maximum flush interval.
const FLUSH_INTERVAL_MAX: Duration = Duration::from_millis(40);

/// Maximum number of chunks per group. More than one, because slow watches read chunks later than the others.
const CHUNKS_MAX: usize = 4;

/// The watches of a server. The flush interval grows with their number: few watches have low latency, and many do not
/// starve other requests.
#[derive(Debug)]
pub struct WatchCoalescer {
    watches: AtomicU32,
    /// Flushes happen at multiples of the flush interval after this instant.
    start: Instant,
    groups: Mutex<BTreeMap<ViewKey, Weak<Group>>>,
}

impl Default for WatchCoalescer {
    #[expect(clippy::disallowed_methods, reason = "watches flush together, at multiples after the start")]
    fn default() -> WatchCoalescer {
        WatchCoalescer { watches: AtomicU32::new(0), start: Instant::now(), groups: Mutex::default() }
    }
}

impl WatchCoalescer {
    fn flush_interval(&self) -> Duration {
        let watches = self.watches.load(Ordering::Relaxed);
        (Duration::from_secs(1) / WRITES_PER_SECOND * watches).clamp(FLUSH_INTERVAL_MIN, FLUSH_INTERVAL_MAX)
    }

    /// Returns the instant of the next flush: half an interval to one and a half intervals from now.
    fn next_flush(&self, now: Instant) -> Instant {
        let interval = self.flush_interval();
        let earliest = now + interval / 2 - self.start;
        let intervals = earliest.as_nanos().div_ceil(interval.as_nanos());
        self.start + interval * u32::try_from(intervals).unwrap_or(u32::MAX)
    }
}

/// Watches that show the same bytes.
#[derive(Debug, Default)]
pub(super) struct Group {
    members: AtomicU32,
    /// Held while a watch encodes a chunk, so that watches on other reactors wait for it instead of encoding their own.
    pub chunks: Mutex<SharedChunks>,
}

/// Events that one watch of a group has encoded for all.
#[derive(Clone, Debug)]
pub(super) struct SharedChunk {
    /// Sequence of the cursor before the first event.
    pub from: u64,
    /// Sequence of the cursor after the last event.
    pub to: u64,
    /// Revision of the first event.
    pub first: Revision,
    /// Revision up to which everything has been delivered.
    pub position: Revision,
    /// Number of events.
    pub events: u64,
    /// Encoded events, in consecutive pieces.
    pub bytes: Arc<[Bytes]>,
}

/// The chunks that a group encoded last.
#[derive(Debug, Default)]
pub(super) struct SharedChunks(VecDeque<SharedChunk>);

impl SharedChunks {
    /// Returns the chunk that starts where the cursor is.
    pub fn at(&self, cursor: &Cursor) -> Option<SharedChunk> {
        let chunk = self.0.iter().find(|chunk| chunk.from == cursor.sequence())?;
        // A cursor may start after a future revision; it skips the events before that.
        (chunk.first > cursor.position()).then(|| chunk.clone())
    }

    /// Returns the sequence up to which a cursor should encode, so that it continues where others of its group do.
    pub fn limit(&self, sequence: u64) -> u64 {
        self.0.iter().map(|chunk| chunk.to).filter(|to| *to > sequence).min().unwrap_or(u64::MAX)
    }

    /// Adds a chunk. It replaces the oldest if there are [`CHUNKS_MAX`].
    pub fn push(&mut self, chunk: SharedChunk) {
        self.0.truncate(CHUNKS_MAX - 1);
        self.0.push_front(chunk);
    }
}

/// Membership of a watch in the coalescer and in a group.
pub(super) struct WatchSlot {
    coalescer: Arc<WatchCoalescer>,
    key: ViewKey,
    group: Arc<Group>,
}

impl WatchSlot {
    pub fn new(coalescer: &Arc<WatchCoalescer>, key: ViewKey) -> WatchSlot {
        coalescer.watches.fetch_add(1, Ordering::Relaxed);
        let mut groups = coalescer.groups.lock();
        let existing = groups.get(&key).and_then(Weak::upgrade);
        let group = existing.unwrap_or_else(|| {
            let group = Arc::new(Group::default());
            groups.insert(key.clone(), Arc::downgrade(&group));
            group
        });
        group.members.fetch_add(1, Ordering::Relaxed);
        drop(groups);
        WatchSlot { coalescer: Arc::clone(coalescer), key, group }
    }

    /// Returns the instant of the next flush.
    pub(crate) fn next_flush(&self, now: Instant) -> Instant {
        self.coalescer.next_flush(now)
    }

    /// Returns the group, if another watch shows the same bytes.
    pub fn shared(&self) -> Option<Arc<Group>> {
        (self.group.members.load(Ordering::Relaxed) > 1).then(|| Arc::clone(&self.group))
    }
}

impl Drop for WatchSlot {
    fn drop(&mut self) {
        self.coalescer.watches.fetch_sub(1, Ordering::Relaxed);
        let mut groups = self.coalescer.groups.lock();
        match self.group.members.fetch_sub(1, Ordering::Relaxed) {
            1 => drop(groups.remove(&self.key)),
            2 => self.group.chunks.lock().0.clear(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: &str) -> ViewKey {
        ViewKey {
            resource_type: 0,
            form: crate::media::Form::Json,
            view: String::new(),
            namespace: namespace.into(),
            name: String::new(),
            label_selector: String::new(),
            field_selector: String::new(),
        }
    }

    #[test]
    fn flush_interval_grows_with_the_number_of_watches_up_to_its_maximum() {
        let coalescer = Arc::<WatchCoalescer>::default();
        let interval_of = |count: usize| {
            let slots: Vec<WatchSlot> = (0..count).map(|_| WatchSlot::new(&coalescer, key("a"))).collect();
            let interval = coalescer.flush_interval();
            drop(slots);
            interval.as_millis()
        };
        assert_eq!([1, 20, 100, 100_000].map(interval_of), [4, 4, 20, 40]);
        assert_eq!(interval_of(1), 4, "closed watches do not count");
    }

    #[test]
    fn watches_that_sent_at_different_times_flush_together() {
        let coalescer = WatchCoalescer::default();
        let millis = |n| Duration::from_millis(n);
        let ends = [0, 1, 2].map(|begin| coalescer.next_flush(coalescer.start + millis(begin)));
        assert_eq!(ends, [coalescer.start + millis(4); 3]);
        assert_eq!(coalescer.next_flush(coalescer.start + millis(3)), coalescer.start + millis(8));
    }

    #[test]
    fn group_ends_with_its_last_watch() {
        let coalescer = Arc::<WatchCoalescer>::default();
        let first = WatchSlot::new(&coalescer, key("a"));
        assert!(first.shared().is_none());
        let second = WatchSlot::new(&coalescer, key("a"));
        let other = WatchSlot::new(&coalescer, key("b"));
        assert!(first.shared().is_some() && second.shared().is_some() && other.shared().is_none());
        drop(first);
        assert!(second.shared().is_none());
        drop((second, other));
        assert!(coalescer.groups.lock().is_empty());
    }

    #[test]
    fn later_watch_joins_the_chunks_of_its_group() {
        let mut chunks = SharedChunks::default();
        let chunk = |from, to| SharedChunk {
            from,
            to,
            first: Revision(from),
            position: Revision(to),
            events: to - from,
            bytes: Arc::default(),
        };
        assert_eq!(chunks.limit(100), u64::MAX);
        chunks.push(chunk(100, 130));
        assert_eq!([99, 110, 129, 130].map(|sequence| chunks.limit(sequence)), [130, 130, 130, u64::MAX]);
        for from in 130..140 {
            chunks.push(chunk(from, from + 1));
        }
        assert_eq!(chunks.0.len(), CHUNKS_MAX);
    }
}
