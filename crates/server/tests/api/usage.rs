//! `metrics.k8s.io`: served only with a usage source, with upstream's messages.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::{Time, Value, json};
use setpoint_runtime::queries::usage::{UsageSample, UsageSelector, UsageSource};
use setpoint_server::exchange::Identity;

use crate::harness::TestServer;

const GROUP: &str = "/apis/metrics.k8s.io/v1beta1";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Source with two pods and a node.
struct TwoPods;

fn sample(namespace: &str, name: &str, containers: &[(&str, i64, i64)]) -> UsageSample {
    let usage = |cpu: i64, memory: i64| {
        BTreeMap::from([("cpu".to_owned(), cpu), ("memory".to_owned(), memory * 1000)])
    };
    UsageSample {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        labels: BTreeMap::from([("app".to_owned(), name.to_owned())]),
        containers: containers
            .iter()
            .map(|(container, cpu, memory)| ((*container).to_owned(), usage(*cpu, *memory)))
            .collect(),
        timestamp: Time::from_seconds(1_700_000_000),
        window: Duration::from_secs(90),
    }
}

fn select(all: Vec<UsageSample>, selector: UsageSelector<'_>) -> Vec<UsageSample> {
    let matches = |sample: &UsageSample| {
        (selector.namespace.is_empty() || selector.namespace == sample.namespace)
            && (selector.name.is_empty() || selector.name == sample.name)
            && selector.labels.matches(|label| sample.labels.get(label).map(String::as_str))
    };
    all.into_iter().filter(matches).collect()
}

impl UsageSource for TwoPods {
    fn is_served(&self) -> bool {
        true
    }

    fn pods(&self, selector: UsageSelector<'_>) -> Result<Vec<UsageSample>, String> {
        let web = sample("default", "web", &[("a", 250, 1 << 20), ("b", 1000, 1 << 10)]);
        Ok(select(vec![web, sample("other", "idle", &[("c", 0, 0)])], selector))
    }

    fn nodes(&self, selector: UsageSelector<'_>) -> Result<Vec<UsageSample>, String> {
        Ok(select(vec![sample("", "n", &[("", 1250, 3 << 30)])], selector))
    }
}

fn server() -> TestServer {
    let server = TestServer::new();
    server.api.set_usage_source(Arc::new(TwoPods));
    server
}

fn get(server: &TestServer, path: &str) -> (u16, Value) {
    server.get(path).into_call()
}

fn message(server: &TestServer, method: &str, path: &str) -> (u16, String) {
    let reply = server.send(method, path, "", &[]);
    (reply.code, reply.value().str_at(&["message"]).to_owned())
}

#[test]
fn metrics_group_is_discovered_only_with_a_usage_source() {
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for (server, is_there) in [(TestServer::new(), false), (server(), true)] {
        for path in ["/", "/apis"] {
            assert_eq!(server.get(path).text().contains("metrics.k8s.io"), is_there, "{path}");
        }
        assert_eq!(server.get_as("/apis", aggregated).text().contains("PodMetrics"), is_there);
        for path in ["/apis/metrics.k8s.io", GROUP, &format!("{GROUP}/nodes")] {
            assert_eq!(get(&server, path).0, if is_there { 200 } else { 404 }, "{path}");
        }
    }
    let (_, list) = get(&server(), GROUP);
    let expected = r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"metrics.k8s.io/v1beta1","resources":[{"name":"nodes","singularName":"","namespaced":false,"kind":"NodeMetrics","verbs":["get","list"]},{"name":"pods","singularName":"","namespaced":true,"kind":"PodMetrics","verbs":["get","list"]}]}"#;
    assert_eq!(json::to_text(&list), expected);
}

