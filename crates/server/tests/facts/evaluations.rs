//! Replay of evaluations: an admission policy with a binding, and a request that they decide.

use serde_json::{Value, json};

use crate::harness::TestServer;
use crate::replay::{DEFINITIONS, establish, merge, send, stable};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const NAMESPACE: &str = "/api/v1/namespaces/facts";

/// Group, version and kind of a resource, and the path of its objects.
fn resource(case: &Value) -> (&'static str, &'static str, &'static str, String) {
    match case["resource"].as_str().unwrap_or("configmaps") {
        "deployments" => ("apps", "v1", "Deployment", "/apis/apps/v1/namespaces/facts/deployments".into()),
        "widgets" => {
            ("facts.example", "v1", "Widget", "/apis/facts.example/v1/namespaces/facts/widgets".into())
        }
        _ => ("", "v1", "ConfigMap", format!("{NAMESPACE}/configmaps")),
    }
}

/// A server with a namespace and the custom kind of the facts.
fn server(schema: &Value) -> TestServer {
    let server = TestServer::new();
    let namespace = json!({"metadata": {"name": "facts", "labels": {"env": "test"}}});
    assert!(send(&server, "POST", "/api/v1/namespaces", &namespace).is_ok());
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let definition = json!({"metadata": {"name": "widgets.facts.example"}, "spec": {
        "group": "facts.example", "scope": "Namespaced", "versions": [version],
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
    }});
    let created = send(&server, "POST", DEFINITIONS, &definition);
    assert!(created.is_ok(), "{}", created.body);
    establish(&server, &created.body);
    server
}

fn object(case: &Value, body: &Value) -> Value {
    let (group, version, kind, _) = resource(case);
    let mut object = body.clone();
    object["apiVersion"] =
        if group.is_empty() { json!(version) } else { json!(format!("{group}/{version}")) };
    object["kind"] = json!(kind);
    object["metadata"] = merge(json!({"name": "x"}), object.get("metadata"));
    object
}

/// Creates the policy and the binding of a case.
fn create_policy(server: &TestServer, case: &Value) {
    let is_mutating = case.get("mutating").is_some();
    let (prefix, spec) =
        if is_mutating { ("mutating", &case["mutating"]) } else { ("validating", &case["validating"]) };
    let operation = match (case.get("old"), case.get("new")) {
        (None, _) => "CREATE",
        (Some(_), Some(_)) => "UPDATE",
        (Some(_), None) => "DELETE",
    };
    let (group, version, ..) = resource(case);
    let plural = case["resource"].as_str().unwrap_or("configmaps");
    let rule = json!({
        "apiGroups": [group], "apiVersions": [version], "operations": [operation], "resources": [plural],
        "resourceNames": ["x"],
    });
    let base = json!({"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]}});
    let policy = json!({"metadata": {"name": "policy"}, "spec": merge(base, Some(spec))});
    let created = send(server, "POST", &format!("{GROUP}/{prefix}admissionpolicies"), &policy);
    assert!(created.is_ok(), "{}: {}", case["id"], created.body);
    let mut base = json!({"policyName": "policy"});
    if !is_mutating {
        base["validationActions"] = json!(["Deny"]);
    }
    let binding = json!({"metadata": {"name": "binding"}, "spec": merge(base, case.get("binding"))});
    let created = send(server, "POST", &format!("{GROUP}/{prefix}admissionpolicybindings"), &binding);
    assert!(created.is_ok(), "{}: {}", case["id"], created.body);
}

/// Sends the request of a case to a server with its policy. Returns the case with the answer.
pub fn replay_evaluation(schema: &Value, case: &Value) -> Value {
    let server = server(schema);
    let path = resource(case).3;
    for params in case["params"].as_array().into_iter().flatten() {
        assert!(send(&server, "POST", &format!("{NAMESPACE}/configmaps"), params).is_ok());
    }
    let old = case.get("old").map(|old| send(&server, "POST", &path, &object(case, old)));
    create_policy(&server, case);
    let answer = match (old, case.get("new")) {
        (None, new) => send(&server, "POST", &path, &object(case, new.unwrap())),
        (Some(old), Some(new)) => {
            let mut new = object(case, new);
            new["metadata"]["resourceVersion"] = old.body["metadata"]["resourceVersion"].clone();
            send(&server, "PUT", &format!("{path}/x"), &new)
        }
        (Some(_), None) => {
            let options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
            send(&server, "DELETE", &format!("{path}/x"), &options)
        }
    };
    let mut seen = case.as_object().unwrap().clone();
    for name in ["refused", "warnings", "becomes"] {
        seen.remove(name);
    }
    answer.add_warnings(&mut seen);
    if !answer.is_ok() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let body = &answer.body;
        let mut refused =
            json!({"code": answer.code, "reason": text(&body["reason"]), "message": text(&body["message"])});
        let causes = body["details"]["causes"].as_array().into_iter().flatten();
        let causes: Vec<Value> = causes
            .map(|cause| json!(["reason", "field", "message"].map(|name| text(&cause[name]))))
            .collect();
        if !causes.is_empty() {
            refused["causes"] = causes.into();
        }
        seen.insert("refused".into(), refused);
    } else if case.get("mutating").is_some() {
        let mut object = stable(answer.body);
        object.as_object_mut().unwrap().remove("status");
        seen.insert("becomes".into(), object);
    }
    seen.into()
}
