//! Following changes.
//!
//! A [`Cursor`] is a position in the ring of one resource, and a filter. It owns no queue: what it has not
//! read yet lies in the ring, once for all cursors. What it promises, and what `setpoint_sim::watch` checks:
//!
//! - *ordered*: revisions rise from event to event;
//! - *unique*: no event comes twice;
//! - *gapless*: every change that passes the filter comes, or the cursor says [`Compacted`] and ends;
//! - *atomic*: what a commit changed is visible to readers before any cursor delivers it;
//! - *resumable*: a new cursor after the last revision goes on exactly there;
//! - *bookmarkable*: [`Cursor::position`] never runs ahead of what was delivered.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use setpoint_api::{Resource, Revision};

use crate::lane::{Lane, LaneKey};
use crate::record::Record;
use crate::ring::{Compacted, Happening};
use crate::store::Shared;

/// Decides by an object's labels and fields whether a cursor wants it.
pub trait Select: Send + Sync {
    /// Whether it does.
    fn selects(&self, record: &Record) -> bool;
}

impl<F: Fn(&Record) -> bool + Send + Sync> Select for F {
    fn selects(&self, record: &Record) -> bool {
        self(record)
    }
}

/// What a cursor wants to see. A field or a name makes it wake only for that value; a namespace only for that
/// namespace.
#[derive(Clone, Default)]
pub struct Filter {
    /// Only objects of this namespace.
    pub namespace: Option<String>,
    /// Only objects of this name.
    pub name: Option<String>,
    /// Only objects whose field has this value.
    pub field: Option<(String, String)>,
    /// Only objects that this selects.
    pub select: Option<Arc<dyn Select>>,
}

impl Filter {
    /// Whether an object passes.
    #[must_use]
    pub fn passes(&self, record: &Record) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| record.namespace() == Some(namespace))
            && self.name.as_deref().is_none_or(|name| record.name() == name)
            && self.field.as_ref().is_none_or(|(field, value)| record.tags().field(field) == Some(value))
            && self.select.as_ref().is_none_or(|select| select.selects(record))
    }

    /// What an event is to someone who looks through this filter.
    fn event(&self, happening: &Happening) -> Option<Event> {
        let was = happening.before.as_ref().is_some_and(|before| self.passes(before));
        let is = !happening.after.is_tombstone() && self.passes(&happening.after);
        let change = match (was, is) {
            (false, true) => Change::Added,
            (true, true) => Change::Modified,
            (true, false) => Change::Deleted,
            (false, false) => return None,
        };
        Some(Event { change, before: happening.before.clone(), after: happening.after.clone() })
    }

    fn lane(&self) -> LaneKey {
        if let Some((field, value)) = &self.field {
            LaneKey::Field(field.as_str().into(), value.as_str().into())
        } else if let Some(name) = &self.name {
            LaneKey::Name(name.as_str().into())
        } else if let Some(namespace) = &self.namespace {
            LaneKey::Namespace(namespace.as_str().into())
        } else {
            LaneKey::All
        }
    }
}

/// What a change is to the filter it was seen through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// An object came into sight: it was created, or began to pass.
    Added,
    /// An object in sight changed.
    Modified,
    /// An object went out of sight: it was deleted, or ceased to pass.
    Deleted,
}

/// One delivered change.
#[derive(Clone, Debug)]
pub struct Event {
    /// What it means to this cursor.
    pub change: Change,
    /// The version it replaced.
    pub before: Option<Record>,
    /// The version it put, or the tombstone.
    pub after: Record,
}

impl Event {
    /// The revision of the commit.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.after.revision()
    }

    /// The value to show: the new one, or the last one that was in sight under the new revision.
    #[must_use]
    pub fn value(&self) -> Bytes {
        match (&self.before, self.change) {
            (Some(before), Change::Deleted) if !self.after.is_tombstone() => before.value_at(self.revision()),
            _ => self.after.value(),
        }
    }
}

/// A place in the stream of changes of one resource.
pub struct Cursor {
    shared: Arc<Shared>,
    ring: usize,
    lane: Arc<Lane>,
    lane_place: usize,
    filter: Filter,
    /// The sequence number of the next event to look at.
    next: u64,
    position: Revision,
}

impl Cursor {
    /// Follows `resource` from after `revision`; from after the newest if none is given.
    pub(crate) fn open(
        shared: &Arc<Shared>,
        resource: &Resource,
        filter: Filter,
        after: Option<Revision>,
    ) -> Result<Cursor, Compacted> {
        let mut published = shared.published.write();
        let position = after.unwrap_or_else(|| published.snapshot.revision());
        let ring = published.rings.number(resource);
        let found = published.rings.ring_mut(ring);
        let next = found.seek(position)?;
        let end = found.end();
        let (lane, lane_place) = found.lanes.enter(filter.lane(), end);
        drop(published);
        Ok(Cursor { shared: Arc::clone(shared), ring, lane, lane_place, filter, next, position })
    }

    /// Up to which revision everything has been delivered. A bookmark may say this and no more.
    #[must_use]
    pub fn position(&self) -> Revision {
        self.position
    }

    /// Place in the ring: the number of the next event to look at. Cursors of one resource with equal filters deliver
    /// the same events from the same place.
    #[must_use]
    pub fn place(&self) -> u64 {
        self.next
    }

    /// Goes on at the place and position that another cursor of the same resource, with an equal filter, has reached
    /// from this place. The caller has delivered what lies between.
    pub fn skip_to(&mut self, place: u64, position: Revision) {
        debug_assert!(place >= self.next, "a cursor does not go back");
        (self.next, self.position) = (place, self.position.max(position));
    }

    /// The next event, if there is one already.
    ///
    /// # Errors
    /// [`Compacted`] if events were dropped that this cursor had not seen: it must start again from a list.
    pub fn try_next(&mut self) -> Result<Option<Event>, Compacted> {
        self.advance(None)
    }

    /// The next event, or a promise to wake the task when there may be one.
    ///
    /// # Errors
    /// [`Compacted`] as above.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Event, Compacted>> {
        match self.advance(Some(context.waker())) {
            Ok(Some(event)) => Poll::Ready(Ok(event)),
            Ok(None) => Poll::Pending,
            Err(compacted) => Poll::Ready(Err(compacted)),
        }
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// [`Compacted`] as above.
    pub async fn next(&mut self) -> Result<Event, Compacted> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    fn advance(&mut self, waker: Option<&Waker>) -> Result<Option<Event>, Compacted> {
        let shared = Arc::clone(&self.shared);
        let published = shared.published.read();
        let ring = published.rings.ring(self.ring);
        loop {
            // Compaction may have passed what lies between here and the next hit: look before leaping.
            ring.get(self.next)?;
            self.next = self.lane.next_hit(self.next, ring.end());
            let Some(happening) = ring.get(self.next)? else {
                // Whoever publishes next takes the lock we hold, and finds the waker.
                if let Some(waker) = waker {
                    self.lane.wait(self.lane_place, waker);
                }
                self.position = self.position.max(published.snapshot.revision());
                return Ok(None);
            };
            self.next += 1;
            // A cursor may start after a revision that is yet to come.
            if happening.revision <= self.position {
                continue;
            }
            self.position = happening.revision;
            if let Some(event) = self.filter.event(happening) {
                return Ok(Some(event));
            }
        }
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        let mut published = self.shared.published.write();
        published.rings.ring_mut(self.ring).lanes.leave(&self.lane, self.lane_place);
    }
}
