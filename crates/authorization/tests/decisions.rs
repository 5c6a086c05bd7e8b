//! Decisions of RBAC, compared with a slow model that tries every binding and every rule.

#[path = "decisions/model.rs"]
mod model;

use model::{Model, ModelBinding, ModelRole, ModelRule, Who};
use proptest::prelude::*;
use setpoint_api::{Identity, RequestInfo};
use setpoint_authorization::rbac::SubjectCache;
use setpoint_authorization::{Attributes, Decision};

fn decide(cache: &SubjectCache, user: &Identity, request: RequestInfo<'_>) -> Decision {
    cache.decide(&Attributes { user, request, field_selector: &[], label_selector: &[] })
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> ModelRule {
    let [verbs, groups, resources, names] = [verbs, groups, resources, names].map(texts);
    ModelRule { verbs, groups, resources, names, paths: Vec::new() }
}

fn role(namespace: &str, name: &str, rules: Vec<ModelRule>) -> ModelRole {
    ModelRole { namespace: namespace.into(), name: name.into(), rules }
}

fn binding(namespace: &str, name: &str, (kind, role): (&str, &str), subjects: &[Who]) -> ModelBinding {
    let (namespace, name) = (namespace.into(), name.into());
    ModelBinding { namespace, name, role_kind: kind.into(), role: role.into(), subjects: subjects.to_vec() }
}

/// A world with every kind of subject, role and rule.
fn world() -> Model {
    let paths = ModelRule { paths: texts(&["/healthz", "/logs/*", "*x"]), ..rule(&["get"], &[], &[], &[]) };
    Model {
        roles: vec![
            role("", "all", vec![rule(&["*"], &["*"], &["*"], &[])]),
            role("", "reader", vec![rule(&["get", "list"], &["", "apps"], &["pods", "deployments"], &[])]),
            role("", "scaler", vec![rule(&["update"], &["*"], &["*/scale"], &[])]),
            role("", "paths", vec![paths]),
            role("a", "logs", vec![rule(&["get"], &[""], &["pods/log", "pods"], &["p", "q"])]),
            role("a", "named", vec![rule(&["*"], &[""], &["secrets"], &["s", ""])]),
        ],
        bindings: vec![
            binding("", "admins", ("ClusterRole", "all"), &[Who::group("admins")]),
            binding("", "gone", ("ClusterRole", "missing"), &[Who::user("ann"), Who::group("ops")]),
            binding("", "paths", ("ClusterRole", "paths"), &[Who::group("ops")]),
            binding("", "wrong-kind", ("Role", "reader"), &[Who::user("ann")]),
            binding("", "empty-account", ("ClusterRole", "all"), &[Who::account("", "robot")]),
            binding("a", "ann", ("ClusterRole", "reader"), &[Who::user("bob"), Who::user("ann")]),
            binding("a", "gone", ("Role", "missing"), &[Who::user("ann")]),
            binding("a", "logs", ("Role", "logs"), &[Who::group("ops")]),
            binding("a", "named", ("Role", "named"), &[Who::account("", "robot")]),
            binding("b", "robot", ("ClusterRole", "scaler"), &[Who::account("a", "robot"), Who::user("bob")]),
            binding("b", "logs", ("Role", "logs"), &[Who::group("ops")]),
        ],
    }
}

#[test]
fn decisions_are_those_of_the_model_in_the_whole_matrix() {
    let model = world();
    let cache = SubjectCache::new(model.policy());
    let identities = [
        ("ann", &[][..]),
        ("ann", &["ops", "admins"]),
        ("bob", &["ops"]),
        ("carl", &["ops"]),
        ("system:serviceaccount:a:robot", &["system:serviceaccounts"]),
        ("system:serviceaccount:b:robot", &[]),
        ("system:serviceaccount::robot", &[]),
        ("", &[""]),
    ];
    let mut allowed = 0;
    for (user, groups) in identities {
        let user = Identity::new(user, texts(groups));
        for verb in ["get", "list", "update", "*", ""] {
            for path in ["/healthz", "/healthz/", "/logs/", "/logs/a", "/log", "*", "anyx"] {
                let request = RequestInfo { verb, path, ..RequestInfo::default() };
                assert_eq!(
                    decide(&cache, &user, request),
                    model.decide(&user, &request),
                    "{user:?} {request:?}"
                );
            }
            for group in ["", "apps", "*", "other"] {
                for resource in ["pods", "deployments", "secrets", "pods/log", "*"] {
                    for subresource in ["", "log", "scale", "status"] {
                        for namespace in ["", "a", "b", "c"] {
                            for name in ["", "p", "s"] {
                                let request = RequestInfo {
                                    is_resource: true,
                                    verb,
                                    path: "",
                                    group,
                                    version: "v1",
                                    resource,
                                    subresource,
                                    namespace,
                                    name,
                                };
                                let decision = decide(&cache, &user, request);
                                assert_eq!(decision, model.decide(&user, &request), "{user:?} {request:?}");
                                allowed += usize::from(matches!(decision, Decision::Allowed(_)));
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(allowed > 1000, "the matrix has both outcomes: {allowed}");
    assert_eq!(cache.len(), identities.len());
}

#[test]
fn reasons_are_upstreams() {
    let cache = SubjectCache::new(world().policy());
    let request = |verb, resource, namespace, name| RequestInfo {
        is_resource: true,
        verb,
        resource,
        namespace,
        name,
        ..RequestInfo::default()
    };
    let robot = "system:serviceaccount:a:robot";
    for (user, groups, request, expected) in [
        (
            "x",
            &["admins"][..],
            request("get", "pods", "", ""),
            Ok(r#"RBAC: allowed by ClusterRoleBinding "admins" of ClusterRole "all" to Group "admins""#),
        ),
        (
            "ann",
            &[],
            request("list", "pods", "a", ""),
            Ok(r#"RBAC: allowed by RoleBinding "ann/a" of ClusterRole "reader" to User "ann""#),
        ),
        (
            robot,
            &[],
            request("get", "secrets", "a", "s"),
            Ok(r#"RBAC: allowed by RoleBinding "named/a" of Role "named" to ServiceAccount "robot/a""#),
        ),
        (
            "ann",
            &[],
            request("get", "nodes", "a", ""),
            Err(
                r#"RBAC: [clusterrole.rbac.authorization.k8s.io "missing" not found, role.rbac.authorization.k8s.io "reader" not found, role.rbac.authorization.k8s.io "missing" not found]"#,
            ),
        ),
        (
            "carl",
            &["ops"],
            request("get", "nodes", "", ""),
            Err(r#"RBAC: clusterrole.rbac.authorization.k8s.io "missing" not found"#),
        ),
        ("dave", &[], request("get", "nodes", "", ""), Err("")),
    ] {
        let decision = decide(&cache, &Identity::new(user, texts(groups)), request);
        let expected = match expected {
            Ok(reason) => Decision::Allowed(reason.to_owned()),
            Err(reason) => Decision::NoOpinion(reason.to_owned()),
        };
        assert_eq!(decision, expected);
    }
}

/// A small vocabulary, so that random rules match random requests.
fn word(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(words).prop_map(str::to_owned)
}

fn words(words: &'static [&'static str], max: usize) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(word(words), 0..=max)
}

const VERBS: &[&str] = &["get", "list", "*"];
const GROUPS: &[&str] = &["", "apps", "*"];
const RESOURCES: &[&str] = &["pods", "pods/log", "*", "*/log", "jobs", "*/", "jobs/*"];
const NAMES: &[&str] = &["", "p", "q"];
const PATHS: &[&str] = &["/a", "/a/*", "*", "/a/b", "/a**", "/a*b"];
const NAMESPACES: &[&str] = &["", "a", "b"];
const ROLES: &[&str] = &["r", "s", "t"];

fn any_rule() -> impl Strategy<Value = ModelRule> {
    let fields = (words(VERBS, 2), words(GROUPS, 2), words(RESOURCES, 2), words(NAMES, 1), words(PATHS, 2));
    fields.prop_map(|(verbs, groups, resources, names, paths)| {
        // A rule about paths has no names: validation rejects it.
        let names = if paths.is_empty() { names } else { Vec::new() };
        ModelRule { verbs, groups, resources, names, paths }
    })
}

fn any_subject() -> impl Strategy<Value = Who> {
    (0..4, word(&["x", "y", "g"]), word(NAMESPACES)).prop_map(|(kind, name, namespace)| match kind {
        0 => Who::user(&name),
        1 => Who::group(&name),
        2 => Who::account(&namespace, &name),
        _ => Who { kind: "Other".to_owned(), ..Who::user(&name) },
    })
}

fn any_model() -> impl Strategy<Value = Model> {
    let role = (word(NAMESPACES), word(ROLES), prop::collection::vec(any_rule(), 0..3))
        .prop_map(|(namespace, name, rules)| ModelRole { namespace, name, rules });
    let kinds = word(&["Role", "ClusterRole", "ClusterRole", "Group"]);
    let binding =
        (word(NAMESPACES), word(ROLES), kinds, word(ROLES), prop::collection::vec(any_subject(), 0..3))
            .prop_map(|(namespace, name, role_kind, role, subjects)| ModelBinding {
                namespace,
                name,
                role_kind,
                role,
                subjects,
            });
    (prop::collection::vec(role, 0..6), prop::collection::vec(binding, 0..6))
        .prop_map(|(roles, bindings)| Model { roles, bindings }.without_duplicates())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn random_worlds_decide_as_the_model(
        model in any_model(),
        user in word(&["x", "y", "system:serviceaccount:a:x", "system:serviceaccount:b:g"]),
        groups in words(&["g", "x"], 2),
    ) {
        let cache = SubjectCache::new(model.policy());
        let user = Identity::new(user, groups);
        for verb in ["get", "list", "watch", "*"] {
            for path in ["/a", "/a/b", "/", "/ab"] {
                let request = RequestInfo { verb, path, ..RequestInfo::default() };
                prop_assert_eq!(decide(&cache, &user, request), model.decide(&user, &request));
            }
            for (resource, subresource) in [("pods", ""), ("pods", "log"), ("jobs", "log"), ("x", ""), ("jobs", "*")] {
                for group in ["", "apps", "x"] {
                    for namespace in ["", "a", "b", "c"] {
                        for name in ["", "p"] {
                            let request = RequestInfo {
                                is_resource: true, verb, path: "", group, version: "", resource, subresource, namespace, name,
                            };
                            prop_assert_eq!(decide(&cache, &user, request), model.decide(&user, &request));
                        }
                    }
                }
            }
        }
    }

    /// A changed policy decides as one that is built from scratch.
    #[test]
    fn changed_policy_equals_a_new_one(before in any_model(), after in any_model(), groups in words(&["g", "x"], 2)) {
        let mut policy = before.policy();
        before.remove_from(&mut policy);
        after.add_to(&mut policy);
        let (changed, new) = (SubjectCache::new(policy), SubjectCache::new(after.policy()));
        let user = Identity::new("x", groups);
        for verb in ["get", "list"] {
            for namespace in ["", "a", "b"] {
                let request = RequestInfo {
                    is_resource: true, verb, resource: "pods", namespace, name: "p", ..RequestInfo::default()
                };
                prop_assert_eq!(decide(&changed, &user, request), decide(&new, &user, request));
            }
        }
    }

    /// Covered rules allow no request that the owned rules do not allow.
    #[test]
    fn covered_rules_allow_nothing_new(
        owned in prop::collection::vec(any_rule(), 0..4),
        granted in prop::collection::vec(any_rule(), 0..3),
    ) {
        use setpoint_authorization::rbac::{PolicyRule, uncovered};
        let rules = |rules: &[ModelRule]| rules.iter().map(ModelRule::to_rule).collect::<Vec<PolicyRule>>();
        let (owned_rules, granted_rules) = (rules(&owned), rules(&granted));
        let missing = uncovered(&owned_rules, &granted_rules).unwrap();
        prop_assert_eq!(missing.is_empty(), model::covers(&owned, &granted));
        if !missing.is_empty() {
            return Ok(());
        }
        for verb in ["get", "list", "watch"] {
            for (resource, subresource) in [("pods", ""), ("pods", "log"), ("jobs", "log"), ("x", ""), ("x", "y")] {
                for name in ["", "p", "q", "z"] {
                    let request = RequestInfo {
                        is_resource: true, verb, resource, subresource, name, ..RequestInfo::default()
                    };
                    let has = |rules: &[PolicyRule]| rules.iter().any(|rule| rule.allows(&request));
                    prop_assert!(!has(&granted_rules) || has(&owned_rules), "{:?}", request);
                }
            }
        }
    }
}
