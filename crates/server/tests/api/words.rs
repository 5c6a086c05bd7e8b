//! Error messages of upstream: paths, methods, media types, names, patches.

use setpoint_api::Value;

use crate::harness::{MAPS, TestServer};

fn message(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1.str_at(&["message"]))
}

#[test]
fn unknown_methods_and_paths_have_upstreams_messages() {
    let server = TestServer::new();
    let not_allowed = "the server does not allow this method on the requested resource";
    for (method, path) in [
        ("PUT", MAPS),
        ("POST", "/api/v1/namespaces/default/configmaps/x"),
        ("HEAD", "/api/v1/namespaces/default/configmaps/x"),
        ("POST", "/api/v1/configmaps"),
        ("DELETE", "/api/v1/namespaces"),
        ("POST", "/api/v1"),
        ("PUT", "/version"),
    ] {
        assert_eq!(message(&server.call(method, path, "{}")), (405, not_allowed), "{method} {path}");
    }
    let missing = "the server could not find the requested resource";
    for path in ["/apis/apps/v1/nope", "/apis/apps/v2", "/api/v1/pods/x", "/api/v1/namespaces/a/pods/x%2Fy"] {
        assert_eq!(message(&server.call("GET", path, "")), (404, missing), "{path}");
    }
    for path in ["/nope", "/apis/none.example", "/apis/none.example/v1/things"] {
        assert_eq!(server.send("POST", path, "", &[]).body, b"404 page not found\n", "{path}");
    }
    assert_eq!(server.call("POST", "/apis", "").1.str_at(&["kind"]), "APIGroupList");
}

