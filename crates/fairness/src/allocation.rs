//! Allocation of seats to priority levels in proportion to their targets, within bounds.

/// Smallest target, so that bounds can be divided by it.
const TARGET_MIN: f64 = 0.001;
/// Tolerance of sums.
const EPSILON: f64 = 1e-7;

/// Target and bounds of one priority level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AllocationItem {
    /// Desired seats; at least the lower bound.
    pub target: f64,
    /// Least seats.
    pub lower: f64,
    /// Most seats.
    pub upper: f64,
}

/// Reason why no allocation exists.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum AllocationError {
    /// The lower bounds exceed the sum.
    #[error("lower bounds sum to {lower}, which is higher than the required sum of {sum}")]
    TooLow {
        /// Sum of the lower bounds.
        lower: f64,
        /// Required sum.
        sum: f64,
    },
    /// The upper bounds do not reach the sum.
    #[error("upper bounds sum to {upper}, which is lower than the required sum of {sum}")]
    TooHigh {
        /// Sum of the upper bounds.
        upper: f64,
        /// Required sum.
        sum: f64,
    },
    /// The bounds of an item contradict each other or its target.
    #[error("target {} of an item is not within its bounds {} and {}", .0.target, .0.lower, .0.upper)]
    Contradiction(AllocationItem),
}

impl AllocationItem {
    fn target(&self) -> f64 {
        self.target.max(TARGET_MIN)
    }

    /// Seats if every item gets `proportion` of its target.
    fn at(&self, proportion: f64) -> f64 {
        (proportion * self.target()).clamp(self.lower, self.upper)
    }
}

/// Allocates `sum` seats. Every item gets the same proportion of its target, except where a bound is nearer. Returns
/// the seats of each item, and the proportion.
///
/// # Errors
/// If the bounds do not permit it.
pub fn allocate(sum: f64, items: &[AllocationItem]) -> Result<(Vec<f64>, f64), AllocationError> {
    let is_sound = |item: &&AllocationItem| {
        item.lower >= 0.0 && item.lower <= item.upper && item.target >= item.lower && item.upper.is_finite()
    };
    if let Some(item) = items.iter().find(|item| !is_sound(item)) {
        return Err(AllocationError::Contradiction(*item));
    }
    let lower: f64 = items.iter().map(|item| item.lower).sum();
    let upper: f64 = items.iter().map(|item| item.upper).sum();
    if lower - sum > EPSILON {
        return Err(AllocationError::TooLow { lower, sum });
    }
    if sum - upper > EPSILON {
        return Err(AllocationError::TooHigh { upper, sum });
    }
    let proportion = proportion(sum, items);
    Ok((items.iter().map(|item| item.at(proportion)).collect(), proportion))
}

/// Proportion at which the items sum to `sum`, which is between their bounds. The sum is a non-decreasing function that
/// is linear between the proportions at which an item reaches a bound.
fn proportion(sum: f64, items: &[AllocationItem]) -> f64 {
    let total = |proportion: f64| items.iter().map(|item| item.at(proportion)).sum::<f64>();
    let mut knees: Vec<f64> =
        items.iter().flat_map(|item| [item.lower / item.target(), item.upper / item.target()]).collect();
    knees.sort_by(f64::total_cmp);
    let above = knees.partition_point(|knee| total(*knee) < sum);
    let Some(high) = knees.get(above).copied() else { return knees.last().copied().unwrap_or(0.0) };
    let low = if above == 0 { 0.0 } else { knees[above - 1] };
    let (at_low, at_high) = (total(low), total(high));
    if at_high - at_low <= EPSILON {
        return high;
    }
    low + (high - low) * (sum - at_low) / (at_high - at_low)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn item(target: f64, lower: f64, upper: f64) -> AllocationItem {
        AllocationItem { target, lower, upper }
    }

    #[test]
    fn impossible_sums_are_errors() {
        let items = [item(4.0, 2.0, 4.0), item(2.0, 1.0, 2.0)];
        assert!(matches!(allocate(2.0, &items), Err(AllocationError::TooLow { .. })));
        assert!(matches!(allocate(7.0, &items), Err(AllocationError::TooHigh { .. })));
        let contradiction = [item(1.0, 2.0, 4.0)];
        assert!(matches!(allocate(2.0, &contradiction), Err(AllocationError::Contradiction(_))));
        assert!(allocate(f64::NAN, &items).is_ok_and(|(seats, _)| seats.len() == 2));
    }

    #[test]
    fn items_get_the_same_proportion_between_their_bounds() {
        let (seats, fair) = allocate(12.0, &[item(4.0, 0.0, 100.0), item(2.0, 0.0, 100.0)]).unwrap();
        assert_eq!((seats, fair), (vec![8.0, 4.0], 2.0));
        let (seats, fair) = allocate(12.0, &[item(4.0, 0.0, 5.0), item(2.0, 0.0, 100.0)]).unwrap();
        assert_eq!((seats, fair), (vec![5.0, 7.0], 3.5));
        let (seats, _) = allocate(10.0, &[item(8.0, 8.0, 9.0), item(0.0, 0.0, 100.0)]).unwrap();
        assert!((seats[0] - 9.0).abs() < 1e-6 && (seats[1] - 1.0).abs() < 1e-6, "{seats:?}");
        assert_eq!(allocate(0.0, &[]).unwrap(), (Vec::new(), 0.0));
    }

    proptest! {
        #[test]
        fn allocation_sums_up_within_bounds_at_one_proportion(
            parts in prop::collection::vec((0u32..50, 0u32..50, 0u32..100), 1..12),
            position in 0.0f64..=1.0,
        ) {
            let items: Vec<AllocationItem> = parts
                .into_iter()
                .map(|(lower, more, above)| {
                    item((lower + more).into(), lower.into(), (lower + above).into())
                })
                .collect();
            let lower: f64 = items.iter().map(|item| item.lower).sum();
            let upper: f64 = items.iter().map(|item| item.upper).sum();
            let sum = (lower + (upper - lower) * position).floor().max(lower);
            let (seats, fair) = allocate(sum, &items).unwrap();
            prop_assert!((seats.iter().sum::<f64>() - sum).abs() < 1e-3, "{seats:?} for {sum}");
            for (item, seats) in items.iter().zip(seats) {
                prop_assert!(item.lower <= seats && seats <= item.upper);
                let share = fair * item.target();
                let expected = share.clamp(item.lower, item.upper);
                prop_assert!((seats - expected).abs() < 1e-6);
            }
        }
    }
}
