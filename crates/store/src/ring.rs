//! Rings: recent events of each resource, shared by all its cursors.
//!
//! An event holds the version that a write replaced and the version that it put. A ring therefore serves
//! three purposes: it feeds watches, it holds the recent versions of each key, and it rewinds the current
//! snapshot to an earlier revision.
//!
//! Events are evicted oldest first, when they exceed the budget of bytes or age. A ring's `floor` is the
//! revision of the last evicted event. See `lane.rs` for an example.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use setpoint_api::{Key, Resource, Revision, Time};
use thiserror::Error;

use crate::lane::{Lane, Lanes};
use crate::mirror::Snapshot;
use crate::pins::{Origin, Pins};
use crate::record::Record;
use crate::retention::Retention;

/// Error for a revision whose history has been compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("revisions before {floor} have been compacted")]
pub struct Compacted {
    /// Oldest revision that is available.
    pub floor: Revision,
}

/// Effect of one write on one key.
#[derive(Clone, Debug)]
pub(crate) struct RingEvent {
    pub before: Option<Record>,
    pub after: Record,
    /// Copy of the revision, so that a search follows no pointers.
    pub revision: Revision,
    /// Bytes of memory that the event keeps alive, as counted when it was added: records may be packed
    /// later.
    bytes: usize,
}

/// Events of one resource.
#[derive(Debug)]
pub(crate) struct Ring {
    resource: Resource,
    events: VecDeque<RingEvent>,
    /// Sequence number of the first event in `events`.
    first: u64,
    floor: Revision,
    exempt: bool,
    bytes: usize,
    pub lanes: Lanes,
}

impl Ring {
    /// Sequence number of the next event.
    pub fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Returns the sequence number of the first event after `revision`.
    pub fn seek(&self, revision: Revision) -> Result<u64, Compacted> {
        if revision < self.floor {
            return Err(Compacted { floor: self.floor });
        }
        Ok(self.first + self.events.partition_point(|event| event.revision <= revision) as u64)
    }

    /// Returns the event with a sequence number; `None` if it is in the future.
    pub fn get(&self, sequence: u64) -> Result<Option<&RingEvent>, Compacted> {
        match sequence.checked_sub(self.first) {
            Some(index) => Ok(self.events.get(usize::try_from(index).unwrap_or(usize::MAX))),
            None => Err(Compacted { floor: self.floor }),
        }
    }

    fn newer_than(&self, revision: Revision) -> impl Iterator<Item = &RingEvent> {
        self.events.iter().rev().take_while(move |event| event.revision > revision)
    }

    fn pop(&mut self) -> usize {
        let Some(event) = self.events.pop_front() else { return 0 };
        self.first += 1;
        self.floor = event.revision;
        self.bytes -= event.bytes;
        event.bytes
    }
}

/// Bytes that an event keeps alive: the version that it replaced, or its tombstone.
fn retained_bytes(before: Option<&Record>, after: &Record) -> usize {
    let before = before.map_or(0, Record::bytes);
    let tombstone = if after.is_tombstone() { after.bytes() } else { 0 };
    before + tombstone + size_of::<RingEvent>()
}

/// All rings, and the budget that they share.
#[derive(Debug)]
pub(crate) struct Rings {
    rings: Vec<Ring>,
    index: BTreeMap<Resource, usize>,
    /// Revision at which the rings began: they hold nothing before it.
    base: Revision,
    /// Ring and time of each event under the shared budget, in commit order.
    order: VecDeque<(u32, Time)>,
    bytes: usize,
    retention: Retention,
    /// Bytes that have been evicted so far.
    evicted_bytes: u64,
    /// Time of the newest event or maintenance.
    newest_time: Time,
    pins: Pins,
}

impl Rings {
    pub fn new(base: Revision, retention: Retention) -> Rings {
        Rings {
            rings: Vec::new(),
            index: BTreeMap::new(),
            base,
            order: VecDeque::new(),
            bytes: 0,
            retention,
            evicted_bytes: 0,
            newest_time: Time(i64::MIN / 2),
            pins: Pins::default(),
        }
    }

    /// Pins a past state.
    pub fn pin(&mut self, snapshot: Snapshot, origin: Origin, now: Time) {
        self.pins.push(snapshot, origin, now, self.evicted_bytes);
    }

    /// Returns the time of the newest event or maintenance.
    pub fn newest_time(&self) -> Time {
        self.newest_time
    }

    /// Returns the state at `revision`, if it is pinned.
    pub fn pinned(&self, revision: Revision) -> Option<&Snapshot> {
        self.pins.get(revision)
    }

    /// Returns the id of a resource's ring, which is created if necessary.
    pub fn ring_id(&mut self, resource: &Resource) -> usize {
        if let Some(id) = self.index.get(resource) {
            return *id;
        }
        self.index.insert(resource.clone(), self.rings.len());
        self.rings.push(Ring {
            resource: resource.clone(),
            events: VecDeque::new(),
            first: 0,
            floor: self.base,
            exempt: self.retention.exempt.contains(resource),
            bytes: 0,
            lanes: Lanes::default(),
        });
        self.rings.len() - 1
    }

