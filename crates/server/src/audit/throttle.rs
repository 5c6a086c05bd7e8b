//! Rate of batches: a token bucket.

use std::time::Duration;

use tokio::time::Instant;

use super::options::ThrottleOptions;

/// Token bucket that is full at first.
#[derive(Debug)]
pub(super) struct Throttle {
    options: ThrottleOptions,
    tokens: f64,
    filled_at: Instant,
}

impl Throttle {
    #[expect(clippy::disallowed_methods, reason = "batches are sent in real time")]
    pub(super) fn new(options: ThrottleOptions) -> Throttle {
        Throttle { options, tokens: f64::from(options.burst), filled_at: Instant::now() }
    }

    /// Takes a token, once there is one.
    #[expect(clippy::disallowed_methods, reason = "batches are sent in real time")]
    pub(super) async fn take(&mut self) {
        let now = Instant::now();
        let rate = f64::from(self.options.qps);
        let earned = now.duration_since(self.filled_at).as_secs_f64() * rate;
        self.tokens = (self.tokens + earned).min(f64::from(self.options.burst)) - 1.0;
        self.filled_at = now;
        if self.tokens < 0.0 {
            let wait = Duration::try_from_secs_f64(-self.tokens / rate).unwrap_or(Duration::MAX);
            tokio::time::sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "the time is paused")]
    async fn batches_beyond_the_burst_have_the_configured_rate() {
        let start = Instant::now();
        let mut throttle = Throttle::new(ThrottleOptions { qps: 2.0, burst: 3 });
        for _ in 0..3 {
            throttle.take().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        for _ in 0..4 {
            throttle.take().await;
        }
        assert_eq!(start.elapsed().as_millis().div_ceil(100), 20);
    }
}
