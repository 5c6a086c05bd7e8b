//! Access to the API by RBAC: the bootstrap policy, bindings, reviews and messages, over the whole request path.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "harness/test_server.rs"]
mod test_server;

#[path = "access/escalation.rs"]
mod escalation;
#[path = "access/never_gains.rs"]
mod never_gains;
#[path = "access/reviews.rs"]
mod reviews;

use setpoint_api::{Identity, Value, json};
use setpoint_server::exchange::Service;
use test_server::{TestServer, request};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Returns an authenticated user with these groups.
pub fn user(name: &str, groups: &[&str]) -> Identity {
    let groups = groups.iter().chain(&["system:authenticated"]).map(|group| (*group).to_owned());
    Identity::new(name, groups.collect())
}

/// Creates a cluster role from rules, and binds it to a user; in a namespace unless it is empty.
pub fn grant(server: &TestServer, name: &str, user: &str, namespace: &str, rules: &str) {
    let role = format!(r#"{{"metadata":{{"name":"{name}"}},"rules":{rules}}}"#);
    server.create(&format!("{RBAC}/clusterroles"), &role);
    let binding = binding(name, ("ClusterRole", name), user);
    let path = match namespace {
        "" => format!("{RBAC}/clusterrolebindings"),
        namespace => format!("{RBAC}/namespaces/{namespace}/rolebindings"),
    };
    server.create(&path, &binding);
}

/// Returns the text of a binding.
pub fn binding(name: &str, (kind, role): (&str, &str), user: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}"}},"roleRef":{{"apiGroup":"rbac.authorization.k8s.io","kind":"{kind}","name":"{role}"}},
        "subjects":[{{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"{user}"}}]}}"#
    )
}

#[test]
fn requests_need_a_permission() {
    let server = TestServer::new();
    let (ann, other) = (user("ann", &[]), user("bob", &[]));
    let rules = r#"[{"verbs":["get","list"],"apiGroups":[""],"resources":["pods","pods/log"]},
        {"verbs":["update"],"apiGroups":["apps"],"resources":["*/scale"]}]"#;
    grant(&server, "reader", "ann", "default", rules);
    let in_default = "/api/v1/namespaces/default";
    for (identity, method, path, code) in [
        (&ann, "GET", format!("{in_default}/pods"), 200),
        (&ann, "GET", format!("{in_default}/pods/p"), 404),
        (&ann, "GET", format!("{in_default}/pods/p/log"), 404),
        (&ann, "GET", format!("{in_default}/pods?watch=true"), 403),
        (&ann, "GET", format!("{in_default}/pods/p/status"), 403),
        (&ann, "GET", format!("{in_default}/secrets"), 403),
        (&ann, "GET", "/api/v1/pods".to_owned(), 403),
        (&ann, "GET", "/api/v1/namespaces/kube-system/pods".to_owned(), 403),
        (&ann, "DELETE", format!("{in_default}/pods"), 403),
        (&ann, "PUT", "/apis/apps/v1/namespaces/default/deployments/d/scale".to_owned(), 404),
        (&ann, "PUT", "/apis/apps/v1/namespaces/default/deployments/d".to_owned(), 403),
        (&ann, "GET", "/apis/none.example/v1/things".to_owned(), 403),
        (&other, "GET", format!("{in_default}/pods"), 403),
        (&other, "GET", "/version".to_owned(), 200),
        (&other, "GET", "/apis/apps/v1".to_owned(), 200),
        (&other, "GET", "/openapi/v3".to_owned(), 200),
        (&other, "GET", "/metrics".to_owned(), 403),
        (&user("bob", &["system:monitoring"]), "GET", "/metrics".to_owned(), 200),
    ] {
        let (found, body) = server.call_as(identity.clone(), method, &path, "{}");
        let is_expected = found == code || (code == 404 && found == 400);
        assert!(is_expected, "{} {method} {path}: {found} {}", identity.user, json::to_text(&body));
    }
}

