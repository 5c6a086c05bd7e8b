//! `Date` headers, formatted once per second and reactor.
//!
//! The HTTP library keeps a date until its second has passed, so the header would not change after
//! the clock was set back. This header follows the clock in both directions.

use std::cell::RefCell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderValue;

thread_local! {
    /// The second that was formatted last, and its header.
    static LAST: RefCell<(u64, HeaderValue)> =
        const { RefCell::new((u64::MAX, HeaderValue::from_static(""))) };
}

/// Returns the time of the wall clock, in seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "headers and certificates are about the real wall clock")]
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Last second of the year 9999: an HTTP date has four digits for the year.
const LAST_SECOND: u64 = 253_402_300_799;

/// Returns the header for this second.
pub(super) fn header(second: u64) -> HeaderValue {
    let second = second.min(LAST_SECOND);
    LAST.with_borrow_mut(|last| {
        if last.0 != second {
            let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second));
            *last = (second, HeaderValue::from_str(&text).expect("a date is ASCII"));
        }
        last.1.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_follows_the_clock_in_both_directions() {
        let dates = [1_800_000_000, 1_800_000_001, 1_799_996_400, 1_800_000_001].map(header);
        assert_eq!(dates[0], "Fri, 15 Jan 2027 08:00:00 GMT");
        assert_eq!(dates[2], "Fri, 15 Jan 2027 07:00:00 GMT");
        assert_eq!(dates[1], dates[3]);
    }
}
