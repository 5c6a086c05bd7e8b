//! Resource usage of pods and nodes, and its encoding in query answers.
//!
//! A [`UsageSource`] feeds both `metrics.k8s.io` and the autoscaler. A question is `{"type", "namespace", "selector",
//! "name"}`, with `container` for container metrics; the answer about pods is `{"pods": {NAME: {"value", "timestamp",
//! "windowSeconds"}}}` with values in thousandths. Metrics other than resource metrics have no source here; the
//! answer is the error that upstream returns without one.

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::labels::Selector;
use setpoint_api::quantity::Quantity;
use setpoint_api::rfc3339::{self, Seconds};
use setpoint_api::{Time, Value, value};

/// Error of an API server without `metrics.k8s.io`.
pub const NOT_SERVED_ERROR: &str =
    "the server could not find the requested resource (get pods.metrics.k8s.io)";

/// Selection of pods or nodes.
#[derive(Clone, Copy, Debug)]
pub struct UsageSelector<'a> {
    /// Namespace; empty for all, and for nodes.
    pub namespace: &'a str,
    /// Name; empty for all.
    pub name: &'a str,
    /// Label selector.
    pub labels: &'a Selector,
}

/// Source of resource usage. The loop's thread calls it too, so it must not block.
pub trait UsageSource: Send + Sync {
    /// `true` if anything is measured. Otherwise the API group is absent, as in a cluster without a metrics server,
    /// so clients get an error instead of waiting for samples.
    fn is_served(&self) -> bool;

    /// Usage of pods, without those that have no sample.
    ///
    /// # Errors
    /// If there is no source: the error that a server returns.
    fn pods(&self, selector: UsageSelector<'_>) -> Result<Vec<UsageSample>, String>;

    /// Usage of nodes, each under an empty container name, without those that have no sample.
    ///
    /// # Errors
    /// If there is no source: the error that a server returns.
    fn nodes(&self, selector: UsageSelector<'_>) -> Result<Vec<UsageSample>, String>;
}

/// Usage by container and resource, in thousandths.
pub type ContainerUsage = BTreeMap<String, BTreeMap<String, i64>>;

/// Usage of a pod or a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageSample {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod or node.
    pub name: String,
    /// Labels of the pod or node.
    pub labels: BTreeMap<String, String>,
    /// Usage of each container.
    pub containers: ContainerUsage,
    /// End of the measurement window.
    pub timestamp: Time,
    /// Length of the measurement window.
    pub window: Duration,
}

/// A source for clusters without measurements.
pub struct NoUsageSource;

impl UsageSource for NoUsageSource {
    fn is_served(&self) -> bool {
        false
    }

    fn pods(&self, _: UsageSelector<'_>) -> Result<Vec<UsageSample>, String> {
        Err(NOT_SERVED_ERROR.to_owned())
    }

