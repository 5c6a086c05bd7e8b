//! View of a HorizontalPodAutoscaler.

use serde::{Deserialize, Serialize};
use setpoint_api::{Time, Value};
use setpoint_reconcile::object::View;

use super::{Condition, deserialize_time, or_default, serialize_time, serialize_unless_empty};

/// View of a HorizontalPodAutoscaler.
#[derive(Clone, Debug, Deserialize)]
pub struct HorizontalPodAutoscaler {
    pub spec: HorizontalPodAutoscalerSpec,
    #[serde(default)]
    pub status: HorizontalPodAutoscalerStatus,
}

impl View for HorizontalPodAutoscaler {
    const RESOURCE: &'static str = "horizontalpodautoscalers.autoscaling";
}

/// Spec of a HorizontalPodAutoscaler.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HorizontalPodAutoscalerSpec {
    pub scale_target_ref: CrossVersionObjectReference,
    /// 1 if absent.
    pub min_replicas: Option<i64>,
    pub max_replicas: i64,
    #[serde(default, deserialize_with = "or_default")]
    pub metrics: Vec<MetricSpec>,
    pub behavior: Option<ScalingBehavior>,
}

/// Reference to the scale target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CrossVersionObjectReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
}

/// Metric of an autoscaler.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricSpec {
    /// `Resource`, `ContainerResource`, `Pods`, `Object` or `External`.
    #[serde(rename = "type")]
    pub kind: String,
    pub resource: Option<MetricSource>,
    pub container_resource: Option<MetricSource>,
    pub pods: Option<MetricSource>,
    pub object: Option<MetricSource>,
    pub external: Option<MetricSource>,
}

impl MetricSpec {
    /// Returns the source of the metric's type.
    #[must_use]
    pub fn source(&self) -> Option<&MetricSource> {
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

/// Source and target of a metric. Each metric type uses some of the fields.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricSource {
    pub name: String,
    pub container: String,
    pub metric: MetricIdentifier,
    pub described_object: Option<Value>,
    pub target: MetricTarget,
}

/// Name of a metric, with a selector of its series.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct MetricIdentifier {
    pub name: String,
    pub selector: Option<Value>,
}

/// Target of a metric.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricTarget {
    /// `Utilization`, `Value` or `AverageValue`.
    #[serde(rename = "type")]
    pub kind: String,
    pub value: Option<String>,
    pub average_value: Option<String>,
    /// Percentage of the resource request.
    pub average_utilization: Option<i64>,
}

/// Scaling behavior per direction.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScalingBehavior {
    pub scale_up: Option<ScalingRules>,
    pub scale_down: Option<ScalingRules>,
}

/// Scaling rules of one direction.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScalingRules {
    pub stabilization_window_seconds: Option<i64>,
    /// `Max`, `Min` or `Disabled`.
    pub select_policy: String,
    #[serde(deserialize_with = "or_default")]
    pub policies: Vec<ScalingPolicy>,
    /// Quantity: ratio by which a metric may differ from its target without scaling.
    pub tolerance: Option<String>,
}

/// Maximum change within a period.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScalingPolicy {
    /// `Pods` or `Percent`.
    #[serde(rename = "type")]
    pub kind: String,
    pub value: i64,
    pub period_seconds: i64,
}

/// Status of a HorizontalPodAutoscaler.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HorizontalPodAutoscalerStatus {
    pub observed_generation: Option<i64>,
    #[serde(deserialize_with = "deserialize_time", serialize_with = "serialize_time")]
    pub last_scale_time: Option<Time>,
    /// Absent if 0.
    pub current_replicas: Option<i64>,
    pub desired_replicas: i64,
    /// Skipped when serializing, because a [`Value`] does not implement `Serialize`; the controller adds it.
    #[serde(deserialize_with = "or_default", skip_serializing)]
    pub current_metrics: Vec<Value>,
    #[serde(deserialize_with = "or_default", serialize_with = "serialize_unless_empty")]
    pub conditions: Vec<Condition>,
}
