//! Usage of simulated pods and nodes, with `kubectl top` and autoscalers.

use std::process::Command;

use super::kubectl::kubectls;
use super::metrics_server::{MetricsServer, Page};
use super::processes::{ChildProcess, kubectl, run_controllers, wait_for};
use super::server::{Server, clients_dir};

/// Deployment whose pod uses twice the memory that it requests, and an autoscaler with a target of half.
const BUSY: &str = r#"{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"busy"},"spec":{"replicas":1,
 "selector":{"matchLabels":{"app":"busy"}},"template":{"metadata":{"labels":{"app":"busy"},
 "annotations":{"simulate.setpoint.dev/cpu":"200m","simulate.setpoint.dev/memory":"64Mi"}},
 "spec":{"containers":[{"name":"c","image":"busy","resources":{"requests":{"memory":"32Mi"}}}]}}}},
{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"busy"},"spec":{"maxReplicas":4,
 "scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"busy"},"metrics":[{"type":"Resource",
 "resource":{"name":"memory","target":{"type":"Utilization","averageUtilization":50}}}]}}]}"#;

/// Responses of a metrics adapter: 30 requests for one pod, and a queue of 40.
const PAGES: [Page; 4] = [
    (
        "/apis/custom.metrics.k8s.io/v1beta2",
        r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"custom.metrics.k8s.io/v1beta2","resources":[]}"#,
    ),
    (
        "/apis/external.metrics.k8s.io/v1beta1",
        r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"external.metrics.k8s.io/v1beta1","resources":[]}"#,
    ),
    (
        "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/*/requests",
        r#"{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/v1beta2","items":[{"describedObject":{"kind":"Pod",
        "namespace":"default","name":"web-0"},"metric":{"name":"requests"},"timestamp":"2027-01-15T08:00:00Z","value":"30"}]}"#,
    ),
    (
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/depth",
        r#"{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","items":[{"metricName":"depth",
        "metricLabels":{"queue":"jobs"},"timestamp":"2027-01-15T08:00:00Z","value":"40"}]}"#,
    ),
];

/// The adapter's Service and APIServices, `PORT` and `CA` to be replaced. The Service has an external name, since endpoints
/// may not have loopback addresses.
const ADAPTER: &str = r#"{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"v1","kind":"Service","metadata":{"name":"adapter"},
 "spec":{"type":"ExternalName","externalName":"localhost"}},
{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1beta2.custom.metrics.k8s.io"},
 "spec":{"group":"custom.metrics.k8s.io","version":"v1beta2","groupPriorityMinimum":100,"versionPriority":100,
  "caBundle":"CA","service":{"namespace":"default","name":"adapter","port":PORT}}},
{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1beta1.external.metrics.k8s.io"},
 "spec":{"group":"external.metrics.k8s.io","version":"v1beta1","groupPriorityMinimum":100,"versionPriority":100,
  "caBundle":"CA","service":{"namespace":"default","name":"adapter","port":PORT}}}]}"#;

/// A StatefulSet and a Deployment.
const WORKLOADS: &str = r#"{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"web"},"spec":{"replicas":1,"serviceName":"web",
 "selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},
 "spec":{"containers":[{"name":"c","image":"web"}]}}}},
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"worker"},"spec":{"replicas":1,
 "selector":{"matchLabels":{"app":"worker"}},"template":{"metadata":{"labels":{"app":"worker"}},
 "spec":{"containers":[{"name":"c","image":"worker"}]}}}}]}"#;

/// Scales the StatefulSet on requests per pod, and the Deployment on the queue.
const AUTOSCALERS: &str = r#"{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"web"},"spec":{"maxReplicas":9,
 "scaleTargetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"web"},"metrics":[{"type":"Pods",
 "pods":{"metric":{"name":"requests"},"target":{"type":"AverageValue","averageValue":"10"}}}]}},
{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"worker"},"spec":{"maxReplicas":9,
 "scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"worker"},"metrics":[{"type":"External",
 "external":{"metric":{"name":"depth","selector":{"matchLabels":{"queue":"jobs"}}},
  "target":{"type":"AverageValue","averageValue":"10"}}}]}}]}"#;

fn create(server: &Server, objects: &str) {
    wait_for(server, &["get", "serviceaccounts", "default", "-o", "name"], |output| {
        output.contains("default")
    });
    let mut create = Command::new(clients_dir().join("kubectl/kubectl"));
    let (made, output) = server.run(create.args(["create", "-f", "-"]), objects);
    assert!(made, "{output}");
}

