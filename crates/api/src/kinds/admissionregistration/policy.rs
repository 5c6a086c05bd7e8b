//! ValidatingAdmissionPolicy and MutatingAdmissionPolicy.

use std::collections::BTreeSet;

use super::{
    FAILURE_POLICIES, REINVOCATION_POLICIES, default_match, default_scopes, match_resources,
    reject_static_name, static_name_warning,
};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::check::{self, GoLayout};
use crate::kinds::{ALL_BUT_STATUS, Rules};
use crate::names::dns;
use crate::value::Value;

const ANNOTATIONS_MAX: usize = 20;
const ANNOTATION_BYTES_MAX: usize = 5 << 10;
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
/// Reserved words of CEL.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

const ANNOTATION: GoLayout = GoLayout::Struct(&[
    ("Key", "key", GoLayout::Text),
    ("ValueExpression", "valueExpression", GoLayout::Text),
]);

/// Rules of both policy kinds. Expressions are not compiled.
pub struct Policy {
    /// `true` for MutatingAdmissionPolicy.
    pub mutating: bool,
}

impl Rules for Policy {
    fn default(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec").filter(|spec| !spec.is_null()) else { return };
        if let Some(constraints) = spec.get_mut("matchConstraints").filter(|value| !value.is_null()) {
            default_scopes(constraints, &["resourceRules"]);
            default_scopes(constraints, &["excludeResourceRules"]);
            default_match(constraints.make_map());
        }
        check::set_default_with(spec.make_map(), "failurePolicy", || "Fail".into());
    }

    fn status_reset_fields(&self) -> &'static [&'static str] {
        ALL_BUT_STATUS
    }

    fn has_status(&self) -> bool {
        !self.mutating
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        self.check_spec(errors, object, true);
        reject_static_name(errors, object);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let same = |name| {
            let part = |object| check::field(check::field(object, "spec"), name);
            check::is_equivalent(part(new), part(old))
        };
        self.check_spec(errors, new, !(same("paramKind") && same("matchConditions")));
    }

    fn validate_status(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        let (status, path) = (check::field(new, "status"), Path::root("status"));
        let at = path.child("typeChecking");
        let at = at.child("expressionWarnings");
        let warnings = check::list(check::field(status, "typeChecking"), "expressionWarnings");
        for (i, warning) in warnings.iter().enumerate() {
            for name in ["warning", "fieldRef"] {
                if check::text(warning, name).trim().is_empty() {
                    errors.push(FieldError::required(&at.index(i).child(name), ""));
                }
            }
        }
        check::check_conditions(errors, &path, status, "conditions");
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        static_name_warning(new, old).into_iter().collect()
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

impl Policy {
    fn check_spec(&self, errors: &mut ErrorList, object: &Value, check_conditions: bool) {
        let (spec, path) = (check::field(object, "spec"), Path::root("spec"));
        match check::field(spec, "failurePolicy").as_str() {
            None => errors.push(FieldError::required(&path.child("failurePolicy"), "")),
            Some(policy) => {
                check::check_one_of(errors, &path.child("failurePolicy"), policy, &FAILURE_POLICIES)
            }
        }
        if check::is_set(spec, "paramKind") {
            check_param_kind(errors, &path.child("paramKind"), check::field(spec, "paramKind"));
        }
        let (constraints, at) = (check::field(spec, "matchConstraints"), path.child("matchConstraints"));
        if constraints.is_null() {
            errors.push(FieldError::required(&at, ""));
        } else {
            match_resources::check_resources(errors, &at, constraints);
            if check::list(constraints, "resourceRules").is_empty() {
                errors.push(FieldError::required(&at.child("resourceRules"), ""));
            }
            if self.mutating {
                match_resources::check_mutable(errors, &at, constraints);
            }
        }
        if check_conditions {
            let conditions = check::list(spec, "matchConditions");
            match_resources::check_conditions(errors, &path.child("matchConditions"), conditions);
        }
        let at = path.child("variables");
        for (i, one) in check::list(spec, "variables").iter().enumerate() {
            check_variable(errors, &at.index(i), one);
        }
        if self.mutating {
            check_mutations(errors, &path, spec);
        } else {
            check_validations(errors, &path, spec, object.str_at(&["metadata", "name"]));
        }
    }
}

fn check_param_kind(errors: &mut ErrorList, path: &Path<'_>, param: &Value) {
    let (version, at) = (check::text(param, "apiVersion"), path.child("apiVersion"));
    let mut joined = |path: &Path<'_>, value: &str, faults: crate::names::Faults, intro: &str| {
        if !faults.is_empty() {
            errors.push(FieldError::invalid(path, value, format!("{intro}{}", faults.join(","))));
        }
    };
    match version.matches('/').count() {
        _ if version.is_empty() => errors.push(FieldError::required(&at, "")),
        0 | 1 => {
            let (group, number) = version.split_once('/').unwrap_or(("", version));
            if !group.is_empty() {
                joined(&at, group, dns::subdomain(group), "");
            }
            if number.is_empty() {
                errors.push(FieldError::invalid(&at, version, "version must be specified"));
            } else {
                joined(&at, number, dns::label_1035(number), "");
            }
        }
        _ => {
            let detail = format!("unexpected GroupVersion string: {version}");
            errors.push(FieldError::invalid(&at, version, detail));
        }
    }
    let (kind, at) = (check::text(param, "kind"), path.child("kind"));
    if kind.is_empty() {
        return errors.push(FieldError::required(&at, ""));
    }
    let faults = dns::label_1035(&kind.to_lowercase());
    if !faults.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", faults.join(","));
        errors.push(FieldError::invalid(&at, kind, detail));
    }
}

