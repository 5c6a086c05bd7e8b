//! Service account tokens: issuing, verification, binding, expiry, and their permissions.

use std::time::Duration;

use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384};
use setpoint_api::{Value, json};
use setpoint_authentication::keys::signing_key;
use setpoint_authentication::service_account::legacy_claims;
use setpoint_server::authentication::AuthenticationOptions;
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
    let place = forged.rfind('.').unwrap() + 3;
    let other = if forged.as_bytes()[place] == b'A' { "B" } else { "A" };
    forged.replace_range(place..=place, other);
    let error = "go-jose/go-jose: error in cryptographic primitive";
    assert_eq!(review(&server, &forged).str_at(&["error"]), error);
    assert_eq!(review(&server, "x").str_at(&["error"]), "invalid bearer token");
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

#[test]
fn token_bound_to_a_secret_is_revoked_with_it() {
    let server = TestServer::new();
    account(&server);
    let secrets = "/api/v1/namespaces/default/secrets";
    server.create(secrets, r#"{"metadata":{"name":"s"}}"#);
    let bind = || token(&server, r#"{"boundObjectRef":{"kind":"Secret","apiVersion":"v1","name":"s"}}"#);
    let (code, issued) = bind();
    assert_eq!(code, 201, "{}", json::to_text(&issued));
    let first = issued.str_at(&["status", "token"]);
    assert!(server.authenticate(first).is_some());
    server.call("PATCH", &format!("{secrets}/s"), r#"{"metadata":{"labels":{"a":"b"}}}"#);
    assert!(server.authenticate(first).is_some(), "a change of the Secret revokes nothing");
    assert_eq!(server.call("DELETE", &format!("{secrets}/s"), "").0, 200);
    assert!(server.authenticate(first).is_none());
    assert_eq!(bind().0, 404);
    server.create(secrets, r#"{"metadata":{"name":"s"}}"#);
    assert!(server.authenticate(first).is_none(), "another Secret of that name");
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
fn cached_token_fails_with_the_next_request_after_its_object_has_changed() {
    let server = TestServer::new();
    account(&server);
    let pod = r#"{"metadata":{"name":"p"},"spec":{"serviceAccountName":"robot","containers":[{"name":"c","image":"i"}]}}"#;
    let pods = "/api/v1/namespaces/default/pods";
    server.create(pods, pod);
    let (_, issued) = token(&server, r#"{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p"}}"#);
    let token = issued.str_at(&["status", "token"]);
    let first = server.authenticate(token).unwrap();
    assert_eq!(first.extra["authentication.kubernetes.io/pod-name"], ["p"]);
    for label in ["a", "b"] {
        let patch = format!(r#"{{"metadata":{{"labels":{{"k":"{label}"}}}}}}"#);
        assert_eq!(server.call("PATCH", &format!("{pods}/p"), &patch).0, 200);
        assert_eq!(
            server.authenticate(token).as_ref(),
            Some(&first),
            "a change of the pod costs a verification"
        );
    }
    server.call("DELETE", &format!("{pods}/p?gracePeriodSeconds=0"), "");
    assert!(server.authenticate(token).is_none());
    server.create(pods, pod);
    assert!(server.authenticate(token).is_none(), "another pod of that name");
    let (_, issued) = self::token(&server, "{}");
    let token = issued.str_at(&["status", "token"]);
    assert!(server.authenticate(token).is_some() && server.authenticate(token).is_some());
    server.call("DELETE", &format!("{ACCOUNTS}/robot"), "");
    assert!(server.authenticate(token).is_none());
}

/// Server with these options of authentication.
fn server_with(options: AuthenticationOptions) -> TestServer {
    let TestServer { api, clock, runtime } = TestServer::new();
    TestServer { api: api.with_authentication(options).unwrap(), clock, runtime }
}

#[test]
fn keys_of_tokens_are_rotated_by_files() {
    let dir = tempfile::tempdir().unwrap();
    let (signing, public) = (dir.path().join("signing.pem"), dir.path().join("public.pem"));
    let (old, new) = (KeyPair::generate().unwrap(), KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap());
    std::fs::write(&signing, old.serialize_pem()).unwrap();
    std::fs::write(&public, old.public_key_pem()).unwrap();
    let server = server_with(AuthenticationOptions {
        service_account_signing_key_file: Some(signing.clone()),
        service_account_key_files: vec![public.clone()],
        service_account_issuers: vec!["https://new.example".into(), "https://old.example".into()],
        api_audiences: vec!["api".into()],
        ..AuthenticationOptions::default()
    });
    account(&server);
    let issue = || token(&server, "{}").1.str_at(&["status", "token"]).to_owned();
    let algorithms = || {
        let document = server.get("/.well-known/openid-configuration").value();
        assert_eq!(document.str_at(&["issuer"]), "https://new.example");
        json::to_text(document.get("id_token_signing_alg_values_supported").unwrap())
    };
    let keys = || server.get("/openid/v1/jwks").value().get("keys").and_then(Value::as_list).unwrap().len();
    let first = issue();
    assert!(server.authenticate(&first).is_some());
    assert_eq!((algorithms().as_str(), keys()), (r#"["ES256"]"#, 1));
    std::fs::write(&signing, new.serialize_pem()).unwrap();
    assert!(server.api.authenticator().reload().unwrap());
    let second = issue();
    assert!(server.authenticate(&first).is_some() && server.authenticate(&second).is_some());
    assert_eq!((algorithms().as_str(), keys()), (r#"["ES256","ES384"]"#, 2));
    std::fs::write(&public, new.public_key_pem()).unwrap();
    assert!(server.api.authenticator().reload().unwrap());
    assert!(server.authenticate(&first).is_none(), "its key was withdrawn");
    assert!(server.authenticate(&second).is_some());
    assert_eq!(review(&server, &first).str_at(&["error"]), "invalid signature, no keys found");
    std::fs::write(&signing, "no key").unwrap();
    let error = server.api.authenticator().reload().unwrap_err().to_string();
    assert!(error.ends_with("data does not contain a valid RSA or ECDSA private key"), "{error}");
    assert!(server.authenticate(&second).is_some());
}

#[test]
fn issuer_documents_can_be_cached() {
    let server = TestServer::new();
    for (path, kind) in [
        ("/.well-known/openid-configuration", "application/json"),
        ("/openid/v1/jwks", "application/jwk-set+json"),
    ] {
        let reply = server.get(path);
        assert_eq!((reply.code, reply.header("content-type")), (200, kind));
        assert_eq!(reply.header("cache-control"), "public, max-age=3600");
        assert!(!reply.text().ends_with('\n'));
    }
}

#[test]
fn expiration_of_tokens_is_bounded_and_extended_for_volumes() {
    let max = Some(Duration::from_secs(7200));
    let server = server_with(AuthenticationOptions { token_expiration_max: max, ..Default::default() });
    account(&server);
    let body = r#"{"spec":{"expirationSeconds":9000}}"#;
    let reply = server.send(
        "POST",
        &format!("{ACCOUNTS}/robot/token"),
        body,
        &[("content-type", "application/json")],
    );
    assert_eq!(
        reply.warnings(),
        [r#"299 - "requested expiration of 9000 seconds shortened to 7200 seconds""#]
    );
    let issued = reply.value();
    assert_eq!(issued.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64), Some(7200));
    assert!(!issued.str_at(&["metadata", "uid"]).is_empty());
    let pod = r#"{"metadata":{"name":"p"},"spec":{"serviceAccountName":"robot","containers":[{"name":"c","image":"i"}]}}"#;
    server.create("/api/v1/namespaces/default/pods", pod);
    let spec = r#"{"expirationSeconds":3607,"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p"}}"#;
    let (_, issued) = token(&server, spec);
    assert_eq!(issued.str_at(&["status", "expirationTimestamp"]), "2023-11-14T23:13:27Z");
    server.clock.advance(Duration::from_secs(300 * 24 * 3600));
    assert!(server.authenticate(issued.str_at(&["status", "token"])).is_some(), "it is extended to a year");
}

#[test]
fn legacy_token_is_verified_and_its_use_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("signing.pem");
    let pair = KeyPair::generate().unwrap();
    std::fs::write(&path, pair.serialize_pem()).unwrap();
    let key = signing_key(pair.serialize_pem().as_bytes()).unwrap();
    let options =
        AuthenticationOptions { service_account_signing_key_file: Some(path), ..Default::default() };
    let server = server_with(options);
    account(&server);
    let robot = server.object(&format!("{ACCOUNTS}/robot"));
    let token = key.sign(&legacy_claims(&robot, "t")).unwrap();
    assert!(server.authenticate(&token).is_none(), "there is no Secret yet");
    let uid = robot.str_at(&["metadata", "uid"]);
    let secret = format!(
        r#"{{"metadata":{{"name":"t","annotations":{{"kubernetes.io/service-account.name":"robot","kubernetes.io/service-account.uid":"{uid}"}}}},
        "type":"kubernetes.io/service-account-token","stringData":{{"token":"{token}"}}}}"#
    );
    server.create("/api/v1/namespaces/default/secrets", &secret);
    let found = server.authenticate(&token).unwrap();
    assert_eq!((found.user.as_str(), found.uid.as_str()), ("system:serviceaccount:default:robot", uid));
    let path = "/api/v1/namespaces/default/secrets/t";
    let label = server.object(path);
    let label = label.str_at(&["metadata", "labels", "kubernetes.io/legacy-token-last-used"]).to_owned();
    assert_eq!(label, "2023-11-14");
    let invalid = r#"{"metadata":{"labels":{"kubernetes.io/legacy-token-invalid-since":"2023-11-14"}}}"#;
    assert_eq!(server.call("PATCH", path, invalid).0, 200);
    assert!(server.authenticate(&token).is_none(), "the cleaner has invalidated it");
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

#[test]
fn token_requests_are_admitted_by_policies() {
    const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1";
    let server = TestServer::new();
    account(&server);
    let rule = r#"{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["serviceaccounts/token"]}"#;
    let expression = "object.spec.audiences.all(one, one != 'vault')";
    server.create(
        &format!("{POLICIES}/validatingadmissionpolicies"),
        &format!(
            r#"{{"metadata":{{"name":"p"}},"spec":{{"matchConstraints":{{"resourceRules":[{rule}]}},
            "validations":[{{"expression":"{expression}"}}]}}}}"#
        ),
    );
    server.create(
        &format!("{POLICIES}/validatingadmissionpolicybindings"),
        r#"{"metadata":{"name":"b"},"spec":{"policyName":"p","validationActions":["Deny"]}}"#,
    );
    let (code, refused) = token(&server, r#"{"audiences":["vault"]}"#);
    assert_eq!(code, 422, "{}", json::to_text(&refused));
    assert!(refused.str_at(&["message"]).contains("ValidatingAdmissionPolicy 'p'"));
    let (code, issued) = token(&server, r#"{"audiences":["other"]}"#);
    assert_eq!(code, 201, "{}", json::to_text(&issued));
}
