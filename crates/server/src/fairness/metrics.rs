//! Metrics of priority levels, under upstream's names.

use std::time::Duration;

use setpoint_fairness::{Controller, Histogram, LevelReport, RatioHistogram, Rejection, SchemaStatistics};

use super::Waiter;
use super::current_requests::{CurrentRequests, KINDS, PHASES};
use crate::metrics::{MetricType, Text};

/// A ratio in the report of a level.
type RatioOfLevel = fn(&LevelReport) -> &RatioHistogram;

const LEVEL: &str = "priority_level";
const SCHEMA: &str = "flow_schema";

/// Returns all families.
pub(super) fn text(controller: &Controller<Waiter>, current: &CurrentRequests, now: Duration) -> String {
    let mut writer = Writer { text: Text::default(), levels: controller.reports(now) };
    writer.requests();
    writer.durations();
    writer.progress();
    writer.limits();
    writer.demand(controller.fair_fraction());
    writer.utilization();
    writer.current_requests(&current.histograms(now));
    writer.text.finish()
}

struct Writer {
    text: Text,
    levels: Vec<LevelReport>,
}

impl Writer {
    fn family(&mut self, name: &str, metric_type: MetricType, help: &str) -> String {
        let name = format!("apiserver_flowcontrol_{name}");
        self.text.family(&name, metric_type, help);
        name
    }

    /// Writes a family with a sample per FlowSchema.
    fn by_schema(
        &mut self,
        name: &str,
        metric_type: MetricType,
        help: &str,
        value: fn(&SchemaStatistics) -> u64,
    ) {
        let name = self.family(name, metric_type, help);
        for (level, schema) in schemas(&self.levels) {
            self.text.sample(&name, &[(LEVEL, &level.name), (SCHEMA, &schema.schema)], value(schema));
        }
    }

    /// Writes a gauge per level.
    fn by_level(&mut self, name: &str, help: &str, value: fn(&LevelReport) -> f64) {
        let name = self.family(name, MetricType::Gauge, help);
        for level in &self.levels {
            self.text.sample(&name, &[(LEVEL, &level.name)], value(level));
        }
    }

    /// Writes a gauge with a minimum and a maximum per level.
    fn bounds(&mut self, name: &str, help: &str, value: fn(&LevelReport) -> [f64; 2]) {
        let name = self.family(name, MetricType::Gauge, help);
        for level in &self.levels {
            for (bound, value) in ["min", "max"].into_iter().zip(value(level)) {
                self.text.sample(&name, &[(LEVEL, &level.name), ("bound", bound)], value);
            }
        }
    }

