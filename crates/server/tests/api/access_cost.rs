//! Cost of authentication and authorization of a request on a kept-alive connection: a client certificate, and cached
//! tokens of a service account and of an issuer, with 10,000 bindings. Printed, since machines differ; only its growth
//! is asserted. The budget is 5 µs, with audit, in a release build.

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use http::HeaderMap;
use setpoint_authentication::keys::SigningKey;
use setpoint_server::authentication::AuthenticationOptions;
use setpoint_server::exchange::{CertificateProof, Credentials, Identity, Request, Service};

use crate::harness::{START, TestServer, request};
use crate::issuer_server::IssuerServer;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
/// Requests of one measurement.
const REQUESTS: u32 = 5000;
/// Measurements, of which the fastest counts.
const ROUNDS: usize = 7;
/// Growth that a busy machine explains: to try 10,000 bindings takes a millisecond.
const GROWTH_MAX: Duration = Duration::from_micros(50);

/// Result of a future that waits for nothing.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the cost of a request that waits is not measured"),
    }
}

/// Authenticates and authorizes a request, as the handler of a connection does.
fn access(server: &TestServer, head: &mut Request, headers: &HeaderMap, proof: Option<&CertificateProof>) {
    let credentials = Credentials { headers, path: &head.path, certificate: proof.cloned() };
    let authenticated = ready(server.api.authenticate(&credentials).wait());
    head.identity = authenticated.unwrap_or_else(|error| panic!("{error:?}")).identity;
    assert!(ready(server.api.authorize(head)).is_ok(), "{} may read pods", head.identity.user);
}

#[expect(clippy::disallowed_methods, reason = "measures the cost of requests")]
fn cost(server: &TestServer, token: Option<&str>, proof: Option<&CertificateProof>) -> Duration {
    let mut head = request("GET", "/api/v1/namespaces/default/pods/p", "", &[]);
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
        // The first request verifies the token.
        server.authenticate(token).unwrap();
    }
    let round = || {
        let started = Instant::now();
        for _ in 0..REQUESTS {
            access(black_box(server), black_box(&mut head), &headers, proof);
        }
        started.elapsed()
    };
    std::iter::repeat_with(round).take(ROUNDS).min().unwrap_or_default() / REQUESTS
}

/// Server whose users may read pods by the last of many bindings.
fn server(bindings: usize, options: AuthenticationOptions) -> TestServer {
    let TestServer { api, clock, runtime } = TestServer::new();
    let server = TestServer { api: api.with_authentication(options).unwrap(), clock, runtime };
    for (name, resource) in [("other", "things"), ("z-last", "pods")] {
        let rules =
            format!(r#"[{{"verbs":["get","list","watch"],"apiGroups":[""],"resources":["{resource}"]}}]"#);
        server.create(
            &format!("{RBAC}/clusterroles"),
            &format!(r#"{{"metadata":{{"name":"{name}"}},"rules":{rules}}}"#),
        );
    }
    let bind = |name: &str, role: &str, group: &str| {
        let body = format!(
            r#"{{"metadata":{{"name":"{name}"}},"roleRef":{{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"{role}"}},
            "subjects":[{{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"{group}"}}]}}"#
        );
        server.create(&format!("{RBAC}/clusterrolebindings"), &body);
    };
    for number in 0..bindings {
        // A third binds the user.
        let group = if number % 3 == 0 { "system:authenticated".to_owned() } else { format!("g{number}") };
        bind(&format!("b{number}"), "other", &group);
    }
    bind("z-last", "z-last", "system:authenticated");
    server
}

#[test]
fn access_of_a_request_does_not_cost_more_with_many_bindings() {
    let key = SigningKey::from_der(&SigningKey::generate_pkcs8().unwrap()).unwrap();
    let issuer = IssuerServer::start(&key);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("authentication.yaml");
    std::fs::write(&path, issuer.configuration("")).unwrap();
    let measure = |bindings: usize| {
        let options = AuthenticationOptions {
            configuration_file: Some(path.clone()),
            ..AuthenticationOptions::default()
        };
        let server = server(bindings, options);
        let account = "/api/v1/namespaces/default/serviceaccounts";
        server.create(account, r#"{"metadata":{"name":"robot"}}"#);
        let issued = server.create(&format!("{account}/robot/token"), r#"{"spec":{}}"#);
        let token = issued.str_at(&["status", "token"]);
        let admin = Identity::new("kubernetes-admin", vec!["system:masters".to_owned()]);
        let user = Identity::new("ann", vec!["devs".to_owned()]);
        let proof = |identity| CertificateProof { identity: Ok(Some(identity)), proxy: None };
        let id_token = issuer.token(&key, "ann", START.0 / 1_000_000 + 3600);
        [
            ("client certificate of the administrator", cost(&server, None, Some(&proof(admin)))),
            ("client certificate of a user", cost(&server, None, Some(&proof(user)))),
            ("token of a service account", cost(&server, Some(token), None)),
            ("ID token of an issuer", cost(&server, Some(&id_token), None)),
        ]
    };
    let (few, many) = (measure(10), measure(10_000));
    for ((name, few), (_, many)) in few.iter().zip(&many) {
        println!("{name}: {few:?} with 10 bindings, {many:?} with 10,000");
        assert!(*many <= *few + GROWTH_MAX, "{name}: {few:?} with 10 bindings, {many:?} with 10,000");
    }
}
