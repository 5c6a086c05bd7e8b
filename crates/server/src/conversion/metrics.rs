//! Metrics of conversion webhooks, under upstream's names.

use std::time::Duration;

use parking_lot::Mutex;

use crate::metrics::{MetricType, Text};

/// Upper bounds of the buckets of durations, in seconds.
const BUCKETS: [f64; 15] =
    [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];
/// Number of results: success, and each type of failure.
const RESULTS: usize = 5;

/// Type of a failed conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureType {
    /// The webhook was not reached, or responded with an error.
    Call,
    /// The response is not a proper review.
    MalformedResponse,
    /// The response has too few or too many objects.
    PartialResponse,
    /// A converted object is invalid.
    InvalidConvertedObject,
}

impl FailureType {
    fn label(self) -> &'static str {
        match self {
            FailureType::Call => "conversion_webhook_call_failure",
            FailureType::MalformedResponse => "conversion_webhook_malformed_response_failure",
            FailureType::PartialResponse => "conversion_webhook_partial_response_failure",
            FailureType::InvalidConvertedObject => "conversion_webhook_invalid_converted_object_failure",
        }
    }
}

/// Calls with one result.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum_seconds: f64,
}

/// Counters of conversion webhook calls.
#[derive(Debug, Default)]
pub struct ConversionMetrics {
    results: Mutex<[Calls; RESULTS]>,
}

/// Results in the order of the counters.
const ORDER: [Option<FailureType>; RESULTS] = [
    None,
    Some(FailureType::Call),
    Some(FailureType::MalformedResponse),
    Some(FailureType::PartialResponse),
    Some(FailureType::InvalidConvertedObject),
];

impl ConversionMetrics {
    /// Counts a call.
    pub(super) fn count(&self, failure: Option<FailureType>, took: Duration) {
        let mut results = self.results.lock();
        let counted = results.iter_mut().zip(ORDER).filter(|(_, result)| *result == failure);
        for (calls, _) in counted {
            let seconds = took.as_secs_f64();
            let buckets = calls.buckets.iter_mut().zip(BUCKETS);
            buckets.filter(|(_, bound)| seconds <= *bound).for_each(|(count, _)| *count += 1);
            calls.count += 1;
            calls.sum_seconds += seconds;
        }
    }

    /// Writes the families.
    pub fn write(&self, text: &mut Text) {
        let results = *self.results.lock();
        let labels = |failure: Option<FailureType>| {
            let result = if failure.is_some() { "failure" } else { "success" };
            [("result", result), ("failure_type", failure.map_or("", FailureType::label))]
        };
        let made = || results.iter().zip(ORDER).filter(|(calls, _)| calls.count > 0);
        let name = "apiserver_conversion_webhook_request_total";
        text.family(name, MetricType::Counter, "Calls of conversion webhooks by result and type of failure.");
        for (calls, failure) in made() {
            text.sample(name, &labels(failure), calls.count);
        }
        let name = "apiserver_conversion_webhook_duration_seconds";
        text.family(name, MetricType::Histogram, "Duration of calls of conversion webhooks in seconds.");
        for (calls, failure) in made() {
            let buckets = BUCKETS.into_iter().zip(calls.buckets);
            text.histogram(name, &labels(failure), buckets, calls.count, calls.sum_seconds);
        }
    }
}
