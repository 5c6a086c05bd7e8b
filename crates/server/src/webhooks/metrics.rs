//! Metrics of admission webhooks, under upstream's names.
//!
//! The number of series is bounded: names of webhooks come from clients.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

use super::answers::{PendingCall, WebhookAnswer};
use super::review::rejection;
use crate::metrics::{MetricType, Text};

/// Series of one family. Further ones are not counted.
const SERIES_MAX: usize = 1024;
/// Upper bounds of the buckets of durations, in seconds.
const BUCKETS: [f64; 9] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0];

/// Name, type, operation, and further labels of a series.
type Labels = (Box<str>, &'static str, &'static str, &'static str, u16);

#[derive(Default)]
struct Durations {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum_seconds: f64,
}

#[derive(Default)]
struct Counts {
    durations: BTreeMap<Labels, Durations>,
    rejections: BTreeMap<Labels, u64>,
    fail_open: BTreeMap<(Box<str>, &'static str), u64>,
}

/// Counters of webhook calls.
#[derive(Default)]
pub struct WebhookMetrics {
    counts: Mutex<Counts>,
}

impl WebhookMetrics {
    /// Counts a call.
    pub fn count(&self, call: &PendingCall, answer: &WebhookAnswer, took: Duration) {
        let (name, kind, operation) = (&call.webhook, call.webhook_type.label(), call.operation.as_str());
        let (rejected, code, error_type) = match answer {
            Ok(response) if response.allowed => (false, 200, "no_error"),
            Ok(response) => (true, rejection(name, response.status.as_ref()).code, "no_error"),
            Err(failure) => (!call.ignores_failures, failure.code, "calling_webhook_error"),
        };
        let mut counts = self.counts.lock();
        let labels = (name.clone(), kind, operation, if rejected { "true" } else { "false" }, code);
        if let Some(durations) = series(&mut counts.durations, labels) {
            let seconds = took.as_secs_f64();
            for (count, _) in durations.buckets.iter_mut().zip(BUCKETS).filter(|(_, bound)| seconds <= *bound)
            {
                *count += 1;
            }
            durations.count += 1;
            durations.sum_seconds += seconds;
        }
        if rejected {
            let labels = (name.clone(), kind, operation, error_type, code);
            series(&mut counts.rejections, labels).into_iter().for_each(|count| *count += 1);
        }
        if answer.is_err() && call.ignores_failures {
            series(&mut counts.fail_open, (name.clone(), kind)).into_iter().for_each(|count| *count += 1);
        }
    }

    /// Writes the families.
    pub fn write(&self, text: &mut Text) {
        let counts = self.counts.lock();
        let name = "apiserver_admission_webhook_admission_duration_seconds";
        text.family(name, MetricType::Histogram, "Duration of calls of admission webhooks in seconds.");
        for ((webhook, kind, operation, rejected, code), durations) in &counts.durations {
            let code = code.to_string();
            let labels = [
                ("name", &**webhook),
                ("type", kind),
                ("operation", operation),
                ("rejected", rejected),
                ("code", &code),
            ];
            let buckets = BUCKETS.into_iter().zip(durations.buckets);
            text.histogram(name, &labels, buckets, durations.count, durations.sum_seconds);
        }
        let name = "apiserver_admission_webhook_rejection_count";
        text.family(name, MetricType::Counter, "Rejections by admission webhooks.");
        for ((webhook, kind, operation, error_type, code), count) in &counts.rejections {
            let code = code.to_string();
            let labels = [
                ("name", &**webhook),
                ("type", kind),
                ("operation", operation),
                ("error_type", error_type),
                ("rejection_code", &code),
            ];
            text.sample(name, &labels, count);
        }
        let name = "apiserver_admission_webhook_fail_open_count";
        text.family(name, MetricType::Counter, "Failed calls of admission webhooks that were ignored.");
        for ((webhook, kind), count) in &counts.fail_open {
            text.sample(name, &[("name", webhook), ("type", kind)], count);
        }
    }
}

/// Returns a series; `None` if there are too many.
fn series<K: Ord, V: Default>(family: &mut BTreeMap<K, V>, labels: K) -> Option<&mut V> {
    if family.len() >= SERIES_MAX && !family.contains_key(&labels) {
        return None;
    }
    Some(family.entry(labels).or_default())
}
