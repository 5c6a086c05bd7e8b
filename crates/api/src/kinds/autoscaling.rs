//! Kinds of the group `autoscaling`.

pub mod convert;
pub mod horizontal_pod_autoscaler;
pub mod scale;

mod behavior;
mod metrics;

#[cfg(test)]
mod tests;
