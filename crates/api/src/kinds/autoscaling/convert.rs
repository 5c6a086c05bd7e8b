//! Conversion of HorizontalPodAutoscaler between `autoscaling/v1` and `autoscaling/v2`.
//!
//! Version 1 has one metric, CPU utilization. Everything else is kept in annotations, each in its own format:
//! metrics and their values as in the first alpha version, the behavior with the field names of upstream's
//! internal type. An annotation that cannot be parsed is dropped.

use super::horizontal_pod_autoscaler::{CPU_UTILIZATION_DEFAULT, cpu_metric};
use crate::json;
use crate::kinds::read::{list, text};
use crate::quantity::{Quantity, stored_text};
use crate::value::{Map, Value};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// Annotations of the conversion, with two that only beta versions used.
const ANNOTATIONS: [&str; 6] = [
    METRICS,
    CURRENT_METRICS,
    CONDITIONS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

/// Type of a field.
#[derive(Clone, Copy)]
enum FieldType {
    Text,
    Int,
    Quantity,
    /// A quantity that is written even if it is zero.
    QuantityAlways,
    Object,
}

/// A field of an annotation, its type, and its path in version 2.
type Field = (&'static str, FieldType, &'static [&'static str]);

/// A metric source: its field, and the fields of its target and of its current value.
struct MetricSource {
    field: &'static str,
    wanted: &'static [Field],
    measured: &'static [Field],
}

/// Metric sources in the order in which they are written.
const SOURCES: [MetricSource; 5] = [
    MetricSource {
        field: "object",
        wanted: &[
            ("target", FieldType::Object, &["describedObject"]),
            ("metricName", FieldType::Text, &["metric", "name"]),
            ("targetValue", FieldType::QuantityAlways, &["target", "value"]),
            ("selector", FieldType::Object, &["metric", "selector"]),
            ("averageValue", FieldType::Quantity, &["target", "averageValue"]),
        ],
        measured: &[
            ("target", FieldType::Object, &["describedObject"]),
            ("metricName", FieldType::Text, &["metric", "name"]),
            ("currentValue", FieldType::QuantityAlways, &["current", "value"]),
            ("selector", FieldType::Object, &["metric", "selector"]),
            ("averageValue", FieldType::Quantity, &["current", "averageValue"]),
        ],
    },
    MetricSource {
        field: "pods",
        wanted: &[
            ("metricName", FieldType::Text, &["metric", "name"]),
            ("targetAverageValue", FieldType::QuantityAlways, &["target", "averageValue"]),
            ("selector", FieldType::Object, &["metric", "selector"]),
        ],
        measured: &[
            ("metricName", FieldType::Text, &["metric", "name"]),
            ("currentAverageValue", FieldType::QuantityAlways, &["current", "averageValue"]),
            ("selector", FieldType::Object, &["metric", "selector"]),
        ],
    },
    MetricSource {
        field: "resource",
        wanted: &[
            ("name", FieldType::Text, &["name"]),
            ("targetAverageUtilization", FieldType::Int, &["target", "averageUtilization"]),
            ("targetAverageValue", FieldType::Quantity, &["target", "averageValue"]),
        ],
        measured: &[
            ("name", FieldType::Text, &["name"]),
            ("currentAverageUtilization", FieldType::Int, &["current", "averageUtilization"]),
            ("currentAverageValue", FieldType::QuantityAlways, &["current", "averageValue"]),
        ],
    },
    MetricSource {
        field: "containerResource",
        wanted: &[
            ("name", FieldType::Text, &["name"]),
            ("targetAverageUtilization", FieldType::Int, &["target", "averageUtilization"]),
            ("targetAverageValue", FieldType::Quantity, &["target", "averageValue"]),
            ("container", FieldType::Text, &["container"]),
        ],
        measured: &[
            ("name", FieldType::Text, &["name"]),
            ("currentAverageUtilization", FieldType::Int, &["current", "averageUtilization"]),
            ("currentAverageValue", FieldType::QuantityAlways, &["current", "averageValue"]),
            ("container", FieldType::Text, &["container"]),
        ],
    },
    MetricSource {
        field: "external",
        wanted: &[
            ("metricName", FieldType::Text, &["metric", "name"]),
            ("metricSelector", FieldType::Object, &["metric", "selector"]),
            ("targetValue", FieldType::Quantity, &["target", "value"]),
            ("targetAverageValue", FieldType::Quantity, &["target", "averageValue"]),
        ],
        measured: &[
            ("metricName", FieldType::Text, &["metric", "name"]),
            ("metricSelector", FieldType::Object, &["metric", "selector"]),
            ("currentValue", FieldType::QuantityAlways, &["current", "value"]),
            ("currentAverageValue", FieldType::Quantity, &["current", "averageValue"]),
        ],
    },
];

/// Fields of a behavior: the name in upstream's internal type, and the JSON name.
const RULES: [(&str, &str, FieldType); 2] = [
    ("StabilizationWindowSeconds", "stabilizationWindowSeconds", FieldType::Int),
    ("SelectPolicy", "selectPolicy", FieldType::Text),
];
const POLICY: [(&str, &str, FieldType); 3] = [
    ("Type", "type", FieldType::Text),
    ("Value", "value", FieldType::Int),
    ("PeriodSeconds", "periodSeconds", FieldType::Int),
];

/// Converts an autoscaler from version 2 to version 1.
pub(crate) fn to_v1(object: &mut Value) {
    let mut carried: Vec<(&str, Value)> = Vec::new();
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_map_mut) {
        let metrics = taken_list(spec, "metrics");
        let cpu = metrics.iter().find_map(cpu_utilization);
        let others: Vec<Value> = metrics
            .iter()
            .filter(|metric| cpu_utilization(metric).is_none())
            .map(|metric| write_metric(metric, |source| source.wanted))
            .collect();
        if let Some(percent) = cpu {
            spec.insert("targetCPUUtilizationPercentage", percent);
        }
        if !others.is_empty() {
            carried.push((METRICS, Value::List(others)));
        }
    }
    let status = object.get_mut("status").and_then(Value::as_map_mut);
    let mut conditions = Vec::new();
    if let Some(status) = status {
        let current = taken_list(status, "currentMetrics");
        let percent = current.iter().rev().find_map(|metric| {
            let resource = cpu_resource(metric)?;
            resource.at(&["current", "averageUtilization"])?.as_i64()
        });
        if let Some(percent) = percent {
            status.insert("currentCPUUtilizationPercentage", percent);
        }
        if !current.is_empty() {
            let current = current.iter().map(|metric| write_metric(metric, |source| source.measured));
            carried.push((CURRENT_METRICS, Value::List(current.collect())));
        }
        conditions = taken_list(status, "conditions");
    }
    let behavior =
        object.get_mut("spec").and_then(Value::as_map_mut).and_then(|spec| spec.remove("behavior"));
    if let Some(behavior) = behavior.filter(|behavior| !behavior.is_null()) {
        carried.push((BEHAVIOR, write_behavior(&behavior)));
    }
    if !conditions.is_empty() {
        carried.push((CONDITIONS, Value::List(conditions.into_iter().map(write_condition).collect())));
    }
    drop_annotations(object);
    if !carried.is_empty() {
        let annotations = object.ensure_map("metadata").ensure_map("annotations");
        for (name, value) in carried {
            annotations.insert(name, json::to_text(&value));
        }
    }
    object.make_map().insert("apiVersion", "autoscaling/v1");
}

/// Converts an autoscaler from version 1 to version 2.
pub(crate) fn from_v1(object: &mut Value) {
    let carried = |name: &str| {
        let text = object.at(&["metadata", "annotations", name])?.as_str()?;
        json::parse(text.as_bytes()).ok()
    };
    let metrics = carried(METRICS).and_then(|list| read_list(&list, read_wanted));
    let current = carried(CURRENT_METRICS).and_then(|list| read_list(&list, read_measured));
    let conditions = carried(CONDITIONS).and_then(|list| read_list(&list, read_condition));
    let behavior = carried(BEHAVIOR).and_then(|behavior| read_behavior(&behavior));
    let spec = object.ensure_map("spec");
    let mut metrics = metrics.unwrap_or_default();
    if let Some(percent) = spec.remove("targetCPUUtilizationPercentage").as_ref().and_then(Value::as_i64) {
        metrics.push(cpu_metric(percent));
    }
    if metrics.is_empty() {
        metrics.push(cpu_metric(CPU_UTILIZATION_DEFAULT));
    }
    spec.insert("metrics", Value::List(metrics));
    if let Some(behavior) = behavior {
        spec.insert("behavior", behavior);
    }
    let status = object.ensure_map("status");
    let percent = status.remove("currentCPUUtilizationPercentage").as_ref().and_then(Value::as_i64);
    if let Some(current) = current.or_else(|| percent.map(|percent| vec![cpu_status(percent)])) {
        status.insert("currentMetrics", Value::List(current));
    }
    if let Some(conditions) = conditions {
        status.insert("conditions", Value::List(conditions));
    }
    drop_annotations(object);
    object.make_map().insert("apiVersion", "autoscaling/v2");
}

fn taken_list(map: &mut Map, field: &str) -> Vec<Value> {
    match map.remove(field) {
        Some(Value::List(list)) => list,
        _ => Vec::new(),
    }
}

fn drop_annotations(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_map_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_map_mut) else { return };
    annotations.retain(|name, _| !ANNOTATIONS.contains(&name));
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// The resource of a metric for the CPU of all containers.
fn cpu_resource(metric: &Value) -> Option<&Value> {
    let resource = metric.get("resource")?;
    (text(metric, "type") == "Resource" && text(resource, "name") == "cpu").then_some(resource)
}

fn cpu_utilization(metric: &Value) -> Option<i64> {
    cpu_resource(metric)?.at(&["target", "averageUtilization"])?.as_i64()
}

fn cpu_status(percent: i64) -> Value {
    let mut metric = Value::map();
    metric.make_map().insert("type", "Resource");
    let resource = metric.ensure_map("resource");
    resource.insert("name", "cpu");
    resource.ensure_map("current").insert("averageUtilization", percent);
    metric
}

fn write_metric(metric: &Value, fields: fn(&MetricSource) -> &'static [Field]) -> Value {
    let mut written = Map::new();
    written.insert("type", text(metric, "type"));
    for source in &SOURCES {
        let Some(described) = metric.get(source.field) else { continue };
        let mut out = Map::new();
        for (name, field_type, path) in fields(source) {
            match (described.at(path), field_type) {
                (Some(value), _) => drop(out.insert(*name, value.clone())),
                (None, FieldType::QuantityAlways) => drop(out.insert(*name, "0")),
                (None, FieldType::Text) => drop(out.insert(*name, "")),
                (None, _) => {}
            }
        }
        written.insert(source.field, out);
    }
    Value::Map(written)
}

fn write_condition(mut condition: Value) -> Value {
    let mut written = Map::new();
    let condition = condition.make_map();
    for field in ["type", "status", "lastTransitionTime", "reason", "message", "observedGeneration"] {
        match condition.remove(field) {
            Some(value) => drop(written.insert(field, value)),
            None if field == "lastTransitionTime" => drop(written.insert(field, Value::Null)),
            None => {}
        }
    }
    Value::Map(written)
}

fn write_behavior(behavior: &Value) -> Value {
    let named = |value: &Value, names: &[(&'static str, &str, FieldType)]| -> Map {
        names.iter().map(|(name, field, _)| (*name, value.get(field).cloned().unwrap_or_default())).collect()
    };
    let rules = |direction: &str| {
        let Some(rules) = behavior.get(direction) else { return Value::Null };
        let mut written = named(rules, &RULES);
        let policies: Vec<Map> =
            list(rules, "policies").iter().map(|policy| named(policy, &POLICY)).collect();
        written.insert("Policies", Value::from((!policies.is_empty()).then_some(policies)));
        written.insert("Tolerance", rules.get("tolerance").cloned().unwrap_or_default());
        Value::Map(written)
    };
    Value::Map([("ScaleUp", rules("scaleUp")), ("ScaleDown", rules("scaleDown"))].into_iter().collect())
}

/// Value of a field as Go finds it: case-insensitive if there is no exact match. `None` for null.
fn find<'a>(value: &'a Map, name: &str) -> Option<&'a Value> {
    let in_any_case = || value.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    value.get(name).or_else(in_any_case).filter(|value| !value.is_null())
}

/// Parses a list; `None` if an item is invalid.
fn read_list(list: &Value, read: fn(&Map) -> Option<Value>) -> Option<Vec<Value>> {
    match list {
        Value::Null => Some(Vec::new()),
        Value::List(items) => items
            .iter()
            .map(|item| match item {
                Value::Null => read(&Map::new()),
                item => read(item.as_map()?),
            })
            .collect(),
        _ => None,
    }
}

/// Parses a value of a type; `None` if it has another type.
fn read_value(value: &Value, field_type: FieldType) -> Option<Value> {
    match (field_type, value) {
        (FieldType::Text, Value::Str(_)) | (FieldType::Object, Value::Map(_)) => Some(value.clone()),
        (FieldType::Int, Value::Int(number)) => i32::try_from(*number).ok().map(Value::from),
        (FieldType::Quantity | FieldType::QuantityAlways, Value::Str(text)) => {
            Some(Value::from(&*stored_text(text).ok()?))
        }
        (FieldType::Quantity | FieldType::QuantityAlways, Value::Int(_) | Value::Float(_)) => {
            Some(Value::from(&*stored_text(&json::to_text(value)).ok()?))
        }
        _ => None,
    }
}

fn read_metric(metric: &Map, fields: fn(&MetricSource) -> &'static [Field]) -> Option<Value> {
    let mut read = Value::map();
    let kind =
        find(metric, "type").map_or(Some(Value::from("")), |kind| read_value(kind, FieldType::Text))?;
    read.make_map().insert("type", kind);
    for source in &SOURCES {
        let Some(described) = find(metric, source.field) else { continue };
        let described = described.as_map()?;
        let out = read.make_map().ensure(source.field, Value::map);
        for (name, field_type, path) in fields(source) {
            let value = match (find(described, name), field_type) {
                (Some(value), field_type) => read_value(value, *field_type)?,
                (None, FieldType::QuantityAlways) => Value::from("0"),
                (None, _) => continue,
            };
            let (last, parents) = path.split_last().expect("paths have a field");
            let parent =
                parents.iter().fold(&mut *out, |parent, field| parent.make_map().ensure(field, Value::map));
            parent.make_map().insert(*last, value);
        }
    }
    Some(read)
}

fn read_measured(metric: &Map) -> Option<Value> {
    read_metric(metric, |source| source.measured)
}

/// Parses a metric, and infers the target type from the fields that are set.
fn read_wanted(metric: &Map) -> Option<Value> {
    let mut read = read_metric(metric, |source| source.wanted)?;
    for source in &SOURCES {
        let Some(described) = read.get_mut(source.field) else { continue };
        let target = described.ensure_map("target");
        let has = |target: &Map, field: &str| target.contains(field);
        let kind = match source.field {
            "object" if !has(target, "averageValue") => "Value",
            "object" => {
                // The format always has a value, so zero means absent.
                if target.get_str("value").is_some_and(is_zero) {
                    target.remove("value");
                }
                "AverageValue"
            }
            "resource" | "containerResource" if has(target, "averageUtilization") => "Utilization",
            "external" if has(target, "value") => "Value",
            _ => "AverageValue",
        };
        target.insert("type", kind);
    }
    Some(read)
}

fn is_zero(amount: &str) -> bool {
    Quantity::parse(amount).is_ok_and(Quantity::is_zero)
}

fn read_condition(condition: &Map) -> Option<Value> {
    let mut read = Map::new();
    for field in ["type", "status", "lastTransitionTime", "reason", "message"] {
        if let Some(value) = find(condition, field) {
            read.insert(field, read_value(value, FieldType::Text)?);
        }
    }
    if let Some(time) = read.get_str("lastTransitionTime") {
        crate::rfc3339::parse(time).ok()?;
    }
    if let Some(generation) = find(condition, "observedGeneration") {
        read.insert("observedGeneration", generation.as_i64()?);
    }
    Some(Value::Map(read))
}

/// Parses a behavior; `None` if it is invalid or empty.
fn read_behavior(behavior: &Value) -> Option<Value> {
    let behavior = behavior.as_map()?;
    let mut read = Map::new();
    for (name, field) in [("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown")] {
        if let Some(rules) = find(behavior, name) {
            read.insert(field, read_rules(rules.as_map()?)?);
        }
    }
    (!read.is_empty()).then_some(Value::Map(read))
}

fn read_rules(rules: &Map) -> Option<Value> {
    let mut read = read_named(rules, &RULES)?;
    if let Some(policies) = find(rules, "Policies") {
        read.insert("policies", Value::List(read_list(policies, read_policy)?));
    }
    if let Some(tolerance) = find(rules, "Tolerance") {
        read.insert("tolerance", read_value(tolerance, FieldType::Quantity)?);
    }
    Some(Value::Map(read))
}

fn read_policy(policy: &Map) -> Option<Value> {
    read_named(policy, &POLICY).map(Value::Map)
}

fn read_named(value: &Map, names: &[(&str, &'static str, FieldType)]) -> Option<Map> {
    let mut read = Map::new();
    for (name, field, field_type) in names {
        if let Some(value) = find(value, name) {
            read.insert(*field, read_value(value, *field_type)?);
        }
    }
    Some(read)
}

#[cfg(test)]
mod tests;