    /// Writes histograms of each FlowSchema that have observations, with the values of one more label.
    fn histograms<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        label: Option<(&str, [&str; N])>,
        histograms: fn(&SchemaStatistics) -> [&Histogram; N],
    ) {
        let name = self.family(name, MetricType::Histogram, help);
        for (level, schema) in schemas(&self.levels) {
            for (position, histogram) in histograms(schema).into_iter().enumerate() {
                if histogram.count() == 0 {
                    continue;
                }
                let mut labels = vec![(LEVEL, &*level.name), (SCHEMA, &*schema.schema)];
                labels.extend(label.map(|(label, values)| (label, values[position])));
                let (count, sum) = (histogram.count(), histogram.sum());
                self.text.histogram(&name, &labels, histogram.buckets(), count, sum);
            }
        }
    }

    /// Writes histograms of a ratio over time.
    fn ratios(&mut self, name: &str, help: &str, ratios: &[(Option<&str>, RatioOfLevel)]) {
        let name = self.family(name, MetricType::Histogram, help);
        for (phase, ratio) in ratios {
            for level in &self.levels {
                let labels = phase.map(|phase| ("phase", phase)).into_iter();
                let labels: Vec<(&str, &str)> = labels.chain([(LEVEL, &*level.name)]).collect();
                let ratio = ratio(level);
                self.text.histogram(&name, &labels, ratio.buckets(), ratio.count(), ratio.sum());
            }
        }
    }

    fn requests(&mut self) {
        let name = self.family(
            "rejected_requests_total",
            MetricType::Counter,
            "Number of rejected requests, by priority level, flow schema and reason.",
        );
        for (level, schema) in schemas(&self.levels) {
            let reasons = Rejection::ALL.iter().zip(schema.rejected).filter(|(_, count)| *count > 0);
            for (reason, count) in reasons {
                let labels = [(LEVEL, &*level.name), (SCHEMA, &*schema.schema), ("reason", reason.as_str())];
                self.text.sample(&name, &labels, count);
            }
        }
        let (counter, gauge) = (MetricType::Counter, MetricType::Gauge);
        self.by_schema("dispatched_requests_total", counter, "Number of dispatched requests.", |schema| {
            schema.dispatched
        });
        self.by_schema(
            "request_dispatch_no_accommodation_total",
            counter,
            "Number of attempts to dispatch a request for which too few seats were free.",
            |schema| schema.not_accommodated,
        );
        self.by_schema("current_inqueue_requests", gauge, "Number of requests in queues.", |schema| {
            schema.waiting
        });
        self.by_schema(
            "current_inqueue_seats",
            gauge,
            "Number of seats that queued requests need.",
            |schema| schema.waiting_seats,
        );
        self.by_schema(
            "current_executing_requests",
            gauge,
            "Number of executing requests, of watches until they are initialized.",
            |schema| schema.executing,
        );
        self.by_schema("current_executing_seats", gauge, "Number of occupied seats.", |schema| {
            schema.executing_seats
        });
        self.histograms::<1>(
            "request_queue_length_after_enqueue",
            "Length of a queue after a request was added.",
            None,
            |schema| [&schema.queue_lengths],
        );
        self.histograms::<1>(
            "watch_count_samples",
            "Number of watches of written objects.",
            None,
            |schema| [&schema.watches],
        );
        self.histograms::<1>("work_estimated_seats", "Estimated seats of requests.", None, |schema| {
            [&schema.seats]
        });
    }

    fn durations(&mut self) {
        self.histograms(
            "request_wait_duration_seconds",
            "Time that requests waited in queues.",
            Some(("execute", ["false", "true"])),
            |schema| schema.wait_seconds.each_ref(),
        );
        self.histograms(
            "request_execution_seconds",
            "Duration of requests, and of the initialization of watches.",
            Some(("type", ["regular", "watch"])),
            |schema| schema.execution_seconds.each_ref(),
        );
    }

    fn progress(&mut self) {
        self.by_level("current_r", "Progress of the virtual world, in seat-seconds per queue.", |level| {
            level.progress.progress.as_f64()
        });
        self.by_level("dispatch_r", "Progress at the last dispatch from a queue.", |level| {
            level.progress.dispatch_progress.as_f64()
        });
        self.by_level("latest_s", "Virtual start of the request that was dispatched last.", |level| {
            level.progress.latest_start.as_f64()
        });
        self.bounds(
            "next_s_bounds",
            "Bounds of the virtual starts of the first requests of queues.",
            |level| level.progress.start_bounds.map(|bound| bound.as_f64()),
        );
        self.bounds(
            "next_discounted_s_bounds",
            "Bounds of the virtual starts of the first requests of queues, less the work in progress.",
            |level| level.progress.discounted_start_bounds.map(|bound| bound.as_f64()),
        );
    }

    fn limits(&mut self) {
        self.by_level("nominal_limit_seats", "Seats by the shares of the priority level.", |level| {
            level.limits.nominal.into()
        });
        self.by_level("lower_limit_seats", "Least number of seats of the priority level.", |level| {
            level.limits.lower.into()
        });
        self.by_level("upper_limit_seats", "Greatest number of seats of the priority level.", |level| {
            level.limits.upper.into()
        });
        self.by_level("current_limit_seats", "Number of seats of the priority level now.", |level| {
            level.limits.current.into()
        });
    }

    fn demand(&mut self, fair_fraction: f64) {
        self.by_level(
            "demand_seats_high_watermark",
            "Maximum of the seat demand in the last adjustment period.",
            |level| level.demand.high_watermark.into(),
        );
        self.by_level(
            "demand_seats_average",
            "Average of the seat demand in the last adjustment period.",
            |level| level.demand.average,
        );
        self.by_level(
            "demand_seats_stdev",
            "Standard deviation of the seat demand in the last adjustment period.",
            |level| level.demand.deviation,
        );
        self.by_level("demand_seats_smoothed", "Smoothed seat demand.", |level| level.demand.smoothed);
        self.by_level("target_seats", "Target of the last adjustment.", |level| level.demand_target);
        let help = "Fraction of its target that a priority level gets.";
        let name = self.family("seat_fair_frac", MetricType::Gauge, help);
        self.text.sample(&name, &[], fair_fraction);
    }

    fn utilization(&mut self) {
        self.ratios(
            "priority_level_seat_utilization",
            "Occupied seats as part of the limit, at every nanosecond.",
            &[(Some("executing"), |level| &level.seat_utilization)],
        );
        self.ratios(
            "priority_level_request_utilization",
            "Requests as part of the limit of their phase, at every nanosecond.",
            &[
                (Some("waiting"), |level| &level.waiting_utilization),
                (Some("executing"), |level| &level.executing_utilization),
            ],
        );
        self.ratios(
            "demand_seats",
            "Seat demand as part of the limit, at every nanosecond.",
            &[(None, |level| &level.demand_ratio)],
        );
    }
}

impl Writer {
    /// Writes the requests of all levels by phase and kind.
    fn current_requests(&mut self, histograms: &[[RatioHistogram; 2]; 2]) {
        let name = self.family(
            "read_vs_write_current_requests",
            MetricType::Histogram,
            "Number of requests that wait or execute, at every nanosecond.",
        );
        for (phase, kinds) in PHASES.iter().zip(histograms) {
            for (kind, histogram) in KINDS.iter().zip(kinds) {
                let labels = [("phase", *phase), ("request_kind", *kind)];
                let (count, sum) = (histogram.count(), histogram.sum());
                self.text.histogram(&name, &labels, histogram.buckets(), count, sum);
            }
        }
    }
}

fn schemas(levels: &[LevelReport]) -> impl Iterator<Item = (&LevelReport, &SchemaStatistics)> {
    levels.iter().flat_map(|level| level.schemas.iter().map(move |schema| (level, schema)))
}
