//! Escalation check: the rules that a user would grant without having them.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::Identity;

use super::compiled::{RuleIndex, Wanted};
use super::rule::{ALL, PolicyRule, QuotedList};

/// Single verbs on single resources, names and paths in all rules of a role that a user without full access may grant.
pub const SUBRULES_MAX: usize = 100_000;

/// Failure to compare rules: they allow too many single verbs on single resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyRules;

/// Returns the parts of the rules that no owned rule covers: with one verb, resource and name, or one verb and path.
///
/// # Errors
/// If the rules have more than [`SUBRULES_MAX`] parts.
pub fn uncovered<'a>(
    owned: impl IntoIterator<Item = &'a PolicyRule>,
    granted: &[PolicyRule],
) -> Result<Vec<PolicyRule>, TooManyRules> {
    let mut index = RuleIndex::default();
    for rule in owned {
        index.add(rule, 0);
    }
    let everything = |name| Wanted::Resource { verb: ALL, group: ALL, resource: ALL, subresource: "", name };
    let has_all =
        index.find(everything(None)).is_some() && index.find(Wanted::Path { verb: ALL, path: ALL }).is_some();
    if has_all {
        return Ok(Vec::new());
    }
    let subrules = granted.iter().map(PolicyRule::subrules).fold(0, usize::saturating_add);
    if subrules > SUBRULES_MAX {
        return Err(TooManyRules);
    }
    let mut missing = Vec::new();
    for rule in granted {
        find_missing(&index, rule, &mut missing);
    }
    Ok(missing)
}

/// Adds the parts of a rule that the index does not cover.
fn find_missing(index: &RuleIndex, rule: &PolicyRule, missing: &mut Vec<PolicyRule>) {
    let names: Vec<Option<&Box<str>>> = match rule.names.len() {
        0 => vec![None],
        _ => rule.names.iter().map(Some).collect(),
    };
    for group in &rule.groups {
        for resource in &rule.resources {
            let subresource = resource.split_once('/').map_or("", |(_, subresource)| subresource);
            for verb in &rule.verbs {
                for name in &names {
                    let name_text = name.map(|name| &**name);
                    let wanted = Wanted::Resource { verb, group, resource, subresource, name: name_text };
                    let part = || PolicyRule {
                        verbs: vec![verb.clone()],
                        groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        names: (*name).cloned().into_iter().collect(),
                        paths: Vec::new(),
                    };
                    if index.find(wanted).is_none() && !index.wide().any(|wide| covers(wide, &wanted)) {
                        missing.push(part());
                    }
                }
            }
        }
    }
    for path in &rule.paths {
        for verb in &rule.verbs {
            let wanted = Wanted::Path { verb, path };
            if index.find(wanted).is_none() && !index.wide().any(|wide| covers(wide, &wanted)) {
                let (verbs, paths) = (vec![verb.clone()], vec![path.clone()]);
                missing.push(PolicyRule { verbs, paths, ..PolicyRule::default() });
            }
        }
    }
}

/// `true` if a rule that is not in the index covers what is wanted.
fn covers(rule: &PolicyRule, wanted: &Wanted<'_>) -> bool {
    let has = |list: &[Box<str>], text: &str| list.iter().any(|item| &**item == ALL || &**item == text);
    match *wanted {
        Wanted::Resource { verb, group, resource, subresource, name } => {
            has(&rule.verbs, verb)
                && has(&rule.groups, group)
                && (has(&rule.resources, resource)
                    || (!subresource.is_empty()
                        && rule.resources.iter().any(|item| item.strip_prefix("*/") == Some(subresource))))
                && (rule.names.is_empty()
                    || name.is_some_and(|name| rule.names.iter().any(|item| &**item == name)))
        }
        Wanted::Path { verb, path } => {
            let covers = |own: &str| {
                *own == *path || (own.ends_with('*') && path.starts_with(own.trim_end_matches('*')))
            };
            has(&rule.verbs, verb) && rule.paths.iter().any(|own| covers(own))
        }
    }
}

/// Message of a 403 for granting rules that the user does not have, as upstream prints it. `errors` are those of roles
/// that could not be resolved.
#[must_use]
pub fn describe(user: &Identity, missing: &[PolicyRule], errors: &[String]) -> String {
    let missing: BTreeSet<String> = compact(missing).iter().map(ToString::to_string).collect();
    let missing: Vec<String> = missing.into_iter().collect();
    let mut message = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        setpoint_api::quote::Quoted(&user.user),
        QuotedList(&user.groups),
        missing.join("\n")
    );
    match errors {
        [] => {}
        [one] => message.push_str(&format!("; resolution errors: [{one}]")),
        several => message.push_str(&format!("; resolution errors: [[{}]]", several.join(", "))),
    }
    message
}

/// Joins parts about the same resource and names into one rule with all their verbs.
fn compact(parts: &[PolicyRule]) -> Vec<PolicyRule> {
    let mut compacted: Vec<PolicyRule> = Vec::new();
    let mut by_resource: BTreeMap<_, usize> = BTreeMap::new();
    for part in parts {
        if part.resources.is_empty() {
            compacted.push(part.clone());
            continue;
        }
        match by_resource.get(&(&part.groups, &part.resources, &part.names)) {
            Some(&at) => compacted[at].verbs.extend(part.verbs.iter().cloned()),
            None => {
                let at: usize = compacted.len();
                by_resource.insert((&part.groups, &part.resources, &part.names), at);
                compacted.push(part.clone());
            }
        }
    }
    compacted
}
