//! Node selectors outside of pods.

use super::{label_key, list, text, texts};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::names::{dns, key};
use crate::value::Value;

/// Checks a node selector.
pub(crate) fn node_selector(errors: &mut ErrorList, path: &Path<'_>, selector: &Value) {
    let (terms, path) = (list(selector, "nodeSelectorTerms"), path.child("nodeSelectorTerms"));
    if terms.is_empty() {
        return errors.push(FieldError::required(&path, "must have at least one node selector term"));
    }
    for (i, term) in terms.iter().enumerate() {
        let path = path.index(i);
        let at = path.child("matchExpressions");
        for (i, one) in list(term, "matchExpressions").iter().enumerate() {
            label(errors, &at.index(i), one);
        }
        let at = path.child("matchFields");
        for (i, one) in list(term, "matchFields").iter().enumerate() {
            field(errors, &at.index(i), one);
        }
    }
}

fn refuse_operator(errors: &mut ErrorList, path: &Path<'_>, operator: &str) {
    let value = BadValue::json_string(operator);
    errors.push(FieldError::invalid(&path.child("operator"), value, "not a valid selector operator"));
}

fn label(errors: &mut ErrorList, path: &Path<'_>, requirement: &Value) {
    let (values, at) = (texts(requirement, "values"), path.child("values"));
    match (text(requirement, "operator"), values.len()) {
        ("In" | "NotIn", 0) => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&at, detail));
        }
        ("Exists" | "DoesNotExist", 1..) => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&at, detail));
        }
        ("Gt" | "Lt", 0 | 2..) => {
            let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(FieldError::required(&at, detail));
        }
        ("In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt", _) => {}
        (other, _) => refuse_operator(errors, path, other),
    }
    label_key(errors, &path.child("key"), text(requirement, "key"));
    for (i, value) in values.into_iter().enumerate() {
        errors.push_invalid(&at.index(i), value, key::label_value(value));
    }
}

fn field(errors: &mut ErrorList, path: &Path<'_>, requirement: &Value) {
    let (values, at) = (texts(requirement, "values"), path.child("values"));
    match text(requirement, "operator") {
        "In" | "NotIn" if values.len() == 1 => {}
        "In" | "NotIn" => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(FieldError::required(&at, detail));
        }
        other => refuse_operator(errors, path, other),
    }
    let key = text(requirement, "key");
    if key != "metadata.name" {
        return errors.push(FieldError::invalid(&path.child("key"), key, "not a valid field selector key"));
    }
    for (i, value) in values.into_iter().enumerate() {
        errors.push_invalid(&at.index(i), value, dns::subdomain(value));
    }
}
