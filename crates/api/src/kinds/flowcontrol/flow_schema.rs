//! FlowSchema: assigns requests to a priority level.

use super::{builtin, check_status};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::check::{self, GoLayout};
use crate::kinds::{ALL_BUT_STATUS, Rules};
use crate::names::dns;
use crate::value::Value;

const PRECEDENCE_DEFAULT: i64 = 1000;
const PRECEDENCE_MAX: i64 = 10_000;
const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

const NAME: GoLayout = GoLayout::Struct(&[("Name", "name", GoLayout::Text)]);
const METHOD: GoLayout = GoLayout::Struct(&[("Type", "type", GoLayout::Text)]);
const SUBJECT: GoLayout = GoLayout::Struct(&[
    ("Kind", "kind", GoLayout::Text),
    ("User", "user", GoLayout::Pointer(&NAME)),
    ("Group", "group", GoLayout::Pointer(&NAME)),
    (
        "ServiceAccount",
        "serviceAccount",
        GoLayout::Pointer(&GoLayout::Struct(&[
            ("Namespace", "namespace", GoLayout::Text),
            ("Name", "name", GoLayout::Text),
        ])),
    ),
]);
const RESOURCE_RULE: GoLayout = GoLayout::Struct(&[
    ("Verbs", "verbs", GoLayout::Plain),
    ("APIGroups", "apiGroups", GoLayout::Plain),
    ("Resources", "resources", GoLayout::Plain),
    ("ClusterScope", "clusterScope", GoLayout::Bool),
    ("Namespaces", "namespaces", GoLayout::Plain),
]);
const NON_RESOURCE_RULE: GoLayout = GoLayout::Struct(&[
    ("Verbs", "verbs", GoLayout::Plain),
    ("NonResourceURLs", "nonResourceURLs", GoLayout::Plain),
]);
const RULES: GoLayout = GoLayout::Struct(&[
    ("Subjects", "subjects", GoLayout::List(&SUBJECT)),
    ("ResourceRules", "resourceRules", GoLayout::List(&RESOURCE_RULE)),
    ("NonResourceRules", "nonResourceRules", GoLayout::List(&NON_RESOURCE_RULE)),
]);
const SPEC: GoLayout = GoLayout::Struct(&[
    ("PriorityLevelConfiguration", "priorityLevelConfiguration", NAME),
    ("MatchingPrecedence", "matchingPrecedence", GoLayout::Number),
    ("DistinguisherMethod", "distinguisherMethod", GoLayout::Pointer(&METHOD)),
    ("Rules", "rules", GoLayout::List(&RULES)),
]);

/// Rules of FlowSchema.
pub struct FlowSchema;

impl Rules for FlowSchema {
    fn default(&self, object: &mut Value) {
        check::set_default_if_empty_with(object.ensure_map("spec"), "matchingPrecedence", || {
            PRECEDENCE_DEFAULT.into()
        });
    }

    fn status_reset_fields(&self) -> &'static [&'static str] {
        ALL_BUT_STATUS
    }

    fn has_status(&self) -> bool {
        true
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let (name, given) = (object.str_at(&["metadata", "name"]), check::field(object, "spec"));
        check_spec(errors, given, name);
        if builtin::is_mandatory(name) && builtin::schema_spec(name).is_some_and(|wanted| wanted != *given) {
            let detail = format!("spec of '{name}' must equal the fixed value");
            errors.push(FieldError::invalid(&Path::root("spec"), check::format_go(given, &SPEC), detail));
        }
        check_status(errors, object);
    }

    fn validate_status(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        check_status(errors, new);
    }
}

fn check_spec(errors: &mut ErrorList, spec: &Value, name: &str) {
    let path = Path::root("spec");
    let (precedence, at) = (check::number(spec, "matchingPrecedence"), path.child("matchingPrecedence"));
    let mut reject = |detail: String| errors.push(FieldError::invalid(&at, precedence, detail));
    if precedence <= 0 {
        reject("must be a positive value".to_owned());
    }
    if precedence > PRECEDENCE_MAX {
        reject(format!("must not be greater than {PRECEDENCE_MAX}"));
    }
    if precedence == 1 && name != "exempt" {
        reject("only the schema named 'exempt' may have matchingPrecedence 1".to_owned());
    }
    let method = check::field(spec, "distinguisherMethod");
    let supported = ["ByNamespace", "ByUser"];
    if !method.is_null() && !supported.contains(&check::text(method, "type")) {
        let at = path.child("distinguisherMethod");
        let value = check::format_go(method, &METHOD);
        errors.push(FieldError::not_supported(&at.child("type"), value, &supported));
    }
    let at = path.child("priorityLevelConfiguration");
    let at = at.child("name");
    match check::text(check::field(spec, "priorityLevelConfiguration"), "name") {
        "" => errors.push(FieldError::required(&at, "must reference a priority level")),
        name => errors.push_invalid(&at, name, dns::subdomain(name)),
    }
    let at = path.child("rules");
    for (i, rule) in check::list(spec, "rules").iter().enumerate() {
        check_rules(errors, &at.index(i), rule);
    }
}

fn check_rules(errors: &mut ErrorList, path: &Path<'_>, rule: &Value) {
    let (subjects, at) = (check::list(rule, "subjects"), path.child("subjects"));
    if subjects.is_empty() {
        errors.push(FieldError::required(&at, "subjects must contain at least one value"));
    }
    for (i, one) in subjects.iter().enumerate() {
        check_subject(errors, &at.index(i), one);
    }
    let (resources, urls) = (check::list(rule, "resourceRules"), check::list(rule, "nonResourceRules"));
    if resources.is_empty() && urls.is_empty() {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(FieldError::required(path, detail));
    }
    let at = path.child("resourceRules");
    for (i, one) in resources.iter().enumerate() {
        check_resource_rule(errors, &at.index(i), one);
    }
    let at = path.child("nonResourceRules");
    for (i, one) in urls.iter().enumerate() {
        check_non_resource_rule(errors, &at.index(i), one);
    }
}

