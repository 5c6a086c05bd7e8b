//! Discovery, OpenAPI and metrics of custom kinds follow their definitions.

use setpoint_api::{Value, json};

use crate::harness::{Reply, TestServer};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const SCHEMA: &str = r#"{"type":"object","description":"A gadget.","properties":{
    "spec":{"type":"object","properties":{
        "size":{"type":"integer","minimum":1,"default":3},
        "free":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{"type":"string"}}},
        "port":{"x-kubernetes-int-or-string":true}}},
    "status":{"type":"object","properties":{"size":{"type":"integer"}}}}}"#;
const ESTABLISHED: &str = r#"{"type":"Established","status":"True","reason":"InitialNamesAccepted","message":"","lastTransitionTime":"2023-11-14T22:13:20Z"}"#;

fn version(name: &str, is_served: bool, is_storage: bool, schema: &str) -> String {
    format!(
        r#"{{"name":"{name}","served":{is_served},"storage":{is_storage},"schema":{{"openAPIV3Schema":{schema}}},
        "subresources":{{"status":{{}},"scale":{{"specReplicasPath":".spec.size","statusReplicasPath":".status.size"}}}},
        "selectableFields":[{{"jsonPath":".spec.size"}}]}}"#
    )
}

fn names(plural: &str, kind: &str) -> String {
    format!(
        r#"{{"plural":"{plural}","singular":"{}","kind":"{kind}","listKind":"{kind}List","shortNames":["{}"],"categories":["all"]}}"#,
        kind.to_lowercase(),
        &plural[..2]
    )
}

/// Creates a definition in a group, and establishes it as the controllers do.
fn define(server: &TestServer, group: &str, plural: &str, kind: &str, versions: &[String]) {
    let (names, versions) = (names(plural, kind), versions.join(","));
    let body = format!(
        r#"{{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{{"name":"{plural}.{group}"}},
        "spec":{{"group":"{group}","scope":"Namespaced","names":{names},"versions":[{versions}]}}}}"#
    );
    server.create(DEFINITIONS, &body);
    let status = format!(
        r#"{{"status":{{"acceptedNames":{names},"storedVersions":["v1"],"conditions":[{ESTABLISHED}]}}}}"#
    );
    let (code, answer) = server.call("PATCH", &format!("{DEFINITIONS}/{plural}.{group}/status"), &status);
    assert_eq!(code, 200, "{}", json::to_text(&answer));
}

/// Server with gadgets in three versions.
fn defined() -> TestServer {
    let server = TestServer::new();
    let versions = [("v1beta1", false), ("v1", true), ("v2alpha1", false)]
        .map(|(name, is_storage)| version(name, true, is_storage, SCHEMA));
    define(&server, "example.com", "gadgets", "Gadget", &versions);
    server
}

fn texts<'a>(value: &'a Value, field: &str, name: &str) -> Vec<&'a str> {
    let list = value.get(field).and_then(Value::as_list).unwrap();
    list.iter().map(|entry| entry.str_at(&[name])).collect()
}

fn item<'a>(value: &'a Value, field: &str, path: &[&str], text: &str) -> Option<&'a Value> {
    let list = value.get(field).and_then(Value::as_list).unwrap_or_default();
    list.iter().find(|entry| entry.str_at(path) == text)
}

#[test]
fn group_is_discovered_with_its_versions_by_priority() {
    let server = defined();
    let groups = server.object("/apis");
    let names = texts(&groups, "groups", "name");
    assert_eq!(names.last(), Some(&"example.com"), "{names:?}");
    assert!(names.contains(&"apiextensions.k8s.io"));
    let group = server.object("/apis/example.com");
    assert_eq!(texts(&group, "versions", "version"), ["v1", "v1beta1", "v2alpha1"]);
    assert_eq!(group.str_at(&["preferredVersion", "groupVersion"]), "example.com/v1");
    let root = server.object("/");
    let paths = root.get("paths").and_then(Value::as_list).unwrap();
    assert!(paths.contains(&"/apis/example.com/v2alpha1".into()));
    assert_eq!(server.get("/apis/example.org").code, 404);
    assert_eq!(server.get("/apis/example.com/v3").code, 404);
}