#[test]
fn forbidden_request_has_upstreams_status() {
    let server = TestServer::new();
    server
        .create(&format!("{RBAC}/clusterrolebindings"), &binding("gone", ("ClusterRole", "missing"), "ann"));
    let message = |method: &str, path: &str| {
        let (code, body) = server.call_as(user("ann", &[]), method, path, "{}");
        assert_eq!((code, body.str_at(&["reason"])), (403, "Forbidden"), "{path}");
        body.str_at(&["message"]).to_owned()
    };
    let gone = r#": RBAC: clusterrole.rbac.authorization.k8s.io "missing" not found"#;
    for (method, path, expected) in [
        (
            "GET",
            "/api/v1/namespaces/y/pods",
            r#"pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "y""#,
        ),
        (
            "GET",
            "/api/v1/nodes/n/proxy/metrics",
            r#"nodes "n" is forbidden: User "ann" cannot get resource "nodes/proxy" in API group "" at the cluster scope"#,
        ),
        (
            "GET",
            "/api/v1/namespaces/y",
            r#"namespaces "y" is forbidden: User "ann" cannot get resource "namespaces" in API group "" in the namespace "y""#,
        ),
        (
            "DELETE",
            "/apis/apps/v1/namespaces/y/deployments",
            r#"deployments.apps is forbidden: User "ann" cannot deletecollection resource "deployments" in API group "apps" in the namespace "y""#,
        ),
        ("GET", "/metrics", r#"forbidden: User "ann" cannot get path "/metrics""#),
        ("POST", "/healthz/", r#"forbidden: User "ann" cannot post path "/healthz/""#),
    ] {
        assert_eq!(message(method, path), format!("{expected}{gone}"));
    }
}

#[test]
fn health_and_version_are_open_to_unauthenticated_users() {
    let server = TestServer::new();
    let anonymous = Identity::new("system:anonymous", vec!["system:unauthenticated".to_owned()]);
    let code = |path: &str| server.call_as(anonymous.clone(), "GET", path, "").0;
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(code(path), 200, "{path}");
    }
    for path in ["/", "/api", "/apis", "/metrics", "/openapi/v2", "/api/v1/namespaces", "/healthz/ping"] {
        assert_eq!(code(path), 403, "{path}");
    }
}

#[test]
fn body_of_a_forbidden_request_is_not_read() {
    let server = TestServer::new();
    let head = |identity: Identity| {
        let head = test_server::request("POST", test_server::MAPS, "", &[]);
        let request = setpoint_server::exchange::Request { identity, ..head };
        server.runtime.block_on(server.api.authorize(&request)).map_err(|response| response.status.as_u16())
    };
    assert_eq!(head(user("ann", &[])), Err(403));
    assert_eq!(head(user("ann", &["system:masters"])), Ok(()));
}

#[test]
fn changed_binding_takes_effect_at_once() {
    let server = TestServer::new();
    let get = || server.call_as(user("ann", &[]), "GET", test_server::MAPS, "").0;
    assert_eq!(get(), 403);
    let rules = r#"[{"verbs":["list"],"apiGroups":[""],"resources":["configmaps"]}]"#;
    grant(&server, "maps", "ann", "default", rules);
    assert_eq!(get(), 200);
    let role = format!("{RBAC}/clusterroles/maps");
    assert_eq!(server.call("PATCH", &role, r#"{"rules":[]}"#).0, 200);
    assert_eq!(get(), 403);
    assert_eq!(server.call("PATCH", &role, &format!(r#"{{"rules":{rules}}}"#)).0, 200);
    assert_eq!(get(), 200);
    assert_eq!(server.call("DELETE", &format!("{RBAC}/namespaces/default/rolebindings/maps"), "").0, 200);
    assert_eq!(get(), 403);
}

#[test]
fn list_of_one_name_needs_permission_for_that_name_only() {
    let server = TestServer::new();
    let rules =
        r#"[{"verbs":["list","watch"],"apiGroups":[""],"resources":["configmaps"],"resourceNames":["m"]}]"#;
    grant(&server, "one", "ann", "default", rules);
    let list = |query: &str| {
        let path = format!("{}?{query}", test_server::MAPS);
        server.call_as(user("ann", &[]), "GET", &path, "").0
    };
    assert_eq!(list("fieldSelector=metadata.name%3Dm"), 200);
    assert_eq!(list("fieldSelector=metadata.name%3Dx"), 403);
    assert_eq!(list("fieldSelector=metadata.name!%3Dm"), 403);
    assert_eq!(list(""), 403);
}

#[test]
fn update_that_creates_needs_permission_to_create() {
    let server = TestServer::new();
    let rules = |verbs: &str| {
        format!(
            r#"[{{"verbs":[{verbs}],"apiGroups":["coordination.k8s.io",""],"resources":["leases","configmaps"]}}]"#
        )
    };
    grant(&server, "changer", "ann", "default", &rules(r#""update","patch","get""#));
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let lease = r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"}}"#;
    let put = || server.call_as(user("ann", &[]), "PUT", path, lease);
    let (code, body) = put();
    let expected = r#"leases.coordination.k8s.io "l" is forbidden: User "ann" cannot create resource "leases" in API group "coordination.k8s.io" in the namespace "default""#;
    assert_eq!((code, body.str_at(&["message"])), (403, expected));
    let apply = || {
        let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}"#;
        let path = format!("{}/m?fieldManager=t", test_server::MAPS);
        let head = request("PATCH", &path, map, &[("content-type", "application/apply-patch+yaml")]);
        let identity = user("ann", &[]);
        server.read(server.answer(setpoint_server::exchange::Request { identity, ..head })).code
    };
    assert_eq!(apply(), 403);
    grant(&server, "creator", "ann", "default", &rules(r#""create""#));
    assert_eq!((put().0, apply()), (201, 201));
    // A Lease cannot be updated without its revision, so the update is permitted and then invalid.
    assert_eq!((put().0, apply()), (422, 200));
}

#[test]
fn watch_path_does_nothing_but_watch() {
    let server = TestServer::new();
    server.create(test_server::MAPS, r#"{"metadata":{"name":"m"}}"#);
    let rules = r#"[{"verbs":["watch"],"apiGroups":[""],"resources":["configmaps"]}]"#;
    grant(&server, "watcher", "ann", "default", rules);
    let path = "/api/v1/watch/namespaces/default/configmaps/m";
    for method in ["PUT", "DELETE", "PATCH"] {
        let (code, _) = server.call_as(user("ann", &[]), method, path, r#"{"metadata":{"name":"m"}}"#);
        assert_eq!(code, 405, "{method}");
    }
    assert_eq!(server.call("GET", &format!("{}/m", test_server::MAPS), "").0, 200);
}

#[test]
fn bootstrap_policy_is_stored_and_repaired_at_the_next_start() {
    use setpoint_store::{Retention, Store};
    let store = Store::in_memory(Retention::default());
    let server = TestServer::over(store.clone());
    let role = format!("{RBAC}/clusterroles/system:kube-dns");
    let rules = |server: &TestServer| server.object(&role).get("rules").cloned().unwrap_or_default();
    let original = rules(&server);
    let extra = r#"{"verbs":["get"],"apiGroups":["example.com"],"resources":["things"]}"#;
    assert_eq!(server.call("PATCH", &role, &format!(r#"{{"rules":[{extra}]}}"#)).0, 200);
    let binding = format!("{RBAC}/clusterrolebindings/system:discovery");
    assert_eq!(server.call("DELETE", &binding, "").0, 200);
    let protected =
        r#"{"metadata":{"annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"}},"rules":[]}"#;
    let other = format!("{RBAC}/clusterroles/system:monitoring");
    assert_eq!(server.call("PATCH", &other, protected).0, 200);
    let server = TestServer::over(store.clone());
    let repaired = rules(&server);
    let repaired = repaired.as_list().unwrap();
    assert_eq!(json::to_text(&repaired[0]), extra, "an addition stays");
    assert!(repaired.len() > original.as_list().unwrap().len(), "missing rules are back");
    assert_eq!(server.call("GET", &binding, "").0, 200, "a deleted binding is back");
    assert!(
        server.object(&other).get("rules").is_none_or(Value::is_empty),
        "a protected role is not changed"
    );
    let revision = store.snapshot().revision();
    drop(TestServer::over(store.clone()));
    assert_eq!(store.snapshot().revision(), revision, "a third start changes nothing");
}
