//! Metric queries of the autoscaler, and the proposals that follow from their answers.
//!
//! A query is `{"type", "namespace", "selector", "name"}` with `container`, `metricSelector` or
//! `describedObject` where the type has them. The answer about pods is `{"pods": {NAME: {"value",
//! "timestamp", "windowSeconds"}}}`, about an object `{"value"}`, about an external metric `{"values"}`; all
//! values are in thousandths.

use std::time::Duration;

use setpoint_api::quantity::{Format, Quantity};
use setpoint_api::{Time, Value, rfc3339, value};
use setpoint_reconcile::Query;
use setpoint_reconcile::planner::QueryAnswer;
use setpoint_views::horizontal_pod_autoscaler::{MetricSource, MetricSpec};

use super::replica_calculator::{ReplicaCalculator, Sample, Samples, Usage, milli};

/// Proposal of one metric.
pub(super) struct MetricProposal {
    pub replicas: i64,
    /// Name of the metric.
    pub name: String,
    /// Entry of `status.currentMetrics`.
    pub status: Value,
}

/// Failure of one metric.
pub(super) struct MetricError {
    pub reason: &'static str,
    /// Underlying error.
    pub cause: String,
    /// Error with the failed operation.
    pub message: String,
}

/// Builds the query of a metric.
pub(super) fn build_query(id: String, metric: &MetricSpec, namespace: &str, selector: &str) -> Query {
    let empty = MetricSource::default();
    let source = metric.source().unwrap_or(&empty);
    let name = if source.name.is_empty() { &source.metric.name } else { &source.name };
    let mut question = value!({
        "type": (metric.kind.as_str()), "namespace": (namespace), "selector": (selector), "name": (name.as_str()),
    });
    let map = question.make_map();
    if !source.container.is_empty() {
        map.insert("container", source.container.as_str());
    }
    if let Some(selector) = &source.metric.selector {
        map.insert("metricSelector", selector.clone());
    }
    if let Some(object) = &source.described_object {
        map.insert("describedObject", object.clone());
    }
    Query { target: "metrics", id, question }
}

/// Evaluates the answer of a metric. `status_replicas` is the number of pods in the status of the target.
pub(super) fn compute_proposal(
    metric: &MetricSpec,
    answered: &QueryAnswer,
    calculator: &ReplicaCalculator<'_>,
    status_replicas: i64,
) -> Result<MetricProposal, MetricError> {
    let empty = MetricSource::default();
    let source = metric.source().unwrap_or(&empty);
    let (reason, metric_name) = match metric.kind.as_str() {
        "Resource" => ("FailedGetResourceMetric", format!("{} resource metric value", source.name)),
        "ContainerResource" => {
            ("FailedGetContainerResourceMetric", format!("{} container metric value", source.container))
        }
        "Pods" => ("FailedGetPodsMetric", "pods metric value".to_owned()),
        "Object" => ("FailedGetObjectMetric", "object metric value".to_owned()),
        "External" => ("FailedGetExternalMetric", format!("{} external metric value", source.metric.name)),
        other => {
            let cause = format!("unknown metric source type {other:?}");
            return Err(MetricError { reason: "InvalidMetricSourceType", message: cause.clone(), cause });
        }
    };
    let proposed = match metric.kind.as_str() {
        "Resource" | "ContainerResource" => resource_metric(metric, source, answered, calculator),
        "Pods" => pods_metric(source, answered, calculator),
        "Object" => object_metric(source, answered, calculator, status_replicas),
        _ => external_metric(source, answered, calculator, status_replicas),
    };
    proposed.map_err(|cause| {
        let message = format!("failed to get {metric_name}: {cause}");
        MetricError { reason, cause, message }
    })
}

