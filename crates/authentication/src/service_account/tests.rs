//! Tests of service account tokens.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use setpoint_api::value;

use super::*;
use crate::keys::SigningKey;
use crate::user::{CREDENTIAL_ID, NODE_NAME, NODE_UID, POD_NAME, POD_UID};

const NOW: Time = Time::from_seconds(1_700_000_000);
const ISSUER: &str = "https://issuer";

#[derive(Default)]
struct Objects(BTreeMap<(String, String, String), Value>);

impl Objects {
    fn with(mut self, resource: &str, namespace: &str, name: &str, uid: &str) -> Objects {
        let object = value!({"metadata": {"name": (name), "namespace": (namespace), "uid": (uid)}});
        self.0.insert((resource.into(), namespace.into(), name.into()), object);
        self
    }

    fn get_mut(&mut self, resource: &str, namespace: &str, name: &str) -> &mut Value {
        self.0.get_mut(&(resource.into(), namespace.into(), name.into())).unwrap()
    }
}

impl ObjectReader for Objects {
    fn object(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        self.0.get(&(resource.into(), namespace.into(), name.into())).cloned()
    }
}

struct Fixture {
    key: SigningKey,
    verifier: ServiceAccountVerifier,
    objects: Objects,
}

fn fixture() -> Fixture {
    let key = SigningKey::from_der(&SigningKey::generate_pkcs8().unwrap()).unwrap();
    let verifier = ServiceAccountVerifier {
        issuers: vec![ISSUER.into(), "https://old".into()],
        keys: vec![key.public().clone()],
        audiences: vec![ISSUER.into()],
    };
    let objects = Objects::default()
        .with("serviceaccounts", "ns", "robot", "sa-1")
        .with("pods", "ns", "p", "pod-1")
        .with("secrets", "ns", "s", "secret-1")
        .with("nodes", "", "n", "node-1");
    Fixture { key, verifier, objects }
}

