//! Requests that wait or execute, by kind, over time: upstream's `read_vs_write_current_requests`.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_api::RequestInfo;
use setpoint_fairness::RatioHistogram;

/// Upper bounds of the buckets. Upstream divides by 1, so most of the time is in the first and the last.
const BOUNDS: [f64; 15] = [0.0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];
/// Verbs of requests that read.
const READING: [&str; 3] = ["get", "list", "watch"];

/// Phase of a request, as in the label `phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestPhase {
    Waiting,
    Executing,
}

/// Values of the labels `phase` and `request_kind`.
pub(super) const PHASES: [&str; 2] = ["waiting", "executing"];
pub(super) const KINDS: [&str; 2] = ["readOnly", "mutating"];

/// Number of requests in a phase, and its history.
#[derive(Clone, Debug)]
struct PhaseCount {
    requests: u32,
    ratio: RatioHistogram,
}

/// Requests by phase and kind.
#[derive(Debug)]
pub(super) struct CurrentRequests(Mutex<[[PhaseCount; 2]; 2]>);

impl CurrentRequests {
    pub fn new(now: Duration) -> CurrentRequests {
        let none = || PhaseCount { requests: 0, ratio: RatioHistogram::new(&BOUNDS, now) };
        CurrentRequests(Mutex::new([(); 2].map(|()| [(); 2].map(|()| none()))))
    }

    /// Histograms up to now, by phase and kind in the order of [`PHASES`] and [`KINDS`].
    pub fn histograms(&self, now: Duration) -> [[RatioHistogram; 2]; 2] {
        let mut counts = self.0.lock();
        counts.iter_mut().flatten().for_each(|count| count.ratio.advance(now));
        counts.each_ref().map(|kinds| kinds.each_ref().map(|count| count.ratio.clone()))
    }

    fn change(&self, now: Duration, kind: usize, from: Option<RequestPhase>, to: Option<RequestPhase>) {
        let mut counts = self.0.lock();
        for (phase, is_end) in [(from, true), (to, false)] {
            let Some(phase) = phase else { continue };
            let count = &mut counts[phase as usize][kind];
            count.requests = if is_end { count.requests.saturating_sub(1) } else { count.requests + 1 };
            count.ratio.set(now, count.requests.into());
        }
    }
}

/// A request that is counted until [`CountedRequest::end`].
pub(super) struct CountedRequest {
    requests: Arc<CurrentRequests>,
    kind: usize,
    phase: Option<RequestPhase>,
}

impl CountedRequest {
    /// Counts a request.
    pub fn begin(
        requests: &Arc<CurrentRequests>,
        now: Duration,
        info: &RequestInfo<'_>,
        phase: RequestPhase,
    ) -> CountedRequest {
        let kind = usize::from(!READING.contains(&info.verb));
        requests.change(now, kind, None, Some(phase));
        CountedRequest { requests: Arc::clone(requests), kind, phase: Some(phase) }
    }

    /// The request executes from now on.
    pub fn execute(&mut self, now: Duration) {
        let from = self.phase.replace(RequestPhase::Executing);
        self.requests.change(now, self.kind, from, self.phase);
    }

    /// The request is over.
    pub fn end(&mut self, now: Duration) {
        if let Some(phase) = self.phase.take() {
            self.requests.change(now, self.kind, Some(phase), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_phase_and_kind_over_time() {
        let at = Duration::from_nanos;
        let requests = Arc::new(CurrentRequests::new(at(0)));
        let info = |verb| RequestInfo { verb, ..RequestInfo::default() };
        let mut write = CountedRequest::begin(&requests, at(10), &info("create"), RequestPhase::Waiting);
        let mut read = CountedRequest::begin(&requests, at(20), &info("list"), RequestPhase::Executing);
        write.execute(at(30));
        write.end(at(50));
        read.end(at(60));
        read.end(at(70));
        let sums = requests.histograms(at(100)).map(|kinds| kinds.map(|histogram| histogram.sum().round()));
        // Waiting: 20 ns of a write. Executing: 40 ns of a read and 20 ns of a write.
        assert_eq!(sums, [[0.0, 20.0], [40.0, 20.0]]);
        assert!(requests.histograms(at(100)).iter().flatten().all(|histogram| histogram.count() == 100));
    }
}
