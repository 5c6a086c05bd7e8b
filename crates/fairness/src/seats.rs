//! Work of requests: seats occupied, multiplied by time.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

/// Nanoseconds per unit of the last digit that is shown.
const SHOWN_NANOS: i128 = 10;
/// Shown digits per seat-second: eight decimal places.
const SHOWN_PER_SECOND: i128 = 100_000_000;

/// Work in seat-seconds, with nanosecond resolution. As a progress meter it does not overflow: 128 bits last longer than
/// the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeatSeconds(i128);

impl SeatSeconds {
    /// No work.
    pub const ZERO: SeatSeconds = SeatSeconds(0);

    /// Returns the work of `seats` seats for a duration.
    #[must_use]
    pub fn new(seats: u64, duration: Duration) -> SeatSeconds {
        SeatSeconds(i128::from(seats).saturating_mul(nanos(duration)))
    }

    /// Returns the part of this work that each of `parties` gets.
    #[must_use]
    pub fn share(self, parties: u64) -> SeatSeconds {
        SeatSeconds(self.0 / i128::from(parties.max(1)))
    }

    /// Returns the duration for which `seats` seats must be occupied to do this work.
    #[must_use]
    pub fn duration_per_seat(self, seats: u64) -> Duration {
        let nanos = self.0.max(0) / i128::from(seats.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the work in seat-seconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "metrics need no more precision")]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

impl Add for SeatSeconds {
    type Output = SeatSeconds;

    fn add(self, other: SeatSeconds) -> SeatSeconds {
        SeatSeconds(self.0.saturating_add(other.0))
    }
}

impl Sub for SeatSeconds {
    type Output = SeatSeconds;

    fn sub(self, other: SeatSeconds) -> SeatSeconds {
        SeatSeconds(self.0.saturating_sub(other.0))
    }
}

impl AddAssign for SeatSeconds {
    fn add_assign(&mut self, other: SeatSeconds) {
        *self = *self + other;
    }
}

impl SubAssign for SeatSeconds {
    fn sub_assign(&mut self, other: SeatSeconds) {
        *self = *self - other;
    }
}

impl Sum for SeatSeconds {
    fn sum<I: Iterator<Item = SeatSeconds>>(all: I) -> SeatSeconds {
        all.fold(SeatSeconds::ZERO, SeatSeconds::add)
    }
}

impl fmt::Display for SeatSeconds {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0 / SHOWN_NANOS;
        let (sign, shown) = if shown < 0 { ("-", -shown) } else { ("", shown) };
        write!(out, "{sign}{}.{:08}ss", shown / SHOWN_PER_SECOND, shown % SHOWN_PER_SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_shown_with_eight_decimal_places() {
        let work = SeatSeconds::new(3, Duration::from_millis(5));
        assert_eq!(work.to_string(), "0.01500000ss");
        assert_eq!((SeatSeconds::ZERO - work).to_string(), "-0.01500000ss");
        assert_eq!(SeatSeconds::new(2, Duration::from_secs(61)).to_string(), "122.00000000ss");
    }

    #[test]
    fn work_divides_by_seats_and_parties() {
        let work = SeatSeconds::new(20, Duration::from_millis(5));
        assert_eq!(work.duration_per_seat(10), Duration::from_millis(10));
        assert_eq!(work.share(4), SeatSeconds::new(5, Duration::from_millis(5)));
        assert_eq!(work.share(0), work);
    }
}
