//! Query limiter: sends each query of a key once at a time, with exponential backoff after errors.
//!
//! Planners repeat a query in every plan until it is answered. The limiter bounds the rate, so that planners need no
//! backoff of their own.

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::Time;

/// Backoff after the first error of a query.
pub const QUERY_BACKOFF_MIN: Duration = Duration::from_millis(100);
/// Maximum backoff. Shorter than the query period of every planner (the shortest is 15 s, of the autoscaler), so that no
/// period is missed.
pub const QUERY_BACKOFF_MAX: Duration = Duration::from_secs(10);
/// Time after which an answer counts as lost. Longer than the timeout of every handler, and shorter than every query
/// period.
pub const QUERY_TIMEOUT: Duration = Duration::from_secs(12);
/// Maximum number of answers that are kept per key; the oldest is dropped first.
pub const ANSWERS_MAX: usize = 1024;

/// Unanswered queries of a key, by id. Soft state: losing it sends a query once too often.
#[derive(Debug, Default)]
pub(crate) struct QueryLimiter(BTreeMap<String, QueryState>);

#[derive(Debug)]
struct QueryState {
    /// Number of errors in a row.
    errors: u32,
    /// Earliest time at which the query may be sent again.
    retry_at: Time,
}

impl QueryLimiter {
    /// Marks a query as in flight.
    ///
    /// # Errors
    /// The earliest time of the next attempt, if the query is in flight or backing off.
    pub fn try_send(&mut self, id: &str, now: Time) -> Result<(), Time> {
        let retry_at = now.after(QUERY_TIMEOUT);
        match self.0.get_mut(id) {
            Some(query) if query.retry_at > now => Err(query.retry_at),
            Some(query) => {
                query.retry_at = retry_at;
                Ok(())
            }
            None => {
                self.0.insert(id.to_owned(), QueryState { errors: 0, retry_at });
                Ok(())
            }
        }
    }

    /// Handles an answer or an error: an answer resets the backoff, an error extends it.
    pub fn complete(&mut self, id: &str, is_error: bool, now: Time) {
        if !is_error {
            self.0.remove(id);
            return;
        }
        let query = self.0.entry(id.to_owned()).or_insert(QueryState { errors: 0, retry_at: now });
        query.errors = query.errors.saturating_add(1);
        query.retry_at = now.after(backoff(query.errors));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Backoff after this number of errors in a row.
fn backoff(errors: u32) -> Duration {
    let doublings = errors.saturating_sub(1).min(20);
    (QUERY_BACKOFF_MIN * (1 << doublings)).min(QUERY_BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Time {
        Time(millis * 1000)
    }

    #[test]
    fn query_is_in_flight_once_until_its_answer_times_out() {
        let mut limiter = QueryLimiter::default();
        assert_eq!(limiter.try_send("a", at(0)), Ok(()));
        assert_eq!(limiter.try_send("a", at(1)), Err(at(12_000)));
        assert_eq!(limiter.try_send("b", at(1)), Ok(()), "another query does not wait");
        assert_eq!(limiter.try_send("a", at(12_000)), Ok(()));
        limiter.complete("a", false, at(12_001));
        assert_eq!(limiter.try_send("a", at(12_001)), Ok(()), "an answered query may be repeated");
    }

    #[test]
    fn backoff_of_a_failing_query_doubles() {
        let mut limiter = QueryLimiter::default();
        let mut now = at(0);
        let mut backoffs = Vec::new();
        for _ in 0..10 {
            assert_eq!(limiter.try_send("a", now), Ok(()));
            limiter.complete("a", true, now);
            let retry_at = limiter.try_send("a", now).unwrap_err();
            backoffs.push(retry_at.since(now).as_millis());
            now = retry_at;
        }
        assert_eq!(backoffs, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000]);
        limiter.try_send("a", now).unwrap();
        limiter.complete("a", false, now);
        assert!(limiter.is_empty(), "an answer resets the backoff");
    }
}
