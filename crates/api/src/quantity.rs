//! Amounts of resources: `500m`, `1.5Gi`, `12e6`.
//!
//! A [`Quantity`] is an exact decimal number, `mantissa × 10^scale`, never a float, and remembers which family of
//! suffixes it was written with. Digits below a billionth are rounded up, away from zero: who asks for a little
//! gets a little. It prints in canonical form: no fraction, the largest suffix that loses nothing, no sign unless
//! negative. So `0.5Gi` prints `512Mi`, and `1000m` prints `1`.
//!
//! Bounds: quantities with binary suffixes are capped at 2^63-1 when read; at most [`DIGITS_MAX`] digits are
//! kept, and further ones are rounded up. Quantities compare by amount, whatever their suffixes.
//!
//! What is stored is not always canonical: see [`stored_text`].

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

/// A family of suffixes.
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

/// An amount and the family of suffixes in which it prints.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantity {
    amount: Amount,
    format: Format,
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Quantity = Quantity { amount: Amount::ZERO, format: Format::DecimalSi };

    /// A whole amount.
    #[must_use]
    pub fn new(value: i64, format: Format) -> Quantity {
        Quantity::scaled(value, 0, format)
    }

    /// A number of thousandths.
    #[must_use]
    pub fn milli(value: i64, format: Format) -> Quantity {
        Quantity::scaled(value, -3, format)
    }

    /// `value × 10^scale`.
    #[must_use]
    pub fn scaled(value: i64, scale: i32, format: Format) -> Quantity {
        Quantity { amount: Amount::new(value.into(), scale.into()), format }
    }

    /// Reads a quantity.
    ///
    /// # Errors
    /// If the text is no number, or has a suffix that none of the families knows.
    pub fn parse(text: &str) -> Result<Quantity, QuantityError> {
        parse::parse(text).map(|parsed| parsed.quantity)
    }

    /// The family of suffixes.
    #[must_use]
    pub fn format(self) -> Format {
        self.format
    }

    /// The same amount in another family of suffixes.
    #[must_use]
    pub fn with_format(self, format: Format) -> Quantity {
        Quantity { format, ..self }
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.amount.mantissa() == 0
    }

    /// Whether it is less than (-1), equal to (0) or more than (1) nothing.
    #[must_use]
    pub fn sign(self) -> i32 {
        match self.amount.mantissa().cmp(&0) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }
    }

    /// The amount in whole units, rounded away from zero; the nearest `i64` where it does not fit.
    #[must_use]
    pub fn value(self) -> i64 {
        self.scaled_value(0)
    }

    /// The amount in thousandths, rounded away from zero; the nearest `i64` where it does not fit.
    #[must_use]
    pub fn milli_value(self) -> i64 {
        self.scaled_value(-3)
    }

    /// The amount in units of `10^scale`, rounded away from zero; the nearest `i64` where it does not fit.
    #[must_use]
    pub fn scaled_value(self, scale: i32) -> i64 {
        self.amount.to_i64(scale.into())
    }

    /// The amount as the nearest float, or nearly so: for ratios and scores, never for accounts.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.amount.to_f64()
    }
}

/// A quantity in the form in which the server keeps it.
///
/// That is the canonical form, except that a text which is canonical but for its spelling is kept: `+5`, `007`,
/// `1.500` and `1E3` come back as they were sent. Clients compare what they get with what they sent, so this
/// is part of the API. Spaces around the text are dropped.
///
/// # Errors
/// If the text is no quantity.
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
    /// Adds; nothing takes on the suffixes of what is added to it.
    fn add_assign(&mut self, other: Quantity) {
        if self.is_zero() {
            self.format = other.format;
        }
        self.amount = self.amount.plus(other.amount);
    }
}

impl SubAssign for Quantity {
    /// Subtracts; nothing takes on the suffixes of what is subtracted from it.
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
