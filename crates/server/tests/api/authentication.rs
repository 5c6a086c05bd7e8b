//! Authenticators: token files, bootstrap tokens, external issuers, webhooks, proxies, and requests without credentials.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use setpoint_api::{Value, json, value};
use setpoint_authentication::keys::{Algorithm, SigningKey};
use setpoint_authentication::oidc::config::OidcFlags;
use setpoint_authentication::request_header::RequestHeaders;
use setpoint_authentication::token_review::ReviewVersion;
use setpoint_server::authentication::{AuthenticationOptions, OidcOptions, TokenWebhookOptions};
use setpoint_server::exchange::{CertificateProof, Credentials, Identity, Service};
use tempfile::TempDir;

use crate::harness::{START, TestServer};
use crate::issuer_server::IssuerServer;
use crate::webhook_server::{HookReply, HookServer};

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// Server with these options.
fn server(options: AuthenticationOptions) -> TestServer {
    let TestServer { api, clock, runtime } = TestServer::new();
    TestServer { api: api.with_authentication(options).unwrap(), clock, runtime }
}

/// Directory with a file, and its path.
fn file(text: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, text).unwrap();
    (dir, path)
}

fn key() -> SigningKey {
    SigningKey::from_der(&SigningKey::generate_pkcs8().unwrap()).unwrap()
}

fn authenticate(
    server: &TestServer,
    pairs: &[(&str, &str)],
    path: &str,
    certificate: Option<CertificateProof>,
) -> Result<Identity, Vec<String>> {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
    }
    let credentials = Credentials { headers: &headers, path, certificate };
    let authenticated = server.runtime.block_on(server.api.authenticate(&credentials).wait());
    authenticated.map(|one| one.identity).map_err(|error| error.0)
}

fn review(server: &TestServer, token: &str, audiences: &str) -> Value {
    let body = format!(r#"{{"spec":{{"token":"{token}","audiences":{audiences}}}}}"#);
    let (code, review) = server.call("POST", REVIEWS, &body);
    assert_eq!(code, 201, "{}", json::to_text(&review));
    review.get("status").cloned().unwrap()
}

#[test]
fn static_tokens_are_those_of_the_file() {
    let (dir, path) = file("secret,ann,u-1,\"devs,ops\"\n");
    let server = server(AuthenticationOptions { token_file: Some(path.clone()), ..Default::default() });
    let ann = server.authenticate("secret").unwrap();
    assert_eq!((ann.user.as_str(), ann.uid.as_str()), ("ann", "u-1"));
    assert_eq!(ann.groups, ["devs", "ops", "system:authenticated"]);
    assert!(server.authenticate("secret2").is_none());
    let status = review(&server, "secret", "[]");
    assert_eq!(
        json::to_text(&status),
        r#"{"authenticated":true,"user":{"username":"ann","uid":"u-1","groups":["devs","ops","system:authenticated"]},"audiences":["https://kubernetes.default.svc.cluster.local"]}"#
    );
    assert_eq!(review(&server, "secret", r#"["vault"]"#).str_at(&["error"]), "invalid bearer token");
    std::fs::write(&path, "other,bob,2\n").unwrap();
    assert!(server.api.authenticator().reload().unwrap());
    assert!(!server.api.authenticator().reload().unwrap(), "nothing has changed");
    assert!(server.authenticate("secret").is_none());
    assert_eq!(server.authenticate("other").unwrap().user, "bob");
    std::fs::write(&path, "a,b").unwrap();
    let error = server.api.authenticator().reload().unwrap_err().to_string();
    assert!(error.ends_with("must have at least 3 columns (token, user name, user uid), found 2"), "{error}");
    assert_eq!(server.authenticate("other").unwrap().user, "bob", "a malformed file changes nothing");
    drop(dir);
}

fn bootstrap_secret(server: &TestServer, expiration: &str) {
    let body = format!(
        r#"{{"metadata":{{"name":"bootstrap-token-abcdef"}},"type":"bootstrap.kubernetes.io/token","stringData":{{
        "token-id":"abcdef","token-secret":"0123456789abcdef","usage-bootstrap-authentication":"true",
        "expiration":"{expiration}","auth-extra-groups":"system:bootstrappers:workers"}}}}"#
    );
    server.create("/api/v1/namespaces/kube-system/secrets", &body);
}

