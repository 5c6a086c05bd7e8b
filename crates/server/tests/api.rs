//! API without sockets: requests and responses over an in-memory store.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "api/access_cost.rs"]
mod access_cost;
#[path = "api/admission.rs"]
mod admission;
#[path = "api/audit.rs"]
mod audit;
#[path = "api/authentication.rs"]
mod authentication;
#[path = "api/authorization_webhook.rs"]
mod authorization_webhook;
#[path = "api/budgets.rs"]
mod budgets;
#[path = "api/conversion.rs"]
mod conversion;
#[path = "api/costs.rs"]
mod costs;
#[path = "api/custom_documents.rs"]
mod custom_documents;
#[path = "api/custom_resources.rs"]
mod custom_resources;
#[path = "api/effects.rs"]
mod effects;
#[path = "api/fairness.rs"]
mod fairness;
#[path = "api/fuzz.rs"]
mod fuzz;
#[path = "api/hostile_credentials.rs"]
mod hostile_credentials;
#[path = "api/hostile_definitions.rs"]
mod hostile_definitions;
#[path = "api/hostile_requests.rs"]
mod hostile_requests;
#[path = "api/impersonation.rs"]
mod impersonation;
#[path = "api/issuer_server.rs"]
mod issuer_server;
#[path = "api/lists.rs"]
mod lists;
#[path = "api/node_access.rs"]
mod node_access;
#[path = "api/quota.rs"]
mod quota;
#[path = "api/reviews.rs"]
mod reviews;
#[path = "api/selectable_fields.rs"]
mod selectable_fields;
#[path = "api/strict_ownership.rs"]
mod strict_ownership;
#[path = "api/tokens.rs"]
mod tokens;
#[path = "api/usage.rs"]
mod usage;
#[path = "api/watches.rs"]
mod watches;
#[path = "api/webhook_server.rs"]
mod webhook_server;
#[path = "api/webhooks.rs"]
mod webhooks;
#[path = "api/words.rs"]
mod words;

#[path = "harness/test_server.rs"]
mod harness;

use std::time::Duration;

use harness::{MAPS, Reply, TestServer, request};
use setpoint_api::{Key, Resource, Value, json};
use setpoint_store::{Retention, Store};

impl TestServer {
    /// Creates a ConfigMap with `more` fields of its metadata.
    fn create_config_map(&self, name: &str, more: &str) -> Value {
        let metadata = format!(r#"{{"name":"{name}"{more}}}"#);
        let body =
            format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{metadata},"data":{{"k":"v"}}}}"#);
        self.create(MAPS, &body)
    }
}

fn names(list: &Value) -> Vec<&str> {
    let items = list.get("items").and_then(Value::as_list).unwrap();
    items.iter().map(|item| item.str_at(&["metadata", "name"])).collect()
}

