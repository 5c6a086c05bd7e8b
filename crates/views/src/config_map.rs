//! View of a ConfigMap.

use serde::Deserialize;
use setpoint_reconcile::object::{Pairs, View};

use super::or_default;

/// View of a ConfigMap.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConfigMap {
    #[serde(deserialize_with = "or_default")]
    pub data: Pairs,
}

impl View for ConfigMap {
    const RESOURCE: &'static str = "configmaps";
}
