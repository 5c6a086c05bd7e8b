//! Metrics of authorizers, under upstream's names.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_authorization::Decision;

use crate::metrics::{MetricType, Text};

/// Upper bounds of the buckets of calls, in seconds.
const CALL_BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Upper bounds of the buckets of match conditions, in seconds.
const CONDITION_BUCKETS: [f64; 7] = [0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25];
/// Type of webhooks in labels.
const WEBHOOK: &str = "Webhook";

/// Cumulative counts of durations.
struct Durations<const N: usize> {
    buckets: [u64; N],
    count: u64,
    sum_seconds: f64,
}

impl<const N: usize> Default for Durations<N> {
    fn default() -> Durations<N> {
        Durations { buckets: [0; N], count: 0, sum_seconds: 0.0 }
    }
}

impl<const N: usize> Durations<N> {
    fn add(&mut self, took: Duration, bounds: &[f64; N]) {
        let seconds = took.as_secs_f64();
        for (count, bound) in self.buckets.iter_mut().zip(bounds) {
            *count += u64::from(seconds <= *bound);
        }
        self.count += 1;
        self.sum_seconds += seconds;
    }

    fn write(&self, text: &mut Text, name: &str, labels: &[(&str, &str)], bounds: [f64; N]) {
        let buckets = bounds.into_iter().zip(self.buckets);
        text.histogram(name, labels, buckets, self.count, self.sum_seconds);
    }
}

/// Name of an authorizer, and a result.
type ResultLabels = (Box<str>, &'static str);

#[derive(Default)]
struct Counts {
    /// Type, name, decision.
    decisions: BTreeMap<(&'static str, Box<str>, &'static str), u64>,
    calls: BTreeMap<ResultLabels, Durations<{ CALL_BUCKETS.len() }>>,
    fail_open: BTreeMap<ResultLabels, u64>,
    conditions: BTreeMap<Box<str>, Durations<{ CONDITION_BUCKETS.len() }>>,
    condition_errors: BTreeMap<Box<str>, u64>,
    condition_exclusions: BTreeMap<Box<str>, u64>,
}

/// Counters of authorizers. Names of authorizers come from the configuration, so the series are few.
#[derive(Default)]
pub struct AuthorizationMetrics {
    counts: Mutex<Counts>,
}

impl AuthorizationMetrics {
    /// Counts a decision that ends the chain.
    pub fn count_decision(&self, type_name: &'static str, name: &str, decision: &Decision) {
        let label = match decision {
            Decision::Allowed(_) => "allowed",
            Decision::Denied(_) => "denied",
            Decision::NoOpinion(_) => return,
        };
        *self.counts.lock().decisions.entry((type_name, name.into(), label)).or_default() += 1;
    }

    /// Counts a call of a webhook.
    pub(super) fn count_call(&self, name: &str, result: &'static str, took: Duration) {
        let mut counts = self.counts.lock();
        counts.calls.entry((name.into(), result)).or_default().add(took, &CALL_BUCKETS);
    }

    /// Counts a failure of a webhook that is ignored.
    pub(super) fn count_fail_open(&self, name: &str, result: &'static str) {
        *self.counts.lock().fail_open.entry((name.into(), result)).or_default() += 1;
    }

    /// Counts an evaluation of match conditions.
    pub(super) fn count_conditions(&self, name: &str, matched: &Result<bool, String>, took: Duration) {
        let mut counts = self.counts.lock();
        counts.conditions.entry(name.into()).or_default().add(took, &CONDITION_BUCKETS);
        match matched {
            Ok(true) => {}
            Ok(false) => *counts.condition_exclusions.entry(name.into()).or_default() += 1,
            Err(_) => *counts.condition_errors.entry(name.into()).or_default() += 1,
        }
    }

    /// Writes the families.
    pub fn write(&self, text: &mut Text) {
        let counts = self.counts.lock();
        let name = "apiserver_authorization_decisions_total";
        text.family(name, MetricType::Counter, "Requests that an authorizer allowed or denied.");
        for ((type_name, authorizer, decision), count) in &counts.decisions {
            text.sample(name, &[("type", type_name), ("name", authorizer), ("decision", decision)], count);
        }
        let name = "apiserver_authorization_webhook_evaluations_total";
        text.family(name, MetricType::Counter, "Calls of authorization webhooks.");
        for ((webhook, result), durations) in &counts.calls {
            text.sample(name, &[("name", webhook), ("result", result)], durations.count);
        }
        let name = "apiserver_authorization_webhook_duration_seconds";
        text.family(name, MetricType::Histogram, "Duration of calls of authorization webhooks in seconds.");
        for ((webhook, result), durations) in &counts.calls {
            durations.write(text, name, &[("name", webhook), ("result", result)], CALL_BUCKETS);
        }
        let name = "apiserver_authorization_webhook_evaluations_fail_open_total";
        text.family(name, MetricType::Counter, "Failed authorization webhooks that were ignored.");
        for ((webhook, result), count) in &counts.fail_open {
            text.sample(name, &[("name", webhook), ("result", result)], count);
        }
        counts.write_conditions(text);
    }
}

impl Counts {
    fn write_conditions(&self, text: &mut Text) {
        let families = [
            ("apiserver_authorization_match_condition_evaluation_errors_total", &self.condition_errors),
            ("apiserver_authorization_match_condition_exclusions_total", &self.condition_exclusions),
        ];
        let help = ["Match conditions that failed.", "Requests that match conditions exclude."];
        for ((name, family), help) in families.into_iter().zip(help) {
            text.family(name, MetricType::Counter, help);
            for (webhook, count) in family {
                text.sample(name, &[("type", WEBHOOK), ("name", webhook)], count);
            }
        }
        let name = "apiserver_authorization_match_condition_evaluation_seconds";
        text.family(
            name,
            MetricType::Histogram,
            "Duration of the evaluation of match conditions in seconds.",
        );
        for (webhook, durations) in &self.conditions {
            durations.write(text, name, &[("type", WEBHOOK), ("name", webhook)], CONDITION_BUCKETS);
        }
    }
}