impl Fixture {
    fn claims(&self, bound: &[(&'static str, &str, &str)], audiences: &[&str]) -> Value {
        let read = |resource: &str, namespace: &str, name: &str| {
            self.objects.object(resource, namespace, name).unwrap()
        };
        let account = read("serviceaccounts", "ns", "robot");
        let bound: Vec<_> = bound
            .iter()
            .map(|(kind, namespace, name)| (*kind, read(&format!("{kind}s"), namespace, name)))
            .collect();
        let audiences: Vec<String> = audiences.iter().map(|&audience| audience.to_owned()).collect();
        let grant = TokenGrant {
            issuer: ISSUER,
            audiences: &audiences,
            now: NOW,
            expires: NOW.after(std::time::Duration::from_secs(600)),
            warn_after: None,
            id: "id-1",
        };
        bound_claims(&account, &bound, &grant)
    }

    fn verify(&self, claims: &Value, after: i64) -> Result<AuthenticatedToken, String> {
        let token = self.key.sign(claims).unwrap();
        self.verify_token(&token, after)
    }

    fn verify_token(&self, token: &str, after: i64) -> Result<AuthenticatedToken, String> {
        let now = Time(NOW.0 + after * 1_000_000);
        let verified = self.verifier.authenticate(token, &self.verifier.audiences, &self.objects, now);
        verified.map_err(|error| error.to_string()).map(Option::unwrap)
    }
}

#[test]
fn bound_token_has_the_extra_fields_of_upstream() {
    let fixture = fixture();
    let verified = fixture
        .verify(&fixture.claims(&[("pod", "ns", "p"), ("node", "", "n")], &[ISSUER, "vault"]), 0)
        .unwrap();
    let identity = &verified.identity;
    assert_eq!((identity.user.as_str(), identity.uid.as_str()), ("system:serviceaccount:ns:robot", "sa-1"));
    assert_eq!(identity.groups, ["system:serviceaccounts", "system:serviceaccounts:ns"]);
    for (key, expected) in [
        (POD_NAME, "p"),
        (POD_UID, "pod-1"),
        (NODE_NAME, "n"),
        (NODE_UID, "node-1"),
        (CREDENTIAL_ID, "JTI=id-1"),
    ] {
        assert_eq!(identity.extra[key], [expected], "{key}");
    }
    assert_eq!(verified.audiences, [ISSUER]);
    let objects: Vec<&str> = verified.objects.iter().map(|object| object.resource).collect();
    assert_eq!(objects, ["serviceaccounts", "pods"]);
    assert_eq!(verified.valid_until, Some(Time(NOW.0 + 660 * 1_000_000)));
}

#[test]
fn claims_are_rejected_with_the_texts_of_upstream() {
    let mut fixture = fixture();
    let claims = fixture.claims(&[], &[ISSUER]);
    let with = |field: &str, value: Value| {
        let mut claims = claims.clone();
        claims.make_map().insert(field, value);
        claims
    };
    let error = |fixture: &Fixture, claims: &Value, after: i64| fixture.verify(claims, after).unwrap_err();
    assert_eq!(error(&fixture, &claims, 661), "service account token has expired");
    assert!(fixture.verify(&claims, 660).is_ok());
    assert_eq!(error(&fixture, &claims, -61), "service account token is not valid yet");
    let later = with("iat", (NOW.0 / 1_000_000 + 61).into());
    assert_eq!(error(&fixture, &later, 0), "service account token is issued in the future");
    let other = fixture.claims(&[], &["vault", "b"]);
    assert_eq!(
        error(&fixture, &other, 0),
        r#"token audiences ["vault" "b"] is invalid for the target audiences ["https://issuer"]"#
    );
    assert_eq!(
        error(&fixture, &with("aud", 7.into()), 0),
        "go-jose/go-jose/jwt: expected string or array value to unmarshal to Audience"
    );
    let foreign = SigningKey::from_der(&SigningKey::generate_pkcs8().unwrap()).unwrap();
    let token = foreign.sign(&claims).unwrap();
    assert_eq!(fixture.verify_token(&token, 0).unwrap_err(), "invalid signature, no keys found");
    let token = fixture.key.sign(&claims).unwrap();
    let (signed, _) = token.rsplit_once('.').unwrap();
    let error = fixture.verify_token(&format!("{signed}.AAAA"), 0).unwrap_err();
    assert_eq!(error, "go-jose/go-jose: error in cryptographic primitive");
    fixture.verifier.keys.insert(0, foreign.public().clone());
    assert!(fixture.verify(&claims, 0).is_ok(), "several keys are accepted during a rotation");
    assert!(fixture.verify(&with("iss", "https://old".into()), 0).is_ok());
    let unknown = fixture.key.sign(&with("iss", "https://unknown".into())).unwrap();
    let none = fixture.verifier.authenticate(&unknown, &[], &fixture.objects, NOW).unwrap();
    assert_eq!(none, None, "a token of another issuer is left to others");
}

#[test]
fn token_of_a_deleted_or_replaced_object_is_rejected() {
    let kinds = [("pod", "pods", "ns", "p"), ("secret", "secrets", "ns", "s"), ("node", "nodes", "", "n")];
    for (kind, resource, namespace, name) in kinds {
        let mut fixture = fixture();
        let claims = fixture.claims(&[(kind, namespace, name)], &[ISSUER]);
        assert!(fixture.verify(&claims, 0).is_ok());
        let metadata = fixture.objects.get_mut(resource, namespace, name).ensure_map("metadata");
        metadata.insert("deletionTimestamp", "2023-11-14T22:13:20Z");
        let verified = fixture.verify(&claims, 60).unwrap();
        assert_eq!(verified.valid_until, Some(Time(NOW.0 + 60 * 1_000_000)));
        assert_eq!(fixture.verify(&claims, 61).unwrap_err(), "service account token has been invalidated");
        fixture.objects = fixture.objects.with(resource, namespace, name, "other");
        let error = fixture.verify(&claims, 0).unwrap_err();
        assert!(
            error.starts_with(&format!(
                "{kind} UID (other) does not match service account {kind} ref claim ("
            )),
            "{error}"
        );
        fixture.objects.0.remove(&(resource.into(), namespace.into(), name.into()));
        assert_eq!(fixture.verify(&claims, 0).unwrap_err(), "service account token has been invalidated");
    }
    let mut fixture = fixture();
    let claims = fixture.claims(&[], &[ISSUER]);
    fixture.objects = fixture.objects.with("serviceaccounts", "ns", "robot", "sa-2");
    assert_eq!(
        fixture.verify(&claims, 0).unwrap_err(),
        "service account UID (sa-2) does not match claim (sa-1)"
    );
    fixture.objects.0.clear();
    assert_eq!(fixture.verify(&claims, 0).unwrap_err(), "serviceaccounts \"robot\" not found");
}

fn legacy(fixture: &mut Fixture) -> String {
    let account = fixture.objects.object("serviceaccounts", "ns", "robot").unwrap();
    let token = fixture.key.sign(&legacy_claims(&account, "s")).unwrap();
    let secret = fixture.objects.get_mut("secrets", "ns", "s");
    secret.ensure_map("data").insert("token", STANDARD.encode(&token));
    token
}

#[test]
fn legacy_token_is_valid_while_its_secret_has_it() {
    let mut fixture = fixture();
    let token = legacy(&mut fixture);
    let verified = fixture.verify_token(&token, 0).unwrap();
    assert_eq!(verified.identity.user, "system:serviceaccount:ns:robot");
    assert_eq!(verified.audiences, [ISSUER], "tokens without audiences are for the API server");
    let recorded = verified.unrecorded_use.unwrap();
    assert_eq!((recorded.name.as_str(), recorded.date.as_str()), ("s", "2023-11-14"));
    let secret = fixture.objects.get_mut("secrets", "ns", "s");
    secret
        .ensure_map("metadata")
        .ensure_map("labels")
        .insert("kubernetes.io/legacy-token-last-used", "2023-11-14");
    assert_eq!(fixture.verify_token(&token, 0).unwrap().unrecorded_use, None);
    let account = fixture.objects.get_mut("serviceaccounts", "ns", "robot");
    account.make_map().insert("secrets", value!([{"name": "s"}]));
    assert!(fixture.verify_token(&token, 0).unwrap().warning.is_some());
    fixture.objects.get_mut("secrets", "ns", "s").ensure_map("data").insert("token", STANDARD.encode("x"));
    assert_eq!(fixture.verify_token(&token, 0).unwrap_err(), "Token does not match server's copy");
    fixture.objects.0.remove(&("secrets".into(), "ns".into(), "s".into()));
    assert_eq!(fixture.verify_token(&token, 0).unwrap_err(), "Token has been invalidated");
}

#[test]
fn invalidated_legacy_token_is_rejected() {
    let mut fixture = fixture();
    let token = legacy(&mut fixture);
    let labels = value!({"kubernetes.io/legacy-token-invalid-since": "2023-01-01"});
    fixture.objects.get_mut("secrets", "ns", "s").ensure_map("metadata").insert("labels", labels);
    let error = fixture.verify_token(&token, 0).unwrap_err();
    assert!(
        error.starts_with("the token in secret ns/s for service account ns/robot has been marked invalid. "),
        "{error}"
    );
    let without = |claim: &str| {
        let account = fixture.objects.object("serviceaccounts", "ns", "robot").unwrap();
        let mut claims = legacy_claims(&account, "s");
        claims.make_map().remove(claim);
        fixture.verify(&claims, 0).unwrap_err()
    };
    assert_eq!(without("sub"), "sub claim is missing");
    assert_eq!(without("kubernetes.io/serviceaccount/secret.name"), "secretName claim is missing");
    assert_eq!(without("kubernetes.io/serviceaccount/namespace"), "namespace claim is missing");
}

proptest! {
    #[test]
    fn no_claims_panic(field in "(kubernetes.io|aud|exp|nbf|sub|jti)", text in "\\PC{0,20}", number in any::<i64>(), kind in 0..4u8) {
        let fixture = fixture();
        let mut claims = fixture.claims(&[("pod", "ns", "p")], &[ISSUER]);
        let value = match kind {
            0 => value!((text)),
            1 => value!((number)),
            2 => value!([(text), (number)]),
            _ => value!({"serviceaccount": (text), "pod": (number), "namespace": {}}),
        };
        claims.make_map().insert(field.as_str(), value);
        let _ = fixture.verify(&claims, 0);
        claims.make_map().insert("iss", LEGACY_ISSUER);
        let _ = fixture.verify(&claims, 0);
    }
}
