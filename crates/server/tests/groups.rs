//! Second API versions, subresources, terminating namespaces and reviews, without sockets.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method};
use setpoint_api::{ManualClock, Time, Value, json};
use setpoint_server::api::{Api, Options, service};
use setpoint_server::exchange::{Body, Identity, Request, Service};
use setpoint_store::{Retention, Store};

struct Server {
    api: Api,
    runtime: tokio::runtime::Runtime,
    groups: Vec<String>,
}

impl Server {
    fn new() -> Server {
        let count = AtomicU64::new(1);
        let options = Options {
            clock: Arc::new(ManualClock::new(Time::from_seconds(1_800_000_000))),
            entropy: Arc::new(move || count.fetch_add(1, Ordering::Relaxed)),
            address: "127.0.0.1:6443".into(),
            advertised: None,
            service_ranges: Vec::new(),
            tolerations: Default::default(),
        };
        let api = service(Store::in_memory(Retention::default()), options).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Server { api, runtime, groups: vec!["system:masters".into()] }
    }

    fn send(&self, method: Method, path: &str, kind: &str, accept: &str, body: &str) -> (u16, String) {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_str(kind).unwrap());
        headers.insert("accept", HeaderValue::from_str(accept).unwrap());
        headers.insert("user-agent", HeaderValue::from_static("tester/1"));
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let request = Request {
            method,
            path: path.into(),
            query: query.into(),
            headers,
            body: body.to_owned().into(),
            identity: Identity { user: "someone".into(), groups: self.groups.clone() },
        };
        self.runtime.block_on(async {
            let answer = self.api.answer(request).await;
            let mut text = Vec::new();
            match answer.body {
                Body::Whole(parts) => parts.iter().for_each(|part| text.extend_from_slice(part)),
                Body::Chunked(mut chunks) => {
                    std::iter::from_fn(|| chunks.next_chunk())
                        .for_each(|chunk| text.extend_from_slice(&chunk));
                }
                Body::Stream(mut frames) => {
                    let next = std::future::poll_fn(|context| frames.poll_frame(context));
                    let frame = tokio::time::timeout(Duration::from_secs(5), next).await.unwrap();
                    text.extend_from_slice(&frame.unwrap());
                }
            }
            (answer.status.as_u16(), String::from_utf8(text).unwrap())
        })
    }

    fn call(&self, method: Method, path: &str, body: &str) -> (u16, Value) {
        let (code, text) = self.send(method, path, "application/json", "application/json", body);
        (code, json::parse(text.trim_end().as_bytes()).unwrap())
    }

    fn get(&self, path: &str) -> Value {
        let (code, value) = self.call(Method::GET, path, "");
        assert_eq!(code, 200, "{path}: {}", json::to_text(&value));
        value
    }

    fn post(&self, path: &str, body: &str) -> Value {
        let (code, value) = self.call(Method::POST, path, body);
        assert_eq!(code, 201, "{path}: {}", json::to_text(&value));
        value
    }

    fn patch(&self, path: &str, body: &str) -> (u16, Value) {
        let (code, text) =
            self.send(Method::PATCH, path, "application/merge-patch+json", "application/json", body);
        (code, json::parse(text.trim_end().as_bytes()).unwrap())
    }
}

fn number(value: &Value, path: &[&str]) -> Option<i64> {
    value.at(path).and_then(Value::as_i64)
}

/// API versions of the managed fields entries.
fn owners(object: &Value) -> Vec<String> {
    let entries = object.at(&["metadata", "managedFields"]).and_then(Value::as_list).unwrap_or_default();
    let shown = |entry: &Value| {
        let word = |field| entry.str_at(&[field]).to_owned();
        format!("{} {} {}", word("manager"), word("apiVersion"), word("subresource")).trim_end().to_owned()
    };
    entries.iter().map(shown).collect()
}

const HPAS_1: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
const HPAS_2: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
const HPA: &str = r#"{"metadata":{"name":"h"},"spec":{"maxReplicas":5,"targetCPUUtilizationPercentage":70,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}"#;