#[test]
fn bootstrap_token_is_valid_until_its_secret_expires_or_is_deleted() {
    const TOKEN: &str = "abcdef.0123456789abcdef";
    let off = TestServer::new();
    bootstrap_secret(&off, "2033-01-01T00:00:00Z");
    assert!(off.authenticate(TOKEN).is_none(), "bootstrap tokens are off by default");
    let server = server(AuthenticationOptions { allows_bootstrap_tokens: true, ..Default::default() });
    assert!(server.authenticate(TOKEN).is_none());
    bootstrap_secret(&server, "2023-11-14T22:14:20Z");
    let joining = server.authenticate(TOKEN).unwrap();
    assert_eq!(joining.user, "system:bootstrap:abcdef");
    assert_eq!(
        joining.groups,
        ["system:bootstrappers", "system:bootstrappers:workers", "system:authenticated"]
    );
    assert!(server.authenticate("abcdef.0123456789abcdeg").is_none());
    server.clock.advance(Duration::from_secs(59));
    assert!(server.authenticate(TOKEN).is_some());
    server.clock.advance(Duration::from_secs(1));
    assert!(server.authenticate(TOKEN).is_none(), "it has expired");
    let secret = "/api/v1/namespaces/kube-system/secrets/bootstrap-token-abcdef";
    server.call("DELETE", secret, "");
    bootstrap_secret(&server, "2033-01-01T00:00:00Z");
    assert!(server.authenticate(TOKEN).is_some());
    server.call("DELETE", secret, "");
    assert!(server.authenticate(TOKEN).is_none(), "its Secret was deleted");
}

#[test]
fn tokens_of_external_issuers_are_verified_with_their_current_keys() {
    let (first, second) = (key(), key());
    let issuer = IssuerServer::start(&first);
    let (_dir, path) = file(&issuer.configuration(""));
    let server = server(AuthenticationOptions { configuration_file: Some(path), ..Default::default() });
    let expires = START.0 / 1_000_000 + 3600;
    let token = issuer.token(&first, "ann", expires);
    let ann = server.authenticate(&token).unwrap();
    assert_eq!(ann.user, "oidc:ann");
    assert_eq!(ann.groups, ["oidc:devs", "system:authenticated"]);
    assert_eq!(ann.extra["authentication.kubernetes.io/credential-id"], ["JTI=7"]);
    assert_eq!(issuer.requests(), 2, "discovery and keys");
    for _ in 0..10 {
        assert!(server.authenticate(&token).is_some());
        assert!(server.authenticate(&issuer.token(&first, "bob", expires)).is_some());
    }
    assert_eq!(issuer.requests(), 2, "the keys are cached");
    // Forged tokens cause at most one fetch per second.
    for _ in 0..10 {
        assert!(server.authenticate(&issuer.token(&second, "eve", expires)).is_none());
    }
    assert_eq!(issuer.requests(), 2);
    issuer.publish_keys(&[&second]);
    server.clock.advance(Duration::from_secs(11));
    let rotated = issuer.token(&second, "ann", expires);
    assert_eq!(server.authenticate(&rotated).unwrap().user, "oidc:ann");
    assert_eq!(issuer.requests(), 3);
    let old = review(&server, &token, "[]");
    assert_eq!(
        old.str_at(&["error"]),
        "oidc: verify token: failed to verify signature: failed to verify id token signature"
    );
    assert_eq!(
        review(&server, &issuer.token(&second, "ann", 1), "[]").str_at(&["error"]),
        "oidc: verify token: oidc: token is expired (Token Expiry: 1970-01-01 00:00:01 +0000 UTC)"
    );
}

#[test]
fn each_of_two_issuers_vouches_for_its_own_users() {
    let (first_key, second_key) = (key(), key());
    let (first, second) = (IssuerServer::start(&first_key), IssuerServer::start(&second_key));
    let (_, own) =
        second.configuration("").split_once("jwt:\n").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let text = first.configuration("") + &own.replace("oidc:", "second:");
    let (_dir, path) = file(&text);
    let server = server(AuthenticationOptions { configuration_file: Some(path), ..Default::default() });
    let expires = START.0 / 1_000_000 + 3600;
    assert_eq!(server.authenticate(&first.token(&first_key, "ann", expires)).unwrap().user, "oidc:ann");
    assert_eq!(server.authenticate(&second.token(&second_key, "ann", expires)).unwrap().user, "second:ann");
    // A key of one issuer signs nothing for the other.
    assert!(server.authenticate(&first.token(&second_key, "ann", expires)).is_none());
    assert!(server.authenticate(&second.token(&first_key, "ann", expires)).is_none());
    first.break_down();
    server.clock.advance(Duration::from_secs(11));
    assert!(server.authenticate(&second.token(&second_key, "bob", expires)).is_some(), "issuers fail apart");
}

