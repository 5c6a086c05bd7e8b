//! Printers of the group `autoscaling`.

use super::cell::{age, int, int_or_text, list, name, quantity};
use super::{AGE, Cell, Column, NAME, Printer, cells, field};
use crate::time::Time;
use crate::value::Value;

/// Maximum number of metrics to show.
const METRICS_MAX: usize = 2;

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    Some(match kind {
        "HorizontalPodAutoscaler" => &HORIZONTAL_POD_AUTOSCALER,
        "Scale" => &SCALE,
        _ => return None,
    })
}

/// For objects of version `v2`.
static HORIZONTAL_POD_AUTOSCALER: Printer = Printer::new(
    &[
        NAME,
        Column::text("Reference", field!("autoscaling.v2.HorizontalPodAutoscalerSpec", "scaleTargetRef")),
        Column::text("Targets", field!("autoscaling.v2.HorizontalPodAutoscalerSpec", "metrics")),
        Column::text("MinPods", field!("autoscaling.v2.HorizontalPodAutoscalerSpec", "minReplicas")),
        Column::text("MaxPods", field!("autoscaling.v2.HorizontalPodAutoscalerSpec", "maxReplicas")),
        Column::text("Replicas", field!("autoscaling.v2.HorizontalPodAutoscalerStatus", "currentReplicas")),
        AGE,
    ],
    horizontal_pod_autoscaler,
);

fn horizontal_pod_autoscaler(object: &Value, now: Time) -> Vec<Cell> {
    let target = object.at(&["spec", "scaleTargetRef"]).unwrap_or(&Value::Null);
    cells![
        name(object),
        format!("{}/{}", target.str_at(&["kind"]), target.str_at(&["name"])),
        metrics(object),
        int_or_text(object, &["spec", "minReplicas"], "<unset>"),
        int(object, &["spec", "maxReplicas"]),
        int(object, &["status", "currentReplicas"]),
        age(object, now),
    ]
}

fn metrics(object: &Value) -> String {
    let specs = list(object, &["spec", "metrics"]);
    let statuses = list(object, &["status", "currentMetrics"]);
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let shown: Vec<String> =
        specs.iter().take(METRICS_MAX).enumerate().map(|(at, spec)| metric(spec, statuses.get(at))).collect();
    match specs.len().checked_sub(METRICS_MAX) {
        Some(more @ 1..) => format!("{} + {more} more...", shown.join(", ")),
        _ => shown.join(", "),
    }
}

/// Current and target value of a metric, as in `cpu: 20%/80%`.
fn metric(spec: &Value, status: Option<&Value>) -> String {
    let source = match spec.str_at(&["type"]) {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let spec = spec.get(source).unwrap_or(&Value::Null);
    let current = status.and_then(|status| status.get(source)).filter(|status| status.as_map().is_some());
    let target = spec.get("target").unwrap_or(&Value::Null);
    let has = |value: &Value, field: &str| value.get(field).is_some_and(|value| !value.is_null());
    let by_average = has(target, "averageValue");
    let now = |field: &str| current.map(|current| quantity(current, &["current", field]));
    let now_if_said = |field: &str| current.filter(|one| has_current(one, field)).and_then(|_| now(field));
    let unknown = || "<unknown>".to_owned();
    match source {
        "pods" => {
            format!("{}/{}", now("averageValue").unwrap_or_else(unknown), quantity(target, &["averageValue"]))
        }
        "external" | "object" if by_average => {
            let now = now_if_said("averageValue").unwrap_or_else(unknown);
            format!("{now}/{} (avg)", quantity(target, &["averageValue"]))
        }
        "external" | "object" => {
            format!("{}/{}", now("value").unwrap_or_else(unknown), quantity(target, &["value"]))
        }
        _ if by_average => {
            let now = now("averageValue").unwrap_or_else(unknown);
            format!("{}: {now}/{}", spec.str_at(&["name"]), quantity(target, &["averageValue"]))
        }
        _ => {
            let now = now_if_said("averageUtilization").map_or_else(unknown, |now| format!("{now}%"));
            let target = match target.get("averageUtilization") {
                Some(Value::Int(percent)) => format!("{percent}%"),
                _ => "<auto>".to_owned(),
            };
            format!("{}: {now}/{target}", spec.str_at(&["name"]))
        }
    }
}

fn has_current(status: &Value, field: &str) -> bool {
    status.at(&["current", field]).is_some_and(|value| !value.is_null())
}

static SCALE: Printer = Printer::new(
    &[
        Column { format: "", ..NAME },
        Column::integer("Desired", field!("autoscaling.v1.ScaleSpec", "replicas")),
        Column::integer("Available", field!("autoscaling.v1.ScaleStatus", "replicas")),
        AGE,
    ],
    |object, now| {
        cells![
            name(object),
            int(object, &["spec", "replicas"]),
            int(object, &["status", "replicas"]),
            age(object, now)
        ]
    },
);
