//! Saturating arithmetic for `int32` counters of the API. A client with write access to a status can set a counter to its
//! maximum; validation rejects a larger value, and no later write of the object would succeed.

/// Maximum of a counter.
const MAX: i64 = i32::MAX as i64;

/// Returns the number, bounded by the maximum of a counter.
#[must_use]
pub fn saturate(number: i64) -> i64 {
    number.min(MAX)
}

/// Adds one, up to the maximum of a counter.
#[must_use]
pub fn saturating_increment(counter: i64) -> i64 {
    saturate(counter.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_stays_at_its_maximum() {
        assert_eq!(
            (
                saturating_increment(0),
                saturating_increment(MAX - 1),
                saturating_increment(MAX),
                saturating_increment(i64::MAX)
            ),
            (1, MAX, MAX, MAX)
        );
    }
}