#[test]
fn kubectl_top_shows_usage_and_autoscalers_act_on_it() {
    let server = Server::start_with(&["--nodes=2", "--pod-start=0"]);
    create(&server, BUSY);
    wait_for(&server, &["get", "deployment", "busy", "--no-headers"], |output| output.contains("4/4"));
    let current = "jsonpath={.status.currentMetrics[0].resource.current.averageUtilization}";
    wait_for(&server, &["get", "hpa", "busy", "-o", current], |output| output == "200");
    for kubectl in kubectls() {
        let top = |args: &[&str]| {
            let (ok, output) = server.run(Command::new(&kubectl).arg("top").args(args), "");
            assert!(ok, "{} top {args:?}: {output}", kubectl.display());
            output
        };
        let pods = top(&["pods"]);
        assert_eq!(pods.matches(" 200m ").count(), 4, "{pods}");
        assert_eq!(pods.matches("64Mi").count(), 4, "{pods}");
        assert_eq!(top(&["pods", "-A", "-l", "app=busy", "--no-headers"]).lines().count(), 4);
        assert!(top(&["pods", "--containers"]).contains(" c "), "{pods}");
        let nodes = top(&["nodes"]);
        let of = |node: &str| nodes.lines().find(|line| line.starts_with(node)).unwrap().to_owned();
        let cpu = |line: &str| line.split_whitespace().nth(1).unwrap().trim_end_matches('m').parse::<i64>();
        assert_eq!(cpu(&of("node-0")).unwrap() + cpu(&of("node-1")).unwrap(), 800, "{nodes}");
    }
    let table = kubectl(&server, &["get", "pods.metrics.k8s.io", "--no-headers"]);
    assert_eq!(table.matches("200m").count(), 4, "{table}");
    let registered = ["get", "apiservices", "v1beta1.metrics.k8s.io", "--no-headers"];
    wait_for(&server, &registered, |output| output.contains("Local") && output.contains("True"));
}

#[test]
fn autoscaler_in_another_process_queries_the_server() {
    let server = Server::start_with(&["--controllers=scheduler", "--nodes=1", "--pod-start=0"]);
    let _controllers: ChildProcess = run_controllers(&server, &[]);
    create(&server, BUSY);
    wait_for(&server, &["get", "deployment", "busy", "--no-headers"], |output| output.contains("4/4"));
}

#[test]
fn metrics_api_is_absent_without_simulated_nodes() {
    let server = Server::start_with(&["--nodes=0"]);
    let versions = kubectl(&server, &["api-versions"]);
    assert!(versions.contains("autoscaling/v2") && !versions.contains("metrics.k8s.io"), "{versions}");
    let output = kubectl(&server, &["top", "nodes"]);
    assert!(output.contains("Metrics API not available"), "{output}");
}

#[test]
fn autoscalers_act_on_custom_and_external_metrics_of_an_extension_server() {
    let server = Server::start_with(&["--nodes=2", "--pod-start=0"]);
    let mut adapter = MetricsServer::start("adapter.default.svc", &PAGES);
    create(
        &server,
        &ADAPTER
            .replace("PORT", &adapter.port.to_string())
            .replace("\"CA\"", &format!("{:?}", adapter.ca_bundle)),
    );
    for name in ["v1beta2.custom.metrics.k8s.io", "v1beta1.external.metrics.k8s.io"] {
        let available = r#"jsonpath={.status.conditions[?(@.type=="Available")].status}"#;
        wait_for(&server, &["get", "apiservice", name, "-o", available], |output| output == "True");
    }
    create(&server, WORKLOADS);
    for name in ["deployment/worker", "statefulset/web"] {
        wait_for(&server, &["get", name, "--no-headers"], |output| output.contains("1/1"));
    }
    create(&server, AUTOSCALERS);
    wait_for(&server, &["get", "deployment", "worker", "--no-headers"], |output| output.contains("4/4"));
    wait_for(&server, &["get", "statefulset", "web", "--no-headers"], |output| output.contains("3/3"));
    let current = "jsonpath={.status.currentMetrics[0].pods.current.averageValue}";
    wait_for(&server, &["get", "hpa", "web", "-o", current], |output| output == "30");
    let raw = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/depth";
    assert!(kubectl(&server, &["get", "--raw", raw]).contains(r#""value":"40""#));
    let heads = adapter.take_heads();
    let autoscaler = "x-remote-user: system:serviceaccount:kube-system:horizontal-pod-autoscaler\r\n";
    for query in ["/pods/*/requests?labelselector=app%3dweb", "/default/depth?labelselector=queue%3djobs"] {
        let is_query = |head: &&String| head.contains(query) && format!("{head}\r\n").contains(autoscaler);
        assert!(heads.iter().any(|head| is_query(&head)), "{query}: {heads:#?}");
    }
}
