//! Custom resources through the API: served by their definition, in every version, until it is gone.

use setpoint_api::{Value, json, protobuf};

use crate::harness::TestServer;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const WIDGETS_V2: &str = "/apis/example.com/v2/namespaces/default/widgets";
const SCHEMA: &str = r#"{"type":"object","properties":{
    "spec":{"type":"object","required":["size"],"properties":{
        "size":{"type":"integer","minimum":1,"maximum":10},
        "color":{"type":"string","default":"red"},
        "ports":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],
            "items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"port":{"type":"integer"}}}}}},
    "status":{"type":"object","properties":{"size":{"type":"integer"},"note":{"type":"string"}}}}}"#;

/// Definition of widgets with these versions, each with its schema.
fn definition(versions: &[(&str, &str)]) -> String {
    let versions: Vec<String> = versions
        .iter()
        .enumerate()
        .map(|(at, (name, schema))| {
            format!(
                r#"{{"name":"{name}","served":true,"storage":{},"schema":{{"openAPIV3Schema":{schema}}},
                "subresources":{{"status":{{}},"scale":{{"specReplicasPath":".spec.size","statusReplicasPath":".status.size"}}}},
                "selectableFields":[{{"jsonPath":".spec.{}"}}],
                "additionalPrinterColumns":[{{"name":"Size","type":"integer","jsonPath":".spec.size"}}]}}"#,
                at == 0,
                // Upstream rejects equal selectable fields of versions with different schemas.
                ["color", "name"][at]
            )
        })
        .collect();
    format!(
        r#"{{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{{"name":"widgets.example.com"}},
        "spec":{{"group":"example.com","scope":"Namespaced","names":{{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"}},
        "versions":[{}]}}}}"#,
        versions.join(",")
    )
}

fn widget(name: &str, spec: &str) -> String {
    format!(
        r#"{{"kind":"Widget","apiVersion":"example.com/v1","metadata":{{"name":"{name}"}},"spec":{spec}}}"#
    )
}

impl TestServer {
    /// Creates a definition, and establishes it as the controllers do.
    fn define(&self, definition: &str) {
        self.create(DEFINITIONS, definition);
        self.establish();
    }

    fn establish(&self) {
        let status = r#"{"status":{"acceptedNames":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
            "storedVersions":["v1"],"conditions":[
            {"type":"NamesAccepted","status":"True","reason":"NoConflicts","message":"","lastTransitionTime":"2023-11-14T22:13:20Z"},
            {"type":"Established","status":"True","reason":"InitialNamesAccepted","message":"","lastTransitionTime":"2023-11-14T22:13:20Z"}]}}"#;
        let (code, answer) = self.call("PATCH", &format!("{DEFINITIONS}/widgets.example.com/status"), status);
        assert_eq!(code, 200, "{}", json::to_text(&answer));
    }

    pub fn defined() -> TestServer {
        let server = TestServer::new();
        server.define(&definition(&[("v1", SCHEMA)]));
        server
    }
}