    fn nodes(&self, _: UsageSelector<'_>) -> Result<Vec<UsageSample>, String> {
        Err(NOT_SERVED_ERROR.to_owned())
    }
}

/// Answers a query about a metric.
///
/// # Errors
/// If the metric has no source or no sample.
pub fn answer(question: &Value, source: &dyn UsageSource) -> Result<Value, String> {
    if let Some(error) = missing_source_error(question) {
        return Err(error);
    }
    let labels = Selector::parse(question.str_at(&["selector"])).map_err(|error| error.to_string())?;
    let selector = UsageSelector { namespace: question.str_at(&["namespace"]), name: "", labels: &labels };
    let samples = source.pods(selector).map_err(|error| fetch_error(&error))?;
    to_answer(question, &samples)
}

/// Error for a metric without a source; `None` for resource metrics.
#[must_use]
pub fn missing_source_error(question: &Value) -> Option<String> {
    Some(match question.str_at(&["type"]) {
        "Resource" | "ContainerResource" => return None,
        "External" => {
            let name = question.str_at(&["name"]);
            format!(
                "unable to fetch metrics from external metrics API: the server could not find the requested \
                 resource (get {name}.external.metrics.k8s.io)"
            )
        }
        _ => {
            "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) \
              registered"
                .to_owned()
        }
    })
}

/// Error for resource metrics that could not be fetched.
#[must_use]
pub fn fetch_error(error: &str) -> String {
    format!("unable to fetch metrics from resource metrics API: {error}")
}

/// Encodes samples as the answer to a query.
///
/// # Errors
/// If there is no sample.
pub fn to_answer(question: &Value, samples: &[UsageSample]) -> Result<Value, String> {
    if samples.is_empty() {
        return Err("no metrics returned from resource metrics API".to_owned());
    }
    let (resource, container) = (question.str_at(&["name"]), question.str_at(&["container"]));
    let mut pods = Value::map();
    for sample in samples {
        // A pod with a container that has no sample is left out.
        let amounts: Option<Vec<i64>> = if container.is_empty() {
            sample.containers.values().map(|usage| usage.get(resource).copied()).collect()
        } else {
            sample.containers.get(container).and_then(|usage| usage.get(resource)).map(|value| vec![*value])
        };
        let Some(amounts) = amounts.filter(|amounts| !amounts.is_empty()) else { continue };
        let sum = amounts.into_iter().fold(0i64, i64::saturating_add);
        let window = i64::try_from(sample.window.as_secs()).unwrap_or(i64::MAX);
        let encoded = value!({
            "value": (sum), "timestamp": (Seconds(sample.timestamp).to_string()), "windowSeconds": (window),
        });
        pods.make_map().insert(sample.name.as_str(), encoded);
    }
    Ok(value!({"pods": (pods)}))
}

/// Decodes a PodMetricsList.
#[must_use]
pub fn from_list(list: &Value) -> Vec<UsageSample> {
    let items = list.get("items").and_then(Value::as_list).unwrap_or_default();
    items.iter().map(from_pod).collect()
}

fn from_pod(item: &Value) -> UsageSample {
    let containers = item.get("containers").and_then(Value::as_list).unwrap_or_default();
    let usage = |container: &Value| {
        let usage = container.get("usage").and_then(Value::as_map).into_iter().flat_map(|usage| usage.iter());
        let usage = usage.filter_map(|(resource, text)| {
            let quantity = Quantity::parse(text.as_str()?).ok()?;
            Some((resource.to_owned(), quantity.milli_value()))
        });
        (container.str_at(&["name"]).to_owned(), usage.collect())
    };
    UsageSample {
        namespace: item.str_at(&["metadata", "namespace"]).to_owned(),
        name: item.str_at(&["metadata", "name"]).to_owned(),
        labels: BTreeMap::new(),
        containers: containers.iter().map(usage).collect(),
        timestamp: rfc3339::parse(item.str_at(&["timestamp"])).unwrap_or(Time::EPOCH),
        window: parse_go_duration(item.str_at(&["window"])),
    }
}

/// Parses a Go duration such as `1m30.5s`; zero if it is malformed.
fn parse_go_duration(text: &str) -> Duration {
    let mut sum = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits =
            rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let (number, unit) = rest.split_at(digits);
        let letters = unit.find(|letter: char| letter.is_ascii_digit()).unwrap_or(unit.len());
        let seconds = match &unit[..letters] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return Duration::ZERO,
        };
        let Ok(number) = number.parse::<f64>() else { return Duration::ZERO };
        sum += number * seconds;
        rest = &unit[letters..];
    }
    Duration::try_from_secs_f64(sum).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use setpoint_api::json;

    use super::*;

    /// Source with one pod of two containers.
    struct OnePod;

    impl UsageSource for OnePod {
        fn is_served(&self) -> bool {
            true
        }

        fn pods(&self, selector: UsageSelector<'_>) -> Result<Vec<UsageSample>, String> {
            assert_eq!((selector.namespace, selector.labels.to_string().as_str()), ("default", "app=web"));
            Ok(from_list(&list()))
        }

        fn nodes(&self, selector: UsageSelector<'_>) -> Result<Vec<UsageSample>, String> {
            NoUsageSource.nodes(selector)
        }
    }

    fn list() -> Value {
        value!({"items": [{
            "metadata": {"name": "web-1"},
            "timestamp": "2027-01-15T08:00:00Z",
            "window": "1m30.5s",
            "containers": [
                {"name": "a", "usage": {"cpu": "250m", "memory": "1Ki"}},
                {"name": "b", "usage": {"cpu": "1"}},
            ],
        }]})
    }

    fn query(kind: &str, name: &str, container: &str) -> Value {
        value!({
            "type": (kind), "namespace": "default", "selector": "app=web", "name": (name), "container": (container),
        })
    }

    #[test]
    fn pod_usage_is_the_sum_of_its_containers() {
        let answer = answer(&query("Resource", "cpu", ""), &OnePod).unwrap();
        let expected =
            r#"{"pods":{"web-1":{"value":1250,"timestamp":"2027-01-15T08:00:00Z","windowSeconds":90}}}"#;
        assert_eq!(json::to_text(&answer), expected);
    }

    #[test]
    fn pod_with_an_unmeasured_container_is_left_out() {
        let of = |name: &str, container: &str| {
            json::to_text(&answer(&query("ContainerResource", name, container), &OnePod).unwrap())
        };
        assert_eq!(
            json::to_text(&answer(&query("Resource", "memory", ""), &OnePod).unwrap()),
            r#"{"pods":{}}"#
        );
        assert!(of("memory", "a").contains(r#""value":1024000"#));
        assert_eq!(of("memory", "b"), r#"{"pods":{}}"#);
        assert_eq!(of("cpu", "c"), r#"{"pods":{}}"#);
    }

    #[test]
    fn missing_metrics_have_upstreams_errors() {
        let error_of = |kind| answer(&query(kind, "cpu", ""), &NoUsageSource).unwrap_err();
        assert_eq!(
            error_of("Resource"),
            "unable to fetch metrics from resource metrics API: the server could not find the requested resource \
             (get pods.metrics.k8s.io)"
        );
        assert!(error_of("Pods").ends_with("no custom metrics API (custom.metrics.k8s.io) registered"));
        assert!(error_of("Object").ends_with("no custom metrics API (custom.metrics.k8s.io) registered"));
        assert!(error_of("External").ends_with("(get cpu.external.metrics.k8s.io)"));
        let no_samples = to_answer(&query("Resource", "cpu", ""), &[]).unwrap_err();
        assert_eq!(no_samples, "no metrics returned from resource metrics API");
    }

    #[test]
    fn go_durations_are_parsed() {
        for (text, millis) in [("15s", 15_000), ("1m0s", 60_000), ("1h2m3.5s", 3_723_500), ("10ms", 10)] {
            assert_eq!(parse_go_duration(text).as_millis(), millis, "{text}");
        }
        for text in ["", "x", "1", "5y", "..s"] {
            assert_eq!(parse_go_duration(text), Duration::ZERO, "{text}");
        }
    }
}
