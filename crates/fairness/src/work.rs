//! Estimated work of requests, with upstream's constants.
//!
//! A request occupies its initial seats while it is executed. A write then occupies final seats for an additional
//! latency, for the watches that get its event.

pub mod list;

use std::time::Duration;

use setpoint_api::RequestInfo;

use crate::seats::SeatSeconds;

/// Seats of a request without a larger estimate.
pub const MINIMUM_SEATS: u32 = 1;
/// Upper bound of the seats of a list.
pub const MAXIMUM_LIST_SEATS: u32 = 100;
/// Upper bound of the seats of a write.
pub const MAXIMUM_MUTATING_SEATS: u32 = 10;
/// Watches that share a final seat.
const WATCHES_PER_SEAT: u64 = 10;
/// Time for which a final seat is occupied by an event.
const EVENT_LATENCY: Duration = Duration::from_millis(5);
/// Assumed duration of a request that is not finished yet.
pub(crate) const SERVICE_DURATION: Duration = Duration::from_millis(3);

/// Seats of a request, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkEstimate {
    /// Seats while the request is executed.
    pub initial_seats: u32,
    /// Seats during the additional latency.
    pub final_seats: u32,
    /// Time after the end of the request for which its seats stay occupied. The client does not wait for it.
    pub additional_latency: Duration,
}

impl WorkEstimate {
    /// Seats that the request occupies in both phases: the larger number of the two.
    #[must_use]
    pub fn max_seats(&self) -> u32 {
        self.initial_seats.max(self.final_seats)
    }

    /// Work of the final phase.
    #[must_use]
    pub fn final_work(&self) -> SeatSeconds {
        SeatSeconds::new(self.final_seats.into(), self.additional_latency)
    }

    /// Work of both phases, the first with its assumed duration.
    #[must_use]
    pub fn total_work(&self) -> SeatSeconds {
        SeatSeconds::new(self.initial_seats.into(), SERVICE_DURATION) + self.final_work()
    }

    /// Narrows the final phase to `limit` seats, and prolongs it by as much.
    pub(crate) fn narrow_to(&mut self, limit: u32) {
        let limit = limit.max(MINIMUM_SEATS);
        if self.final_seats > limit {
            self.additional_latency = self.final_work().duration_per_seat(limit.into());
            self.final_seats = limit;
        }
    }
}

/// Measure of the work of a request, before the bounds of its priority level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestWork {
    /// One seat.
    Plain,
    /// A list, or the initial events of a watch, of so many seats.
    List(u32),
    /// A write with so many watches that may get its event.
    Mutating(u64),
}

impl RequestWork {
    /// Returns the work of a write with so many watches; other requests are plain.
    #[must_use]
    pub fn of_write(info: &RequestInfo<'_>, watches: impl FnOnce() -> u64) -> RequestWork {
        let is_write = info.is_resource && matches!(info.verb, "create" | "update" | "patch" | "delete");
        // A token is no object, so its creation is no event.
        let is_token = info.resource == "serviceaccounts" && info.subresource == "token";
        if is_write && !is_token { RequestWork::Mutating(watches()) } else { RequestWork::Plain }
    }

    /// Returns the estimate within a priority level that allows requests `max_seats` seats, if it has such a bound.
    #[must_use]
    pub fn estimate(self, max_seats: Option<u32>) -> WorkEstimate {
        let bounded = |bound: u32| max_seats.filter(|max| (1..=bound).contains(max)).unwrap_or(bound);
        let initial = |seats: u32| WorkEstimate { initial_seats: seats, ..WorkEstimate::default() };
        match self {
            RequestWork::Plain => initial(MINIMUM_SEATS),
            RequestWork::List(seats) => initial(seats.clamp(MINIMUM_SEATS, bounded(MAXIMUM_LIST_SEATS))),
            RequestWork::Mutating(watches) if watches < WATCHES_PER_SEAT => initial(MINIMUM_SEATS),
            RequestWork::Mutating(watches) => {
                let wanted = u32::try_from(watches.div_ceil(WATCHES_PER_SEAT)).unwrap_or(u32::MAX);
                let mut estimate = WorkEstimate {
                    initial_seats: MINIMUM_SEATS,
                    final_seats: wanted,
                    additional_latency: EVENT_LATENCY,
                };
                estimate.narrow_to(bounded(MAXIMUM_MUTATING_SEATS));
                estimate
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutating(watches: u64, max: Option<u32>) -> (u32, u32, u128) {
        let estimate = RequestWork::Mutating(watches).estimate(max);
        (estimate.initial_seats, estimate.final_seats, estimate.additional_latency.as_millis())
    }

    #[test]
    fn write_occupies_final_seats_by_its_watches() {
        assert_eq!(mutating(0, None), (1, 0, 0));
        assert_eq!(mutating(9, None), (1, 0, 0));
        assert_eq!(mutating(10, None), (1, 1, 5));
        assert_eq!(mutating(25, None), (1, 3, 5));
        // Upstream's case of 199 watches: twenty seats become ten, for twice the time.
        assert_eq!(mutating(199, None), (1, 10, 10));
        assert_eq!(mutating(199, Some(5)), (1, 5, 20));
        assert_eq!(mutating(199, Some(15)), (1, 10, 10), "the level cannot raise the bound");
        assert_eq!(RequestWork::Mutating(u64::MAX).estimate(None).final_seats, 10);
    }

    #[test]
    fn list_is_bounded_by_its_level() {
        assert_eq!(RequestWork::List(0).estimate(None).max_seats(), 1);
        assert_eq!(RequestWork::List(50).estimate(None).max_seats(), 50);
        assert_eq!(RequestWork::List(500).estimate(None).max_seats(), 100);
        assert_eq!(RequestWork::List(500).estimate(Some(15)).max_seats(), 15);
        assert_eq!(RequestWork::List(500).estimate(Some(0)).max_seats(), 100, "zero is no bound");
    }

    #[test]
    fn token_requests_and_reads_are_plain() {
        let info = RequestInfo {
            is_resource: true,
            verb: "create",
            resource: "serviceaccounts",
            ..Default::default()
        };
        assert_eq!(RequestWork::of_write(&info, || 30), RequestWork::Mutating(30));
        let token = RequestInfo { subresource: "token", ..info };
        assert_eq!(RequestWork::of_write(&token, || 30), RequestWork::Plain);
        let read = RequestInfo { verb: "get", ..info };
        assert_eq!(RequestWork::of_write(&read, || unreachable!("reads have no event")), RequestWork::Plain);
    }
}
