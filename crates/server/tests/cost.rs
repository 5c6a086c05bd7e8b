//! Cost of requests: instructions per element must not grow with the number of elements.
//!
//! Each case sends one request in three sizes (n, 2n, 4n elements in one list or map) to the API without a socket, and
//! counts the instructions of each with callgrind. Linear cost has the same marginal cost per element in both steps;
//! n log n adds a constant; quadratic cost doubles what it adds. A case that is suspicious is measured again with
//! larger sizes, where the quadratic part stands out, and fails the test.
//!
//! The test starts itself again under valgrind, once for each core that it may use; [`meter`] reads the counts.
//! `SETPOINT_COST` tries every list of every kind instead of those of a few kinds, and is the factor of the sizes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "cost/bases.rs"]
mod bases;
#[path = "cost/generate.rs"]
mod generate;
#[path = "cost/meter.rs"]
mod meter;
#[path = "cost/scenarios.rs"]
mod scenarios;
#[path = "cost/sweep.rs"]
mod sweep;

use meter::Meter;

/// Elements in the smallest request of a case.
const LEN_MIN: usize = 64;
/// Marginal cost of the second step over that of the first, in permille, above which a case is measured again.
const SUSPICIOUS: u64 = 1_060;
/// The same for the larger sizes, above which the case fails. Twice is quadratic; n log n reaches 1.13 where elements
/// cost little beside the comparisons of their keys. Quadratic cost that overtakes the linear one at 2,300 elements is
/// found.
const FAILED: u64 = 1_200;
/// Factor between the sizes of the first and of the second measurement.
const AGAIN: usize = 4;
/// Processes that measure at the same time.
const SHARDS: usize = 2;

/// One kind of request in any size: sends a request with `len` elements, and returns its instructions.
type Measure<'a> = dyn FnMut(&mut Meter, usize) -> u64 + 'a;

/// Outcome of a case.
struct Verdict {
    counts: Vec<u64>,
    growth: u64,
    failed: bool,
}

fn scale() -> usize {
    std::env::var("SETPOINT_COST").ok().and_then(|text| text.parse().ok()).unwrap_or(1).max(1)
}

/// Marginal cost per element of the second step over that of the first, in permille.
fn growth(counts: &[u64]) -> u64 {
    let first = counts[1].saturating_sub(counts[0]);
    let second = counts[2].saturating_sub(counts[1]) / 2;
    // Requests that are refused before they are read to the end have next to no marginal cost.
    if first < LEN_MIN as u64 * 50 { 1_000 } else { second * 1_000 / first }
}

/// Measures a case, again with larger sizes if it is suspicious, and once more if it is still so: quadratic work that is
/// bounded and ends between two sizes looks like growth there, and nowhere else.
fn judge(meter: &mut Meter, send: &mut Measure<'_>) -> Verdict {
    let mut sizes = [1, 2, 4].map(|factor| LEN_MIN * scale() * factor);
    let mut verdict = Verdict { counts: vec![0, 0, send(meter, sizes[0])], growth: 0, failed: true };
    for most in [SUSPICIOUS, FAILED, FAILED] {
        // The first of these sizes was measured already.
        verdict.counts.drain(..2);
        verdict.counts.extend(sizes[1..].iter().map(|len| send(meter, *len)));
        verdict.growth = growth(&verdict.counts);
        if verdict.growth <= most {
            return Verdict { failed: false, ..verdict };
        }
        sizes = sizes.map(|len| len * AGAIN);
    }
    verdict
}

/// Counts and growth of each case, one a line; lines of cases that fail begin with `FAILED`.
fn report(name: &str, verdict: &Verdict) {
    let word = if verdict.failed { "FAILED" } else { "ok" };
    println!("{word} {}.{:03} {name} {:?}", verdict.growth / 1_000, verdict.growth % 1_000, verdict.counts);
}

#[test]
fn cost_of_every_list_is_linear() {
    const NAME: &str = "cost_of_every_list_is_linear";
    match meter::shard() {
        Some(shard) => sweep::run(&mut Meter::new(), shard),
        None => meter::run_under_valgrind(NAME, SHARDS),
    }
}

#[test]
fn cost_of_patches_selectors_and_ownership_is_linear() {
    const NAME: &str = "cost_of_patches_selectors_and_ownership_is_linear";
    match meter::shard() {
        Some(shard) => scenarios::run(&mut Meter::new(), shard),
        None => meter::run_under_valgrind(NAME, SHARDS),
    }
}

#[test]
fn growth_tells_linear_from_quadratic() {
    let counts = |cost: fn(u64) -> u64| [64, 128, 256].map(cost);
    assert_eq!(growth(&counts(|n| 7_000 + 9_000 * n)), 1_000);
    assert!(growth(&counts(|n| 9_000 * n + 100 * n * u64::from(n.ilog2()))) < SUSPICIOUS);
    assert!(growth(&counts(|n| 9_000 * n + 5 * n * n)) > SUSPICIOUS);
    let counts = |cost: fn(u64) -> u64| [256, 512, 1_024].map(cost);
    assert!(growth(&counts(|n| 9_000 * n + 5 * n * n)) > FAILED);
    assert!(growth(&counts(|n| 9_000 * n + 300 * n * u64::from(n.ilog2()))) < FAILED);
}
