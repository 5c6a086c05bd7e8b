//! Service account tokens: issuing, verification, binding, expiry, and their permissions.

use std::time::Duration;

use setpoint_api::{Value, json};
use setpoint_server::exchange::Identity;

use crate::harness::TestServer;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

fn account(server: &TestServer) {
    let (code, _) = server.call("POST", ACCOUNTS, r#"{"metadata":{"name":"robot"}}"#);
    assert_eq!(code, 201);
}

fn token(server: &TestServer, spec: &str) -> (u16, Value) {
    server.call("POST", &format!("{ACCOUNTS}/robot/token"), &format!(r#"{{"spec":{spec}}}"#))
}

fn review(server: &TestServer, token: &str) -> Value {
    let (code, review) = server.call("POST", REVIEWS, &format!(r#"{{"spec":{{"token":"{token}"}}}}"#));
    assert_eq!(code, 201);
    review.get("status").cloned().unwrap()
}

#[test]
fn token_authenticates_its_service_account_until_it_expires() {
    let server = TestServer::new();
    account(&server);
    let (code, issued) = token(&server, r#"{"expirationSeconds":600}"#);
    assert_eq!(code, 201, "{}", json::to_text(&issued));
    let token = issued.str_at(&["status", "token"]);
    let status = review(&server, token);
    assert_eq!(status.get("authenticated"), Some(&Value::Bool(true)));
    assert_eq!(status.str_at(&["user", "username"]), "system:serviceaccount:default:robot");
    assert_eq!(server.authenticate(token).unwrap().groups[1], "system:serviceaccounts:default");
    server.clock.advance(Duration::from_secs(660));
    assert!(server.authenticate(token).is_some(), "clocks may differ by a minute");
    server.clock.advance(Duration::from_micros(1_000_001));
    assert_eq!(review(&server, token).str_at(&["error"]), "service account token has expired");
    assert!(server.authenticate(token).is_none());
}

#[test]
fn tampered_token_and_token_for_another_audience_are_invalid() {
    let server = TestServer::new();
    account(&server);
    let (_, issued) = token(&server, r#"{"audiences":["vault"]}"#);
    let token = issued.str_at(&["status", "token"]);
    assert!(server.authenticate(token).is_none(), "it is for another audience");
    let body = format!(r#"{{"spec":{{"token":"{token}","audiences":["vault"]}}}}"#);
    let (_, checked) = server.call("POST", REVIEWS, &body);
    assert_eq!(checked.at(&["status", "authenticated"]), Some(&Value::Bool(true)));
    let mut forged = token.to_owned();
    let place = forged.find('.').unwrap() + 3;
    let other = if forged.as_bytes()[place] == b'A' { "B" } else { "A" };
    forged.replace_range(place..=place, other);
    assert_eq!(review(&server, &forged).str_at(&["error"]), "invalid bearer token");
}

#[test]
fn bound_token_is_revoked_with_its_object() {
    let server = TestServer::new();
    account(&server);
    let pod = r#"{"metadata":{"name":"p"},"spec":{"serviceAccountName":"robot","containers":[{"name":"c","image":"i"}]}}"#;
    assert_eq!(server.call("POST", "/api/v1/namespaces/default/pods", pod).0, 201);
    let (code, issued) = token(&server, r#"{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p"}}"#);
    assert_eq!(code, 201);
    let token = issued.str_at(&["status", "token"]);
    assert!(server.authenticate(token).is_some());
    server.call("DELETE", "/api/v1/namespaces/default/pods/p?gracePeriodSeconds=0", "");
    assert!(server.authenticate(token).is_none());
    assert_eq!(self::token(&server, r#"{"expirationSeconds":5}"#).0, 422);
    assert_eq!(
        self::token(&server, r#"{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"q"}}"#).0,
        404
    );
}

const NODES: &str = "/api/v1/nodes";

fn node(server: &TestServer, name: &str) {
    assert_eq!(server.call("POST", NODES, &format!(r#"{{"metadata":{{"name":"{name}"}}}}"#)).0, 201);
}

#[test]
fn token_bound_to_a_node_is_revoked_with_it() {
    let server = TestServer::new();
    account(&server);
    node(&server, "n");
    let bind = || {
        let (code, issued) =
            token(&server, r#"{"boundObjectRef":{"kind":"Node","apiVersion":"v1","name":"n"}}"#);
        assert_eq!(code, 201, "{}", json::to_text(&issued));
        issued.str_at(&["status", "token"]).to_owned()
    };
    let first = bind();
    let status = review(&server, &first);
    let extra = |key: &str| json::to_text(status.at(&["user", "extra", key]).unwrap_or(&Value::Null));
    assert_eq!(extra("authentication.kubernetes.io/node-name"), r#"["n"]"#);
    assert!(server.authenticate(&first).is_some());
    assert_eq!(server.call("DELETE", &format!("{NODES}/n"), "").0, 200);
    assert!(server.authenticate(&first).is_none());
    assert_eq!(review(&server, &first).str_at(&["error"]), "service account token has been invalidated");
    node(&server, "n");
    assert!(server.authenticate(&first).is_none(), "another node of that name");
    let why = review(&server, &first);
    assert!(why.str_at(&["error"]).starts_with("node UID ("), "{}", json::to_text(&why));
    assert!(server.authenticate(&bind()).is_some());
}

#[test]
fn token_bound_to_a_pod_survives_the_node_of_the_pod() {
    let server = TestServer::new();
    account(&server);
    node(&server, "n");
    let pod = r#"{"metadata":{"name":"p"},"spec":{"nodeName":"n","serviceAccountName":"robot","containers":[{"name":"c","image":"i"}]}}"#;
    assert_eq!(server.call("POST", "/api/v1/namespaces/default/pods", pod).0, 201);
    let (_, issued) = token(&server, r#"{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p"}}"#);
    let token = issued.str_at(&["status", "token"]);
    let status = review(&server, token);
    let extra = |key: &str| json::to_text(status.at(&["user", "extra", key]).unwrap_or(&Value::Null));
    assert_eq!(extra("authentication.kubernetes.io/node-name"), r#"["n"]"#);
    assert!(extra("authentication.kubernetes.io/node-uid").len() > 10);
    assert_eq!(server.call("DELETE", &format!("{NODES}/n"), "").0, 200);
    assert!(server.authenticate(token).is_some());
}

#[test]
fn token_is_revoked_a_minute_after_deletion_was_due() {
    let server = TestServer::new();
    let body = r#"{"metadata":{"name":"robot","finalizers":["example.com/wait"]}}"#;
    assert_eq!(server.call("POST", ACCOUNTS, body).0, 201);
    let (_, issued) = token(&server, "{}");
    let token = issued.str_at(&["status", "token"]);
    assert_eq!(server.call("DELETE", &format!("{ACCOUNTS}/robot"), "").0, 200);
    assert!(server.authenticate(token).is_some(), "within the leeway");
    server.clock.advance(Duration::from_secs(62));
    assert_eq!(review(&server, token).str_at(&["error"]), "service account default/robot has been deleted",);
}

#[test]
fn non_administrator_can_only_review_itself() {
    let server = TestServer::new();
    let call = |method: &str, path: &str, body: &str| {
        let identity = Identity::new("bob", vec!["system:authenticated".into()]);
        server.call_as(identity, method, path, body)
    };
    let (code, body) = call("GET", "/api/v1/namespaces/default/configmaps", "");
    assert_eq!(code, 403);
    let message = r#"configmaps is forbidden: User "bob" cannot list resource "configmaps" in API group "" in the namespace "default""#;
    assert_eq!(body.str_at(&["message"]), message);
    assert_eq!(call("GET", "/metrics", "").0, 403);
    assert_eq!(call("GET", "/version", "").0, 200);
    assert_eq!(call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}").0, 201);
}
