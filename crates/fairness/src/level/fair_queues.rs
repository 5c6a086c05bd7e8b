//! Fair queues of a priority level: the queues with requests, in the order in which they are to be dispatched.
//!
//! In the virtual world all busy queues work at the same rate. A queue's next request begins there at `next_dispatch`,
//! and ends later by its work; the queue whose request ends first is next. Queues with equal ends take turns.
//!
//! Only queues with requests or occupied seats have an entry, so a level may have millions of queues.

use std::collections::{BTreeSet, VecDeque};

use crate::dealer::HAND_MAX;
use crate::objects::priority_level::QueuingSpec;
use crate::seats::SeatSeconds;

/// Capacity that an idle entry keeps for its next queue.
const KEPT_CAPACITY_MAX: usize = 64;

/// Position of a queue in [`FairQueues`], stable while the queue has an entry.
pub(super) type QueueSlot = u32;

/// Queue of requests, by their positions.
#[derive(Clone, Debug, Default)]
pub(super) struct FairQueue {
    /// Number of the queue in its level.
    pub index: u32,
    pub waiting: VecDeque<u32>,
    pub executing: u32,
    /// Occupied seats, also of finished requests.
    pub seats_in_use: u32,
    /// Sums over the waiting requests.
    pub initial_seats_waiting: u64,
    pub max_seats_waiting: u64,
    pub work_waiting: SeatSeconds,
    /// Start of the next request in the virtual world.
    pub next_dispatch: SeatSeconds,
    /// End of the first waiting request in the virtual world, as it is in the order of dispatch.
    ordered_at: Option<SeatSeconds>,
}

impl FairQueue {
    pub fn has_requests(&self) -> bool {
        !self.waiting.is_empty() || self.executing > 0
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct FairQueues {
    slots: Vec<FairQueue>,
    free: Vec<QueueSlot>,
    /// Queues with an entry, by number.
    active: Vec<(u32, QueueSlot)>,
    /// Queues with waiting requests, by the end of the first one in the virtual world.
    order: BTreeSet<(SeatSeconds, u32, QueueSlot)>,
    /// Queue that was dispatched last; later ones win ties.
    last_dispatched: u32,
    /// Queues with waiting or executing requests.
    pub busy: u32,
    /// Requests that ever came, to rotate hands.
    arrivals: u64,
}

impl FairQueues {
    pub fn get(&self, slot: QueueSlot) -> &FairQueue {
        &self.slots[slot as usize]
    }

    pub fn get_mut(&mut self, slot: QueueSlot) -> &mut FairQueue {
        &mut self.slots[slot as usize]
    }

    /// Queues with an entry, by number.
    pub fn active(&self) -> impl ExactSizeIterator<Item = &FairQueue> {
        self.active.iter().map(|(_, slot)| self.get(*slot))
    }

    fn find(&self, index: u32) -> Result<QueueSlot, usize> {
        let found = self.active.binary_search_by_key(&index, |(index, _)| *index);
        found.map(|position| self.active[position].1)
    }

    /// Chooses the queue of the flow's hand with the least waiting work. Equal ones take turns.
    pub fn choose(&mut self, spec: &QueuingSpec, flow: u64) -> u32 {
        let mut hand = [0; HAND_MAX];
        let hand = spec.dealer.deal(flow, &mut hand);
        let rotation = (self.arrivals % hand.len() as u64) as usize;
        self.arrivals = self.arrivals.wrapping_add(1);
        let (after, before) = hand.split_at(rotation);
        let mut best = (SeatSeconds::ZERO, before[0]);
        for (position, index) in before.iter().chain(after).enumerate() {
            let work = self.find(*index).map_or(SeatSeconds::ZERO, |slot| self.get(slot).work_waiting);
            if position == 0 || work < best.0 {
                best = (work, *index);
            }
            if best.0 <= SeatSeconds::ZERO {
                break;
            }
        }
        best.1
    }

    /// Requests that wait in a queue.
    pub fn waiting_in(&self, index: u32) -> usize {
        self.find(index).map_or(0, |slot| self.get(slot).waiting.len())
    }

    /// Returns the entry of a queue that is about to get a request. A queue without requests starts at `progress`.
    pub fn enter(&mut self, index: u32, progress: SeatSeconds) -> QueueSlot {
        let slot = self.find(index).unwrap_or_else(|position| {
            let slot = self.free.pop().unwrap_or_else(|| {
                self.slots.push(FairQueue::default());
                // One entry per request, and those are numbered with 32 bits.
                (self.slots.len() - 1) as QueueSlot
            });
            let waiting = std::mem::take(&mut self.get_mut(slot).waiting);
            *self.get_mut(slot) = FairQueue { index, waiting, ..FairQueue::default() };
            self.active.insert(position, (index, slot));
            slot
        });
        let queue = self.get_mut(slot);
        if !queue.has_requests() {
            queue.next_dispatch = progress;
            self.busy += 1;
        }
        slot
    }

    /// Removes the entry of a queue that has become idle. Call it after requests or seats have left.
    pub fn release(&mut self, slot: QueueSlot, had_requests: bool) {
        let queue = self.get_mut(slot);
        let (has_requests, is_used) = (queue.has_requests(), queue.has_requests() || queue.seats_in_use > 0);
        let index = queue.index;
        if had_requests && !has_requests {
            self.busy -= 1;
        }
        if is_used {
            return;
        }
        let queue = self.get_mut(slot);
        if queue.waiting.capacity() > KEPT_CAPACITY_MAX {
            queue.waiting = VecDeque::new();
        }
        if let Ok(position) = self.active.binary_search_by_key(&index, |(index, _)| *index) {
            self.active.remove(position);
            self.free.push(slot);
        }
    }

    /// Records the end in the virtual world of a queue's first waiting request; `None` if no request waits.
    pub fn reorder(&mut self, slot: QueueSlot, end: Option<SeatSeconds>) {
        let queue = &mut self.slots[slot as usize];
        if queue.ordered_at == end {
            return;
        }
        let index = queue.index;
        if let Some(before) = std::mem::replace(&mut queue.ordered_at, end) {
            self.order.remove(&(before, index, slot));
        }
        if let Some(end) = end {
            self.order.insert((end, index, slot));
        }
    }

    /// Returns the queue whose first request is next.
    pub fn next(&self) -> Option<QueueSlot> {
        let (end, first, slot) = *self.order.first()?;
        if first > self.last_dispatched {
            return Some(slot);
        }
        let later = (end, self.last_dispatched.saturating_add(1), 0)..=(end, u32::MAX, QueueSlot::MAX);
        Some(self.order.range(later).next().map_or(slot, |(_, _, later)| *later))
    }

    /// Records that a queue was dispatched.
    pub fn set_last_dispatched(&mut self, slot: QueueSlot) {
        self.last_dispatched = self.get(slot).index;
    }

    /// Least and greatest `next_dispatch` of the queues with waiting requests, as they are and after `discount`.
    pub fn dispatch_bounds(&self, discount: impl Fn(&FairQueue) -> SeatSeconds) -> [SeatSeconds; 4] {
        let waiting = || self.order.iter().map(|(_, _, slot)| self.get(*slot));
        let discounted = || waiting().map(|queue| queue.next_dispatch - discount(queue));
        let starts = || waiting().map(|queue| queue.next_dispatch);
        [starts().min(), starts().max(), discounted().min(), discounted().max()]
            .map(Option::unwrap_or_default)
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.active.is_empty() && self.order.is_empty() && self.busy == 0
    }
}
