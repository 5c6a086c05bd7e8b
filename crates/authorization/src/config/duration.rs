//! Durations with the texts of Go.

use std::fmt;
use std::time::Duration;

use setpoint_api::quote::Quoted;
use setpoint_cel::DurationValue;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Signed duration, as a configuration contains it. `Display` is that of Go: `1m30s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GoDuration(pub i64);

impl GoDuration {
    pub(super) const fn from_seconds(seconds: i64) -> GoDuration {
        GoDuration(seconds * NANOS_PER_SECOND as i64)
    }

    pub(super) fn parse(text: &str) -> Result<GoDuration, String> {
        let parsed = DurationValue::parse(text).map(|duration| GoDuration(duration.0));
        parsed.ok_or_else(|| match text.is_empty() {
            true => "time: invalid duration \"\"".to_owned(),
            false => format!("time: invalid duration {}", Quoted(text)),
        })
    }

    /// The duration, if it is positive; otherwise zero.
    pub(super) fn positive(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0).unwrap_or(0))
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        if nanos == 0 {
            return f.write_str("0s");
        }
        let (unit, name) = match nanos {
            ..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            1_000_000..NANOS_PER_SECOND => (1_000_000, "ms"),
            _ => (NANOS_PER_SECOND, "s"),
        };
        let whole = nanos / unit;
        if unit == NANOS_PER_SECOND {
            let (hours, minutes) = (whole / 3600, whole / 60 % 60);
            if hours > 0 {
                write!(f, "{hours}h")?;
            }
            if whole >= 60 {
                write!(f, "{minutes}m")?;
            }
        }
        let shown = if unit == NANOS_PER_SECOND { whole % 60 } else { whole };
        let (fraction, digits) = (nanos % unit, unit.ilog10() as usize);
        let fraction = format!("{fraction:0digits$}");
        match fraction.trim_end_matches('0') {
            "" => write!(f, "{shown}{name}"),
            fraction => write!(f, "{shown}.{fraction}{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_texts_of_go() {
        let second = NANOS_PER_SECOND as i64;
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (30 * second, "30s"),
            (5 * 60 * second, "5m0s"),
            (3600 * second + 2, "1h0m0.000000002s"),
            (-second, "-1s"),
        ] {
            assert_eq!(GoDuration(nanos).to_string(), text);
            assert_eq!(GoDuration::parse(text), Ok(GoDuration(nanos)));
        }
        assert_eq!(GoDuration::parse("1x"), Err("time: invalid duration \"1x\"".to_owned()));
    }
}
