//! View of a FlowSchema.

use serde::Deserialize;
use setpoint_reconcile::object::View;

use super::{Condition, or_default};

/// View of a FlowSchema.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct FlowSchema {
    pub spec: FlowSchemaSpec,
    pub status: FlowSchemaStatus,
}

impl View for FlowSchema {
    const RESOURCE: &'static str = "flowschemas.flowcontrol.apiserver.k8s.io";
}

/// Spec of a FlowSchema.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FlowSchemaSpec {
    pub priority_level_configuration: PriorityLevelConfigurationReference,
}

/// Reference to a PriorityLevelConfiguration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PriorityLevelConfigurationReference {
    pub name: String,
}

/// Status of a FlowSchema.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct FlowSchemaStatus {
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

/// Resource of PriorityLevelConfigurations, which have no view: planners read only their existence.
pub const PRIORITY_LEVELS: &str = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io";
