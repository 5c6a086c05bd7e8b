//! Estimated cost of expressions: a range that the cost at runtime does not leave.
//!
//! The cost model is that of cel-go with the costs of Kubernetes' libraries. Sizes of values come from literals and
//! from the bounds of a declaration. All arithmetic saturates.

mod functions;
mod kubernetes;
mod lists;
mod sizes;
mod walk;

use crate::checker::Checked;
use crate::decl::Decl;

/// Cost of the access of a variable or field.
pub(crate) const SELECT_COST: u64 = 1;
/// Cost of the creation of a list.
pub(crate) const LIST_COST: u64 = 10;
/// Cost of the creation of a map.
pub(crate) const MAP_COST: u64 = 30;
/// Cost of the creation of an object.
pub(crate) const OBJECT_COST: u64 = 40;
/// Cost per character or byte of a string that a function traverses.
pub(crate) const STRING_FACTOR: f64 = 0.1;
/// Cost per character of a regular expression, for each unit of the cost of the string that it is applied to.
pub(crate) const REGEX_FACTOR: f64 = 0.25;

/// Range of the cost of an expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostEstimate {
    /// Lowest cost.
    pub min: u64,
    /// Highest cost.
    pub max: u64,
}

/// Range of the size of a value: characters of a string, bytes, elements of a list, or entries of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SizeEstimate {
    min: u64,
    max: u64,
}

/// Estimates the cost of an expression.
///
/// `root` is the declaration of the variable that the expression begins with, such as `self`. As in Kubernetes, it
/// bounds the sizes of the fields of every variable. The result is the cost of one evaluation; the number of
/// evaluations is for the caller to multiply.
#[must_use]
pub fn estimate(checked: &Checked, root: Option<&Decl>) -> CostEstimate {
    walk::Coster::new(checked, root).cost(checked.ast().root().id)
}

impl CostEstimate {
    pub(crate) const fn fixed(cost: u64) -> Self {
        Self { min: cost, max: cost }
    }

    /// Adds the bounds; sums saturate.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// Multiplies the bounds; products saturate.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn scale(self, factor: f64) -> Self {
        Self { min: scale(self.min, factor), max: scale(self.max, factor) }
    }

    fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

impl SizeEstimate {
    const UNKNOWN: Self = Self { min: 0, max: u64::MAX };
    /// Neutral element of the union.
    const NONE: Self = Self { min: u64::MAX, max: 0 };

    const fn fixed(size: u64) -> Self {
        Self { min: size, max: size }
    }

    fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// Returns the cost of as many steps, rounded up.
    fn scale(self, factor: f64) -> CostEstimate {
        CostEstimate { min: scale(self.min, factor), max: scale(self.max, factor) }
    }

    fn repeat(self, cost: CostEstimate) -> CostEstimate {
        CostEstimate { min: self.min, max: self.max }.times(cost)
    }

    fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// Multiplies and rounds up; products saturate.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as in cel-go, products are approximate; the cast saturates, and factors are positive"
)]
fn scale(number: u64, factor: f64) -> u64 {
    (number as f64 * factor).ceil() as u64
}

/// Cost of a call, and the size of its result if it has one.
#[derive(Clone, Copy, Debug)]
struct CallEstimate {
    cost: CostEstimate,
    size: Option<SizeEstimate>,
}

impl CallEstimate {
    fn of(cost: CostEstimate) -> Self {
        Self { cost, size: None }
    }

    fn fixed(cost: u64) -> Self {
        Self::of(CostEstimate::fixed(cost))
    }

    fn sized(cost: CostEstimate, size: SizeEstimate) -> Self {
        Self { cost, size: Some(size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_saturate_and_round_up() {
        assert_eq!(scale(1, STRING_FACTOR), 1);
        assert_eq!(scale(0, STRING_FACTOR), 0);
        assert_eq!(scale(31, STRING_FACTOR), 4);
        assert_eq!(scale(u64::MAX, 2.0), u64::MAX);
        let large = CostEstimate { min: 2, max: u64::MAX };
        assert_eq!(large.times(large), CostEstimate { min: 4, max: u64::MAX });
        assert_eq!(large.plus(CostEstimate::fixed(1)), CostEstimate { min: 3, max: u64::MAX });
    }
}
