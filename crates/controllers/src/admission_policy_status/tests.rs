//! Type checks of policies in a simulated cluster.

use setpoint_api::json;
use setpoint_sim::cluster::Cluster;

use super::*;
use crate::crd;

const POLICIES: &str = ValidatingAdmissionPolicy::RESOURCE;
const DEFINITIONS: &str = CustomResourceDefinition::RESOURCE;

fn cluster() -> Cluster {
    Cluster::new(
        || {
            let mut controllers = crd::server_controllers();
            controllers.push(Box::new(AdmissionPolicyStatusController));
            (controllers, crate::indexes::all())
        },
        7,
    )
}

/// Settles with answers to all queries.
fn settle(cluster: &mut Cluster) {
    cluster.settle();
    while cluster.reply_from_store() > 0 {
        cluster.settle();
    }
}

fn create(cluster: &mut Cluster, name: &str, (group, resource): (&str, &str), expression: &str) {
    let rule = value!({
        "apiGroups": [(group)], "apiVersions": ["v1"], "resources": [(resource)], "operations": ["CREATE"],
    });
    let spec = value!({
        "matchConstraints": {"resourceRules": [(rule)]},
        "validations": [{"expression": (expression)}],
    });
    cluster.create(POLICIES, "", value!({"metadata": {"name": (name)}, "spec": (spec)}));
    settle(cluster);
}

/// Observed generation, and the warnings.
fn status(cluster: &Cluster, name: &str) -> (Option<i64>, Vec<String>) {
    let policy = cluster.get(POLICIES, name).unwrap();
    let warnings = policy.at(&["status", "typeChecking", "expressionWarnings"]).and_then(Value::as_list);
    assert!(policy.at(&["status", "typeChecking"]).is_some(), "{policy:?}");
    let text =
        |warning: &Value| format!("{}: {}", warning.str_at(&["fieldRef"]), warning.str_at(&["warning"]));
    let observed = policy.at(&["status", "observedGeneration"]).and_then(Value::as_i64);
    (observed, warnings.unwrap_or_default().iter().map(text).collect())
}

fn define(cluster: &mut Cluster, ty: &str) {
    let schema = value!({
        "type": "object", "properties": {"size": {"type": (ty)}},
    });
    cluster.create(
        DEFINITIONS,
        "",
        value!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": (schema)},
                }],
            },
        }),
    );
    settle(cluster);
}

const WARNING: &str = "spec.validations[0].expression: apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no \
    matching overload for '_>_' applied to '(int, string)'\n | object.spec.replicas > '1'\n | .....................^\n";

#[test]
fn warnings_follow_the_generation_of_the_policy() {
    let mut cluster = cluster();
    create(&mut cluster, "p", ("apps", "deployments"), "object.spec.replicas > 1");
    assert_eq!(status(&cluster, "p"), (Some(1), Vec::new()));
    for (generation, expression, warnings) in
        [(2, "object.spec.replicas > '1'", vec![WARNING.to_owned()]), (3, "true", Vec::new())]
    {
        let patch = value!({"spec": {"validations": [{"expression": (expression)}]}});
        cluster.patch(POLICIES, "p", "", patch).unwrap();
        settle(&mut cluster);
        assert_eq!(status(&cluster, "p"), (Some(generation), warnings));
    }
    cluster.assert_quiet();
}

#[test]
fn policy_that_names_no_kind_is_observed_without_a_query() {
    let mut cluster = cluster();
    create(&mut cluster, "p", ("apps", "*"), "object.nothing == 1");
    assert_eq!(status(&cluster, "p"), (Some(1), Vec::new()));
}

#[test]
fn warnings_follow_the_schema_of_a_definition() {
    let mut cluster = cluster();
    create(&mut cluster, "p", ("example.com", "widgets"), "object.size > 1");
    assert_eq!(status(&cluster, "p"), (Some(1), Vec::new()));
    define(&mut cluster, "string");
    let (observed, warnings) = status(&cluster, "p");
    assert_eq!((observed, warnings.len()), (Some(1), 1), "{warnings:?}");
    assert!(
        warnings[0].contains("example.com/v1, Kind=Widget: ERROR: <input>:1:13: found no matching"),
        "{warnings:?}"
    );
    let schema = value!({"openAPIV3Schema": {"type": "object", "properties": {"size": {"type": "integer"}}}});
    let version = value!({"name": "v1", "served": true, "storage": true, "schema": (schema)});
    cluster
        .patch(DEFINITIONS, "widgets.example.com", "", value!({"spec": {"versions": [(version)]}}))
        .unwrap();
    settle(&mut cluster);
    assert_eq!(status(&cluster, "p"), (Some(1), Vec::new()));
    cluster.assert_quiet();
}

#[test]
fn checked_policy_is_checked_again_after_a_restart_only_if_its_result_may_differ() {
    let mut cluster = cluster();
    create(&mut cluster, "clean", ("apps", "deployments"), "object.spec.replicas > 1");
    create(&mut cluster, "warned", ("apps", "deployments"), "object.spec.replicas > '1'");
    cluster.crash();
    cluster.settle();
    assert_eq!(cluster.reply_from_store(), 1);
    settle(&mut cluster);
    assert_eq!(status(&cluster, "warned").1, [WARNING]);
}

/// Type checks of a recorded kube-controller-manager 1.37, with the random numbers removed from the names of types.
#[test]
fn warnings_are_those_of_upstream() {
    let facts = json::parse(include_bytes!("../../tests/policy_types.json")).unwrap();
    let mut cluster = cluster();
    let version = value!({
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": (facts.get("schema").unwrap().clone())},
    });
    let names = value!({"plural": "widgets", "singular": "widget", "kind": "Widget"});
    let spec = value!({
        "group": "facts.example", "scope": "Namespaced", "names": (names), "versions": [(version)],
    });
    cluster.create(DEFINITIONS, "", value!({"metadata": {"name": "widgets.facts.example"}, "spec": (spec)}));
    settle(&mut cluster);
    let cases = facts.get("cases").and_then(Value::as_list).unwrap();
    assert!(cases.len() > 25);
    for case in cases {
        let name = format!("p{}", case.str_at(&["id"]));
        let spec = case.get("spec").unwrap().clone();
        cluster.create(POLICIES, "", value!({"metadata": {"name": (name.as_str())}, "spec": (spec)}));
    }
    settle(&mut cluster);
    for case in cases {
        let expected = case.get("warnings").and_then(Value::as_list).unwrap();
        let expected: Vec<String> = expected
            .iter()
            .map(|warning| {
                let texts: Vec<&str> = warning.as_list().unwrap().iter().filter_map(Value::as_str).collect();
                texts.join(": ")
            })
            .collect();
        let (_, warnings) = status(&cluster, &format!("p{}", case.str_at(&["id"])));
        assert_eq!(warnings, expected, "{}", case.str_at(&["id"]));
    }
}
