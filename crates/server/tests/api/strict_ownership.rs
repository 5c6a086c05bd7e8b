//! Strict ownership: in a namespace that opts in, fields belong to the manager that applied them.

use crate::harness::TestServer;

const NAMESPACE: &str = "/api/v1/namespaces/default";
const MAP: &str = "/api/v1/namespaces/default/configmaps/x";

/// A server with a ConfigMap whose field `a` is applied by `gitops`; the namespace has this annotation.
fn server(ownership: &str) -> TestServer {
    let server = TestServer::new();
    let annotation =
        format!(r#"{{"metadata":{{"annotations":{{"setpoint.dev/field-ownership":"{ownership}"}}}}}}"#);
    assert_eq!(server.call("PATCH", NAMESPACE, &annotation).0, 200);
    let body = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":"1"}}"#;
    let applied = [("content-type", "application/apply-patch+yaml")];
    assert_eq!(server.send("PATCH", &format!("{MAP}?fieldManager=gitops"), body, &applied).code, 201);
    server
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