/// Subject kinds with their fields.
const SUBJECTS: [(&str, &str); 3] =
    [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];

fn check_subject(errors: &mut ErrorList, path: &Path<'_>, subject: &Value) {
    let kind = check::text(subject, "kind");
    let Some((_, own)) = SUBJECTS.iter().find(|(known, _)| *known == kind) else {
        return check::check_one_of(errors, &path.child("kind"), kind, &["Group", "ServiceAccount", "User"]);
    };
    let (value, at) = (check::field(subject, own), path.child(own));
    if value.is_null() {
        let detail = format!("{own} is required when subject kind is '{kind}'");
        errors.push(FieldError::required(&at, detail));
    } else if *own == "serviceAccount" {
        check_service_account(errors, &at, value);
    } else if check::text(value, "name").is_empty() {
        errors.push(FieldError::required(&at.child("name"), ""));
    }
    for (kind, other) in SUBJECTS.iter().filter(|(_, name)| name != own) {
        if check::is_set(subject, other) {
            let detail = format!("{other} is forbidden when subject kind is not '{kind}'");
            errors.push(FieldError::forbidden(&path.child(other), detail));
        }
    }
}

fn check_service_account(errors: &mut ErrorList, path: &Path<'_>, account: &Value) {
    match check::text(account, "name") {
        "" => errors.push(FieldError::required(&path.child("name"), "")),
        "*" => {}
        name => errors.push_invalid(&path.child("name"), name, dns::subdomain(name)),
    }
    let at = path.child("namespace");
    match check::text(account, "namespace") {
        "" => errors.push(FieldError::required(&at, "must specify namespace for service account")),
        namespace => errors.push_invalid(&at, namespace, dns::label(namespace)),
    }
}

fn check_verbs(errors: &mut ErrorList, path: &Path<'_>, rule: &Value) {
    let (verbs, path) = (check::texts(rule, "verbs"), path.child("verbs"));
    if verbs.is_empty() {
        errors.push(FieldError::required(&path, "verbs must contain at least one value"));
    } else if verbs.contains(&"*") {
        check_alone(errors, &path, &verbs, "verbs");
    } else if !verbs.iter().all(|verb| VERBS.contains(verb)) {
        errors.push(FieldError::not_supported(&path, check::shown_texts(&verbs), &VERBS));
    }
}

/// Rejects `*` together with other entries.
fn check_alone(errors: &mut ErrorList, path: &Path<'_>, list: &[&str], what: &str) {
    if list.len() > 1 && list.contains(&"*") {
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.push(FieldError::invalid(path, check::shown_texts(list), detail));
    }
}

fn check_non_resource_rule(errors: &mut ErrorList, path: &Path<'_>, rule: &Value) {
    check_verbs(errors, path, rule);
    let (urls, path) = (check::texts(rule, "nonResourceURLs"), path.child("nonResourceURLs"));
    if urls.is_empty() {
        errors.push(FieldError::required(&path, "nonResourceURLs must contain at least one value"));
    } else if urls.contains(&"*") {
        check_alone(errors, &path, &urls, "non-resource URLs");
    } else {
        for (i, url) in urls.into_iter().enumerate() {
            if let Some(fault) = url_fault(url) {
                errors.push(FieldError::invalid(&path.index(i), url, fault));
            }
        }
    }
}

/// Error of a non-resource URL.
fn url_fault(url: &str) -> Option<&'static str> {
    let wildcards = url.matches('*').count();
    match url {
        "" => Some("must not be empty"),
        "/" => None,
        url if !url.starts_with('/') => Some("must start with slash"),
        url if url.contains(' ') => Some("must not contain white-space"),
        url if url.contains("//") => Some("must not contain double slash"),
        url if wildcards > 1 || (wildcards == 1 && !url.ends_with("/*")) => {
            Some("wildcard can only do suffix matching")
        }
        _ => None,
    }
}

fn check_resource_rule(errors: &mut ErrorList, path: &Path<'_>, rule: &Value) {
    check_verbs(errors, path, rule);
    for (name, what, missing) in [
        ("apiGroups", "api groups", "resource rules must supply at least one api group"),
        ("resources", "resources", "resource rules must supply at least one resource"),
    ] {
        let (list, path) = (check::texts(rule, name), path.child(name));
        if list.is_empty() {
            errors.push(FieldError::required(&path, missing));
        }
        check_alone(errors, &path, &list, what);
    }
    let (namespaces, path) = (check::texts(rule, "namespaces"), path.child("namespaces"));
    if namespaces.is_empty() && !check::boolean(rule, "clusterScope") {
        let detail = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.push(FieldError::required(&path, detail));
    } else if namespaces.contains(&"*") {
        check_alone(errors, &path, &namespaces, "namespaces");
    } else {
        for (i, namespace) in namespaces.into_iter().enumerate() {
            let intro = "each member of this list must be '*' or a DNS-1123 label; ";
            let faults = dns::label(namespace).into_iter().map(|fault| format!("{intro}{fault}"));
            let path = path.index(i);
            errors.extend(faults.map(|fault| FieldError::invalid(&path, BadValue::from(namespace), fault)));
        }
    }
}
