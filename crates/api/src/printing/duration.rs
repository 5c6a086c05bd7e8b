//! Short human-readable durations.

use std::fmt::Write;

use crate::time::Time;

const MICROS_PER_SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Duration between two times: `45s`, `3m20s`, `2d4h`. Up to a second before zero counts as zero, because
/// clocks differ; more is `<invalid>`.
#[must_use]
pub fn human_duration(from: Time, to: Time) -> String {
    let seconds = to.0.saturating_sub(from.0) / MICROS_PER_SECOND;
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds, (MINUTE, 'm'), (1, 's')),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(seconds, (HOUR, 'h'), (MINUTE, 'm')),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(seconds, (DAY, 'd'), (HOUR, 'h')),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(seconds, (YEAR, 'y'), (DAY, 'd')),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// Two units, the smaller one only if it is not zero.
fn two(seconds: i64, large: (i64, char), small: (i64, char)) -> String {
    let mut text = format!("{}{}", seconds / large.0, large.1);
    let rest = seconds % large.0 / small.0;
    if rest != 0 {
        write!(text, "{rest}{}", small.1).expect("writing to a String cannot fail");
    }
    text
}
