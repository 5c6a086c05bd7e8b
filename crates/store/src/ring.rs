//! The recent past, once for all who follow it.
//!
//! Every resource has a ring of events. An event holds what a write replaced and what it put; that makes the
//! ring three things at once: what watches deliver, the recent versions of each key, and the way back from the
//! newest snapshot to an earlier one.
//!
//! Events leave the rings oldest first, when they are over the budget of bytes or too old. A ring's `floor` is
//! the last revision it can no longer tell about.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use setpoint_api::{Key, Resource, Revision, Time};
use thiserror::Error;

use crate::lane::{Lane, Lanes};
use crate::mirror::Snapshot;
use crate::pins::{Origin, Pins};
use crate::record::Record;
use crate::retention::Retention;

/// A revision that the past no longer reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("revisions before {floor} have been compacted")]
pub struct Compacted {
    /// The oldest revision that can be asked for.
    pub floor: Revision,
}

/// What one write did to one key.
#[derive(Clone, Debug)]
pub(crate) struct Happening {
    pub before: Option<Record>,
    pub after: Record,
    /// The revision again, so that a search does not follow pointers.
    pub revision: Revision,
    /// Bytes of memory that it keeps, as they were when it came: records may be packed later.
    bytes: usize,
}

/// The events of one resource.
#[derive(Debug)]
pub(crate) struct Ring {
    resource: Resource,
    events: VecDeque<Happening>,
    /// The sequence number of the first event in `events`.
    first: u64,
    floor: Revision,
    exempt: bool,
    bytes: usize,
    pub lanes: Lanes,
}

impl Ring {
    /// The sequence number that the next event will have.
    pub fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// The sequence number of the first event after `revision`.
    pub fn seek(&self, revision: Revision) -> Result<u64, Compacted> {
        if revision < self.floor {
            return Err(Compacted { floor: self.floor });
        }
        Ok(self.first + self.events.partition_point(|event| event.revision <= revision) as u64)
    }

    /// The event with a sequence number; nothing if it is yet to come.
    pub fn get(&self, sequence: u64) -> Result<Option<&Happening>, Compacted> {
        match sequence.checked_sub(self.first) {
            Some(index) => Ok(self.events.get(usize::try_from(index).unwrap_or(usize::MAX))),
            None => Err(Compacted { floor: self.floor }),
        }
    }

    fn newer_than(&self, revision: Revision) -> impl Iterator<Item = &Happening> {
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

/// What an event keeps in memory that would otherwise be gone: the version it replaced, or its tombstone.
fn cost(before: Option<&Record>, after: &Record) -> usize {
    let before = before.map_or(0, Record::bytes);
    let tombstone = if after.is_tombstone() { after.bytes() } else { 0 };
    before + tombstone + size_of::<Happening>()
}

/// All rings, and the budget they share.
#[derive(Debug)]
pub(crate) struct Rings {
    rings: Vec<Ring>,
    index: BTreeMap<Resource, usize>,
    /// Where the rings began: nothing is known of revisions before it.
    base: Revision,
    /// In which order events came to rings that share the budget.
    order: VecDeque<(u32, Time)>,
    bytes: usize,
    retention: Retention,
    /// Bytes that the budget has dropped so far.
    dropped: u64,
    /// Time of the newest event or maintenance.
    newest: Time,
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
            dropped: 0,
            newest: Time(i64::MIN / 2),
            pins: Pins::default(),
        }
    }

    /// Keeps a past state at hand.
    pub fn pin(&mut self, snapshot: Snapshot, origin: Origin, now: Time) {
        self.pins.push(snapshot, origin, now, self.dropped);
    }

    /// Returns the time of the newest event or maintenance.
    pub fn newest_time(&self) -> Time {
        self.newest
    }

    /// Returns the state at `revision`, if it is at hand.
    pub fn pinned(&self, revision: Revision) -> Option<&Snapshot> {
        self.pins.get(revision)
    }

    /// The number of a resource's ring, which is made if need be.
    pub fn number(&mut self, resource: &Resource) -> usize {
        if let Some(number) = self.index.get(resource) {
            return *number;
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

    pub fn ring(&self, number: usize) -> &Ring {
        &self.rings[number]
    }

    pub fn ring_mut(&mut self, number: usize) -> &mut Ring {
        &mut self.rings[number]
    }

    /// Adds what a write did, and notes in `woken` whom it concerns.
    pub fn push(
        &mut self,
        resource: &Resource,
        before: Option<Record>,
        after: Record,
        woken: &mut Vec<Arc<Lane>>,
    ) {
        let number = self.number(resource);
        let (revision, time) = (after.revision(), after.time());
        let bytes = cost(before.as_ref(), &after);
        let event = Happening { before, after, revision, bytes };
        let ring = &mut self.rings[number];
        ring.lanes.touch(&event, ring.end(), ring.first, woken);
        ring.bytes += bytes;
        ring.events.push_back(event);
        if ring.exempt {
            while ring.bytes > self.retention.exempt_bytes {
                ring.pop();
            }
        } else {
            self.bytes += bytes;
            self.order.push_back((number as u32, time));
        }
        self.evict(time);
    }

    /// Drops what is over the budget or too old.
    pub fn evict(&mut self, now: Time) {
        let oldest = now.before(self.retention.hot_age);
        while let Some((number, time)) = self.order.front().copied()
            && (self.bytes > self.retention.hot_bytes || time < oldest)
        {
            self.order.pop_front();
            let bytes = self.rings[number as usize].pop();
            self.bytes -= bytes;
            self.dropped += bytes as u64;
        }
        self.newest = now;
        self.pins.trim(now, self.dropped);
    }

    /// Drops everything up to `revision`.
    pub fn compact(&mut self, revision: Revision) {
        self.pins = Pins::default();
        while let Some((number, _)) = self.order.front().copied()
            && self.rings[number as usize].events.front().is_some_and(|event| event.revision <= revision)
        {
            self.order.pop_front();
            self.bytes -= self.rings[number as usize].pop();
        }
        for ring in &mut self.rings {
            while ring.events.front().is_some_and(|event| event.revision <= revision) {
                ring.pop();
            }
            ring.floor = ring.floor.max(revision);
        }
        self.base = self.base.max(revision);
    }

    /// The oldest revision of which everything is known, but for what is exempt from history.
    pub fn floor(&self) -> Revision {
        let kept = self.rings.iter().filter(|ring| !ring.exempt).map(|ring| ring.floor);
        kept.fold(self.base, Revision::max)
    }

    /// Takes `snapshot`, the newest state, back to `revision`. What is exempt from history and cannot be known
    /// is left out.
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

    /// What `key` held at `revision`, given what it holds now.
    pub fn version(
        &self,
        key: &Key,
        now: Option<&Record>,
        revision: Revision,
    ) -> Result<Option<Record>, Compacted> {
        let Some(number) = self.index.get(key.resource()) else {
            let known = revision >= self.base;
            return if known { Ok(now.cloned()) } else { Err(Compacted { floor: self.base }) };
        };
        let ring = &self.rings[*number];
        if revision < ring.floor {
            return Err(Compacted { floor: ring.floor });
        }
        // Follow the versions back; where the key was created, go on with the deletion before that, if any.
        let (mut version, mut end) = (now.cloned(), ring.events.len());
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

    /// How many bytes the rings hold that would otherwise be gone.
    pub fn bytes(&self) -> usize {
        self.rings.iter().map(|ring| ring.bytes).sum()
    }
}
