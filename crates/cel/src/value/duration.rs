//! Durations in nanoseconds, with the texts of Go.

/// Nanoseconds per second.
pub(crate) const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Duration in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DurationValue(pub i64);

/// Units of Go's `ParseDuration` in nanoseconds.
const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", NANOS_PER_SECOND),
    ("m", 60 * NANOS_PER_SECOND),
    ("h", 3_600 * NANOS_PER_SECOND),
];

/// Further units of the `duration` format of a schema, by the first letters of their names.
const FORMAT_UNITS: [(&[&str], i64); 8] = [
    (&["ns", "nano"], 1),
    (&["us", "\u{b5}s", "micro"], 1_000),
    (&["ms", "milli"], 1_000_000),
    (&["s", "sec"], NANOS_PER_SECOND),
    (&["m", "min"], 60 * NANOS_PER_SECOND),
    (&["h", "hr", "hour"], 3_600 * NANOS_PER_SECOND),
    (&["d", "day"], 24 * 3_600 * NANOS_PER_SECOND),
    (&["w", "wk", "week"], 7 * 24 * 3_600 * NANOS_PER_SECOND),
];

impl DurationValue {
    /// Parses a duration such as `1h30m` or `-1.5s`, as Go does.
    #[must_use]
    pub fn parse(text: &str) -> Option<DurationValue> {
        let (is_negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Some(DurationValue(0));
        }
        if rest.is_empty() {
            return None;
        }
        let mut total: i128 = 0;
        while !rest.is_empty() {
            let (number, after) = Number::parse(rest)?;
            let length = after.find(|next: char| next == '.' || next.is_ascii_digit()).unwrap_or(after.len());
            let (unit, next) = after.split_at(length);
            let (_, nanos) = UNITS.iter().find(|(name, _)| *name == unit)?;
            total = total.checked_add(number.times(*nanos)?)?;
            rest = next;
        }
        to_nanos(total, is_negative)
    }

    /// Parses the `duration` format of a schema: Go's durations, or numbers with units such as `3 days`.
    #[must_use]
    pub fn parse_format(text: &str) -> Option<DurationValue> {
        if let Some(duration) = DurationValue::parse(text) {
            return Some(duration);
        }
        let trimmed = text.trim();
        let (is_negative, mut rest) = match trimmed.strip_prefix('-') {
            Some(rest) => (true, rest.trim_start()),
            None => (false, trimmed),
        };
        let mut total: i128 = 0;
        if rest.is_empty() {
            return None;
        }
        while !rest.is_empty() {
            let (number, after) = Number::parse(rest)?;
            let after = after.trim_start();
            let length = after.find(|next: char| !next.is_alphabetic()).unwrap_or(after.len());
            let (unit, next) = after.split_at(length);
            let unit = unit.to_lowercase();
            let matches = |name: &&str| *name == unit || (name.len() > 2 && unit.starts_with(*name));
            let (_, nanos) = FORMAT_UNITS.iter().find(|(names, _)| names.iter().any(matches))?;
            total = total.checked_add(number.times(*nanos)?)?;
            rest = next.trim_start();
        }
        to_nanos(total, is_negative)
    }

    /// Text in seconds, such as `1.5s`.
    #[must_use]
    pub fn to_text(self) -> String {
        // Cel-go prints the double of the seconds.
        let seconds = (self.0 / NANOS_PER_SECOND) as f64 + (self.0 % NANOS_PER_SECOND) as f64 / 1e9;
        format!("{seconds}s")
    }
}

fn to_nanos(total: i128, is_negative: bool) -> Option<DurationValue> {
    i64::try_from(if is_negative { -total } else { total }).ok().map(DurationValue)
}

/// Decimal number: digits and a fraction over a power of ten.
struct Number {
    whole: i128,
    fraction: i128,
    scale: i128,
}

impl Number {
    /// Parses digits with an optional fraction, at least one digit in all.
    fn parse(text: &str) -> Option<(Number, &str)> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        // 19 digits hold every count of nanoseconds that fits.
        if digits > 19 {
            return None;
        }
        let (whole, mut rest) = text.split_at(digits);
        let mut number = Number { whole: whole.parse().unwrap_or_default(), fraction: 0, scale: 1 };
        let mut fraction_digits = 0;
        if let Some(after) = rest.strip_prefix('.') {
            fraction_digits = after.bytes().take_while(u8::is_ascii_digit).count();
            for digit in after.bytes().take(fraction_digits.min(18)) {
                number.fraction = number.fraction * 10 + i128::from(digit - b'0');
                number.scale *= 10;
            }
            rest = &after[fraction_digits..];
        }
        (digits + fraction_digits > 0).then_some((number, rest))
    }

    fn times(&self, nanos: i64) -> Option<i128> {
        let nanos = i128::from(nanos);
        self.whole.checked_mul(nanos)?.checked_add(self.fraction * nanos / self.scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_as_in_go() {
        for (text, nanos) in [
            ("0", Some(0)),
            ("1h30m", Some(5_400 * NANOS_PER_SECOND)),
            ("-1.5s", Some(-1_500_000_000)),
            ("1us", Some(1_000)),
            ("100ms", Some(100_000_000)),
            (".5s", Some(500_000_000)),
            ("1", None),
            ("", None),
            ("s", None),
            ("1x", None),
            ("99999999999999999h", None),
        ] {
            assert_eq!(DurationValue::parse(text).map(|duration| duration.0), nanos, "{text}");
        }
        let day = 24 * 3_600 * NANOS_PER_SECOND;
        assert_eq!(DurationValue::parse_format("2 days"), Some(DurationValue(2 * day)));
        assert_eq!(DurationValue::parse_format("1 fortnight"), None);
        assert_eq!(DurationValue(1_500_000_000).to_text(), "1.5s");
        assert_eq!(DurationValue(3_600 * NANOS_PER_SECOND).to_text(), "3600s");
    }
}
