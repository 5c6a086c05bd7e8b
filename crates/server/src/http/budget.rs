//! Byte budgets: memory that requests and responses may hold at a time, in total and per client.
//!
//! A client never takes all of a budget: a quarter is left for others. A request that exceeds a budget is rejected
//! with 429 and costs no further memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Part of the budget that one client leaves for others: a quarter.
const RESERVED_SHARE: usize = 4;

/// A number of bytes that reservations share.
pub(super) struct ByteBudget {
    bound: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reserved: usize,
    by_client: BTreeMap<Box<str>, usize>,
}

/// Bytes that one client holds, given back when it is dropped.
pub(super) struct Reservation {
    budget: Arc<ByteBudget>,
    client: Box<str>,
    bytes: usize,
}

impl ByteBudget {
    pub fn new(bound: usize) -> Arc<ByteBudget> {
        Arc::new(ByteBudget { bound, state: Mutex::default() })
    }

    /// Opens an empty reservation for a client.
    pub fn reserve(self: &Arc<ByteBudget>, client: &str) -> Reservation {
        Reservation { budget: Arc::clone(self), client: client.into(), bytes: 0 }
    }
}

impl Reservation {
    /// Adds bytes. Returns `false`, and adds none, if the budget does not have them.
    #[must_use]
    pub fn grow(&mut self, bytes: usize) -> bool {
        if bytes == 0 {
            return true;
        }
        let bound = self.budget.bound;
        let mut state = self.budget.state.lock();
        let of_client = state.by_client.get(&self.client).copied().unwrap_or(0).saturating_add(bytes);
        let of_all = state.reserved.saturating_add(bytes);
        if of_all > bound || of_client > bound - bound / RESERVED_SHARE {
            return false;
        }
        state.reserved = of_all;
        match state.by_client.get_mut(&self.client) {
            Some(reserved) => *reserved = of_client,
            None => drop(state.by_client.insert(self.client.clone(), of_client)),
        }
        self.bytes += bytes;
        true
    }

    /// Releases all bytes.
    pub fn clear(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes == 0 {
            return;
        }
        let mut state = self.budget.state.lock();
        state.reserved -= bytes;
        if let Some(reserved) = state.by_client.get_mut(&self.client) {
            *reserved -= bytes;
            if *reserved == 0 {
                state.by_client.remove(&self.client);
            }
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_bounds_one_client_and_all_together() {
        let budget = ByteBudget::new(1000);
        let mut hostile = budget.reserve("hostile");
        assert!(hostile.grow(700) && hostile.grow(50));
        assert!(!hostile.grow(1), "a quarter is left for others");
        assert!(!budget.reserve("hostile").grow(1), "also across requests");
        let mut other = budget.reserve("other");
        assert!(other.grow(250) && !other.grow(1));
        hostile.clear();
        assert!(other.grow(1));
        drop((hostile, other));
        let state = budget.state.lock();
        assert_eq!((state.reserved, state.by_client.len()), (0, 0));
    }
}
