//! Timestamps: parsed as Go parses them, stored in Go's canonical form.

use compact_str::{CompactString, ToCompactString};

use crate::rfc3339::{self, Micros, Seconds, TimeError, UNSET};

/// Canonical `Time`: UTC, truncated to seconds; `None` for the zero time.
pub(super) fn seconds(text: &str) -> Result<Option<CompactString>, TimeError> {
    if is_plain(text) {
        return Ok(Some(text.into()));
    }
    let time = rfc3339::parse(text)?;
    Ok((time != UNSET).then(|| Seconds(time).to_compact_string()))
}

/// Canonical `MicroTime`: UTC, with microseconds; `None` for the zero time.
pub(super) fn micros(text: &str) -> Result<Option<CompactString>, TimeError> {
    let time = rfc3339::parse_micros(text)?;
    Ok((time != UNSET).then(|| Micros(time).to_compact_string()))
}

/// Fast path: `true` if the text is canonical already, with a four-digit year after 1, no leap day and UTC.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_converted_to_utc_and_truncated_to_seconds() {
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
    fn errors_have_the_texts_of_go() {
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
        let expected = format!(
            "parsing time {text:?} as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \".000000\""
        );
        assert_eq!(micros(text).unwrap_err().to_string(), expected);
    }
}
