//! Selectable fields of custom resources: objects are selected by what clients see, not by what was stored with them.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use setpoint_api::{Value, json};
use setpoint_server::exchange::Frames;

use crate::harness::TestServer;
use crate::names;
use crate::webhook_server::{HookReply, HookServer, convert_objects};

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
const V1: &str = "/apis/example.com/v1/namespaces/default/widgets";
const V2: &str = "/apis/example.com/v2/namespaces/default/widgets";

/// A version with these properties of `spec` and selectable fields.
fn version(name: &str, storage: bool, properties: &str, selectable: &[&str]) -> String {
    let selectable: Vec<String> =
        selectable.iter().map(|path| format!(r#"{{"jsonPath":"{path}"}}"#)).collect();
    format!(
        r#"{{"name":"{name}","served":true,"storage":{storage},"selectableFields":[{}],
            "schema":{{"openAPIV3Schema":{{"type":"object","properties":{{
                "spec":{{"type":"object","default":{{}},"properties":{{{properties}}}}}}}}}}}}}"#,
        selectable.join(",")
    )
}

/// Definition of widgets with these versions.
fn definition(versions: &[String], conversion: &str) -> String {
    format!(
        r#"{{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1",
        "metadata":{{"name":"widgets.example.com"}},"spec":{{"group":"example.com","scope":"Namespaced",
        "names":{{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"}},
        {conversion}"versions":[{}]}}}}"#,
        versions.join(",")
    )
}

/// Creates or replaces the definition, and establishes it as the controllers do.
fn define(server: &TestServer, definition: &str) {
    let (code, old) = server.call("GET", DEFINITION, "");
    if code == 200 {
        let mut new = json::parse(definition.as_bytes()).unwrap();
        let revision = old.str_at(&["metadata", "resourceVersion"]).to_owned();
        new.ensure_map("metadata").insert("resourceVersion", revision);
        let (code, answer) = server.call("PUT", DEFINITION, &json::to_text(&new));
        assert_eq!(code, 200, "{}", json::to_text(&answer));
        return;
    }
    server.create(DEFINITION.trim_end_matches("/widgets.example.com"), definition);
    let status = r#"{"status":{"acceptedNames":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
        "storedVersions":["v1"],"conditions":[
        {"type":"NamesAccepted","status":"True","reason":"NoConflicts","message":"","lastTransitionTime":"2023-11-14T22:13:20Z"},
        {"type":"Established","status":"True","reason":"InitialNamesAccepted","message":"","lastTransitionTime":"2023-11-14T22:13:20Z"}]}}"#;
    let (code, answer) = server.call("PATCH", &format!("{DEFINITION}/status"), status);
    assert_eq!(code, 200, "{}", json::to_text(&answer));
}

fn widget(version: &str, name: &str, spec: &str) -> String {
    format!(
        r#"{{"kind":"Widget","apiVersion":"example.com/{version}","metadata":{{"name":"{name}"}},"spec":{spec}}}"#
    )
}

fn selected(server: &TestServer, path: &str, selector: &str) -> Vec<String> {
    names(&server.object(&format!("{path}?fieldSelector={}", selector.replace('=', "%3D"))))
        .iter()
        .map(|name| (*name).to_owned())
        .collect()
}

/// The next events of a watch: type and name.
fn next_events(server: &TestServer, frames: &mut dyn Frames, count: usize) -> Vec<(String, String)> {
    let mut text = Vec::new();
    server.runtime.block_on(async {
        let next = async {
            while text.iter().filter(|byte| **byte == b'\n').count() < count {
                let Some(frame) = poll_fn(|context| frames.poll_frame(context)).await else { break };
                text.extend_from_slice(&frame);
            }
        };
        tokio::time::timeout(Duration::from_secs(60), next).await.expect("the watch sends its events");
    });
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let event = |line| {
        let event = json::parse(line).unwrap();
        let name = event.str_at(&["object", "metadata", "name"]).to_owned();
        (event.str_at(&["type"]).to_owned(), name)
    };
    lines.map(event).collect()
}

