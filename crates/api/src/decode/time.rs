//! Times as Go reads them, and the one form in which it writes them.

use compact_str::{CompactString, format_compact};

use super::error::{TimeError, TimeProblem};

const SECONDS_LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const MICROS_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// A time to the second, in UTC; none for the zero time. A fraction is cut off.
pub(super) fn seconds(text: &str) -> Result<Option<CompactString>, TimeError> {
    if is_plain(text) {
        return Ok(Some(text.into()));
    }
    let time = parse(text, SECONDS_LAYOUT)?;
    Ok(time.is_set().then(|| time.date_time("")))
}

/// A time to the microsecond, in UTC; none for the zero time.
pub(super) fn micros(text: &str) -> Result<Option<CompactString>, TimeError> {
    let time = parse(text, MICROS_LAYOUT)?;
    Ok(time.is_set().then(|| time.date_time(time.fraction)))
}

/// Whether the text is a common time in its one form already: four digits of a year after 1, no leap day to look
/// into, UTC.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let shape = bytes.len() == 20
        && bytes.iter().zip(b"0000-00-00T00:00:00Z").all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            form => byte == form,
        });
    if !shape {
        return false;
    }
    let two = |at: usize| (bytes[at] - b'0') * 10 + (bytes[at + 1] - b'0');
    let day = two(8);
    &bytes[..4] > b"0001".as_slice()
        && (1..=12).contains(&two(5))
        && (1..=28).contains(&day)
        && two(11) < 24
        && two(14) < 60
        && two(17) < 60
}

/// A time as it was written, and how far its zone is from UTC.
struct Parts<'a> {
    /// Days since 1970.
    days: i64,
    second_of_day: i64,
    /// The point and the digits after it.
    fraction: &'a str,
}

impl Parts<'_> {
    /// Whether it is not the first second of year 1, which stands for no time.
    fn is_set(&self) -> bool {
        let zero_fraction = self.fraction.bytes().all(|byte| matches!(byte, b'.' | b',' | b'0'));
        self.days != days_from_civil(1, 1, 1) || self.second_of_day != 0 || !zero_fraction
    }

    fn date_time(&self, fraction: &str) -> CompactString {
        let (year, month, day) = civil_from_days(self.days);
        let (hour, minute, second) =
            (self.second_of_day / 3600, self.second_of_day / 60 % 60, self.second_of_day % 60);
        format_compact!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
    }
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl<'a> Reader<'a> {
    fn fail<T>(&self, element: &'static str, rest: &str) -> Result<T, TimeError> {
        let problem = TimeProblem::Element { layout: self.layout, rest: rest.to_owned(), element };
        Err(TimeError { text: self.text.to_owned(), problem })
    }

    fn range<T>(&self, part: &'static str) -> Result<T, TimeError> {
        Err(TimeError { text: self.text.to_owned(), problem: TimeProblem::Range(part) })
    }

    fn digits(&mut self, count: usize, element: &'static str) -> Result<i64, TimeError> {
        let digits = self.rest.get(..count).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let Some(digits) = digits else { return self.fail(element, self.rest) };
        self.rest = &self.rest[count..];
        Ok(digits.bytes().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
    }

    fn literal(&mut self, element: &'static str) -> Result<(), TimeError> {
        match self.rest.strip_prefix(element) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => self.fail(element, self.rest),
        }
    }

    /// The fraction: exactly six digits where the layout has them, any number otherwise.
    fn fraction(&mut self) -> Result<&'a str, TimeError> {
        let count = self.rest.bytes().skip(1).take_while(u8::is_ascii_digit).count();
        let exact = self.layout == MICROS_LAYOUT;
        if exact {
            if !self.rest.starts_with('.') || count < 6 {
                return self.fail(".000000", self.rest);
            }
        } else if !self.rest.starts_with(['.', ',']) || count == 0 {
            return Ok("");
        }
        let (fraction, rest) = self.rest.split_at(1 + if exact { 6 } else { count });
        self.rest = rest;
        Ok(fraction)
    }

    /// How many seconds the zone is ahead of UTC.
    fn zone(&mut self) -> Result<i64, TimeError> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let before = self.rest;
        let bytes = before.as_bytes();
        let number = |at: usize| match bytes.get(at..at + 2) {
            Some([a, b]) if a.is_ascii_digit() && b.is_ascii_digit() => {
                Some(i64::from(a - b'0') * 10 + i64::from(b - b'0'))
            }
            _ => None,
        };
        let sign = match bytes.first() {
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ => return self.fail("Z07:00", before),
        };
        let (Some(hours), Some(b':'), Some(minutes)) = (number(1), bytes.get(3), number(4)) else {
            return self.fail("Z07:00", before);
        };
        if hours > 24 {
            return self.range("time zone offset hour");
        }
        if minutes > 60 {
            return self.range("time zone offset minute");
        }
        self.rest = &before[6..];
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

