//! Numbers: conversions without loss, and the texts of doubles as Go writes them.

use super::Value;

/// 2^63 as a double.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
/// 2^64 as a double.
const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

/// Returns the integer that a double equals.
pub(super) fn integer_of(number: f64) -> Option<Value<'static>> {
    if number.fract() != 0.0 || !(-TWO_TO_63..TWO_TO_64).contains(&number) {
        return None;
    }
    // The range is checked.
    Some(if number < TWO_TO_63 { Value::Int(number as i64) } else { Value::Uint(number as u64) })
}

/// Returns the integer part of a double; `None` outside of the range that cel-go converts.
pub(crate) fn double_to_int(number: f64) -> Option<i64> {
    // The range is checked.
    (number > -TWO_TO_63 && number < TWO_TO_63).then_some(number as i64)
}

/// Returns the integer part of a double that is not negative.
pub(crate) fn double_to_uint(number: f64) -> Option<u64> {
    // The range is checked.
    (0.0..TWO_TO_64).contains(&number).then_some(number as u64)
}

/// Returns the text of a double as Go's `%g`: the shortest that parses to it, in scientific notation if its exponent is
/// less than -4 or at least `exponent_from`.
pub(crate) fn double_to_text(number: f64, exponent_from: i32) -> String {
    if number.is_nan() {
        return "NaN".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.into();
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if number == 0.0 || (-4..exponent_from).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// Parses a double as Go's `ParseFloat`: decimal, `inf`, `infinity` and `nan` in any case.
pub(crate) fn parse_double(text: &str) -> Option<f64> {
    // A text beyond the range of doubles is an error in Go, and infinity in Rust.
    let unsigned = text.trim_start_matches(['+', '-']);
    let number: f64 = text.parse().ok()?;
    (number.is_finite() || unsigned.starts_with(|first: char| first.is_ascii_alphabetic())).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_print_as_in_go() {
        for (number, text) in [
            (0.0, "0"),
            (1.5, "1.5"),
            (100_000.0, "100000"),
            (1_000_000.0, "1e+06"),
            (123_456_789.0, "1.23456789e+08"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-2.5e100, "-2.5e+100"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(double_to_text(number, 6), text);
        }
    }
}
