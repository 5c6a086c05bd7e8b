//! Dates, times and durations.

/// `true` for a date as `2006-01-02`.
pub(super) fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<u32> {
        let digits = &bytes[from..to];
        digits
            .iter()
            .all(u8::is_ascii_digit)
            .then(|| digits.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0')))
    };
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    let (Some(year), Some(month), Some(day)) = (number(0, 4), number(5, 7), number(8, 10)) else {
        return false;
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// `true` for a date and a time with a zone. As upstream, no leap second, and any character before a fraction.
pub(super) fn is_date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    is_date(date) && is_time(time)
}

fn is_time(text: &str) -> bool {
    let Some((clock, rest)) = text.split_at_checked(8) else { return false };
    let clock = clock.as_bytes();
    let two =
        |at: usize, max: &[u8]| clock[at..at + 2].iter().all(u8::is_ascii_digit) && &clock[at..at + 2] <= max;
    if clock[2] != b':' || clock[5] != b':' || !two(0, b"23") || !two(3, b"59") || !two(6, b"59") {
        return false;
    }
    if is_zone(rest) {
        return true;
    }
    let mut chars = rest.chars();
    if chars.next().is_none_or(|c| c == '\n') {
        return false;
    }
    let fraction = chars.as_str();
    let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    zone.len() < fraction.len() && is_zone(zone)
}

fn is_zone(text: &str) -> bool {
    match text.as_bytes() {
        b"z" => true,
        [b'+' | b'-', a, b, b':', c, d] => [a, b, c, d].into_iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// Units in groups of synonyms; a unit may also begin with the last of a group.
const UNITS: [&[&str]; 8] = [
    &["ns", "nano"],
    &["us", "\u{b5}s", "micro"],
    &["ms", "milli"],
    &["s", "sec"],
    &["m", "min"],
    &["h", "hr", "hour"],
    &["d", "day"],
    &["w", "wk", "week"],
];

/// `true` for a Go duration, or a text with at least one number and unit, such as `3 days`.
pub(super) fn is_duration(text: &str) -> bool {
    if is_go_duration(text) {
        return true;
    }
    let mut has_unit = false;
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        rest = &rest[start..];
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = &rest[..rest.len() - after.len()];
        let word = after.trim_start_matches(['\t', '\n', '\u{c}', '\r', ' ']);
        rest = word.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '\u{b5}');
        let unit = word[..word.len() - rest.len()].to_lowercase();
        if unit.is_empty() {
            continue;
        }
        if number.parse::<i64>().is_err() {
            return false;
        }
        has_unit |= UNITS.iter().any(|names| {
            names.contains(&unit.as_str()) || names.last().is_some_and(|last| unit.starts_with(last))
        });
    }
    has_unit
}

/// `true` for a duration of Go's `time.ParseDuration`, such as `1h30m` or `-1.5s`.
fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    let mut total_ns = 0.0_f64;
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number = &rest[..rest.len() - after.len()];
        if !number.contains(|c: char| c.is_ascii_digit()) || number.matches('.').count() > 1 {
            return false;
        }
        let next = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let unit_ns = match &after[..next] {
            "ns" => 1.0,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return false,
        };
        total_ns += number.trim_end_matches('.').parse::<f64>().unwrap_or(0.0) * unit_ns;
        rest = &after[next..];
    }
    // Go's durations are 64-bit nanoseconds.
    total_ns <= 9.223_372_036_854_776e18
}
