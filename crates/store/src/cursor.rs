//! Watch cursors.
//!
//! A [`Cursor`] is a position in the ring of one resource, with a filter. It has no queue of its own: unread
//! events are in the ring, which all cursors share. Its guarantees, which `setpoint_sim::watch` checks:
//!
//! - *ordered*: revisions increase from event to event;
//! - *unique*: no event is delivered twice;
//! - *gapless*: every change that passes the filter is delivered, or the cursor fails with [`Compacted`];
//! - *atomic*: a commit is visible to readers before any cursor delivers it;
//! - *resumable*: a new cursor after the last delivered revision continues exactly there;
//! - *bookmarkable*: [`Cursor::position`] never exceeds the last delivered revision.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use setpoint_api::{Resource, Revision};

use crate::lane::{Lane, LaneKey};
use crate::record::Record;
use crate::ring::{Compacted, RingEvent};
use crate::store::Shared;

/// Selector over an object's labels and fields.
pub trait RecordSelector: Send + Sync {
    /// `true` if the selector matches the object.
    fn matches(&self, record: &Record) -> bool;
}

impl<F: Fn(&Record) -> bool + Send + Sync> RecordSelector for F {
    fn matches(&self, record: &Record) -> bool {
        self(record)
    }
}

/// Filter of a cursor. A cursor with a field or a name wakes up only for events with that value, one with a
/// namespace only for events of that namespace.
#[derive(Clone, Default)]
pub struct WatchFilter {
    /// Namespace that objects must have.
    pub namespace: Option<String>,
    /// Name that objects must have.
    pub name: Option<String>,
    /// Field and the value that objects must have.
    pub field: Option<(String, String)>,
    /// Selector that must match.
    pub selector: Option<Arc<dyn RecordSelector>>,
}

impl WatchFilter {
    /// `true` if an object passes the filter.
    #[must_use]
    pub fn matches(&self, record: &Record) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| record.namespace() == Some(namespace))
            && self.name.as_deref().is_none_or(|name| record.name() == name)
            && self
                .field
                .as_ref()
                .is_none_or(|(field, value)| record.attributes().field(field) == Some(value))
            && self.selector.as_ref().is_none_or(|selector| selector.matches(record))
    }

    /// Returns the event as seen through the filter, `None` if neither version passes.
    fn event(&self, event: &RingEvent) -> Option<WatchEvent> {
        let matched = event.before.as_ref().is_some_and(|before| self.matches(before));
        let matches = !event.after.is_tombstone() && self.matches(&event.after);
        let event_type = match (matched, matches) {
            (false, true) => WatchEventType::Added,
            (true, true) => WatchEventType::Modified,
            (true, false) => WatchEventType::Deleted,
            (false, false) => return None,
        };
        Some(WatchEvent { event_type, before: event.before.clone(), after: event.after.clone() })
    }

    fn lane_key(&self) -> LaneKey {
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

/// Kind of a change as seen through a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEventType {
    /// The object was created, or began to pass the filter.
    Added,
    /// The object changed and passed the filter before and after.
    Modified,
    /// The object was deleted, or ceased to pass the filter.
    Deleted,
}

/// Delivered change.
#[derive(Clone, Debug)]
pub struct WatchEvent {
    /// Kind of the change, through the cursor's filter.
    pub event_type: WatchEventType,
    /// Version before the change.
    pub before: Option<Record>,
    /// Version after the change, or the tombstone.
    pub after: Record,
}

impl WatchEvent {
    /// Revision of the commit.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.after.revision()
    }

    /// Returns the value for the watch event: the new one, or for `Deleted` the last one that passed the
    /// filter, with the new revision.
    #[must_use]
    pub fn value(&self) -> Bytes {
        match (&self.before, self.event_type) {
            (Some(before), WatchEventType::Deleted) if !self.after.is_tombstone() => {
                before.value_at(self.revision())
            }
            _ => self.after.value(),
        }
    }
}

/// Position of a watch in the events of one resource.
pub struct Cursor {
    shared: Arc<Shared>,
    ring: usize,
    lane: Arc<Lane>,
    lane_slot: usize,
    filter: WatchFilter,
    /// Sequence number of the next event to examine.
    next: u64,
    position: Revision,
}

impl Cursor {
    /// Opens a cursor after `revision`, or after the current one if `None`.
    pub(crate) fn open(
        shared: &Arc<Shared>,
        resource: &Resource,
        filter: WatchFilter,
        after: Option<Revision>,
    ) -> Result<Cursor, Compacted> {
        let mut published = shared.published.write();
        let position = after.unwrap_or_else(|| published.snapshot.revision());
        let ring = published.rings.ring_id(resource);
        let opened = published.rings.ring_mut(ring);
        let next = opened.seek(position)?;
        let end = opened.end();
        let (lane, lane_slot) = opened.lanes.register(filter.lane_key(), end);
        drop(published);
        Ok(Cursor { shared: Arc::clone(shared), ring, lane, lane_slot, filter, next, position })
    }

    /// Revision up to which everything has been delivered, and thus the revision of a bookmark.
    #[must_use]
    pub fn position(&self) -> Revision {
        self.position
    }

    /// Sequence number of the next event to examine. Cursors of one resource with equal filters deliver the
    /// same events from the same sequence number.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.next
    }

    /// Moves to the sequence number and position that another cursor of the same resource, with an equal
    /// filter, has reached from here. The caller has delivered the events between.
    pub fn skip_to(&mut self, sequence: u64, position: Revision) {
        debug_assert!(sequence >= self.next, "a cursor only moves forward");
        (self.next, self.position) = (sequence, self.position.max(position));
    }

    /// Returns the next event, if there is one.
    ///
    /// # Errors
    /// [`Compacted`] if events were dropped that this cursor had not examined; the client must list again.
    pub fn try_next(&mut self) -> Result<Option<WatchEvent>, Compacted> {
        self.advance(None)
    }

    /// Returns the next event, or registers the task's waker for the next event that may pass the filter.
    ///
    /// # Errors
    /// [`Compacted`] as above.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<WatchEvent, Compacted>> {
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
    pub async fn next(&mut self) -> Result<WatchEvent, Compacted> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    fn advance(&mut self, waker: Option<&Waker>) -> Result<Option<WatchEvent>, Compacted> {
        let shared = Arc::clone(&self.shared);
        let published = shared.published.read();
        let ring = published.rings.ring(self.ring);
        loop {
            // Compaction may have dropped events between here and the next position of the lane, so check
            // before skipping them.
            ring.get(self.next)?;
            self.next = self.lane.next_position(self.next, ring.end());
            let Some(event) = ring.get(self.next)? else {
                // Publishing takes the lock that is held here, so the next event finds the waker.
                if let Some(waker) = waker {
                    self.lane.wait(self.lane_slot, waker);
                }
                self.position = self.position.max(published.snapshot.revision());
                return Ok(None);
            };
            self.next += 1;
            // A cursor may start after a future revision.
            if event.revision <= self.position {
                continue;
            }
            self.position = event.revision;
            if let Some(event) = self.filter.event(event) {
                return Ok(Some(event));
            }
        }
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        let mut published = self.shared.published.write();
        published.rings.ring_mut(self.ring).lanes.unregister(&self.lane, self.lane_slot);
    }
}
