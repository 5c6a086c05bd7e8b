//! Counters of the API that are 32 bits wide. Anybody who may write a status can set one to its maximum, and a write with
//! more than that is refused: the object would never be written again.

/// The largest value of a counter.
const MAX: i64 = i32::MAX as i64;

/// Returns a number, or the largest that a counter can be.
#[must_use]
pub fn saturate(number: i64) -> i64 {
    number.min(MAX)
}

/// Counts one more, up to the largest number that a counter can be.
#[must_use]
pub fn count_on(counter: i64) -> i64 {
    saturate(counter.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_stays_at_its_maximum() {
        assert_eq!((count_on(0), count_on(MAX - 1), count_on(MAX), count_on(i64::MAX)), (1, MAX, MAX, MAX));
    }
}
