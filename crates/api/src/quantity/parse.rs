//! Quantity parser.

use thiserror::Error;

use super::amount::{Amount, DIGITS_MAX, SCALE_MIN};
use super::{Format, Quantity};

/// Invalid quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// The text does not match the pattern.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Shape,
    /// The text has no digits.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// The suffix is unknown.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// A quantity, and whether its spelling is stored unchanged.
pub(super) struct Parsed {
    pub(super) quantity: Quantity,
    pub(super) kept: bool,
}

/// Scale of a suffix.
#[derive(Clone, Copy)]
enum Unit {
    /// `2^n`.
    Binary(u32),
    /// `10^n`.
    Decimal(Format, i64),
}

/// Parts of a text such as `-1.5Gi`. Leading zeros of the integer part are removed.
struct Parts<'a> {
    negative: bool,
    has_digits: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    suffix: &'a str,
}

pub(super) fn parse(text: &str) -> Result<Parsed, QuantityError> {
    let parts = split(text).ok_or(QuantityError::Shape)?;
    let unit = unit(parts.suffix).ok_or(QuantityError::Suffix)?;
    let simple = is_simple(&parts, unit);
    if !simple && !parts.has_digits {
        return Err(QuantityError::Number);
    }
    let amount = match unit {
        Unit::Binary(bits) => binary_amount(&parts, bits),
        Unit::Decimal(_, exponent) => decimal_amount(&parts, exponent),
    };
    let format = match unit {
        // An amount below one is printed in thousandths instead of being rounded.
        Unit::Binary(_) if amount > Amount::ZERO && amount < Amount::new(1, 0) => Format::DecimalSi,
        Unit::Binary(_) => Format::BinarySi,
        Unit::Decimal(format, _) => format,
    };
    let amount = if parts.negative { amount.negated() } else { amount };
    Ok(Parsed { quantity: Quantity { amount, format }, kept: simple && has_canonical_suffix(&parts, unit) })
}

/// Splits a text into its parts. Integer and fraction may be absent, as in `.5` and `1.`; even both, as in
/// `Ki`, which is zero.
fn split(text: &str) -> Option<Parts<'_>> {
    if text.is_empty() {
        return None;
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (digits, mut rest) = split_at_non_digit(unsigned);
    let whole = digits.trim_start_matches('0');
    let mut fraction = "";
    if let Some(after) = rest.strip_prefix('.') {
        (fraction, rest) = split_at_non_digit(after);
    }
    let letters = rest.trim_start_matches(['e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P']);
    let exponent = letters.strip_prefix(['+', '-']).unwrap_or(letters);
    exponent.bytes().all(|b| b.is_ascii_digit()).then_some(Parts {
        negative: text.starts_with('-'),
        has_digits: !digits.is_empty() || !fraction.is_empty(),
        whole: whole.as_bytes(),
        fraction: fraction.as_bytes(),
        suffix: rest,
    })
}

fn split_at_non_digit(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len()))
}

fn unit(suffix: &str) -> Option<Unit> {
    let si = |exponent| Some(Unit::Decimal(Format::DecimalSi, exponent));
    match suffix {
        "n" => si(-9),
        "u" => si(-6),
        "m" => si(-3),
        "" => si(0),
        "k" => si(3),
        "M" => si(6),
        "G" => si(9),
        "T" => si(12),
        "P" => si(15),
        "E" => si(18),
        "Ki" => Some(Unit::Binary(10)),
        "Mi" => Some(Unit::Binary(20)),
        "Gi" => Some(Unit::Binary(30)),
        "Ti" => Some(Unit::Binary(40)),
        "Pi" => Some(Unit::Binary(50)),
        "Ei" => Some(Unit::Binary(60)),
        _ => {
            let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            // Exponents beyond 32 bits are clamped: the result is the same.
            let exponent = exponent.clamp(i32::MIN.into(), i32::MAX.into());
            Some(Unit::Decimal(Format::DecimalExponent, exponent))
        }
    }
}

