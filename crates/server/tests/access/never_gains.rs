//! No sequence of allowed writes gives a user a permission that it did not have.

use proptest::prelude::*;
use setpoint_api::{Identity, RequestInfo, Value, json};
use setpoint_authorization::{Attributes, Decision};

use super::test_server::TestServer;
use super::{RBAC, binding, grant, user};

/// Verbs of rules. Neither `escalate` nor `bind`, which exist to gain permissions; nor `*`, which includes them.
const VERBS: [&str; 5] = ["get", "create", "update", "patch", "delete"];
const GROUPS: [&str; 3] = ["", "rbac.authorization.k8s.io", "*"];
const RESOURCES: [&str; 6] = ["pods", "secrets", "*", "roles", "rolebindings", "clusterroles"];
const NAMES: [&str; 3] = ["r0", "r1", "own"];

fn words(words: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(words), 1..3)
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(",")
}

/// Text of a rule.
fn rule() -> impl Strategy<Value = String> {
    let names = prop::option::weighted(0.2, prop::sample::select(&NAMES[..]));
    (words(&VERBS), words(&GROUPS), words(&RESOURCES), names).prop_map(|(verbs, groups, resources, names)| {
        let names = names.map_or(String::new(), |name| format!(r#","resourceNames":["{name}"]"#));
        format!(
            r#"{{"verbs":[{}],"apiGroups":[{}],"resources":[{}]{names}}}"#,
            quoted(&verbs),
            quoted(&groups),
            quoted(&resources)
        )
    })
}

fn rules() -> impl Strategy<Value = String> {
    prop::collection::vec(rule(), 0..3).prop_map(|rules| format!("[{}]", rules.join(",")))
}

/// A write: method, path and body.
fn write() -> impl Strategy<Value = (&'static str, String, String)> {
    let name = || prop::sample::select(&NAMES[..]);
    let scope = || prop::sample::select(&["", "namespaces/default/", "namespaces/kube-system/"][..]);
    let plural =
        |scope: &str, noun: &str| format!("{}{noun}s", if scope.is_empty() { "cluster" } else { "" });
    let method = prop::sample::select(&["POST", "PUT", "PATCH", "DELETE"][..]);
    let role = (method.clone(), scope(), name(), rules()).prop_map(move |(method, scope, name, rules)| {
        let body = format!(r#"{{"metadata":{{"name":"{name}"}},"rules":{rules}}}"#);
        (method, scope, plural(scope, "role"), name, body)
    });
    let kind = prop::sample::select(&["Role", "ClusterRole"][..]);
    let bound = prop::sample::select(&["r0", "r1", "own", "view", "cluster-admin"][..]);
    let binding =
        (method, scope(), name(), kind, bound).prop_map(move |(method, scope, name, kind, bound)| {
            (method, scope, plural(scope, "rolebinding"), name, binding(name, (kind, bound), "ann"))
        });
    prop_oneof![role, binding].prop_map(|(method, scope, plural, name, body)| {
        let collection = format!("{RBAC}/{scope}{plural}");
        let path = if method == "POST" { collection } else { format!("{collection}/{name}") };
        (method, path, body)
    })
}

/// Requests that a user may send, out of a universe that tells all rules apart.
fn permissions(server: &TestServer, user: &Identity, snapshot: &setpoint_store::Snapshot) -> Vec<String> {
    let mut allowed = Vec::new();
    for verb in VERBS.into_iter().chain(["escalate", "bind", "*"]) {
        for group in ["", "rbac.authorization.k8s.io", "apps"] {
            for resource in RESOURCES.into_iter().chain(["other"]) {
                for namespace in ["", "default", "kube-system"] {
                    for name in ["", "r0", "r1", "own"] {
                        let request = RequestInfo {
                            is_resource: true,
                            verb,
                            group,
                            resource,
                            namespace,
                            name,
                            ..RequestInfo::default()
                        };
                        let attributes =
                            Attributes { user, request, field_selector: &[], label_selector: &[] };
                        let decision = server.api.authorization().authorize_now(&attributes, snapshot, None);
                        if matches!(decision, Decision::Allowed(_)) {
                            allowed.push(format!("{verb} {group}/{resource} {namespace}/{name}"));
                        }
                    }
                }
            }
        }
    }
    allowed
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn allowed_writes_never_add_a_permission(
        own in rules(),
        in_namespace in rules(),
        writes in prop::collection::vec(write(), 1..24),
    ) {
        use setpoint_store::{Retention, Store};
        let store = Store::in_memory(Retention::default());
        let server = TestServer::over(store.clone());
        let ann = user("ann", &[]);
        // Nearly all writes of roles and bindings are allowed, so that the escalation check decides.
        let writer = r#"{"verbs":["create","update","patch","delete","get"],"apiGroups":["rbac.authorization.k8s.io"],
            "resources":["roles","rolebindings","clusterroles","clusterrolebindings"]}"#;
        let own = if own == "[]" { format!("[{writer}]") } else { own.replacen('[', &format!("[{writer},"), 1) };
        grant(&server, "own", "ann", "", &own);
        grant(&server, "r1", "ann", "default", &in_namespace);
        // A role without bindings: a binding of it must not be possible without its rules.
        let dangling = binding("r0", ("Role", "r0"), "ann");
        server.create(&format!("{RBAC}/namespaces/kube-system/rolebindings"), &dangling);
        let before = permissions(&server, &ann, &store.snapshot());
        let mut accepted = Vec::new();
        for (method, path, body) in writes {
            let (code, reply): (u16, Value) = server.call_as(ann.clone(), method, &path, &body);
            if code < 300 {
                accepted.push(format!("{method} {path} {body}"));
            }
            let after = permissions(&server, &ann, &store.snapshot());
            let gained: Vec<&String> = after.iter().filter(|one| !before.contains(one)).collect();
            prop_assert!(gained.is_empty(), "{:?} gained by {:#?}: {}", gained, accepted, json::to_text(&reply));
        }
    }
}
