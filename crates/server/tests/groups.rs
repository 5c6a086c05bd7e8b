//! Second API versions, subresources, terminating namespaces and reviews, without sockets.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "harness/test_server.rs"]
mod harness;

use harness::{PODS, TestServer};
use setpoint_api::{Value, json};
use setpoint_server::exchange::Identity;

impl TestServer {
    fn patch(&self, path: &str, body: &str) -> (u16, Value) {
        self.call("PATCH", path, body)
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
    let server = TestServer::new();
    let made = server.create(HPAS_1, HPA);
    assert_eq!(made.str_at(&["apiVersion"]), "autoscaling/v1");
    assert_eq!(number(&made, &["spec", "targetCPUUtilizationPercentage"]), Some(70));
    assert_eq!(owners(&made), ["tester autoscaling/v1"]);
    let other = server.object(&format!("{HPAS_2}/h"));
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
    let server = TestServer::new();
    server.create(HPAS_1, HPA);
    let list = server.object(HPAS_1);
    let items = list.get("items").and_then(Value::as_list).unwrap();
    assert_eq!(list.str_at(&["apiVersion"]), "autoscaling/v1");
    assert_eq!(number(&items[0], &["spec", "targetCPUUtilizationPercentage"]), Some(70));
    assert!(items[0].get("kind").is_none());
    let watch = server.get(&format!("{HPAS_1}?watch=true"));
    assert_eq!(watch.code, 200);
    let line = watch.text();
    let start =
        r#"{"type":"ADDED","object":{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1","#;
    assert!(line.starts_with(start), "{line}");
    assert!(line.contains(r#""targetCPUUtilizationPercentage":70"#), "{line}");
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let list = server.get_as(&format!("{HPAS_1}?includeObject=Object"), table);
    let text = list.text();
    assert!(text.contains("/70%\""), "{text}");
    assert!(text.contains(r#""apiVersion":"autoscaling/v1""#), "{text}");
}

#[test]
fn applied_configuration_is_merged_in_its_own_version() {
    let server = TestServer::new();
    let config = HPA.replacen('{', r#"{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","#, 1);
    let apply = |manager: &str, config: &str| {
        let path = format!("{HPAS_1}/h?fieldManager={manager}");
        let kind = ("content-type", "application/apply-patch+yaml");
        server.send("PATCH", &path, config, &[kind]).into_call()
    };
    let (code, made) = apply("one", &config);
    assert_eq!(code, 201, "{}", json::to_text(&made));
    assert_eq!(owners(&made), ["one autoscaling/v1"]);
    let (code, refused) = apply("two", &config.replace("70", "30"));
    assert_eq!((code, refused.str_at(&["reason"])), (409, "Conflict"));
    assert!(refused.str_at(&["message"]).contains(".spec.targetCPUUtilizationPercentage"));
}

#[test]
fn event_is_one_object_in_two_groups() {
    let server = TestServer::new();
    let event = r#"{"metadata":{"name":"e","namespace":"default"},"eventTime":"2026-01-01T00:00:00.000000Z","reportingController":"a.example/b","reportingInstance":"i","action":"Do","reason":"Why","type":"Normal","note":"so","regarding":{"kind":"Pod","namespace":"default","name":"p"}}"#;
    let made = server.create("/apis/events.k8s.io/v1/namespaces/default/events", event);
    assert_eq!((made.str_at(&["note"]), made.str_at(&["apiVersion"])), ("so", "events.k8s.io/v1"));
    let core = server.object("/api/v1/namespaces/default/events/e");
    assert_eq!((core.str_at(&["message"]), core.str_at(&["apiVersion"])), ("so", "v1"));
    assert_eq!(core.str_at(&["involvedObject", "name"]), "p");
    let (code, _) = server.call("DELETE", "/apis/events.k8s.io/v1/namespaces/default/events/e", "");
    assert_eq!(code, 200);
    assert_eq!(server.call("GET", "/api/v1/namespaces/default/events/e", "").0, 404);
}

#[test]
fn discovery_prefers_the_newer_version_and_lists_subresources() {
    let server = TestServer::new();
    let group = server.object("/apis/autoscaling");
    assert_eq!(group.str_at(&["preferredVersion", "version"]), "v2");
    assert_eq!(group.get("versions").and_then(Value::as_list).map(<[Value]>::len), Some(2));
    let text = json::to_text(&server.object("/apis/apps/v1"));
    assert!(text.contains(r#""name":"deployments/scale""#), "{text}");
    let text = json::to_text(&server.object("/apis/authorization.k8s.io/v1"));
    assert!(text.contains("selfsubjectaccessreviews"), "{text}");
}

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const DEPLOYMENT: &str = r#"{"metadata":{"name":"d"},"spec":{"replicas":2,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;

#[test]
fn scale_writer_owns_the_replicas() {
    let server = TestServer::new();
    server.create(DEPLOYMENTS, DEPLOYMENT);
    let path = format!("{DEPLOYMENTS}/d/scale");
    let scale = server.object(&path);
    assert_eq!((scale.str_at(&["kind"]), number(&scale, &["spec", "replicas"])), ("Scale", Some(2)));
    assert_eq!(scale.str_at(&["status", "selector"]), "a=b");
    let (code, scale) = server.patch(&format!("{path}?fieldManager=scaler"), r#"{"spec":{"replicas":4}}"#);
    assert_eq!((code, number(&scale, &["spec", "replicas"])), (200, Some(4)));
    let deployment = server.object(&format!("{DEPLOYMENTS}/d"));
    assert_eq!(number(&deployment, &["spec", "replicas"]), Some(4));
    assert_eq!(number(&deployment, &["metadata", "generation"]), Some(2));
    assert!(owners(&deployment).contains(&"scaler apps/v1 scale".to_owned()), "{:?}", owners(&deployment));

    let put = |revision: &str, replicas: i64| {
        let body = format!(
            r#"{{"metadata":{{"name":"d","resourceVersion":"{revision}"}},"spec":{{"replicas":{replicas}}}}}"#
        );
        server.call("PUT", &path, &body)
    };
    assert_eq!(put("", 1).0, 200);
    assert_eq!(put("1", 3).0, 409);
    let (code, refused) = put("", -2);
    assert_eq!(code, 422);
    assert!(refused.str_at(&["message"]).starts_with("Scale.autoscaling \"d\" is invalid: spec.replicas"));
    assert_eq!(server.call("DELETE", &path, "").0, 405);
    assert_eq!(server.send("PATCH", &path, "{}", &[("content-type", "text/plain")]).code, 415);
    assert_eq!(server.call("GET", &format!("{DEPLOYMENTS}/none/scale"), "").0, 404);
}

fn pod(server: &TestServer) {
    server.create(
        PODS,
        r#"{"metadata":{"name":"p","labels":{"a":"b"}},"spec":{"terminationGracePeriodSeconds":0,"containers":[{"name":"c","image":"i"}]}}"#,
    );
}

const BINDING: &str = r#"{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}"#;

#[test]
fn pod_is_bound_once_through_either_path() {
    for path in ["/api/v1/namespaces/default/pods/p/binding", "/api/v1/namespaces/default/bindings"] {
        let server = TestServer::new();
        pod(&server);
        assert_eq!(server.create(path, BINDING).str_at(&["status"]), "Success");
        let bound = server.object(&format!("{PODS}/p"));
        assert_eq!(bound.str_at(&["spec", "nodeName"]), "n");
        assert!(json::to_text(&bound).contains("PodScheduled"));
        let (code, refused) = server.call("POST", path, BINDING);
        assert_eq!((code, refused.str_at(&["reason"])), (409, "Conflict"));
        let other = BINDING.replace("\"p\"", "\"none\"");
        assert!(matches!(server.call("POST", path, &other).0, 400 | 404));
        let (code, refused) = server.call("POST", path, r#"{"metadata":{"name":"p"},"target":{}}"#);
        let message = "Binding \"p\" is invalid: target.name: Required value";
        assert_eq!((code, refused.str_at(&["message"])), (422, message));
    }
}

#[test]
fn empty_fields_that_count_are_validated() {
    let server = TestServer::new();
    let scaler = r#"{"metadata":{"name":"h"},"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"maxReplicas":3,"behavior":{"scaleUp":{"policies":[]}}}}"#;
    let (code, refused) = server.call("POST", HPAS_2, scaler);
    assert_eq!(code, 422, "{}", json::to_text(&refused));
    let message = "spec.behavior.scaleUp.policies: Required value: must specify at least one Policy";
    assert!(refused.str_at(&["message"]).contains(message), "{}", json::to_text(&refused));
    server.create(HPAS_2, &scaler.replace(r#""policies":[]"#, ""));

    let pod = r#"{"metadata":{"name":"o"},"spec":{"overhead":{},"containers":[{"name":"c","image":"i"}]}}"#;
    let (code, refused) = server.call("POST", PODS, pod);
    let message = "pods \"o\" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
    assert_eq!((code, refused.str_at(&["message"])), (403, message));

    let node = r#"{"metadata":{"name":"n"},"status":{"capacity":{"cpu":"1"},"allocatable":{}}}"#;
    let made = server.create("/api/v1/nodes", node);
    assert!(made.at(&["status", "allocatable"]).is_none(), "{}", json::to_text(&made));

    let path = format!("{PODS}/p");
    server.create(PODS, r#"{"metadata":{"name":"p"},"spec":{"resourceClaims":[{"name":"a","resourceClaimTemplateName":"t"}],"containers":[{"name":"c","image":"i"}]}}"#);
    let named = r#"{"status":{"resourceClaimStatuses":[{"name":"a","resourceClaimName":"x"}]}}"#;
    for (patch, kept) in [
        (named, true),
        (r#"{"status":{"phase":"Pending"}}"#, true),
        (r#"{"status":{"resourceClaimStatuses":[]}}"#, false),
    ] {
        let (code, _) = server.patch(&format!("{path}/status"), patch);
        assert_eq!(code, 200, "{patch}");
        let pod = server.object(&path);
        assert_eq!(pod.at(&["status", "resourceClaimStatuses"]).is_some(), kept, "{patch}");
    }
}

const EVICTION: &str = r#"{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}"#;

/// A running pod with a disruption budget.
fn protected(server: &TestServer, status: &str) {
    pod(server);
    let path = format!("{PODS}/p/status");
    let (code, _) = server
        .patch(&path, r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#);
    assert_eq!(code, 200);
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    server.create(
        budgets,
        r#"{"metadata":{"name":"b"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"a":"b"}}}}"#,
    );
    let (code, answer) = server.patch(&format!("{budgets}/b/status"), &format!(r#"{{"status":{status}}}"#));
    assert_eq!(code, 200, "{}", json::to_text(&answer));
}

#[test]
fn eviction_deletes_an_unprotected_pod() {
    let server = TestServer::new();
    pod(&server);
    let path = format!("{PODS}/p/eviction");
    assert_eq!(server.call("POST", &path, &EVICTION.replace("\"p\"", "\"x\"")).0, 400);
    assert_eq!(server.create(&format!("{path}?dryRun=All"), EVICTION).str_at(&["status"]), "Success");
    server.object(&format!("{PODS}/p"));
    assert_eq!(server.create(&path, EVICTION).str_at(&["status"]), "Success");
    assert_eq!(server.call("GET", &format!("{PODS}/p"), "").0, 404);
}

#[test]
fn eviction_over_budget_is_rejected() {
    let server = TestServer::new();
    protected(
        &server,
        r#"{"observedGeneration":1,"desiredHealthy":1,"currentHealthy":1,"expectedPods":1,"disruptionsAllowed":0}"#,
    );
    let (code, refused) = server.call("POST", &format!("{PODS}/p/eviction"), EVICTION);
    assert_eq!((code, refused.str_at(&["reason"])), (429, "TooManyRequests"));
    let text = json::to_text(&refused);
    assert!(text.contains("Cannot evict pod as it would violate the pod's disruption budget."), "{text}");
    assert!(text.contains("The disruption budget b needs 1 healthy pods and has 1 currently"), "{text}");
    server.object(&format!("{PODS}/p"));
}

#[test]
fn allowed_eviction_is_charged_to_its_budget() {
    let server = TestServer::new();
    protected(
        &server,
        r#"{"observedGeneration":1,"desiredHealthy":1,"currentHealthy":2,"expectedPods":2,"disruptionsAllowed":1}"#,
    );
    server.create(&format!("{PODS}/p/eviction"), EVICTION);
    assert_eq!(server.call("GET", &format!("{PODS}/p"), "").0, 404);
    let budget = server.object("/apis/policy/v1/namespaces/default/poddisruptionbudgets/b");
    assert_eq!(number(&budget, &["status", "disruptionsAllowed"]), Some(0));
    assert!(budget.at(&["status", "disruptedPods", "p"]).is_some());
    assert!(json::to_text(&budget).contains("InsufficientPods"));
}

#[test]
fn ephemeral_containers_are_added_and_nothing_else_changes() {
    let server = TestServer::new();
    pod(&server);
    let path = format!("{PODS}/p/ephemeralcontainers");
    let patch = r#"{"metadata":{"labels":{"a":"b"}},"spec":{"nodeName":"x","ephemeralContainers":[{"name":"e","image":"i"}]}}"#;
    let (code, patched) = server.patch(&path, patch);
    assert_eq!(code, 200, "{}", json::to_text(&patched));
    assert_eq!(patched.str_at(&["spec", "nodeName"]), "");
    assert!(json::to_text(&patched).contains(r#""ephemeralContainers":[{"name":"e""#));
    assert!(owners(&patched).contains(&"tester v1 ephemeralcontainers".to_owned()), "{:?}", owners(&patched));
    assert_eq!(server.object(&path).str_at(&["kind"]), "Pod");
}

#[test]
fn resize_changes_only_resources() {
    let server = TestServer::new();
    pod(&server);
    let cpu = r#"{"requests":{"cpu":"2"}}"#;
    let patch = format!(r#"{{"spec":{{"containers":[{{"name":"c","image":"other","resources":{cpu}}}]}}}}"#);
    let (code, refused) = server.patch(&format!("{PODS}/p/resize"), &patch);
    // A BestEffort pod would change its QoS class.
    assert_eq!((code, refused.str_at(&["reason"])), (422, "Invalid"));
    let body = r#"{"metadata":{"name":"q"},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1"}}}]}}"#;
    server.create(PODS, body);
    let (code, resized) = server.patch(&format!("{PODS}/q/resize"), &patch);
    assert_eq!(code, 200, "{}", json::to_text(&resized));
    let containers = resized.at(&["spec", "containers"]).and_then(Value::as_list).unwrap();
    assert_eq!(containers[0].str_at(&["resources", "requests", "cpu"]), "2");
    assert_eq!(containers[0].str_at(&["image"]), "i");
    assert_eq!(number(&resized, &["metadata", "generation"]), Some(2));
}

#[test]
fn approval_sets_conditions_with_their_times() {
    let server = TestServer::new();
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let request = include_str!("../../pki/tests/request.b64").trim();
    let body = format!(
        r#"{{"metadata":{{"name":"r"}},"spec":{{"request":"{request}","signerName":"example.org/s","usages":["client auth"]}}}}"#
    );
    server.create(path, &body);
    let patch = r#"{"spec":{"signerName":"example.org/t"},"status":{"certificate":"AAAA","conditions":[{"type":"Approved","status":"True","reason":"r"}]}}"#;
    let (code, approved) = server.patch(&format!("{path}/r/approval"), patch);
    assert_eq!(code, 200, "{}", json::to_text(&approved));
    assert_eq!(approved.str_at(&["spec", "signerName"]), "example.org/s");
    assert_eq!(approved.str_at(&["status", "certificate"]), "");
    let conditions = approved.at(&["status", "conditions"]).and_then(Value::as_list).unwrap();
    assert_eq!(conditions[0].str_at(&["lastTransitionTime"]), "2023-11-14T22:13:20Z");
    let denial = patch.replace("Approved", "Denied");
    assert_eq!(server.patch(&format!("{path}/r/approval"), &denial).0, 422);
}

#[test]
fn connect_requests_are_rejected_without_a_node_connection() {
    let server = TestServer::new();
    pod(&server);
    let message = |path: &str| {
        let (code, answer) = server.call("GET", path, "");
        (code, answer.str_at(&["message"]).to_owned())
    };
    let unbound = (400, "pod p does not have a host assigned".to_owned());
    for word in ["exec", "attach", "portforward"] {
        assert_eq!(message(&format!("{PODS}/p/{word}")), unbound, "{word}");
    }
    server.create(&format!("{PODS}/p/binding"), BINDING);
    let (code, text) = message(&format!("{PODS}/p/log"));
    assert_eq!((code, text.contains("pods/log is not implemented")), (501, true), "{text}");
    assert_eq!(message(&format!("{PODS}/none/log")).0, 404);
}

#[test]
fn namespace_is_removed_with_its_last_finalizer() {
    let server = TestServer::new();
    server.create("/api/v1/namespaces", r#"{"metadata":{"name":"n"}}"#);
    let (code, going) = server.call("DELETE", "/api/v1/namespaces/n", "");
    assert_eq!((code, going.str_at(&["status", "phase"])), (200, "Terminating"));
    let maps = "/api/v1/namespaces/n/configmaps";
    let (code, refused) = server.call("POST", maps, r#"{"metadata":{"name":"x"}}"#);
    assert_eq!((code, refused.str_at(&["reason"])), (403, "Forbidden"));
    assert_eq!(server.object("/api/v1/namespaces/n").str_at(&["status", "phase"]), "Terminating");
    let path = "/api/v1/namespaces/n/finalize";
    assert_eq!(server.patch(path, "{}").0, 405);
    let (code, _) = server.call("PUT", path, r#"{"metadata":{"name":"n"},"spec":{"finalizers":[]}}"#);
    assert_eq!(code, 200);
    assert_eq!(server.call("GET", "/api/v1/namespaces/n", "").0, 404);
}

const ACCESS: &str = "/apis/authorization.k8s.io/v1";
const QUESTION: &str = r#"{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}"#;

fn allowed(review: &Value) -> Option<bool> {
    review.at(&["status", "allowed"]).and_then(Value::as_bool)
}

#[test]
fn reviews_return_the_user_and_its_access() {
    let server = TestServer::new();
    let review = server.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}");
    assert_eq!(review.str_at(&["status", "userInfo", "username"]), "ann");
    let own = format!("{ACCESS}/selfsubjectaccessreviews");
    assert_eq!(allowed(&server.create(&own, QUESTION)), Some(true));
    assert_eq!(server.call("POST", &own, r#"{"spec":{}}"#).0, 422);
    assert_eq!(server.call("GET", &own, "").0, 405);
    let other = QUESTION.replacen("{\"spec\":{", r#"{"spec":{"user":"u","groups":["g"],"#, 1);
    let denied = server.create(&format!("{ACCESS}/subjectaccessreviews"), &other);
    assert_eq!(allowed(&denied), Some(false));
    let admin = other.replace("\"g\"", "\"system:masters\"");
    assert_eq!(allowed(&server.create(&format!("{ACCESS}/subjectaccessreviews"), &admin)), Some(true));
    let local = admin.replace(r#""verb""#, r#""namespace":"default","verb""#);
    let path = format!("{ACCESS}/namespaces/default/localsubjectaccessreviews");
    assert_eq!(allowed(&server.create(&path, &local)), Some(true));
    let unprivileged = Identity::new("ann", vec!["system:authenticated".into()]);
    let (code, review) = server.call_as(unprivileged, "POST", &own, QUESTION);
    assert_eq!((code, allowed(&review)), (201, Some(false)));
}

#[test]
fn rules_review_of_an_administrator_allows_everything() {
    let server = TestServer::new();
    let path = format!("{ACCESS}/selfsubjectrulesreviews");
    let text = json::to_text(&server.create(&path, r#"{"spec":{"namespace":"default"}}"#));
    assert!(
        text.contains(r#""resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]"#),
        "{text}"
    );
    assert_eq!(server.call("POST", &path, "{}").0, 400);
}
