//! Cron schedules: `*/5 * * * *`, `@daily`, `@every 1h30m`.
//!
//! Five fields: minute, hour, day of month, month, day of week. A field is a list of ranges, each with an
//! optional step; months and days have names. Syntax and error texts are those of upstream's parser.

use thiserror::Error;

use super::duration;
use super::time_zone;

/// A parsed schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Times that match all fields.
    Fields(CronFields),
    /// A fixed interval in seconds, at least 1.
    Every(i64),
}

/// Values that each field of a time may have: bit n stands for n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CronFields {
    /// Minutes, 0 to 59.
    pub minute: u64,
    /// Hours, 0 to 23.
    pub hour: u64,
    /// Days of the month, 1 to 31.
    pub day_of_month: u64,
    /// Months, 1 to 12.
    pub month: u64,
    /// Days of the week, 0 (Sunday) to 6.
    pub day_of_week: u64,
    /// `true` if the day of month is unrestricted: then only the day of week counts, and vice versa. If both
    /// are restricted, one match is enough.
    pub any_day_of_month: bool,
    /// `true` if the day of week is unrestricted.
    pub any_day_of_week: bool,
}

/// Invalid schedule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScheduleError {
    /// The text is empty.
    #[error("empty spec string")]
    Empty,
    /// The text is only a time zone.
    #[error("invalid schedule format: runtime error: slice bounds out of range [:-1]")]
    OnlyZone,
    /// The time zone is unknown.
    #[error("provided bad location {0}: {1}")]
    Zone(Box<str>, Box<str>),
    /// The number of fields is not five.
    #[error("expected exactly 5 fields, found {}: [{}]", .0.len(), .0.join(" "))]
    FieldCount(Vec<String>),
    /// Unknown descriptor after `@`.
    #[error("unrecognized descriptor: {0}")]
    Descriptor(Box<str>),
    /// Invalid duration after `@every`.
    #[error("failed to parse duration {0}: {1}")]
    Duration(Box<str>, Box<str>),
    /// A range has more than one hyphen.
    #[error("too many hyphens: {0}")]
    Hyphens(Box<str>),
    /// A range has more than one slash.
    #[error("too many slashes: {0}")]
    Slashes(Box<str>),
    /// A number is malformed.
    #[error("failed to parse int from {text}: strconv.Atoi: parsing {}: {fault}", crate::quote::Quoted(.text))]
    Number {
        /// The offending text.
        text: Box<str>,
        /// Reason, in Go's words.
        fault: &'static str,
    },
    /// A number is negative.
    #[error("negative number ({0}) not allowed: {1}")]
    Negative(i64, Box<str>),
    /// A range begins below the minimum.
    #[error("beginning of range ({0}) below minimum ({1}): {2}")]
    TooLow(u64, u64, Box<str>),
    /// A range ends above the maximum.
    #[error("end of range ({0}) above maximum ({1}): {2}")]
    TooHigh(u64, u64, Box<str>),
    /// A range ends before it begins.
    #[error("beginning of range ({0}) beyond end of range ({1}): {2}")]
    Backwards(u64, u64, Box<str>),
    /// A step is 0.
    #[error("step of range should be a positive number: {0}")]
    NoStep(Box<str>),
}

