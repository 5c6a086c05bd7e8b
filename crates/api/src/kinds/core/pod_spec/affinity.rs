//! Validation of node and pod affinity.

use std::collections::{BTreeMap, BTreeSet};

use crate::field_error::{ErrorList, Path};
use crate::kinds::read::{
    check_optional_selector, list, number, present, push_forbidden, push_invalid, push_invalid_enum,
    push_required, text, text_entries, texts,
};
use crate::names::{dns, key};
use crate::value::Value;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Validates the affinity of a pod.
pub(crate) fn check_affinity(errors: &mut ErrorList, path: &Path<'_>, affinity: &Value) {
    if let Some(nodes) = present(affinity, "nodeAffinity") {
        check_node_affinity(errors, &path.child("nodeAffinity"), nodes);
    }
    for field in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = present(affinity, field) else { continue };
        let path = path.child(field);
        let terms = path.child(REQUIRED);
        for (i, term) in list(pods, REQUIRED).iter().enumerate() {
            check_pod_term(errors, &terms.index(i), term);
        }
        let terms = path.child(PREFERRED);
        let none = Value::map();
        for (i, weighted) in list(pods, PREFERRED).iter().enumerate() {
            let path = terms.index(i);
            check_weight(errors, &path, weighted);
            let term = present(weighted, "podAffinityTerm").unwrap_or(&none);
            check_pod_term(errors, &path.child("podAffinityTerm"), term);
        }
    }
}

fn check_weight(errors: &mut ErrorList, path: &Path<'_>, weighted: &Value) {
    let weight = number(weighted, "weight");
    if !(1..=100).contains(&weight) {
        push_invalid(errors, &path.child("weight"), weight, "must be in the range 1-100");
    }
}

fn check_node_affinity(errors: &mut ErrorList, path: &Path<'_>, nodes: &Value) {
    if let Some(selector) = present(nodes, REQUIRED) {
        check_node_selector(errors, &path.child(REQUIRED), selector);
    }
    let terms = path.child(PREFERRED);
    for (i, weighted) in list(nodes, PREFERRED).iter().enumerate() {
        let path = terms.index(i);
        check_weight(errors, &path, weighted);
        if let Some(term) = present(weighted, "preference") {
            // Preferred terms may have values that are not valid label values.
            check_node_term(errors, &path.child("preference"), term, true);
        }
    }
}

/// Validates a node selector.
pub(crate) fn check_node_selector(errors: &mut ErrorList, path: &Path<'_>, selector: &Value) {
    let path = path.child("nodeSelectorTerms");
    let terms = list(selector, "nodeSelectorTerms");
    if terms.is_empty() {
        push_required(errors, &path, "must have at least one node selector term");
    }
    for (i, term) in terms.iter().enumerate() {
        check_node_term(errors, &path.index(i), term, false);
    }
}

fn check_node_term(errors: &mut ErrorList, path: &Path<'_>, term: &Value, any_values: bool) {
    let expressions = path.child("matchExpressions");
    for (i, requirement) in list(term, "matchExpressions").iter().enumerate() {
        check_node_requirement(errors, &expressions.index(i), requirement, any_values);
    }
    let fields = path.child("matchFields");
    for (i, requirement) in list(term, "matchFields").iter().enumerate() {
        check_node_field(errors, &fields.index(i), requirement);
    }
}

fn check_node_requirement(errors: &mut ErrorList, path: &Path<'_>, requirement: &Value, any_values: bool) {
    let values_path = path.child("values");
    let values = texts(requirement, "values");
    match text(requirement, "operator") {
        "In" | "NotIn" => {
            if values.is_empty() {
                push_required(errors, &values_path, "must be specified when `operator` is 'In' or 'NotIn'");
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                push_forbidden(errors, &values_path, detail);
            }
        }
        "Gt" | "Lt" => {
            if values.len() != 1 {
                let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                push_required(errors, &values_path, detail);
            }
        }
        other => push_invalid_enum(errors, &path.child("operator"), other, "not a valid selector operator"),
    }
    let label = text(requirement, "key");
    errors.push_invalid(&path.child("key"), label, key::label_key(label));
    if !any_values {
        for (i, value) in values.into_iter().enumerate() {
            errors.push_invalid(&values_path.index(i), value, key::label_value(value));
        }
    }
}

fn check_node_field(errors: &mut ErrorList, path: &Path<'_>, requirement: &Value) {
    let values_path = path.child("values");
    let values = texts(requirement, "values");
    match text(requirement, "operator") {
        "In" | "NotIn" => {
            if values.len() != 1 {
                let detail =
                    "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                push_required(errors, &values_path, detail);
            }
        }
        other => push_invalid_enum(errors, &path.child("operator"), other, "not a valid selector operator"),
    }
    let field = text(requirement, "key");
    if field != "metadata.name" {
        return push_invalid(errors, &path.child("key"), field, "not a valid field selector key");
    }
    for (i, value) in values.into_iter().enumerate() {
        errors.push_invalid(&values_path.index(i), value, dns::subdomain(value));
    }
}

