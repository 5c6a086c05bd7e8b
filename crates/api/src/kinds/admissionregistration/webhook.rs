//! ValidatingWebhookConfiguration and MutatingWebhookConfiguration.

use std::collections::BTreeSet;

use super::{
    FAILURE_POLICIES, MATCH_POLICIES, REINVOCATION_POLICIES, default_match, default_scopes, match_resources,
    reject_static_name, rule, static_name_warning, url,
};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::{Rules, check};
use crate::names::dns;
use crate::value::Value;

const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const NO_SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const SIDE_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];
/// Resources for which webhooks are never called, because a webhook could lock out all clients.
const NEVER_CALLED: [(&str, &str); 6] = [
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

/// Rules of both webhook configuration kinds.
pub struct Webhooks {
    /// `true` for MutatingWebhookConfiguration.
    pub mutating: bool,
}

/// Checks that apply to new webhooks only.
#[derive(Clone, Copy)]
struct Strictness {
    no_side_effects: bool,
    known_version: bool,
    unique_names: bool,
    match_conditions: bool,
    label_values: bool,
}

impl Strictness {
    const NEW: Strictness = Strictness {
        no_side_effects: true,
        known_version: true,
        unique_names: true,
        match_conditions: true,
        label_values: true,
    };

    /// Strictness of an update: checks that the old webhooks fail are skipped.
    fn of_update(new: &[Value], old: &[Value]) -> Strictness {
        let has_no_effects = |hook: &Value| NO_SIDE_EFFECTS.contains(&check::text(hook, "sideEffects"));
        let versions = |hook| check::texts(hook, "admissionReviewVersions");
        let is_known = |hook| {
            let versions = versions(hook);
            versions.is_empty() || versions.iter().any(|version| REVIEW_VERSIONS.contains(version))
        };
        let names: BTreeSet<&str> = old.iter().map(|hook| check::text(hook, "name")).collect();
        let conditions = |hooks: &[Value]| -> Vec<Value> {
            hooks.iter().map(|hook| check::field(hook, "matchConditions").clone()).collect()
        };
        let selectors = ["namespaceSelector", "objectSelector"];
        let bad_selector =
            |hook: &Value| selectors.iter().any(|name| check::is_invalid_selector(check::field(hook, name)));
        Strictness {
            no_side_effects: old.iter().all(has_no_effects),
            known_version: old.iter().all(is_known),
            unique_names: names.len() == old.len(),
            match_conditions: conditions(new) != conditions(old),
            label_values: !old.iter().any(bad_selector),
        }
    }
}

impl Rules for Webhooks {
    fn default(&self, object: &mut Value) {
        let Some(hooks) = object.get_mut("webhooks").and_then(Value::as_list_mut) else { return };
        for hook in hooks {
            default_scopes(hook, &["rules"]);
            if let Some(service) = hook.at_mut(&["clientConfig", "service"]).and_then(Value::as_map_mut) {
                check::set_default_with(service, "port", || 443.into());
            }
            let hook = hook.make_map();
            check::set_default_with(hook, "failurePolicy", || "Fail".into());
            default_match(hook);
            check::set_default_with(hook, "timeoutSeconds", || 10.into());
            if self.mutating {
                check::set_default_with(hook, "reinvocationPolicy", || "Never".into());
            }
        }
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn has_new_generation(&self, new: &Value, old: &Value) -> bool {
        !check::is_equivalent(check::field(new, "webhooks"), check::field(old, "webhooks"))
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        self.check_hooks(errors, check::list(object, "webhooks"), Strictness::NEW);
        reject_static_name(errors, object);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let (new, old) = (check::list(new, "webhooks"), check::list(old, "webhooks"));
        self.check_hooks(errors, new, Strictness::of_update(new, old));
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings: Vec<String> = static_name_warning(new, old).into_iter().collect();
        for (i, hook) in check::list(new, "webhooks").iter().enumerate() {
            for (j, rule) in check::list(hook, "rules").iter().enumerate() {
                for (group, resource) in resources_never_called(rule) {
                    warnings.push(format!(
                        "webhooks[{i}].rules[{j}]: {resource}.{group} is excluded from admission webhooks; this rule will have no effect"
                    ));
                }
            }
        }
        warnings
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

/// Resources of a rule for which webhooks are never called.
fn resources_never_called(rule: &Value) -> Vec<(&str, &str)> {
    let (groups, resources) = (check::texts(rule, "apiGroups"), check::texts(rule, "resources"));
    let mut found = Vec::new();
    if groups.contains(&"*") || resources.contains(&"*") {
        return found;
    }
    for group in groups {
        for resource in &resources {
            let one = (group, *resource);
            if NEVER_CALLED.contains(&one) && !found.contains(&one) {
                found.push(one);
            }
        }
    }
    found
}

impl Webhooks {
    fn check_hooks(&self, errors: &mut ErrorList, hooks: &[Value], strictness: Strictness) {
        let path = Path::root("webhooks");
        let mut names = BTreeSet::new();
        for (i, hook) in hooks.iter().enumerate() {
            let path = path.index(i);
            self.check_hook(errors, &path, hook, strictness);
            check_review_versions(errors, &path, hook, strictness);
            let name = check::text(hook, "name");
            if strictness.unique_names && !name.is_empty() && !names.insert(name) {
                errors.push(FieldError::duplicate(&path.child("name"), name));
            }
        }
    }

    fn check_hook(&self, errors: &mut ErrorList, path: &Path<'_>, hook: &Value, strictness: Strictness) {
        dns::fully_qualified_name(errors, &path.child("name"), check::text(hook, "name"));
        let at = path.child("rules");
        for (i, one) in check::list(hook, "rules").iter().enumerate() {
            rule::check_with_operations(errors, &at.index(i), one);
        }
        for (name, supported) in [("failurePolicy", &FAILURE_POLICIES), ("matchPolicy", &MATCH_POLICIES)] {
            if let Some(policy) = check::field(hook, name).as_str() {
                check::check_one_of(errors, &path.child(name), policy, supported);
            }
        }
        check_side_effects(errors, &path.child("sideEffects"), hook, strictness);
        let seconds = check::field(hook, "timeoutSeconds").as_i64();
        if let Some(seconds) = seconds.filter(|seconds| !(1..=30).contains(seconds)) {
            let detail = "the timeout value must be between 1 and 30 seconds";
            errors.push(FieldError::invalid(&path.child("timeoutSeconds"), seconds, detail));
        }
        for name in ["namespaceSelector", "objectSelector"] {
            let selector = check::field(hook, name);
            check::check_selector(errors, &path.child(name), selector, !strictness.label_values);
        }
        if let Some(policy) = check::field(hook, "reinvocationPolicy").as_str().filter(|_| self.mutating) {
            check::check_one_of(errors, &path.child("reinvocationPolicy"), policy, &REINVOCATION_POLICIES);
        }
        url::check_client_config(errors, &path.child("clientConfig"), check::field(hook, "clientConfig"));
        if strictness.match_conditions {
            let conditions = check::list(hook, "matchConditions");
            match_resources::check_conditions(errors, &path.child("matchConditions"), conditions);
        }
    }
}

fn check_side_effects(errors: &mut ErrorList, path: &Path<'_>, hook: &Value, strictness: Strictness) {
    let allowed: &[&str] = if strictness.no_side_effects { &NO_SIDE_EFFECTS } else { &SIDE_EFFECTS };
    match check::field(hook, "sideEffects").as_str() {
        None => {
            let detail = format!("must specify one of {}", allowed.join(", "));
            errors.push(FieldError::required(path, detail));
        }
        Some(effects) => check::check_one_of(errors, path, effects, allowed),
    }
}

fn check_review_versions(errors: &mut ErrorList, path: &Path<'_>, hook: &Value, strictness: Strictness) {
    let (versions, path) =
        (check::texts(hook, "admissionReviewVersions"), path.child("admissionReviewVersions"));
    if versions.is_empty() {
        let detail = format!("must specify one of {}", REVIEW_VERSIONS.join(", "));
        return errors.push(FieldError::required(&path, detail));
    }
    let mut seen = BTreeSet::new();
    for (i, version) in versions.iter().enumerate() {
        if seen.insert(version) {
            errors.push_invalid(&path.index(i), version, dns::label_1035(version));
        } else {
            errors.push(FieldError::invalid(&path.index(i), *version, "duplicate version"));
        }
    }
    if strictness.known_version && !versions.iter().any(|version| REVIEW_VERSIONS.contains(version)) {
        let detail = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.push(FieldError::invalid(&path, check::shown_texts(&versions), detail));
    }
}
