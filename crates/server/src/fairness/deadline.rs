//! Time that a request may wait.

use std::time::Duration;

use crate::query::QueryParams;

/// Timeout of requests that specify none, and upper bound of those that do.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Part of its timeout that a request may wait.
const WAIT_PART: u32 = 4;

/// Returns the time that a request may wait: a quarter of its timeout. The timeout of a watch is not that of its start.
#[must_use]
pub fn wait_limit(query: &str, is_watch: bool) -> Duration {
    let has_timeout = !is_watch && query.contains("timeout=");
    let timeout = has_timeout.then(|| parse(QueryParams::parse(query).get("timeout"))).flatten();
    timeout.filter(|timeout| !timeout.is_zero()).unwrap_or(REQUEST_TIMEOUT).min(REQUEST_TIMEOUT) / WAIT_PART
}

/// Parses a duration of Go: `1m30s`, `1.5s`, `300ms`.
fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, tail) = rest.split_at(digits);
        let unit = tail.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        let scale = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * scale;
        rest = tail;
    }
    Duration::try_from_secs_f64(seconds).ok().filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_waits_for_a_quarter_of_its_timeout() {
        let millis = |query: &str| wait_limit(query, false).as_millis();
        assert_eq!(millis(""), 15_000);
        assert_eq!(millis("timeout=10s"), 2500);
        assert_eq!(millis("limit=5&timeout=1m2s"), 15_000, "60 s are the maximum");
        assert_eq!(millis("timeout=1.5s"), 375);
        assert_eq!(millis("timeout=300ms"), 75);
        for invalid in [
            "timeout=",
            "timeout=x",
            "timeout=5",
            "timeout=-1s",
            "timeout=0s",
            "timeout=9e99s",
            "timeout=1.2.3s",
        ] {
            assert_eq!(millis(invalid), 15_000, "{invalid}");
        }
        assert_eq!(wait_limit("timeout=1s", true).as_secs(), 15);
    }
}
