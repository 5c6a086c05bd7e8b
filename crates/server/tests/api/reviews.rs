//! Token requests and reviews: admission, dry runs, encodings, selectors.

use setpoint_api::{Value, json, protobuf, value};
use setpoint_server::exchange::Identity;
use setpoint_server::pipeline::admission::AdmissionConfig;
use setpoint_server::pipeline::admission::plugins::Plugin;

use crate::harness::TestServer;
use crate::webhook_server::{HookServer, allow, patch, respond};

const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/robot/token";
const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const ACCESS: &str =
    r#"{"spec":{"user":"ann","resourceAttributes":{"verb":"get","resource":"pods","namespace":"default"}}}"#;
/// Requests of every kind of review, and of a token.
const ALL: [(&str, &str); 7] = [
    (TOKEN, "{}"),
    (TOKEN_REVIEWS, r#"{"spec":{"token":"t"}}"#),
    (ACCESS_REVIEWS, ACCESS),
    (
        "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
        r#"{"metadata":{"namespace":"default"},"spec":{"user":"ann","resourceAttributes":{"verb":"get","resource":"pods","namespace":"default"}}}"#,
    ),
    (
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        r#"{"spec":{"nonResourceAttributes":{"verb":"get","path":"/"}}}"#,
    ),
    ("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", r#"{"spec":{"namespace":"default"}}"#),
    ("/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}"),
];

/// Configures a webhook for all reviews and token requests.
fn configure(server: &TestServer, kind: &str, side_effects: &str, hook: &HookServer) {
    let resources = r#"["tokenreviews","selfsubjectreviews","subjectaccessreviews","localsubjectaccessreviews","selfsubjectaccessreviews","selfsubjectrulesreviews","serviceaccounts/token"]"#;
    let (url, ca) = (&hook.url, &hook.ca_bundle);
    let body = format!(
        r#"{{"metadata":{{"name":"{kind}"}},"webhooks":[{{"name":"{kind}.example.com","sideEffects":"{side_effects}",
            "admissionReviewVersions":["v1"],"clientConfig":{{"url":"{url}","caBundle":"{ca}"}},
            "rules":[{{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":{resources}}}]}}]}}"#
    );
    server.create(&format!("{CONFIGURATIONS}/{kind}webhookconfigurations"), &body);
}

fn with_account(server: TestServer) -> TestServer {
    server.create(ACCOUNTS, r#"{"metadata":{"name":"robot"}}"#);
    server
}

#[test]
fn webhooks_see_token_requests_and_reviews() {
    let server = with_account(TestServer::new());
    let hook = HookServer::start(|review| {
        let is_denied = review.str_at(&["request", "userInfo", "username"]) == "eve";
        respond(review, value!({"allowed": (!is_denied), "status": {"message": "not eve"}}))
    });
    configure(&server, "validating", "None", &hook);
    for (path, body) in ALL {
        let (code, answer) = server.call("POST", path, body);
        assert_eq!(code, 201, "{path}: {}", json::to_text(&answer));
    }
    let kinds: Vec<String> =
        hook.requests().iter().map(|request| request.str_at(&["kind", "kind"]).to_owned()).collect();
    let expected = [
        "TokenRequest",
        "TokenReview",
        "SubjectAccessReview",
        "LocalSubjectAccessReview",
        "SelfSubjectAccessReview",
        "SelfSubjectRulesReview",
        "SelfSubjectReview",
    ];
    assert_eq!(kinds, expected);
    let token = &hook.requests()[0];
    assert_eq!((token.str_at(&["subResource"]), token.str_at(&["name"])), ("token", "robot"));
    assert_eq!(token.str_at(&["object", "metadata", "name"]), "robot");
    assert_eq!(token.at(&["object", "spec", "expirationSeconds"]), Some(&Value::Int(3600)));
    assert!(token.at(&["object", "status", "token"]).is_none_or(|token| token.as_str() == Some("")));
    let eve = Identity::new("eve", vec!["system:masters".to_owned()]);
    for (path, body) in ALL {
        let (code, denied) = server.call_as(eve.clone(), "POST", path, body);
        let why = r#"admission webhook "validating.example.com" denied the request: not eve"#;
        assert_eq!((code, denied.str_at(&["message"])), (400, why), "{path}");
    }
}

#[test]
fn mutating_webhook_changes_a_token_request_and_a_review() {
    let server = with_account(TestServer::new());
    let hook = HookServer::start(|review| match review.str_at(&["request", "kind", "kind"]) {
        "TokenRequest" => patch(review, r#"[{"op":"replace","path":"/spec/expirationSeconds","value":700}]"#),
        "SubjectAccessReview" => patch(review, r#"[{"op":"replace","path":"/spec/user","value":"root"}]"#),
        _ => allow(review),
    });
    configure(&server, "mutating", "None", &hook);
    let (_, issued) = server.call("POST", TOKEN, "{}");
    assert_eq!(issued.at(&["spec", "expirationSeconds"]), Some(&Value::Int(700)));
    assert!(server.authenticate(issued.str_at(&["status", "token"])).is_some());
    let (_, review) = server.call("POST", ACCESS_REVIEWS, ACCESS);
    assert_eq!(review.str_at(&["spec", "user"]), "root");
}

#[test]
fn dry_run_of_a_token_request_calls_no_webhook_with_side_effects() {
    let server = with_account(TestServer::new());
    let dry = format!("{TOKEN}?dryRun=All");
    let (code, issued) = server.call("POST", &dry, "{}");
    assert_eq!(code, 201);
    assert!(!issued.str_at(&["status", "token"]).is_empty(), "upstream issues a token in a dry run too");
    assert_eq!(server.call("POST", &format!("{TOKEN}?dryRun=Some"), "{}").0, 422);
    let hook = HookServer::start(allow);
    configure(&server, "validating", "NoneOnDryRun", &hook);
    assert_eq!(server.call("POST", &dry, "{}").0, 201);
    assert_eq!(hook.requests()[0].get("dryRun").and_then(Value::as_bool), Some(true));
}

#[test]
fn always_deny_rejects_token_requests_and_reviews() {
    let config = AdmissionConfig::default();
    let plugins = config.plugins;
    let server = with_account(TestServer::new());
    assert_eq!(server.call("POST", TOKEN, "{}").0, 201);
    let denying = AdmissionConfig { plugins: plugins.with(Plugin::AlwaysDeny), ..config };
    let server = TestServer::with_admission(denying);
    for (path, body) in ALL {
        let (code, denied) = server.call("POST", path, body);
        let message = denied.str_at(&["message"]);
        assert_eq!(code, 403, "{path}: {message}");
        assert!(message.ends_with("admission control is denying all modifications"), "{path}: {message}");
    }
}

#[test]
fn no_token_is_issued_in_a_terminating_namespace() {
    let server = TestServer::new();
    server.create("/api/v1/namespaces", r#"{"metadata":{"name":"a"},"spec":{"finalizers":["kubernetes"]}}"#);
    server.create("/api/v1/namespaces/a/serviceaccounts", r#"{"metadata":{"name":"robot"}}"#);
    assert_eq!(server.call("DELETE", "/api/v1/namespaces/a", "").0, 200);
    let (code, refused) = server.call("POST", "/api/v1/namespaces/a/serviceaccounts/robot/token", "{}");
    assert_eq!(code, 403, "{}", json::to_text(&refused));
    let why = "unable to create new content in namespace a because it is being terminated";
    assert!(refused.str_at(&["message"]).ends_with(why), "{}", json::to_text(&refused));
}

#[test]
fn policies_do_not_apply_to_reviews() {
    let server = with_account(TestServer::new());
    let rule = r#"{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*"]}"#;
    let token_rule = r#"{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["serviceaccounts/token"]}"#;
    let policy = format!(
        r#"{{"metadata":{{"name":"p"}},"spec":{{"matchConstraints":{{"resourceRules":[{rule},{token_rule}]}},
            "validations":[{{"expression":"object.kind in ['TokenReview','ValidatingAdmissionPolicyBinding']"}}]}}}}"#
    );
    server.create(&format!("{CONFIGURATIONS}/validatingadmissionpolicies"), &policy);
    let binding = r#"{"metadata":{"name":"b"},"spec":{"policyName":"p","validationActions":["Deny"]}}"#;
    server.create(&format!("{CONFIGURATIONS}/validatingadmissionpolicybindings"), binding);
    assert_eq!(server.call("POST", ACCOUNTS, r#"{"metadata":{"name":"x"}}"#).0, 422);
    for (path, body) in &ALL[1..] {
        assert_eq!(server.call("POST", path, body).0, 201, "{path}");
    }
    assert_eq!(server.call("POST", TOKEN, "{}").0, 422, "token requests are matched as upstream");
}

/// Sends a body in protobuf, and decodes the answer from protobuf.
fn in_protobuf(server: &TestServer, path: &str, (api_version, kind): (&str, &str), spec: Value) -> Value {
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let object = value!({"apiVersion": (api_version), "kind": (kind), "spec": (spec)});
    let body = protobuf::to_vec(&object, protobuf::find_definition(api_version, kind).unwrap());
    let reply = server.send("POST", path, body, &[("content-type", PROTOBUF), ("accept", PROTOBUF)]);
    assert_eq!((reply.code, reply.header("content-type")), (201, PROTOBUF));
    protobuf::decode(&reply.body).unwrap().value
}

#[test]
fn reviews_are_read_and_answered_in_protobuf() {
    let server = with_account(TestServer::new());
    let issued = in_protobuf(&server, TOKEN, ("authentication.k8s.io/v1", "TokenRequest"), value!({}));
    let token = issued.str_at(&["status", "token"]);
    let spec = value!({"token": (token)});
    let reviewed = in_protobuf(&server, TOKEN_REVIEWS, ("authentication.k8s.io/v1", "TokenReview"), spec);
    assert_eq!(reviewed.at(&["status", "authenticated"]), Some(&Value::Bool(true)));
    assert_eq!(reviewed.str_at(&["status", "user", "username"]), "system:serviceaccount:default:robot");
    let credential = "authentication.kubernetes.io/credential-id";
    assert!(reviewed.at(&["status", "user", "extra", credential]).is_some(), "{}", json::to_text(&reviewed));
    let spec = value!({
        "user": "ann", "groups": ["system:masters"], "extra": {"scopes": ["a", "b"]},
        "resourceAttributes": {"verb": "get", "resource": "pods"},
    });
    let reviewed =
        in_protobuf(&server, ACCESS_REVIEWS, ("authorization.k8s.io/v1", "SubjectAccessReview"), spec);
    assert_eq!(reviewed.at(&["status", "allowed"]), Some(&Value::Bool(true)));
    assert_eq!(reviewed.at(&["spec", "extra", "scopes"]), Some(&value!(["a", "b"])));
}