#[test]
fn unsupported_media_types_have_upstreams_messages() {
    let server = TestServer::new();
    server.create_config_map("x", "");
    let one = format!("{MAPS}/x");
    let response = |path: &str, accept: &str| {
        let reply = server.get_as(path, accept);
        let body = reply.value();
        (reply.code, body.str_at(&["apiVersion"]).to_owned(), body.str_at(&["message"]).to_owned())
    };
    let offered = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                   application/vnd.kubernetes.protobuf";
    assert_eq!(response(&one, "application/*").2, offered);
    assert!(response(MAPS, "text/html").2.ends_with("application/vnd.kubernetes.protobuf;stream=watch"));
    assert_eq!(
        response("/version", "text/html").2,
        "406: Not Acceptable\n\nAvailable representations: application/json"
    );
    let table = |version: &str| format!("application/json;as=Table;v={version};g=meta.k8s.io");
    assert_eq!(response(&one, &table("v1beta1")).1, "meta.k8s.io/v1beta1");
    let accepted = "only the following media types are accepted: application/json, application/yaml, \
                    application/vnd.kubernetes.protobuf";
    assert_eq!(response(&one, &table("v2")).2, accepted);
    assert_eq!(response("/apis/batch/v1", &table("v1")).2, accepted);
    assert_eq!(
        response(MAPS, "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io").2,
        "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)"
    );
    assert_eq!(
        response(&one, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").2,
        "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)"
    );
}

#[test]
fn write_must_match_the_name_in_its_path() {
    let server = TestServer::new();
    let uid = server.create_config_map("x", "").str_at(&["metadata", "uid"]).to_owned();
    let one = format!("{MAPS}/x");
    let unnamed = "the name of the object (x based on URL) was undeterminable: name must be provided";
    assert_eq!(message(&server.call("PUT", &one, "{}")), (400, unnamed));
    for patch in [r#"{"metadata":{"name":null}}"#, r#"{"metadata":null}"#, r#"{"apiVersion":null}"#] {
        assert_eq!(message(&server.call("PATCH", &one, patch)), (400, unnamed), "{patch}");
    }
    let other = server.call("PATCH", &one, r#"{"metadata":{"name":"y"}}"#);
    assert_eq!(message(&other), (400, "the name of the object (y) does not match the name on the URL (x)"));
    let elsewhere = server.call("PATCH", &one, r#"{"metadata":{"namespace":"y"}}"#);
    let expected = "the namespace of the provided object does not match the namespace sent on the request";
    assert_eq!(message(&elsewhere), (400, expected));
    let bare = r#"{"kind":null,"metadata":{"namespace":null,"selfLink":"/x"},"data":{"l":"w"}}"#;
    let (code, changed) = server.call("PATCH", &one, bare);
    assert_eq!((code, changed.str_at(&["kind"])), (200, "ConfigMap"));
    assert!(changed.at(&["metadata", "selfLink"]).is_none());
    let typed = server.call("PATCH", &one, r#"{"apiVersion":"v2"}"#);
    assert!(
        typed.0 == 422
            && message(&typed).1.contains("no kind \"ConfigMap\" is registered for version \"v2\"")
    );
    let immutable = server.call("PATCH", &one, r#"{"metadata":{"uid":"u"}}"#);
    assert_eq!(
        message(&immutable),
        (422, "ConfigMap \"x\" is invalid: metadata.uid: Invalid value: \"u\": field is immutable")
    );
    let put = server.call("PUT", &one, r#"{"metadata":{"name":"x","uid":"u"}}"#);
    let expected = format!(
        "Operation cannot be fulfilled on configmaps \"x\": StorageError: invalid object, Code: 4, Key: \
         /registry/configmaps/default/x, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in \
         precondition: u, UID in object meta: {uid}"
    );
    assert_eq!(message(&put), (409, expected.as_str()));
}

#[test]
fn invalid_configurations_have_upstreams_messages() {
    let server = TestServer::new();
    let apply = |query: &str, body: &str| {
        let kind = [("content-type", "application/apply-patch+yaml")];
        let reply = server.send("PATCH", &format!("{MAPS}/a?fieldManager=m{query}"), body, &kind);
        (reply.code, reply.value(), reply.warnings())
    };
    let (code, refused, _) = apply("", "[]");
    assert_eq!(code, 400);
    assert_eq!(
        refused.str_at(&["message"]),
        "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into \
         Go value of type map[string]interface {}"
    );
    let (_, unnamed, _) = apply("", "apiVersion: v1\nkind: ConfigMap\n");
    assert!(unnamed.str_at(&["message"]).ends_with("was undeterminable: name must be provided"));
    let twice = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: \"1\"\n  k: \"2\"\n";
    let (code, refused, _) = apply("&fieldValidation=Strict", twice);
    assert_eq!(
        (code, refused.str_at(&["message"])),
        (
            400,
            "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  line 6: key \
             \"k\" already set in map"
        )
    );
    let (code, made, warnings) = apply("", twice);
    assert_eq!((code, made.str_at(&["data", "k"])), (201, "2"));
    assert_eq!(warnings, ["299 - \"line 6: key \\\"k\\\" already set in map\""]);
}

#[test]
fn bodies_that_are_not_objects_have_upstreams_messages() {
    let server = TestServer::new();
    let response = |body: &str| message(&server.call("POST", MAPS, body)).1.to_owned();
    let unrecognized = "the object provided is unrecognized (must be of type ConfigMap): ";
    let unversioned = format!("{unrecognized}couldn't get version/kind; json parse error: ");
    assert_eq!(
        response(r#"{"apiVersion":"v1","kind":"ConfigMap",}"#),
        format!(
            "{unversioned}invalid character '}}' looking for beginning of object key string \
             ({{\"apiVersion\":\"v1\",\"kind\":\"Con ...)"
        )
    );
    assert_eq!(
        response(r#"{"kind":5}"#),
        format!(
            "{unversioned}json: cannot unmarshal number into Go struct field .kind of type string ({{\"kind\":5}})"
        )
    );
    assert_eq!(
        response(r#"{"apiVersion":"a/b/c"}"#),
        format!("{unrecognized}unexpected GroupVersion string: a/b/c ({{\"apiVersion\":\"a/b/c\"}})")
    );
    assert!(response("null").starts_with("ConfigMap \"\" is invalid: metadata.name: Required value"));
}

#[test]
fn invalid_delete_options_have_upstreams_messages() {
    let server = TestServer::new();
    let one = format!("{MAPS}/none");
    let refused = server.call("DELETE", &format!("{one}?propagationPolicy=Nope"), "");
    assert_eq!(refused.0, 422, "options are validated before the object is read");
    let other = server.call("DELETE", &one, r#"{"kind":"Pod"}"#);
    assert!(message(&other).1.starts_with("no kind \"Pod\" is registered for version \"meta.k8s.io/v1\""));
    let reply = server.send("DELETE", "/apis/batch/v1/namespaces/default/jobs/j", "", &[]);
    assert!(reply.header("warning").contains("child pods are preserved by default"));
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical";
    assert_eq!(server.call("DELETE", classes, "").0, 403);
    server.create_config_map("x", "");
    let (code, _) = server.call("DELETE", &format!("{MAPS}/x?dryRun=Bad"), r#"{"dryRun":["All"]}"#);
    assert_eq!(code, 200, "the query is ignored if there is a body");
    assert_eq!(server.call("GET", &format!("{MAPS}/x"), "").0, 200);
}

#[test]
fn list_at_revision_zero_ignores_the_limit_and_numbers_are_validated() {
    let server = TestServer::new();
    for name in ["a", "b", "c"] {
        server.create_config_map(name, &format!(r#","labels":{{"n":"{name}"}}"#));
    }
    let all = |query: &str| server.call("GET", &format!("{MAPS}?{query}"), "").1;
    assert_eq!(super::names(&all("limit=1&resourceVersion=0")).len(), 3);
    let page = all("limit=1&labelSelector=n%3Da");
    assert!(!page.str_at(&["metadata", "continue"]).is_empty(), "the next page is empty");
    let empty = server.call("GET", &format!("{MAPS}?limit="), "");
    assert_eq!(message(&empty), (400, "strconv.ParseInt: parsing \"\": invalid syntax"));
    assert_eq!(server.call("GET", &format!("{MAPS}/a?resourceVersion=abc"), "").0, 400);
    let large = server.call("GET", &format!("{MAPS}?resourceVersion=18446744073709551616"), "");
    assert!(message(&large).1.ends_with("value out of range"));
}

#[test]
fn dry_run_of_a_service_takes_no_address() {
    let server = TestServer::new();
    let services = "/api/v1/namespaces/default/services";
    let body = r#"{"metadata":{"name":"s"},"spec":{"type":"NodePort","clusterIP":"10.0.9.9","ports":[{"port":1,"nodePort":1}]}}"#;
    assert_eq!(server.call("POST", services, body).0, 422);
    assert_eq!(server.call("POST", &format!("{services}?dryRun=All"), body).0, 201);
    let (code, _) = server.call("POST", services, &body.replace("\"nodePort\":1", "\"nodePort\":30001"));
    assert_eq!(code, 201);
    let (_, address) = server.call("GET", "/apis/networking.k8s.io/v1/ipaddresses/10.0.9.9", "");
    let owners = address.at(&["metadata", "managedFields"]).and_then(Value::as_list).unwrap();
    assert_eq!(owners[0].str_at(&["manager"]), "kube-apiserver");
    let tried = server.call("POST", &format!("{services}?dryRun=All"), &body.replace("10.0.9.9", "11.0.0.1"));
    assert!(message(&tried).1.ends_with(
        "the provided IP (11.0.0.1) is not in the valid range. The range of valid IPs is 10.0.0.0/16"
    ));
}
