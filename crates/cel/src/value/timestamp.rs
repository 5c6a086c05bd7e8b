//! Timestamps with nanoseconds, RFC 3339, and the calendar in a time zone.

use std::cmp::Ordering;

use jiff::tz::TimeZone;

use super::DurationValue;
use super::duration::NANOS_PER_SECOND;

/// Seconds of the first and last timestamp of CEL since the Unix epoch: the years 1 to 9999.
const SECONDS_MIN: i64 = -62_135_596_800;
const SECONDS_MAX: i64 = 253_402_300_799;

const SECONDS_PER_DAY: i64 = 86_400;

/// Point in time, with the offset of its text. The offset matters for no comparison.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp {
    /// Seconds since the Unix epoch.
    seconds: i64,
    /// Nanoseconds of the second, less than 10^9.
    nanos: u32,
    /// Offset from UTC in seconds.
    offset: i32,
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Timestamp) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Timestamp) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Timestamp) -> Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }
}

/// Calendar fields of a timestamp in a time zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CivilTime {
    pub(crate) year: i64,
    /// Month from 1.
    pub(crate) month: i64,
    /// Day of the month from 1.
    pub(crate) day: i64,
    /// Day of the year from 0.
    pub(crate) day_of_year: i64,
    /// Day of the week from 0, Sunday.
    pub(crate) day_of_week: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
    pub(crate) nanos: u32,
}

impl Timestamp {
    /// First timestamp, the zero value.
    pub const ZERO: Timestamp = Timestamp { seconds: SECONDS_MIN, nanos: 0, offset: 0 };

    /// Returns the timestamp of these seconds and nanoseconds since the Unix epoch; `None` outside of the years 1 to
    /// 9999.
    #[must_use]
    pub fn new(seconds: i64, nanos: u32) -> Option<Timestamp> {
        ((SECONDS_MIN..=SECONDS_MAX).contains(&seconds) && i64::from(nanos) < NANOS_PER_SECOND)
            .then_some(Timestamp { seconds, nanos, offset: 0 })
    }

    /// Returns the seconds since the Unix epoch.
    #[must_use]
    pub fn seconds(self) -> i64 {
        self.seconds
    }

    fn from_nanos(nanos: i128) -> Option<Timestamp> {
        let seconds = i64::try_from(nanos.div_euclid(NANOS_PER_SECOND.into())).ok()?;
        let nanos = u32::try_from(nanos.rem_euclid(NANOS_PER_SECOND.into())).ok()?;
        Timestamp::new(seconds, nanos)
    }

    fn with_offset(self, offset: i32) -> Timestamp {
        Timestamp { offset, ..self }
    }

    fn nanos(self) -> i128 {
        i128::from(self.seconds) * i128::from(NANOS_PER_SECOND) + i128::from(self.nanos)
    }

    /// Returns this timestamp plus a duration; `None` on overflow.
    #[must_use]
    pub fn plus(self, duration: DurationValue) -> Option<Timestamp> {
        let sum = Timestamp::from_nanos(self.nanos() + i128::from(duration.0))?;
        Some(sum.with_offset(self.offset))
    }

    /// Returns this timestamp minus a duration; `None` on overflow.
    #[must_use]
    pub fn minus(self, duration: DurationValue) -> Option<Timestamp> {
        let difference = Timestamp::from_nanos(self.nanos() - i128::from(duration.0))?;
        Some(difference.with_offset(self.offset))
    }

    /// Returns the duration since another timestamp; `None` on overflow.
    #[must_use]
    pub fn since(self, other: Timestamp) -> Option<DurationValue> {
        i64::try_from(self.nanos() - other.nanos()).ok().map(DurationValue)
    }

    /// Parses an RFC 3339 timestamp with any number of fractional digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Timestamp> {
        let mut reader = Reader(text.as_bytes());
        let days = reader.date()?;
        reader.expect(b"T")?;
        let (seconds, nanos) = reader.time()?;
        let offset = reader.offset()?;
        let time = Timestamp::new(days * SECONDS_PER_DAY + seconds - i64::from(offset), nanos)?;
        reader.0.is_empty().then_some(time.with_offset(offset))
    }

    /// Parses the `date-time` format of a schema: also lower-case letters and a missing offset, which is UTC.
    #[must_use]
    pub fn parse_format(text: &str) -> Option<Timestamp> {
        let upper = text.to_ascii_uppercase();
        Timestamp::parse(&upper).or_else(|| Timestamp::parse(&format!("{upper}Z")))
    }

    /// Parses a date such as `2026-11-18`; the time is midnight in UTC.
    #[must_use]
    pub fn parse_date(text: &str) -> Option<Timestamp> {
        let mut reader = Reader(text.as_bytes());
        let days = reader.date()?;
        reader.0.is_empty().then(|| Timestamp::new(days * SECONDS_PER_DAY, 0))?
    }

    /// Text in RFC 3339 and at the offset of the timestamp, with as many fractional digits as needed.
    #[must_use]
    pub fn to_text(self) -> String {
        let at = self.in_zone(self.offset.into());
        let mut text = format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            at.year, at.month, at.day, at.hour, at.minute, at.second
        );
        if at.nanos > 0 {
            let fraction = format!(".{:09}", at.nanos);
            text.push_str(fraction.trim_end_matches('0'));
        }
        if self.offset == 0 {
            return text + "Z";
        }
        let (sign, minutes) = (if self.offset < 0 { '-' } else { '+' }, self.offset.unsigned_abs() / 60);
        text + &format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }

    /// Returns the calendar fields at an offset from UTC in seconds.
    pub(crate) fn in_zone(self, offset: i64) -> CivilTime {
        let local = self.seconds + offset;
        let (days, second_of_day) = (local.div_euclid(SECONDS_PER_DAY), local.rem_euclid(SECONDS_PER_DAY));
        let (year, month, day) = date_from_days(days);
        CivilTime {
            year,
            month,
            day,
            day_of_year: days - days_from_date(year, 1, 1),
            // The epoch was a Thursday.
            day_of_week: (days + 4).rem_euclid(7),
            hour: second_of_day / 3_600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
            nanos: self.nanos,
        }
    }

    /// Returns the offset from UTC in seconds of a zone of the IANA database; `None` if there is no such zone.
    pub(crate) fn offset_in(self, zone: &str) -> Option<i64> {
        if zone.is_empty() || zone == "UTC" {
            return Some(0);
        }
        let zone = TimeZone::get(zone).ok()?;
        let time = jiff::Timestamp::from_second(self.seconds).ok()?;
        Some(zone.to_offset(time).seconds().into())
    }
}

