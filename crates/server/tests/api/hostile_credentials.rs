//! Fuzzed credentials over the whole path: no mutation of a valid one authenticates, and none panics.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use setpoint_server::authentication::AuthenticationOptions;
use setpoint_server::exchange::{CertificateProof, Credentials, Identity, Service};

use crate::harness::TestServer;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";

/// Server with a token of each type that it verifies itself.
struct Fixture {
    server: TestServer,
    tokens: Vec<String>,
}

/// Fixture that all cases share.
static FIXTURE: LazyLock<Fixture> = LazyLock::new(fixture);

fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokens");
    std::fs::write(&path, "static-token-of-ann,ann,1\n").unwrap();
    let TestServer { api, clock, runtime } = TestServer::new();
    let options = AuthenticationOptions {
        token_file: Some(path),
        allows_bootstrap_tokens: true,
        ..AuthenticationOptions::default()
    };
    let server = TestServer { api: api.with_authentication(options).unwrap(), clock, runtime };
    server.create(ACCOUNTS, r#"{"metadata":{"name":"robot"}}"#);
    let issued = server.create(&format!("{ACCOUNTS}/robot/token"), r#"{"spec":{}}"#);
    let bootstrap = r#"{"metadata":{"name":"bootstrap-token-abcdef"},"type":"bootstrap.kubernetes.io/token","stringData":{
        "token-id":"abcdef","token-secret":"0123456789abcdef","usage-bootstrap-authentication":"true"}}"#;
    server.create(SECRETS, bootstrap);
    let tokens = vec![
        issued.str_at(&["status", "token"]).to_owned(),
        "abcdef.0123456789abcdef".to_owned(),
        "static-token-of-ann".to_owned(),
    ];
    for token in &tokens {
        assert!(server.authenticate(token).is_some(), "{token}");
    }
    Fixture { server, tokens }
}

/// Identity that headers prove.
fn identity(
    server: &TestServer,
    headers: &HeaderMap,
    certificate: Option<CertificateProof>,
) -> Option<Identity> {
    let credentials = Credentials { headers, path: "/api", certificate };
    let authenticated = server.runtime.block_on(server.api.authenticate(&credentials).wait());
    authenticated.ok().map(|one| one.identity)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_tokens_never_authenticate(
        which in 0..3_usize,
        other in 0..3_usize,
        edits in prop::collection::vec((any::<prop::sample::Index>(), 33..127_u8, 0..6_u8), 1..4),
    ) {
        let Fixture { server, tokens } = &*FIXTURE;
        let mut bytes = tokens[which].clone().into_bytes();
        for (at, byte, kind) in edits {
            let at = at.index(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
            match kind {
                _ if bytes.is_empty() => bytes.push(byte),
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => drop(bytes.remove(at)),
                3 => bytes.truncate(at),
                4 => bytes.extend_from_slice(tokens[other].as_bytes()),
                _ => {
                    // Parts of two tokens: the header of one, and the claims or the signature of another.
                    let theirs: Vec<&str> = tokens[other].split('.').collect();
                    let text = String::from_utf8(bytes.clone()).unwrap();
                    let mut parts: Vec<&str> = text.split('.').collect();
                    let count = parts.len();
                    parts[at % count] = theirs[at % theirs.len()];
                    bytes = parts.join(".").into_bytes();
                }
            }
        }
        let token = String::from_utf8(bytes).unwrap();
        // The scheme ends with a space, and so does the token.
        let sent = token.split(' ').next().unwrap_or_default();
        if !tokens.iter().any(|valid| valid == sent) {
            prop_assert_eq!(server.authenticate(&token), None, "{}", token);
        }
        for valid in tokens {
            prop_assert!(server.authenticate(valid).is_some(), "the valid tokens stay valid");
        }
    }

    #[test]
    fn tokens_without_a_valid_signature_never_authenticate(
        algorithm in prop::sample::select(vec!["none", "None", "HS256", "ES256", "ES384", "RS256", "PS256", ""]),
        key_id in prop::option::of("[a-zA-Z0-9_-]{0,50}"),
        signature in prop::collection::vec(any::<u8>(), 0..132),
    ) {
        let Fixture { server, tokens } = &*FIXTURE;
        let claims = tokens[0].split('.').nth(1).unwrap();
        let key_id = key_id.map_or(String::new(), |id| format!(r#","kid":"{id}""#));
        let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"{algorithm}"{key_id}}}"#));
        let token = format!("{header}.{claims}.{}", URL_SAFE_NO_PAD.encode(signature));
        prop_assert_eq!(server.authenticate(&token), None, "{}", token);
    }

    #[test]
    fn headers_without_a_proxy_certificate_never_authenticate(
        names in prop::collection::vec(prop::sample::select(vec![
            "authorization", "x-remote-user", "x-remote-group", "x-remote-uid", "x-remote-extra-a", "impersonate-user",
            "cookie", "proxy-authorization", "forwarded", "x-forwarded-for", "connection", "upgrade",
            "sec-websocket-protocol",
        ]), 1..6),
        values in prop::collection::vec(prop::collection::vec(32..=255_u8, 0..40), 6),
    ) {
        let Fixture { server, .. } = &*FIXTURE;
        let mut headers = HeaderMap::new();
        for (name, value) in names.iter().zip(&values) {
            let Ok(value) = HeaderValue::from_bytes(value) else { continue };
            headers.append(HeaderName::from_static(name), value);
        }
        prop_assert_eq!(identity(server, &headers, None), None, "{:?}", headers);
        // Nor do they with a certificate that is not valid.
        let invalid = CertificateProof { identity: Err("x509: expired".to_owned()), proxy: Some("proxy".to_owned()) };
        prop_assert_eq!(identity(server, &headers, Some(invalid)), None, "{:?}", headers);
    }
}
