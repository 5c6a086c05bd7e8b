//! Requests with impersonation headers.

use http::{HeaderName, HeaderValue};
use setpoint_api::{Value, json};
use setpoint_server::exchange::{Identity, Request};

use crate::harness::{TestServer, request};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Sends a SelfSubjectReview of a user with headers. Returns the code, and the user of the request or the message.
fn review(server: &TestServer, identity: Identity, headers: &[(&'static str, &str)]) -> (u16, String) {
    let mut sent = request("POST", REVIEWS, "{}", &[("content-type", "application/json")]);
    for (name, value) in headers {
        sent.headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    let reply = server.read(server.answer(Request { identity, ..sent })).into_call();
    let user = reply.1.at(&["status", "userInfo"]).map(json::to_text);
    (reply.0, user.unwrap_or_else(|| reply.1.str_at(&["message"]).to_owned()))
}

fn bob() -> Identity {
    Identity::new("bob", vec!["system:authenticated".into()])
}

/// Permits something to bob.
fn permit(server: &TestServer, name: &str, rule: &str) {
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    let role = format!(r#"{{"metadata":{{"name":"{name}"}},"rules":[{rule}]}}"#);
    server.create(&format!("{roles}/clusterroles"), &role);
    let binding = format!(
        r#"{{"metadata":{{"name":"{name}"}},"roleRef":{{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"{name}"}},
        "subjects":[{{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"bob"}}]}}"#
    );
    server.create(&format!("{roles}/clusterrolebindings"), &binding);
}

#[test]
fn administrator_acts_as_the_impersonated_user() {
    let server = TestServer::new();
    let admin = || Identity::new("ann", vec!["system:masters".into()]);
    let (code, user) = review(&server, admin(), &[("impersonate-user", "carol")]);
    assert_eq!((code, user.as_str()), (201, r#"{"username":"carol","groups":["system:authenticated"]}"#));
    let pods = "/api/v1/namespaces/default/pods";
    let reply = server.send("GET", pods, "", &[("impersonate-user", "carol")]);
    assert_eq!(reply.code, 403, "the impersonated user decides");
    assert!(reply.value().str_at(&["message"]).contains(r#"User "carol" cannot list resource "pods""#));
    let all = [
        ("impersonate-user", "carol"),
        ("impersonate-group", "devs"),
        ("impersonate-group", "ops"),
        ("impersonate-uid", "7"),
        ("impersonate-extra-acme.com%2fk", "v"),
    ];
    assert_eq!(
        review(&server, admin(), &all).1,
        r#"{"username":"carol","uid":"7","groups":["devs","ops","system:authenticated"],"extra":{"acme.com/k":["v"]}}"#
    );
    let (code, message) = review(&server, admin(), &[("impersonate-group", "devs")]);
    assert_eq!(code, 400);
    assert!(message.ends_with("without impersonating a user name"), "{message}");
}

#[test]
fn each_impersonated_value_needs_a_permission() {
    let server = TestServer::new();
    let user = [("impersonate-user", "carol")];
    let (code, message) = review(&server, bob(), &user);
    assert_eq!(code, 403);
    assert!(message.contains(r#"User "bob" cannot impersonate-on:user-info:create resource"#), "{message}");
    permit(
        &server,
        "users",
        r#"{"verbs":["impersonate"],"apiGroups":[""],"resources":["users"],"resourceNames":["carol"]}"#,
    );
    assert_eq!(review(&server, bob(), &user).0, 201);
    assert_eq!(review(&server, bob(), &[("impersonate-user", "dave")]).0, 403);
    let group = [("impersonate-user", "carol"), ("impersonate-group", "devs")];
    assert_eq!(review(&server, bob(), &group).0, 403);
    permit(&server, "groups", r#"{"verbs":["impersonate"],"apiGroups":[""],"resources":["groups"]}"#);
    assert_eq!(review(&server, bob(), &group).0, 201);
    let uid = [("impersonate-user", "carol"), ("impersonate-uid", "7")];
    let extra = [("impersonate-user", "carol"), ("impersonate-extra-k", "v")];
    assert_eq!((review(&server, bob(), &uid).0, review(&server, bob(), &extra).0), (403, 403));
    let rule = r#"{"verbs":["impersonate"],"apiGroups":["authentication.k8s.io"],"resources":["uids","userextras/k"]}"#;
    permit(&server, "attributes", rule);
    assert_eq!((review(&server, bob(), &uid).0, review(&server, bob(), &extra).0), (201, 201));
    let account = [("impersonate-user", "system:serviceaccount:default:robot")];
    assert_eq!(review(&server, bob(), &account).0, 403);
    permit(
        &server,
        "accounts",
        r#"{"verbs":["impersonate"],"apiGroups":[""],"resources":["serviceaccounts"]}"#,
    );
    let groups = r#"{"username":"system:serviceaccount:default:robot","groups":["system:serviceaccounts","system:serviceaccounts:default","system:authenticated"]}"#;
    assert_eq!(review(&server, bob(), &account).1, groups);
}

#[test]
fn constrained_impersonation_is_limited_to_some_requests() {
    let server = TestServer::new();
    let rules = r#"{"verbs":["impersonate:user-info"],"apiGroups":["authentication.k8s.io"],"resources":["users"],"resourceNames":["carol"]},
        {"verbs":["impersonate-on:user-info:create"],"apiGroups":["authentication.k8s.io"],"resources":["selfsubjectreviews"]}"#;
    permit(&server, "constrained", rules);
    assert_eq!(review(&server, bob(), &[("impersonate-user", "carol")]).0, 201);
    let sent = request("GET", "/version", "", &[("impersonate-user", "carol")]);
    let reply = server.read(server.answer(Request { identity: bob(), ..sent }));
    assert_eq!(reply.code, 403);
    let message: Value = reply.value();
    let message = message.str_at(&["message"]);
    assert!(
        message.contains(r#"User "bob" cannot impersonate-on:user-info:get path "/version""#),
        "{message}"
    );
}
