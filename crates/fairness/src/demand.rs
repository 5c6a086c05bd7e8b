//! Seat demand of a priority level: its integral over time, and the statistics that borrowing reads.

use std::time::Duration;

/// Decay of the smoothed demand per adjustment: half in five minutes.
const SMOOTHING: f64 = 0.977;

/// Integral of a demand over time.
#[derive(Clone, Debug)]
pub struct DemandIntegrator {
    integrated_to: Duration,
    value: f64,
    seconds: f64,
    integral: f64,
    integral_of_squares: f64,
    max: f64,
}

/// Moments of a demand over a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IntegratedDemand {
    /// Seconds of the period.
    pub seconds: f64,
    /// Average, weighted by time; 0 for an empty period.
    pub average: f64,
    /// Standard deviation; 0 for an empty period.
    pub deviation: f64,
    /// Maximum.
    pub max: f64,
}

impl DemandIntegrator {
    /// Begins to integrate a demand of zero at `now`.
    #[must_use]
    pub fn new(now: Duration) -> DemandIntegrator {
        DemandIntegrator {
            integrated_to: now,
            value: 0.0,
            seconds: 0.0,
            integral: 0.0,
            integral_of_squares: 0.0,
            max: 0.0,
        }
    }

    fn advance(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.integrated_to).as_secs_f64();
        self.integrated_to = self.integrated_to.max(now);
        self.seconds += elapsed;
        self.integral += self.value * elapsed;
        self.integral_of_squares += self.value * self.value * elapsed;
    }

    /// Sets the demand from `now` on.
    pub fn set(&mut self, now: Duration, value: f64) {
        self.advance(now);
        self.value = value;
        self.max = self.max.max(value);
    }

    /// Returns the moments up to `now`, and begins a new period.
    pub fn take(&mut self, now: Duration) -> IntegratedDemand {
        self.advance(now);
        let (mut average, mut deviation) = (0.0, 0.0);
        if self.seconds > 0.0 {
            average = self.integral / self.seconds;
            deviation = (self.integral_of_squares / self.seconds - average * average).max(0.0).sqrt();
        }
        let taken = IntegratedDemand { seconds: self.seconds, average, deviation, max: self.max };
        *self = DemandIntegrator {
            value: self.value,
            max: self.value,
            ..DemandIntegrator::new(self.integrated_to)
        };
        taken
    }
}

/// Statistics of the demand of a priority level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DemandStatistics {
    /// Maximum in the last period.
    pub high_watermark: u32,
    /// Average in the last period.
    pub average: f64,
    /// Standard deviation in the last period.
    pub deviation: f64,
    /// Envelope (average plus deviation) that rises at once and decays slowly.
    pub smoothed: f64,
}

impl DemandStatistics {
    /// Adds a period that spans `periods` adjustments.
    pub fn update(&mut self, demand: IntegratedDemand, periods: u32) {
        // Demands are counts of seats, so the maximum is a small whole number.
        self.high_watermark = demand.max.round() as u32;
        if demand.seconds <= 0.0 {
            return;
        }
        self.average = demand.average;
        self.deviation = demand.deviation;
        let envelope = demand.average + demand.deviation;
        let kept = SMOOTHING.powi(i32::try_from(periods).unwrap_or(i32::MAX));
        self.smoothed = envelope.max(kept * self.smoothed + (1.0 - kept) * envelope);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demand_has_average_deviation_and_maximum_of_its_period() {
        let at = Duration::from_secs;
        let mut demand = DemandIntegrator::new(at(0));
        demand.set(at(1), 4.0);
        demand.set(at(2), 0.0);
        let taken = demand.take(at(4));
        assert_eq!((taken.seconds, taken.average, taken.max), (4.0, 1.0, 4.0));
        assert!((taken.deviation - 3.0_f64.sqrt()).abs() < 1e-9);
        demand.set(at(4), 2.0);
        let taken = demand.take(at(4));
        assert_eq!((taken.seconds, taken.average, taken.deviation, taken.max), (0.0, 0.0, 0.0, 2.0));
    }

    #[test]
    fn smoothed_demand_rises_at_once_and_halves_in_five_minutes() {
        let busy = IntegratedDemand { seconds: 10.0, average: 100.0, deviation: 0.0, max: 100.0 };
        let idle = IntegratedDemand { average: 0.0, max: 0.0, ..busy };
        let mut statistics = DemandStatistics::default();
        statistics.update(busy, 1);
        assert_eq!(statistics.smoothed, 100.0);
        for _ in 0..30 {
            statistics.update(idle, 1);
        }
        assert!((45.0..55.0).contains(&statistics.smoothed), "{}", statistics.smoothed);
        let mut skipped = DemandStatistics { smoothed: 100.0, ..Default::default() };
        skipped.update(idle, 30);
        assert!((skipped.smoothed - statistics.smoothed).abs() < 1e-9);
    }
}