/// Values that a field may have.
struct Bounds {
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

const MINUTE: Bounds = Bounds { min: 0, max: 59, names: &[] };
const HOUR: Bounds = Bounds { min: 0, max: 23, names: &[] };
const DAY_OF_MONTH: Bounds = Bounds { min: 1, max: 31, names: &[] };
const MONTH: Bounds = Bounds {
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const DAY_OF_WEEK: Bounds =
    Bounds { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

const NANOS_PER_SECOND: i64 = 1_000_000_000;

impl Schedule {
    /// Parses a schedule. A leading time zone is checked and dropped; objects have a field for it.
    ///
    /// # Errors
    /// If the text is not a schedule; the message is meant for the client.
    pub fn parse(text: &str) -> Result<Schedule, ScheduleError> {
        if text.is_empty() {
            return Err(ScheduleError::Empty);
        }
        let text = skip_zone(text)?;
        if text.starts_with('@') {
            return descriptor(text);
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day_of_month, month, day_of_week] = fields.as_slice() else {
            return Err(ScheduleError::FieldCount(fields.into_iter().map(str::to_owned).collect()));
        };
        let minute = field(minute, &MINUTE)?.bits;
        let hour = field(hour, &HOUR)?.bits;
        let day_of_month = field(day_of_month, &DAY_OF_MONTH)?;
        let month = field(month, &MONTH)?.bits;
        let day_of_week = field(day_of_week, &DAY_OF_WEEK)?;
        Ok(Schedule::Fields(CronFields {
            minute,
            hour,
            day_of_month: day_of_month.bits,
            month,
            day_of_week: day_of_week.bits,
            any_day_of_month: day_of_month.any,
            any_day_of_week: day_of_week.any,
        }))
    }
}

fn skip_zone(text: &str) -> Result<&str, ScheduleError> {
    let Some(rest) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) else {
        return Ok(text);
    };
    let (zone, rest) = rest.split_once(' ').ok_or(ScheduleError::OnlyZone)?;
    let fault = if zone.contains("..") || zone.starts_with(['/', '\\']) {
        "time: invalid location name".to_owned()
    } else if matches!(zone, "" | "Local") || time_zone::is_known(zone) {
        return Ok(rest.trim());
    } else {
        format!("unknown time zone {zone}")
    };
    Err(ScheduleError::Zone(zone.into(), fault.into()))
}

fn descriptor(text: &str) -> Result<Schedule, ScheduleError> {
    let fields = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let Some(every) = text.strip_prefix("@every ") else {
                return Err(ScheduleError::Descriptor(text.into()));
            };
            let nanos = duration::parse(every)
                .map_err(|error| ScheduleError::Duration(text.into(), error.to_string().into()))?;
            return Ok(Schedule::Every((nanos / NANOS_PER_SECOND).max(1)));
        }
    };
    Schedule::parse(fields)
}

/// Values of a field, and `true` if it is unrestricted.
#[derive(Default)]
struct Values {
    bits: u64,
    any: bool,
}

fn field(text: &str, bounds: &Bounds) -> Result<Values, ScheduleError> {
    let mut values = Values::default();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let found = range(part, bounds)?;
        values.bits |= found.bits;
        values.any |= found.any;
    }
    Ok(values)
}

