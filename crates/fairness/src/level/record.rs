//! Requests of a priority level, by position.

use std::time::Duration;

use super::fair_queues::QueueSlot;
use crate::seats::SeatSeconds;
use crate::work::WorkEstimate;

/// Request that waits or executes in a [`super::Level`]. It is consumed when the request leaves the level.
#[derive(Debug, PartialEq, Eq)]
pub struct RequestId(pub(super) u32);

#[derive(Clone, Debug)]
pub(super) struct RequestRecord<W> {
    /// Position of the statistics of its FlowSchema.
    pub schema: usize,
    /// Queue that it waited in; `None` without queues.
    pub queue: Option<QueueSlot>,
    pub estimate: WorkEstimate,
    pub total_work: SeatSeconds,
    pub arrived_at: Duration,
    /// Progress of the virtual world at its arrival.
    pub arrived_progress: SeatSeconds,
    /// Time of the dispatch; `None` while it waits.
    pub started_at: Option<Duration>,
    pub waiter: Option<W>,
    pub is_watch: bool,
    pub details: RequestDetails,
}

/// Attributes of a request that dumps show: two fields in one allocation, and the rest shared.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestDetails {
    pub subject: Option<std::sync::Arc<super::RequestSubject>>,
    /// Path, followed by the name of the object.
    text: Box<str>,
    path_bytes: usize,
}

impl RequestDetails {
    pub fn new(
        subject: Option<&std::sync::Arc<super::RequestSubject>>,
        path: &str,
        name: &str,
    ) -> RequestDetails {
        let mut text = String::with_capacity(path.len() + name.len());
        text.push_str(path);
        text.push_str(name);
        RequestDetails { subject: subject.cloned(), text: text.into(), path_bytes: path.len() }
    }

    pub fn path_and_name(&self) -> (&str, &str) {
        self.text.split_at(self.path_bytes)
    }
}

/// Requests, at stable positions.
#[derive(Clone, Debug)]
pub(super) struct RequestTable<W> {
    slots: Vec<Option<RequestRecord<W>>>,
    free: Vec<u32>,
}

impl<W> Default for RequestTable<W> {
    fn default() -> RequestTable<W> {
        RequestTable { slots: Vec::new(), free: Vec::new() }
    }
}

impl<W> RequestTable<W> {
    pub fn insert(&mut self, record: RequestRecord<W>) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Some(record);
            return slot;
        }
        self.slots.push(Some(record));
        // Requests in flight are far fewer than 32 bits can number.
        (self.slots.len() - 1) as u32
    }

    pub fn get(&self, slot: u32) -> &RequestRecord<W> {
        self.slots[slot as usize].as_ref().expect("a position that was handed out is occupied")
    }

    pub fn get_mut(&mut self, slot: u32) -> &mut RequestRecord<W> {
        self.slots[slot as usize].as_mut().expect("a position that was handed out is occupied")
    }

    pub fn remove(&mut self, slot: u32) -> RequestRecord<W> {
        let record = self.slots[slot as usize].take().expect("a position that was handed out is occupied");
        self.free.push(slot);
        record
    }

    pub fn iter(&self) -> impl Iterator<Item = &RequestRecord<W>> {
        self.slots.iter().flatten()
    }
}
