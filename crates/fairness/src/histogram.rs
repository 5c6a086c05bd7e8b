//! Histograms: of observations, and of a ratio over time.

use std::time::Duration;

/// Counts of observations by upper bound.
#[derive(Clone, Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// Observations by the first bound that they do not exceed; those above all bounds are in `count` alone.
    counts: Box<[u64]>,
    count: u64,
    sum: f64,
}

impl Histogram {
    /// Creates a histogram with these upper bounds, in ascending order.
    #[must_use]
    pub fn new(bounds: &'static [f64]) -> Histogram {
        Histogram { bounds, counts: vec![0; bounds.len()].into(), count: 0, sum: 0.0 }
    }

    /// Counts an observation.
    pub fn observe(&mut self, value: f64) {
        if let Some(bucket) = self.bounds.iter().position(|bound| value <= *bound) {
            self.counts[bucket] += 1;
        }
        self.count += 1;
        self.sum += value;
    }

    /// Upper bounds, each with the number of observations up to it.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        cumulative(self.bounds, &self.counts)
    }

    /// Number of observations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of the observations.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum
    }
}

fn cumulative<'a>(bounds: &'static [f64], counts: &'a [u64]) -> impl Iterator<Item = (f64, u64)> + 'a {
    bounds.iter().zip(counts).scan(0, |sum, (bound, count)| {
        *sum += count;
        Some((*bound, *sum))
    })
}

/// Histogram of a ratio that is observed at the end of every nanosecond.
#[derive(Clone, Debug)]
pub struct RatioHistogram {
    bounds: &'static [f64],
    nanos: Box<[u64]>,
    total_nanos: u64,
    sum: f64,
    /// Time up to which the ratio is counted.
    counted_to: Duration,
    numerator: f64,
    denominator: f64,
    /// Ratio since `counted_to`, and the bucket that it is in.
    ratio: f64,
    bucket: usize,
}

impl RatioHistogram {
    /// Creates a histogram of a ratio that is zero at `now`.
    #[must_use]
    pub fn new(bounds: &'static [f64], now: Duration) -> RatioHistogram {
        let mut histogram = RatioHistogram {
            bounds,
            nanos: vec![0; bounds.len()].into(),
            total_nanos: 0,
            sum: 0.0,
            counted_to: now,
            numerator: 0.0,
            denominator: 1.0,
            ratio: 0.0,
            bucket: 0,
        };
        histogram.set_ratio();
        histogram
    }

    /// Counts the ratio up to `now`.
    pub fn advance(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.counted_to);
        if elapsed.is_zero() {
            return;
        }
        self.counted_to = now;
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.nanos.get_mut(self.bucket) {
            *bucket = bucket.saturating_add(nanos);
        }
        self.total_nanos = self.total_nanos.saturating_add(nanos);
        self.sum += self.ratio * elapsed.as_secs_f64() * 1e9;
    }

    /// Sets the numerator from `now` on.
    pub fn set(&mut self, now: Duration, numerator: f64) {
        self.advance(now);
        self.numerator = numerator;
        self.set_ratio();
    }

    /// Sets the denominator from `now` on; it is at least 1.
    pub fn set_denominator(&mut self, now: Duration, denominator: f64) {
        self.advance(now);
        self.denominator = denominator.max(1.0);
        self.set_ratio();
    }

    fn set_ratio(&mut self) {
        self.ratio = self.numerator / self.denominator;
        let first = self.bounds.iter().position(|bound| self.ratio <= *bound);
        self.bucket = first.unwrap_or(self.bounds.len());
    }

    /// Upper bounds, each with the nanoseconds for which the ratio did not exceed it.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        cumulative(self.bounds, &self.nanos)
    }

    /// Nanoseconds counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.total_nanos
    }

    /// Integral of the ratio over nanoseconds.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observations_are_cumulative() {
        let mut histogram = Histogram::new(&[1.0, 2.0]);
        [1.0, 1.5, 9.0].into_iter().for_each(|value| histogram.observe(value));
        assert_eq!(histogram.buckets().collect::<Vec<_>>(), [(1.0, 1), (2.0, 2)]);
        assert_eq!((histogram.count(), histogram.sum()), (3, 11.5));
    }

    #[test]
    fn ratio_is_weighted_by_time() {
        let at = Duration::from_nanos;
        let mut histogram = RatioHistogram::new(&[0.0, 0.5, 1.0], at(0));
        histogram.set_denominator(at(0), 4.0);
        histogram.set(at(10), 2.0);
        histogram.set(at(30), 8.0);
        histogram.advance(at(35));
        assert_eq!(histogram.buckets().collect::<Vec<_>>(), [(0.0, 10), (0.5, 30), (1.0, 30)]);
        assert_eq!(histogram.count(), 35);
        assert!((histogram.sum() - 20.0).abs() < 1e-9, "{}", histogram.sum());
    }
}
