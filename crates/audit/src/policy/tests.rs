//! Policies: reading, validation, and matching against a slow model.

use proptest::prelude::*;
use setpoint_api::{Identity, RequestInfo};

use super::*;
use crate::level::Stage;

fn policy(rules: &str) -> Policy {
    let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n{rules}");
    Policy::read(text.as_bytes()).unwrap()
}

fn error(text: &str) -> String {
    Policy::read(text.as_bytes()).unwrap_err().to_string()
}

fn request<'a>(verb: &'a str, resource: &'a str, namespace: &'a str, name: &'a str) -> RequestInfo<'a> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let path = "/api/v1/x";
    RequestInfo {
        is_resource: true,
        verb,
        path,
        resource,
        subresource,
        namespace,
        name,
        ..Default::default()
    }
}

#[test]
fn first_matching_rule_decides() {
    let policy = policy(
        "
- {level: None, users: [system:kube-proxy], verbs: [watch]}
- {level: Request, resources: [{resources: [secrets], resourceNames: [one]}], omitManagedFields: true}
- {level: Metadata, resources: [{resources: [secrets, configmaps, '*/log', pods/*]}], omitStages: [RequestReceived]}
- {level: None, nonResourceURLs: ['/healthz*', /version]}
- {level: RequestResponse, namespaces: [prod], userGroups: [ops, dev]}
",
    );
    let ann = Identity::new("ann", vec!["team".to_owned(), "ops".to_owned()]);
    let proxy = Identity::new("system:kube-proxy", Vec::new());
    let level = |user: &Identity, request: RequestInfo<'_>| policy.decide(Some(user), &request).level;
    let path = |path| RequestInfo { verb: "get", path, ..RequestInfo::default() };
    for (user, request, expected) in [
        (&proxy, request("watch", "services", "", ""), Level::None),
        (&proxy, request("get", "secrets", "", "one"), Level::Request),
        (&ann, request("get", "secrets", "prod", "two"), Level::Metadata),
        (&ann, request("get", "nodes/log", "", "n"), Level::Metadata),
        (&ann, request("get", "pods", "prod", "p"), Level::Metadata),
        (&ann, request("get", "pods/exec", "prod", "p"), Level::Metadata),
        (&ann, request("get", "secrets/status", "prod", "p"), Level::RequestResponse),
        (&proxy, request("get", "services", "prod", "p"), Level::None),
        (&ann, request("get", "services", "", "p"), Level::None),
        (&ann, path("/healthz/ping"), Level::None),
        (&ann, path("/metrics"), Level::None),
    ] {
        assert_eq!(level(user, request), expected, "{} {request:?}", user.user);
    }
    let decided = policy.decide(Some(&ann), &request("get", "secrets", "", "two"));
    assert!(decided.omit_stages.contains(Stage::RequestReceived) && !decided.omit_managed_fields);
    assert!(policy.decide(Some(&ann), &request("get", "secrets", "", "one")).omit_managed_fields);
    // A request without a user matches no rule about users.
    assert_eq!(policy.decide(None, &request("get", "services", "prod", "")).level, Level::None);
    assert_eq!(policy.decide(None, &request("get", "secrets", "prod", "")).level, Level::Metadata);
}

#[test]
fn policy_wide_stages_and_managed_fields_are_defaults_of_rules() {
    let text = r#"{"apiVersion":"audit.k8s.io/v1","kind":"Policy","metadata":{"name":"p"},"omitStages":["Panic"],
        "omitManagedFields":true,"rules":[{"level":"Metadata","verbs":["get"],"omitStages":["ResponseStarted"],
        "omitManagedFields":false},{"level":"Metadata"}]}"#;
    let policy = Policy::read(text.as_bytes()).unwrap();
    let get = policy.decide(None, &request("get", "pods", "", ""));
    let stages = [Stage::Panic, Stage::ResponseStarted].into_iter().collect();
    assert_eq!((get.omit_stages, get.omit_managed_fields), (stages, false));
    let list = policy.decide(None, &request("list", "pods", "", ""));
    assert_eq!((list.omit_stages, list.omit_managed_fields), ([Stage::Panic].into_iter().collect(), true));
}

#[test]
fn invalid_policies_are_rejected_with_upstreams_texts() {
    let with = |rule: &str| error(&format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{rule}]"));
    for (rule, expected) in [
        ("{}", "rules[0].level: Required value"),
        (
            "{level: Some}",
            r#"rules[0].level: Unsupported value: "Some": supported values: "None", "Metadata", "Request", "RequestResponse""#,
        ),
        (
            "{level: None, nonResourceURLs: [healthz, '/a*b']}",
            r#"[rules[0].nonResourceURLs[0]: Invalid value: "healthz": non-resource URL rules must begin with a '/' character, rules[0].nonResourceURLs[1]: Invalid value: "/a*b": non-resource URL wildcards '*' must be the final character of the rule]"#,
        ),
        (
            "{level: None, nonResourceURLs: [/a], namespaces: [b]}",
            r#"rules[0].nonResourceURLs: Invalid value: ["/a"]: rules cannot apply to both regular resources and non-resource URLs"#,
        ),
        (
            "{level: None, resources: [{resourceNames: [a]}]}",
            r#"rules[0].resources.resourceNames: Invalid value: ["a"]: using resourceNames requires at least one resource"#,
        ),
        (
            "{level: None, omitStages: [Later]}",
            r#"rules[0].omitStages[0]: Invalid value: "Later": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic"#,
        ),
        (
            "{level: None, user: [a]}",
            r#"failed decoding: strict decoding error: unknown field "rules[0].user""#,
        ),
        (
            "{level: 5}",
            "failed decoding: json: cannot unmarshal number into Go struct field PolicyRule.rules.level of type string",
        ),
    ] {
        assert_eq!(with(rule), expected);
    }
    let group = with("{level: None, resources: [{group: rbac.authorization.k8s.io/v1}]}");
    assert!(
        group.starts_with(r#"rules[0].resources.group: Invalid value: "rbac.authorization.k8s.io/v1": "#),
        "{group}"
    );
    assert_eq!(error("apiVersion: audit.k8s.io/v1\nkind: Policy\n"), "loaded illegal policy with 0 rules");
    assert!(error("").contains("Object 'Kind' is missing in"), "{}", error(""));
    assert!(error("[").starts_with("failed decoding: "));
    let older = error("apiVersion: audit.k8s.io/v1beta1\nkind: Policy\n");
    assert!(
        older.contains(r#"no kind "Policy" is registered for version "audit.k8s.io/v1beta1""#),
        "{older}"
    );
    let twice = error("apiVersion: audit.k8s.io/v1\nkind: Policy\nkind: Policy\nrules: []\n");
    assert!(twice.contains("strict decoding error") && !twice.contains('\n'), "{twice}");
}

/// Slow model of rule matching: each condition as a set that is searched.
fn model(policy: &Policy, user: Option<&Identity>, request: &RequestInfo<'_>) -> Level {
    let has = |list: &[Box<str>], text: &str| list.iter().filter(|one| ***one == *text).count() > 0;
    for rule in &policy.rules {
        let user_name = user.map(|user| user.user.as_str());
        let groups = user.map(|user| user.groups.as_slice()).unwrap_or_default();
        let combined = match request.subresource {
            "" => request.resource.to_owned(),
            subresource => format!("{}/{subresource}", request.resource),
        };
        let mut conditions = vec![
            rule.users.is_empty() || user_name.is_some_and(|name| has(&rule.users, name)),
            rule.user_groups.is_empty() || groups.iter().any(|group| has(&rule.user_groups, group)),
            rule.verbs.is_empty() || has(&rule.verbs, request.verb),
        ];
        if !rule.namespaces.is_empty() || !rule.resources.is_empty() {
            conditions.push(request.is_resource);
            conditions.push(rule.namespaces.is_empty() || has(&rule.namespaces, request.namespace));
            let patterns = [
                "*".to_owned(),
                combined,
                format!("{}/*", request.resource),
                if request.subresource.is_empty() {
                    "*".to_owned()
                } else {
                    format!("*/{}", request.subresource)
                },
            ];
            let matches = |one: &GroupResources| {
                (&*one.group == "*" || *one.group == *request.group)
                    && (one.resources.is_empty()
                        || ((one.resource_names.is_empty() || has(&one.resource_names, request.name))
                            && patterns.iter().any(|pattern| has(&one.resources, pattern))))
            };
            conditions.push(rule.resources.is_empty() || rule.resources.iter().any(matches));
        } else if !rule.non_resource_urls.is_empty() {
            let prefixes: Vec<String> = (0..=request.path.len())
                .filter_map(|at| Some(format!("{}*", request.path.get(..at)?)))
                .collect();
            conditions.push(!request.is_resource);
            conditions.push(
                rule.non_resource_urls
                    .iter()
                    .any(|url| **url == *request.path || prefixes.iter().any(|prefix| **url == **prefix)),
            );
        }
        if conditions.into_iter().all(|holds| holds) {
            return rule.level;
        }
    }
    Level::None
}

fn texts(choices: &'static [&'static str]) -> impl Strategy<Value = Vec<Box<str>>> {
    let one = proptest::sample::select(choices).prop_map(Box::from);
    proptest::collection::vec(one, 0..3)
}