fn check_variable(errors: &mut ErrorList, path: &Path<'_>, variable: &Value) {
    let name = check::text(variable, "name");
    if name.trim().is_empty() {
        errors.push(FieldError::required(&path.child("name"), "name is not specified"));
    } else if !is_identifier(name) {
        errors.push(FieldError::invalid(&path.child("name"), name, "must be a valid CEL identifier"));
    }
    if check::text(variable, "expression").trim().is_empty() {
        errors.push(FieldError::required(&path.child("expression"), "expression is not specified"));
    }
}

fn is_identifier(name: &str) -> bool {
    let word = |b: u8| b == b'_' || b.is_ascii_alphanumeric();
    name.bytes().all(word) && !name.starts_with(|c: char| c.is_ascii_digit()) && !RESERVED.contains(&name)
}

fn check_validations(errors: &mut ErrorList, path: &Path<'_>, spec: &Value, name: &str) {
    let (validations, annotations) =
        (check::list(spec, "validations"), check::list(spec, "auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        for name in ["validations", "auditAnnotations"] {
            errors.push(FieldError::required(&path.child(name), detail));
        }
        return;
    }
    let at = path.child("validations");
    for (i, one) in validations.iter().enumerate() {
        check_validation(errors, &at.index(i), one);
    }
    let at = path.child("auditAnnotations");
    if annotations.len() > ANNOTATIONS_MAX {
        let value = check::format_go(check::field(spec, "auditAnnotations"), &GoLayout::List(&ANNOTATION));
        let detail = format!("must not have more than {ANNOTATIONS_MAX} auditAnnotations");
        errors.push(FieldError::invalid(&at, value, detail));
    }
    let mut keys = BTreeSet::new();
    for (i, one) in annotations.iter().enumerate() {
        let path = at.index(i);
        check_annotation(errors, &path, one, name);
        let key = check::text(one, "key");
        if !keys.insert(key) {
            errors.push(FieldError::duplicate(&path.child("key"), key));
        }
    }
}

fn check_validation(errors: &mut ErrorList, path: &Path<'_>, validation: &Value) {
    if check::text(validation, "expression").trim().is_empty() {
        errors.push(FieldError::required(&path.child("expression"), "expression is not specified"));
    }
    let blank = |text: &str| !text.is_empty() && text.trim().is_empty();
    let expression = check::text(validation, "messageExpression");
    if blank(expression) {
        let detail = "must be non-empty if specified";
        errors.push(FieldError::invalid(&path.child("messageExpression"), expression, detail));
    }
    let (message, at) = (check::text(validation, "message"), path.child("message"));
    if blank(message) {
        errors.push(FieldError::invalid(&at, message, "must be non-empty if specified"));
    } else if message.trim().contains(['\n', '\r']) {
        errors.push(FieldError::invalid(&at, message, "must not contain line breaks"));
    }
    if let Some(reason) = check::field(validation, "reason").as_str() {
        check::check_one_of(errors, &path.child("reason"), reason, &REASONS);
    }
}

fn check_annotation(errors: &mut ErrorList, path: &Path<'_>, annotation: &Value, name: &str) {
    let (key, at) = (check::text(annotation, "key"), path.child("key"));
    if name.is_empty() {
        errors.push(FieldError::invalid(&at, key, "requires metadata.name be non-empty"));
    } else {
        check::check_label_key(errors, &at, &format!("{name}/{key}"));
    }
    let (expression, at) = (check::text(annotation, "valueExpression").trim(), path.child("valueExpression"));
    if expression.is_empty() {
        errors.push(FieldError::required(&at, "valueExpression is not specified"));
    } else if expression.len() > ANNOTATION_BYTES_MAX {
        let detail = format!("must not exceed {ANNOTATION_BYTES_MAX} bytes in length");
        errors.push(FieldError::required(&at, detail));
    }
}

fn check_mutations(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let (mutations, at) = (check::list(spec, "mutations"), path.child("mutations"));
    if mutations.is_empty() {
        errors.push(FieldError::required(&at, "mutations must contain at least one item"));
    }
    for (i, one) in mutations.iter().enumerate() {
        check_mutation(errors, &at.index(i), one);
    }
    let at = path.child("reinvocationPolicy");
    match check::text(spec, "reinvocationPolicy") {
        "" => errors.push(FieldError::required(&at, "")),
        policy => check::check_one_of(errors, &at, policy, &REINVOCATION_POLICIES),
    }
}

fn check_mutation(errors: &mut ErrorList, path: &Path<'_>, mutation: &Value) {
    let kind = check::text(mutation, "patchType");
    let (own, other) = match kind {
        "" => return errors.push(FieldError::required(&path.child("patchType"), "")),
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        kind => {
            let supported = ["ApplyConfiguration", "JSONPatch"];
            return check::check_one_of(errors, &path.child("patchType"), kind, &supported);
        }
    };
    let (patch, at) = (check::field(mutation, own), path.child(own));
    if patch.is_null() {
        let detail = format!("must be specified when patchType is {kind}");
        errors.push(FieldError::required(&at, detail));
    } else if check::text(patch, "expression").trim().is_empty() {
        errors.push(FieldError::required(&at.child("expression"), ""));
    }
    if check::is_set(mutation, other) {
        let detail = format!("must not be specified when patchType is {kind}");
        let value = BadValue::from(format!("{{{other}}}"));
        errors.push(FieldError::invalid(&path.child(other), value, detail));
    }
}
