//! EventRateLimit: bounds the rate of Events, of all clients, per namespace, per user, or per source and object.
//!
//! The token buckets outlive a request, so they are passed in ([`EventBuckets`]); time is an argument. A bucket has
//! `burst` tokens at first and gets `qps` per second. For example, with a burst of 10 and 3 per second, 10 Events are
//! accepted at once, and 3 more in each second after it.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use setpoint_api::status::Status;
use setpoint_api::{Time, Value};

use super::{AdmissionInput, Findings};

/// Number of buckets of a limit that does not state it.
const BUCKETS_DEFAULT: usize = 4096;
/// Number of accepted requests that are remembered, so that a request which is decided again is not counted again.
const RECENT_MAX: usize = 256;

/// Scope of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventLimitType {
    /// All Events of the server.
    Server,
    /// Events of a namespace.
    Namespace,
    /// Events of a user.
    User,
    /// Events of a source about an object.
    SourceAndObject,
}

impl EventLimitType {
    /// All types, with their names.
    pub const NAMES: [(&'static str, EventLimitType); 4] = [
        ("Server", EventLimitType::Server),
        ("Namespace", EventLimitType::Namespace),
        ("User", EventLimitType::User),
        ("SourceAndObject", EventLimitType::SourceAndObject),
    ];

    fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }

    /// Key of the bucket of an Event.
    fn key(self, event: &Value, input: &AdmissionInput<'_>) -> String {
        match self {
            EventLimitType::Server => String::new(),
            EventLimitType::Namespace => input.request.namespace.to_owned(),
            EventLimitType::User => input.request.writer.identity.user.clone(),
            EventLimitType::SourceAndObject => {
                let source = ["component", "host"].map(|field| event.str_at(&["source", field]));
                let about = ["kind", "namespace", "name", "uid", "apiVersion"];
                let about = about.map(|field| event.str_at(&["involvedObject", field]));
                source.into_iter().chain(about).collect()
            }
        }
    }
}

/// Limit of the rate of Events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRateLimit {
    /// Scope.
    pub limit_type: EventLimitType,
    /// Events per second.
    pub qps: u32,
    /// Events at once.
    pub burst: u32,
    /// Maximum number of buckets; 0 for the default.
    pub cache_size: usize,
}

/// Token buckets of all limits.
#[derive(Debug)]
pub struct EventBuckets(Mutex<Buckets>);

#[derive(Debug)]
struct Buckets {
    limiters: Vec<Limiter>,
    /// First random number of requests that were accepted: it identifies a request.
    recent: VecDeque<u64>,
}

#[derive(Debug)]
struct Limiter {
    limit: EventRateLimit,
    /// Buckets by key.
    buckets: BTreeMap<String, TokenBucket>,
    /// Keys by the number of their last use: the first was used least recently.
    used: BTreeMap<u64, String>,
    uses: u64,
}

#[derive(Clone, Copy, Debug)]
struct TokenBucket {
    tokens: f64,
    filled_at: Time,
    used: u64,
}

impl EventBuckets {
    /// Full buckets.
    #[must_use]
    pub fn new(limits: &[EventRateLimit]) -> EventBuckets {
        let limiter = |limit: &EventRateLimit| Limiter {
            limit: limit.clone(),
            buckets: BTreeMap::new(),
            used: BTreeMap::new(),
            uses: 0,
        };
        let limiters = limits.iter().map(limiter).collect();
        EventBuckets(Mutex::new(Buckets { limiters, recent: VecDeque::new() }))
    }

    /// Takes a token from the bucket of each limit. Returns the keys of those that are empty.
    fn take(
        &self,
        now: Time,
        request: u64,
        key: impl Fn(EventLimitType) -> String,
    ) -> Vec<(EventLimitType, String)> {
        let mut buckets = self.0.lock();
        if buckets.recent.contains(&request) {
            return Vec::new();
        }
        let mut empty = Vec::new();
        for limiter in &mut buckets.limiters {
            let limit_type = limiter.limit.limit_type;
            let key = key(limit_type);
            if !limiter.take(now, &key) {
                empty.push((limit_type, key));
            }
        }
        if empty.is_empty() {
            if buckets.recent.len() == RECENT_MAX {
                buckets.recent.pop_front();
            }
            buckets.recent.push_back(request);
        }
        empty
    }
}

