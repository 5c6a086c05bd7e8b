//! Lanes: watcher wakeup index from namespaces, names and field values to cursors.
//!
//! A cursor waits in one lane of its resource: all events, or those of one namespace, one name, or one value
//! of one field. A lane exists while it has cursors. It records the ring positions of its events, so that a
//! cursor that wakes up skips all others. All cursors of the lane share the positions, of which there are at
//! most as many as events in the ring. For example, with these events in the ring of pods:
//!
//! ```text
//! sequence         40         41         42         43         44
//! revision         107        109        110        115        121
//! pod              shop/web   shop/db    blog/web   shop/web   blog/db
//!
//! lane of namespace shop:     40  41  43
//! lane of name web:           40  42  43
//! ```
//!
//! A cursor in the lane of `shop` whose next sequence number is 42 continues at 43 and delivers revision 115.
//! Its next position is then the end of the ring, 45, so it registers its waker; its bookmark is the current
//! revision, 121 or later. A new event in `blog` does not wake it. When event 40 is evicted, the floor of the
//! ring becomes 107: a cursor that had yet to examine it fails with `Compacted`, and a watch after revision
//! 107 starts at sequence number 41.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;

use crate::record::Record;
use crate::ring::RingEvent;

/// Events that a lane carries.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LaneKey {
    All,
    Namespace(Box<str>),
    Name(Box<str>),
    Field(Box<str>, Box<str>),
}

/// Set of cursors that wait for the same events.
#[derive(Debug)]
pub(crate) struct Lane {
    key: LaneKey,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Sequence number from which on `positions` is complete.
    complete_from: u64,
    /// Sequence numbers of the lane's events; unused in the lane of all events.
    positions: VecDeque<u64>,
    /// Slot per cursor, with its waker while it waits.
    slots: Vec<Option<Waker>>,
    free: Vec<usize>,
    /// `true` if the lane is already in the list of lanes to wake.
    is_waking: bool,
}

impl Lane {
    /// Returns the first event at or after `sequence` that may belong to this lane; `end` if there is none.
    pub fn next_position(&self, sequence: u64, end: u64) -> u64 {
        if self.key == LaneKey::All {
            return sequence;
        }
        let inner = self.inner.lock();
        if sequence < inner.complete_from {
            return sequence;
        }
        inner
            .positions
            .get(inner.positions.partition_point(|position| *position < sequence))
            .copied()
            .unwrap_or(end)
    }

    /// Registers a waker in a cursor's slot.
    pub fn wait(&self, slot: usize, waker: &Waker) {
        let registered = &mut self.inner.lock().slots[slot];
        if !registered.as_ref().is_some_and(|current| current.will_wake(waker)) {
            *registered = Some(waker.clone());
        }
    }

    /// Takes all wakers.
    pub fn take_wakers(&self, wakers: &mut Vec<Waker>) {
        let mut inner = self.inner.lock();
        inner.is_waking = false;
        wakers.extend(inner.slots.iter_mut().filter_map(Option::take));
    }

    fn register(&self) -> usize {
        let mut inner = self.inner.lock();
        match inner.free.pop() {
            Some(slot) => slot,
            None => {
                inner.slots.push(None);
                inner.slots.len() - 1
            }
        }
    }

    /// Frees a slot. Returns `true` if it was the last one.
    fn unregister(&self, slot: usize) -> bool {
        let mut inner = self.inner.lock();
        inner.slots[slot] = None;
        inner.free.push(slot);
        inner.free.len() == inner.slots.len()
    }

    /// Records an event, and adds the lane to `lanes_to_wake`. `first` is the oldest event of the ring.
    fn record_event(self: &Arc<Lane>, sequence: u64, first: u64, lanes_to_wake: &mut Vec<Arc<Lane>>) {
        let mut inner = self.inner.lock();
        if self.key != LaneKey::All {
            while inner.positions.front().is_some_and(|position| *position < first) {
                inner.positions.pop_front();
            }
            if inner.positions.back() != Some(&sequence) {
                inner.positions.push_back(sequence);
            }
        }
        if !std::mem::replace(&mut inner.is_waking, true) {
            lanes_to_wake.push(Arc::clone(self));
        }
    }
}

/// Lanes of one resource.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    all: Option<Arc<Lane>>,
    namespaces: BTreeMap<Box<str>, Arc<Lane>>,
    names: BTreeMap<Box<str>, Arc<Lane>>,
    fields: BTreeMap<Box<str>, BTreeMap<Box<str>, Arc<Lane>>>,
}

impl Lanes {
    /// Takes a slot in a lane, which is created if necessary. `end` is the sequence number of the next
    /// event.
    pub fn register(&mut self, key: LaneKey, end: u64) -> (Arc<Lane>, usize) {
        let new_lane = || {
            let inner = Mutex::new(Inner { complete_from: end, ..Inner::default() });
            Arc::new(Lane { key: key.clone(), inner })
        };
        let lane = match key.clone() {
            LaneKey::All => self.all.get_or_insert_with(new_lane),
            LaneKey::Namespace(namespace) => self.namespaces.entry(namespace).or_insert_with(new_lane),
            LaneKey::Name(name) => self.names.entry(name).or_insert_with(new_lane),
            LaneKey::Field(field, value) => {
                self.fields.entry(field).or_default().entry(value).or_insert_with(new_lane)
            }
        };
        (Arc::clone(lane), lane.register())
    }

    /// Frees a slot. The lane is removed with its last cursor.
    pub fn unregister(&mut self, lane: &Lane, slot: usize) {
        if !lane.unregister(slot) {
            return;
        }
        match &lane.key {
            LaneKey::All => self.all = None,
            LaneKey::Namespace(namespace) => drop(self.namespaces.remove(namespace)),
            LaneKey::Name(name) => drop(self.names.remove(name)),
            LaneKey::Field(field, value) => {
                if let Some(values) = self.fields.get_mut(field) {
                    values.remove(value);
                    if values.is_empty() {
                        self.fields.remove(field);
                    }
                }
            }
        }
    }

    /// Records an event in every lane that it concerns.
    pub fn record_event(
        &self,
        event: &RingEvent,
        sequence: u64,
        first: u64,
        lanes_to_wake: &mut Vec<Arc<Lane>>,
    ) {
        let mut record = |lane: Option<&Arc<Lane>>| {
            if let Some(lane) = lane {
                lane.record_event(sequence, first, lanes_to_wake);
            }
        };
        record(self.all.as_ref());
        if !self.namespaces.is_empty() {
            record(event.after.namespace().and_then(|namespace| self.namespaces.get(namespace)));
        }
        if !self.names.is_empty() {
            record(self.names.get(event.after.name()));
        }
        if self.fields.is_empty() {
            return;
        }
        let before = event.before.as_ref().map(Record::attributes);
        let after = Some(&event.after).filter(|after| !after.is_tombstone()).map(Record::attributes);
        for (field, values) in &self.fields {
            let old = before.as_ref().and_then(|attributes| attributes.field(field));
            let new = after.as_ref().and_then(|attributes| attributes.field(field));
            record(old.and_then(|value| values.get(value)));
            if new != old {
                record(new.and_then(|value| values.get(value)));
            }
        }
    }
}
