//! Canonical form of quantities.

use std::fmt;

use super::amount::Amount;
use super::{Format, Quantity};

const DECIMAL_SUFFIXES: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// Scale of the largest decimal suffix.
const DECIMAL_SCALE_MAX: i64 = 18;
/// Maximum scale that is written as zeros before the largest suffix. Beyond it, an exponent is printed in
/// every format: otherwise a short quantity could print as billions of zeros.
const WRITTEN_SCALE_MAX: i64 = 2 * DECIMAL_SCALE_MAX;

impl fmt::Display for Quantity {
    /// Canonical form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() {
            return f.write_str("0");
        }
        match self.format {
            Format::BinarySi => match self.amount.to_integer() {
                Some(whole) if whole.unsigned_abs() >= 1024 => write_binary(f, whole),
                // Binary suffixes would round this amount, or have none small enough.
                _ => write_decimal_si(f, self.amount),
            },
            Format::DecimalSi => write_decimal_si(f, self.amount),
            Format::DecimalExponent => write_exponent(f, self.amount),
        }
    }
}

fn write_binary(f: &mut fmt::Formatter<'_>, whole: i128) -> fmt::Result {
    let largest = BINARY_SUFFIXES.len() - 1;
    let power = (whole.trailing_zeros() as usize / 10).min(largest);
    write!(f, "{}{}", whole >> (10 * power), BINARY_SUFFIXES[power])
}

fn write_exponent(f: &mut fmt::Formatter<'_>, amount: Amount) -> fmt::Result {
    let scale = amount.scale().div_euclid(3) * 3;
    write_digits(f, amount, scale)?;
    if scale == 0 { Ok(()) } else { write!(f, "e{scale}") }
}

fn write_decimal_si(f: &mut fmt::Formatter<'_>, amount: Amount) -> fmt::Result {
    if amount.scale() > WRITTEN_SCALE_MAX {
        return write_exponent(f, amount);
    }
    let scale = (amount.scale().div_euclid(3) * 3).min(DECIMAL_SCALE_MAX);
    write_digits(f, amount, scale)?;
    let index = usize::try_from(scale / 3 + 3).expect("no amount is finer than a billionth");
    f.write_str(DECIMAL_SUFFIXES[index])
}

/// Writes the mantissa at a scale that is not larger than the amount's own.
fn write_digits(f: &mut fmt::Formatter<'_>, amount: Amount, scale: i64) -> fmt::Result {
    write!(f, "{}", amount.mantissa())?;
    (scale..amount.scale()).try_for_each(|_| f.write_str("0"))
}
