//! Validation of policies, with upstream's texts.

use setpoint_api::field_error::{BadValue, ErrorList, FieldError, Path};
use setpoint_api::names::dns;

use super::read::{DecodedPolicy, DecodedRule};
use super::{GroupResources, Policy, Rule};
use crate::level::{Level, Stage, StageSet};

/// Validates a policy.
pub(super) fn policy(decoded: DecodedPolicy, errors: &mut ErrorList) -> Policy {
    let omit_stages = stages(&decoded.omit_stages, &Path::root("omitStages"), errors);
    let list = Path::root("rules");
    let rules = decoded.rules.into_iter().enumerate();
    let rules = rules.map(|(index, decoded)| rule(decoded, &list.index(index), errors)).collect();
    Policy { rules, omit_stages, omit_managed_fields: decoded.omit_managed_fields }
}

fn rule(decoded: DecodedRule, path: &Path<'_>, errors: &mut ErrorList) -> Rule {
    let level = level(&decoded.level, &path.child("level"), errors);
    let at = path.child("nonResourceURLs");
    check_urls(&decoded.non_resource_urls, &at, errors);
    check_resources(&decoded.resources, &path.child("resources"), errors);
    let omit_stages = stages(&decoded.omit_stages, &path.child("omitStages"), errors);
    let has_resources = !decoded.resources.is_empty() || !decoded.namespaces.is_empty();
    if !decoded.non_resource_urls.is_empty() && has_resources {
        let detail = "rules cannot apply to both regular resources and non-resource URLs";
        errors.push(FieldError::invalid(&at, BadValue::json_strings(&decoded.non_resource_urls), detail));
    }
    Rule {
        level,
        omit_stages,
        users: decoded.users,
        user_groups: decoded.user_groups,
        verbs: decoded.verbs,
        resources: decoded.resources,
        namespaces: decoded.namespaces,
        non_resource_urls: decoded.non_resource_urls,
        omit_managed_fields: decoded.omit_managed_fields,
    }
}

fn level(text: &str, path: &Path<'_>, errors: &mut ErrorList) -> Level {
    let level = Level::from_name(text);
    if text.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if level.is_none() {
        errors.push(FieldError::not_supported(path, text, &Level::ALL.map(Level::as_str)));
    }
    level.unwrap_or_default()
}

fn check_urls(urls: &[Box<str>], path: &Path<'_>, errors: &mut ErrorList) {
    for (index, url) in urls.iter().enumerate().filter(|(_, url)| &***url != "*") {
        let at = path.index(index);
        if !url.starts_with('/') {
            let detail = "non-resource URL rules must begin with a '/' character";
            errors.push(FieldError::invalid(&at, &**url, detail));
        }
        if url.char_indices().any(|(position, c)| c == '*' && position + 1 < url.len()) {
            let detail = "non-resource URL wildcards '*' must be the final character of the rule";
            errors.push(FieldError::invalid(&at, &**url, detail));
        }
    }
}

fn check_resources(resources: &[GroupResources], path: &Path<'_>, errors: &mut ErrorList) {
    for GroupResources { group, resources, resource_names } in resources {
        // The core group is empty.
        if !group.is_empty() && &**group != "*" {
            let faults: Vec<_> = dns::subdomain(group).into_iter().collect();
            if !faults.is_empty() {
                errors.push(FieldError::invalid(&path.child("group"), &**group, faults.join(",")));
            }
        }
        if !resource_names.is_empty() && resources.is_empty() {
            let detail = "using resourceNames requires at least one resource";
            errors.push(FieldError::invalid(
                &path.child("resourceNames"),
                BadValue::json_strings(resource_names),
                detail,
            ));
        }
    }
}

fn stages(names: &[Box<str>], path: &Path<'_>, errors: &mut ErrorList) -> StageSet {
    let mut set = StageSet::default();
    for (index, name) in names.iter().enumerate() {
        match Stage::from_name(name) {
            Some(stage) => set.insert(stage),
            None => {
                let detail = format!("allowed stages are {}", Stage::ALL.map(Stage::as_str).join(","));
                errors.push(FieldError::invalid(&path.index(index), &**name, detail));
            }
        }
    }
    set
}