fn event(word: &str, name: &str) -> (String, String) {
    (word.to_owned(), name.to_owned())
}

const COLOR: &str = r#""color":{"type":"string"},"size":{"type":"integer"}"#;
const COLOR_WITH_DEFAULT: &str = r#""color":{"type":"string","default":"red"},"size":{"type":"integer"}"#;

#[test]
fn objects_of_an_older_definition_are_selected_by_new_fields_and_defaults() {
    let server = TestServer::new();
    define(&server, &definition(&[version("v1", true, COLOR, &[])], ""));
    server.create(V1, &widget("v1", "bare", r#"{"size":1}"#));
    server.create(V1, &widget("v1", "green", r#"{"color":"green"}"#));
    define(&server, &definition(&[version("v1", true, COLOR, &[".spec.color"])], ""));
    assert_eq!(selected(&server, V1, "spec.color=green"), ["green"], "a new selectable field");
    assert_eq!(selected(&server, V1, "spec.color="), ["bare"]);
    let both = [".spec.color", ".spec.size"];
    define(&server, &definition(&[version("v1", true, COLOR_WITH_DEFAULT, &both)], ""));
    assert_eq!(selected(&server, V1, "spec.color=red"), ["bare"], "a new default");
    assert_eq!(selected(&server, V1, "spec.color!=red"), ["green"]);
    assert_eq!(selected(&server, V1, "spec.color=red,spec.size=1"), ["bare"]);
    server.create(V1, &widget("v1", "new", "{}"));
    assert_eq!(selected(&server, V1, "spec.color=red"), ["bare", "new"], "stored fields of new objects");
    assert_eq!(selected(&server, V1, "spec.color=red,metadata.name=new"), ["new"]);
    let page = server.object(&format!("{V1}?fieldSelector=spec.color%3Dred&limit=1"));
    let token = page.str_at(&["metadata", "continue"]).replace('=', "%3D");
    let rest = server.object(&format!("{V1}?fieldSelector=spec.color%3Dred&limit=1&continue={token}"));
    assert_eq!((names(&page), names(&rest)), (vec!["bare"], vec!["new"]));
    let (code, _) = server.call("DELETE", &format!("{V1}?fieldSelector=spec.color%3Dred"), "");
    assert_eq!((code, names(&server.object(V1))), (200, vec!["green"]), "a selective delete");
}

#[test]
fn watch_selects_objects_of_an_older_definition() {
    let server = TestServer::new();
    define(&server, &definition(&[version("v1", true, COLOR, &[])], ""));
    server.create(V1, &widget("v1", "old", r#"{"size":1}"#));
    server.create(V1, &widget("v1", "gone", r#"{"size":1}"#));
    define(&server, &definition(&[version("v1", true, COLOR_WITH_DEFAULT, &[".spec.color"])], ""));
    let revision = server.object(V1).str_at(&["metadata", "resourceVersion"]).to_owned();
    let red = format!("{V1}?watch=true&fieldSelector=spec.color%3Dred");
    let mut listed = server.watch(&red, "application/json");
    assert_eq!(next_events(&server, &mut *listed, 2), [event("ADDED", "gone"), event("ADDED", "old")]);
    let patch = |name: &str, spec: &str| {
        let (code, answer) = server.call("PATCH", &format!("{V1}/{name}"), &format!(r#"{{"spec":{spec}}}"#));
        assert_eq!(code, 200, "{}", json::to_text(&answer));
    };
    patch("old", r#"{"color":"green"}"#);
    patch("old", r#"{"size":2}"#);
    server.call("DELETE", &format!("{V1}/gone"), "");
    patch("old", r#"{"color":null}"#);
    let expected = [event("DELETED", "old"), event("DELETED", "gone"), event("ADDED", "old")];
    assert_eq!(
        next_events(&server, &mut *listed, 3),
        expected,
        "the first two were stored without the field"
    );
    let mut resumed = server.watch(&format!("{red}&resourceVersion={revision}"), "application/json");
    assert_eq!(next_events(&server, &mut *resumed, 3), expected);
}

#[test]
fn long_watch_rests_between_events_that_it_does_not_select() {
    let server = TestServer::new();
    define(&server, &definition(&[version("v1", true, COLOR, &[".spec.color"])], ""));
    let filler = "x".repeat(20_000);
    let mut last =
        server.watch(&format!("{V1}?watch=true&fieldSelector=spec.color%3Dred"), "application/json");
    for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
        server.create(V1, &widget("v1", name, &format!(r#"{{"color":"{filler}"}}"#)));
    }
    server.create(V1, &widget("v1", "z", r#"{"color":"red"}"#));
    assert_eq!(next_events(&server, &mut *last, 1), [event("ADDED", "z")]);
    let mut listed =
        server.watch(&format!("{V1}?watch=true&fieldSelector=spec.color%3Dred"), "application/json");
    assert_eq!(next_events(&server, &mut *listed, 1), [event("ADDED", "z")]);
}

#[test]
fn each_version_has_its_own_selectable_fields() {
    let server = TestServer::new();
    let other = r#""color":{"type":"string","default":"blue"},"shape":{"type":"string"}"#;
    let versions =
        [version("v1", true, COLOR, &[".spec.color"]), version("v2", false, other, &[".spec.shape"])];
    define(&server, &definition(&versions, ""));
    server.create(V1, &widget("v1", "a", r#"{"color":"green"}"#));
    server.create(V2, &widget("v2", "b", r#"{"color":"green","shape":"round"}"#));
    assert_eq!(selected(&server, V1, "spec.color=green"), ["a", "b"], "written in either version");
    assert_eq!(selected(&server, V2, "spec.shape=round"), ["b"]);
    for (path, field) in [(V1, "spec.shape"), (V2, "spec.color"), (V1, "spec.size"), (V1, "status.phase")] {
        for more in ["", "&watch=true"] {
            let (code, status) = server.call("GET", &format!("{path}?fieldSelector={field}%3Dx{more}"), "");
            let expected = format!("field label not supported: {field}");
            assert_eq!((code, status.str_at(&["message"])), (400, expected.as_str()));
        }
    }
}

/// A server whose widgets a webhook converts: `host` in v1 is `address` in v2. It fails once the switch is set.
fn converted() -> (TestServer, HookServer, Arc<AtomicBool>) {
    let is_down = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&is_down);
    let hook = HookServer::start(move |review| {
        if switch.load(Ordering::SeqCst) {
            return HookReply::Close;
        }
        convert_objects(review, |object, api_version| {
            let (from, to) = match api_version {
                "example.com/v2" => ("host", "address"),
                _ => ("address", "host"),
            };
            let mut object = object.clone();
            object.make_map().insert("apiVersion", api_version);
            let moved = object.at(&["spec", from]).cloned();
            let spec = object.ensure_map("spec");
            spec.remove(from);
            if let Some(moved) = moved {
                spec.insert(to, moved);
            }
            object
        })
    });
    let server = TestServer::new();
    define(&server, &with_storage("v1", &hook));
    (server, hook, is_down)
}

fn with_storage(storage: &str, hook: &HookServer) -> String {
    let conversion = format!(
        r#""conversion":{{"strategy":"Webhook","webhook":{{"conversionReviewVersions":["v1"],
            "clientConfig":{{"url":"{}","caBundle":"{}"}}}}}},"#,
        hook.url, hook.ca_bundle
    );
    let versions = [
        version("v1", storage == "v1", r#""host":{"type":"string"}"#, &[".spec.host"]),
        version("v2", storage == "v2", r#""address":{"type":"string"}"#, &[".spec.address"]),
    ];
    definition(&versions, &conversion)
}

#[test]
fn version_that_a_webhook_converts_is_selected_by_its_fields() {
    let (server, hook, is_down) = converted();
    for (name, host) in [("a", "one"), ("b", "two"), ("c", "one"), ("d", "one")] {
        server.create(V1, &widget("v1", name, &format!(r#"{{"host":"{host}"}}"#)));
    }
    assert_eq!(selected(&server, V1, "spec.host=one"), ["a", "c", "d"]);
    assert_eq!(hook.requests().len(), 0, "the storage version needs no webhook");
    assert_eq!(selected(&server, V2, "spec.address=one"), ["a", "c", "d"]);
    assert_eq!(hook.requests().len(), 1, "one call for all candidates");
    let first = server.object(&format!("{V2}?fieldSelector=spec.address%3Done&limit=2"));
    let token = first.str_at(&["metadata", "continue"]).replace('=', "%3D");
    let rest = server.object(&format!("{V2}?fieldSelector=spec.address%3Done&limit=2&continue={token}"));
    assert_eq!((names(&first), names(&rest)), (vec!["a", "c"], vec!["d"]));
    assert_eq!(rest.str_at(&["metadata", "continue"]), "");
    let table = server.get_as(
        &format!("{V2}?fieldSelector=spec.address%3Dtwo"),
        "application/json;as=Table;v=v1;g=meta.k8s.io",
    );
    assert_eq!(table.value().get("rows").and_then(Value::as_list).unwrap().len(), 1);
    define(&server, &with_storage("v2", &hook));
    assert_eq!(selected(&server, V2, "spec.address=two"), ["b"], "stored in the former storage version");
    assert_eq!(selected(&server, V1, "spec.host=two"), ["b"]);
    let (code, _) = server.call("DELETE", &format!("{V2}?fieldSelector=spec.address%3Done"), "");
    assert_eq!((code, names(&server.object(V1))), (200, vec!["b"]));
    is_down.store(true, Ordering::SeqCst);
    let path = format!("{V2}?fieldSelector=spec.address%3Dother");
    server.create(V2, &widget("v2", "new", r#"{"address":"two"}"#));
    define(&server, &with_storage("v1", &hook));
    let (code, status) = server.call("GET", &path, "");
    assert_eq!(code, 500, "{}", json::to_text(&status));
    assert!(status.str_at(&["message"]).starts_with("conversion webhook for example.com/"));
    let (code, _) = server.call("DELETE", V2, "");
    assert_eq!(code, 200, "a delete without such a selector needs no webhook");
}

#[test]
fn watch_of_a_converted_version_follows_its_fields() {
    let (server, _hook, _) = converted();
    for (name, host) in [("a", "one"), ("b", "two")] {
        server.create(V1, &widget("v1", name, &format!(r#"{{"host":"{host}"}}"#)));
    }
    let revision = server.object(V1).str_at(&["metadata", "resourceVersion"]).to_owned();
    let path = format!("{V2}?watch=true&fieldSelector=spec.address%3Done");
    let mut listed = server.watch(&path, "application/json");
    assert_eq!(next_events(&server, &mut *listed, 1), [event("ADDED", "a")]);
    let patch = |name: &str, host: &str| {
        let body = format!(r#"{{"spec":{{"host":"{host}"}}}}"#);
        assert_eq!(server.call("PATCH", &format!("{V1}/{name}"), &body).0, 200);
    };
    patch("b", "three");
    patch("b", "one");
    patch("a", "two");
    patch("a", "three");
    let labels = r#"{"metadata":{"labels":{"x":"y"}}}"#;
    assert_eq!(server.call("PATCH", &format!("{V1}/b"), labels).0, 200);
    server.call("DELETE", &format!("{V1}/a"), "");
    server.call("DELETE", &format!("{V1}/b"), "");
    let expected =
        [event("ADDED", "b"), event("DELETED", "a"), event("MODIFIED", "b"), event("DELETED", "b")];
    assert_eq!(next_events(&server, &mut *listed, 4), expected);
    let mut resumed = server.watch(&format!("{path}&resourceVersion={revision}"), "application/json");
    assert_eq!(next_events(&server, &mut *resumed, 4), expected);
}