fn resource_metric(
    metric: &MetricSpec,
    source: &MetricSource,
    answered: &QueryAnswer,
    calculator: &ReplicaCalculator<'_>,
) -> Result<MetricProposal, String> {
    let name = source.name.as_str();
    let samples = |quantity: &str| {
        let describe = |error: &String| {
            format!("failed to get {name} {quantity}: unable to get metrics for resource {name}: {error}")
        };
        samples(answered).map_err(|error| describe(&error))
    };
    let is_container = metric.kind == "ContainerResource";
    let (replicas, usage, metric_name) =
        if let Some(target) = parse_milli(source.target.average_value.as_ref()) {
            let (replicas, usage) = calculator
                .replicas_for_average(samples("usage")?, name == "cpu", target)
                .map_err(|error| format!("failed to get {name} usage: {error}"))?;
            (replicas, usage, format!("{name} resource"))
        } else if let Some(target) = source.target.average_utilization {
            let (replicas, usage) = calculator
                .replicas_for_utilization(samples("utilization")?, name, &source.container, target)
                .map_err(|error| format!("failed to get {name} utilization: {error}"))?;
            let metric_kind = if is_container { "container resource" } else { "resource" };
            (replicas, usage, format!("{name} {metric_kind} utilization (percentage of request)"))
        } else {
            return Err(
                "invalid resource metric source: neither an average utilization target nor an average value \
                    (usage) target was set"
                    .to_owned(),
            );
        };
    let mut current = value!({"name": (name), "current": (metric_value(name, &usage))});
    let part = if is_container { "containerResource" } else { "resource" };
    if is_container {
        current.make_map().insert("container", source.container.as_str());
    }
    let status =
        Value::Map([("type", Value::from(metric.kind.as_str())), (part, current)].into_iter().collect());
    Ok(MetricProposal { replicas, name: metric_name, status })
}

/// Current usage of a resource, as in `status.currentMetrics`.
fn metric_value(resource: &str, usage: &Usage) -> Value {
    let format = if resource == "memory" { Format::BinarySi } else { Format::DecimalSi };
    let mut current = value!({"averageValue": (Quantity::milli(usage.average, format).to_string())});
    if let Some(percent) = usage.percent {
        current.make_map().insert("averageUtilization", percent);
    }
    current
}

fn pods_metric(
    source: &MetricSource,
    answered: &QueryAnswer,
    calculator: &ReplicaCalculator<'_>,
) -> Result<MetricProposal, String> {
    let name = &source.metric.name;
    let samples = samples(answered).map_err(|error| format!("unable to get metric {name}: {error}"))?;
    let target = parse_milli(source.target.average_value.as_ref()).unwrap_or(0);
    let (replicas, usage) = calculator.replicas_for_average(samples, false, target)?;
    let metric_status = value!({"metric": (metric_identifier(source)), "current": {"averageValue": (decimal(usage.average))}});
    let status = value!({"type": "Pods", "pods": (metric_status)});
    Ok(MetricProposal { replicas, name: format!("pods metric {name}"), status })
}

fn object_metric(
    source: &MetricSource,
    answered: &QueryAnswer,
    calculator: &ReplicaCalculator<'_>,
    status_replicas: i64,
) -> Result<MetricProposal, String> {
    let name = &source.metric.name;
    let object = source.described_object.clone().unwrap_or_default();
    let kind = object.str_at(&["kind"]);
    let used = answered.answer.clone().map_err(|error| {
        format!("unable to get metric {name} on {kind} {}: {error}", object.str_at(&["name"]))
    })?;
    let used = used.get("value").and_then(Value::as_i64).unwrap_or(0);
    let value_target = parse_milli(source.target.value.as_ref()).filter(|_| source.target.kind == "Value");
    let average_target =
        parse_milli(source.target.average_value.as_ref()).filter(|_| source.target.kind == "AverageValue");
    let (replicas, current, metric_name) = match (value_target, average_target) {
        (Some(target), _) => {
            let replicas = calculator.replicas_for_ratio(used as f64 / target as f64)?;
            (replicas, value!({"value": (decimal(used))}), format!("{kind} metric {name}"))
        }
        (None, Some(target)) => {
            let (replicas, average) = replicas_per_average(used, target, status_replicas, calculator);
            (replicas, value!({"averageValue": (decimal(average))}), external_name(source))
        }
        (None, None) => {
            return Err(
                "invalid object metric source: neither a value target nor an average value target was set"
                    .to_owned(),
            );
        }
    };
    let metric_status =
        value!({"describedObject": (object), "metric": (metric_identifier(source)), "current": (current)});
    Ok(MetricProposal {
        replicas,
        name: metric_name,
        status: value!({"type": "Object", "object": (metric_status)}),
    })
}

