//! Source of random numbers, handed to everything that needs chance.

/// Returns a number that cannot be foreseen.
pub type Entropy = dyn Fn() -> u64 + Send + Sync;
