//! RFC 3339 timestamps: `2026-11-15T20:07:00Z`, and with microseconds `2026-11-15T20:07:00.000000Z`.
//!
//! Timestamps are printed in UTC and parsed with any offset, truncated to microseconds. The parser accepts
//! the deviations that Go accepts (a single digit for the hour, a comma before the fraction) and has Go's
//! error texts.

use std::fmt;

use thiserror::Error;

use crate::time::Time;

/// Go's zero time: the first second of the year 1. Fields with it are encoded as `null`.
pub const UNSET: Time = Time::from_seconds(-62_135_596_800);

const SECONDS_LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const MICROS_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";
const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// Displays a time in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(pub Time);

/// Displays a time in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Micros(pub Time);

/// Displays a time with nine fractional digits, as in logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nanos(pub Time);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_seconds(f, self.0)?;
        f.write_str("Z")
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_seconds(f, self.0)?;
        write!(f, ".{:06}Z", self.0.0.rem_euclid(MICROS_PER_SECOND))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_seconds(f, self.0)?;
        write!(f, ".{:06}000Z", self.0.0.rem_euclid(MICROS_PER_SECOND))
    }
}

fn write_seconds(f: &mut fmt::Formatter<'_>, time: Time) -> fmt::Result {
    let seconds = time.0.div_euclid(MICROS_PER_SECOND);
    let (year, month, day) = date_from_days(seconds.div_euclid(SECONDS_PER_DAY));
    let of_day = seconds.rem_euclid(SECONDS_PER_DAY);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    // Fast path: every write prints a timestamp or two, and four-digit years need no formatting machinery.
    if let 0..=9999 = year {
        let mut text = *b"0000-00-00T00:00:00";
        let parts = [year / 100, year % 100, month, day, hour, minute, second];
        for (at, part) in [0, 2, 5, 8, 11, 14, 17].into_iter().zip(parts) {
            let part = u8::try_from(part).expect("two digits");
            (text[at], text[at + 1]) = (b'0' + part / 10, b'0' + part % 10);
        }
        return f.write_str(std::str::from_utf8(&text).expect("digits are ASCII"));
    }
    let sign = if year < 0 { "-" } else { "" };
    let year = year.unsigned_abs();
    write!(f, "{sign}{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// Parses a timestamp as in `2026-11-15T20:07:00Z`, with or without a fraction.
///
/// # Errors
/// If the text is not a timestamp; the message is meant for the client.
pub fn parse(text: &str) -> Result<Time, TimeError> {
    TimeParser { text, layout: SECONDS_LAYOUT, rest: text.as_bytes() }.parse(false)
}

/// Parses a timestamp as in `2026-11-15T20:07:00.000000Z`, with exactly six fractional digits.
///
/// # Errors
/// If the text is not a timestamp; the message is meant for the client.
pub fn parse_micros(text: &str) -> Result<Time, TimeError> {
    TimeParser { text, layout: MICROS_LAYOUT, rest: text.as_bytes() }.parse(true)
}

/// Invalid timestamp.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TimeError {
    /// A part does not match the layout.
    #[error("parsing time {text} as \"{layout}\": cannot parse {rest} as \"{element}\"")]
    Shape {
        /// The text, quoted.
        text: Box<str>,
        /// Go's layout of the timestamp.
        layout: &'static str,
        /// Remaining text, quoted.
        rest: Box<str>,
        /// Element of the layout that does not match.
        element: &'static str,
    },
    /// A part is out of range.
    #[error("parsing time {text}: {part} out of range")]
    Range {
        /// The text, quoted.
        text: Box<str>,
        /// Name of the part.
        part: &'static str,
    },
    /// Text follows the timestamp.
    #[error("parsing time {text}: extra text: {rest}")]
    Extra {
        /// The text, quoted.
        text: Box<str>,
        /// Extra text, quoted.
        rest: Box<str>,
    },
}

struct TimeParser<'a> {
    text: &'a str,
    layout: &'static str,
    rest: &'a [u8],
}