#[test]
fn pod_and_node_metrics_are_served_singly_and_as_lists() {
    let server = server();
    let (code, pod) = get(&server, &format!("{GROUP}/namespaces/default/pods/web"));
    let expected = r#"{"kind":"PodMetrics","apiVersion":"metrics.k8s.io/v1beta1","metadata":{"name":"web","namespace":"default","creationTimestamp":"2023-11-14T22:13:20Z","labels":{"app":"web"}},"timestamp":"2023-11-14T22:13:20Z","window":"1m30s","containers":[{"name":"a","usage":{"cpu":"250m","memory":"1Mi"}},{"name":"b","usage":{"cpu":"1","memory":"1Ki"}}]}"#;
    assert_eq!((code, json::to_text(&pod).as_str()), (200, expected));
    let (_, nodes) = get(&server, &format!("{GROUP}/nodes"));
    let expected = r#"{"kind":"NodeMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[{"metadata":{"name":"n","creationTimestamp":"2023-11-14T22:13:20Z","labels":{"app":"n"}},"timestamp":"2023-11-14T22:13:20Z","window":"1m30s","usage":{"cpu":"1250m","memory":"3Gi"}}]}"#;
    assert_eq!(json::to_text(&nodes), expected);
    let names = |path: &str| -> Vec<String> {
        let (code, list) = get(&server, &format!("{GROUP}/{path}"));
        assert_eq!(code, 200, "{path}");
        let items = list.get("items").and_then(Value::as_list).unwrap();
        items.iter().map(|item| item.str_at(&["metadata", "name"]).to_owned()).collect()
    };
    assert_eq!(names("pods"), ["web", "idle"]);
    assert_eq!(names("namespaces/other/pods"), ["idle"]);
    assert_eq!(names("pods?labelSelector=app%3Dweb"), ["web"]);
    assert_eq!(names("pods?fieldSelector=metadata.namespace%3Dother"), ["idle"]);
    assert!(names("namespaces/none/pods").is_empty());
}

#[test]
fn tables_have_a_column_for_each_resource() {
    let server = server();
    let table = |path: &str| server.get_as(&format!("{GROUP}/{path}"), TABLE).value();
    let pods = table("pods");
    let columns = pods.get("columnDefinitions").and_then(Value::as_list).unwrap();
    let names: Vec<&str> = columns.iter().map(|column| column.str_at(&["name"])).collect();
    assert_eq!(names, ["Name", "cpu", "memory", "Window"]);
    let rows = pods.get("rows").and_then(Value::as_list).unwrap();
    assert_eq!(json::to_text(rows[0].get("cells").unwrap()), r#"["web","1250m","1025Ki","1m30s"]"#);
    assert_eq!(rows[0].str_at(&["object", "kind"]), "PartialObjectMetadata");
    let none = json::to_text(&table("namespaces/none/pods"));
    assert!(none.ends_with(r#""columnDefinitions":null,"rows":null}"#), "{none}");
}

#[test]
fn unmeasured_objects_have_upstreams_messages() {
    let server = server();
    let response = |method: &str, path: &str| message(&server, method, &format!("{GROUP}/{path}"));
    assert_eq!(response("GET", "nodes/x"), (404, "node \"x\" not found".to_owned()));
    assert_eq!(response("GET", "namespaces/default/pods/x"), (404, "pods \"x\" not found".to_owned()));
    server.create("/api/v1/nodes", r#"{"metadata":{"name":"x"}}"#);
    assert_eq!(response("GET", "nodes/x"), (404, "nodes.metrics.k8s.io \"x\" not found".to_owned()));
    assert_eq!(response("POST", "nodes").0, 405);
    let (code, watch) = response("GET", "pods?watch=true");
    assert_eq!((code, watch.contains("watch is not supported")), (405, true), "{watch}");
    assert_eq!(response("GET", "pods?labelSelector=%3D%3D").0, 400);
    let unprivileged = Identity::new("ann", vec!["system:authenticated".to_owned()]);
    let (code, refused) = server.call_as(unprivileged, "GET", &format!("{GROUP}/namespaces/a/pods"), "");
    let why = "pods.metrics.k8s.io is forbidden: User \"ann\" cannot list resource \"pods\" in API group \
               \"metrics.k8s.io\" in the namespace \"a\"";
    assert_eq!((code, refused.str_at(&["message"])), (403, why));
}
