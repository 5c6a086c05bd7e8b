//! Cache of the decisions of a webhook.

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_authorization::Decision;

/// Decisions of one webhook, upstream's number. The least recently used one is dropped for a new one.
const DECISIONS_MAX: usize = 8192;

/// Digest of the spec of a review.
pub(super) type RequestDigest = [u8; 32];

struct CachedDecision {
    decision: Decision,
    /// Uptime until which it is valid.
    valid_until: Duration,
    /// Position in the order of use.
    used: u64,
}

/// Decisions by request. Times are uptimes.
#[derive(Default)]
pub(super) struct DecisionCache {
    decisions: BTreeMap<RequestDigest, CachedDecision>,
    /// Requests in the order of their last use.
    order: BTreeMap<u64, RequestDigest>,
    uses: u64,
}

impl DecisionCache {
    /// Returns a decision that is valid.
    pub(super) fn get(&mut self, key: &RequestDigest, now: Duration) -> Option<Decision> {
        let cached = self.decisions.get_mut(key)?;
        self.order.remove(&cached.used);
        if cached.valid_until <= now {
            self.decisions.remove(key);
            return None;
        }
        self.uses += 1;
        cached.used = self.uses;
        self.order.insert(self.uses, *key);
        Some(cached.decision.clone())
    }

    /// Adds a decision.
    pub(super) fn insert(&mut self, key: RequestDigest, decision: Decision, valid_until: Duration) {
        if let Some(replaced) = self.decisions.remove(&key) {
            self.order.remove(&replaced.used);
        }
        if self.decisions.len() >= DECISIONS_MAX
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.decisions.remove(&oldest);
        }
        self.uses += 1;
        self.order.insert(self.uses, key);
        self.decisions.insert(key, CachedDecision { decision, valid_until, used: self.uses });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> RequestDigest {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&(number as u64).to_be_bytes());
        key
    }

    fn allowed() -> Decision {
        Decision::Allowed(String::new())
    }

    #[test]
    fn decision_expires() {
        let second = Duration::from_secs(1);
        let mut cache = DecisionCache::default();
        cache.insert(key(1), allowed(), second);
        assert_eq!(cache.get(&key(1), second / 2), Some(allowed()));
        assert_eq!(cache.get(&key(1), second), None);
        assert!(cache.order.is_empty() && cache.decisions.is_empty());
    }

    #[test]
    fn least_recently_used_decision_is_dropped() {
        let (now, end) = (Duration::ZERO, Duration::from_secs(9));
        let mut cache = DecisionCache::default();
        for number in 0..DECISIONS_MAX {
            cache.insert(key(number), allowed(), end);
        }
        assert!(cache.get(&key(0), now).is_some());
        cache.insert(key(DECISIONS_MAX), allowed(), end);
        assert_eq!((cache.decisions.len(), cache.order.len()), (DECISIONS_MAX, DECISIONS_MAX));
        assert!(cache.get(&key(0), now).is_some(), "it was used");
        assert!(cache.get(&key(1), now).is_none(), "it was not");
        cache.insert(key(2), Decision::Denied(String::new()), end);
        assert_eq!(cache.get(&key(2), now), Some(Decision::Denied(String::new())));
        assert_eq!(cache.decisions.len(), cache.order.len());
    }
}
