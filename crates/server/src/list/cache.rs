//! Cache of encoded lists, by revision and form.
//!
//! A list is cached when it is requested for the second time while its resource has not changed: a list that is read
//! once costs no memory. Its items are valid while no object of the resource changes; only the list's own
//! `resourceVersion` differs between responses, and it stands outside the items. Tables show ages, so they are valid
//! for a second. Lists that are not read are dropped after [`IDLE_TIME`] to twice that.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_api::{Revision, Time};

use super::items::Items;
use crate::encoded_chunk::ChunkBudget;
use crate::select::ViewKey;

/// Maximum bytes of all cached lists, including chunks that are still being sent.
const CACHE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Maximum stored bytes of the objects of a cached list.
pub(super) const LIST_BYTES_MAX: usize = CACHE_BYTES_MAX / 2;
/// Maximum number of lists, including those that were requested once.
const LISTS_MAX: usize = 32;
/// Interval at which lists that were not read are dropped.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// Encoded lists of a server.
#[derive(Debug)]
pub struct ListCache {
    budget: Arc<ChunkBudget>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Least recently used first.
    entries: Vec<Entry>,
    has_sweeper: bool,
}

#[derive(Debug)]
struct Entry {
    key: ViewKey,
    version: Version,
    /// `None` if the list was requested once.
    items: Option<Arc<Items>>,
    /// `true` if it was requested since the last sweep.
    is_used: bool,
}

/// State of a resource that encoded items show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// Last change of the resource.
    pub changed: Revision,
    /// Second of the wall clock, where the items show ages.
    pub second: Option<Time>,
}

/// Result of a cache lookup.
pub(super) enum Found {
    /// The list is cached.
    Items(Arc<Items>),
    /// The list has been requested before in this state, and should be cached.
    Requested,
    /// The list has not been requested in this state.
    Nothing,
}

impl Default for ListCache {
    fn default() -> ListCache {
        ListCache { budget: ChunkBudget::new(CACHE_BYTES_MAX), state: Mutex::default() }
    }
}

impl ListCache {
    /// The budget of chunks of cached lists.
    pub(super) fn budget(&self) -> &Arc<ChunkBudget> {
        &self.budget
    }

    /// Looks up a list, and records the request.
    pub(super) fn find(self: &Arc<ListCache>, key: &ViewKey, version: Version) -> Found {
        let mut state = self.state.lock();
        let place = state.entries.iter().position(|entry| entry.key == *key);
        let entry = place.map(|place| state.entries.remove(place));
        let found = match &entry {
            Some(Entry { version: of, items, .. }) if *of == version => match items {
                Some(items) => Found::Items(Arc::clone(items)),
                None => Found::Requested,
            },
            _ => Found::Nothing,
        };
        let items = if let Found::Items(items) = &found { Some(Arc::clone(items)) } else { None };
        if place.is_none() && state.entries.len() >= LISTS_MAX {
            state.entries.remove(0);
        }
        state.entries.push(Entry { key: key.clone(), version, items, is_used: true });
        self.start_sweeper(&mut state);
        found
    }

    /// Adds a list. Returns the items to use: those of another request if that was faster.
    pub(super) fn insert(
        &self,
        key: &ViewKey,
        version: Version,
        items: Arc<Items>,
        bytes: usize,
    ) -> Arc<Items> {
        let mut state = self.state.lock();
        while !self.budget.has_room(bytes) {
            let Some(oldest) = state.entries.iter_mut().find(|entry| entry.items.is_some()) else { break };
            oldest.items = None;
        }
        let entry = state.entries.iter_mut().find(|entry| entry.key == *key && entry.version == version);
        let Some(entry) = entry else { return items };
        Arc::clone(entry.items.get_or_insert(items))
    }

    /// Drops lists that were not requested since the last sweep. Returns `false` if none is left.
    fn sweep(&self) -> bool {
        let mut state = self.state.lock();
        state.entries.retain_mut(|entry| std::mem::take(&mut entry.is_used));
        state.has_sweeper = !state.entries.is_empty();
        state.has_sweeper
    }

    /// Starts the task that sweeps, unless it runs. It ends when there is nothing left to sweep.
    #[expect(clippy::disallowed_methods, reason = "the sweeper owns its timer")]
    fn start_sweeper(self: &Arc<ListCache>, state: &mut State) {
        if state.has_sweeper {
            return;
        }
        // Without a runtime, as in the simulator, the bounds alone hold.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        state.has_sweeper = true;
        let cache = Arc::downgrade(self);
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(IDLE_TIME).await;
                if !cache.upgrade().is_some_and(|cache| cache.sweep()) {
                    return;
                }
            }
        });
    }
}

#[cfg(test)]
mod tests;
