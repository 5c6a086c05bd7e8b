//! Prometheus text format.

use std::fmt::{Display, Write};

/// Metric type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// Cumulative count that never decreases.
    Counter,
    /// Value that can increase and decrease.
    Gauge,
    /// Observations counted in buckets.
    Histogram,
}

/// Metrics in the text format, as they are written.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// Starts a family; its samples follow.
    pub fn family(&mut self, name: &str, metric_type: MetricType, help: &str) {
        let metric_type = match metric_type {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
        };
        self.push_fmt(format_args!("# HELP {name} {help}\n# TYPE {name} {metric_type}\n"));
    }

    /// Adds a sample.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (i, (label, value)) in labels.iter().enumerate() {
            self.push_fmt(format_args!("{}{label}=\"", if i == 0 { '{' } else { ',' }));
            for char in value.chars() {
                match char {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    char => self.0.push(char),
                }
            }
            self.0.push('"');
        }
        self.push_fmt(format_args!("{} {value}\n", if labels.is_empty() { "" } else { "}" }));
    }

    /// Adds a histogram: cumulative counts of all buckets, the total and the sum.
    pub(crate) fn histogram(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        buckets: impl Iterator<Item = (f64, u64)>,
        count: u64,
        sum: f64,
    ) {
        let bucket = format!("{name}_bucket");
        for (bound, cumulative) in buckets
            .map(|(bound, cumulative)| (bound.to_string(), cumulative))
            .chain([("+Inf".to_owned(), count)])
        {
            let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            self.sample(&bucket, &labels, cumulative);
        }
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, count);
    }

    /// Returns the text.
    #[must_use]
    pub fn finish(self) -> String {
        self.0
    }

    fn push_fmt(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.0.write_fmt(arguments).expect("a string takes any text");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_samples_and_histograms_follow_the_text_format() {
        let mut text = Text::default();
        text.family("a_total", MetricType::Counter, "Things.");
        text.sample("a_total", &[("x", "1\"\\\n"), ("y", "")], 3);
        text.sample("a_total", &[], 4);
        text.histogram("h", &[("x", "1")], [(0.005, 1), (1.0, 2)].into_iter(), 3, 2.5);
        let expected = "# HELP a_total Things.\n# TYPE a_total counter\na_total{x=\"1\\\"\\\\\\n\",y=\"\"} 3\na_total 4\n\
                        h_bucket{x=\"1\",le=\"0.005\"} 1\nh_bucket{x=\"1\",le=\"1\"} 2\nh_bucket{x=\"1\",le=\"+Inf\"} 3\n\
                        h_sum{x=\"1\"} 2.5\nh_count{x=\"1\"} 3\n";
        assert_eq!(text.finish(), expected);
    }
}
