//! What planners read of FlowSchemas and PriorityLevelConfigurations.

use serde::Deserialize;
use setpoint_reconcile::object::View;

use super::{Condition, or_default};

/// A FlowSchema: which requests share a priority.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct FlowSchema {
    /// What is wanted.
    pub spec: FlowSchemaSpec,
    /// How it stands.
    pub status: FlowSchemaStatus,
}

impl View for FlowSchema {
    const RESOURCE: &'static str = "flowschemas.flowcontrol.apiserver.k8s.io";
}

/// What is wanted of a schema.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FlowSchemaSpec {
    /// The priority of its requests.
    pub priority_level_configuration: Named,
}

/// A reference by name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Named {
    /// The name.
    pub name: String,
}

/// How a schema stands.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct FlowSchemaStatus {
    /// Its conditions.
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

/// The resource of PriorityLevelConfigurations, of which nobody reads more than that they are there.
pub const PRIORITY_LEVELS: &str = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io";
