//! Watch coalescer: rests of watches between writes, and encoded events that equal watches share.
//!
//! Watches of the same objects in the same form are a [`Group`]. They rest until the same instants, so after a rest
//! all of them continue at the same event, and the chunk that the first of them encodes serves the others.
//!
//! For example, 200 watches of one namespace rest until multiples of 40 ms. Thirty ConfigMaps change in between. The
//! first watch to wake encodes the events 100 to 129 as one chunk. Of the others, 198 continue at event 100 too: each
//! sends that chunk and continues at 130, without reading the ring. The last one started a moment later and continues
//! at 110: it encodes the events 110 to 129, although 130 is there already, and from then on goes with the others.

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

/// Writes that all watches together make in a second of changes without pause. At about ten microseconds for a write,
/// that is a twentieth of a core.
const WRITES_PER_SECOND: u32 = 5_000;
/// The shortest and the longest rest.
const REST: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(40));

/// Chunks that a group keeps. More than one, since watches that were slow or started later come after the others.
const CHUNKS_MAX: usize = 4;

/// The watches of a server. The more there are, the longer each rests between writes: few watches are quick, and many
/// do not starve other requests.
#[derive(Debug)]
pub struct WatchCoalescer {
    watches: AtomicU32,
    /// Rests end at multiples of their length after this instant.
    start: Instant,
    groups: Mutex<BTreeMap<ViewKey, Weak<Group>>>,
}

impl Default for WatchCoalescer {
    #[expect(clippy::disallowed_methods, reason = "rests end together, at multiples after the start")]
    fn default() -> WatchCoalescer {
        WatchCoalescer { watches: AtomicU32::new(0), start: Instant::now(), groups: Mutex::default() }
    }
}

impl WatchCoalescer {
    fn rest(&self) -> Duration {
        let watches = self.watches.load(Ordering::Relaxed);
        (Duration::from_secs(1) / WRITES_PER_SECOND * watches).clamp(REST.0, REST.1)
    }

    /// Returns the end of a rest that begins now: half a rest to one and a half from now.
    fn rest_until(&self, now: Instant) -> Instant {
        let rest = self.rest();
        let earliest = now + rest / 2 - self.start;
        let rests = earliest.as_nanos().div_ceil(rest.as_nanos());
        self.start + rest * u32::try_from(rests).unwrap_or(u32::MAX)
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
    /// Place of the cursor before the first event.
    pub from: u64,
    /// Place of the cursor after the last event.
    pub to: u64,
    /// Revision of the first event.
    pub first: Revision,
    /// Revision up to which everything has been delivered.
    pub position: Revision,
    /// Events in it.
    pub events: u64,
    /// Its bytes, in pieces that follow one another.
    pub bytes: Arc<[Bytes]>,
}

/// The chunks that a group encoded last.
#[derive(Debug, Default)]
pub(super) struct SharedChunks(VecDeque<SharedChunk>);

impl SharedChunks {
    /// Returns the chunk that starts where the cursor is.
    pub fn at(&self, cursor: &Cursor) -> Option<SharedChunk> {
        let chunk = self.0.iter().find(|chunk| chunk.from == cursor.sequence())?;
        // A cursor may start after a revision that is yet to come, and passes over the events before it.
        (chunk.first > cursor.position()).then(|| chunk.clone())
    }

    /// Returns the place up to which a cursor should encode, so that it continues where others of its group do.
    pub fn limit(&self, place: u64) -> u64 {
        self.0.iter().map(|chunk| chunk.to).filter(|to| *to > place).min().unwrap_or(u64::MAX)
    }

    /// Adds a chunk, in the place of the oldest if there are [`CHUNKS_MAX`].
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
        let known = groups.get(&key).and_then(Weak::upgrade);
        let group = known.unwrap_or_else(|| {
            let group = Arc::new(Group::default());
            groups.insert(key.clone(), Arc::downgrade(&group));
            group
        });
        group.members.fetch_add(1, Ordering::Relaxed);
        drop(groups);
        WatchSlot { coalescer: Arc::clone(coalescer), key, group }
    }

    /// Returns the end of a rest that begins now.
    pub(crate) fn rest_until(&self, now: Instant) -> Instant {
        self.coalescer.rest_until(now)
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
    fn few_watches_rest_briefly_and_many_longer_but_never_long() {
        let coalescer = Arc::<WatchCoalescer>::default();
        let rest_of = |count: usize| {
            let slots: Vec<WatchSlot> = (0..count).map(|_| WatchSlot::new(&coalescer, key("a"))).collect();
            let rest = coalescer.rest();
            drop(slots);
            rest.as_millis()
        };
        assert_eq!([1, 20, 100, 100_000].map(rest_of), [4, 4, 20, 40]);
        assert_eq!(rest_of(1), 4, "closed watches do not count");
    }

    #[test]
    fn rests_that_begin_at_different_times_end_together() {
        let coalescer = WatchCoalescer::default();
        let millis = |n| Duration::from_millis(n);
        let ends = [0, 1, 2].map(|begin| coalescer.rest_until(coalescer.start + millis(begin)));
        assert_eq!(ends, [coalescer.start + millis(4); 3]);
        assert_eq!(coalescer.rest_until(coalescer.start + millis(3)), coalescer.start + millis(8));
    }

    #[test]
    fn group_ends_with_its_last_watch() {
        let coalescer = Arc::<WatchCoalescer>::default();
        let one = WatchSlot::new(&coalescer, key("a"));
        assert!(one.shared().is_none());
        let two = WatchSlot::new(&coalescer, key("a"));
        let other = WatchSlot::new(&coalescer, key("b"));
        assert!(one.shared().is_some() && two.shared().is_some() && other.shared().is_none());
        drop(one);
        assert!(two.shared().is_none());
        drop((two, other));
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
        assert_eq!([99, 110, 129, 130].map(|place| chunks.limit(place)), [130, 130, 130, u64::MAX]);
        for from in 130..140 {
            chunks.push(chunk(from, from + 1));
        }
        assert_eq!(chunks.0.len(), CHUNKS_MAX);
    }
}