#[test]
fn object_is_created_read_patched_and_deleted() {
    let server = TestServer::new();
    let made = server.create_config_map("x", "");
    assert!(!made.str_at(&["metadata", "uid"]).is_empty());
    let revision = made.str_at(&["metadata", "resourceVersion"]).to_owned();
    let (code, got) = server.call("GET", &format!("{MAPS}/x"), "");
    assert_eq!((code, &got), (200, &made), "what was answered is what is stored");
    let (code, patched) = server.call("PATCH", &format!("{MAPS}/x"), r#"{"data":{"k":"w"}}"#);
    assert_eq!((code, patched.str_at(&["data", "k"])), (200, "w"));
    assert_ne!(patched.str_at(&["metadata", "resourceVersion"]), revision);
    let (code, gone) = server.call("DELETE", &format!("{MAPS}/x"), "");
    assert_eq!((code, gone.str_at(&["status"])), (200, "Success"));
    assert_eq!(server.call("GET", &format!("{MAPS}/x"), "").0, 404);
}

#[test]
fn stale_update_conflicts_and_unconditional_update_succeeds() {
    let server = TestServer::new();
    let made = server.create_config_map("x", "");
    server.call("PATCH", &format!("{MAPS}/x"), r#"{"data":{"k":"w"}}"#);
    let (code, status) = server.call("PUT", &format!("{MAPS}/x"), &json::to_text(&made));
    assert_eq!((code, status.str_at(&["reason"])), (409, "Conflict"));
    let free = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"},"data":{"k":"z"}}"#;
    assert_eq!(server.call("PUT", &format!("{MAPS}/x"), free).0, 200);
}

#[test]
fn create_in_a_missing_namespace_is_not_found() {
    let body = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"}}"#;
    let (code, status) = TestServer::new().call("POST", "/api/v1/namespaces/nowhere/configmaps", body);
    assert_eq!((code, status.str_at(&["message"])), (404, "namespaces \"nowhere\" not found"));
}

#[test]
fn pages_show_one_snapshot_and_expire() {
    let server = TestServer::new();
    for name in ["a", "b", "c"] {
        server.create_config_map(name, "");
    }
    let (_, first) = server.call("GET", &format!("{MAPS}?limit=2"), "");
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first.at(&["metadata", "remainingItemCount"]).and_then(Value::as_i64), Some(1));
    let token = first.str_at(&["metadata", "continue"]).to_owned();
    server.create_config_map("bb", "");
    let (_, rest) = server.call("GET", &format!("{MAPS}?limit=2&continue={token}"), "");
    assert_eq!(names(&rest), ["c"], "what came later is not in this list");
    server.clock.advance(Duration::from_secs(301));
    let (code, gone) = server.call("GET", &format!("{MAPS}?limit=2&continue={token}"), "");
    assert_eq!((code, gone.str_at(&["reason"])), (410, "Expired"));
    let token = gone.str_at(&["metadata", "continue"]).to_owned();
    let (code, rest) = server.call("GET", &format!("{MAPS}?limit=5&continue={token}"), "");
    assert_eq!((code, names(&rest)), (200, vec!["bb", "c"]), "the new token goes on with what is there now");
}

#[test]
fn metrics_are_selected_and_invalid_selectors_rejected() {
    let server = TestServer::new();
    server.create_config_map("a", r#","labels":{"app":"web"}"#);
    server.create_config_map("b", r#","labels":{"app":"db"}"#);
    let (_, list) = server.call("GET", &format!("{MAPS}?labelSelector=app%20in%20(web,x)"), "");
    assert_eq!(names(&list), ["a"]);
    let (_, list) = server.call("GET", &format!("{MAPS}?fieldSelector=metadata.name%3Db"), "");
    assert_eq!(names(&list), ["b"]);
    assert_eq!(server.call("GET", &format!("{MAPS}?labelSelector=app%20in"), "").0, 400);
    assert_eq!(server.call("GET", &format!("{MAPS}?fieldSelector=spec.x%3D1"), "").0, 400);
}

#[test]
fn apply_owns_fields_and_conflicts_name_the_owner() {
    let server = TestServer::new();
    let apply = |manager: &str, value: &str, force: bool| {
        let body = format!("kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: x\ndata:\n  k: {value}\n");
        let path = format!("{MAPS}/x?fieldManager={manager}&force={force}");
        let kind = [("content-type", "application/apply-patch+yaml")];
        let Reply { code, body: out, .. } = server.send("PATCH", &path, &body, &kind);
        (code, json::parse(&out).unwrap())
    };
    assert_eq!(apply("one", "a", false).0, 201);
    let (code, again) = apply("one", "a", false);
    assert_eq!(code, 200);
    server.clock.advance(Duration::from_secs(5));
    assert_eq!(apply("one", "a", false).1, again, "an apply that changes nothing writes nothing");
    let (code, conflict) = apply("two", "b", false);
    assert_eq!(code, 409);
    let message = conflict.str_at(&["message"]);
    assert!(message.contains("conflict with \"one\": .data.k"), "{message}");
    let (code, forced) = apply("two", "b", true);
    assert_eq!((code, forced.str_at(&["data", "k"])), (200, "b"));
}

#[test]
fn delete_options_are_accepted_in_the_version_of_any_group() {
    let server = TestServer::new();
    let schema = setpoint_api::schema::builtin().meta("DeleteOptions").unwrap();
    for (i, version) in ["v1", "meta.k8s.io/v1", "storage.k8s.io/v1"].into_iter().enumerate() {
        let text = format!(
            r#"{{"kind":"DeleteOptions","apiVersion":"{version}","preconditions":{{"uid":"another"}}}}"#
        );
        let options = json::parse(text.as_bytes()).unwrap();
        let message = String::from_utf8(setpoint_api::protobuf::to_vec(&options, schema)).unwrap();
        let forms = [
            ("application/json", text.as_str()),
            ("application/yaml", text.as_str()),
            ("application/vnd.kubernetes.protobuf", message.as_str()),
        ];
        let name = format!("x{i}");
        server.create_config_map(&name, "");
        for (form, body) in forms {
            let Reply { code, body: out, .. } =
                server.send("DELETE", &format!("{MAPS}/{name}"), body, &[("content-type", form)]);
            assert_eq!(code, 409, "{version} {form}: {}", String::from_utf8_lossy(&out));
        }
    }
}

#[test]
fn protobuf_is_supported() {
    let server = TestServer::new();
    let made = server.create_config_map("x", "");
    let wanted = [("accept", "application/vnd.kubernetes.protobuf")];
    for path in [format!("{MAPS}/x"), MAPS.to_owned()] {
        let Reply { code, headers, body: out } = server.send("GET", &path, "", &wanted);
        assert_eq!((code, headers["content-type"].to_str().unwrap()), (200, wanted[0].1));
        let object = setpoint_api::protobuf::decode(&out).unwrap();
        let shown = object.value.get("items").map_or(&object.value, |items| &items.as_list().unwrap()[0]);
        assert_eq!(shown.get("data"), made.get("data"));
        assert_eq!(shown.get("metadata"), made.get("metadata"));
    }
}

#[test]
fn invalid_input_gets_a_status_and_changes_nothing() {
    let server = TestServer::new();
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    let wrong_version = r#"{"kind":"ConfigMap","apiVersion":"v2"}"#;
    for body in ["", "{", "[]", "{\"kind\":1}", "\u{0}", &deep, wrong_version] {
        let (code, status) = server.call("POST", MAPS, body);
        assert_eq!((code, status.str_at(&["kind"])), (400, "Status"), "{}", &body[..body.len().min(40)]);
    }
    assert_eq!(server.send("POST", MAPS, "x", &[("content-type", "text/plain")]).code, 415);
    assert_eq!(server.send("GET", MAPS, "", &[("accept", "text/html")]).code, 406);
    for path in
        ["/api/v1/namespaces/default/configmaps/a/b/c", "/apis/none/v1/x", "/nope", "/api/v1/nothings"]
    {
        assert_eq!(server.send("GET", path, "", &[]).code, 404, "{path}");
    }
    assert_eq!(server.call("POST", "/api/v1/namespaces/default", "").0, 405);
    assert!(names(&server.call("GET", MAPS, "").1).is_empty());
}

#[test]
fn discovery_lists_every_served_resource() {
    let server = TestServer::new();
    let (code, groups) = server.call("GET", "/apis", "");
    assert_eq!((code, groups.str_at(&["kind"])), (200, "APIGroupList"));
    let (_, core) = server.call("GET", "/api/v1", "");
    let resources = core.get("resources").and_then(Value::as_list).unwrap();
    assert!(resources.iter().any(|resource| resource.str_at(&["name"]) == "configmaps"));
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let Reply { code, headers, body: out } = server.send("GET", "/apis", "", &[("accept", accept)]);
    assert_eq!((code, headers["content-type"].to_str().unwrap()), (200, accept));
    let aggregated = json::parse(&out).unwrap();
    let items = aggregated.get("items").and_then(Value::as_list).unwrap().len();
    assert_eq!(items, groups.get("groups").and_then(Value::as_list).unwrap().len());
}

const RESET: &str =
    r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","managedFields":[]},"data":{"k":"z"}}"#;

fn managers(object: &Value) -> Vec<&str> {
    let entries = object.at(&["metadata", "managedFields"]).and_then(Value::as_list).unwrap_or_default();
    entries.iter().map(|entry| entry.str_at(&["manager"])).collect()
}

#[test]
fn empty_managed_fields_reset_ownership() {
    let server = TestServer::new();
    let body = r#"{"metadata":{"name":"x"},"data":{"k":"v"}}"#;
    let anonymous = [("content-type", "application/json"), ("user-agent", "")];
    assert_eq!(managers(&server.send("POST", MAPS, body, &anonymous).value()), ["unknown"]);
    let (code, reset) = server.call("PUT", &format!("{MAPS}/x"), RESET);
    assert_eq!((code, managers(&reset)), (200, vec![]));
}

#[test]
fn empty_list_that_is_always_encoded_has_an_owner() {
    let server = TestServer::new();
    let body = r#"{"kind":"CSINode","apiVersion":"storage.k8s.io/v1","metadata":{"name":"n"},"spec":{"drivers":[]}}"#;
    let (code, made) = server.call("POST", "/apis/storage.k8s.io/v1/csinodes", body);
    assert_eq!(code, 201, "{}", json::to_text(&made));
    assert_eq!(made.at(&["spec", "drivers"]), Some(&Value::Null));
    let owned = made.at(&["metadata", "managedFields"]).and_then(Value::as_list).unwrap()[0].clone();
    assert_eq!(json::to_text(owned.get("fieldsV1").unwrap()), r#"{"f:spec":{"f:drivers":{}}}"#);
    let again = r#"{"spec":{"drivers":[]}}"#;
    let (_, same) = server.call("PATCH", "/apis/storage.k8s.io/v1/csinodes/n", again);
    assert_eq!(same.str_at(&["metadata", "resourceVersion"]), made.str_at(&["metadata", "resourceVersion"]));
}

#[test]
fn commit_cause_names_the_changed_fields() {
    let store = Store::in_memory(Retention::default());
    let server = TestServer::over(store.clone());
    server.create_config_map("x", "");
    let paths = || {
        let resource = Resource::new("configmaps").unwrap();
        let key = Key::namespaced(&resource, "default", "x").unwrap();
        store.snapshot().get(&key).unwrap().cause().paths
    };
    assert_eq!(paths(), ["."], "a new object is new as a whole");
    server.call(
        "PATCH",
        &format!("{MAPS}/x"),
        r#"{"data":{"k":"w","l":"v"},"metadata":{"labels":{"a":"b"}}}"#,
    );
    assert_eq!(paths(), [".data.k", ".data.l", ".metadata.labels.a"]);
    let many: Vec<String> = (0..20).map(|i| format!(r#""many-{i}":"v""#)).collect();
    server.call("PATCH", &format!("{MAPS}/x"), &format!(r#"{{"data":{{{}}}}}"#, many.join(",")));
    assert_eq!(paths(), ["."], "many changed fields are recorded as the whole object");
}

#[test]
fn system_namespaces_cannot_be_deleted() {
    let server = TestServer::new();
    for name in ["default", "kube-system", "kube-public"] {
        let (code, status) = server.call("DELETE", &format!("/api/v1/namespaces/{name}"), "");
        let message = format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
        assert_eq!((code, status.str_at(&["message"])), (403, message.as_str()));
    }
}

#[test]
fn certificate_request_records_its_author() {
    let server = TestServer::new();
    let pem = include_str!("../../pki/tests/request.b64").trim();
    let body = format!(
        r#"{{"kind":"CertificateSigningRequest","apiVersion":"certificates.k8s.io/v1","metadata":{{"name":"c"}},"spec":{{"request":"{pem}","signerName":"a.b/c","usages":["any"],"username":"eve"}}}}"#
    );
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let (code, made) = server.call("POST", path, &body);
    assert_eq!((code, made.str_at(&["spec", "username"])), (201, "ann"), "{}", json::to_text(&made));
    assert_eq!(made.at(&["metadata", "managedFields"]), None, "reset fields have no owner");
}

#[test]
fn metadata_kept_by_a_status_update_depends_on_the_kind() {
    let server = TestServer::new();
    let annotated = r#"{"metadata":{"annotations":{"a":"b"},"labels":{"c":"d"}},"status":{}}"#;
    let body =
        r#"{"kind":"Service","apiVersion":"v1","metadata":{"name":"s"},"spec":{"ports":[{"port":80}]}}"#;
    let services = "/api/v1/namespaces/default/services";
    assert_eq!(server.call("POST", services, body).0, 201);
    let (_, service) = server.call("PATCH", &format!("{services}/s/status"), annotated);
    assert_eq!(service.str_at(&["metadata", "annotations", "a"]), "b");
    assert_eq!(service.str_at(&["metadata", "labels", "c"]), "d");
    let template = r#"{"metadata":{"labels":{"x":"y"}},"spec":{"containers":[{"name":"a","image":"b"}]}}"#;
    let body = format!(
        r#"{{"kind":"Deployment","apiVersion":"apps/v1","metadata":{{"name":"d"}},"spec":{{"selector":{{"matchLabels":{{"x":"y"}}}},"template":{template}}}}}"#
    );
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    assert_eq!(server.call("POST", deployments, &body).0, 201);
    let (_, deployment) = server.call("PATCH", &format!("{deployments}/d/status"), annotated);
    assert_eq!(deployment.str_at(&["metadata", "annotations", "a"]), "b");
    assert_eq!(deployment.at(&["metadata", "labels"]), None);
}

#[test]
fn error_response_has_the_warnings_of_its_body() {
    let server = TestServer::new();
    let body = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"Bad_Name"},"nonsense":1}"#;
    let Reply { code, headers, .. } =
        server.send("POST", MAPS, body, &[("content-type", "application/json")]);
    assert_eq!(
        (code, headers["warning"].to_str().unwrap()),
        (422, "299 - \"unknown field \\\"nonsense\\\"\"")
    );
}

#[test]
fn patch_with_duplicate_field_gets_a_warning() {
    let server = TestServer::new();
    server.create_config_map("x", "");
    let kind = [("content-type", "application/merge-patch+json")];
    let twice = r#"{"data":{"k":"a","k":"b"}}"#;
    let Reply { code, headers, .. } = server.send("PATCH", &format!("{MAPS}/x"), twice, &kind);
    assert_eq!(
        (code, headers["warning"].to_str().unwrap()),
        (200, "299 - \"duplicate field \\\"data.k\\\"\"")
    );
    let Reply { code, .. } = server.send("PATCH", &format!("{MAPS}/x?fieldValidation=Strict"), twice, &kind);
    assert_eq!(code, 422);
}

#[test]
fn name_is_taken_until_its_object_is_removed() {
    let server = TestServer::new();
    server.create_config_map("x", r#","finalizers":["a.b/c"]"#);
    server.call("DELETE", &format!("{MAPS}/x"), "");
    let (code, status) =
        server.call("POST", MAPS, r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"}}"#);
    let message = "object is being deleted: configmaps \"x\" already exists";
    assert_eq!((code, status.str_at(&["message"])), (409, message));
}

#[test]
fn missing_resource_version_error_names_the_resource() {
    let server = TestServer::new();
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let body = r#"{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"l"}}"#;
    assert_eq!(server.call("POST", path, body).0, 201);
    let (code, status) = server.call("PUT", &format!("{path}/l"), body);
    let message = "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update";
    assert_eq!((code, status.str_at(&["message"])), (422, message));
}

#[test]
fn event_errors_are_those_of_the_stored_version() {
    let body = r#"{"kind":"Event","apiVersion":"events.k8s.io/v1","metadata":{"name":"e"},"regarding":{"namespace":"default"}}"#;
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    let (code, status) = TestServer::new().call("POST", path, body);
    let message = status.str_at(&["message"]);
    assert!(code == 422 && message.starts_with("Event \"e\" is invalid"), "{message}");
}

#[test]
fn packed_objects_are_listed_as_they_are_read_alone() {
    let server = TestServer::new();
    let path = "/api/v1/namespaces/default/events";
    for i in 0..120 {
        let body = format!(
            r#"{{"kind":"Event","apiVersion":"v1","metadata":{{"name":"e{i:03}"}},"involvedObject":{{"namespace":"default"}},"message":"{i} of many"}}"#
        );
        assert_eq!(server.call("POST", path, &body).0, 201);
    }
    for limit in [1, 30, 120] {
        let list = server.send("GET", &format!("{path}?limit={limit}"), "", &[]).body;
        let list = String::from_utf8(list).unwrap();
        let items = list.split_once(r#""items":["#).unwrap().1.strip_suffix("]}\n").unwrap();
        let alone = (0..limit).map(|i| {
            let one =
                String::from_utf8(server.send("GET", &format!("{path}/e{i:03}"), "", &[]).body).unwrap();
            let rest = one.trim_end().strip_prefix(r#"{"kind":"Event","apiVersion":"v1","#).unwrap();
            format!("{{{rest}")
        });
        assert_eq!(items, alone.collect::<Vec<_>>().join(","), "a list of {limit}");
    }
}