impl TimeParser<'_> {
    fn parse(mut self, six_digits: bool) -> Result<Time, TimeError> {
        let year = self.parse_year()?;
        self.expect_separator("-")?;
        let month = self.parse_two_digits("01", "month", 1..=12)?;
        self.expect_separator("-")?;
        let day = self.parse_two_digits("02", "day", i64::MIN..=i64::MAX)?;
        self.expect_separator("T")?;
        let hour = self.parse_hour()?;
        self.expect_separator(":")?;
        let minute = self.parse_two_digits("04", "minute", 0..=59)?;
        self.expect_separator(":")?;
        let second = self.parse_two_digits("05", "second", 0..=59)?;
        let micros = if six_digits { self.parse_fraction_of_six()? } else { self.parse_fraction() };
        let offset = self.parse_offset()?;
        if !self.rest.is_empty() {
            return Err(TimeError::Extra { text: quote(self.text.as_bytes()), rest: quote(self.rest) });
        }
        if !(1..=days_in(year, month)).contains(&day) {
            return Err(self.out_of_range("day"));
        }
        let seconds =
            days_from_date(year, month, day) * SECONDS_PER_DAY + (hour * 60 + minute) * 60 + second - offset;
        Ok(Time(seconds * MICROS_PER_SECOND + micros))
    }

    fn parse_year(&mut self) -> Result<i64, TimeError> {
        match self.rest {
            [a, b, c, d, rest @ ..] if [a, b, c, d].iter().all(|digit| digit.is_ascii_digit()) => {
                self.rest = rest;
                Ok(number(&[*a, *b, *c, *d]))
            }
            _ => Err(self.layout_error("2006")),
        }
    }

    fn expect_separator(&mut self, separator: &'static str) -> Result<(), TimeError> {
        self.rest =
            self.rest.strip_prefix(separator.as_bytes()).ok_or_else(|| self.layout_error(separator))?;
        Ok(())
    }

    fn parse_two_digits(
        &mut self,
        element: &'static str,
        part: &'static str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Result<i64, TimeError> {
        let [tens @ b'0'..=b'9', ones @ b'0'..=b'9', rest @ ..] = self.rest else {
            return Err(self.layout_error(element));
        };
        self.rest = rest;
        let value = number(&[*tens, *ones]);
        if range.contains(&value) { Ok(value) } else { Err(self.out_of_range(part)) }
    }

    /// Parses the hour, the only part that may have one digit.
    fn parse_hour(&mut self) -> Result<i64, TimeError> {
        match self.rest {
            [digit @ b'0'..=b'9', rest @ ..] if !rest.first().is_some_and(u8::is_ascii_digit) => {
                self.rest = rest;
                Ok(number(&[*digit]))
            }
            _ => self.parse_two_digits("15", "hour", 0..=23),
        }
    }

    /// Parses any number of digits after a point or a comma, in microseconds; no fraction is zero.
    fn parse_fraction(&mut self) -> i64 {
        let [b'.' | b',', after @ ..] = self.rest else {
            return 0;
        };
        let count = after.iter().take_while(|digit| digit.is_ascii_digit()).count();
        if count == 0 {
            return 0;
        }
        self.rest = &after[count..];
        let mut micros = [b'0'; 6];
        let kept = count.min(micros.len());
        micros[..kept].copy_from_slice(&after[..kept]);
        number(&micros)
    }

    fn parse_fraction_of_six(&mut self) -> Result<i64, TimeError> {
        match self.rest {
            [b'.' | b',', after @ ..] if after.len() >= 6 && after[..6].iter().all(u8::is_ascii_digit) => {
                self.rest = &after[6..];
                Ok(number(&after[..6]))
            }
            _ => Err(self.layout_error(".000000")),
        }
    }

    /// Parses the offset from UTC in seconds.
    fn parse_offset(&mut self) -> Result<i64, TimeError> {
        const ELEMENT: &str = "Z07:00";
        if let Some(rest) = self.rest.strip_prefix(b"Z") {
            self.rest = rest;
            return Ok(0);
        }
        let [sign, h, hh, b':', m, mm, rest @ ..] = self.rest else {
            return Err(self.layout_error(ELEMENT));
        };
        let pair = |tens: &u8, ones: &u8| {
            (tens.is_ascii_digit() && ones.is_ascii_digit()).then(|| number(&[*tens, *ones]))
        };
        let (hours, minutes) = (pair(h, hh), pair(m, mm));
        // 24 hours and 60 minutes are accepted, as in Go.
        if hours.is_some_and(|hours| hours > 24) {
            // Go checks the hour first and the minute second, and reports the last error.
            let is_minute_invalid = minutes.is_some_and(|minutes| minutes > 60);
            let part = if is_minute_invalid { "time zone offset minute" } else { "time zone offset hour" };
            return Err(self.out_of_range(part));
        }
        if hours.is_some() && minutes.is_some_and(|minutes| minutes > 60) {
            return Err(self.out_of_range("time zone offset minute"));
        }
        match (sign, hours.zip(minutes)) {
            (b'+' | b'-', Some((hours, minutes))) => {
                self.rest = rest;
                let seconds = (hours * 60 + minutes) * 60;
                Ok(if *sign == b'-' { -seconds } else { seconds })
            }
            _ => Err(self.layout_error(ELEMENT)),
        }
    }

    fn layout_error(&self, element: &'static str) -> TimeError {
        let (text, rest) = (quote(self.text.as_bytes()), quote(self.rest));
        TimeError::Shape { text, layout: self.layout, rest, element }
    }

    fn out_of_range(&self, part: &'static str) -> TimeError {
        TimeError::Range { text: quote(self.text.as_bytes()), part }
    }
}

fn number(digits: &[u8]) -> i64 {
    digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'))
}

/// Quotes a text for an error message as Go's `time` package does: every byte outside ASCII is escaped.
fn quote(text: &[u8]) -> Box<str> {
    use fmt::Write as _;
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for byte in text {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(*byte)]),
            b' '..=0x7f => quoted.push(char::from(*byte)),
            _ => write!(quoted, "\\x{byte:02x}").expect("writing to a String cannot fail"),
        }
    }
    quoted.push('"');
    quoted.into()
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