fn range(text: &str, bounds: &Bounds) -> Result<Values, ScheduleError> {
    let mut parts = text.split('/');
    let (ends, step) = (parts.next().unwrap_or_default(), parts.next());
    let mut ends = ends.split('-');
    let (first, second) = (ends.next().unwrap_or_default(), ends.next());
    let mut any = matches!(first, "*" | "?");
    let (start, mut end) = if any {
        (bounds.min, bounds.max)
    } else {
        let start = number_or_name(first, bounds)?;
        if ends.next().is_some() {
            return Err(ScheduleError::Hyphens(text.into()));
        }
        let end = second.map_or(Ok(start), |second| number_or_name(second, bounds))?;
        (start, end)
    };
    let step = match step {
        None => 1,
        Some(_) if parts.next().is_some() => return Err(ScheduleError::Slashes(text.into())),
        Some(step) => {
            // A step after a single number extends to the end of the range.
            if second.is_none() {
                end = bounds.max;
            }
            number(step)?
        }
    };
    any &= step <= 1;
    if start < bounds.min {
        return Err(ScheduleError::TooLow(start, bounds.min, text.into()));
    }
    if end > bounds.max {
        return Err(ScheduleError::TooHigh(end, bounds.max, text.into()));
    }
    if start > end {
        return Err(ScheduleError::Backwards(start, end, text.into()));
    }
    if step == 0 {
        return Err(ScheduleError::NoStep(text.into()));
    }
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    let bits = (start..=end).step_by(step).fold(0, |bits, value| bits | 1 << value);
    Ok(Values { bits, any })
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u64, ScheduleError> {
    match bounds.names.iter().zip(bounds.min..).find(|(name, _)| name.eq_ignore_ascii_case(text)) {
        Some((_, value)) => Ok(value),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, ScheduleError> {
    let number: i64 = text.parse().map_err(|error: std::num::ParseIntError| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let is_large = matches!(error.kind(), PosOverflow | NegOverflow);
        let fault = if is_large { "value out of range" } else { "invalid syntax" };
        ScheduleError::Number { text: text.into(), fault }
    })?;
    u64::try_from(number).map_err(|_| ScheduleError::Negative(number, text.into()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields(text: &str) -> CronFields {
        match Schedule::parse(text) {
            Ok(Schedule::Fields(fields)) => fields,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn fields_are_lists_of_ranges_with_steps() {
        let hours = |hours: &[u64]| hours.iter().fold(0, |bits, hour| bits | 1u64 << hour);
        for (text, expected) in [
            ("*", (1 << 24) - 1),
            ("?", (1 << 24) - 1),
            ("5", hours(&[5])),
            ("+5", hours(&[5])),
            ("1-3", hours(&[1, 2, 3])),
            ("1,2,,4", hours(&[1, 2, 4])),
            ("*/6", hours(&[0, 6, 12, 18])),
            ("20/2", hours(&[20, 22])),
            ("1-9/4", hours(&[1, 5, 9])),
            ("*/99999999999", hours(&[0])),
            (",", 0),
        ] {
            assert_eq!(fields(&format!("0 {text} * * *")).hour, expected, "{text}");
        }
        assert_eq!(fields("0 0 * JAN-mar Sun,fri").month, 0b1110);
        assert_eq!(fields("0 0 * * Sun,fri").day_of_week, 0b10_0001);
    }

    #[test]
    fn step_above_one_restricts_the_day() {
        let of = |text: &str| (fields(text).any_day_of_month, fields(text).any_day_of_week);
        assert_eq!(of("0 0 * * *"), (true, true));
        assert_eq!(of("0 0 */2 * ?"), (false, true));
        assert_eq!(of("0 0 */1 * 1"), (true, false));
    }

    #[test]
    fn named_schedules_are_fields_or_intervals() {
        for (name, same) in [
            ("@yearly", "0 0 1 1 *"),
            ("@annually", "0 0 1 1 *"),
            ("@monthly", "0 0 1 * *"),
            ("@weekly", "0 0 * * 0"),
            ("@daily", "0 0 * * *"),
            ("@midnight", "0 0 * * *"),
            ("@hourly", "0 * * * *"),
            ("TZ=UTC @hourly", "0 * * * *"),
            ("CRON_TZ=Europe/Berlin  1 2 3 4 5", "1 2 3 4 5"),
        ] {
            assert_eq!(fields(name), fields(same), "{name}");
        }
        assert_eq!(Schedule::parse("@every 1h30m"), Ok(Schedule::Every(5400)));
        assert_eq!(Schedule::parse("@every 1ms"), Ok(Schedule::Every(1)));
    }

    #[test]
    fn errors_have_the_texts_of_upstream() {
        let atoi = |text: &str, fault: &str| {
            format!("failed to parse int from {text}: strconv.Atoi: parsing \"{text}\": {fault}")
        };
        for (text, message) in [
            ("", "empty spec string".to_owned()),
            ("every day", "expected exactly 5 fields, found 2: [every day]".to_owned()),
            (" ", "expected exactly 5 fields, found 0: []".to_owned()),
            ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]".to_owned()),
            ("a * * * *", atoi("a", "invalid syntax")),
            ("-1 * * * *", atoi("", "invalid syntax")),
            ("99999999999999999999 * * * *", atoi("99999999999999999999", "value out of range")),
            ("*/x * * * *", atoi("x", "invalid syntax")),
            ("*/-1 * * * *", "negative number (-1) not allowed: -1".to_owned()),
            ("1-a-3 * * * *", "too many hyphens: 1-a-3".to_owned()),
            ("60 * * * *", "end of range (60) above maximum (59): 60".to_owned()),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0".to_owned()),
            ("* * * * 7", "end of range (7) above maximum (6): 7".to_owned()),
            ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3".to_owned()),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3".to_owned()),
            ("1/2/3 * * * *", "too many slashes: 1/2/3".to_owned()),
            ("*/0 * * * *", "step of range should be a positive number: */0".to_owned()),
            ("@never", "unrecognized descriptor: @never".to_owned()),
            ("@every", "unrecognized descriptor: @every".to_owned()),
            ("@every day", "failed to parse duration @every day: time: invalid duration \"day\"".to_owned()),
            ("TZ=UTC", "invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned()),
            ("TZ=Mars * * * * *", "provided bad location Mars: unknown time zone Mars".to_owned()),
            ("CRON_TZ=../x * * * * *", "provided bad location ../x: time: invalid location name".to_owned()),
        ] {
            assert_eq!(Schedule::parse(text).unwrap_err().to_string(), message, "{text}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in "[-0-9*/,@ TZ=a-z]{0,20}") {
            let _ = Schedule::parse(&text);
        }
    }
}
