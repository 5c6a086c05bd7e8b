//! Kinds that are stored but not enforced: each write has a warning.

use crate::harness::{TestServer, content_type};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

/// Returns the code and the warnings of a response.
fn warnings(server: &TestServer, method: &str, path: &str, body: &str) -> (u16, Vec<String>) {
    let reply = server.send(method, path, body, &[content_type(method)]);
    (reply.code, reply.warnings())
}

fn expected(kind: &str, instead: &str) -> Vec<String> {
    vec![format!("299 - \"{kind} is stored but not enforced by this server yet: {instead}\"")]
}

#[test]
fn write_of_an_unenforced_kind_has_a_warning() {
    let server = TestServer::new();
    let policy = r#"{"metadata":{"name":"np"},"spec":{"podSelector":{}}}"#;
    let networks = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    let cases = [(networks.to_owned(), policy, "NetworkPolicy", "traffic is not filtered")];
    for (path, body, kind, instead) in cases {
        assert_eq!(warnings(&server, "POST", &path, body), (201, expected(kind, instead)), "{path}");
        let name = setpoint_api::json::parse(body.as_bytes()).unwrap();
        let one = format!("{path}/{}", name.str_at(&["metadata", "name"]));
        let label = r#"{"metadata":{"labels":{"a":"b"}}}"#;
        assert_eq!(warnings(&server, "PATCH", &one, label), (200, expected(kind, instead)), "{one}");
        assert_eq!(warnings(&server, "GET", &one, "").1, [""; 0], "{one}");
        assert_eq!(warnings(&server, "DELETE", &one, "").1, [""; 0], "{one}");
    }
}

#[test]
fn write_of_an_enforced_kind_has_no_warning() {
    let server = TestServer::new();
    let map = r#"{"metadata":{"name":"m"}}"#;
    assert_eq!(warnings(&server, "POST", "/api/v1/namespaces/default/configmaps", map), (201, Vec::new()));
    let budget =
        r#"{"metadata":{"name":"p"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"a":"b"}}}}"#;
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    assert_eq!(warnings(&server, "POST", path, budget), (201, Vec::new()));
    let hook = r#"{"metadata":{"name":"h"},"webhooks":[]}"#;
    for plural in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
        assert_eq!(warnings(&server, "POST", &format!("{ADMISSION}/{plural}"), hook), (201, Vec::new()));
    }
    let bound = r#"{"metadata":{"name":"h"},"spec":{"policyName":"p","validationActions":["Deny"]}}"#;
    let path = format!("{ADMISSION}/validatingadmissionpolicybindings");
    assert_eq!(warnings(&server, "POST", &path, bound), (201, Vec::new()));
}