// The two functions below count in years that begin in March, so that the leap day is the last of its year,
// and in eras of 400 years, which all have the same length.

const DAYS_PER_ERA: i64 = 146_097;
/// Days from March 1 of the year 0 to the epoch.
const DAYS_BEFORE_EPOCH: i64 = 719_468;

/// Converts a date to days since the epoch.
fn days_from_date(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - DAYS_BEFORE_EPOCH
}

/// Converts days since the epoch to year, month and day.
fn date_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_BEFORE_EPOCH;
    let (era, day_of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_print_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (1_794_773_220, "2026-11-15T20:07:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (-62_135_596_800, "0001-01-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
            (-2_203_891_200, "1900-03-01T00:00:00Z"),
        ] {
            assert_eq!(Seconds(Time::from_seconds(seconds)).to_string(), text);
            assert_eq!(parse(text), Ok(Time::from_seconds(seconds)));
        }
        assert_eq!(Micros(Time(-1)).to_string(), "1969-12-31T23:59:59.999999Z");
        assert_eq!(Micros(Time(7)).to_string(), "1970-01-01T00:00:00.000007Z");
        assert_eq!(Seconds(Time(i64::MAX)).to_string(), "294247-01-10T04:00:54Z");
        assert_eq!(Seconds(Time(i64::MIN)).to_string(), "-290308-12-21T19:59:05Z");
    }

    #[test]
    fn offsets_and_fractions_are_parsed() {
        let noon = parse("2026-11-15T12:00:00Z").unwrap();
        for text in ["2026-11-15T14:00:00+02:00", "2026-11-15T06:30:00-05:30", "2026-11-16T12:00:00+24:00"] {
            assert_eq!(parse(text), Ok(noon), "{text}");
        }
        assert_eq!(parse("2026-11-15T12:00:00.5Z"), Ok(Time(noon.0 + 500_000)));
        assert_eq!(parse("2026-11-15T12:00:00,1234567899Z"), Ok(Time(noon.0 + 123_456)));
        assert_eq!(parse("1969-12-31T23:59:59.9999999Z"), Ok(Time(-1)));
        assert_eq!(parse("2026-11-15T9:00:00Z"), parse("2026-11-15T09:00:00Z"));
        assert_eq!(parse_micros("2026-11-15T12:00:00.000001Z"), Ok(Time(noon.0 + 1)));
    }

    #[test]
    fn errors_have_the_texts_of_go() {
        for (text, message) in [
            ("", r#"parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006""#),
            (
                "2026/11",
                r#"parsing time "2026/11" as "2006-01-02T15:04:05Z07:00": cannot parse "/11" as "-""#,
            ),
            (
                "2026-11-15",
                r#"parsing time "2026-11-15" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#,
            ),
            (
                "2026-11-15T00:00:00é",
                r#"parsing time "2026-11-15T00:00:00\xc3\xa9" as "2006-01-02T15:04:05Z07:00": cannot parse "\xc3\xa9" as "Z07:00""#,
            ),
            ("2026-13-15T00:00:00Z", r#"parsing time "2026-13-15T00:00:00Z": month out of range"#),
            ("2026-02-29T00:00:00Z", r#"parsing time "2026-02-29T00:00:00Z": day out of range"#),
            ("2026-01-01T24:00:00Z", r#"parsing time "2026-01-01T24:00:00Z": hour out of range"#),
            ("2026-01-01T00:00:60Z", r#"parsing time "2026-01-01T00:00:60Z": second out of range"#),
            ("2026-01-01T00:00:00ZZ", r#"parsing time "2026-01-01T00:00:00ZZ": extra text: "Z""#),
            (
                "2026-01-01T00:00:00+25:00",
                r#"parsing time "2026-01-01T00:00:00+25:00": time zone offset hour out of range"#,
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message, "{text}");
        }
        assert_eq!(
            parse_micros("2026-01-01T00:00:00Z").unwrap_err().to_string(),
            r#"parsing time "2026-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#
        );
    }

    proptest! {
        #[test]
        fn printed_times_parse_back(micros in -62_167_219_200_000_000_i64..253_402_300_800_000_000) {
            let time = Time(micros);
            prop_assert_eq!(parse_micros(&Micros(time).to_string()), Ok(time));
            let seconds = Time::from_seconds(micros.div_euclid(1_000_000));
            prop_assert_eq!(parse(&Seconds(time).to_string()), Ok(seconds));
        }

        #[test]
        fn dates_and_day_numbers_convert_back(day in -800_000_i64..3_000_000) {
            let (year, month, date) = date_from_days(day);
            prop_assert_eq!(days_from_date(year, month, date), day);
            let next = if date < days_in(year, month) { (year, month, date + 1) }
                else if month < 12 { (year, month + 1, 1) }
                else { (year + 1, 1, 1) };
            prop_assert_eq!(date_from_days(day + 1), next);
        }

        #[test]
        fn arbitrary_text_never_panics(text in "[0-9]{0,4}[-T:.,+Z0-9é]{0,24}") {
            let _ = (parse(&text), parse_micros(&text));
        }
    }
}
