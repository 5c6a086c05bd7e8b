//! The kinds of the core group.

pub mod config_map;
pub mod pod_spec;