impl Limiter {
    fn take(&mut self, now: Time, key: &str) -> bool {
        let (rate, burst) = (f64::from(self.limit.qps), f64::from(self.limit.burst));
        self.uses += 1;
        let full = TokenBucket { tokens: burst, filled_at: now, used: self.uses };
        let mut bucket = self.buckets.get(key).copied().unwrap_or(full);
        self.used.remove(&bucket.used);
        let since = now.since(bucket.filled_at).as_secs_f64();
        bucket.tokens = (bucket.tokens + since * rate).min(burst);
        bucket.filled_at = bucket.filled_at.max(now);
        bucket.used = self.uses;
        let is_accepted = bucket.tokens >= 1.0;
        if is_accepted {
            bucket.tokens -= 1.0;
        }
        self.buckets.insert(key.to_owned(), bucket);
        self.used.insert(self.uses, key.to_owned());
        let buckets_max = if self.limit.cache_size == 0 { BUCKETS_DEFAULT } else { self.limit.cache_size };
        if self.buckets.len() > buckets_max
            && let Some((_, oldest)) = self.used.pop_first()
        {
            self.buckets.remove(&oldest);
        }
        is_accepted
    }
}

/// 429 for an Event beyond a limit. A dry run is not counted.
pub(super) fn validate(event: &Value, input: &AdmissionInput<'_>, _: &mut Findings) -> Result<(), Status> {
    let info = &input.request.resource_type.info;
    let Some(buckets) = input.context.admission.events else { return Ok(()) };
    if &*info.kind != "Event" || !info.group.is_empty() || input.request.writer.dry_run {
        return Ok(());
    }
    let request = input.context.entropy[0];
    let empty = buckets.take(input.context.now, request, |limit_type| limit_type.key(event, input));
    let message = |(limit_type, key): &(EventLimitType, String)| {
        format!("limit reached on type {} for key {key}", limit_type.name())
    };
    let messages: Vec<String> = empty.iter().map(message).collect();
    let why = match &messages[..] {
        [] => return Ok(()),
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    let reason = setpoint_api::status::Reason::TooManyRequests;
    Err(Status::failure(reason, format!("Too many requests: {why}")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn limit(limit_type: EventLimitType, qps: u32, burst: u32, cache_size: usize) -> EventRateLimit {
        EventRateLimit { limit_type, qps, burst, cache_size }
    }

    #[test]
    fn burst_is_accepted_and_then_the_rate() {
        let buckets = EventBuckets::new(&[limit(EventLimitType::Server, 2, 3, 0)]);
        let start = Time::from_seconds(1000);
        let accepted = |from: u64, now: Time| {
            (from..from + 10).filter(|n| buckets.take(now, *n, |_| String::new()).is_empty()).count()
        };
        assert_eq!(accepted(0, start), 3);
        assert_eq!(accepted(10, start), 0);
        assert_eq!(accepted(20, start.after(Duration::from_secs(1))), 2);
        assert_eq!(accepted(30, start.after(Duration::from_secs(100))), 3);
        assert_eq!(accepted(40, start), 0, "a clock that goes back refills nothing");
    }

    #[test]
    fn request_that_is_decided_again_is_counted_once() {
        let buckets = EventBuckets::new(&[limit(EventLimitType::Server, 1, 1, 0)]);
        let take = |request| buckets.take(Time::from_seconds(1), request, |_| String::new());
        assert!(take(7).is_empty());
        assert!(take(7).is_empty());
        assert_eq!(take(8), [(EventLimitType::Server, String::new())]);
    }

    #[test]
    fn buckets_are_kept_per_key_up_to_the_cache_size() {
        let buckets = EventBuckets::new(&[limit(EventLimitType::Namespace, 1, 1, 2)]);
        let now = Time::from_seconds(1);
        let mut request = 0;
        let mut take = |key: &str| {
            request += 1;
            buckets.take(now, request, |_| key.to_owned()).is_empty()
        };
        assert!(take("a") && take("b"));
        assert!(!take("a"));
        assert!(take("c"), "replaces the bucket of b, which was used least recently");
        assert!(!take("a"));
        assert!(take("b"), "starts anew");
    }
}
