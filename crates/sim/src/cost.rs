//! Cost growth: instructions at sizes n, 2n and 4n, counted by callgrind.
//!
//! The growth is the marginal cost per element from 2n to 4n over that from n to 2n, in permille: 1,000 for linear cost,
//! little more for n log n, 2,000 for quadratic cost. Example: n² is 4,096, 16,384 and 65,536 at 64, 128 and 256
//! elements; the first 64 elements more cost 192 each, the next 128 cost 384 each, twice as much. A case above its limit
//! is measured again with larger sizes, where the quadratic part dominates.
//!
//! A test that measures starts its own program again under valgrind, once per shard; see [`callgrind`]. `SETPOINT_COST`
//! is the factor of the sizes. Start at [`measure_growth`].

pub mod callgrind;

/// Limits of the first measurement of a case.
#[derive(Clone, Copy)]
pub struct FirstMeasurement {
    /// Elements at the smallest size.
    pub len: usize,
    /// Growth above which the case is measured again.
    pub growth_permille_max: u64,
}

/// For cases whose elements cost much more than their lookups.
pub const PLAIN: FirstMeasurement = FirstMeasurement { len: 64, growth_permille_max: 1_060 };
/// For cases that look up each element in trees, whose depth shows at small sizes.
pub const LOOKUPS: FirstMeasurement = FirstMeasurement { len: 128, growth_permille_max: 1_150 };
/// Growth at the larger sizes above which a case fails. Quadratic cost has 2,000; n log n reaches 1,130 where elements
/// cost little more than the comparisons of their keys. A quadratic part that exceeds the linear one at 2,300 elements
/// is found.
const GROWTH_PERMILLE_MAX: u64 = 1_200;
/// Marginal instructions of a step below which the cost counts as constant.
const MARGINAL_MIN: u64 = 3_200;
/// Part of the cost by which equal costs differ at most: the work is bounded, and what differs is noise.
const CONSTANT_SPREAD: u64 = 100;
/// Factor from the sizes of one measurement to those of the next.
const REMEASURE_FACTOR: usize = 4;

/// Case of any size: runs with a number of elements and returns the instructions.
pub type CostCase<'a, M> = dyn FnMut(&mut M, usize) -> u64 + 'a;

/// Result of a case.
pub struct CostGrowth {
    /// Instructions at the last three sizes.
    pub counts: Vec<u64>,
    /// Elements at the last size.
    pub len: usize,
    /// Marginal cost of the second step over that of the first.
    pub permille: u64,
    /// `true` if the cost grows faster than n log n.
    pub has_failed: bool,
}

impl CostGrowth {
    /// Returns the instructions per pair of elements: the coefficient of the quadratic part.
    #[must_use]
    pub fn instructions_per_pair(&self) -> u64 {
        let [zero, one, two] = self.counts[..] else { return 0 };
        let len = u64::try_from(self.len / 4).unwrap_or(u64::MAX).max(1);
        let (first, second) = (one.saturating_sub(zero) / len, two.saturating_sub(one) / (2 * len));
        second.saturating_sub(first) / (3 * len)
    }

    /// Returns the instructions at a larger size, extrapolated by the last marginal cost.
    #[must_use]
    pub fn extrapolate(&self, len: usize) -> u64 {
        let [.., before, last] = self.counts[..] else { return 0 };
        let step = u64::try_from(self.len / 2).unwrap_or(u64::MAX).max(1);
        let beyond = u64::try_from(len.saturating_sub(self.len)).unwrap_or(u64::MAX);
        last.saturating_add(last.saturating_sub(before).saturating_mul(beyond) / step)
    }
}

/// Factor of the sizes: `SETPOINT_COST`, or 1.
fn size_factor() -> usize {
    std::env::var("SETPOINT_COST").ok().and_then(|text| text.parse().ok()).unwrap_or(1).max(1)
}

/// `true` if `SETPOINT_COST` is set, which also selects more cases.
#[must_use]
pub fn is_long_run() -> bool {
    std::env::var_os("SETPOINT_COST").is_some()
}

