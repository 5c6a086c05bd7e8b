//! Durations in Go's notation.

use std::time::Duration;

/// Units, longest names first where one begins another.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3600 * 1_000_000_000),
];

/// Parses a duration such as `1m30s` or `0.5s`. A negative one is zero.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut nanos) = (unsigned, 0u64);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let (unit, scale) = UNITS.iter().find(|(unit, _)| after.starts_with(unit))?;
        nanos = nanos.checked_add(scaled(number, *scale)?)?;
        rest = &after[unit.len()..];
    }
    let is_negative = text.starts_with('-');
    (i64::try_from(nanos).is_ok()).then(|| Duration::from_nanos(if is_negative { 0 } else { nanos }))
}

fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()? };
    let mut nanos = whole.checked_mul(scale)?;
    let mut unit = scale;
    for digit in fraction.bytes() {
        unit /= 10;
        nanos = nanos.checked_add(u64::from(digit - b'0') * unit)?;
    }
    Some(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_as_in_go() {
        for (text, millis) in
            [("3s", 3_000), ("1m30s", 90_000), ("0.5s", 500), ("1h", 3_600_000), ("-1s", 0), ("0", 0)]
        {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "3", "s", "1x", ".s", "1..s", "-", "99999999999999h"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_text_never_panics(text: String) {
            parse(&text);
        }
    }
}