fn check_pod_term(errors: &mut ErrorList, path: &Path<'_>, term: &Value) {
    let selector = present(term, "labelSelector");
    check_optional_selector(errors, &path.child("labelSelector"), selector);
    check_optional_selector(errors, &path.child("namespaceSelector"), present(term, "namespaceSelector"));
    for namespace in texts(term, "namespaces") {
        errors.push_invalid(&path.child("namespace"), namespace, dns::label(namespace));
    }
    let (same, other) = (texts(term, "matchLabelKeys"), texts(term, "mismatchLabelKeys"));
    check_label_keys(errors, path, &same, &other, selector);
    let topology = text(term, "topologyKey");
    if topology.is_empty() {
        push_required(errors, &path.child("topologyKey"), "can not be empty");
    }
    errors.push_invalid(&path.child("topologyKey"), topology, key::label_key(topology));
}

/// Validates `matchLabelKeys` and `mismatchLabelKeys`. Their requirements have been merged into the selector
/// by now, so a key that was in the selector before occurs twice.
pub(crate) fn check_label_keys(
    errors: &mut ErrorList,
    path: &Path<'_>,
    same: &[&str],
    other: &[&str],
    selector: Option<&Value>,
) {
    for (field, keys) in [("matchLabelKeys", same), ("mismatchLabelKeys", other)] {
        let path = path.child(field);
        if !keys.is_empty() && selector.is_none() {
            push_forbidden(errors, &path, "must not be specified when labelSelector is not set");
            continue;
        }
        for (i, one) in keys.iter().enumerate() {
            errors.push_invalid(&path.index(i), one, key::label_key(one));
        }
    }
    if let Some(selector) = selector {
        let mut seen: BTreeSet<&str> =
            text_entries(selector, "matchLabels").map(|(label, _)| label).collect();
        let places: BTreeMap<&str, usize> = same.iter().enumerate().map(|(at, one)| (*one, at)).collect();
        for expression in list(selector, "matchExpressions") {
            let label = text(expression, "key");
            if let Some(at) = places.get(label).filter(|_| seen.contains(label)) {
                push_invalid(
                    errors,
                    &path.index(*at),
                    label,
                    "exists in both matchLabelKeys and labelSelector",
                );
            }
            seen.insert(label);
        }
    }
    let other: BTreeSet<&str> = other.iter().copied().collect();
    for (i, one) in same.iter().enumerate().filter(|(_, one)| other.contains(*one)) {
        let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
        let path = path.child("matchLabelKeys");
        push_invalid(errors, &path.index(i), *one, detail);
    }
}

/// Merges the label keys into the selectors, with the label values of the pod.
pub(crate) fn apply_label_keys(pod: &mut Value) {
    if !pod.get("spec").is_some_and(has_label_keys) {
        return;
    }
    let labels = pod.at(&["metadata", "labels"]).cloned().unwrap_or_default();
    let Some(spec) = pod.get_mut("spec") else { return };
    if let Some(affinity) = spec.get_mut("affinity") {
        for field in ["podAffinity", "podAntiAffinity"] {
            let Some(pods) = affinity.get_mut(field) else { continue };
            for weighted in crate::kinds::read::list_mut(pods, PREFERRED) {
                if let Some(term) = weighted.get_mut("podAffinityTerm") {
                    apply_to(term, &labels);
                }
            }
            for term in crate::kinds::read::list_mut(pods, REQUIRED) {
                apply_to(term, &labels);
            }
        }
    }
    for constraint in crate::kinds::read::list_mut(spec, "topologySpreadConstraints") {
        apply_to(constraint, &labels);
    }
}

/// `true` if any selector of a spec has label keys; few have.
fn has_label_keys(spec: &Value) -> bool {
    let has = |term: &Value| {
        ["matchLabelKeys", "mismatchLabelKeys"].iter().any(|field| present(term, field).is_some())
    };
    list(spec, "topologySpreadConstraints").iter().any(has)
        || present(spec, "affinity").is_some_and(|affinity| {
            ["podAffinity", "podAntiAffinity"].iter().filter_map(|field| present(affinity, field)).any(
                |pods| {
                    list(pods, REQUIRED).iter().any(has)
                        || list(pods, PREFERRED)
                            .iter()
                            .filter_map(|one| present(one, "podAffinityTerm"))
                            .any(has)
                },
            )
        })
}

fn apply_to(term: &mut Value, labels: &Value) {
    if present(term, "labelSelector").is_none() {
        return;
    }
    let mut added = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for label in texts(term, field) {
            if let Some(value) = labels.get(label).and_then(Value::as_str) {
                let requirement: crate::value::Map = [
                    ("key", Value::from(label)),
                    ("operator", Value::from(operator)),
                    ("values", Value::from(vec![value])),
                ]
                .into_iter()
                .collect();
                added.push(Value::Map(requirement));
            }
        }
    }
    if !added.is_empty() {
        let expressions =
            term.ensure_map("labelSelector").ensure("matchExpressions", || Value::List(Vec::new()));
        if expressions.is_null() {
            *expressions = Value::List(Vec::new());
        }
        if let Some(list) = expressions.as_list_mut() {
            list.extend(added);
        }
    }
}
