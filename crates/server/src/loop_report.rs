//! Report of the loop's state, as metrics and as a document.

use std::time::Duration;

use setpoint_api::rfc3339::Micros;
use setpoint_api::{Value, value};
use setpoint_reconcile::Engine;
use setpoint_reconcile::stats::{ControllerStats, LAG_BOUNDS};

use crate::metrics::{MetricType, Text};

/// A counter of the loop: its name, help text and value.
type Counter = (&'static str, &'static str, fn(&ControllerStats) -> u64);

const COUNTERS: [Counter; 10] = [
    ("setpoint_loop_plans_total", "Keys that were planned.", |stats| stats.plans),
    ("setpoint_loop_quiet_plans_total", "Plans that found nothing to do.", |stats| stats.quiet),
    ("setpoint_loop_writes_total", "Writes that were committed.", |stats| stats.writes),
    ("setpoint_loop_conflicts_total", "Writes that met a world that had moved.", |stats| stats.conflicts),
    ("setpoint_loop_contentions_total", "Conflicts that came too often in a row.", |stats| stats.contentions),
    ("setpoint_loop_failures_total", "Writes that were refused or lost.", |stats| stats.failures),
    ("workqueue_retries_total", "Keys that were tried again after a failure.", |stats| stats.retries),
    ("setpoint_loop_panics_total", "Plans that panicked.", |stats| stats.panics),
    (
        "setpoint_loop_cut_plans_total",
        "Plans that left writes for the next plan of their key, because of their bound.",
        |stats| stats.truncated_plans,
    ),
    ("setpoint_loop_resync_gaps_total", "Gaps that only the resync found.", |stats| stats.resync_gaps),
];

/// Writes the metrics of the loop.
pub(crate) fn write_metrics(engine: &Engine, text: &mut Text) {
    text.family("workqueue_depth", MetricType::Gauge, "Keys that wait to be planned.");
    for (name, depth, _) in engine.stats() {
        text.sample("workqueue_depth", &[("name", name)], depth);
    }
    let family = "setpoint_loop_depth_max";
    text.family(family, MetricType::Gauge, "Keys that waited at once, at the most, since the start.");
    for (name, _, stats) in engine.stats() {
        text.sample(family, &[("name", name)], stats.peak_queue_depth);
    }
    for (family, help, count) in COUNTERS {
        text.family(family, MetricType::Counter, help);
        for (name, _, stats) in engine.stats() {
            text.sample(family, &[("name", name)], count(stats));
        }
    }
    let family = "workqueue_queue_duration_seconds";
    text.family(
        family,
        MetricType::Histogram,
        "How long keys waited from the change that woke them to their plan.",
    );
    for (name, _, stats) in engine.stats() {
        let mut up_to = 0;
        let buckets = LAG_BOUNDS.iter().zip(stats.lag).map(|(bound, count)| {
            up_to += count;
            (bound.as_secs_f64(), up_to)
        });
        let buckets: Vec<(f64, u64)> = buckets.collect();
        let total = stats.lag.iter().sum();
        text.histogram(family, &[("name", name)], buckets.into_iter(), total, stats.lag_sum.as_secs_f64());
    }
}

/// Counters and queue length of every controller.
#[must_use]
pub fn controllers(engine: &Engine) -> Value {
    let all = engine.stats().map(|(name, depth, stats)| {
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let p99 = stats.lag_quantile(0.99).as_ref().map(Duration::as_secs_f64);
        value!({
            "name": (name),
            "waiting": (number(depth as u64)),
            "waitingMax": (number(stats.peak_queue_depth as u64)),
            "plans": (number(stats.plans)),
            "quiet": (number(stats.quiet)),
            "writes": (number(stats.writes)),
            "conflicts": (number(stats.conflicts)),
            "contentions": (number(stats.contentions)),
            "failures": (number(stats.failures)),
            "retries": (number(stats.retries)),
            "panics": (number(stats.panics)),
            "cutPlans": (number(stats.truncated_plans)),
            "resyncGaps": (number(stats.resync_gaps)),
            "lagSecondsP99": (p99),
        })
    });
    let mut document = value!({"controllers": (all.collect::<Vec<Value>>())});
    if let Some(notice) = engine.notice() {
        document.make_map().insert("notice", notice);
    }
    document
}

/// State of each key of a controller; `None` if there is no such controller.
#[must_use]
pub fn keys(engine: &Engine, controller: &str) -> Option<Value> {
    engine.stats().find(|(name, _, _)| *name == controller)?;
    let keys = engine.keys(controller).into_iter().map(|state| {
        value!({
            "key": (state.key.to_string()),
            "failures": (i64::from(state.failures)),
            "next": (state.next.map(|next| Micros(next).to_string())),
            "lastError": (state.last_error),
            "waitingWrites": (i64::try_from(state.waiting_writes).unwrap_or(i64::MAX)),
            "deferredWrites": (i64::try_from(state.deferred_writes).unwrap_or(i64::MAX)),
        })
    });
    Some(value!({"controller": (controller), "keys": (keys.collect::<Vec<Value>>())}))
}
