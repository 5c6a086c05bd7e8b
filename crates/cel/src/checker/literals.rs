//! Syntax of durations and timestamps in literals.

/// Seconds of `0001-01-01T00:00:00Z`.
const TIMESTAMP_SECONDS_MIN: i64 = -62_135_596_800;

/// Seconds of `9999-12-31T23:59:59Z`.
const TIMESTAMP_SECONDS_MAX: i64 = 253_402_300_799;

const NANOSECONDS_PER_SECOND: f64 = 1e9;

/// `true` for a sequence of decimal numbers with units, such as `1h30m` or `-1.5s`, whose nanoseconds fit 64 bits.
pub(super) fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut nanoseconds = 0.0;
    while !rest.is_empty() {
        let digits =
            |part: &str| part.len() - part.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
        let whole = digits(rest);
        let fraction = rest[whole..].strip_prefix('.').map(digits);
        let number = &rest[..whole + fraction.map_or(0, |length| length + 1)];
        if whole + fraction.unwrap_or_default() == 0 {
            return false;
        }
        rest = &rest[number.len()..];
        let unit_end = rest.find(|next: char| next == '.' || next.is_ascii_digit()).unwrap_or(rest.len());
        let scale = match &rest[..unit_end] {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => NANOSECONDS_PER_SECOND,
            "m" => 60.0 * NANOSECONDS_PER_SECOND,
            "h" => 3600.0 * NANOSECONDS_PER_SECOND,
            _ => return false,
        };
        rest = &rest[unit_end..];
        nanoseconds += number.parse::<f64>().unwrap_or(f64::INFINITY) * scale;
    }
    // An approximation at the very end of the range, which is 292 years.
    !text.is_empty() && !text.ends_with(['-', '+']) && nanoseconds <= 9.223_372_036_854_775e18
}

/// `true` for seconds between the years 1 and 9999.
pub(super) fn is_timestamp_seconds(seconds: i64) -> bool {
    (TIMESTAMP_SECONDS_MIN..=TIMESTAMP_SECONDS_MAX).contains(&seconds)
}

/// `true` for an RFC 3339 timestamp with `T`, seconds and a time zone, between the years 1 and 9999.
pub(super) fn is_timestamp(text: &str) -> bool {
    parse_timestamp(text).is_some_and(is_timestamp_seconds)
}

/// Returns the seconds since 1970.
fn parse_timestamp(text: &str) -> Option<i64> {
    let number = |at: std::ops::Range<usize>| -> Option<i64> {
        let digits = text.get(at)?;
        digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
    };
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let separators = [(4, "-"), (7, "-"), (10, "T"), (13, ":"), (16, ":")];
    if separators.into_iter().any(|(at, separator)| text.get(at..=at) != Some(separator)) {
        return None;
    }
    let is_valid = (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    if !is_valid || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut zone = &text[19..];
    if let Some(fraction) = zone.strip_prefix(['.', ',']) {
        zone = fraction.trim_start_matches(|digit: char| digit.is_ascii_digit());
        if zone.len() == fraction.len() {
            return None;
        }
    }
    let local = days_from_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    Some(local - zone_seconds(zone)?)
}

/// Returns the offset of `Z` or `+hh:mm`.
fn zone_seconds(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let sign = match zone.get(..1)? {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let (hours, minutes) = zone[1..].split_once(':')?;
    let is_pair = |part: &str| part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_digit());
    if !is_pair(hours) || !is_pair(minutes) {
        return None;
    }
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours <= 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days since 1970-01-01 in the Gregorian calendar; years begin in March, so that the leap day is last.
fn days_from_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for text in ["0", "+0", "1s", "-1.5h", "1h2m3s4ms5us6ns", ".5s", "5.s", "1µs", "2562047h"] {
            assert!(is_duration(text), "{text}");
        }
        for text in ["", "-", "1", "s", ".s", "1x", "1h1", "--1s", "1 s", "3000000h", "1sé"] {
            assert!(!is_duration(text), "{text}");
        }
    }

    #[test]
    fn timestamps_are_those_of_rfc_3339() {
        for text in [
            "2024-02-29T23:59:59Z",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59.999999999Z",
            "1970-01-01T00:00:00+14:00",
        ] {
            assert!(is_timestamp(text), "{text}");
        }
        for text in [
            "",
            "2023-02-29T00:00:00Z",
            "2024-01-01",
            "2024-01-01T00:00:00",
            "2024-01-01 00:00:00Z",
            "2024-13-01T00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:00:00+1:00",
            "0001-01-01T00:00:00+01:00",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00é",
            "é024-01-01T00:00:00Z",
        ] {
            assert!(!is_timestamp(text), "{text}");
        }
        assert_eq!(parse_timestamp("2000-03-01T00:00:01Z"), Some(951_868_801));
        assert!(is_timestamp_seconds(0) && !is_timestamp_seconds(i64::MAX));
    }
}
