//! Kinds of the group `policy`.

pub mod eviction;
pub mod pod_disruption_budget;

#[cfg(test)]
mod tests;