    pub fn ring(&self, id: usize) -> &Ring {
        &self.rings[id]
    }

    pub fn ring_mut(&mut self, id: usize) -> &mut Ring {
        &mut self.rings[id]
    }

    /// Adds the event of a write, and adds the lanes that it concerns to `lanes_to_wake`.
    pub fn push(
        &mut self,
        resource: &Resource,
        before: Option<Record>,
        after: Record,
        lanes_to_wake: &mut Vec<Arc<Lane>>,
    ) {
        let id = self.ring_id(resource);
        let (revision, time) = (after.revision(), after.time());
        let bytes = retained_bytes(before.as_ref(), &after);
        let event = RingEvent { before, after, revision, bytes };
        let ring = &mut self.rings[id];
        ring.lanes.record_event(&event, ring.end(), ring.first, lanes_to_wake);
        ring.bytes += bytes;
        ring.events.push_back(event);
        if ring.exempt {
            while ring.bytes > self.retention.exempt_bytes {
                ring.pop();
            }
        } else {
            self.bytes += bytes;
            self.order.push_back((id as u32, time));
        }
        self.evict(time);
    }

    /// Evicts events that exceed the budget of bytes or age.
    pub fn evict(&mut self, now: Time) {
        let oldest = now.before(self.retention.hot_age);
        while let Some((id, time)) = self.order.front().copied()
            && (self.bytes > self.retention.hot_bytes || time < oldest)
        {
            self.order.pop_front();
            let bytes = self.rings[id as usize].pop();
            self.bytes -= bytes;
            self.evicted_bytes += bytes as u64;
        }
        self.newest_time = now;
        self.pins.trim(now, self.evicted_bytes);
    }

    /// Drops all events up to `revision`.
    pub fn compact(&mut self, revision: Revision) {
        self.pins = Pins::default();
        while let Some((id, _)) = self.order.front().copied()
            && self.rings[id as usize].events.front().is_some_and(|event| event.revision <= revision)
        {
            self.order.pop_front();
            self.bytes -= self.rings[id as usize].pop();
        }
        for ring in &mut self.rings {
            while ring.events.front().is_some_and(|event| event.revision <= revision) {
                ring.pop();
            }
            ring.floor = ring.floor.max(revision);
        }
        self.base = self.base.max(revision);
    }

    /// Oldest revision that the rings cover completely, except for resources that are exempt from history.
    pub fn floor(&self) -> Revision {
        let floors = self.rings.iter().filter(|ring| !ring.exempt).map(|ring| ring.floor);
        floors.fold(self.base, Revision::max)
    }

    /// Rewinds `snapshot`, the current state, to `revision`. Removes exempt resources whose past state is
    /// unknown.
    pub fn rewind(&self, snapshot: &mut Snapshot, revision: Revision) -> Result<(), Compacted> {
        if revision < self.floor() {
            return Err(Compacted { floor: self.floor() });
        }
        for ring in &self.rings {
            if ring.floor > revision {
                snapshot.drop_table(&ring.resource);
                continue;
            }
            for event in ring.newer_than(revision) {
                snapshot.undo(&ring.resource, event.before.as_ref(), &event.after);
            }
        }
        snapshot.set_revision(revision);
        Ok(())
    }

    /// Returns the version of `key` at `revision`, given its current version.
    pub fn version(
        &self,
        key: &Key,
        current: Option<&Record>,
        revision: Revision,
    ) -> Result<Option<Record>, Compacted> {
        let Some(id) = self.index.get(key.resource()) else {
            let is_covered = revision >= self.base;
            return if is_covered { Ok(current.cloned()) } else { Err(Compacted { floor: self.base }) };
        };
        let ring = &self.rings[*id];
        if revision < ring.floor {
            return Err(Compacted { floor: ring.floor });
        }
        // Follow the versions back. At the creation of the key, continue with the deletion before it, if
        // any.
        let (mut version, mut end) = (current.cloned(), ring.events.len());
        loop {
            let event = match &version {
                Some(record) if record.revision() <= revision => return Ok(version),
                Some(record) => {
                    ring.events.binary_search_by_key(&record.revision(), |event| event.revision).ok()
                }
                None => {
                    let start = ring.events.partition_point(|event| event.revision <= revision);
                    (start..end).rev().find(|at| ring.events[*at].after.path_bytes() == key.path().as_bytes())
                }
            };
            let Some(at) = event else { return Ok(None) };
            (version, end) = (ring.events[at].before.clone(), at);
        }
    }

    /// Bytes that the rings keep alive.
    pub fn bytes(&self) -> usize {
        self.rings.iter().map(|ring| ring.bytes).sum()
    }
}
