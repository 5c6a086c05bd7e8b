//! What planners read of a HorizontalPodAutoscaler.

use serde::{Deserialize, Serialize};
use setpoint_api::{Time, Value};
use setpoint_reconcile::object::View;

use super::{Condition, or_default, time, unless_empty, write_time};

/// A HorizontalPodAutoscaler.
#[derive(Clone, Debug, Deserialize)]
pub struct HorizontalPodAutoscaler {
    /// What is wanted.
    pub spec: HorizontalPodAutoscalerSpec,
    /// How it stands.
    #[serde(default)]
    pub status: HorizontalPodAutoscalerStatus,
}

impl View for HorizontalPodAutoscaler {
    const RESOURCE: &'static str = "horizontalpodautoscalers.autoscaling";
}

/// What is wanted of a HorizontalPodAutoscaler.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HorizontalPodAutoscalerSpec {
    /// What is scaled.
    pub scale_target_ref: TargetReference,
    /// The fewest pods; one if absent.
    pub min_replicas: Option<i64>,
    /// The most pods.
    pub max_replicas: i64,
    /// By what it is scaled.
    #[serde(default, deserialize_with = "or_default")]
    pub metrics: Vec<Metric>,
    /// How fast.
    pub behavior: Option<Behavior>,
}

/// An object by kind and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TargetReference {
    /// Group and version of its kind.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// Something by which pods are scaled.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metric {
    /// `Resource`, `ContainerResource`, `Pods`, `Object` or `External`.
    #[serde(rename = "type")]
    pub kind: String,
    /// A resource that pods use.
    pub resource: Option<Source>,
    /// A resource that a container of each pod uses.
    pub container_resource: Option<Source>,
    /// Something that pods tell.
    pub pods: Option<Source>,
    /// Something about another object.
    pub object: Option<Source>,
    /// Something outside of the cluster.
    pub external: Option<Source>,
}

impl Metric {
    /// The source that goes with the type.
    #[must_use]
    pub fn source(&self) -> Option<&Source> {
        match self.kind.as_str() {
            "Resource" => self.resource.as_ref(),
            "ContainerResource" => self.container_resource.as_ref(),
            "Pods" => self.pods.as_ref(),
            "Object" => self.object.as_ref(),
            "External" => self.external.as_ref(),
            _ => None,
        }
    }
}

/// Where a number comes from, and what it should be. Each type uses its own of these fields.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Source {
    /// The name of a resource.
    pub name: String,
    /// The name of a container.
    pub container: String,
    /// The name of a metric, and which of its series.
    pub metric: MetricName,
    /// The object that it is about.
    pub described_object: Option<Value>,
    /// What it should be.
    pub target: Target,
}

/// The name of a metric, and which of its series.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct MetricName {
    /// The name.
    pub name: String,
    /// Which of its series, as a label selector.
    pub selector: Option<Value>,
}

/// What a number should be.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Target {
    /// `Utilization`, `Value` or `AverageValue`.
    #[serde(rename = "type")]
    pub kind: String,
    /// As a whole.
    pub value: Option<String>,
    /// For each pod.
    pub average_value: Option<String>,
    /// For each pod, in percent of what it asks for.
    pub average_utilization: Option<i64>,
}

/// How fast to scale.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Behavior {
    /// Upwards.
    pub scale_up: Option<Rules>,
    /// Downwards.
    pub scale_down: Option<Rules>,
}

/// How fast to scale in one direction.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rules {
    /// For how long earlier proposals are weighed.
    pub stabilization_window_seconds: Option<i64>,
    /// Which policy decides: `Max`, `Min` or `Disabled`.
    pub select_policy: String,
    /// The policies.
    #[serde(deserialize_with = "or_default")]
    pub policies: Vec<Policy>,
    /// How far the numbers may be off before anything is done, as a quantity.
    pub tolerance: Option<String>,
}

/// How much may change in a time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    /// `Pods` or `Percent`.
    #[serde(rename = "type")]
    pub kind: String,
    /// How much.
    pub value: i64,
    /// In how many seconds.
    pub period_seconds: i64,
}

/// How a HorizontalPodAutoscaler stands.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HorizontalPodAutoscalerStatus {
    /// Which generation this was seen of.
    pub observed_generation: Option<i64>,
    /// When it last changed anything.
    #[serde(deserialize_with = "time", serialize_with = "write_time")]
    pub last_scale_time: Option<Time>,
    /// How many pods there are; absent for none.
    pub current_replicas: Option<i64>,
    /// How many there should be.
    pub desired_replicas: i64,
    /// What the metrics said. It is written by hand, because values are no part of a struct that is written.
    #[serde(deserialize_with = "or_default", skip_serializing)]
    pub current_metrics: Vec<Value>,
    /// Its conditions.
    #[serde(deserialize_with = "or_default", serialize_with = "unless_empty")]
    pub conditions: Vec<Condition>,
}
