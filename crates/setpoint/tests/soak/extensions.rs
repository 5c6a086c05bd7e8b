//! Hostile extensions: definitions with huge schemas, patterns that blow up and rules near their budget, their instances,
//! costly admission policies, and a webhook that hangs. All of them concern the namespace `hostile` only.

use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};

use super::send;
use crate::webhook_server::HookServer;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MAPS: &str = "/api/v1/namespaces/hostile/configmaps";
const WIDGETS: &str = "/apis/hostile.example.com/v1/namespaces/hostile/widgets";
const JSON: &str = "application/json";
/// Pattern of 30,000 states.
const LARGE_PATTERN: &str = "((a{1000}){10}){3}";
/// Number of elements that a rule compares with each other.
const ELEMENTS: usize = 400;

/// A costly request, and the codes of its responses.
pub struct Attack {
    pub method: &'static str,
    pub path: String,
    pub content_type: &'static str,
    pub body: Vec<u8>,
    pub codes: &'static [u16],
}

fn post(path: &str, body: &Value, codes: &'static [u16]) -> Attack {
    let path = format!("{path}?dryRun=All");
    Attack { method: "POST", path, content_type: JSON, body: body.to_string().into_bytes(), codes }
}

/// Definition whose spec has this schema.
fn definition(plural: &str, spec: &Value) -> Value {
    json!({
        "metadata": {"name": format!("{plural}.hostile.example.com")},
        "spec": {
            "group": "hostile.example.com", "scope": "Namespaced",
            "names": {"plural": plural, "kind": format!("{plural}-kind").replace('-', "")},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}],
        },
    })
}

/// Object with properties `f0`, `f1`, ….
fn properties(count: usize, property: impl Fn(usize) -> Value) -> Value {
    let properties: serde_json::Map<_, _> = (0..count).map(|at| (format!("f{at}"), property(at))).collect();
    json!({"type": "object", "properties": properties})
}

/// List of numbers with a rule that compares all of them with each other.
fn compared_list(rules: usize) -> Value {
    let rule = |at: usize| json!({"rule": format!("self.all(x, self.all(y, x <= y + {}))", at + 1)});
    let rules: Vec<Value> = (0..rules).map(rule).collect();
    json!({"type": "array", "maxItems": ELEMENTS, "items": {"type": "integer"}, "x-kubernetes-validations": rules})
}

/// Creates what the attacks need.
pub async fn prepare(client: &Client, hook: &HookServer) {
    let create = async |path: &str, object: &Value| {
        let code = send(client, "POST", path, JSON, JSON, object.to_string().into_bytes()).await;
        assert_eq!(code, 201, "{path}");
    };
    create("/api/v1/namespaces", &json!({"metadata": {"name": "hostile"}})).await;
    let spec = json!({"type": "object", "properties": {"numbers": compared_list(1)}});
    create(DEFINITIONS, &definition("widgets", &spec)).await;
    while send(client, "GET", WIDGETS, JSON, JSON, Vec::new()).await != 200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let place = json!({"matchLabels": {"kubernetes.io/metadata.name": "hostile"}});
    let maps =
        json!({"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]});
    let expression = "object.data.text.split('').all(x, object.data.text.split('').exists(y, x == y))";
    let policy = json!({
        "metadata": {"name": "hostile"},
        "spec": {
            "matchConstraints": {"namespaceSelector": place, "resourceRules": [maps],
                "objectSelector": {"matchLabels": {"attack": "policy"}}},
            "validations": [{"expression": expression}],
        },
    });
    create(POLICIES, &policy).await;
    let spec = json!({"policyName": "hostile", "validationActions": ["Deny"]});
    create(BINDINGS, &json!({"metadata": {"name": "hostile"}, "spec": spec})).await;
    let webhook = json!({
        "metadata": {"name": "hostile"},
        "webhooks": [{
            "name": "hang.hostile.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": hook.url, "caBundle": hook.ca_bundle}, "rules": [maps],
            "namespaceSelector": place, "objectSelector": {"matchLabels": {"attack": "webhook"}},
            "timeoutSeconds": 1, "failurePolicy": "Ignore",
        }],
    });
    create(WEBHOOKS, &webhook).await;
}

/// All attacks. None of them writes an object, except that the policy is changed again and again.
pub fn attacks() -> Vec<Attack> {
    let text = json!({"type": "string"});
    let pattern = |at: usize| json!({"type": "string", "pattern": format!("{at}{LARGE_PATTERN}")});
    let map = |attack: &str, text: String| json!({"metadata": {"name": attack, "labels": {"attack": attack}}, "data": {"text": text}});
    // Within the budget of a rule, but not by much: 400 would exceed it.
    let numbers = vec![1; 330];
    let widget = json!({"apiVersion": "hostile.example.com/v1", "kind": "widgetskind",
        "metadata": {"name": "w"}, "spec": {"numbers": numbers}});
    let patch = json!({"metadata": {"annotations": {"round": "ROUND"}}}).to_string().into_bytes();
    vec![
        post(DEFINITIONS, &definition("huge", &properties(30_000, |_| text.clone())), &[201]),
        post(DEFINITIONS, &definition("larger", &properties(100_001, |_| json!({}))), &[422]),
        post(DEFINITIONS, &definition("patterns", &properties(2_000, pattern)), &[422]),
        post(DEFINITIONS, &definition("rules", &properties(20, |_| compared_list(4))), &[201]),
        post(WIDGETS, &widget, &[201]),
        post(MAPS, &map("policy", "x".repeat(1_000)), &[201]),
        post(MAPS, &map("webhook", String::new()), &[201]),
        Attack {
            method: "PATCH",
            path: format!("{POLICIES}/hostile"),
            content_type: "application/merge-patch+json",
            body: patch,
            codes: &[200],
        },
    ]
}