fn external_metric(
    source: &MetricSource,
    answered: &QueryAnswer,
    calculator: &ReplicaCalculator<'_>,
    status_replicas: i64,
) -> Result<MetricProposal, String> {
    let name = &source.metric.name;
    let answer =
        answered.answer.clone().map_err(|error| format!("unable to get external metric {name}: {error}"))?;
    let values = answer.get("values").and_then(Value::as_list).unwrap_or_default();
    let used = values.iter().filter_map(Value::as_i64).fold(0i64, i64::saturating_add);
    let (replicas, current) = if let Some(target) = parse_milli(source.target.average_value.as_ref()) {
        let (replicas, average) = replicas_per_average(used, target, status_replicas, calculator);
        (replicas, value!({"averageValue": (decimal(average))}))
    } else if let Some(target) = parse_milli(source.target.value.as_ref()) {
        (calculator.replicas_for_ratio(used as f64 / target as f64)?, value!({"value": (decimal(used))}))
    } else {
        return Err(
            "invalid external metric source: neither a value target nor an average value target was set"
                .to_owned(),
        );
    };
    let metric_status = value!({"metric": (metric_identifier(source)), "current": (current)});
    Ok(MetricProposal {
        replicas,
        name: external_name(source),
        status: value!({"type": "External", "external": (metric_status)}),
    })
}

/// Number of pods at which each has the target average, and the current average.
fn replicas_per_average(used: i64, target: i64, pods: i64, calculator: &ReplicaCalculator<'_>) -> (i64, i64) {
    let ratio = used as f64 / (target as f64 * pods as f64);
    let desired = (used as f64 / target as f64).ceil() as i64;
    let replicas =
        if calculator.tolerances.is_within(ratio) { pods } else { desired.min(i64::from(i32::MAX)) };
    (replicas, (used as f64 / pods as f64).ceil() as i64)
}

fn external_name(source: &MetricSource) -> String {
    let selector = if source.metric.selector.is_some() { "&LabelSelector" } else { "nil" };
    format!("external metric {}({selector})", source.metric.name)
}

fn metric_identifier(source: &MetricSource) -> Value {
    let mut identifier = value!({"name": (source.metric.name.as_str())});
    if let Some(selector) = &source.metric.selector {
        identifier.make_map().insert("selector", selector.clone());
    }
    identifier
}

fn decimal(milli: i64) -> String {
    Quantity::milli(milli, Format::DecimalSi).to_string()
}

fn parse_milli(text: Option<&String>) -> Option<i64> {
    text.and_then(|text| milli(text))
}

/// Parses the samples of an answer.
fn samples(answered: &QueryAnswer) -> Result<Samples, String> {
    let answer = answered.answer.as_ref().map_err(Clone::clone)?;
    let pods = answer.get("pods").and_then(Value::as_map).into_iter().flat_map(|pods| pods.iter());
    let samples = pods.filter_map(|(name, sample)| {
        let at: Option<Time> = rfc3339::parse(sample.str_at(&["timestamp"])).ok();
        let window = sample.get("windowSeconds").and_then(Value::as_i64).unwrap_or(0);
        let sample = Sample {
            value: sample.get("value").and_then(Value::as_i64)?,
            at: at.unwrap_or(answered.at),
            window: Duration::from_secs(u64::try_from(window).unwrap_or(0)),
        };
        Some((name.to_owned(), sample))
    });
    Ok(samples.collect())
}
