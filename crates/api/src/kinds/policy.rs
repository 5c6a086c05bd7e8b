//! The kinds of the policy group.

pub mod eviction;
pub mod pod_disruption_budget;

#[cfg(test)]
mod tests;