#[test]
fn keys_of_a_failing_issuer_are_fetched_again_later() {
    let key = key();
    let issuer = IssuerServer::start(&key);
    issuer.break_down();
    let flags = OidcFlags {
        issuer_url: issuer.url.clone(),
        client_id: "setpoint".into(),
        username_claim: "sub".into(),
        ..OidcFlags::default()
    };
    let (_dir, ca_file) = file(&issuer.ca);
    let oidc = OidcOptions { flags, algorithms: vec![Algorithm::Es256], ca_file: Some(ca_file) };
    let server = server(AuthenticationOptions { oidc: Some(oidc), ..Default::default() });
    let token = issuer.token(&key, "ann", START.0 / 1_000_000 + 3600);
    for _ in 0..3 {
        assert_eq!(review(&server, &token, "[]").str_at(&["error"]), "oidc: authenticator not initialized");
    }
    assert_eq!(issuer.requests(), 1, "a failed issuer is left alone for a while");
    server.clock.advance(Duration::from_secs(10));
    assert!(server.authenticate(&token).is_none());
    assert_eq!(issuer.requests(), 2);
}

#[test]
fn configuration_is_reloaded_and_invalid_changes_are_ignored() {
    let key = key();
    let issuer = IssuerServer::start(&key);
    let (_dir, path) = file(&issuer.configuration(""));
    let server =
        server(AuthenticationOptions { configuration_file: Some(path.clone()), ..Default::default() });
    let token = issuer.token(&key, "ann", START.0 / 1_000_000 + 3600);
    assert!(server.authenticate(&token).is_some());
    let change = |text: &str| {
        std::fs::write(&path, text).unwrap();
        server.api.authenticator().reload().map_err(|error| error.to_string())
    };
    let rule = "  userValidationRules: [{expression: \"user.username != 'oidc:ann'\", message: not ann}]\n";
    assert_eq!(change(&issuer.configuration(rule)), Ok(true));
    assert!(server.authenticate(&token).is_none(), "cached tokens are verified anew");
    assert!(server.authenticate(&issuer.token(&key, "bob", START.0 / 1_000_000 + 3600)).is_some());
    let error = change(&issuer.configuration("  shape: round\n")).unwrap_err();
    assert!(error.ends_with("strict decoding error: unknown field \"jwt[0].shape\""), "{error}");
    let error = change(&issuer.configuration("anonymous: {enabled: true}\n")).unwrap_err();
    assert_eq!(
        error,
        "invalid authentication configuration: anonymous: Forbidden: changed from initial configuration file"
    );
    assert!(server.authenticate(&token).is_none(), "the last valid configuration is in use");
}

#[test]
fn webhook_reviews_tokens_that_nothing_else_knows() {
    let hook = HookServer::start(|review| {
        let is_known = review.str_at(&["spec", "token"]) == "known";
        HookReply::Json(value!({
            "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1",
            "status": {"authenticated": (is_known), "user": {"username": "ann", "uid": "7", "extra": {"k": ["v"]}}},
        }))
    });
    let (_dir, path) = file(&format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: h, user: u}}}}]\n\
         clusters: [{{name: h, cluster: {{server: '{}', certificate-authority-data: {}}}}}]\nusers: [{{name: u, user: {{token: t}}}}]\n",
        hook.url, hook.ca_bundle
    ));
    let webhook = TokenWebhookOptions {
        config_file: path,
        version: ReviewVersion::V1,
        cache_ttl: Duration::from_secs(120),
    };
    let server = server(AuthenticationOptions { webhook: Some(webhook), ..Default::default() });
    for _ in 0..3 {
        let ann = server.authenticate("known").unwrap();
        assert_eq!((ann.user.as_str(), ann.uid.as_str()), ("ann", "7"));
        assert!(server.authenticate("unknown").is_none());
    }
    assert_eq!(hook.reviews().len(), 2, "answers are cached");
    assert_eq!(
        json::to_text(hook.reviews()[0].at(&["spec", "audiences"]).unwrap()),
        r#"["https://kubernetes.default.svc.cluster.local"]"#
    );
    server.clock.advance(Duration::from_secs(121));
    assert!(server.authenticate("known").is_some());
    assert_eq!(hook.reviews().len(), 3);
    let status = review(&server, "known", r#"["vault"]"#);
    assert_eq!(status.str_at(&["error"]), "invalid bearer token", "the webhook knows no audiences");
}

fn proxy(name: &str) -> Option<CertificateProof> {
    let identity = Err("invalid peer certificate: UnknownIssuer".to_owned());
    Some(CertificateProof { identity, proxy: Some(name.to_owned()) })
}

