//! The kinds of the autoscaling group.

pub mod convert;
pub mod horizontal_pod_autoscaler;
pub mod scale;

mod behavior;
mod metrics;

#[cfg(test)]
mod tests;
