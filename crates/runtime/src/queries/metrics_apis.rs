//! Metrics of the autoscaler from the APIs `metrics.k8s.io`, `custom.metrics.k8s.io` and `external.metrics.k8s.io`.
//!
//! Questions and answers are those of [`usage`]; errors are those of upstream's metrics clients. An
//! [`ApiReader`] reads the APIs: over HTTP in a remote loop, through the aggregation layer in a server.

use std::future::Future;
use std::pin::Pin;

use setpoint_api::labels::{Expression, Selector};
use setpoint_api::quantity::Quantity;
use setpoint_api::{Value, resource_types, value};

use super::usage;
use crate::client::percent_encode;

/// Path of resource metrics.
const RESOURCE_METRICS: &str = "/apis/metrics.k8s.io/v1beta1";
/// Path of custom metrics, without a version.
const CUSTOM_METRICS: &str = "/apis/custom.metrics.k8s.io";
/// Path of external metrics.
const EXTERNAL_METRICS: &str = "/apis/external.metrics.k8s.io/v1beta1";

/// Response to a GET request: its code and its JSON body.
pub type ApiResponse<'a> = Pin<Box<dyn Future<Output = Result<(u16, Value), String>> + Send + 'a>>;

/// Reader of API servers.
pub trait ApiReader: Send + Sync {
    /// Sends a GET request.
    fn get<'a>(&'a self, path: &'a str) -> ApiResponse<'a>;
}

/// Answers a query about a metric.
///
/// # Errors
/// If the metric is not served or has no sample.
pub async fn answer(question: &Value, reader: &dyn ApiReader) -> Result<Value, String> {
    match question.str_at(&["type"]) {
        "Resource" | "ContainerResource" => resource_metric(question, reader).await,
        "External" => external_metric(question, reader).await,
        "Pods" => {
            let list = custom_metric(question, reader).await?;
            pods_answer(&list)
        }
        _ => {
            let list = custom_metric(question, reader).await?;
            let item = items(&list).first().ok_or("no metrics returned from custom metrics API")?;
            Ok(value!({"value": (milli(item))}))
        }
    }
}

async fn resource_metric(question: &Value, reader: &dyn ApiReader) -> Result<Value, String> {
    let (namespace, selector) = (question.str_at(&["namespace"]), question.str_at(&["selector"]));
    let path =
        format!("{RESOURCE_METRICS}/namespaces/{namespace}/pods?labelSelector={}", percent_encode(selector));
    let list = match reader.get(&path).await {
        Ok((404, _)) => Err(usage::NOT_SERVED_ERROR.to_owned()),
        response => body(response),
    };
    let list = list.map_err(|error| usage::fetch_error(&error))?;
    usage::to_answer(question, &usage::from_list(&list))
}

async fn external_metric(question: &Value, reader: &dyn ApiReader) -> Result<Value, String> {
    let (namespace, name) = (question.str_at(&["namespace"]), question.str_at(&["name"]));
    let selector = percent_encode(&metric_selector(question)?);
    let path = format!(
        "{EXTERNAL_METRICS}/namespaces/{namespace}/{}?labelSelector={selector}",
        percent_encode(name)
    );
    let list = match reader.get(&path).await {
        Ok((404, status)) if status.str_at(&["message"]).is_empty() => {
            return Err(usage::missing_source_error(question).unwrap_or_default());
        }
        response => body(response),
    };
    let list = list.map_err(|error| format!("unable to fetch metrics from external metrics API: {error}"))?;
    if items(&list).is_empty() {
        return Err("no metrics returned from external metrics API".to_owned());
    }
    let values: Vec<Value> = items(&list).iter().map(|item| milli(item).into()).collect();
    Ok(value!({"values": (values)}))
}

/// Reads the values of a custom metric. The preferred version of the API is used, as discovery lists it.
async fn custom_metric(question: &Value, reader: &dyn ApiReader) -> Result<Value, String> {
    let fetch_error = |error: String| format!("unable to fetch metrics from custom metrics API: {error}");
    let group = match reader.get(CUSTOM_METRICS).await {
        Ok((200, group)) => group,
        Ok(_) => return Err(usage::missing_source_error(question).unwrap_or_default()),
        Err(error) => return Err(fetch_error(error)),
    };
    let version = match group.str_at(&["preferredVersion", "version"]) {
        "" => "v1beta1",
        version => version,
    };
    let metrics = metric_selector(question)?;
    let path = format!("{CUSTOM_METRICS}/{version}/{}", custom_metric_path(question));
    let separator = if path.contains('?') { '&' } else { '?' };
    let path = match metrics.as_str() {
        "" => path,
        selector => format!("{path}{separator}metricLabelSelector={}", percent_encode(selector)),
    };
    body(reader.get(&path).await).map_err(fetch_error)
}

