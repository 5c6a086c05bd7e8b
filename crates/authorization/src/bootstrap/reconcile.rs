//! Reconciliation of a stored role or binding with the one of the bootstrap policy.

use setpoint_api::{Map, Value};

use crate::rbac::{PolicyRule, uncovered};

/// Annotation that protects an object from reconciliation if it is `false`.
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// Result of a reconciliation.
#[derive(Clone, Debug, PartialEq)]
pub enum Reconciled {
    /// The stored object needs no change, or is protected.
    Unchanged,
    /// Object to store in place of the old one.
    Update(Value),
    /// Object to create after the old one is deleted: the role of a binding cannot be changed.
    Recreate(Value),
}

/// Compares a stored role or binding with the expected one. Rules, subjects, labels and annotations are added if they
/// are missing; those that an administrator has added or changed stay.
#[must_use]
pub fn reconcile(stored: &Value, expected: &Value) -> Reconciled {
    if stored.str_at(&["metadata", "annotations", AUTO_UPDATE]) == "false" {
        return Reconciled::Unchanged;
    }
    if stored.get("roleRef") != expected.get("roleRef") {
        return Reconciled::Recreate(expected.clone());
    }
    let mut updated = stored.clone();
    for field in ["annotations", "labels"] {
        add_metadata(&mut updated, expected, field);
    }
    if expected.get("roleRef").is_some() {
        add_subjects(&mut updated, expected);
    } else {
        add_rules(&mut updated, expected);
        add_aggregation(&mut updated, expected);
    }
    if updated == *stored { Reconciled::Unchanged } else { Reconciled::Update(updated) }
}

fn entries<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object.get(field).and_then(Value::as_list).unwrap_or_default()
}

/// Adds items to a list field, unless there are none.
fn extend(object: &mut Value, field: &str, added: Vec<Value>) {
    if !added.is_empty() {
        let all = entries(object, field).iter().cloned().chain(added).collect::<Vec<_>>();
        object.make_map().insert(field, all);
    }
}

/// Adds missing labels or annotations.
fn add_metadata(updated: &mut Value, expected: &Value, field: &str) {
    let expected = expected.at(&["metadata", field]).and_then(Value::as_map);
    let stored = updated.at(&["metadata", field]).and_then(Value::as_map);
    let is_missing = |(key, _): &(&str, &Value)| stored.is_none_or(|stored| stored.get(key).is_none());
    let missing: Map = expected.into_iter().flat_map(Map::iter).filter(is_missing).map(clone_entry).collect();
    if !missing.is_empty() {
        let map = updated.ensure_map("metadata").ensure_map(field);
        for (key, value) in missing.iter() {
            map.insert(key, value.clone());
        }
    }
}

fn clone_entry<'a>((key, value): (&'a str, &Value)) -> (&'a str, Value) {
    (key, value.clone())
}

/// Adds the parts of the expected rules that no stored rule covers.
fn add_rules(updated: &mut Value, expected: &Value) {
    let (stored, expected) = (PolicyRule::list(updated), PolicyRule::list(expected));
    // The expected rules are few.
    let missing = uncovered(&stored, &expected).unwrap_or_default();
    extend(updated, "rules", missing.iter().map(PolicyRule::to_value).collect());
}

/// Adds missing selectors of aggregated roles. A role that is not to be aggregated loses its rule.
fn add_aggregation(updated: &mut Value, expected: &Value) {
    const SELECTORS: &str = "clusterRoleSelectors";
    let Some(rule) = expected.get("aggregationRule") else {
        if updated.get("aggregationRule").is_some() {
            updated.make_map().remove("aggregationRule");
        }
        return;
    };
    let mut stored = updated.get("aggregationRule").cloned().unwrap_or_else(Value::map);
    let is_missing = |selector: &&Value| !entries(&stored, SELECTORS).contains(selector);
    let missing: Vec<Value> = entries(rule, SELECTORS).iter().filter(is_missing).cloned().collect();
    if !missing.is_empty() {
        extend(&mut stored, SELECTORS, missing);
        updated.make_map().insert("aggregationRule", stored);
    }
}

