//! The kinds of the policy group.

pub mod eviction;
pub mod pod_disruption_budget;

mod condition;

#[cfg(test)]
mod tests;
