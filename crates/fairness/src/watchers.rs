//! Numbers of watches by their scope, to estimate the work of writes.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use setpoint_api::RequestInfo;

/// Objects that a watch follows, regardless of its selectors.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchScope(Box<str>);

impl WatchScope {
    /// Returns the scope of a watch.
    #[must_use]
    pub fn of(info: &RequestInfo<'_>) -> WatchScope {
        let mut text = String::new();
        write_scope(&mut text, info, info.namespace, info.name);
        WatchScope(text.into())
    }
}

impl Borrow<str> for WatchScope {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Writes resource, group, namespace and name, which contain no NUL.
fn write_scope(text: &mut String, info: &RequestInfo<'_>, namespace: &str, name: &str) {
    text.clear();
    for part in [info.resource, info.group, namespace, name] {
        text.push_str(part);
        text.push('\0');
    }
}

/// Numbers of running watches.
#[derive(Debug, Default)]
pub struct WatchTracker {
    /// All watches, so that a server without many reads no more than this.
    total: AtomicU64,
    counts: RwLock<BTreeMap<WatchScope, u64>>,
}

impl WatchTracker {
    /// Counts a watch, until [`WatchTracker::remove`].
    pub fn add(&self, scope: WatchScope) {
        *self.counts.write().entry(scope).or_default() += 1;
        self.total.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends a watch that was added.
    pub fn remove(&self, scope: &WatchScope) {
        let mut counts = self.counts.write();
        let Some(count) = counts.get_mut(scope) else { return };
        *count -= 1;
        if *count == 0 {
            counts.remove(scope);
        }
        self.total.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the number of watches that may get the event of a write. Fewer than `least` in total count as none,
    /// without a lock.
    #[must_use]
    pub fn interested(&self, info: &RequestInfo<'_>, least: u64) -> u64 {
        if self.total.load(Ordering::Relaxed) < least {
            return 0;
        }
        let counts = self.counts.read();
        let mut scope = String::new();
        let mut count = |namespace: &str, name: &str| {
            write_scope(&mut scope, info, namespace, name);
            counts.get(scope.as_str()).copied().unwrap_or(0)
        };
        let mut sum = count("", "");
        if !info.namespace.is_empty() {
            sum += count(info.namespace, "");
        }
        if !info.name.is_empty() {
            sum += count(info.namespace, info.name);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_interests_watches_of_all_objects_of_the_namespace_and_of_the_object() {
        let tracker = WatchTracker::default();
        let pods = RequestInfo { is_resource: true, verb: "watch", resource: "pods", ..Default::default() };
        let in_a = RequestInfo { namespace: "a", ..pods };
        let one = RequestInfo { name: "p", ..in_a };
        let scopes = [
            pods,
            in_a,
            in_a,
            one,
            RequestInfo { namespace: "b", ..pods },
            RequestInfo { group: "x", ..pods },
        ];
        scopes.iter().for_each(|info| tracker.add(WatchScope::of(info)));
        let interested = |info: &RequestInfo<'_>| tracker.interested(info, 0);
        assert_eq!(interested(&RequestInfo { verb: "update", ..one }), 4);
        assert_eq!(interested(&RequestInfo { verb: "create", ..in_a }), 3);
        assert_eq!(interested(&RequestInfo { verb: "create", ..pods }), 1);
        assert_eq!(tracker.interested(&one, 7), 0, "a handful of watches is not counted");
        scopes.iter().for_each(|info| tracker.remove(&WatchScope::of(info)));
        assert!(tracker.counts.read().is_empty(), "scopes without watches take no memory");
        tracker.remove(&WatchScope::of(&pods));
        assert_eq!(tracker.interested(&one, 1), 0);
    }
}
