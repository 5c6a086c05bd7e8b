//! The bootstrap policy, compared with recorded facts.

use std::collections::BTreeSet;

use setpoint_api::{Map, Value, metadata};
use setpoint_authorization::bootstrap::{self, BootstrapObject, Reconciled, reconcile};
use setpoint_authorization::rbac::PolicyRule;

/// Facts of the reference: see the comment at the start of the file.
const FACTS: &str = include_str!("facts/bootstrap.tsv");

fn join(texts: &[Box<str>]) -> String {
    let named = texts.iter().map(|text| if text.is_empty() { "core" } else { text }).collect::<Vec<_>>();
    if named.is_empty() { "-".to_owned() } else { named.join(" ") }
}

fn pairs(map: Option<&Value>) -> String {
    let entries = map.and_then(Value::as_map).into_iter().flat_map(Map::iter);
    let entries: BTreeSet<String> =
        entries.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    entries.into_iter().collect::<Vec<_>>().join(" ")
}

fn list<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    object.at(path).and_then(Value::as_list).unwrap_or_default()
}

/// Lines about an object, in the form of the facts.
fn lines(BootstrapObject { resource, namespace, object }: &BootstrapObject) -> Vec<String> {
    let kind = match *resource {
        "roles" => "Role",
        "clusterroles" => "ClusterRole",
        "rolebindings" => "RoleBinding",
        _ => "ClusterRoleBinding",
    };
    let name = match *namespace {
        "" => metadata::name(object).to_owned(),
        namespace => format!("{namespace}/{}", metadata::name(object)),
    };
    if object.get("roleRef").is_some() {
        let subject = |subject: &Value| {
            let [kind, name, namespace] = ["kind", "name", "namespace"].map(|field| subject.str_at(&[field]));
            let separator = if namespace.is_empty() { "" } else { "/" };
            format!("{kind}:{namespace}{separator}{name}")
        };
        let subjects: Vec<String> = list(object, &["subjects"]).iter().map(subject).collect();
        let subjects = if subjects.is_empty() { "-".to_owned() } else { subjects.join(" ") };
        let role = [object.str_at(&["roleRef", "kind"]), object.str_at(&["roleRef", "name"])].join("/");
        return vec![["bind", kind, &name, &role, &subjects].join("\t")];
    }
    let (labels, annotations) =
        (pairs(object.at(&["metadata", "labels"])), pairs(object.at(&["metadata", "annotations"])));
    let mut lines = vec![["meta", kind, &name, &labels, &annotations].join("\t")];
    for selector in list(object, &["aggregationRule", "clusterRoleSelectors"]) {
        lines.push(["aggregate", kind, &name, &pairs(selector.get("matchLabels"))].join("\t"));
    }
    for PolicyRule { verbs, groups, resources, names, paths } in PolicyRule::list(object) {
        let [verbs, groups, resources, names, paths] =
            [verbs, groups, resources, names, paths].map(|texts| join(&texts));
        lines.push(["rule", kind, &name, &verbs, &groups, &resources, &names, &paths].join("\t"));
    }
    lines
}

#[test]
fn bootstrap_policy_is_that_of_the_reference() {
    let own: Vec<String> = bootstrap::objects().flat_map(|object| lines(&object)).collect();
    let facts: Vec<&str> = FACTS.lines().filter(|line| !line.starts_with('#')).collect();
    let (own_set, fact_set): (BTreeSet<&str>, BTreeSet<&str>) =
        (own.iter().map(String::as_str).collect(), facts.iter().copied().collect());
    assert!(facts.len() > 400, "the facts are complete");
    assert_eq!(fact_set.difference(&own_set).collect::<Vec<_>>(), Vec::<&&str>::new(), "missing");
    assert_eq!(
        own_set.difference(&fact_set).collect::<Vec<_>>(),
        Vec::<&&str>::new(),
        "not in the reference"
    );
    assert_eq!(own.len(), facts.len(), "nothing is repeated");
}

#[test]
fn bootstrap_objects_need_no_reconciliation() {
    for BootstrapObject { object, .. } in bootstrap::objects() {
        assert_eq!(reconcile(&object, &object), Reconciled::Unchanged, "{}", metadata::name(&object));
    }
}