#[test]
fn autoscaler_is_one_object_in_two_versions() {
    let server = Server::new();
    let made = server.post(HPAS_1, HPA);
    assert_eq!(made.str_at(&["apiVersion"]), "autoscaling/v1");
    assert_eq!(number(&made, &["spec", "targetCPUUtilizationPercentage"]), Some(70));
    assert_eq!(owners(&made), ["tester autoscaling/v1"]);
    let other = server.get(&format!("{HPAS_2}/h"));
    assert_eq!(other.str_at(&["apiVersion"]), "autoscaling/v2");
    let metrics = other.at(&["spec", "metrics"]).and_then(Value::as_list).unwrap();
    assert_eq!(number(&metrics[0], &["resource", "target", "averageUtilization"]), Some(70));
    assert!(other.at(&["spec", "targetCPUUtilizationPercentage"]).is_none());

    let (code, patched) =
        server.patch(&format!("{HPAS_1}/h"), r#"{"spec":{"targetCPUUtilizationPercentage":40}}"#);
    assert_eq!((code, number(&patched, &["spec", "targetCPUUtilizationPercentage"])), (200, Some(40)));
    let (code, patched) = server.patch(&format!("{HPAS_2}/h"), r#"{"spec":{"maxReplicas":9}}"#);
    assert_eq!((code, patched.str_at(&["apiVersion"])), (200, "autoscaling/v2"));
    assert_eq!(owners(&patched), ["tester autoscaling/v1", "tester autoscaling/v2"]);
    // Fields that the second write took over are removed from the first entry, although the entries have different
    // versions.
    let entries = patched.at(&["metadata", "managedFields"]).and_then(Value::as_list).unwrap();
    assert!(entries[0].at(&["fieldsV1", "f:spec", "f:maxReplicas"]).is_none());
    assert!(entries[1].at(&["fieldsV1", "f:spec", "f:maxReplicas"]).is_some());
}

#[test]
fn autoscaler_is_served_in_the_requested_version() {
    let server = Server::new();
    server.post(HPAS_1, HPA);
    let list = server.get(HPAS_1);
    let items = list.get("items").and_then(Value::as_list).unwrap();
    assert_eq!(list.str_at(&["apiVersion"]), "autoscaling/v1");
    assert_eq!(number(&items[0], &["spec", "targetCPUUtilizationPercentage"]), Some(70));
    assert!(items[0].get("kind").is_none());
    let json = "application/json";
    let (code, line) = server.send(Method::GET, &format!("{HPAS_1}?watch=true"), json, json, "");
    assert_eq!(code, 200);
    let start =
        r#"{"type":"ADDED","object":{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1","#;
    assert!(line.starts_with(start), "{line}");
    assert!(line.contains(r#""targetCPUUtilizationPercentage":70"#), "{line}");
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let (_, text) = server.send(Method::GET, &format!("{HPAS_1}?includeObject=Object"), json, table, "");
    assert!(text.contains("/70%\""), "{text}");
    assert!(text.contains(r#""apiVersion":"autoscaling/v1""#), "{text}");
}

#[test]
fn applied_configuration_is_merged_in_its_own_version() {
    let server = Server::new();
    let config = HPA.replacen('{', r#"{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","#, 1);
    let apply = |manager: &str, config: &str| {
        let path = format!("{HPAS_1}/h?fieldManager={manager}");
        let (code, text) =
            server.send(Method::PATCH, &path, "application/apply-patch+yaml", "application/json", config);
        (code, json::parse(text.trim_end().as_bytes()).unwrap())
    };
    let (code, made) = apply("one", &config);
    assert_eq!(code, 201, "{}", json::to_text(&made));
    assert_eq!(owners(&made), ["one autoscaling/v1"]);
    let (code, refused) = apply("two", &config.replace("70", "30"));
    assert_eq!((code, refused.str_at(&["reason"])), (409, "Conflict"));
    assert!(refused.str_at(&["message"]).contains(".spec.targetCPUUtilizationPercentage"));
}

#[test]
fn an_event_is_one_object_in_two_groups() {
    let server = Server::new();
    let event = r#"{"metadata":{"name":"e","namespace":"default"},"eventTime":"2026-01-01T00:00:00.000000Z","reportingController":"a.example/b","reportingInstance":"i","action":"Do","reason":"Why","type":"Normal","note":"so","regarding":{"kind":"Pod","namespace":"default","name":"p"}}"#;
    let made = server.post("/apis/events.k8s.io/v1/namespaces/default/events", event);
    assert_eq!((made.str_at(&["note"]), made.str_at(&["apiVersion"])), ("so", "events.k8s.io/v1"));
    let core = server.get("/api/v1/namespaces/default/events/e");
    assert_eq!((core.str_at(&["message"]), core.str_at(&["apiVersion"])), ("so", "v1"));
    assert_eq!(core.str_at(&["involvedObject", "name"]), "p");
    let (code, _) = server.call(Method::DELETE, "/apis/events.k8s.io/v1/namespaces/default/events/e", "");
    assert_eq!(code, 200);
    assert_eq!(server.call(Method::GET, "/api/v1/namespaces/default/events/e", "").0, 404);
}

#[test]
fn discovery_prefers_the_newer_version_and_lists_subresources() {
    let server = Server::new();
    let group = server.get("/apis/autoscaling");
    assert_eq!(group.str_at(&["preferredVersion", "version"]), "v2");
    assert_eq!(group.get("versions").and_then(Value::as_list).map(<[Value]>::len), Some(2));
    let text = json::to_text(&server.get("/apis/apps/v1"));
    assert!(text.contains(r#""name":"deployments/scale""#), "{text}");
    let text = json::to_text(&server.get("/apis/authorization.k8s.io/v1"));
    assert!(text.contains("selfsubjectaccessreviews"), "{text}");
}

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DEPLOYMENT: &str = r#"{"metadata":{"name":"d"},"spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;

#[test]
fn scale_writer_owns_the_replicas() {
    let server = Server::new();
    server.post(DEPLOYMENTS, DEPLOYMENT);
    let path = format!("{DEPLOYMENTS}/d/scale");
    let scale = server.get(&path);
    assert_eq!((scale.str_at(&["kind"]), number(&scale, &["spec", "replicas"])), ("Scale", Some(2)));
    assert_eq!(scale.str_at(&["status", "selector"]), "a=b");
    let (code, scale) = server.patch(&format!("{path}?fieldManager=scaler"), r#"{"spec":{"replicas":4}}"#);
    assert_eq!((code, number(&scale, &["spec", "replicas"])), (200, Some(4)));
    let deployment = server.get(&format!("{DEPLOYMENTS}/d"));
    assert_eq!(number(&deployment, &["spec", "replicas"]), Some(4));
    assert_eq!(number(&deployment, &["metadata", "generation"]), Some(2));
    assert!(owners(&deployment).contains(&"scaler apps/v1 scale".to_owned()), "{:?}", owners(&deployment));

    let put = |revision: &str, replicas: i64| {
        let body = format!(
            r#"{{"metadata":{{"name":"d","resourceVersion":"{revision}"}},"spec":{{"replicas":{replicas}}}}}"#
        );
        server.call(Method::PUT, &path, &body)
    };
    assert_eq!(put("", 1).0, 200);
    assert_eq!(put("1", 3).0, 409);
    let (code, refused) = put("", -2);
    assert_eq!(code, 422);
    assert!(refused.str_at(&["message"]).starts_with("Scale.autoscaling \"d\" is invalid: spec.replicas"));
    assert_eq!(server.call(Method::DELETE, &path, "").0, 405);
    let (code, _) = server.send(Method::PATCH, &path, "text/plain", "application/json", "{}");
    assert_eq!(code, 415);
    assert_eq!(server.call(Method::GET, &format!("{DEPLOYMENTS}/none/scale"), "").0, 404);
}

const PODS: &str = "/api/v1/namespaces/default/pods";

fn pod(server: &Server) {
    server.post(
        PODS,
        r#"{"metadata":{"name":"p","labels":{"a":"b"}},"spec":{"terminationGracePeriodSeconds":0,"containers":[{"name":"c","image":"i"}]}}"#,
    );
}

const BINDING: &str = r#"{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}"#;

#[test]
fn pod_is_bound_once_through_either_path() {
    for path in ["/api/v1/namespaces/default/pods/p/binding", "/api/v1/namespaces/default/bindings"] {
        let server = Server::new();
        pod(&server);
        assert_eq!(server.post(path, BINDING).str_at(&["status"]), "Success");
        let bound = server.get(&format!("{PODS}/p"));
        assert_eq!(bound.str_at(&["spec", "nodeName"]), "n");
        assert!(json::to_text(&bound).contains("PodScheduled"));
        let (code, refused) = server.call(Method::POST, path, BINDING);
        assert_eq!((code, refused.str_at(&["reason"])), (409, "Conflict"));
        let other = BINDING.replace("\"p\"", "\"none\"");
        assert!(matches!(server.call(Method::POST, path, &other).0, 400 | 404));
        let (code, refused) = server.call(Method::POST, path, r#"{"metadata":{"name":"p"},"target":{}}"#);
        let message = "Binding \"p\" is invalid: target.name: Required value";
        assert_eq!((code, refused.str_at(&["message"])), (422, message));
    }
}

#[test]
fn empty_fields_that_count_are_validated() {
    let server = Server::new();
    let scaler = r#"{"metadata":{"name":"h"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"maxReplicas":3,"behavior":{"scaleUp":{"policies":[]}}}}"#;
    let (code, refused) = server.call(Method::POST, HPAS_2, scaler);
    assert_eq!(code, 422, "{}", json::to_text(&refused));
    let message = "spec.behavior.scaleUp.policies: Required value: must specify at least one Policy";
    assert!(refused.str_at(&["message"]).contains(message), "{}", json::to_text(&refused));
    server.post(HPAS_2, &scaler.replace(r#""policies":[]"#, ""));

    let pod = r#"{"metadata":{"name":"o"},"spec":{"overhead":{},"containers":[{"name":"c","image":"i"}]}}"#;
    let (code, refused) = server.call(Method::POST, PODS, pod);
    let message = "pods \"o\" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
    assert_eq!((code, refused.str_at(&["message"])), (403, message));

    let node = r#"{"metadata":{"name":"n"},"status":{"capacity":{"cpu":"1"},"allocatable":{}}}"#;
    let made = server.post("/api/v1/nodes", node);
    assert!(made.at(&["status", "allocatable"]).is_none(), "{}", json::to_text(&made));

    let path = format!("{PODS}/p");
    server.post(PODS, r#"{"metadata":{"name":"p"},"spec":{"resourceClaims":[{"name":"a","resourceClaimTemplateName":"t"}],"containers":[{"name":"c","image":"i"}]}}"#);
    let named = r#"{"status":{"resourceClaimStatuses":[{"name":"a","resourceClaimName":"x"}]}}"#;
    for (patch, kept) in [
        (named, true),
        (r#"{"status":{"phase":"Pending"}}"#, true),
        (r#"{"status":{"resourceClaimStatuses":[]}}"#, false),
    ] {
        let (code, _) = server.patch(&format!("{path}/status"), patch);
        assert_eq!(code, 200, "{patch}");
        let pod = server.get(&path);
        assert_eq!(pod.at(&["status", "resourceClaimStatuses"]).is_some(), kept, "{patch}");
    }
}

const EVICTION: &str = r#"{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}"#;

/// A running pod with a disruption budget.
fn protected(server: &Server, status: &str) {
    pod(server);
    let path = format!("{PODS}/p/status");
    let (code, _) = server
        .patch(&path, r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#);
    assert_eq!(code, 200);
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    server.post(
        budgets,
        r#"{"metadata":{"name":"b"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"a":"b"}}}}"#,
    );
    let (code, answer) = server.patch(&format!("{budgets}/b/status"), &format!(r#"{{"status":{status}}}"#));
    assert_eq!(code, 200, "{}", json::to_text(&answer));
}

#[test]
fn eviction_deletes_an_unprotected_pod() {
    let server = Server::new();
    pod(&server);
    let path = format!("{PODS}/p/eviction");
    assert_eq!(server.call(Method::POST, &path, &EVICTION.replace("\"p\"", "\"x\"")).0, 400);
    assert_eq!(server.post(&format!("{path}?dryRun=All"), EVICTION).str_at(&["status"]), "Success");
    server.get(&format!("{PODS}/p"));
    assert_eq!(server.post(&path, EVICTION).str_at(&["status"]), "Success");
    assert_eq!(server.call(Method::GET, &format!("{PODS}/p"), "").0, 404);
}

#[test]
fn eviction_over_budget_is_rejected() {
    let server = Server::new();
    protected(
        &server,
        r#"{"observedGeneration":1,"desiredHealthy":1,"currentHealthy":1,"expectedPods":1,"disruptionsAllowed":0}"#,
    );
    let (code, refused) = server.call(Method::POST, &format!("{PODS}/p/eviction"), EVICTION);
    assert_eq!((code, refused.str_at(&["reason"])), (429, "TooManyRequests"));
    let text = json::to_text(&refused);
    assert!(text.contains("Cannot evict pod as it would violate the pod's disruption budget."), "{text}");
    assert!(text.contains("The disruption budget b needs 1 healthy pods and has 1 currently"), "{text}");
    server.get(&format!("{PODS}/p"));
}

#[test]
fn allowed_eviction_is_charged_to_its_budget() {
    let server = Server::new();
    protected(
        &server,
        r#"{"observedGeneration":1,"desiredHealthy":1,"currentHealthy":2,"expectedPods":2,"disruptionsAllowed":1}"#,
    );
    server.post(&format!("{PODS}/p/eviction"), EVICTION);
    assert_eq!(server.call(Method::GET, &format!("{PODS}/p"), "").0, 404);
    let budget = server.get("/apis/policy/v1/namespaces/default/poddisruptionbudgets/b");
    assert_eq!(number(&budget, &["status", "disruptionsAllowed"]), Some(0));
    assert!(budget.at(&["status", "disruptedPods", "p"]).is_some());
    assert!(json::to_text(&budget).contains("InsufficientPods"));
}

#[test]
fn ephemeral_containers_are_added_and_nothing_else_changes() {
    let server = Server::new();
    pod(&server);
    let path = format!("{PODS}/p/ephemeralcontainers");
    let patch = r#"{"metadata":{"labels":{"a":"b"}},"spec":{"nodeName":"x","ephemeralContainers":[{"name":"e","image":"i"}]}}"#;
    let (code, patched) = server.patch(&path, patch);
    assert_eq!(code, 200, "{}", json::to_text(&patched));
    assert_eq!(patched.str_at(&["spec", "nodeName"]), "");
    assert!(json::to_text(&patched).contains(r#""ephemeralContainers":[{"name":"e""#));
    assert!(owners(&patched).contains(&"tester v1 ephemeralcontainers".to_owned()), "{:?}", owners(&patched));
    assert_eq!(server.get(&path).str_at(&["kind"]), "Pod");
}

#[test]
fn resize_changes_only_resources() {
    let server = Server::new();
    pod(&server);
    let cpu = r#"{"requests":{"cpu":"2"}}"#;
    let patch = format!(r#"{{"spec":{{"containers":[{{"name":"c","image":"other","resources":{cpu}}}]}}}}"#);
    let (code, refused) = server.patch(&format!("{PODS}/p/resize"), &patch);
    // A BestEffort pod would change its QoS class.
    assert_eq!((code, refused.str_at(&["reason"])), (422, "Invalid"));
    let body = r#"{"metadata":{"name":"q"},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1"}}}]}}"#;
    server.post(PODS, body);
    let (code, resized) = server.patch(&format!("{PODS}/q/resize"), &patch);
    assert_eq!(code, 200, "{}", json::to_text(&resized));
    let containers = resized.at(&["spec", "containers"]).and_then(Value::as_list).unwrap();
    assert_eq!(containers[0].str_at(&["resources", "requests", "cpu"]), "2");
    assert_eq!(containers[0].str_at(&["image"]), "i");
    assert_eq!(number(&resized, &["metadata", "generation"]), Some(2));
}

#[test]
fn an_approval_sets_conditions_with_their_times() {
    let server = Server::new();
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let request = include_str!("../../pki/tests/request.b64").trim();
    let body = format!(
        r#"{{"metadata":{{"name":"r"}},"spec":{{"request":"{request}","signerName":"example.org/s","usages":["client auth"]}}}}"#
    );
    server.post(path, &body);
    let patch = r#"{"spec":{"signerName":"example.org/t"},"status":{"certificate":"AAAA","conditions":[{"type":"Approved","status":"True","reason":"r"}]}}"#;
    let (code, approved) = server.patch(&format!("{path}/r/approval"), patch);
    assert_eq!(code, 200, "{}", json::to_text(&approved));
    assert_eq!(approved.str_at(&["spec", "signerName"]), "example.org/s");
    assert_eq!(approved.str_at(&["status", "certificate"]), "");
    let conditions = approved.at(&["status", "conditions"]).and_then(Value::as_list).unwrap();
    assert_eq!(conditions[0].str_at(&["lastTransitionTime"]), "2027-01-15T08:00:00Z");
    let denial = patch.replace("Approved", "Denied");
    assert_eq!(server.patch(&format!("{path}/r/approval"), &denial).0, 422);
}

#[test]
fn connect_requests_are_rejected_without_a_node_connection() {
    let server = Server::new();
    pod(&server);
    let message = |path: &str| {
        let (code, answer) = server.call(Method::GET, path, "");
        (code, answer.str_at(&["message"]).to_owned())
    };
    let unbound = (400, "pod p does not have a host assigned".to_owned());
    for word in ["exec", "attach", "portforward"] {
        assert_eq!(message(&format!("{PODS}/p/{word}")), unbound, "{word}");
    }
    server.post(&format!("{PODS}/p/binding"), BINDING);
    let (code, text) = message(&format!("{PODS}/p/log"));
    assert_eq!((code, text.contains("pods/log is not implemented")), (501, true), "{text}");
    assert_eq!(message(&format!("{PODS}/none/log")).0, 404);
}

#[test]
fn namespace_is_removed_with_its_last_finalizer() {
    let server = Server::new();
    server.post("/api/v1/namespaces", r#"{"metadata":{"name":"n"}}"#);
    let (code, going) = server.call(Method::DELETE, "/api/v1/namespaces/n", "");
    assert_eq!((code, going.str_at(&["status", "phase"])), (200, "Terminating"));
    let maps = "/api/v1/namespaces/n/configmaps";
    let (code, refused) = server.call(Method::POST, maps, r#"{"metadata":{"name":"x"}}"#);
    assert_eq!((code, refused.str_at(&["reason"])), (403, "Forbidden"));
    assert_eq!(server.get("/api/v1/namespaces/n").str_at(&["status", "phase"]), "Terminating");
    let path = "/api/v1/namespaces/n/finalize";
    assert_eq!(server.patch(path, "{}").0, 405);
    let (code, _) = server.call(Method::PUT, path, r#"{"metadata":{"name":"n"},"spec":{"finalizers":[]}}"#);
    assert_eq!(code, 200);
    assert_eq!(server.call(Method::GET, "/api/v1/namespaces/n", "").0, 404);
}

const ACCESS: &str = "/apis/authorization.k8s.io/v1";
const QUESTION: &str = r#"{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}"#;

fn allowed(review: &Value) -> Option<bool> {
    review.at(&["status", "allowed"]).and_then(Value::as_bool)
}

#[test]
fn reviews_return_the_user_and_its_access() {
    let mut server = Server::new();
    let review = server.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}");
    assert_eq!(review.str_at(&["status", "userInfo", "username"]), "someone");
    let own = format!("{ACCESS}/selfsubjectaccessreviews");
    assert_eq!(allowed(&server.post(&own, QUESTION)), Some(true));
    assert_eq!(server.call(Method::POST, &own, r#"{"spec":{}}"#).0, 422);
    assert_eq!(server.call(Method::GET, &own, "").0, 405);
    let other = QUESTION.replacen("{\"spec\":{", r#"{"spec":{"user":"u","groups":["g"],"#, 1);
    let denied = server.post(&format!("{ACCESS}/subjectaccessreviews"), &other);
    assert_eq!(allowed(&denied), Some(false));
    assert!(!denied.str_at(&["status", "reason"]).is_empty());
    let admin = other.replace("\"g\"", "\"system:masters\"");
    assert_eq!(allowed(&server.post(&format!("{ACCESS}/subjectaccessreviews"), &admin)), Some(true));
    let local = admin.replace(r#""verb""#, r#""namespace":"default","verb""#);
    let path = format!("{ACCESS}/namespaces/default/localsubjectaccessreviews");
    assert_eq!(allowed(&server.post(&path, &local)), Some(true));
    server.groups.clear();
    assert_eq!(allowed(&server.post(&own, QUESTION)), Some(false));
}

#[test]
fn rules_review_of_an_administrator_allows_everything() {
    let server = Server::new();
    let path = format!("{ACCESS}/selfsubjectrulesreviews");
    let text = json::to_text(&server.post(&path, r#"{"spec":{"namespace":"default"}}"#));
    assert!(
        text.contains(r#""resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]"#),
        "{text}"
    );
    assert_eq!(server.call(Method::POST, &path, "{}").0, 400);
}