/// Adds missing subjects.
fn add_subjects(updated: &mut Value, expected: &Value) {
    let is_missing = |subject: &&Value| !entries(updated, "subjects").contains(subject);
    let missing = entries(expected, "subjects").iter().filter(is_missing).cloned().collect();
    extend(updated, "subjects", missing);
}

#[cfg(test)]
mod tests {
    use setpoint_api::{json, value};

    use super::*;

    fn parse(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap()
    }

    fn role(rules: &str, extra: &str) -> Value {
        parse(&format!(r#"{{"metadata":{{"name":"r"{extra}}},"rules":{rules}}}"#))
    }

    #[test]
    fn missing_rules_are_added_and_others_stay() {
        let stored = role(
            r#"[{"verbs":["get"],"apiGroups":["*"],"resources":["pods"]},{"verbs":["x"],"apiGroups":["y"],"resources":["z"]}]"#,
            "",
        );
        let expected = role(r#"[{"verbs":["get","list"],"apiGroups":[""],"resources":["pods"]}]"#, "");
        let Reconciled::Update(updated) = reconcile(&stored, &expected) else { panic!("unchanged") };
        let rules = entries(&updated, "rules");
        assert_eq!(rules[..2], *entries(&stored, "rules"));
        assert_eq!(rules[2..], [value!({"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]})]);
        assert_eq!(reconcile(&updated, &expected), Reconciled::Unchanged);
    }

    #[test]
    fn protected_role_is_not_changed() {
        let protected = r#","annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"}"#;
        let expected = role(r#"[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}]"#, "");
        assert_eq!(reconcile(&role("[]", protected), &expected), Reconciled::Unchanged);
    }

    #[test]
    fn changed_labels_stay_and_missing_ones_are_added() {
        let stored = role("[]", r#","labels":{"a":"mine"}"#);
        let expected = role("[]", r#","labels":{"a":"default","b":"default"}"#);
        let Reconciled::Update(updated) = reconcile(&stored, &expected) else { panic!("unchanged") };
        assert_eq!(updated.at(&["metadata", "labels"]), Some(&value!({"a": "mine", "b": "default"})));
    }

    #[test]
    fn binding_gets_missing_subjects_and_is_recreated_for_another_role() {
        let binding = |role: &str, subjects: &str| {
            parse(&format!(
                r#"{{"metadata":{{"name":"b"}},"roleRef":{{"name":"{role}"}},"subjects":[{subjects}]}}"#
            ))
        };
        let (a, b) = (r#"{"kind":"User","name":"a"}"#, r#"{"kind":"User","name":"b"}"#);
        let expected = binding("r", a);
        let all = binding("r", &format!("{b},{a}"));
        assert_eq!(reconcile(&binding("r", b), &expected), Reconciled::Update(all));
        assert_eq!(reconcile(&binding("other", a), &expected), Reconciled::Recreate(expected.clone()));
    }

    #[test]
    fn aggregation_follows_the_expected_role() {
        let aggregated = |selectors: &str| {
            parse(&format!(
                r#"{{"metadata":{{"name":"r"}},"aggregationRule":{{"clusterRoleSelectors":[{selectors}]}}}}"#
            ))
        };
        let (a, b) = (r#"{"matchLabels":{"a":"true"}}"#, r#"{"matchLabels":{"b":"true"}}"#);
        let both = aggregated(&format!("{b},{a}"));
        assert_eq!(reconcile(&aggregated(b), &aggregated(a)), Reconciled::Update(both));
        let plain = parse(r#"{"metadata":{"name":"r"}}"#);
        assert_eq!(reconcile(&aggregated(a), &plain), Reconciled::Update(plain.clone()));
    }
}
