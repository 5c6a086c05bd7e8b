//! Metrics of authentication, under upstream's names.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::{Authenticated, Unauthenticated};
use crate::metrics::{MetricType, Text};

/// Results of attempts.
const RESULTS: [&str; 3] = ["success", "failure", "error"];
/// Users that are counted under their own name. Upstream's list; it bounds the number of series.
const KNOWN_USERS: [&str; 5] =
    ["admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"];
/// Labels of other users: those whose name is probably an e-mail address, and all else.
const OTHER_USERS: [&str; 2] = ["email_id", "other"];
/// Upper bounds of the buckets of lookups, in seconds: Prometheus' defaults.
const BOUNDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Durations of lookups of one status.
#[derive(Default)]
struct Lookups {
    buckets: [u64; BOUNDS.len()],
    count: u64,
    seconds: f64,
}

/// Counters of authentication.
#[derive(Default)]
pub struct AuthenticationMetrics {
    attempts: [AtomicU64; RESULTS.len()],
    users: [AtomicU64; KNOWN_USERS.len() + OTHER_USERS.len()],
    /// Lookups of tokens that were cached, and of others.
    lookups: [Mutex<Lookups>; 2],
    /// Verifications that succeeded, and that failed.
    fetches: [AtomicU64; 2],
    fetching: AtomicI64,
}

impl AuthenticationMetrics {
    /// Counts a request.
    pub(super) fn count_attempt(&self, result: &Result<Authenticated, Unauthenticated>) {
        let label = match result {
            Ok(_) => 0,
            // Without credentials nothing has failed.
            Err(Unauthenticated(errors)) if errors.is_empty() => 1,
            Err(_) => 2,
        };
        self.attempts[label].fetch_add(1, Ordering::Relaxed);
        if let Ok(authenticated) = result {
            self.users[user_label(&authenticated.identity.user)].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a lookup of a token.
    pub(super) fn count_lookup(&self, is_cached: bool, took: Duration) {
        let seconds = took.as_secs_f64();
        let mut lookups = self.lookups[usize::from(!is_cached)].lock();
        for (count, bound) in lookups.buckets.iter_mut().zip(BOUNDS) {
            *count += u64::from(seconds <= bound);
        }
        lookups.count += 1;
        lookups.seconds += seconds;
    }

    /// Counts the verification of a token that is not cached, from its begin to its end.
    pub(super) fn begin_fetch(&self) -> TokenFetch<'_> {
        self.fetching.fetch_add(1, Ordering::Relaxed);
        TokenFetch { metrics: self, is_verified: false }
    }

    /// Writes all families.
    pub fn write(&self, text: &mut Text) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let name = "authenticated_user_requests";
        text.family(name, MetricType::Counter, "Authenticated requests, by user name.");
        for (user, counter) in KNOWN_USERS.into_iter().chain(OTHER_USERS).zip(&self.users) {
            if count(counter) > 0 {
                text.sample(name, &[("username", user)], count(counter));
            }
        }
        let name = "authentication_attempts";
        text.family(name, MetricType::Counter, "Authentication attempts, by result.");
        for (result, counter) in RESULTS.into_iter().zip(&self.attempts) {
            text.sample(name, &[("result", result)], count(counter));
        }
        let name = "authentication_token_cache_active_fetch_count";
        text.family(name, MetricType::Gauge, "Tokens that are being verified.");
        // No lookup waits for another.
        text.sample(name, &[("status", "blocked")], 0);
        text.sample(name, &[("status", "in_flight")], self.fetching.load(Ordering::Relaxed));
        let name = "authentication_token_cache_fetch_total";
        text.family(name, MetricType::Counter, "Verifications of tokens that were not cached, by result.");
        for (status, counter) in ["ok", "error"].into_iter().zip(&self.fetches) {
            text.sample(name, &[("status", status)], count(counter));
        }
        self.write_lookups(text);
    }

    fn write_lookups(&self, text: &mut Text) {
        let statuses = || ["hit", "miss"].into_iter().zip(&self.lookups);
        let name = "authentication_token_cache_request_duration_seconds";
        text.family(name, MetricType::Histogram, "Duration of lookups of tokens, by result.");
        for (status, lookups) in statuses() {
            let lookups = lookups.lock();
            let buckets = BOUNDS.into_iter().zip(lookups.buckets);
            text.histogram(name, &[("status", status)], buckets, lookups.count, lookups.seconds);
        }
        let name = "authentication_token_cache_request_total";
        text.family(name, MetricType::Counter, "Lookups of tokens, by result.");
        for (status, lookups) in statuses() {
            text.sample(name, &[("status", status)], lookups.lock().count);
        }
    }
}

/// Position of the label of a user name.
fn user_label(user: &str) -> usize {
    let known = KNOWN_USERS.iter().position(|known| *known == user);
    known.unwrap_or(KNOWN_USERS.len() + usize::from(!user.contains('@')))
}

/// Verification of a token under way. One that is dropped has failed.
pub(super) struct TokenFetch<'a> {
    metrics: &'a AuthenticationMetrics,
    is_verified: bool,
}

impl TokenFetch<'_> {
    /// Ends the verification.
    pub fn end(mut self, is_verified: bool) {
        self.is_verified = is_verified;
    }
}

impl Drop for TokenFetch<'_> {
    fn drop(&mut self) {
        self.metrics.fetching.fetch_sub(1, Ordering::Relaxed);
        self.metrics.fetches[usize::from(!self.is_verified)].fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use setpoint_api::Identity;

    use super::*;

    #[test]
    fn users_are_counted_under_few_names() {
        let metrics = AuthenticationMetrics::default();
        for user in ["admin", "ann@example.com", "bob@example.com", "system:node:n", "jane"] {
            metrics.count_attempt(&Ok(Identity::new(user, Vec::new()).into()));
        }
        metrics.count_attempt(&Err(Unauthenticated(Vec::new())));
        metrics.count_attempt(&Err(Unauthenticated(vec!["expired".to_owned()])));
        metrics.begin_fetch().end(true);
        drop(metrics.begin_fetch());
        metrics.count_lookup(true, Duration::from_millis(7));
        let mut text = Text::default();
        metrics.write(&mut text);
        let text = text.finish();
        for line in [
            "authenticated_user_requests{username=\"admin\"} 1",
            "authenticated_user_requests{username=\"email_id\"} 2",
            "authenticated_user_requests{username=\"other\"} 2",
            "authentication_attempts{result=\"success\"} 5",
            "authentication_attempts{result=\"failure\"} 1",
            "authentication_attempts{result=\"error\"} 1",
            "authentication_token_cache_active_fetch_count{status=\"in_flight\"} 0",
            "authentication_token_cache_fetch_total{status=\"ok\"} 1",
            "authentication_token_cache_fetch_total{status=\"error\"} 1",
            "authentication_token_cache_request_duration_seconds_bucket{status=\"hit\",le=\"0.01\"} 1",
            "authentication_token_cache_request_total{status=\"miss\"} 0",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line}\n{text}");
        }
    }
}