const RESOURCES: &[&str] = &["pods", "pods/log", "pods/*", "*/log", "*", "secrets", "*/", "/*", "", "*/*"];

fn group_resources() -> impl Strategy<Value = GroupResources> {
    let group = proptest::sample::select(&["", "apps", "*"][..]).prop_map(Box::from);
    (group, texts(RESOURCES), texts(&["a", "b", ""]))
        .prop_map(|(group, resources, resource_names)| GroupResources { group, resources, resource_names })
}

fn rule() -> impl Strategy<Value = Rule> {
    let level = proptest::sample::select(&Level::ALL[..]);
    let who = (texts(&["ann", "bob"]), texts(&["g", "h"]), texts(&["get", "list", "watch"]));
    let what = (
        proptest::collection::vec(group_resources(), 0..3),
        texts(&["", "ns", "other"]),
        texts(&["/healthz", "/healthz*", "/*", "*", "/a/b*"]),
    );
    (level, who, what).prop_map(|(level, (users, user_groups, verbs), (resources, namespaces, urls))| Rule {
        level,
        users,
        user_groups,
        verbs,
        resources,
        namespaces,
        non_resource_urls: urls,
        ..Rule::default()
    })
}

proptest! {
    #[test]
    fn decisions_agree_with_the_model(
        rules in proptest::collection::vec(rule(), 0..6),
        user in proptest::option::of(("ann|bob|eve", proptest::collection::vec("g|h|i", 0..3))),
        is_resource: bool,
        (verb, group, resource, subresource) in ("get|list|watch|", "|apps", "pods|secrets|", "|log|exec"),
        (namespace, name, path) in ("|ns|other", "|a|b", "/|/healthz|/healthz/x|/a/b|/a/bc|"),
    ) {
        let policy = Policy { rules, ..Policy::default() };
        let user = user.map(|(name, groups)| Identity::new(name, groups));
        let request = RequestInfo {
            is_resource,
            verb: &verb,
            path: &path,
            group: &group,
            version: "v1",
            resource: &resource,
            subresource: &subresource,
            namespace: &namespace,
            name: &name,
        };
        prop_assert_eq!(policy.decide(user.as_ref(), &request).level, model(&policy, user.as_ref(), &request));
    }

    #[test]
    fn malformed_files_are_rejected_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Policy::read(&bytes).is_err());
    }

    #[test]
    fn mutated_policies_are_read_or_rejected_without_a_panic(
        position in 0usize..260,
        replacement in ".{0,8}",
    ) {
        let mut text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n\
            - level: Metadata\n  users: [a]\n  resources: [{group: apps, resources: ['*'], resourceNames: [x]}]\n\
            - level: Request\n  nonResourceURLs: [/a*]\n  omitManagedFields: true\n".to_owned();
        let position = text.floor_char_boundary(position.min(text.len()));
        let end = text.ceil_char_boundary((position + 3).min(text.len()));
        text.replace_range(position..end, &replacement);
        if let Err(error) = Policy::read(text.as_bytes()) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
