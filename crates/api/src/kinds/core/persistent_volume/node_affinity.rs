//! Validation of the node affinity of a volume.

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::metadata::texts;
use crate::names::dns;
use crate::names::key::{label_key, label_value};
use crate::value::Value;

/// Renamed node labels, with the warning for the old name.
const RENAMED: [(&str, &str, &str); 5] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone", "v1.17"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region", "v1.17"),
    ("beta.kubernetes.io/os", "kubernetes.io/os", "v1.14"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch", "v1.14"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type", "v1.17"),
];

/// Deprecated node labels, with their warnings.
const DEPRECATED: [(&str, &str); 3] = [
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

fn terms(required: Option<&Value>) -> &[Value] {
    items(required, "nodeSelectorTerms")
}

fn items<'a>(value: Option<&'a Value>, field: &str) -> &'a [Value] {
    value.and_then(|value| value.get(field)).and_then(Value::as_list).unwrap_or_default()
}

/// `true` if a value of an expression is not a valid label value.
pub(super) fn has_bad_values(required: &Value) -> bool {
    let expressions = terms(Some(required)).iter().flat_map(|term| items(Some(term), "matchExpressions"));
    let mut values = expressions.flat_map(|expression| texts(expression.get("values")));
    values.any(|value| !label_value(value).is_empty())
}

pub(super) fn check(errors: &mut ErrorList, path: &Path<'_>, affinity: &Value, keeps_bad_values: bool) {
    let path = path.child("required");
    let Some(required) = affinity.get("required").filter(|value| !value.is_null()) else {
        errors.push(FieldError::required(&path, "must specify required node constraints"));
        return;
    };
    let path = path.child("nodeSelectorTerms");
    let terms = terms(Some(required));
    if terms.is_empty() {
        errors.push(FieldError::required(&path, "must have at least one node selector term"));
    }
    for (i, term) in terms.iter().enumerate() {
        let path = path.index(i);
        for (j, expression) in items(Some(term), "matchExpressions").iter().enumerate() {
            check_expression(errors, &path.child("matchExpressions").index(j), expression, keeps_bad_values);
        }
        for (j, expression) in items(Some(term), "matchFields").iter().enumerate() {
            check_field(errors, &path.child("matchFields").index(j), expression);
        }
    }
}

fn check_expression(errors: &mut ErrorList, path: &Path<'_>, expression: &Value, keeps_bad_values: bool) {
    let values = texts(expression.get("values"));
    let values_path = path.child("values");
    match (expression.str_at(&["operator"]), values.len()) {
        ("In" | "NotIn", 0) => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&values_path, detail));
        }
        ("Exists" | "DoesNotExist", 1..) => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&values_path, detail));
        }
        ("Gt" | "Lt", 0 | 2..) => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(FieldError::required(&values_path, detail));
        }
        ("In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt", _) => {}
        (other, _) => push_operator(errors, path, other),
    }
    let key = expression.str_at(&["key"]);
    errors.push_invalid(&path.child("key"), key, label_key(key));
    if !keeps_bad_values {
        for (i, value) in values.into_iter().enumerate() {
            errors.push_invalid(&values_path.index(i), value, label_value(value));
        }
    }
}

fn push_operator(errors: &mut ErrorList, path: &Path<'_>, operator: &str) {
    let value = BadValue::json_string(operator);
    errors.push(FieldError::invalid(&path.child("operator"), value, "not a valid selector operator"));
}

fn check_field(errors: &mut ErrorList, path: &Path<'_>, expression: &Value) {
    let values = texts(expression.get("values"));
    match (expression.str_at(&["operator"]), values.len()) {
        ("In" | "NotIn", 1) => {}
        ("In" | "NotIn", _) => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(FieldError::required(&path.child("values"), detail));
        }
        (other, _) => push_operator(errors, path, other),
    }
    let key = expression.str_at(&["key"]);
    if key != "metadata.name" {
        errors.push(FieldError::invalid(&path.child("key"), key, "not a valid field selector key"));
        return;
    }
    for (i, value) in values.into_iter().enumerate() {
        errors.push_invalid(&path.child("values").index(i), value, dns::subdomain(value));
    }
}

/// `true` if nothing changed except renamed node labels.
pub(super) fn is_same(new: Option<&Value>, old: &Value) -> bool {
    let mut old = old.clone();
    let Some(new) = new else { return false };
    if let Some(Value::List(old_terms)) = old.at_mut(&["required", "nodeSelectorTerms"]) {
        for (term, new_term) in old_terms.iter_mut().zip(terms(new.get("required"))) {
            for field in ["matchExpressions", "matchFields"] {
                let Some(Value::List(expressions)) = term.get_mut(field) else { continue };
                for (expression, new) in expressions.iter_mut().zip(items(Some(new_term), field)) {
                    let (key, new_key) = (expression.str_at(&["key"]), new.str_at(&["key"]));
                    if RENAMED.iter().any(|(beta, stable, _)| *beta == key && *stable == new_key) {
                        expression.make_map().insert("key", new_key);
                    }
                }
            }
        }
    }
    *new == old
}

/// Warnings for deprecated node labels.
pub(super) fn warnings(required: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (i, term) in terms(required).iter().enumerate() {
        for (j, expression) in items(Some(term), "matchExpressions").iter().enumerate() {
            let key = expression.str_at(&["key"]);
            let renamed = RENAMED.iter().find(|(beta, ..)| *beta == key);
            let renamed = renamed
                .map(|(_, stable, since)| format!("deprecated since {since}; use \"{stable}\" instead"));
            let other =
                || DEPRECATED.iter().find(|(known, _)| *known == key).map(|(_, why)| (*why).to_owned());
            if let Some(why) = renamed.or_else(other) {
                warnings.push(format!(
                    "spec.nodeAffinity.required.nodeSelectorTerms[{i}].matchExpressions[{j}].key: {key} is {why}"
                ));
            }
        }
    }
    warnings
}