/// Cursor over the bytes of a timestamp.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn expect(&mut self, bytes: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(bytes)?;
        Some(())
    }

    fn digits(&mut self, count: usize) -> Option<i64> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        let number = digits.iter().try_fold(0, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0'))
        })?;
        self.0 = rest;
        Some(number)
    }

    /// Parses a date as days since the Unix epoch.
    fn date(&mut self) -> Option<i64> {
        let year = self.digits(4)?;
        self.expect(b"-")?;
        let month = self.digits(2)?;
        self.expect(b"-")?;
        let day = self.digits(2)?;
        let is_valid = (1..=12).contains(&month) && day >= 1 && day <= days_in(year, month);
        is_valid.then(|| days_from_date(year, month, day))
    }

    /// Parses a time as seconds of the day and nanoseconds.
    fn time(&mut self) -> Option<(i64, u32)> {
        let hour = self.digits(2)?;
        self.expect(b":")?;
        let minute = self.digits(2)?;
        self.expect(b":")?;
        let second = self.digits(2)?;
        let mut nanos = 0;
        if let [b'.' | b',', rest @ ..] = self.0 {
            let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if count == 0 {
                return None;
            }
            for index in 0..9 {
                let digit = rest.get(index).filter(|_| index < count).map_or(0, |digit| digit - b'0');
                nanos = nanos * 10 + u32::from(digit);
            }
            self.0 = &rest[count..];
        }
        let is_valid = hour < 24 && minute < 60 && second < 60;
        is_valid.then_some((hour * 3_600 + minute * 60 + second, nanos))
    }

    /// Parses the offset from UTC in seconds.
    fn offset(&mut self) -> Option<i32> {
        if self.expect(b"Z").is_some() {
            return Some(0);
        }
        let sign = match self.0.first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        self.0 = &self.0[1..];
        let hours = self.digits(2)?;
        self.expect(b":")?;
        let minutes = self.digits(2)?;
        let seconds = i32::try_from(hours * 3_600 + minutes * 60).ok()?;
        (hours <= 24 && minutes <= 60).then_some(sign * seconds)
    }
}

fn days_in(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

// Both functions count in years from March, whose last day is the leap day, and in eras of 400 years.
const DAYS_PER_ERA: i64 = 146_097;
/// Days from March 1 of the year 0 to the epoch.
const DAYS_BEFORE_EPOCH: i64 = 719_468;

fn days_from_date(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - DAYS_BEFORE_EPOCH
}

fn date_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_BEFORE_EPOCH;
    let (era, day_of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_parse_and_print() {
        for (text, printed) in [
            ("2026-11-18T13:00:00Z", Some("2026-11-18T13:00:00Z")),
            ("2026-11-18T13:00:00.120Z", Some("2026-11-18T13:00:00.12Z")),
            ("2026-11-18T13:00:00+02:00", Some("2026-11-18T13:00:00+02:00")),
            ("2026-11-18T13:00:00-00:30", Some("2026-11-18T13:00:00-00:30")),
            ("0001-01-01T00:00:00Z", Some("0001-01-01T00:00:00Z")),
            ("9999-12-31T23:59:59.999999999Z", Some("9999-12-31T23:59:59.999999999Z")),
            ("0001-01-01T00:00:00+01:00", None),
            ("2026-02-29T00:00:00Z", None),
            ("2026-11-18", None),
            ("2026-11-18T24:00:00Z", None),
        ] {
            let parsed = Timestamp::parse(text).map(Timestamp::to_text);
            assert_eq!(parsed.as_deref(), printed, "{text}");
        }
        assert!(Timestamp::parse_format("2026-11-18t13:00:00").is_some());
    }

    #[test]
    fn zones_have_their_offset_of_the_day() {
        let winter = Timestamp::parse("2026-01-18T13:00:00Z").unwrap();
        let summer = Timestamp::parse("2026-07-18T13:00:00Z").unwrap();
        assert_eq!(winter.offset_in("Europe/Berlin"), Some(3_600));
        assert_eq!(summer.offset_in("Europe/Berlin"), Some(7_200));
        assert_eq!(summer.offset_in("Nowhere/None"), None);
    }
}
