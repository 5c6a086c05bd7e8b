//! Lanes: watcher wakeup index from namespaces, names and field values to cursors.
//!
//! A cursor waits in one lane of its resource: all events, or those of one namespace, one name, or one value
//! of one field. A lane exists while it has cursors. It records the ring positions of its events, so that a
//! cursor that wakes up skips all others. All cursors of the lane share the positions, of which there are at
//! most as many as events in the ring.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use parking_lot::Mutex;

use crate::record::Record;
use crate::ring::Happening;

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
    /// Sequence number from which on `hits` is complete.
    since: u64,
    /// Sequence numbers of the lane's events; unused in the lane of all events.
    hits: VecDeque<u64>,
    /// Slot per cursor, with its waker while it waits.
    places: Vec<Option<Waker>>,
    free: Vec<usize>,
    /// `true` if the lane is already in the list of lanes to wake.
    touched: bool,
}

impl Lane {
    /// Returns the first event at or after `sequence` that may belong to this lane; `end` if there is none.
    pub fn next_hit(&self, sequence: u64, end: u64) -> u64 {
        if self.key == LaneKey::All {
            return sequence;
        }
        let inner = self.inner.lock();
        if sequence < inner.since {
            return sequence;
        }
        inner.hits.get(inner.hits.partition_point(|hit| *hit < sequence)).copied().unwrap_or(end)
    }

    /// Registers a waker in a cursor's slot.
    pub fn wait(&self, place: usize, waker: &Waker) {
        let slot = &mut self.inner.lock().places[place];
        if !slot.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *slot = Some(waker.clone());
        }
    }

    /// Takes all wakers.
    pub fn take_wakers(&self, into: &mut Vec<Waker>) {
        let mut inner = self.inner.lock();
        inner.touched = false;
        into.extend(inner.places.iter_mut().filter_map(Option::take));
    }

    fn enter(&self) -> usize {
        let mut inner = self.inner.lock();
        match inner.free.pop() {
            Some(place) => place,
            None => {
                inner.places.push(None);
                inner.places.len() - 1
            }
        }
    }

    /// Frees a slot. Returns `true` if it was the last one.
    fn leave(&self, place: usize) -> bool {
        let mut inner = self.inner.lock();
        inner.places[place] = None;
        inner.free.push(place);
        inner.free.len() == inner.places.len()
    }

    /// Records an event, and adds the lane to `woken`. `first` is the oldest event of the ring.
    fn touch(self: &Arc<Lane>, sequence: u64, first: u64, woken: &mut Vec<Arc<Lane>>) {
        let mut inner = self.inner.lock();
        if self.key != LaneKey::All {
            while inner.hits.front().is_some_and(|hit| *hit < first) {
                inner.hits.pop_front();
            }
            if inner.hits.back() != Some(&sequence) {
                inner.hits.push_back(sequence);
            }
        }
        if !std::mem::replace(&mut inner.touched, true) {
            woken.push(Arc::clone(self));
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
    pub fn enter(&mut self, key: LaneKey, end: u64) -> (Arc<Lane>, usize) {
        let make = || {
            let inner = Mutex::new(Inner { since: end, ..Inner::default() });
            Arc::new(Lane { key: key.clone(), inner })
        };
        let lane = match key.clone() {
            LaneKey::All => self.all.get_or_insert_with(make),
            LaneKey::Namespace(namespace) => self.namespaces.entry(namespace).or_insert_with(make),
            LaneKey::Name(name) => self.names.entry(name).or_insert_with(make),
            LaneKey::Field(field, value) => {
                self.fields.entry(field).or_default().entry(value).or_insert_with(make)
            }
        };
        (Arc::clone(lane), lane.enter())
    }

    /// Frees a slot. The lane is removed with its last cursor.
    pub fn leave(&mut self, lane: &Lane, place: usize) {
        if !lane.leave(place) {
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
    pub fn touch(&self, event: &Happening, sequence: u64, first: u64, woken: &mut Vec<Arc<Lane>>) {
        let mut tell = |lane: Option<&Arc<Lane>>| {
            if let Some(lane) = lane {
                lane.touch(sequence, first, woken);
            }
        };
        tell(self.all.as_ref());
        if !self.namespaces.is_empty() {
            tell(event.after.namespace().and_then(|namespace| self.namespaces.get(namespace)));
        }
        if !self.names.is_empty() {
            tell(self.names.get(event.after.name()));
        }
        if self.fields.is_empty() {
            return;
        }
        let before = event.before.as_ref().map(Record::tags);
        let after = Some(&event.after).filter(|after| !after.is_tombstone()).map(Record::tags);
        for (field, values) in &self.fields {
            let old = before.as_ref().and_then(|tags| tags.field(field));
            let new = after.as_ref().and_then(|tags| tags.field(field));
            tell(old.and_then(|value| values.get(value)));
            if new != old {
                tell(new.and_then(|value| values.get(value)));
            }
        }
    }
}
