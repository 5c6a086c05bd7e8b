//! Growth of cost: instructions at sizes n, 2n and 4n, counted by callgrind.
//!
//! Linear cost has the same marginal cost per element in both steps; n log n adds a constant; quadratic cost doubles what
//! it adds. A case that is suspicious is measured again with larger sizes, where the quadratic part stands out.
//!
//! A test that measures starts itself again under valgrind, once for each core that it may use; see [`callgrind`].
//! `SETPOINT_COST` is the factor of the sizes.

pub mod callgrind;

/// Where the measurement of a case begins, and what is suspicious there.
#[derive(Clone, Copy)]
pub struct Start {
    /// Elements in the smallest measurement.
    pub len: usize,
    /// Marginal cost of the second step over that of the first, in permille, above which a case is measured again.
    pub suspicious: u64,
}

/// For cases whose elements cost much beside what is looked up for each.
pub const PLAIN: Start = Start { len: 64, suspicious: 1_060 };
/// For cases that look up each element in trees, whose depth shows at small sizes.
pub const LOOKUPS: Start = Start { len: 128, suspicious: 1_150 };
/// The same for the larger sizes, above which the case fails. Twice is quadratic; n log n reaches 1.13 where elements
/// cost little beside the comparisons of their keys. Quadratic cost that overtakes the linear one at 2,300 elements is
/// found.
const FAILED: u64 = 1_200;
/// Marginal cost of a step below which a case has none.
const MARGINAL_MIN: u64 = 3_200;
/// Factor between the sizes of the first and of the second measurement.
const AGAIN: usize = 4;

/// One case in any size: does its work with so many elements, and returns the instructions.
pub type Measure<'a, M> = dyn FnMut(&mut M, usize) -> u64 + 'a;

/// Outcome of a case.
pub struct Verdict {
    /// Instructions at the last three sizes.
    pub counts: Vec<u64>,
    /// The last of these sizes.
    pub len: usize,
    /// Marginal cost of the second step over that of the first, in permille.
    pub growth: u64,
    /// `true` if the cost grows faster than n log n.
    pub failed: bool,
}

impl Verdict {
    /// Instructions for each pair of elements, if there is work for each.
    #[must_use]
    pub fn per_pair(&self) -> u64 {
        let [zero, one, two] = self.counts[..] else { return 0 };
        let len = u64::try_from(self.len / 4).unwrap_or(u64::MAX).max(1);
        let (first, second) = (one.saturating_sub(zero) / len, two.saturating_sub(one) / (2 * len));
        second.saturating_sub(first) / (3 * len)
    }

    /// Instructions at another size, if the last marginal cost holds up to there.
    #[must_use]
    pub fn at(&self, len: usize) -> u64 {
        let [.., before, last] = self.counts[..] else { return 0 };
        let step = u64::try_from(self.len / 2).unwrap_or(u64::MAX).max(1);
        let beyond = u64::try_from(len.saturating_sub(self.len)).unwrap_or(u64::MAX);
        last.saturating_add(last.saturating_sub(before).saturating_mul(beyond) / step)
    }
}

/// Factor of the sizes: `SETPOINT_COST`.
#[must_use]
pub fn scale() -> usize {
    std::env::var("SETPOINT_COST").ok().and_then(|text| text.parse().ok()).unwrap_or(1).max(1)
}

/// `true` if the long campaign is asked for.
#[must_use]
pub fn is_campaign() -> bool {
    std::env::var_os("SETPOINT_COST").is_some()
}

/// Marginal cost per element of the second step over that of the first, in permille.
fn growth(counts: &[u64]) -> u64 {
    let [zero, one, two] = counts[..] else { return 0 };
    let first = one.saturating_sub(zero);
    let second = two.saturating_sub(one) / 2;
    // Cases that stop before they read everything have next to no marginal cost.
    if second < MARGINAL_MIN { 1_000 } else { second * 1_000 / first.max(1) }
}

/// Measures a case, again with larger sizes if it is suspicious, and once more if it is still so: quadratic work that is
/// bounded and ends between two sizes looks like growth there, and nowhere else.
pub fn judge<M>(start: Start, meter: &mut M, run: &mut Measure<'_, M>) -> Verdict {
    let mut sizes = [1, 2, 4].map(|factor| start.len * scale() * factor);
    let counts = vec![0, 0, run(meter, sizes[0])];
    let mut verdict = Verdict { counts, len: 0, growth: 0, failed: true };
    for most in [start.suspicious, FAILED, FAILED] {
        // The first of these sizes was measured already.
        verdict.counts.drain(..2);
        verdict.counts.extend(sizes[1..].iter().map(|len| run(meter, *len)));
        (verdict.len, verdict.growth) = (sizes[2], growth(&verdict.counts));
        if verdict.growth <= most {
            return Verdict { failed: false, ..verdict };
        }
        sizes = sizes.map(|len| len * AGAIN);
    }
    verdict
}

/// Prints counts and growth of a case, one a line; lines of cases that fail begin with `FAILED`.
pub fn report(name: &str, verdict: &Verdict) {
    let word = if verdict.failed { "FAILED" } else { "ok" };
    println!("{word} {}.{:03} {name} {:?}", verdict.growth / 1_000, verdict.growth % 1_000, verdict.counts);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_tells_linear_from_quadratic() {
        let counts = |cost: fn(u64) -> u64| [64, 128, 256].map(cost);
        assert_eq!(growth(&counts(|n| 7_000 + 9_000 * n)), 1_000);
        assert!(growth(&counts(|n| 9_000 * n + 100 * n * u64::from(n.ilog2()))) < PLAIN.suspicious);
        assert!(growth(&counts(|n| 9_000 * n + 5 * n * n)) > PLAIN.suspicious);
        assert!(growth(&counts(|n| 7_000 + 5 * n * n)) > PLAIN.suspicious);
        let counts = |cost: fn(u64) -> u64| [256, 512, 1_024].map(cost);
        assert!(growth(&counts(|n| 9_000 * n + 5 * n * n)) > FAILED);
        assert!(growth(&counts(|n| 9_000 * n + 300 * n * u64::from(n.ilog2()))) < FAILED);
    }

    #[test]
    fn quadratic_case_fails_and_bounded_one_does_not() {
        let judged = |cost: fn(u64) -> u64| judge(PLAIN, &mut (), &mut |(), len| cost(len as u64));
        assert!(judged(|n| 9_000 * n + 5 * n * n).failed);
        assert!(!judged(|n| 9_000 * n + 5 * n.min(700).pow(2)).failed);
        let linear = judged(|n| 500 + 9_000 * n);
        assert_eq!((linear.failed, linear.at(10_000)), (false, 500 + 9_000 * 10_000));
        assert_eq!((linear.per_pair(), judged(|n| 9_000 * n + 5 * n * n).per_pair()), (0, 5));
    }
}
