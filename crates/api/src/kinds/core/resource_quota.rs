//! ResourceQuota: total resource usage of a namespace.

use std::cell::LazyCell;
use std::collections::BTreeSet;

use super::resource_list::{self, amount_of, amounts};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::Rules;
use crate::metadata::texts;
use crate::quote::json_string;
use crate::value::Value;

const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];
const POD_COMPUTE: [&str; 6] =
    ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];

/// Rules of ResourceQuota.
pub struct ResourceQuota;

impl Rules for ResourceQuota {
    fn default(&self, object: &mut Value) {
        for path in [["spec", "hard"], ["status", "hard"], ["status", "used"]] {
            resource_list::round_up(object.at_mut(&path));
        }
    }

    fn has_status(&self) -> bool {
        true
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let spec = Path::root("spec");
        check_amounts(errors, &spec.child("hard"), object.at(&["spec", "hard"]));
        check_scopes(errors, &spec.child("scopes"), object);
        if let Some(selector) = object.at(&["spec", "scopeSelector"]).filter(|value| !value.is_null()) {
            check_selector(errors, &spec.child("scopeSelector"), selector, object);
        }
    }

    fn validate_transition(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let scopes = texts(new.at(&["spec", "scopes"]));
        let old_scopes: BTreeSet<&str> = texts(old.at(&["spec", "scopes"])).into_iter().collect();
        if scopes.iter().copied().collect::<BTreeSet<&str>>() != old_scopes {
            let spec = Path::root("spec");
            let value = BadValue::json_strings(&scopes);
            errors.push(FieldError::invalid(&spec.child("scopes"), value, "field is immutable"));
        }
    }

    fn validate_status(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        let status = Path::root("status");
        for field in ["hard", "used"] {
            check_amounts(errors, &status.child(field), new.at(&["status", field]));
        }
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let hard = new.at(&["spec", "hard"]);
        let mut warnings = Vec::new();
        for name in ["cpu", "memory", "storage", "ephemeral-storage"] {
            let (mut request_name, limit_name) = (format!("requests.{name}"), format!("limits.{name}"));
            let mut request = amount_of(hard, &request_name);
            if request.is_none() && matches!(name, "cpu" | "memory") {
                request = amount_of(hard, name);
                name.clone_into(&mut request_name);
            }
            if let (Some(request), Some(limit)) = (request, amount_of(hard, &limit_name))
                && request > limit
            {
                warnings.push(format!(
                    "ResourceQuota {request_name} ({request}) should be less than {limit_name} ({limit})"
                ));
            }
        }
        warnings
    }
}

fn check_amounts(errors: &mut ErrorList, path: &Path<'_>, list: Option<&Value>) {
    for (name, amount) in amounts(list) {
        resource_list::check_quota_name(errors, &path.key(name), name);
        resource_list::check_amount(errors, &path.key(name), name, amount);
    }
}

/// Number of hard limits that do not apply, for each of [`SCOPES`].
struct InapplicableLimits([usize; SCOPES.len()]);

impl InapplicableLimits {
    fn of(object: &Value) -> InapplicableLimits {
        let names = amounts(object.at(&["spec", "hard"])).map(|(name, _)| name);
        let names: Vec<&str> = names.filter(|name| resource_list::is_standard_quota(name)).collect();
        InapplicableLimits(SCOPES.map(|scope| names.iter().filter(|name| !is_in_scope(scope, name)).count()))
    }

    fn count(&self, scope: &str) -> usize {
        SCOPES.iter().position(|known| *known == scope).map_or(0, |at| self.0[at])
    }
}

fn is_in_scope(scope: &str, name: &str) -> bool {
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => name == "pods" || POD_COMPUTE.contains(&name),
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

fn check_scopes(errors: &mut ErrorList, path: &Path<'_>, object: &Value) {
    let scopes = texts(object.at(&["spec", "scopes"]));
    let misfits = InapplicableLimits::of(object);
    // Every error shows the whole list.
    let shown = LazyCell::new(|| BadValue::json_strings(&scopes));
    let mut push = |detail| {
        errors.push(FieldError::invalid(path, shown.clone(), detail));
        !errors.is_full()
    };
    for scope in &scopes {
        let is_known = SCOPES.contains(scope) || push("unsupported scope");
        if !is_known || !(0..misfits.count(scope)).all(|_| push("unsupported scope applied to resource")) {
            return;
        }
    }
    for _ in 0..count_conflicts(&scopes) {
        push("conflicting scopes");
    }
}

fn count_conflicts(scopes: &[&str]) -> usize {
    let pairs = [["BestEffort", "NotBestEffort"], ["NotTerminating", "Terminating"]];
    pairs.iter().filter(|pair| pair.iter().all(|scope| scopes.contains(scope))).count()
}

fn check_selector(errors: &mut ErrorList, path: &Path<'_>, selector: &Value, object: &Value) {
    let path = path.child("matchExpressions");
    let expressions = selector.get("matchExpressions").and_then(Value::as_list).unwrap_or_default();
    let mut scopes = Vec::new();
    let misfits = InapplicableLimits::of(object);
    let shown = LazyCell::new(|| shown_selector(expressions));
    for expression in expressions {
        if errors.is_full() {
            return;
        }
        let (scope, operator) = (expression.str_at(&["scopeName"]), expression.str_at(&["operator"]));
        let values = texts(expression.get("values"));
        if !SCOPES.contains(&scope) {
            let value = BadValue::json_string(scope);
            errors.push(FieldError::invalid(&path.child("scopeName"), value, "unsupported scope"));
        }
        for _ in 0..misfits.count(scope) {
            let detail = "unsupported scope applied to resource";
            errors.push(FieldError::invalid(&path, shown.clone(), detail));
        }
        if SCOPES.contains(&scope)
            && !matches!(scope, "PriorityClass" | "VolumeAttributesClass")
            && operator != "Exists"
        {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            let value = BadValue::json_string(operator);
            errors.push(FieldError::invalid(&path.child("operator"), value, detail));
        }
        check_operator(errors, &path, operator, &values);
        scopes.push(scope);
    }
    for _ in 0..count_conflicts(&scopes) {
        // As upstream, the error shows the other list of scopes.
        let value = BadValue::json_strings(&texts(object.at(&["spec", "scopes"])));
        errors.push(FieldError::invalid(&path, value, "conflicting scopes"));
    }
}

fn check_operator(errors: &mut ErrorList, path: &Path<'_>, operator: &str, values: &[&str]) {
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.push(FieldError::required(&path.child("values"), detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            errors.push(FieldError::invalid(&path.child("values"), BadValue::json_strings(values), detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            let value = BadValue::json_string(other);
            errors.push(FieldError::invalid(&path.child("operator"), value, "not a valid selector operator"));
        }
    }
}

/// The selector in messages, with the Go names of its fields.
fn shown_selector(expressions: &[Value]) -> BadValue {
    let expressions: Vec<String> = expressions
        .iter()
        .map(|expression| {
            let values = BadValue::json_strings(&texts(expression.get("values")));
            let text = |field: &str| json_string(expression.str_at(&[field]));
            format!(
                r#"{{"ScopeName":{},"Operator":{},"Values":{values}}}"#,
                text("scopeName"),
                text("operator")
            )
        })
        .collect();
    BadValue::Json(format!(r#"{{"MatchExpressions":[{}]}}"#, expressions.join(",")).into())
}
