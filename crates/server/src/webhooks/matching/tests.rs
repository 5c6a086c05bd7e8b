//! Tables of requests and the webhooks that match them.

use setpoint_api::{json, resource_types};

use super::*;
use crate::exchange::Identity;
use crate::pipeline::WriteOrigin;
use crate::pipeline::admission::testing::{object, snapshot_with};
use crate::webhooks::config::CompiledWebhooks;
use setpoint_api::Time;

fn writer() -> WriteOrigin {
    WriteOrigin {
        identity: Identity::default(),
        manager: String::new(),
        dry_run: false,
        reconciler: String::new(),
        takes_over: false,
    }
}

/// A namespace with the label `team=a`.
const NAMESPACE: (&str, &str, &str, &str) = (
    "",
    "v1",
    "namespaces",
    r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"ns","labels":{"team":"a"}}}"#,
);

fn snapshot(hook: &str) -> Snapshot {
    let text = format!(
        r#"{{"kind":"ValidatingWebhookConfiguration","apiVersion":"admissionregistration.k8s.io/v1",
            "metadata":{{"name":"c"}},"webhooks":[{hook}]}}"#
    );
    let configuration = json::to_text(&object(&text));
    let plural = "validatingwebhookconfigurations";
    snapshot_with(&[NAMESPACE, ("admissionregistration.k8s.io", "v1", plural, &configuration)])
}

fn hook_with(rule: &str, more: &str) -> String {
    format!(
        r#"{{"name":"h.example.com","clientConfig":{{"url":"https://h"}},"admissionReviewVersions":["v1"],
            "sideEffects":"None","rules":[{rule}]{more}}}"#
    )
}

fn rule(operations: &str, group: &str, version: &str, resource: &str, scope: &str) -> String {
    format!(
        r#"{{"operations":["{operations}"],"apiGroups":["{group}"],"apiVersions":["{version}"],
            "resources":["{resource}"],"scope":"{scope}"}}"#
    )
}

struct Case<'a> {
    path: (&'a str, &'a str, &'a str, &'a str),
    operation: Operation,
    namespace: &'a str,
    object: Option<&'a str>,
    old: Option<&'a str>,
}

const POD: Case<'static> = Case {
    path: ("", "v1", "pods", ""),
    operation: Operation::Create,
    namespace: "ns",
    object: Some(r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","labels":{"app":"web"}}}"#),
    old: None,
};

/// Version that the webhook gets; `None` if it is not called.
fn matched(hook: &str, case: &Case<'_>) -> Result<Option<String>, Status> {
    let snapshot = snapshot(hook);
    let compiled = CompiledWebhooks::of(&snapshot).unwrap();
    let (group, version, plural, subresource) = case.path;
    let resource_type = resource_types::find(group, version, plural).unwrap();
    let writer = writer();
    let request = AdmissionRequest::new(case.operation, resource_type, (case.namespace, "p"), &writer)
        .for_subresource(subresource);
    let (new, old) = (case.object.map(object), case.old.map(object));
    let context = RequestContext {
        snapshot: &snapshot,
        now: Time::EPOCH,
        entropy: [1; 3],
        tolerations: Default::default(),
        catalog: Catalog::built_in(),
        webhooks: None,
        conversions: None,
        authorization: None,
    };
    let found = invocation(&compiled.validating[0], &request, new.as_ref(), old.as_ref(), &context)?;
    Ok(found.map(|found| found.resource_type.api_version()))
}

#[test]
fn every_part_of_a_rule_must_match() {
    for (rule, expected) in [
        (rule("CREATE", "", "v1", "pods", "*"), true),
        (rule("*", "*", "*", "*", "*"), true),
        (rule("*", "*", "*", "*/*", "Namespaced"), true),
        (rule("UPDATE", "", "v1", "pods", "*"), false),
        (rule("CREATE", "apps", "v1", "pods", "*"), false),
        (rule("CREATE", "", "v2", "pods", "*"), false),
        (rule("CREATE", "", "v1", "pods/status", "*"), false),
        (rule("CREATE", "", "v1", "*/status", "*"), false),
        (rule("CREATE", "", "v1", "pods", "Cluster"), false),
    ] {
        assert_eq!(matched(&hook_with(&rule, ""), &POD).unwrap().is_some(), expected, "{rule}");
    }
}

