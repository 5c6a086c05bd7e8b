//! Tests of the requests to the metrics APIs, and of the answers that follow from the responses.

use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};

use setpoint_api::json;

use super::*;

/// Reader with fixed responses by path; other paths are 404.
struct Fixed(BTreeMap<&'static str, Value>);

impl ApiReader for Fixed {
    fn get<'a>(&'a self, path: &'a str) -> ApiResponse<'a> {
        let found = self.0.get(path).cloned().map_or((404, Value::map()), |body| (200, body));
        Box::pin(async move { Ok(found) })
    }
}

fn ask(reader: &Fixed, question: &Value) -> Result<String, String> {
    let mut answering = Box::pin(answer(question, reader));
    match answering.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer.map(|answer| json::to_text(&answer)),
        Poll::Pending => panic!("fixed responses are ready"),
    }
}

fn group() -> (&'static str, Value) {
    let group =
        value!({"preferredVersion": {"groupVersion": "custom.metrics.k8s.io/v1beta2", "version": "v1beta2"}});
    (CUSTOM_METRICS, group)
}

#[test]
fn pod_metrics_are_read_from_the_custom_metrics_api() {
    let items = value!({"items": [{
        "describedObject": {"kind": "Pod", "name": "web-1"}, "metric": {"name": "requests"},
        "timestamp": "2027-01-15T08:00:00Z", "windowSeconds": 30, "value": "1500m",
    }]});
    let path = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/a/pods/*/requests?labelSelector=app%3Dweb&metricLabelSelector=verb%3DGET";
    let reader = Fixed([group(), (path, items)].into());
    let question = value!({
        "type": "Pods", "namespace": "a", "selector": "app=web", "name": "requests",
        "metricSelector": {"matchLabels": {"verb": "GET"}},
    });
    let expected =
        r#"{"pods":{"web-1":{"value":1500,"timestamp":"2027-01-15T08:00:00Z","windowSeconds":30}}}"#;
    assert_eq!(ask(&reader, &question).as_deref(), Ok(expected));
}

#[test]
fn object_metrics_are_read_by_the_resource_of_the_object() {
    for (api_version, kind, path) in [
        ("networking.k8s.io/v1", "Ingress", "namespaces/a/ingresses.networking.k8s.io/main/hits"),
        ("v1", "Service", "namespaces/a/services/main/hits"),
        ("v1", "Namespace", "namespaces/main/metrics/hits"),
        ("v1", "Node", "nodes/main/hits"),
        ("example.com/v1", "Policy", "namespaces/a/policies.example.com/main/hits"),
    ] {
        let path: &'static str = format!("/apis/custom.metrics.k8s.io/v1beta2/{path}").leak();
        let reader = Fixed([group(), (path, value!({"items": [{"value": "2k"}]}))].into());
        let question = value!({
            "type": "Object", "namespace": "a", "selector": "x", "name": "hits",
            "describedObject": {"apiVersion": (api_version), "kind": (kind), "name": "main"},
        });
        assert_eq!(ask(&reader, &question).as_deref(), Ok(r#"{"value":2000000}"#), "{kind}");
    }
}

#[test]
fn external_metrics_are_read_by_name_and_selector() {
    let path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/a/depth?labelSelector=queue%3Dmain";
    let list = value!({"items": [{"value": "3"}, {"value": "500m"}]});
    let question = value!({
        "type": "External", "namespace": "a", "name": "depth", "metricSelector": {"matchLabels": {"queue": "main"}},
    });
    let reader = Fixed([(path, list)].into());
    assert_eq!(ask(&reader, &question).as_deref(), Ok(r#"{"values":[3000,500]}"#));
}

#[test]
fn unserved_metrics_have_upstreams_errors() {
    let none = Fixed(BTreeMap::new());
    let error = |kind: &str| {
        ask(&none, &value!({"type": (kind), "namespace": "a", "name": "m", "selector": "x"})).unwrap_err()
    };
    assert!(error("Pods").ends_with("no custom metrics API (custom.metrics.k8s.io) registered"));
    assert!(error("External").ends_with("(get m.external.metrics.k8s.io)"));
    assert!(error("Resource").ends_with("(get pods.metrics.k8s.io)"));
    let reader = Fixed([group()].into());
    let question = value!({"type": "Pods", "namespace": "a", "name": "m", "selector": "x"});
    let expected =
        "unable to fetch metrics from custom metrics API: the server responded with the status code 404";
    assert_eq!(ask(&reader, &question).unwrap_err(), expected);
}
