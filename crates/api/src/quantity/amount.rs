//! Exact decimal numbers of bounded precision.

use std::cmp::Ordering;

/// Maximum number of digits of an amount.
pub const DIGITS_MAX: u32 = 37;
/// One more than the largest mantissa: two mantissas can be added without overflow.
const MANTISSA_END: i128 = 10_i128.pow(DIGITS_MAX);
/// Finest scale: billionths.
pub(super) const SCALE_MIN: i64 = -9;

/// `mantissa × 10^scale`.
///
/// The mantissa is below `MANTISSA_END` and does not end in a zero digit, the scale is at least `SCALE_MIN`,
/// and zero has the scale 0: so the representation is unique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    mantissa: i128,
    scale: i64,
}

impl Amount {
    pub(super) const ZERO: Amount = Amount { mantissa: 0, scale: 0 };

    /// Creates `mantissa × 10^scale`, rounded away from zero to the supported precision.
    pub(super) fn new(mantissa: i128, scale: i64) -> Amount {
        let (mut mantissa, mut scale) = (mantissa, scale);
        while mantissa.unsigned_abs() >= MANTISSA_END.unsigned_abs() {
            mantissa = divide_away_from_zero(mantissa, 1);
            scale += 1;
        }
        if scale < SCALE_MIN {
            mantissa = divide_away_from_zero(mantissa, SCALE_MIN.saturating_sub(scale));
            scale = SCALE_MIN;
        }
        if mantissa == 0 {
            return Amount::ZERO;
        }
        // Most amounts fit 64 bits, whose division is several times cheaper.
        if let Ok(mut small) = i64::try_from(mantissa) {
            while small % 10 == 0 {
                small /= 10;
                scale += 1;
            }
            return Amount { mantissa: small.into(), scale };
        }
        while mantissa % 10 == 0 {
            mantissa /= 10;
            scale += 1;
        }
        Amount { mantissa, scale }
    }

    pub(super) fn mantissa(self) -> i128 {
        self.mantissa
    }

    pub(super) fn scale(self) -> i64 {
        self.scale
    }

    pub(super) fn negated(self) -> Amount {
        Amount { mantissa: -self.mantissa, ..self }
    }

    /// Amount as an integer, if it is one and fits.
    pub(super) fn to_integer(self) -> Option<i128> {
        if self.scale < 0 { None } else { shift_left(self.mantissa, self.scale) }
    }

    pub(super) fn plus(self, other: Amount) -> Amount {
        let (coarse, fine) = if self.scale >= other.scale { (self, other) } else { (other, self) };
        if coarse.mantissa == 0 || fine.mantissa == 0 {
            return if self.mantissa == 0 { other } else { self };
        }
        // Moves the coarser scale as near to the finer one as the digits allow; the rest is rounded off the
        // finer amount.
        let (mut mantissa, mut scale) = (coarse.mantissa, coarse.scale);
        while scale > fine.scale && mantissa.unsigned_abs() < MANTISSA_END.unsigned_abs() / 10 {
            mantissa *= 10;
            scale -= 1;
        }
        let rounded = divide_away_from_zero(fine.mantissa, scale - fine.scale);
        Amount::new(mantissa + rounded, scale)
    }

    /// Amount in units of `10^scale`, rounded away from zero and saturating at the bounds of `i64`.
    pub(super) fn to_i64(self, scale: i64) -> i64 {
        let bound = if self.mantissa < 0 { i64::MIN } else { i64::MAX };
        if self.scale >= scale {
            let units = shift_left(self.mantissa, self.scale - scale);
            return units.and_then(|units| i64::try_from(units).ok()).unwrap_or(bound);
        }
        i64::try_from(divide_away_from_zero(self.mantissa, scale - self.scale)).unwrap_or(bound)
    }

    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a float is wanted")]
    pub(super) fn to_f64(self) -> f64 {
        let exponent = self.scale.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
        let mantissa = self.mantissa as f64;
        if exponent < 0 { mantissa / 10_f64.powi(-exponent) } else { mantissa * 10_f64.powi(exponent) }
    }
}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Amount) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Amount {
    fn cmp(&self, other: &Amount) -> Ordering {
        let by_sign = self.mantissa.signum().cmp(&other.mantissa.signum());
        if by_sign != Ordering::Equal || self.mantissa == 0 {
            return by_sign;
        }
        if self.scale < other.scale {
            return other.cmp(self).reverse();
        }
        match shift_left(self.mantissa, self.scale - other.scale) {
            Some(mantissa) => mantissa.cmp(&other.mantissa),
            // Too large to represent at the other scale, hence of greater magnitude than the other amount.
            None => self.mantissa.cmp(&0),
        }
    }
}

/// `mantissa × 10^places`, if it fits.
fn shift_left(mantissa: i128, places: i64) -> Option<i128> {
    mantissa.checked_mul(10_i128.checked_pow(u32::try_from(places).ok()?)?)
}

/// `mantissa ÷ 10^places`, rounded away from zero.
fn divide_away_from_zero(mantissa: i128, places: i64) -> i128 {
    let divisor = u32::try_from(places).ok().and_then(|places| 10_i128.checked_pow(places));
    match divisor {
        Some(divisor) => mantissa / divisor + if mantissa % divisor == 0 { 0 } else { mantissa.signum() },
        None => mantissa.signum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_amounts_have_one_representation() {
        assert_eq!(Amount::new(1000, -3), Amount::new(1, 0));
        assert_eq!(Amount::new(0, 77), Amount::ZERO);
        assert_eq!(Amount::new(10_i128.pow(38), -38), Amount::new(1, 0));
    }

    #[test]
    fn excess_precision_is_rounded_away_from_zero() {
        assert_eq!(Amount::new(1, -100), Amount::new(1, -9));
        assert_eq!(Amount::new(-11, -10), Amount::new(-2, -9));
        let long = 10_i128.pow(37) + 1;
        assert_eq!(Amount::new(long, 0), Amount::new(10_i128.pow(36) + 1, 1));
        assert_eq!(Amount::new(1, 60).plus(Amount::new(1, -9)), Amount::new(10_i128.pow(36) + 1, 24));
    }

    #[test]
    fn amounts_far_apart_compare() {
        let huge = Amount::new(1, 1_000_000_000);
        let tiny = Amount::new(1, -9);
        assert_eq!((huge.cmp(&tiny), tiny.cmp(&huge)), (Ordering::Greater, Ordering::Less));
        assert!(huge.negated() < tiny && huge.negated() < tiny.negated());
        assert!(tiny.negated() < Amount::ZERO && Amount::ZERO < tiny);
        assert_eq!(huge.to_i64(0), i64::MAX);
        assert_eq!(huge.negated().to_i64(-3), i64::MIN);
    }
}