#[test]
fn subresources_match_by_name_or_wildcard() {
    let status = Case { path: ("", "v1", "pods", "status"), operation: Operation::Update, ..POD };
    for (resource, expected) in
        [("pods/status", true), ("pods/*", true), ("*/status", true), ("pods", false), ("*", false)]
    {
        let hook = hook_with(&rule("*", "*", "*", resource, "*"), "");
        assert_eq!(matched(&hook, &status).unwrap().is_some(), expected, "{resource}");
    }
}

#[test]
fn namespace_objects_are_cluster_scoped_and_selected_by_their_own_labels() {
    let labels = |team| format!(r#"{{"metadata":{{"name":"p","labels":{{"team":"{team}"}}}}}}"#);
    let selector = r#","namespaceSelector":{"matchLabels":{"team":"a"}}"#;
    let hook = |scope| hook_with(&rule("*", "*", "*", "*", scope), selector);
    for (team, scope, expected) in
        [("a", "Cluster", true), ("b", "Cluster", false), ("a", "Namespaced", false)]
    {
        let text = labels(team);
        let case = Case { path: ("", "v1", "namespaces", ""), namespace: "", object: Some(&text), ..POD };
        assert_eq!(matched(&hook(scope), &case).unwrap().is_some(), expected, "{team} {scope}");
    }
}

#[test]
fn namespace_selector_exempts_namespaces_but_no_cluster_scoped_objects() {
    let hook = |team| {
        let selector = format!(r#","namespaceSelector":{{"matchLabels":{{"team":"{team}"}}}}"#);
        hook_with(&rule("*", "*", "*", "*", "*"), &selector)
    };
    assert!(matched(&hook("a"), &POD).unwrap().is_some());
    assert!(matched(&hook("b"), &POD).unwrap().is_none());
    let node = Case { path: ("", "v1", "nodes", ""), namespace: "", ..POD };
    assert!(matched(&hook("b"), &node).unwrap().is_some());
    let missing = matched(&hook("a"), &Case { namespace: "none", ..POD }).unwrap_err();
    assert_eq!(missing.message, r#"namespaces "none" not found"#);
}

#[test]
fn object_selector_matches_the_old_or_the_new_object() {
    let hook =
        hook_with(&rule("*", "*", "*", "*", "*"), r#","objectSelector":{"matchLabels":{"app":"web"}}"#);
    let (web, other) = (r#"{"metadata":{"labels":{"app":"web"}}}"#, r#"{"metadata":{}}"#);
    for (new, old, expected) in [
        (Some(web), None, true),
        (Some(other), Some(web), true),
        (Some(web), Some(other), true),
        (Some(other), Some(other), false),
        (None, Some(web), true),
        (None, None, false),
    ] {
        let case = Case { object: new, old, ..POD };
        assert_eq!(matched(&hook, &case).unwrap().is_some(), expected, "{new:?} {old:?}");
    }
}

#[test]
fn equivalent_version_is_sent_unless_the_policy_is_exact() {
    let rule = rule("*", "autoscaling", "v1", "horizontalpodautoscalers", "*");
    let case = Case { path: ("autoscaling", "v2", "horizontalpodautoscalers", ""), ..POD };
    assert_eq!(matched(&hook_with(&rule, ""), &case).unwrap().as_deref(), Some("autoscaling/v1"));
    let exact = hook_with(&rule, r#","matchPolicy":"Exact""#);
    assert_eq!(matched(&exact, &case).unwrap(), None);
}

#[test]
fn configurations_of_admission_are_exempt() {
    for plural in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
        assert!(is_exempt(resource_types::find("admissionregistration.k8s.io", "v1", plural).unwrap()));
    }
    assert!(!is_exempt(resource_types::find("", "v1", "pods").unwrap()));
}

#[test]
fn match_conditions_select_requests_and_their_errors_follow_the_failure_policy() {
    let rule = rule("*", "*", "*", "*", "*");
    for (expression, is_matched) in
        [("request.operation == 'CREATE'", true), ("object.kind == 'Node'", false)]
    {
        let conditions = format!(r#","matchConditions":[{{"name":"c","expression":"{expression}"}}]"#);
        assert_eq!(
            matched(&hook_with(&rule, &conditions), &POD).unwrap().is_some(),
            is_matched,
            "{expression}"
        );
    }
    let conditions = r#","matchConditions":[{"name":"c","expression":"object.missing.field == 1"}]"#;
    let error = matched(&hook_with(&rule, conditions), &POD).unwrap_err();
    assert_eq!(error.code, 403);
    let ignored = format!(r#"{conditions},"failurePolicy":"Ignore""#);
    assert_eq!(matched(&hook_with(&rule, &ignored), &POD).unwrap(), None);
}
