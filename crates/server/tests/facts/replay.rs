//! Replay of a case: its requests to a server in process, and the answers in the form of the facts.

use serde_json::{Map, Value, json};

use crate::harness::TestServer;

pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Fields of metadata that differ from one server to another, or that the replay itself sets.
const UNSTABLE: [&str; 7] =
    ["uid", "creationTimestamp", "generation", "resourceVersion", "managedFields", "name", "namespace"];

/// Wraps a value as the object of a case of rules without a root of its own.
pub fn body_of_rules(value: &Value) -> Value {
    json!({"v": value})
}

/// Sets the fields of a case, and removes those that are null.
pub fn merge(base: Value, more: Option<&Value>) -> Value {
    let Value::Object(mut fields) = base else { panic!("{base} is an object") };
    if let Some(more) = more {
        fields.extend(more.as_object().unwrap().clone());
        fields.retain(|_, value| !value.is_null());
    }
    Value::Object(fields)
}

fn definition(case: &Value, root: &Value) -> Value {
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": root}});
    let spec = json!({
        "group": "facts.example",
        "scope": "Cluster",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [merge(version, case.get("version"))],
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": merge(json!({"name": "things.facts.example"}), case.get("metadata")),
        "spec": merge(spec, case.get("spec")),
    })
}

/// Response of a server: its code, its body and its warnings.
pub struct Answer {
    pub code: u16,
    pub body: Value,
    warnings: Vec<String>,
}

impl Answer {
    pub fn is_ok(&self) -> bool {
        self.code < 300
    }

    /// The error, in the form of the facts: without its message if that is the usual one.
    fn refused(&self, object: &str) -> Value {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut refused = json!({"code": self.code, "reason": text(&self.body["reason"])});
        let message = text(&self.body["message"]);
        let causes = self.body["details"]["causes"].as_array().cloned().unwrap_or_default();
        let mut causes: Vec<[String; 3]> = causes
            .iter()
            .map(|cause| [text(&cause["reason"]), text(&cause["field"]), text(&cause["message"])])
            .collect();
        if message == usual_message(object, &causes) {
            // Upstream visits the properties of a schema in any order.
            causes.sort_by(|[_, field, _], [_, other, _]| field.cmp(other));
        } else {
            refused["message"] = message.into();
        }
        if !causes.is_empty() {
            refused["causes"] = json!(causes);
        }
        refused
    }

    pub fn add_warnings(&self, to: &mut Map<String, Value>) {
        if !self.warnings.is_empty() {
            to.insert("warnings".into(), json!(self.warnings));
        }
    }
}

/// The message of causes: that of an object of a kind, which is `Kind.group "name"`.
fn usual_message(object: &str, causes: &[[String; 3]]) -> String {
    let lines: Vec<String> = causes.iter().map(|[_, field, text]| format!("{field}: {text}")).collect();
    match &lines[..] {
        [line] => format!("{object} is invalid: {line}"),
        lines => format!("{object} is invalid: [{}]", lines.join(", ")),
    }
}

/// Text of a warning without its code and its quotation marks.
fn warning_text(header: &str) -> String {
    let quoted = header.strip_prefix("299 - \"").and_then(|rest| rest.strip_suffix('"')).unwrap_or(header);
    quoted.replace("\\\"", "\"").replace("\\\\", "\\")
}

/// Sends a request with a body in JSON.
pub fn send(server: &TestServer, method: &str, path: &str, body: &Value) -> Answer {
    let reply = server.send(
        method,
        path,
        body.to_string(),
        &[("content-type", "application/json"), ("user-agent", "facts")],
    );
    let warnings = reply.warnings().iter().map(|header| warning_text(header)).collect();
    Answer { code: reply.code, body: serde_json::from_slice(&reply.body).unwrap_or_default(), warnings }
}

/// Establishes a definition, as the controllers do.
pub fn establish(server: &TestServer, definition: &Value) {
    let condition = |ty: &str| json!({"type": ty, "status": "True", "reason": "Test", "message": "", "lastTransitionTime": "2023-11-14T22:13:20Z"});
    let status = json!({"status": {
        "acceptedNames": definition["spec"]["names"],
        "storedVersions": ["v1"],
        "conditions": [condition("NamesAccepted"), condition("Established")],
    }});
    let name = definition["metadata"]["name"].as_str().unwrap();
    let (code, answer) = server.call("PATCH", &format!("{DEFINITIONS}/{name}/status"), &status.to_string());
    assert_eq!(code, 200, "{}", setpoint_api::json::to_text(&answer));
}