#[test]
fn proxy_names_users_only_with_an_allowed_certificate() {
    let names = RequestHeaders { allowed_names: vec!["front".into()], ..RequestHeaders::standard() };
    let server = server(AuthenticationOptions {
        request_headers: Some(names),
        allows_anonymous: Some(true),
        ..Default::default()
    });
    let sent = [
        ("x-remote-user", "ann"),
        ("x-remote-group", "devs"),
        ("x-remote-uid", "7"),
        ("x-remote-extra-k", "v"),
    ];
    let ann = authenticate(&server, &sent, "/api", proxy("front")).unwrap();
    assert_eq!((ann.user.as_str(), ann.uid.as_str()), ("ann", "7"));
    assert_eq!(ann.groups, ["devs", "system:authenticated"]);
    assert_eq!(ann.extra["k"], ["v"]);
    let errors = authenticate(&server, &sent, "/api", proxy("other")).unwrap_err();
    assert_eq!(errors[0], "x509: subject with cn=other is not in the allowed list");
    assert!(authenticate(&server, &[], "/api", proxy("front")).is_err(), "no user is named");
    let anonymous = authenticate(&server, &sent, "/api", None).unwrap();
    assert_eq!(anonymous.user, "system:anonymous", "headers without a certificate name nobody");
    let mut headers = HeaderMap::new();
    for name in ["authorization", "x-remote-user", "x-remote-extra-k", "accept"] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static("x"));
    }
    server.api.strip_credentials(&mut headers);
    assert_eq!(headers.len(), 1);
}

#[test]
fn requests_without_credentials_are_anonymous_only_where_configured() {
    let get = |server: &TestServer, path: &str| authenticate(server, &[], path, None).map(|one| one.user);
    let off = TestServer::new();
    assert_eq!(get(&off, "/livez"), Err(Vec::new()));
    let everywhere = server(AuthenticationOptions { allows_anonymous: Some(true), ..Default::default() });
    assert_eq!(get(&everywhere, "/api"), Ok("system:anonymous".into()));
    let bad = authenticate(&everywhere, &[("authorization", "Bearer x")], "/api", None).unwrap_err();
    assert_eq!(bad, ["invalid bearer token"], "invalid credentials are not anonymous");
    let (_dir, path) = file(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n\
         anonymous: {enabled: true, conditions: [{path: /livez}]}\n",
    );
    let health = AuthenticationOptions { configuration_file: Some(path), ..Default::default() };
    let both = AuthenticationOptions { allows_anonymous: Some(true), ..health.clone() };
    let server = server(health);
    assert_eq!(get(&server, "/livez"), Ok("system:anonymous".into()));
    assert!(get(&server, "/readyz").is_err());
    let identity = authenticate(&server, &[], "/livez", None).unwrap();
    let call = |path: &str| server.call_as(identity.clone(), "GET", path, "").0;
    assert_eq!((call("/livez"), call("/version"), call("/api/v1/pods")), (200, 200, 403));
    let TestServer { api, .. } = TestServer::new();
    let error = api.with_authentication(both).map(drop).unwrap_err().to_string();
    assert!(
        error.contains("--anonymous-auth flag cannot be set when anonymous field is configured"),
        "{error}"
    );
}

#[test]
fn identity_of_a_user_reaches_reviews_and_signing_requests() {
    let server = TestServer::new();
    let mut ann = Identity::new("ann", vec!["system:masters".into()]);
    ann.uid = "7".into();
    ann.extra.insert("acme.com/k".into(), vec!["v".into()]);
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (code, review) = server.call_as(ann.clone(), "POST", path, "{}");
    assert_eq!(code, 201);
    assert_eq!(
        json::to_text(review.at(&["status", "userInfo"]).unwrap()),
        r#"{"username":"ann","uid":"7","groups":["system:masters"],"extra":{"acme.com/k":["v"]}}"#
    );
    let pair = rcgen::KeyPair::generate().unwrap();
    let request = rcgen::CertificateParams::default().serialize_request(&pair).unwrap().pem().unwrap();
    let request = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, request);
    let body = format!(
        r#"{{"metadata":{{"name":"c"}},"spec":{{"request":"{request}","signerName":"a.b/c","usages":["client auth"],"uid":"forged","username":"root"}}}}"#
    );
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let (code, created) = server.call_as(ann, "POST", requests, &body);
    assert_eq!(code, 201, "{}", json::to_text(&created));
    let spec = created.get("spec").unwrap();
    assert_eq!((spec.str_at(&["username"]), spec.str_at(&["uid"])), ("ann", "7"));
    assert_eq!(json::to_text(spec.get("extra").unwrap()), r#"{"acme.com/k":["v"]}"#);
}