#[test]
fn kind_is_served_from_its_establishment_to_its_deletion() {
    let server = TestServer::new();
    server.create(DEFINITIONS, &definition(&[("v1", SCHEMA)]));
    assert_eq!(server.call("GET", WIDGETS, "").0, 404, "not established yet");
    let server = TestServer::defined();
    let made = server.create(WIDGETS, &widget("w", r#"{"size":3}"#));
    assert_eq!(made.str_at(&["spec", "color"]), "red", "defaults are set");
    assert_eq!(made.at(&["metadata", "generation"]), Some(&Value::Int(1)));
    assert_eq!(server.object(&format!("{WIDGETS}/w")), made);
    let (code, answer) = server.call("DELETE", &format!("{DEFINITIONS}/widgets.example.com"), "");
    assert_eq!(code, 200, "{}", json::to_text(&answer));
    let (code, refused) = server.call("POST", WIDGETS, &widget("x", r#"{"size":3}"#));
    assert_eq!(code, 405, "{}", json::to_text(&refused));
    assert!(refused.str_at(&["message"]).contains("terminating"), "{}", json::to_text(&refused));
}

#[test]
fn unknown_fields_are_pruned_and_reported() {
    let server = TestServer::defined();
    let body = widget("w", r#"{"size":3,"colour":"blue"}"#);
    let reply = server.send(
        "POST",
        &format!("{WIDGETS}?fieldValidation=Warn"),
        &body,
        &[("content-type", "application/json")],
    );
    assert_eq!(
        (reply.code, reply.warnings()),
        (201, vec![r#"299 - "unknown field \"spec.colour\"""#.into()])
    );
    assert!(reply.value().at(&["spec", "colour"]).is_none());
    let (code, strict) = server.call("POST", &format!("{WIDGETS}?fieldValidation=Strict"), &body);
    assert_eq!(code, 400, "{}", json::to_text(&strict));
    assert!(strict.str_at(&["message"]).contains(r#"strict decoding error: unknown field "spec.colour""#));
}

#[test]
fn invalid_objects_name_the_field() {
    let server = TestServer::defined();
    for (spec, field, text) in [
        (r#"{"size":0}"#, "spec.size", "should be greater than or equal to 1"),
        (r#"{"size":"x"}"#, "spec.size", "must be of type integer"),
        ("{}", "spec.size", "Required value"),
        (r#"{"size":1,"ports":[{"name":"a"},{"name":"a"}]}"#, "spec.ports[1]", "Duplicate value"),
    ] {
        let (code, status) = server.call("POST", WIDGETS, &widget("w", spec));
        let message = status.str_at(&["message"]);
        assert_eq!(code, 422, "{message}");
        assert!(message.contains(field) && message.contains(text), "{message}");
    }
}

#[test]
fn defaults_of_the_status_show_on_new_objects() {
    let server = TestServer::new();
    let status = r#""status":{"type":"object","default":{},"properties":{"size":{"type":"integer"},
        "note":{"type":"string","default":"new"}}}"#;
    let at = SCHEMA.find(r#""status""#).unwrap();
    server.define(&definition(&[("v1", &format!("{}{status}}}}}", &SCHEMA[..at]))]));
    let body = widget("w", r#"{"size":3},"status":{"note":"mine"}"#);
    let made = server.create(WIDGETS, &body);
    assert_eq!(made.str_at(&["status", "note"]), "new", "{}", json::to_text(&made));
    assert_eq!(server.object(&format!("{WIDGETS}/w")), made);
}

#[test]
fn replicas_of_the_scale_are_checked_with_the_object() {
    let server = TestServer::defined();
    let (code, refused) = server.call("POST", WIDGETS, &widget("w", r#"{"size":-1}"#));
    assert_eq!(code, 422);
    let message = refused.str_at(&["message"]);
    assert!(message.contains(".spec.size: Invalid value: -1: should be a non-negative integer"), "{message}");
    server.create(WIDGETS, &widget("w", r#"{"size":3}"#));
    let scale = |replicas: i32| {
        format!(
            r#"{{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{{"name":"w","namespace":"default"}},
                "spec":{{"replicas":{replicas}}}}}"#
        )
    };
    let (code, scaled) = server.call("PUT", &format!("{WIDGETS}/w/scale"), &scale(5));
    assert_eq!(code, 200, "an update without a revision: {}", json::to_text(&scaled));
    let (code, refused) = server.call("PUT", &format!("{WIDGETS}/w/scale"), &scale(-5));
    assert_eq!(code, 422);
    let message = refused.str_at(&["message"]);
    assert!(message.starts_with(r#"Widget.example.com "w" is invalid: [spec.size"#), "{message}");
}

#[test]
fn object_of_another_kind_is_invalid() {
    let server = TestServer::defined();
    let other = widget("w", r#"{"size":3}"#).replace("Widget", "Gadget");
    let (code, refused) = server.call("POST", WIDGETS, &other);
    let expected = r#"Gadget.example.com "w" is invalid: kind: Invalid value: "Gadget": must be Widget"#;
    assert_eq!((code, refused.str_at(&["message"])), (422, expected));
}

#[test]
fn status_and_spec_are_written_apart() {
    let server = TestServer::defined();
    server.create(WIDGETS, &widget("w", r#"{"size":3}"#));
    let path = format!("{WIDGETS}/w");
    let (code, done) =
        server.call("PATCH", &format!("{path}/status"), r#"{"spec":{"size":9},"status":{"size":2}}"#);
    assert_eq!(code, 200, "{}", json::to_text(&done));
    assert_eq!(done.at(&["spec", "size"]), Some(&Value::Int(3)));
    assert_eq!(done.at(&["status", "size"]), Some(&Value::Int(2)));
    assert_eq!(done.at(&["metadata", "generation"]), Some(&Value::Int(1)));
    let (_, done) = server.call("PATCH", &path, r#"{"spec":{"size":4},"status":{"size":7}}"#);
    assert_eq!(done.at(&["status", "size"]), Some(&Value::Int(2)));
    assert_eq!(done.at(&["metadata", "generation"]), Some(&Value::Int(2)));
}

#[test]
fn scale_reads_and_writes_the_fields_of_the_definition() {
    let server = TestServer::defined();
    server.create(WIDGETS, &widget("w", r#"{"size":3}"#));
    let path = format!("{WIDGETS}/w/scale");
    assert_eq!(server.object(&path).at(&["spec", "replicas"]), Some(&Value::Int(3)));
    let (code, scale) = server.call("PATCH", &path, r#"{"spec":{"replicas":5}}"#);
    assert_eq!((code, scale.at(&["spec", "replicas"])), (200, Some(&Value::Int(5))));
    assert_eq!(server.object(&format!("{WIDGETS}/w")).at(&["spec", "size"]), Some(&Value::Int(5)));
}

#[test]
fn apply_owns_items_of_map_lists_by_key() {
    let server = TestServer::defined();
    let apply = |manager: &str, ports: &str| {
        let body = widget("w", &format!(r#"{{"size":1,"ports":{ports}}}"#));
        let path = format!("{WIDGETS}/w?fieldManager={manager}");
        server.send("PATCH", &path, body, &[("content-type", "application/apply-patch+yaml")])
    };
    assert_eq!(apply("a", r#"[{"name":"http","port":80}]"#).code, 201);
    assert_eq!(apply("b", r#"[{"name":"https","port":443}]"#).code, 200);
    let widget = server.object(&format!("{WIDGETS}/w"));
    assert_eq!(widget.at(&["spec", "ports"]).unwrap().as_list().unwrap().len(), 2);
    let conflict = apply("b", r#"[{"name":"http","port":81}]"#);
    assert_eq!(conflict.code, 409, "{}", conflict.text());
    assert!(conflict.text().contains(r#"conflict with \"a\""#), "{}", conflict.text());
}

#[test]
fn new_defaults_show_on_objects_that_were_stored_before() {
    let server = TestServer::defined();
    server.create(WIDGETS, &widget("w", r#"{"size":3}"#));
    let more = SCHEMA.replace(r#""color":"#, r#""shape":{"type":"string","default":"round"},"color":"#);
    let patch =
        format!(r#"[{{"op":"replace","path":"/spec/versions/0/schema/openAPIV3Schema","value":{more}}}]"#);
    let reply = server.send(
        "PATCH",
        &format!("{DEFINITIONS}/widgets.example.com"),
        patch,
        &[("content-type", "application/json-patch+json")],
    );
    assert_eq!(reply.code, 200, "{}", reply.text());
    assert_eq!(server.object(&format!("{WIDGETS}/w")).str_at(&["spec", "shape"]), "round");
    let list = server.object(WIDGETS);
    assert_eq!(list.get("items").unwrap().as_list().unwrap()[0].str_at(&["spec", "shape"]), "round");
}

#[test]
fn versions_without_conversion_differ_in_their_schema_and_api_version() {
    let server = TestServer::new();
    let other = SCHEMA
        .replace(r#""default":"red""#, r#""default":"blue""#)
        .replace(r#""color":{"#, r#""name":{"type":"string"},"color":{"#);
    server.define(&definition(&[("v1", SCHEMA), ("v2", &other)]));
    let body = widget("w", r#"{"size":3}"#).replace("example.com/v1", "example.com/v2");
    let made = server.create(WIDGETS_V2, &body);
    assert_eq!((made.str_at(&["apiVersion"]), made.str_at(&["spec", "color"])), ("example.com/v2", "blue"));
    let first = server.object(&format!("{WIDGETS}/w"));
    assert_eq!((first.str_at(&["apiVersion"]), first.str_at(&["spec", "color"])), ("example.com/v1", "blue"));
    let list = server.object(WIDGETS_V2);
    let item = &list.get("items").unwrap().as_list().unwrap()[0];
    assert_eq!((item.str_at(&["apiVersion"]), item.str_at(&["kind"])), ("example.com/v2", "Widget"));
}

#[test]
fn fields_of_the_definition_select_objects() {
    let server = TestServer::defined();
    server.create(WIDGETS, &widget("a", r#"{"size":3}"#));
    server.create(WIDGETS, &widget("b", r#"{"size":3,"color":"green"}"#));
    let list = server.object(&format!("{WIDGETS}?fieldSelector=spec.color%3Dgreen"));
    assert_eq!(super::names(&list), ["b"]);
    let (code, status) = server.call("GET", &format!("{WIDGETS}?fieldSelector=spec.size%3D3"), "");
    assert_eq!(code, 400, "{}", json::to_text(&status));
    assert!(status.str_at(&["message"]).contains("field label not supported: spec.size"));
}

#[test]
fn tables_have_the_columns_of_the_definition() {
    let server = TestServer::defined();
    server.create(WIDGETS, &widget("w", r#"{"size":3}"#));
    let table = server.get_as(WIDGETS, "application/json;as=Table;v=v1;g=meta.k8s.io").value();
    let columns = table.get("columnDefinitions").unwrap().as_list().unwrap();
    let columns: Vec<&str> = columns.iter().map(|column| column.str_at(&["name"])).collect();
    assert_eq!(columns, ["Name", "Size"]);
    let row = &table.get("rows").unwrap().as_list().unwrap()[0];
    assert_eq!(json::to_text(row.get("cells").unwrap()), r#"["w",3]"#);
}

#[test]
fn watch_follows_custom_objects() {
    let server = TestServer::defined();
    let mut watch = server.watch(&format!("{WIDGETS}?watch=1"), "application/json");
    server.create(WIDGETS, &widget("w", r#"{"size":3}"#));
    let text = String::from_utf8(server.ready_frames(&mut *watch).concat()).unwrap();
    assert!(text.contains(r#""type":"ADDED""#) && text.contains(r#""kind":"Widget""#), "{text}");
}

#[test]
fn protobuf_and_strategic_merge_are_not_supported() {
    let server = TestServer::defined();
    let made = server.create(WIDGETS, &widget("w", r#"{"size":3}"#));
    let both = server.get_as(&format!("{WIDGETS}/w"), "application/vnd.kubernetes.protobuf,application/json");
    assert_eq!(both.value(), made, "JSON is chosen");
    assert_eq!(server.get_as(&format!("{WIDGETS}/w"), "application/vnd.kubernetes.protobuf").code, 406);
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    assert_eq!(server.send("PATCH", &format!("{WIDGETS}/w"), r#"{"spec":{"size":4}}"#, &strategic).code, 415);
    let (code, status) = server.call("PUT", &format!("{WIDGETS}/w"), &widget("w", r#"{"size":5}"#));
    assert_eq!(code, 422, "{}", json::to_text(&status));
    assert!(status.str_at(&["message"]).contains("metadata.resourceVersion"), "{}", json::to_text(&status));
}

#[test]
fn definition_is_created_in_protobuf() {
    let server = TestServer::new();
    let definition = json::parse(definition(&[("v1", SCHEMA)]).as_bytes()).unwrap();
    let schema = protobuf::find_definition("apiextensions.k8s.io/v1", "CustomResourceDefinition").unwrap();
    let body = protobuf::to_vec(&definition, schema);
    let form = [("content-type", "application/vnd.kubernetes.protobuf"), ("accept", "application/json")];
    let made = server.send("POST", DEFINITIONS, &body, &form);
    assert_eq!(made.code, 201, "{}", made.text());
    let made = made.value();
    assert_eq!(made.at(&["spec", "versions"]), definition.at(&["spec", "versions"]));
    assert_eq!(made.at(&["spec", "names"]), definition.at(&["spec", "names"]));
    server.establish();
    server.create(WIDGETS, &widget("w", r#"{"size":3}"#));
    let (code, refused) = server.call("POST", WIDGETS, &widget("x", r#"{"size":30}"#));
    assert_eq!(code, 422, "the schema applies: {}", json::to_text(&refused));
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let shown = server.get_as(&path, "application/vnd.kubernetes.protobuf");
    let shown = protobuf::decode(&shown.body).unwrap().value;
    assert_eq!(shown.at(&["spec", "versions"]), definition.at(&["spec", "versions"]));
}
