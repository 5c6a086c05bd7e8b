//! Access reviews.

use setpoint_api::{Identity, Value, json};

use super::test_server::TestServer;
use super::{RBAC, binding, grant, user};

const REVIEWS: &str = "/apis/authorization.k8s.io/v1";

fn status(server: &TestServer, path: &str, spec: &str) -> String {
    let review = server.create(&format!("{REVIEWS}/{path}"), &format!(r#"{{"spec":{spec}}}"#));
    json::to_text(review.get("status").unwrap())
}

#[test]
fn access_review_decides_as_a_request() {
    let server = TestServer::new();
    server.create("/api/v1/namespaces", r#"{"metadata":{"name":"a"}}"#);
    grant(&server, "maps", "ann", "a", r#"[{"verbs":["get"],"apiGroups":[""],"resources":["configmaps"]}]"#);
    let resource = |user: &str, namespace: &str| {
        let attributes = format!(r#"{{"verb":"get","resource":"configmaps","namespace":"{namespace}"}}"#);
        format!(r#"{{"user":"{user}","resourceAttributes":{attributes}}}"#)
    };
    let allowed = r#"{"allowed":true,"reason":"RBAC: allowed by RoleBinding \"maps/a\" of ClusterRole \"maps\" to User \"ann\""}"#;
    assert_eq!(status(&server, "subjectaccessreviews", &resource("ann", "a")), allowed);
    let local = format!(r#"{{"metadata":{{"namespace":"a"}},"spec":{}}}"#, resource("ann", "a"));
    let review = server.create(&format!("{REVIEWS}/namespaces/a/localsubjectaccessreviews"), &local);
    assert_eq!(json::to_text(review.get("status").unwrap()), allowed);
    assert_eq!(status(&server, "subjectaccessreviews", &resource("ann", "b")), r#"{"allowed":false}"#);
    server.create(&format!("{RBAC}/clusterrolebindings"), &binding("x", ("ClusterRole", "gone"), "bob"));
    let missing =
        r#"{"allowed":false,"reason":"RBAC: clusterrole.rbac.authorization.k8s.io \"gone\" not found"}"#;
    assert_eq!(status(&server, "subjectaccessreviews", &resource("bob", "a")), missing);
    let path = r#"{"user":"bob","groups":["system:unauthenticated"],"nonResourceAttributes":{"verb":"get","path":"/livez"}}"#;
    let open = r#"{"allowed":true,"reason":"RBAC: allowed by ClusterRoleBinding \"system:public-info-viewer\" of ClusterRole \"system:public-info-viewer\" to Group \"system:unauthenticated\""}"#;
    assert_eq!(status(&server, "subjectaccessreviews", path), open);
}

#[test]
fn user_reviews_itself_but_no_one_else() {
    let server = TestServer::new();
    let review = |path: &str, spec: &str| {
        server.call_as(
            user("ann", &[]),
            "POST",
            &format!("{REVIEWS}/{path}"),
            &format!(r#"{{"spec":{spec}}}"#),
        )
    };
    let own = r#"{"nonResourceAttributes":{"verb":"get","path":"/version"}}"#;
    let (code, body) = review("selfsubjectaccessreviews", own);
    assert_eq!((code, body.at(&["status", "allowed"]).and_then(Value::as_bool)), (201, Some(true)));
    assert_eq!(
        review("subjectaccessreviews", r#"{"user":"ann","nonResourceAttributes":{"verb":"get","path":"/"}}"#)
            .0,
        403
    );
}

#[test]
fn rules_review_lists_the_rules_of_a_namespace() {
    let server = TestServer::new();
    grant(
        &server,
        "maps",
        "ann",
        "default",
        r#"[{"verbs":["get"],"apiGroups":[""],"resources":["configmaps"],"resourceNames":["m"]}]"#,
    );
    let rules = |namespace: &str, reviewer: Identity| {
        let spec = format!(r#"{{"spec":{{"namespace":"{namespace}"}}}}"#);
        let path = format!("{REVIEWS}/selfsubjectrulesreviews");
        let (code, body) = server.call_as(reviewer, "POST", &path, &spec);
        assert_eq!(code, 201);
        body.get("status").cloned().unwrap()
    };
    let own = r#"{"verbs":["get"],"apiGroups":[""],"resources":["configmaps"],"resourceNames":["m"]}"#;
    let text = json::to_text(&rules("default", user("ann", &[])));
    assert!(text.contains(own) && text.contains(r#""selfsubjectaccessreviews""#), "{text}");
    assert!(text.contains(r#"{"verbs":["get"],"nonResourceURLs":["/healthz","/livez","/readyz""#), "{text}");
    assert!(text.contains(r#""incomplete":false"#) && !text.contains("evaluationError"), "{text}");
    assert!(!json::to_text(&rules("kube-system", user("ann", &[]))).contains(own));
    let node = rules("default", user("system:node:n", &["system:nodes"]));
    assert_eq!(node.at(&["incomplete"]).and_then(Value::as_bool), Some(true));
    assert_eq!(node.str_at(&["evaluationError"]), "node authorizer does not support user rule resolution");
}