fn decimal_amount(parts: &Parts<'_>, exponent: i64) -> Amount {
    let count = parts.whole.len() + parts.fraction.len();
    let mut scale = exponent.saturating_sub(length(parts.fraction));
    let digits = || parts.whole.iter().chain(parts.fraction);
    let leading_zeros = digits().take_while(|digit| **digit == b'0').count();
    // Keeps the digits that fit; one more digit represents all that follow, so that they round up.
    let beyond_scale = usize::try_from(SCALE_MIN.saturating_sub(scale)).unwrap_or(0);
    let beyond_digits = (count - leading_zeros).saturating_sub(DIGITS_MAX as usize);
    let dropped = beyond_scale.max(beyond_digits).min(count);
    let mut mantissa = fold(digits().take(count - dropped));
    if dropped > 0 {
        let sticky = digits().skip(count - dropped).any(|digit| *digit != b'0');
        mantissa = mantissa * 10 + i128::from(sticky);
        scale = scale.saturating_add(i64::try_from(dropped).unwrap_or(i64::MAX) - 1);
    }
    Amount::new(mantissa, scale)
}

/// Fractions with binary suffixes are computed in billionths: amounts are capped so that these fit.
fn binary_amount(parts: &Parts<'_>, bits: u32) -> Amount {
    const CAP: i128 = i64::MAX as i128;
    const BILLION: i128 = 1_000_000_000;
    // Digits this far behind the point only decide about rounding up, so one of them represents all.
    const FRACTION_DIGITS_MAX: usize = 64;
    let whole = if parts.whole.len() > 19 { CAP + 1 } else { fold(parts.whole.iter()) };
    let Some(whole) = whole.checked_mul(1 << bits).filter(|whole| *whole <= CAP) else {
        return Amount::new(CAP, 0);
    };
    if parts.fraction.is_empty() {
        return Amount::new(whole, 0);
    }
    let (near, far) = parts.fraction.split_at(parts.fraction.len().min(FRACTION_DIGITS_MAX));
    let mut billionths = i128::from(far.iter().any(|digit| *digit != b'0'));
    for digit in near.iter().rev() {
        // Rounding up at each step gives the same result as rounding up once.
        let sum = billionths + i128::from(digit - b'0') * (1 << bits) * BILLION;
        billionths = sum / 10 + i128::from(sum % 10 != 0);
    }
    let total = whole * BILLION + billionths;
    Amount::new(total.min(CAP * BILLION), SCALE_MIN)
}

/// `true` if the text has few digits and a common suffix. Only simple texts keep their spelling, and only
/// these may omit all digits.
fn is_simple(parts: &Parts<'_>, unit: Unit) -> bool {
    let whole_digits = parts.whole.len().max(1);
    match unit {
        Unit::Binary(bits) => parts.fraction.is_empty() && whole_digits + (bits as usize) * 3 / 10 <= 14,
        Unit::Decimal(_, exponent) => {
            let scale = exponent.saturating_sub(length(parts.fraction));
            whole_digits + parts.fraction.len() <= 18 && scale >= SCALE_MIN
        }
    }
}

/// `true` if the suffix of a simple text is the canonical one.
fn has_canonical_suffix(parts: &Parts<'_>, unit: Unit) -> bool {
    match unit {
        Unit::Binary(_) => fold(parts.whole.iter()) % 8 != 0,
        Unit::Decimal(_, exponent) => {
            let last = parts.whole.iter().chain(parts.fraction).rev().take(3);
            let scale = exponent.saturating_sub(length(parts.fraction));
            let ends_in_zeros = last.filter(|digit| **digit == b'0').count() == 3;
            !parts.whole.is_empty() && scale % 3 == 0 && !ends_in_zeros
        }
    }
}

fn fold<'a>(digits: impl Iterator<Item = &'a u8>) -> i128 {
    digits.fold(0, |number, digit| number * 10 + i128::from(digit - b'0'))
}

fn length(digits: &[u8]) -> i64 {
    i64::try_from(digits.len()).unwrap_or(i64::MAX)
}