/// Path of a custom metric below its version.
fn custom_metric_path(question: &Value) -> String {
    let (namespace, name) = (question.str_at(&["namespace"]), percent_encode(question.str_at(&["name"])));
    let object = question.get("describedObject").cloned().unwrap_or_default();
    match (object.str_at(&["kind"]), object.str_at(&["name"])) {
        ("", _) => {
            let selector = percent_encode(question.str_at(&["selector"]));
            format!("namespaces/{namespace}/pods/*/{name}?labelSelector={selector}")
        }
        ("Namespace", described) => format!("namespaces/{}/metrics/{name}", percent_encode(described)),
        (kind, described) => {
            let (resource, is_namespaced) = resource_of(object.str_at(&["apiVersion"]), kind);
            let described = percent_encode(described);
            if is_namespaced {
                format!("namespaces/{namespace}/{resource}/{described}/{name}")
            } else {
                format!("{resource}/{described}/{name}")
            }
        }
    }
}

/// Resource of a kind, `plural.group`, and `true` if it is namespaced. The plural of an unknown kind is guessed as
/// upstream does without discovery.
fn resource_of(api_version: &str, kind: &str) -> (String, bool) {
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    let found = resource_types::all().iter().find(|one| &*one.info.group == group && &*one.info.kind == kind);
    let lower = kind.to_ascii_lowercase();
    let guessed = match lower.as_str() {
        text if text.ends_with('s') => format!("{text}es"),
        text if text.ends_with('y') => format!("{}ies", &text[..text.len() - 1]),
        text => format!("{text}s"),
    };
    let plural = found.map_or(guessed, |one| one.info.plural.to_string());
    let resource = if group.is_empty() { plural } else { format!("{plural}.{group}") };
    (resource, found.is_none_or(|one| one.info.namespaced))
}

/// Text of the label selector of a metric; empty if there is none.
fn metric_selector(question: &Value) -> Result<String, String> {
    let Some(selector) = question.get("metricSelector").filter(|selector| !selector.is_null()) else {
        return Ok(String::new());
    };
    let labels = selector.get("matchLabels").and_then(Value::as_map);
    let labels = labels.into_iter().flat_map(|labels| labels.iter());
    let labels = labels.map(|(key, label)| (key, label.as_str().unwrap_or_default()));
    let expressions = selector.get("matchExpressions").and_then(Value::as_list).unwrap_or_default();
    let expressions = expressions.iter().map(|one| {
        let values = one.get("values").and_then(Value::as_list).unwrap_or_default();
        Expression {
            key: one.str_at(&["key"]),
            operator: one.str_at(&["operator"]),
            values: values.iter().filter_map(Value::as_str).collect(),
        }
    });
    let selector = Selector::from_parts(labels, expressions).map_err(|error| error.to_string())?;
    Ok(selector.to_string())
}

fn pods_answer(list: &Value) -> Result<Value, String> {
    if items(list).is_empty() {
        return Err("no metrics returned from custom metrics API".to_owned());
    }
    let mut pods = Value::map();
    for item in items(list) {
        let window = item.get("windowSeconds").and_then(Value::as_i64).unwrap_or(60);
        let timestamp = item.str_at(&["timestamp"]);
        let sample = value!({"value": (milli(item)), "timestamp": (timestamp), "windowSeconds": (window)});
        pods.make_map().insert(item.str_at(&["describedObject", "name"]), sample);
    }
    Ok(value!({"pods": (pods)}))
}

fn items(list: &Value) -> &[Value] {
    list.get("items").and_then(Value::as_list).unwrap_or_default()
}

/// Value of a metric, in thousandths; 0 if it is malformed.
fn milli(item: &Value) -> i64 {
    let quantity = match item.get("value") {
        Some(number) if number.as_i64().is_some() => {
            return number.as_i64().unwrap_or(0).saturating_mul(1000);
        }
        Some(text) => Quantity::parse(text.as_str().unwrap_or_default()).ok(),
        None => None,
    };
    quantity.map_or(0, |quantity| quantity.milli_value())
}

/// Body of a successful response; else the message of its `Status`.
fn body(response: Result<(u16, Value), String>) -> Result<Value, String> {
    match response? {
        (200..=299, body) => Ok(body),
        (code, status) => Err(match status.str_at(&["message"]) {
            "" => format!("the server responded with the status code {code}"),
            message => message.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests;
