//! Resource quantities: `500m`, `1.5Gi`, `12e6`.
//!
//! A [`Quantity`] is an exact decimal number, `mantissa × 10^scale`, never a float, with the format (suffix
//! family) in which it was written. Digits below a billionth are rounded up, away from zero. It prints in
//! canonical form: no fraction, the largest suffix without loss of precision, no sign unless negative. So
//! `0.5Gi` prints `512Mi`, and `1000m` prints `1`.
//!
//! Bounds: parsing caps quantities with binary suffixes at 2^63-1; at most [`DIGITS_MAX`] digits are kept,
//! and further ones are rounded up. Quantities compare by amount, independent of their format.
//!
//! The stored form is not always canonical: see [`stored_text`].

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::{AddAssign, Neg, SubAssign};
use std::str::FromStr;

mod amount;
mod format;
mod parse;

use amount::Amount;
pub use amount::DIGITS_MAX;
pub use parse::QuantityError;

/// Suffix family of a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// Powers of 1024: `Ki`, `Mi`, `Gi`, `Ti`, `Pi`, `Ei`.
    BinarySi,
    /// Powers of 1000: `n`, `u`, `m`, none, `k`, `M`, `G`, `T`, `P`, `E`.
    #[default]
    DecimalSi,
    /// Powers of 10: `e3`, `e-6`.
    DecimalExponent,
}

/// A resource quantity: an amount and the format in which it prints.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    amount: Amount,
    format: Format,
}

impl Quantity {
    /// Zero.
    pub const ZERO: Quantity = Quantity { amount: Amount::ZERO, format: Format::DecimalSi };

    /// Creates an integral quantity.
    #[must_use]
    pub fn new(value: i64, format: Format) -> Quantity {
        Quantity::scaled(value, 0, format)
    }

    /// Creates a quantity from thousandths.
    #[must_use]
    pub fn milli(value: i64, format: Format) -> Quantity {
        Quantity::scaled(value, -3, format)
    }

    /// Creates `value × 10^scale`.
    #[must_use]
    pub fn scaled(value: i64, scale: i32, format: Format) -> Quantity {
        Quantity { amount: Amount::new(value.into(), scale.into()), format }
    }

    /// Parses a quantity.
    ///
    /// # Errors
    /// If the text is not a number, or has an unknown suffix.
    pub fn parse(text: &str) -> Result<Quantity, QuantityError> {
        parse::parse(text).map(|parsed| parsed.quantity)
    }

    /// Suffix family.
    #[must_use]
    pub fn format(self) -> Format {
        self.format
    }

    /// The same amount in another format.
    #[must_use]
    pub fn with_format(self, format: Format) -> Quantity {
        Quantity { format, ..self }
    }

    /// `true` if the amount is zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.amount.mantissa() == 0
    }

    /// Sign of the amount: -1, 0 or 1.
    #[must_use]
    pub fn sign(self) -> i32 {
        match self.amount.mantissa().cmp(&0) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }
    }

    /// Amount in whole units, rounded away from zero and saturating at the bounds of `i64`.
    #[must_use]
    pub fn value(self) -> i64 {
        self.scaled_value(0)
    }

    /// Amount in thousandths, rounded away from zero and saturating at the bounds of `i64`.
    #[must_use]
    pub fn milli_value(self) -> i64 {
        self.scaled_value(-3)
    }

    /// Amount in units of `10^scale`, rounded away from zero and saturating at the bounds of `i64`.
    #[must_use]
    pub(crate) fn scaled_value(self, scale: i32) -> i64 {
        self.amount.to_i64(scale.into())
    }

    /// Approximate amount as a float: for ratios and scores, not for accounting.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.amount.to_f64()
    }
}

/// Returns the form in which a quantity is stored.
///
/// This is the canonical form, except that a text whose value and suffix are canonical keeps its spelling:
/// `+5`, `007`, `1.500` and `1E3` are stored as sent. Clients compare responses with what they sent, so this
/// is part of the API. Surrounding whitespace is removed.
///
/// # Errors
/// If the text is not a quantity.
pub fn stored_text(text: &str) -> Result<Cow<'_, str>, QuantityError> {
    let text = text.trim();
    let parsed = parse::parse(text)?;
    if parsed.kept { Ok(Cow::Borrowed(text)) } else { Ok(Cow::Owned(parsed.quantity.to_string())) }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Quantity, QuantityError> {
        Quantity::parse(text)
    }
}

impl From<i64> for Quantity {
    fn from(value: i64) -> Quantity {
        Quantity::new(value, Format::DecimalSi)
    }
}

impl From<i32> for Quantity {
    fn from(value: i32) -> Quantity {
        Quantity::from(i64::from(value))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Quantity) -> Ordering {
        self.amount.cmp(&other.amount)
    }
}

impl AddAssign for Quantity {
    /// Adds; zero adopts the format of the other operand.
    fn add_assign(&mut self, other: Quantity) {
        if self.is_zero() {
            self.format = other.format;
        }
        self.amount = self.amount.plus(other.amount);
    }
}

impl SubAssign for Quantity {
    /// Subtracts; zero adopts the format of the other operand.
    fn sub_assign(&mut self, other: Quantity) {
        *self += -other;
    }
}

impl Neg for Quantity {
    type Output = Quantity;

    fn neg(self) -> Quantity {
        Quantity { amount: self.amount.negated(), ..self }
    }
}

#[cfg(test)]
mod tests;