/// An object without what every object has and without unstable metadata.
pub fn stable(mut object: Value) -> Value {
    let fields = object.as_object_mut().unwrap();
    fields.remove("apiVersion");
    fields.remove("kind");
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| !UNSTABLE.contains(&name.as_str()));
        if metadata.is_empty() {
            fields.remove("metadata");
        }
    }
    object
}

/// Creates a definition and then the objects of its steps. Returns the case with the answers.
pub fn replay_definition(
    case: &Value,
    root: &Value,
    wrap: impl Fn(&Value) -> Value,
    unwrap: impl Fn(&Value) -> Value,
) -> Value {
    let server = TestServer::new();
    let mut seen = case.as_object().unwrap().clone();
    for answer in ["refused", "warnings", "steps"] {
        seen.remove(answer);
    }
    let created = send(&server, "POST", DEFINITIONS, &definition(case, root));
    created.add_warnings(&mut seen);
    if !created.is_ok() {
        let object = "CustomResourceDefinition.apiextensions.k8s.io \"things.facts.example\"";
        seen.insert("refused".into(), created.refused(object));
        return seen.into();
    }
    let Some(steps) = case.get("steps") else { return seen.into() };
    establish(&server, &created.body);
    let steps = steps.as_array().unwrap().iter().enumerate();
    let replayed: Vec<Value> = steps
        .map(|(at, step)| {
            let full = |value: &Value| object(wrap(value), &created.body, at);
            let name = format!("Thing.facts.example \"x{at}\"");
            replay_step(&server, step, &name, full, &unwrap)
        })
        .collect();
    seen.insert("steps".into(), replayed.into());
    seen.into()
}

/// The body of an object: with a name and a type, unless it has its own.
fn object(mut body: Value, definition: &Value, at: usize) -> Value {
    let fields = body.as_object_mut().unwrap();
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.entry("name").or_insert_with(|| format!("x{at}").into());
    }
    let group = definition["spec"]["group"].as_str().unwrap();
    fields.entry("apiVersion").or_insert_with(|| format!("{group}/v1").into());
    fields.entry("kind").or_insert_with(|| definition["spec"]["names"]["kind"].clone());
    body
}

/// Creates the object of a step, or its old object and then updates it.
fn replay_step(
    server: &TestServer,
    step: &Value,
    name: &str,
    full: impl Fn(&Value) -> Value,
    unwrap: &impl Fn(&Value) -> Value,
) -> Value {
    const THINGS: &str = "/apis/facts.example/v1/things";
    let mut seen = json!({"new": step["new"]}).as_object().unwrap().clone();
    let answer = match step.get("old") {
        None => send(server, "POST", THINGS, &full(&step["new"])),
        Some(old) => {
            seen.insert("old".into(), old.clone());
            let old = send(server, "POST", THINGS, &full(old));
            assert!(old.is_ok(), "{}", old.body);
            let mut new = full(&step["new"]);
            new["metadata"]["resourceVersion"] = old.body["metadata"]["resourceVersion"].clone();
            let path = format!("{THINGS}/{}", old.body["metadata"]["name"].as_str().unwrap());
            send(server, "PUT", &path, &new)
        }
    };
    answer.add_warnings(&mut seen);
    if answer.is_ok() {
        let object = unwrap(&stable(answer.body));
        if object != step["new"] {
            seen.insert("becomes".into(), object);
        }
    } else {
        seen.insert("refused".into(), answer.refused(name));
    }
    seen.into()
}

/// Creates the policy or the webhook configuration of a case, in a dry run.
pub fn replay_policy(server: &TestServer, case: &Value) -> Value {
    let kind = case["kind"].as_str().unwrap();
    let resource = match kind {
        "ValidatingAdmissionPolicy" => "validatingadmissionpolicies",
        "MutatingAdmissionPolicy" => "mutatingadmissionpolicies",
        "ValidatingWebhookConfiguration" => "validatingwebhookconfigurations",
        _ => "mutatingwebhookconfigurations",
    };
    let base =
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "a"}});
    let body = match case.get("spec") {
        Some(spec) => merge(base, Some(&json!({"spec": merge(json!({}), Some(spec))}))),
        None => merge(base, Some(&json!({"webhooks": case["webhooks"]}))),
    };
    let path = format!("/apis/admissionregistration.k8s.io/v1/{resource}?dryRun=All");
    let answer = send(server, "POST", &path, &body);
    let mut seen = case.as_object().unwrap().clone();
    seen.remove("refused");
    seen.remove("warnings");
    answer.add_warnings(&mut seen);
    if !answer.is_ok() {
        let object = format!("{kind}.admissionregistration.k8s.io \"a\"");
        seen.insert("refused".into(), answer.refused(&object));
    }
    seen.into()
}
