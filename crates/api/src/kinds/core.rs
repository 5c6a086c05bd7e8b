//! Kinds of the core group.

pub mod binding;
pub mod config_map;
pub mod endpoints;
pub mod event;
pub mod event_convert;
pub mod limit_range;
pub mod namespace;
pub mod node;
pub mod persistent_volume;
pub mod persistent_volume_claim;
pub mod resource_list;
pub mod resource_quota;
pub mod secret;
pub mod service;
pub mod service_account;

pub mod pod;
pub mod pod_spec;
pub mod pod_template;
pub mod replication_controller;
#[cfg(test)]
mod tests;
