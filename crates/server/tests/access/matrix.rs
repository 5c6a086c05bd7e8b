//! Matrix of requests over the whole path: identity × verb × resource × subresource × namespace × name, decided by the
//! server and by a slow model that reads the stored roles and bindings for each request.

use std::collections::BTreeMap;

use setpoint_api::{Identity, Value};

use super::test_server::TestServer;
use super::{RBAC, user};

/// A request as the model sees it.
#[derive(Clone, Copy, Debug)]
struct Asked<'a> {
    verb: &'a str,
    group: &'a str,
    /// Resource, with its subresource.
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
    /// Path of a request that is not one of objects.
    path: &'a str,
}

/// Roles and bindings as they are stored.
struct SlowModel {
    roles: BTreeMap<(String, String), Value>,
    bindings: Vec<Value>,
}

fn items(server: &TestServer, plural: &str) -> Vec<Value> {
    let list = server.object(&format!("{RBAC}/{plural}"));
    list.get("items").and_then(Value::as_list).unwrap().to_vec()
}

fn list<'v>(value: &'v Value, field: &str) -> Vec<&'v str> {
    let list = value.get(field).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).collect()
}

impl SlowModel {
    fn read(server: &TestServer) -> SlowModel {
        let key = |role: &Value| {
            let text = |field: &str| role.str_at(&["metadata", field]).to_owned();
            (text("namespace"), text("name"))
        };
        let roles = [items(server, "clusterroles"), items(server, "roles")].concat();
        let roles = roles.into_iter().map(|role| (key(&role), role)).collect();
        let bindings = [items(server, "clusterrolebindings"), items(server, "rolebindings")].concat();
        SlowModel { roles, bindings }
    }

    fn allows(&self, identity: &Identity, asked: Asked<'_>) -> bool {
        if identity.groups.iter().any(|group| group == "system:masters") {
            return true;
        }
        self.bindings.iter().any(|binding| {
            let scope = binding.str_at(&["metadata", "namespace"]);
            if !scope.is_empty() && (scope != asked.namespace || !asked.path.is_empty()) {
                return false;
            }
            let subjects = binding.get("subjects").and_then(Value::as_list).unwrap_or_default();
            if !subjects.iter().any(|subject| is_subject(subject, scope, identity)) {
                return false;
            }
            let namespace = if binding.str_at(&["roleRef", "kind"]) == "Role" { scope } else { "" };
            let role =
                self.roles.get(&(namespace.to_owned(), binding.str_at(&["roleRef", "name"]).to_owned()));
            let rules = role.and_then(|role| role.get("rules")).and_then(Value::as_list).unwrap_or_default();
            rules.iter().any(|rule| covers(rule, asked))
        })
    }
}

fn is_subject(subject: &Value, scope: &str, identity: &Identity) -> bool {
    let name = subject.str_at(&["name"]);
    match subject.str_at(&["kind"]) {
        "User" => identity.user == name,
        "Group" => identity.groups.iter().any(|group| group == name),
        "ServiceAccount" => {
            let namespace = match subject.str_at(&["namespace"]) {
                "" => scope,
                namespace => namespace,
            };
            identity.user == format!("system:serviceaccount:{namespace}:{name}")
        }
        _ => false,
    }
}

fn covers(rule: &Value, asked: Asked<'_>) -> bool {
    let has = |field: &str, wanted: &str| list(rule, field).iter().any(|one| *one == "*" || *one == wanted);
    if !has("verbs", asked.verb) {
        return false;
    }
    if !asked.path.is_empty() {
        return list(rule, "nonResourceURLs").iter().any(|own| {
            *own == asked.path || own.strip_suffix('*').is_some_and(|prefix| asked.path.starts_with(prefix))
        });
    }
    let every = asked.resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
    let names = list(rule, "resourceNames");
    has("apiGroups", asked.group)
        && (has("resources", asked.resource) || every.is_some_and(|every| has("resources", &every)))
        && (names.is_empty() || names.contains(&asked.name))
}

