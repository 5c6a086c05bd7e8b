//! Tokens of service accounts: issued, checked, bound, ended; and what those may do who have one.

use std::time::Duration;

use setpoint_api::{Value, json};
use setpoint_server::exchange::{Identity, Service};

use super::World;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

fn account(world: &World) {
    let (code, _) = world.call("POST", ACCOUNTS, r#"{"metadata":{"name":"robot"}}"#);
    assert_eq!(code, 201);
}

fn token(world: &World, spec: &str) -> (u16, Value) {
    world.call("POST", &format!("{ACCOUNTS}/robot/token"), &format!(r#"{{"spec":{spec}}}"#))
}

fn review(world: &World, token: &str) -> Value {
    let (code, review) = world.call("POST", REVIEWS, &format!(r#"{{"spec":{{"token":"{token}"}}}}"#));
    assert_eq!(code, 201);
    review.get("status").cloned().unwrap()
}

#[test]
fn a_token_names_its_account_until_its_time_is_over() {
    let world = World::new();
    account(&world);
    let (code, issued) = token(&world, r#"{"expirationSeconds":600}"#);
    assert_eq!(code, 201, "{}", json::to_text(&issued));
    let token = issued.str_at(&["status", "token"]);
    let status = review(&world, token);
    assert_eq!(status.get("authenticated"), Some(&Value::Bool(true)));
    assert_eq!(status.str_at(&["user", "username"]), "system:serviceaccount:default:robot");
    assert_eq!(world.api.authenticate(token).unwrap().groups[1], "system:serviceaccounts:default");
    world.clock.advance(Duration::from_secs(660));
    assert!(world.api.authenticate(token).is_some(), "clocks may differ by a minute");
    world.clock.advance(Duration::from_micros(1_000_001));
    assert_eq!(review(&world, token).str_at(&["error"]), "service account token has expired");
    assert!(world.api.authenticate(token).is_none());
}

#[test]
fn a_token_that_was_touched_or_is_for_others_does_not_hold() {
    let world = World::new();
    account(&world);
    let (_, issued) = token(&world, r#"{"audiences":["vault"]}"#);
    let token = issued.str_at(&["status", "token"]);
    assert!(world.api.authenticate(token).is_none(), "it is meant for somebody else");
    let body = format!(r#"{{"spec":{{"token":"{token}","audiences":["vault"]}}}}"#);
    let (_, checked) = world.call("POST", REVIEWS, &body);
    assert_eq!(checked.at(&["status", "authenticated"]), Some(&Value::Bool(true)));
    let mut forged = token.to_owned();
    let place = forged.find('.').unwrap() + 3;
    let other = if forged.as_bytes()[place] == b'A' { "B" } else { "A" };
    forged.replace_range(place..=place, other);
    assert_eq!(review(&world, &forged).str_at(&["error"]), "invalid bearer token");
}

#[test]
fn a_bound_token_ends_with_what_it_is_bound_to() {
    let world = World::new();
    account(&world);
    let pod = r#"{"metadata":{"name":"p"},"spec":{"serviceAccountName":"robot","containers":[{"name":"c","image":"i"}]}}"#;
    assert_eq!(world.call("POST", "/api/v1/namespaces/default/pods", pod).0, 201);
    let (code, issued) = token(&world, r#"{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p"}}"#);
    assert_eq!(code, 201);
    let token = issued.str_at(&["status", "token"]);
    assert!(world.api.authenticate(token).is_some());
    world.call("DELETE", "/api/v1/namespaces/default/pods/p?gracePeriodSeconds=0", "");
    assert!(world.api.authenticate(token).is_none());
    assert_eq!(self::token(&world, r#"{"expirationSeconds":5}"#).0, 422);
    assert_eq!(
        self::token(&world, r#"{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"q"}}"#).0,
        404
    );
}

const NODES: &str = "/api/v1/nodes";

fn node(world: &World, name: &str) {
    assert_eq!(world.call("POST", NODES, &format!(r#"{{"metadata":{{"name":"{name}"}}}}"#)).0, 201);
}

#[test]
fn a_token_that_is_bound_to_a_node_ends_with_it() {
    let world = World::new();
    account(&world);
    node(&world, "n");
    let bind = || {
        let (code, issued) =
            token(&world, r#"{"boundObjectRef":{"kind":"Node","apiVersion":"v1","name":"n"}}"#);
        assert_eq!(code, 201, "{}", json::to_text(&issued));
        issued.str_at(&["status", "token"]).to_owned()
    };
    let first = bind();
    let status = review(&world, &first);
    let extra = |key: &str| json::to_text(status.at(&["user", "extra", key]).unwrap_or(&Value::Null));
    assert_eq!(extra("authentication.kubernetes.io/node-name"), r#"["n"]"#);
    assert!(world.api.authenticate(&first).is_some());
    assert_eq!(world.call("DELETE", &format!("{NODES}/n"), "").0, 200);
    assert!(world.api.authenticate(&first).is_none());
    assert_eq!(review(&world, &first).str_at(&["error"]), "service account token has been invalidated");
    node(&world, "n");
    assert!(world.api.authenticate(&first).is_none(), "another node of that name");
    let why = review(&world, &first);
    assert!(why.str_at(&["error"]).starts_with("node UID ("), "{}", json::to_text(&why));
    assert!(world.api.authenticate(&bind()).is_some());
}

#[test]
fn a_token_that_is_bound_to_a_pod_survives_the_node_of_the_pod() {
    let world = World::new();
    account(&world);
    node(&world, "n");
    let pod = r#"{"metadata":{"name":"p"},"spec":{"nodeName":"n","serviceAccountName":"robot","containers":[{"name":"c","image":"i"}]}}"#;
    assert_eq!(world.call("POST", "/api/v1/namespaces/default/pods", pod).0, 201);
    let (_, issued) = token(&world, r#"{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p"}}"#);
    let token = issued.str_at(&["status", "token"]);
    let status = review(&world, token);
    let extra = |key: &str| json::to_text(status.at(&["user", "extra", key]).unwrap_or(&Value::Null));
    assert_eq!(extra("authentication.kubernetes.io/node-name"), r#"["n"]"#);
    assert!(extra("authentication.kubernetes.io/node-uid").len() > 10);
    assert_eq!(world.call("DELETE", &format!("{NODES}/n"), "").0, 200);
    assert!(world.api.authenticate(token).is_some());
}

#[test]
fn a_token_ends_a_minute_after_the_deletion_of_what_it_is_bound_to_was_due() {
    let world = World::new();
    let body = r#"{"metadata":{"name":"robot","finalizers":["example.com/wait"]}}"#;
    assert_eq!(world.call("POST", ACCOUNTS, body).0, 201);
    let (_, issued) = token(&world, "{}");
    let token = issued.str_at(&["status", "token"]);
    assert_eq!(world.call("DELETE", &format!("{ACCOUNTS}/robot"), "").0, 200);
    assert!(world.api.authenticate(token).is_some(), "within the leeway");
    world.clock.advance(Duration::from_secs(62));
    assert_eq!(review(&world, token).str_at(&["error"]), "service account default/robot has been deleted",);
}

#[test]
fn who_is_no_administrator_may_ask_who_they_are_and_nothing_else() {
    let world = World::new();
    let ask = |method: &str, path: &str, body: &str| {
        let identity = Identity { user: "bob".into(), groups: vec!["system:authenticated".into()] };
        world.send_as(identity, method, path, body)
    };
    let (code, body) = ask("GET", "/api/v1/namespaces/default/configmaps", "");
    assert_eq!(code, 403);
    let message = r#"configmaps is forbidden: User "bob" cannot list resource "configmaps" in API group "" in the namespace "default""#;
    assert_eq!(body.str_at(&["message"]), message);
    assert_eq!(ask("GET", "/metrics", "").0, 403);
    assert_eq!(ask("GET", "/version", "").0, 200);
    assert_eq!(ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}").0, 201);
}
