//! Escalation checks of roles and bindings.

use super::test_server::TestServer;
use super::{RBAC, binding, grant, user};

/// Rules that let a user write all roles and bindings.
const WRITES: &str = r#"{"verbs":["create","update","patch","delete","get"],"apiGroups":["rbac.authorization.k8s.io"],
    "resources":["roles","clusterroles","rolebindings","clusterrolebindings"]}"#;
const PODS: &str = r#"{"verbs":["get","list"],"apiGroups":[""],"resources":["pods"]}"#;

fn server(rules: &str) -> TestServer {
    let server = TestServer::new();
    grant(&server, "own", "ann", "", &format!("[{WRITES},{rules}]"));
    server
}

fn role(name: &str, rules: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}"}},"rules":[{rules}]}}"#)
}

fn call(server: &TestServer, method: &str, path: &str, body: &str) -> (u16, String) {
    let (code, body) = server.call_as(user("ann", &[]), method, &format!("{RBAC}/{path}"), body);
    (code, body.str_at(&["message"]).to_owned())
}

#[test]
fn role_needs_all_its_rules() {
    let server = server(PODS);
    assert_eq!(call(&server, "POST", "clusterroles", &role("r", PODS)).0, 201);
    assert_eq!(call(&server, "POST", "namespaces/default/roles", &role("r", PODS)).0, 201);
    let wider = r#"{"verbs":["get","watch","delete"],"apiGroups":[""],"resources":["pods","secrets"]}"#;
    let missing = "user \"ann\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
                   {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"watch\" \"delete\"]}\n\
                   {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"watch\" \"delete\"]}";
    let (code, message) = call(&server, "POST", "clusterroles", &role("w", wider));
    assert_eq!(
        (code, message),
        (403, format!("clusterroles.rbac.authorization.k8s.io \"w\" is forbidden: {missing}"))
    );
    let (code, message) = call(&server, "PUT", "namespaces/default/roles/r", &role("r", wider));
    assert_eq!(
        (code, message),
        (403, format!("roles.rbac.authorization.k8s.io \"r\" is forbidden: {missing}"))
    );
    let patch = format!(r#"{{"rules":[{wider}]}}"#);
    assert_eq!(call(&server, "PATCH", "clusterroles/r", &patch).0, 403);
    assert_eq!(call(&server, "PATCH", "clusterroles/r", r#"{"rules":[]}"#).0, 200);
}

#[test]
fn metadata_of_garbage_collection_needs_no_rules() {
    let server = server(PODS);
    let secrets = r#"{"verbs":["get"],"apiGroups":[""],"resources":["secrets"]}"#;
    server.create(&format!("{RBAC}/clusterroles"), &role("s", secrets));
    let finalizers = r#"{"metadata":{"finalizers":["example.com/x"]}}"#;
    assert_eq!(call(&server, "PATCH", "clusterroles/s", finalizers).0, 200);
    assert_eq!(call(&server, "PATCH", "clusterroles/s", r#"{"metadata":{"labels":{"a":"b"}}}"#).0, 403);
}

#[test]
fn escalate_and_bind_are_verbs() {
    let verbs = r#"{"verbs":["escalate"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles"]},
        {"verbs":["bind"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["clusterroles"],"resourceNames":["admin"]}"#;
    let server = server(verbs);
    let everything = r#"{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}"#;
    assert_eq!(call(&server, "POST", "namespaces/default/roles", &role("all", everything)).0, 201);
    assert_eq!(call(&server, "POST", "clusterroles", &role("all", everything)).0, 403);
    let bind = |name: &str, role: (&str, &str)| {
        call(&server, "POST", "namespaces/default/rolebindings", &binding(name, role, "ann"))
    };
    assert_eq!(bind("a", ("ClusterRole", "admin")).0, 201);
    assert_eq!(bind("b", ("ClusterRole", "cluster-admin")).0, 403);
    assert_eq!(bind("c", ("Role", "all")).0, 403, "escalate is not bind");
    let (code, message) = bind("d", ("Role", "none"));
    assert_eq!((code, message.as_str()), (404, "role.rbac.authorization.k8s.io \"none\" not found"));
}

#[test]
fn binding_needs_the_rules_of_its_role() {
    let server = server(PODS);
    let bind =
        |path: &str, role: &str| call(&server, "POST", path, &binding(role, ("ClusterRole", role), "bob"));
    server.create(&format!("{RBAC}/clusterroles"), &role("pods", PODS));
    assert_eq!(bind("clusterrolebindings", "pods").0, 201);
    let (code, message) = bind("clusterrolebindings", "cluster-admin");
    assert_eq!(code, 403);
    assert!(
        message.ends_with(
            "not currently held:\n{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}"
        ),
        "{message}"
    );
    let subjects = r#"{"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"ann"}]}"#;
    server.create(
        &format!("{RBAC}/clusterrolebindings"),
        &binding("x", ("ClusterRole", "cluster-admin"), "eve"),
    );
    assert_eq!(call(&server, "PATCH", "clusterrolebindings/x", subjects).0, 403);
    assert_eq!(call(&server, "DELETE", "clusterrolebindings/x", "").0, 200, "a delete grants nothing");
}

#[test]
fn aggregation_needs_full_access() {
    let server = server(PODS);
    let aggregated = r#"{"metadata":{"name":"g"},"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]},"rules":[]}"#;
    let (code, message) = call(&server, "POST", "clusterroles", aggregated);
    let expected = "clusterroles.rbac.authorization.k8s.io \"g\" is forbidden: must have cluster-admin privileges to use the aggregationRule";
    assert_eq!((code, message.as_str()), (403, expected));
    server.create(&format!("{RBAC}/clusterroles"), aggregated);
    assert_eq!(call(&server, "PATCH", "clusterroles/g", r#"{"aggregationRule":null}"#).0, 403);
    grant(
        &server,
        "full",
        "ann",
        "",
        r#"[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]},{"verbs":["*"],"nonResourceURLs":["*"]}]"#,
    );
    assert_eq!(call(&server, "PATCH", "clusterroles/g", r#"{"aggregationRule":null}"#).0, 200);
}

#[test]
fn role_with_too_many_combinations_is_refused() {
    let server = server(PODS);
    let many = |prefix: &str| (0..60).map(|at| format!("\"{prefix}{at}\"")).collect::<Vec<_>>().join(",");
    let rule =
        format!(r#"{{"verbs":[{}],"apiGroups":[{}],"resources":[{}]}}"#, many("v"), many("g"), many("r"));
    let (code, message) = call(&server, "POST", "clusterroles", &role("wide", &rule));
    assert_eq!(code, 403);
    assert!(message.contains("the rules combine to more than 100000 verbs on resources"), "{message}");
    server.create(&format!("{RBAC}/clusterroles"), &role("wide", &rule));
    server.create(&format!("{RBAC}/clusterrolebindings"), &binding("wide", ("ClusterRole", "wide"), "ann"));
    let (code, _) = call(
        &server,
        "POST",
        "clusterroles",
        &role("one", r#"{"verbs":["v59"],"apiGroups":["g0"],"resources":["r7"]}"#),
    );
    assert_eq!(code, 201, "a rule that is too wide for the index grants what it says");
}

#[test]
fn binding_of_no_role_is_invalid() {
    let server = server(PODS);
    for (kind, group) in
        [("", "rbac.authorization.k8s.io"), ("Group", "rbac.authorization.k8s.io"), ("Role", "apps")]
    {
        let body = binding("b", (kind, "own"), "ann").replacen("rbac.authorization.k8s.io", group, 1);
        for path in ["clusterrolebindings", "namespaces/default/rolebindings"] {
            let (code, message) = call(&server, "POST", path, &body);
            assert!(matches!(code, 403 | 404 | 422), "{path} of {kind} in {group}: {code} {message}");
        }
    }
    assert_eq!(call(&server, "POST", "clusterrolebindings", r#"{"metadata":{"name":"b"}}"#).0, 422);
}
