//! Strict ownership: in a namespace that opts in, fields belong to the manager that applied them.

use setpoint_api::{Identity, Value, json};

use crate::harness::{TestServer, content_type};
use crate::webhook_server::{HookServer, patch};

const APPLY: &str = "application/apply-patch+yaml";
const NAMESPACE: &str = "/api/v1/namespaces/default";
const MAP: &str = "/api/v1/namespaces/default/configmaps/x";

/// A server with a ConfigMap whose field `a` is applied by `gitops`; the namespace has this annotation.
fn server(ownership: &str) -> TestServer {
    let server = TestServer::new();
    let annotation =
        format!(r#"{{"metadata":{{"annotations":{{"setpoint.dev/field-ownership":"{ownership}"}}}}}}"#);
    assert_eq!(server.call("PATCH", NAMESPACE, &annotation).0, 200);
    let body = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":"1"}}"#;
    assert_eq!(apply(&server, MAP, "gitops", body).0, 201);
    server
}

fn apply(server: &TestServer, path: &str, manager: &str, body: &str) -> (u16, Value) {
    let separator = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{separator}fieldManager={manager}");
    server.send("PATCH", &path, body, &[("content-type", APPLY)]).into_call()
}

/// Asserts that a write is a conflict with this manager over this field.
fn assert_conflict((code, status): (u16, Value), manager: &str, field: &str) {
    let message = status.str_at(&["message"]);
    assert_eq!((code, status.str_at(&["reason"])), (409, "Conflict"), "{}", json::to_text(&status));
    assert!(message.starts_with("Write failed with "), "{message}");
    let causes = status.at(&["details", "causes"]).and_then(Value::as_list).unwrap();
    let conflict = format!("conflict with \"{manager}\"");
    let is_named = |cause: &Value| {
        cause.str_at(&["field"]) == field && cause.str_at(&["message"]).starts_with(&conflict)
    };
    assert!(causes.iter().any(is_named), "{}", json::to_text(&status));
}

/// `managedFields` of the ConfigMap after `change`, as a merge patch.
fn managers_patch(server: &TestServer, change: impl FnOnce(&mut Vec<Value>)) -> String {
    let object = server.object(MAP);
    let mut managers = object.at(&["metadata", "managedFields"]).and_then(Value::as_list).unwrap().to_vec();
    change(&mut managers);
    format!(r#"{{"metadata":{{"managedFields":{}}}}}"#, json::to_text(&Value::List(managers)))
}

#[test]
fn write_to_a_field_that_another_manager_applied_is_a_conflict() {
    let server = server("Strict");
    let (code, status) = server.call("PATCH", MAP, r#"{"data":{"a":"2"}}"#);
    let message = status.str_at(&["message"]);
    assert_eq!((code, status.str_at(&["reason"])), (409, "Conflict"), "{message}");
    assert!(message.contains(r#"conflict with "gitops": .data.a"#), "{message}");
    assert_eq!(server.call("PATCH", MAP, r#"{"data":{"b":"2"}}"#).0, 200, "another field");
    assert_eq!(server.call("PATCH", MAP, r#"{"data":{"a":"1"}}"#).0, 200, "the same value");
    assert_eq!(server.call("PATCH", MAP, r#"{"data":{"a":null}}"#).0, 409, "a removal");
}

#[test]
fn field_is_taken_over_on_demand() {
    let taken = server("Strict");
    assert_eq!(taken.call("PATCH", &format!("{MAP}?takeOver=true"), r#"{"data":{"a":"2"}}"#).0, 200);
    assert_eq!(taken.call("PATCH", MAP, r#"{"data":{"a":"3"}}"#).0, 200, "the new owner writes freely");
    let forced = server("Strict");
    let body = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":"2"}}"#;
    let applied = [("content-type", "application/apply-patch+yaml")];
    let path = format!("{MAP}?fieldManager=other");
    assert_eq!(forced.send("PATCH", &path, body, &applied).code, 409);
    assert_eq!(forced.send("PATCH", &format!("{path}&force=true"), body, &applied).code, 200);
}

#[test]
fn ownership_is_not_strict_by_default() {
    for ownership in ["", "Loose"] {
        assert_eq!(server(ownership).call("PATCH", MAP, r#"{"data":{"a":"2"}}"#).0, 200);
    }
}

#[test]
fn replaced_object_must_keep_the_fields_of_other_managers() {
    let server = server("Strict");
    let object = server.object(MAP);
    let mut changed = object.clone();
    changed.ensure_map("data").insert("a", "2");
    assert_conflict(server.call("PUT", MAP, &json::to_text(&changed)), "gitops", ".data.a");
    let mut without = object.clone();
    without.make_map().remove("data");
    assert_conflict(server.call("PUT", MAP, &json::to_text(&without)), "gitops", ".data.a");
    let mut more = object.clone();
    more.ensure_map("data").insert("b", "2");
    assert_eq!(server.call("PUT", MAP, &json::to_text(&more)).0, 200);
    let mut unmanaged = server.object(MAP);
    unmanaged.ensure_map("metadata").remove("managedFields");
    unmanaged.ensure_map("data").insert("b", "3");
    assert_eq!(
        server.call("PUT", MAP, &json::to_text(&unmanaged)).0,
        200,
        "no managers mean the stored ones"
    );
    assert_conflict(server.call("PATCH", MAP, r#"{"data":{"a":"2"}}"#), "gitops", ".data.a");
    let object = json::to_text(&changed);
    let owned = server.send("PUT", &format!("{MAP}?fieldManager=gitops"), &object, &[content_type("PUT")]);
    assert_eq!(owned.code, 409, "an old resource version");
    changed.ensure_map("metadata").remove("resourceVersion");
    let object = json::to_text(&changed);
    let owned = server.send("PUT", &format!("{MAP}?fieldManager=gitops"), &object, &[content_type("PUT")]);
    assert_eq!(owned.code, 200, "{}", owned.text());
}

#[test]
fn ownership_of_another_manager_cannot_be_removed() {
    let strict = server("Strict");
    for reset in [r#"{"metadata":{"managedFields":[]}}"#, r#"{"metadata":{"managedFields":[{}]}}"#] {
        assert_conflict(strict.call("PATCH", MAP, reset), "gitops", ".data.a");
    }
    let other = r#"{"manager":"other","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:b":{}}}}"#;
    let other = json::parse(other.as_bytes()).unwrap();
    let replaced = managers_patch(&strict, |managers| *managers = vec![other.clone()]);
    assert_conflict(strict.call("PATCH", MAP, &replaced), "gitops", ".data.a");
    let emptied = managers_patch(&strict, |managers| {
        managers[0].make_map().insert("fieldsV1", Value::map());
    });
    assert_conflict(strict.call("PATCH", MAP, &emptied), "gitops", ".data.a");
    let renamed = managers_patch(&strict, |managers| {
        managers[0].make_map().insert("manager", "me");
    });
    assert_conflict(strict.call("PATCH", MAP, &renamed), "gitops", ".data.a");
    let demoted = managers_patch(&strict, |managers| {
        managers[0].make_map().insert("operation", "Update");
    });
    assert_conflict(strict.call("PATCH", MAP, &demoted), "gitops", ".data.a");
    let mut object = strict.object(MAP);
    object.ensure_map("metadata").insert("managedFields", Value::List(Vec::new()));
    assert_conflict(strict.call("PUT", MAP, &json::to_text(&object)), "gitops", ".data.a");

    let added = managers_patch(&strict, |managers| managers.push(other));
    assert_eq!(strict.call("PATCH", MAP, &added).0, 200, "an entry may be added");
    let removed = managers_patch(&strict, |managers| managers.truncate(1));
    assert_eq!(strict.call("PATCH", MAP, &removed).0, 200, "an entry of updates is not protected");
    let reset = r#"{"metadata":{"managedFields":[]}}"#;
    assert_eq!(strict.call("PATCH", &format!("{MAP}?fieldManager=gitops"), reset).0, 200, "the owner");
    let forced = server("Strict");
    assert_eq!(forced.call("PATCH", &format!("{MAP}?takeOver=true"), reset).0, 200);
    assert_eq!(server("Loose").call("PATCH", MAP, reset).0, 200);
}

/// Configures a mutating webhook for ConfigMaps and scales.
fn configure(server: &TestServer, hook: &HookServer) {
    let (url, ca) = (&hook.url, &hook.ca_bundle);
    let body = format!(
        r#"{{"metadata":{{"name":"m"}},"webhooks":[{{"name":"m.example.com","sideEffects":"None",
            "admissionReviewVersions":["v1"],"clientConfig":{{"url":"{url}","caBundle":"{ca}"}},"rules":[{{
            "operations":["UPDATE"],"apiGroups":["*"],"apiVersions":["*"],"resources":["configmaps","*/scale"]}}]}}]}}"#
    );
    server.create("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", &body);
}

#[test]
fn admission_cannot_change_fields_of_another_manager() {
    let server = server("Strict");
    let hook = HookServer::start(|review| patch(review, r#"[{"op":"add","path":"/data/a","value":"9"}]"#));
    configure(&server, &hook);
    let refused = server.call("PATCH", MAP, r#"{"data":{"b":"2"}}"#);
    assert!(refused.1.str_at(&["message"]).contains("admission changes these fields"), "{refused:?}");
    assert_conflict(refused, "gitops", ".data.a");
    let applied = apply(&server, MAP, "other", r#"{"kind":"ConfigMap","apiVersion":"v1","data":{"b":"2"}}"#);
    assert_conflict(applied, "gitops", ".data.a");
    assert_eq!(server.object(MAP).str_at(&["data", "a"]), "1");
    let taken = format!("{MAP}?takeOver=true");
    assert_eq!(server.call("PATCH", &taken, r#"{"data":{"b":"2"}}"#).0, 200);
    let own = r#"{"kind":"ConfigMap","apiVersion":"v1","data":{"a":"3"}}"#;
    let (code, applied) = apply(&server, MAP, "gitops", own);
    assert_eq!((code, applied.str_at(&["data", "a"])), (200, "9"), "the manager's own field");
    assert_eq!(server.call("PATCH", MAP, r#"{"data":{"b":"4"}}"#).0, 200, "admission changes nothing more");
}

#[test]
fn policy_cannot_change_fields_of_another_manager() {
    let server = server("Strict");
    let policies = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies";
    server.create(
        policies,
        r#"{"metadata":{"name":"m"},"spec":{"reinvocationPolicy":"Never","failurePolicy":"Fail",
            "matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["UPDATE"],
            "resources":["configmaps"]}]},"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":
            "[JSONPatch{op: 'replace', path: '/data/a', value: '9'}]"}}]}}"#,
    );
    let binding = r#"{"metadata":{"name":"m"},"spec":{"policyName":"m"}}"#;
    server.create("/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings", binding);
    assert_conflict(server.call("PATCH", MAP, r#"{"data":{"b":"2"}}"#), "gitops", ".data.a");
}

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/d";

/// Applies a Deployment with three replicas as `gitops`.
fn apply_deployment(server: &TestServer) {
    let body = r#"{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d"},"spec":{"replicas":3,
        "selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
        "spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;
    let (code, answer) = apply(server, DEPLOYMENT, "gitops", body);
    assert_eq!(code, 201, "{}", json::to_text(&answer));
}

#[test]
fn scale_of_another_manager_is_a_conflict() {
    let server = server("Strict");
    apply_deployment(&server);
    let scale = format!("{DEPLOYMENT}/scale");
    assert_conflict(server.call("PATCH", &scale, r#"{"spec":{"replicas":5}}"#), "gitops", ".spec.replicas");
    assert_eq!(server.call("PATCH", &scale, r#"{"spec":{"replicas":3}}"#).0, 200, "the same number");
    let mut whole = server.object(&scale);
    whole.ensure_map("spec").insert("replicas", 5);
    assert_conflict(server.call("PUT", &scale, &json::to_text(&whole)), "gitops", ".spec.replicas");
    let applied = r#"{"kind":"Scale","apiVersion":"autoscaling/v1","spec":{"replicas":5}}"#;
    assert_eq!(apply(&server, &scale, "other", applied).0, 409);
    let own = format!("{scale}?fieldManager=gitops");
    assert_eq!(server.call("PATCH", &own, r#"{"spec":{"replicas":4}}"#).0, 200, "the owner");
    let taken = format!("{scale}?takeOver=true");
    assert_eq!(server.call("PATCH", &taken, r#"{"spec":{"replicas":5}}"#).0, 200);
    assert_eq!(server.call("PATCH", &scale, r#"{"spec":{"replicas":6}}"#).0, 200, "the new owner");
}

#[test]
fn admission_cannot_change_the_scale_of_another_manager() {
    let server = server("Strict");
    apply_deployment(&server);
    let hook =
        HookServer::start(|review| patch(review, r#"[{"op":"replace","path":"/spec/replicas","value":7}]"#));
    configure(&server, &hook);
    let scale = format!("{DEPLOYMENT}/scale");
    assert_conflict(server.call("PATCH", &scale, r#"{"spec":{"replicas":3}}"#), "gitops", ".spec.replicas");
    let taken = format!("{scale}?takeOver=true");
    assert_eq!(server.call("PATCH", &taken, r#"{"spec":{"replicas":3}}"#).0, 200);
}

#[test]
fn applied_status_is_protected_and_any_other_status_is_free() {
    let server = server("Strict");
    apply_deployment(&server);
    let path = format!("{DEPLOYMENT}/status");
    assert_eq!(server.call("PATCH", &path, r#"{"status":{"observedGeneration":1}}"#).0, 200);
    let status = r#"{"kind":"Deployment","apiVersion":"apps/v1","status":{"replicas":2}}"#;
    assert_eq!(apply(&server, &path, "reporter", status).0, 200);
    let refused = server.call("PATCH", &path, r#"{"status":{"replicas":3}}"#);
    assert_conflict(refused, "reporter", ".status.replicas");
    assert_eq!(server.call("PATCH", &path, r#"{"status":{"observedGeneration":2}}"#).0, 200);
    let (code, _) = server.call("PATCH", &path, r#"{"spec":{"replicas":9},"status":{"readyReplicas":0}}"#);
    assert_eq!(code, 200, "a status cannot change the spec");
    let reset = r#"{"metadata":{"managedFields":[]},"status":{"observedGeneration":3}}"#;
    assert_eq!(server.call("PATCH", &path, reset).0, 200);
    assert_conflict(
        server.call("PATCH", DEPLOYMENT, r#"{"spec":{"replicas":9}}"#),
        "gitops",
        ".spec.replicas",
    );
}

#[test]
fn appliers_conflict_as_anywhere() {
    let server = server("Strict");
    let body = r#"{"kind":"ConfigMap","apiVersion":"v1","data":{"a":"2"}}"#;
    let (code, status) = apply(&server, MAP, "other", body);
    assert_eq!(code, 409);
    assert!(
        status.str_at(&["message"]).starts_with("Apply failed with 1 conflict: conflict with \"gitops\"")
    );
    let same = r#"{"kind":"ConfigMap","apiVersion":"v1","data":{"a":"1"}}"#;
    assert_eq!(apply(&server, MAP, "other", same).0, 200, "an equal value is shared");
    let refused = server.call("PATCH", MAP, r#"{"data":{"a":"2"}}"#);
    assert_conflict(refused.clone(), "gitops", ".data.a");
    assert_conflict(refused, "other", ".data.a");
}

#[test]
fn deletes_complete() {
    let server = server("Strict");
    let body = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","finalizers":["example.com/hold"],
        "ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"1"}]},"data":{"a":"1"}}"#;
    assert_eq!(apply(&server, MAP, "gitops", body).0, 200);
    let release = r#"{"metadata":{"finalizers":null}}"#;
    let held = r#".metadata.finalizers["example.com/hold"]"#;
    let refused = server.call("PATCH", MAP, release);
    assert_eq!(refused.0, 409, "{held}: {}", json::to_text(&refused.1));
    let orphan = r#"{"metadata":{"ownerReferences":null}}"#;
    assert_eq!(server.call("PATCH", MAP, orphan).0, 409);
    let collector = || Identity {
        user: "system:serviceaccount:kube-system:generic-garbage-collector".to_owned(),
        groups: vec!["system:masters".to_owned()],
        ..Identity::default()
    };
    assert_eq!(server.call_as(collector(), "PATCH", MAP, orphan).0, 200, "garbage collection");
    assert_eq!(server.call_as(collector(), "PATCH", MAP, r#"{"data":{"a":"2"}}"#).0, 409);
    assert_eq!(server.call("DELETE", MAP, "").0, 200);
    assert_eq!(server.call("PATCH", MAP, r#"{"data":{"a":"2"}}"#).0, 409, "it is still protected");
    assert_eq!(server.call("PATCH", MAP, release).0, 200, "finalizers of a deleted object are free");
    assert_eq!(server.call("GET", MAP, "").0, 404);
}

#[test]
fn system_namespace_is_never_strict() {
    let server = TestServer::new();
    let namespace = "/api/v1/namespaces/kube-system";
    let body =
        r#"{"metadata":{"name":"kube-system","annotations":{"setpoint.dev/field-ownership":"Strict"}}}"#;
    if server.call("GET", namespace, "").0 == 404 {
        server.create("/api/v1/namespaces", body);
    } else {
        assert_eq!(server.call("PATCH", namespace, body).0, 200);
    }
    let path = format!("{namespace}/configmaps/x");
    let map = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":"1"}}"#;
    assert_eq!(apply(&server, &path, "gitops", map).0, 201);
    assert_eq!(server.call("PATCH", &path, r#"{"data":{"a":"2"}}"#).0, 200);
}

#[test]
fn field_is_protected_in_every_version() {
    let server = server("Strict");
    let path =
        |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers/h");
    let body = r#"{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1","metadata":{"name":"h"},
        "spec":{"maxReplicas":3,"targetCPUUtilizationPercentage":50,
        "scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}"#;
    assert_eq!(apply(&server, &path("v1"), "gitops", body).0, 201);
    let refused = server.call("PATCH", &path("v2"), r#"{"spec":{"maxReplicas":4}}"#);
    assert_conflict(refused, "gitops", ".spec.maxReplicas");
    let refused = server.call("PATCH", &path("v2"), r#"{"spec":{"metrics":null}}"#);
    assert_conflict(refused, "gitops", ".spec.targetCPUUtilizationPercentage");
    assert_eq!(server.call("PATCH", &path("v2"), r#"{"spec":{"minReplicas":2}}"#).0, 200);
}