#[test]
fn resources_are_discovered_with_names_and_subresources() {
    let server = defined();
    let list = server.object("/apis/example.com/v1");
    assert_eq!(texts(&list, "resources", "name"), ["gadgets", "gadgets/status", "gadgets/scale"]);
    let gadgets = item(&list, "resources", &["name"], "gadgets").unwrap();
    assert_eq!((gadgets.str_at(&["kind"]), gadgets.str_at(&["singularName"])), ("Gadget", "gadget"));
    assert_eq!(json::to_text(gadgets.get("shortNames").unwrap()), r#"["ga"]"#);
    assert_eq!(json::to_text(gadgets.get("categories").unwrap()), r#"["all"]"#);
    let hash = gadgets.str_at(&["storageVersionHash"]);
    let other = server.object("/apis/example.com/v1beta1");
    let other = item(&other, "resources", &["name"], "gadgets").unwrap();
    assert_eq!((hash.is_empty(), other.str_at(&["storageVersionHash"])), (false, hash));
    let scale = item(&list, "resources", &["name"], "gadgets/scale").unwrap();
    let kind = ["group", "version", "kind"].map(|field| scale.str_at(&[field]));
    assert_eq!(kind, ["autoscaling", "v1", "Scale"]);
}

#[test]
fn aggregated_discovery_changes_its_tag_with_the_definitions() {
    let server = TestServer::new();
    let before = server.get_as("/apis", AGGREGATED);
    define(&server, "example.com", "gadgets", "Gadget", &[version("v1", true, true, SCHEMA)]);
    let after = server.get_as("/apis", AGGREGATED);
    assert_ne!(before.header("etag"), after.header("etag"));
    let conditional = [("accept", AGGREGATED), ("if-none-match", after.header("etag"))];
    assert_eq!(server.send("GET", "/apis", "", &conditional).code, 304);
    let list = after.value();
    let group = item(&list, "items", &["metadata", "name"], "example.com").unwrap();
    let version = item(group, "versions", &["version"], "v1").unwrap();
    let gadgets = item(version, "resources", &["resource"], "gadgets").unwrap();
    assert_eq!(gadgets.str_at(&["responseKind", "group"]), "example.com");
    assert_eq!(texts(gadgets, "subresources", "subresource"), ["status", "scale"]);
    let (code, _) = server.call("DELETE", &format!("{DEFINITIONS}/gadgets.example.com"), "");
    assert_eq!(code, 200);
    let list = server.object("/apis/example.com/v1");
    let gadgets = item(&list, "resources", &["name"], "gadgets").unwrap();
    let verbs = json::to_text(gadgets.get("verbs").unwrap());
    assert_eq!(verbs, r#"["delete","deletecollection","get","list","watch"]"#, "in deletion");
}

fn openapi_v3(server: &TestServer, version: &str) -> Value {
    let index = server.object("/openapi/v3");
    let url = index.str_at(&["paths", &format!("apis/example.com/{version}"), "serverRelativeURL"]);
    let reply = server.get(url);
    assert_eq!(reply.code, 200, "{url}");
    assert_eq!(reply.header("cache-control"), "public, immutable");
    reply.value()
}

#[test]
fn openapi_v3_has_the_paths_and_schemas_of_a_custom_kind() {
    let server = defined();
    let document = openapi_v3(&server, "v1");
    let base = "/apis/example.com/v1/namespaces/{namespace}/gadgets";
    let methods = |path: &str| -> Vec<&str> {
        document
            .at(&["paths", path])
            .and_then(Value::as_map)
            .unwrap()
            .keys()
            .filter(|key| *key != "parameters")
            .collect()
    };
    assert_eq!(methods(base), ["delete", "get", "post"]);
    assert_eq!(methods(&format!("{base}/{{name}}")), ["delete", "get", "patch", "put"]);
    assert_eq!(methods(&format!("{base}/{{name}}/status")), ["get", "patch", "put"]);
    assert_eq!(methods(&format!("{base}/{{name}}/scale")), ["get", "patch", "put"]);
    assert_eq!(methods("/apis/example.com/v1/gadgets"), ["get"]);
    let post = document.at(&["paths", base, "post"]).unwrap();
    assert_eq!(post.str_at(&["operationId"]), "createExampleComV1NamespacedGadget");
    assert_eq!(post.str_at(&["x-kubernetes-group-version-kind", "kind"]), "Gadget");
    let schemas = document.at(&["components", "schemas"]).unwrap();
    let gadget = schemas.get("com.example.v1.Gadget").unwrap();
    assert_eq!(gadget.str_at(&["description"]), "A gadget.");
    assert_eq!(gadget.at(&["properties", "spec", "properties", "size", "default"]), Some(&Value::Int(3)));
    let kinds = json::to_text(gadget.get("x-kubernetes-group-version-kind").unwrap());
    assert_eq!(kinds, r#"[{"group":"example.com","kind":"Gadget","version":"v1"}]"#);
    let fields = json::to_text(gadget.get("x-kubernetes-selectable-fields").unwrap());
    assert_eq!(fields, r#"[{"fieldPath":"spec.size"}]"#);
    let list = schemas.get("com.example.v1.GadgetList").unwrap();
    let items = list.str_at(&["properties", "items", "items", "$ref"]);
    assert_eq!(items, "#/components/schemas/com.example.v1.Gadget");
    for name in ["ObjectMeta", "ListMeta", "DeleteOptions", "Status", "Patch"] {
        let name = format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}");
        assert!(schemas.get(&name).is_some(), "{name}");
    }
    assert!(schemas.get("io.k8s.api.autoscaling.v1.Scale").is_some());
}

fn openapi_v2(server: &TestServer) -> (Reply, Value) {
    let reply = server.get("/openapi/v2");
    let definitions = reply.value().get("definitions").cloned().unwrap();
    (reply, definitions)
}

#[test]
fn openapi_v2_follows_the_versions_of_a_definition() {
    let server = defined();
    let (reply, definitions) = openapi_v2(&server);
    for version in ["v1", "v1beta1", "v2alpha1"] {
        let gadget = definitions.get(&format!("com.example.{version}.Gadget")).unwrap();
        let size = gadget.at(&["properties", "spec", "properties", "size"]).unwrap();
        assert_eq!(size.str_at(&["type"]), "integer", "{version}");
        assert!(size.get("minimum").is_some() && size.get("default").is_none(), "{version}");
        let free = gadget.at(&["properties", "spec", "properties", "free"]).unwrap();
        assert_eq!(json::to_text(free), r#"{"x-kubernetes-preserve-unknown-fields":true}"#);
    }
    assert!(definitions.get("io.k8s.api.core.v1.Pod").is_some());
    let tag = reply.header("etag").to_owned();
    assert_eq!(server.send("GET", "/openapi/v2", "", &[("if-none-match", &tag)]).code, 304);
    let versions = [
        version("v1", true, true, SCHEMA),
        version("v2", true, false, SCHEMA),
        version("v1beta1", false, false, SCHEMA),
    ];
    let patch = format!(r#"{{"spec":{{"versions":[{}]}}}}"#, versions.join(","));
    let (code, answer) = server.call("PATCH", &format!("{DEFINITIONS}/gadgets.example.com"), &patch);
    assert_eq!(code, 200, "{}", json::to_text(&answer));
    let (reply, definitions) = openapi_v2(&server);
    assert_ne!(reply.header("etag"), tag);
    let has = |version: &str| definitions.get(&format!("com.example.{version}.Gadget")).is_some();
    assert_eq!(["v1", "v2", "v1beta1", "v2alpha1"].map(has), [true, true, false, false]);
    let gnostic = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let gnostic = server.get_as("/openapi/v2", gnostic);
    let name = b"com.example.v2.Gadget";
    assert!(gnostic.body.windows(name.len()).any(|bytes| bytes == name));
}

#[test]
fn kinds_share_a_group_version_and_root_may_preserve_unknown_fields() {
    let server = defined();
    let open = r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":
        {"spec":{"type":"object","properties":{"size":{"type":"string"}}}}}"#;
    define(&server, "example.com", "widgets", "Widget", &[version("v1", true, true, open)]);
    let before = openapi_v3(&server, "v1");
    let schemas = before.at(&["components", "schemas"]).unwrap();
    assert!(schemas.get("com.example.v1.Gadget").is_some());
    let widget = schemas.get("com.example.v1.Widget").unwrap();
    assert!(widget.at(&["properties", "spec"]).is_some(), "version 3 keeps the known fields");
    let (_, definitions) = openapi_v2(&server);
    let widget = definitions.get("com.example.v1.Widget").unwrap();
    assert_eq!((widget.str_at(&["type"]), widget.get("properties")), ("object", None));
}

#[test]
fn requests_events_and_objects_of_custom_kinds_are_counted() {
    let server = defined();
    let path = "/apis/example.com/v1/namespaces/default/gadgets";
    let mut watch = server.watch(&format!("{path}?watch=1"), "application/json");
    server
        .create(path, r#"{"kind":"Gadget","apiVersion":"example.com/v1","metadata":{"name":"g"},"spec":{}}"#);
    assert_eq!(server.ready_frames(&mut *watch).len(), 1);
    let metrics = server.get("/metrics");
    let metrics = metrics.text();
    for line in [
        r#"apiserver_request_total{verb="POST",group="example.com",version="v1",resource="gadgets",subresource="","#,
        r#"apiserver_watch_events_total{group="example.com",version="v1",resource="gadgets"} 1"#,
        r#"apiserver_storage_objects{resource="gadgets.example.com"} 1"#,
    ] {
        assert_eq!(metrics.matches(line).count(), 1, "{line}");
    }
}
