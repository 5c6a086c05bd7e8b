//! Go durations: `1h30m`, `1.5s`, `-2us`.

use std::fmt;

/// Units with their nanoseconds; the longer name first if one is a prefix of another.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000), // The micro sign.
    ("μs", 1_000), // The Greek letter.
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Maximum nanoseconds, the magnitude of the smallest negative duration.
const NANOS_MAX: u64 = 1 << 63;

/// Invalid duration, with the texts of Go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum DurationError {
    /// The text is malformed or out of range.
    #[error("time: invalid duration {0}")]
    Invalid(QuotedBytes),
    /// A number has no unit.
    #[error("time: missing unit in duration {0}")]
    MissingUnit(QuotedBytes),
    /// A number has an unknown unit.
    #[error("time: unknown unit {0} in duration {1}")]
    UnknownUnit(QuotedBytes, QuotedBytes),
}

/// A quoted string in which bytes outside printable ASCII are `\x` escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QuotedBytes(String);

impl fmt::Display for QuotedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for byte in self.0.bytes() {
            match byte {
                b'"' | b'\\' => write!(f, "\\{}", char::from(byte))?,
                b' '..=b'~' | 0x7f => write!(f, "{}", char::from(byte))?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        f.write_str("\"")
    }
}

/// Parses a duration in nanoseconds.
pub(super) fn parse(text: &str) -> Result<i64, DurationError> {
    let quoted = || QuotedBytes(text.to_owned());
    let invalid = || DurationError::Invalid(quoted());
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (nanos, after) = parse_part(rest, &quoted)?.ok_or_else(invalid)?;
        total = total.checked_add(nanos).filter(|total| *total <= NANOS_MAX).ok_or_else(invalid)?;
        rest = after;
    }
    if negative {
        return Ok(0i64.wrapping_sub_unsigned(total));
    }
    i64::try_from(total).map_err(|_| invalid())
}

/// Parses one number with its unit; `None` if there is none or it is out of range.
fn parse_part<'a>(
    text: &'a str,
    quoted: &impl Fn() -> QuotedBytes,
) -> Result<Option<(u64, &'a str)>, DurationError> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = text.split_at(digits(text));
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Ok(None);
    }
    let unit_end = rest.bytes().position(|byte| byte == b'.' || byte.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    if unit.is_empty() {
        return Err(DurationError::MissingUnit(quoted()));
    }
    let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(DurationError::UnknownUnit(QuotedBytes(unit.to_owned()), quoted()));
    };
    let whole: Option<u64> = if whole.is_empty() { Some(0) } else { whole.parse().ok() };
    let nanos = whole
        .and_then(|whole| whole.checked_mul(*scale))
        .and_then(|nanos| nanos.checked_add(fraction_nanos(fraction, *scale)))
        .filter(|nanos| *nanos <= NANOS_MAX);
    Ok(nanos.map(|nanos| (nanos, rest)))
}

/// Fractional digits in nanoseconds, truncated.
fn fraction_nanos(digits: &str, scale: u64) -> u64 {
    let (mut value, mut unit) = (0u128, 1u128);
    // Further digits do not change the nanoseconds.
    for digit in digits.bytes().take(18) {
        value = value * 10 + u128::from(digit - b'0');
        unit *= 10;
    }
    u64::try_from(value * u128::from(scale) / unit).expect("less than one unit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_as_in_go() {
        for (text, nanos) in [
            ("0", 0),
            ("5s", 5_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("-1.5s", -1_500_000_000),
            (".5m", 30_000_000_000),
            ("1.s", 1_000_000_000),
            ("3µs2ns", 3_002),
            ("3μs", 3_000),
            ("+1ms", 1_000_000),
            ("-9223372036854775808ns", i64::MIN),
        ] {
            assert_eq!(parse(text), Ok(nanos), "{text}");
        }
    }

    #[test]
    fn errors_have_the_texts_of_go() {
        for (text, message) in [
            ("", "time: invalid duration \"\""),
            ("x", "time: invalid duration \"x\""),
            ("-", "time: invalid duration \"-\""),
            (".s", "time: invalid duration \".s\""),
            ("5", "time: missing unit in duration \"5\""),
            ("1h5", "time: missing unit in duration \"1h5\""),
            ("5d", "time: unknown unit \"d\" in duration \"5d\""),
            ("5é", "time: unknown unit \"\\xc3\\xa9\" in duration \"5\\xc3\\xa9\""),
            ("9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""),
            ("99999999999h", "time: invalid duration \"99999999999h\""),
            ("1\"", "time: unknown unit \"\\\"\" in duration \"1\\\"\""),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message, "{text}");
        }
    }
}