fn parse<'a>(text: &'a str, layout: &'static str) -> Result<Parts<'a>, TimeError> {
    let mut reader = Reader { text, rest: text, layout };
    let year = reader.digits(4, "2006")?;
    reader.literal("-")?;
    let month = reader.digits(2, "01")?;
    if !(1..=12).contains(&month) {
        return reader.range("month");
    }
    reader.literal("-")?;
    let day = reader.digits(2, "02")?;
    reader.literal("T")?;
    // Go takes an hour of one digit too.
    let hour = reader.digits(2, "15").or_else(|_| reader.digits(1, "15"))?;
    if hour > 23 {
        return reader.range("hour");
    }
    reader.literal(":")?;
    let minute = reader.digits(2, "04")?;
    if minute > 59 {
        return reader.range("minute");
    }
    reader.literal(":")?;
    let second = reader.digits(2, "05")?;
    if second > 59 {
        return reader.range("second");
    }
    let fraction = reader.fraction()?;
    let ahead = reader.zone()?;
    if !reader.rest.is_empty() {
        let problem = TimeProblem::Extra(reader.rest.to_owned());
        return Err(TimeError { text: text.to_owned(), problem });
    }
    let days = days_from_civil(year, month, day);
    if day < 1 || civil_from_days(days) != (year, month, day) {
        return reader.range("day");
    }
    let seconds = hour * 3600 + minute * 60 + second - ahead;
    Ok(Parts { days: days + seconds.div_euclid(86_400), second_of_day: seconds.rem_euclid(86_400), fraction })
}

/// Days since 1970 of a date in the calendar of today, extended backwards. Years are counted from March, so that
/// the leap day is the last one.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The date of a day, the other way round.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = (shifted_month + 2) % 12 + 1;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_put_in_utc_and_cut_to_seconds() {
        for (text, expected) in [
            ("2026-11-15T20:19:36Z", "2026-11-15T20:19:36Z"),
            ("2026-11-15T20:19:36.987Z", "2026-11-15T20:19:36Z"),
            ("2026-11-15T00:30:00+01:00", "2026-11-14T23:30:00Z"),
            ("2024-12-31T23:30:00-00:45", "2025-01-01T00:15:00Z"),
            ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
            ("2024-02-29T7:00:00Z", "2024-02-29T07:00:00Z"),
            ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z"),
        ] {
            assert_eq!(seconds(text).unwrap().unwrap(), expected);
        }
        assert_eq!(seconds("0001-01-01T00:00:00Z").unwrap(), None);
        assert_eq!(
            micros("2026-11-15T20:19:36.000001+00:00").unwrap().unwrap(),
            "2026-11-15T20:19:36.000001Z"
        );
        assert_eq!(micros("0001-01-01T00:00:00.000000Z").unwrap(), None);
    }

    #[test]
    fn every_day_has_one_date() {
        for days in -800_000..800_000 {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
        assert_eq!(civil_from_days(0), (1970, 1, 1));
    }

    #[test]
    fn errors_read_as_go_says_them() {
        for (text, expected) in [
            ("", "parsing time \"\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"2006\""),
            (
                "now",
                "parsing time \"now\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"now\" as \"2006\"",
            ),
            (
                "2026-11-15",
                "parsing time \"2026-11-15\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"T\"",
            ),
            ("2026-13-15T00:00:00Z", "parsing time \"2026-13-15T00:00:00Z\": month out of range"),
            ("2026-02-29T00:00:00Z", "parsing time \"2026-02-29T00:00:00Z\": day out of range"),
            ("2026-02-28T24:00:00Z", "parsing time \"2026-02-28T24:00:00Z\": hour out of range"),
            ("2026-02-28T23:00:00Zx", "parsing time \"2026-02-28T23:00:00Zx\": extra text: \"x\""),
            (
                "2026-02-28T23:00:00",
                "parsing time \"2026-02-28T23:00:00\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"Z07:00\"",
            ),
        ] {
            assert_eq!(seconds(text).unwrap_err().to_string(), expected);
        }
        let text = "2026-02-28T23:00:00Z";
        let expected =
            format!("parsing time {text:?} as {MICROS_LAYOUT:?}: cannot parse \"Z\" as \".000000\"");
        assert_eq!(micros(text).unwrap_err().to_string(), expected);
    }
}