/// Server with roles and bindings of every kind.
fn server() -> TestServer {
    let server = TestServer::new();
    let role = |path: &str, name: &str, rules: &str| {
        server.create(
            &format!("{RBAC}/{path}"),
            &format!(r#"{{"metadata":{{"name":"{name}"}},"rules":{rules}}}"#),
        );
    };
    let bind = |path: &str, name: &str, (kind, role): (&str, &str), subject: &str| {
        let body = format!(
            r#"{{"metadata":{{"name":"{name}"}},"roleRef":{{"apiGroup":"rbac.authorization.k8s.io","kind":"{kind}","name":"{role}"}},
            "subjects":[{subject}]}}"#
        );
        server.create(&format!("{RBAC}/{path}"), &body);
    };
    let person =
        |name: &str| format!(r#"{{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"{name}"}}"#);
    let group =
        |name: &str| format!(r#"{{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"{name}"}}"#);
    let account =
        |namespace: &str| format!(r#"{{"kind":"ServiceAccount","name":"robot","namespace":"{namespace}"}}"#);
    server.create("/api/v1/namespaces", r#"{"metadata":{"name":"other"}}"#);
    server.create("/api/v1/namespaces/other/serviceaccounts", r#"{"metadata":{"name":"default"}}"#);
    role(
        "clusterroles",
        "reader",
        r#"[{"verbs":["get","list"],"apiGroups":["","apps"],"resources":["pods","configmaps","deployments"]}]"#,
    );
    role(
        "clusterroles",
        "scaler",
        r#"[{"verbs":["*"],"apiGroups":["*"],"resources":["*/scale","*/status"]}]"#,
    );
    role(
        "clusterroles",
        "named",
        r#"[{"verbs":["get","patch","list","watch"],"apiGroups":[""],"resources":["configmaps","namespaces"],"resourceNames":["x","other"]}]"#,
    );
    role("clusterroles", "paths", r#"[{"verbs":["get"],"nonResourceURLs":["/metrics","/setpoint/*"]}]"#);
    role(
        "namespaces/default/roles",
        "logs",
        r#"[{"verbs":["get","create"],"apiGroups":[""],"resources":["pods/log","pods/eviction"]}]"#,
    );
    bind("clusterrolebindings", "m1", ("ClusterRole", "scaler"), &person("bob"));
    bind("clusterrolebindings", "m2", ("ClusterRole", "paths"), &group("ops"));
    bind("clusterrolebindings", "m3", ("ClusterRole", "reader"), &account("other"));
    bind(
        "namespaces/default/rolebindings",
        "m4",
        ("ClusterRole", "reader"),
        &format!("{},{}", person("ann"), group("ops")),
    );
    bind("namespaces/default/rolebindings", "m5", ("Role", "logs"), &account("default"));
    bind("namespaces/other/rolebindings", "m6", ("ClusterRole", "named"), &person("ann"));
    bind("namespaces/other/rolebindings", "m7", ("ClusterRole", "edit"), &account("default"));
    bind("clusterrolebindings", "m8", ("ClusterRole", "named"), &person("carl"));
    server
}

fn identities() -> Vec<Identity> {
    let account = |namespace: &str| {
        let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        user(&format!("system:serviceaccount:{namespace}:robot"), &groups.each_ref().map(String::as_str))
    };
    vec![
        user("ann", &[]),
        user("bob", &["ops"]),
        user("carl", &[]),
        account("default"),
        account("other"),
        Identity::new("system:anonymous", vec!["system:unauthenticated".to_owned()]),
        user("root", &["system:masters"]),
    ]
}

/// Method, path and query of each way to express a verb, for a collection or an object.
const FORMS: [(&str, &str, &str, &str, bool); 10] = [
    ("list", "GET", "", "", false),
    ("watch", "GET", "", "watch=1", false),
    ("watch", "GET", "/watch", "", false),
    ("create", "POST", "", "", false),
    ("deletecollection", "DELETE", "", "", false),
    ("get", "GET", "", "", true),
    ("get", "HEAD", "", "", true),
    ("update", "PUT", "", "dryRun=All", true),
    ("patch", "PATCH", "", "dryRun=All", true),
    ("delete", "DELETE", "", "", true),
];

#[test]
fn requests_are_decided_as_by_the_slow_model_in_the_whole_matrix() {
    let server = server();
    let model = SlowModel::read(&server);
    let (mut allowed, mut refused) = (0, 0);
    for (prefix, group, resource, subresources, is_namespaced) in [
        ("/api/v1", "", "pods", &["", "log", "eviction", "status"][..], true),
        ("/api/v1", "", "configmaps", &[""], true),
        ("/api/v1", "", "secrets", &[""], true),
        ("/api/v1", "", "nodes", &["", "status", "proxy"], false),
        ("/apis/apps/v1", "apps", "deployments", &["", "scale", "status"], true),
        ("/apis/rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io", "clusterroles", &[""], false),
        ("/apis/none.example/v1", "none.example", "things", &["", "scale"], true),
    ] {
        let namespaces = if is_namespaced { &["", "default", "other"][..] } else { &[""] };
        for ((verb, method, watch, query, has_name), namespace) in
            FORMS.iter().flat_map(|form| namespaces.iter().map(move |namespace| (*form, *namespace)))
        {
            let names = if has_name { &["x", "missing"][..] } else { &[""] };
            for (subresource, name) in subresources
                .iter()
                .flat_map(|subresource| names.iter().map(move |name| (*subresource, *name)))
            {
                if !has_name && !subresource.is_empty() {
                    continue;
                }
                let scope =
                    if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
                let segments = [name, subresource].into_iter().filter(|one| !one.is_empty());
                let rest: String = segments.map(|one| format!("/{one}")).collect();
                let path = format!("{prefix}{watch}{scope}/{resource}{rest}?{query}");
                let joined = if subresource.is_empty() {
                    resource.to_owned()
                } else {
                    format!("{resource}/{subresource}")
                };
                let asked = Asked { verb, group, resource: &joined, namespace, name, path: "" };
                // A delete with a body ignores the query.
                let body = if method == "DELETE" { r#"{"dryRun":["All"]}"# } else { "{}" };
                for identity in identities() {
                    let (code, body) = server.call_as(identity.clone(), method, &path, body);
                    let expected = model.allows(&identity, asked);
                    let message = body.str_at(&["message"]);
                    assert_eq!(code != 403, expected, "{} {method} {path}: {code} {message}", identity.user);
                    *(if expected { &mut allowed } else { &mut refused }) += 1;
                }
            }
        }
    }
    assert!(allowed > 300 && refused > 1000, "the matrix has both outcomes: {allowed}, {refused}");
}

#[test]
fn names_in_selectors_and_namespaces_are_decided_as_by_the_slow_model() {
    let server = server();
    let model = SlowModel::read(&server);
    let maps = "/api/v1/namespaces/other/configmaps";
    for (path, verb, resource, namespace, name) in [
        (format!("{maps}?fieldSelector=metadata.name%3Dx"), "list", "configmaps", "other", "x"),
        (format!("{maps}?fieldSelector=metadata.name%3D%3Dx"), "list", "configmaps", "other", "x"),
        (format!("{maps}?fieldSelector=metadata.name!%3Dx"), "list", "configmaps", "other", ""),
        (format!("{maps}?fieldSelector=metadata.name%3Dy"), "list", "configmaps", "other", "y"),
        (format!("{maps}?fieldSelector=metadata.name%3Dx%2Fy"), "list", "configmaps", "other", ""),
        (format!("{maps}?watch=true&fieldSelector=metadata.name%3Dx"), "watch", "configmaps", "other", "x"),
        (
            format!("{maps}?fieldSelector=metadata.name%3Dy&fieldSelector=metadata.name%3Dx"),
            "list",
            "configmaps",
            "other",
            "y",
        ),
        ("/api/v1/namespaces/other".to_owned(), "get", "namespaces", "other", "other"),
        ("/api/v1/namespaces/default".to_owned(), "get", "namespaces", "default", "default"),
        (
            "/api/v1/namespaces?fieldSelector=metadata.name%3Dother".to_owned(),
            "list",
            "namespaces",
            "",
            "other",
        ),
        ("/api/v1/namespaces".to_owned(), "list", "namespaces", "", ""),
    ] {
        let asked = Asked { verb, group: "", resource, namespace, name, path: "" };
        for identity in identities() {
            let (code, _) = server.call_as(identity.clone(), "GET", &path, "");
            assert_eq!(code != 403, model.allows(&identity, asked), "{} {path}: {code}", identity.user);
        }
    }
    for path in [
        "/metrics",
        "/metrics/",
        "/setpoint/loop",
        "/setpoint",
        "/healthz",
        "/version",
        "/apis",
        "/logs",
        "/api/v1",
    ] {
        let asked = Asked { verb: "get", group: "", resource: "", namespace: "", name: "", path };
        for identity in identities() {
            let (code, _) = server.call_as(identity.clone(), "GET", path, "");
            assert_eq!(code != 403, model.allows(&identity, asked), "{} {path}: {code}", identity.user);
        }
    }
}