/// Returns the marginal cost per element of the second step over that of the first, in permille.
fn growth_permille(counts: &[u64]) -> u64 {
    let [zero, one, two] = counts[..] else { return 0 };
    let first = one.saturating_sub(zero);
    let second = two.saturating_sub(one) / 2;
    // Cases that stop before they read everything have nearly no marginal cost, only the noise of hash seeds.
    let is_constant = two.max(one) - zero.min(one) < two / CONSTANT_SPREAD;
    if is_constant || second < MARGINAL_MIN.max(two / 1_000) { 1_000 } else { second * 1_000 / first.max(1) }
}

/// Measures a case up to three times, each time with larger sizes, until its growth is within the limit. The third time
/// is for bounded quadratic work that ends between two sizes of the second.
pub fn measure_growth<M>(first: FirstMeasurement, meter: &mut M, run: &mut CostCase<'_, M>) -> CostGrowth {
    let mut sizes = [1, 2, 4].map(|factor| first.len * size_factor() * factor);
    let counts = vec![0, 0, run(meter, sizes[0])];
    let mut growth = CostGrowth { counts, len: 0, permille: 0, has_failed: true };
    for permille_max in [first.growth_permille_max, GROWTH_PERMILLE_MAX, GROWTH_PERMILLE_MAX] {
        // The first size was measured already: it is the last one of the measurement before.
        growth.counts.drain(..2);
        growth.counts.extend(sizes[1..].iter().map(|len| run(meter, *len)));
        (growth.len, growth.permille) = (sizes[2], growth_permille(&growth.counts));
        if growth.permille <= permille_max {
            return CostGrowth { has_failed: false, ..growth };
        }
        sizes = sizes.map(|len| len * REMEASURE_FACTOR);
    }
    growth
}

/// Prints counts and growth of a case in one line, which begins with `FAILED` or `ok`.
pub fn report(name: &str, growth: &CostGrowth) {
    let result = if growth.has_failed { "FAILED" } else { "ok" };
    println!(
        "{result} {}.{:03} {name} {:?}",
        growth.permille / 1_000,
        growth.permille % 1_000,
        growth.counts
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_distinguishes_linear_from_quadratic_cost() {
        let counts = |cost: fn(u64) -> u64| [64, 128, 256].map(cost);
        assert_eq!(growth_permille(&counts(|n| 7_000 + 9_000 * n)), 1_000);
        assert!(
            growth_permille(&counts(|n| 9_000 * n + 100 * n * u64::from(n.ilog2())))
                < PLAIN.growth_permille_max
        );
        assert!(growth_permille(&counts(|n| 9_000 * n + 5 * n * n)) > PLAIN.growth_permille_max);
        assert!(growth_permille(&counts(|n| 7_000 + 5 * n * n)) > PLAIN.growth_permille_max);
        assert_eq!(growth_permille(&[44_823_826, 44_457_597, 44_830_665]), 1_000, "bounded work");
        let counts = |cost: fn(u64) -> u64| [256, 512, 1_024].map(cost);
        assert!(growth_permille(&counts(|n| 9_000 * n + 5 * n * n)) > GROWTH_PERMILLE_MAX);
        assert!(
            growth_permille(&counts(|n| 9_000 * n + 300 * n * u64::from(n.ilog2()))) < GROWTH_PERMILLE_MAX
        );
    }

    #[test]
    fn quadratic_case_fails_and_bounded_case_passes() {
        let growth = |cost: fn(u64) -> u64| measure_growth(PLAIN, &mut (), &mut |(), len| cost(len as u64));
        assert!(growth(|n| 9_000 * n + 5 * n * n).has_failed);
        assert!(!growth(|n| 9_000 * n + 5 * n.min(700).pow(2)).has_failed);
        let linear = growth(|n| 500 + 9_000 * n);
        assert_eq!((linear.has_failed, linear.extrapolate(10_000)), (false, 500 + 9_000 * 10_000));
        assert_eq!(
            (linear.instructions_per_pair(), growth(|n| 9_000 * n + 5 * n * n).instructions_per_pair()),
            (0, 5)
        );
    }
}
