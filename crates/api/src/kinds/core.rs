//! The kinds of the core group.

pub mod config_map;
pub mod pod;
pub mod pod_spec;
pub mod pod_template;
pub mod replication_controller;
