//! Audit policies: ordered rules, of which the first that matches a request decides its level.

mod read;
mod strict;
#[cfg(test)]
mod tests;
mod validate;

use setpoint_api::field_error::ErrorList;
use setpoint_api::{Identity, RequestInfo};

use crate::level::{Level, StageSet};

/// Audit policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Rules. The first that matches a request decides.
    pub rules: Vec<Rule>,
    /// Stages without events, in addition to those of the rule.
    pub omit_stages: StageSet,
    /// Default of the rules.
    pub omit_managed_fields: bool,
}

/// Rule of a policy: it matches a request that each of its nonempty fields matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Level of the requests that match.
    pub level: Level,
    /// User names.
    pub users: Vec<Box<str>>,
    /// Groups, of which the user is in one.
    pub user_groups: Vec<Box<str>>,
    /// Verbs.
    pub verbs: Vec<Box<str>>,
    /// Resources.
    pub resources: Vec<GroupResources>,
    /// Namespaces; the empty one is that of cluster-scoped objects.
    pub namespaces: Vec<Box<str>>,
    /// Paths of other requests; a trailing `*` matches any rest.
    pub non_resource_urls: Vec<Box<str>>,
    /// Stages without events.
    pub omit_stages: StageSet,
    /// `true` if managed fields are removed from objects; `None` for the default of the policy.
    pub omit_managed_fields: Option<bool>,
}

/// Resources of an API group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupResources {
    /// API group: empty for the core group, `*` for all.
    pub group: Box<str>,
    /// Resources: `pods`, `pods/log`, `pods/*`, `*/scale` or `*`; none for all.
    pub resources: Vec<Box<str>>,
    /// Names of objects; none for all.
    pub resource_names: Vec<Box<str>>,
}

/// Decision of a policy on a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditDecision {
    /// Level.
    pub level: Level,
    /// Stages without events.
    pub omit_stages: StageSet,
    /// `true` if managed fields are removed from objects.
    pub omit_managed_fields: bool,
}

/// Rejection of a policy file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// The file is not a policy.
    #[error("failed decoding: {0}")]
    Malformed(String),
    /// Fields are invalid.
    #[error("{0}")]
    Invalid(ErrorList),
    /// The policy has no rules.
    #[error("loaded illegal policy with 0 rules")]
    NoRules,
}

impl Policy {
    /// Reads and validates a policy file, YAML or JSON. Unknown and repeated fields are rejected; upstream only logs
    /// them.
    ///
    /// # Errors
    /// If the file is malformed or invalid.
    pub fn read(bytes: &[u8]) -> Result<Policy, PolicyError> {
        let decoded = read::decode(bytes).map_err(PolicyError::Malformed)?;
        let mut errors = ErrorList::new();
        let policy = validate::policy(decoded, &mut errors);
        if !errors.is_empty() {
            return Err(PolicyError::Invalid(errors));
        }
        if policy.rules.is_empty() {
            return Err(PolicyError::NoRules);
        }
        Ok(policy)
    }

    /// Decides on a request. `user` is `None` if it is not authenticated. Without a matching rule the level is None.
    #[must_use]
    pub fn decide(&self, user: Option<&Identity>, request: &RequestInfo<'_>) -> AuditDecision {
        match self.rules.iter().find(|rule| rule.matches(user, request)) {
            Some(rule) => AuditDecision {
                level: rule.level,
                omit_stages: self.omit_stages.union(rule.omit_stages),
                omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
            },
            None => AuditDecision {
                level: Level::None,
                omit_stages: self.omit_stages,
                omit_managed_fields: self.omit_managed_fields,
            },
        }
    }
}

impl Rule {
    fn matches(&self, user: Option<&Identity>, request: &RequestInfo<'_>) -> bool {
        let is_user = |user: &Identity| contains(&self.users, &user.user);
        if !self.users.is_empty() && !user.is_some_and(is_user) {
            return false;
        }
        let in_group = |user: &Identity| user.groups.iter().any(|group| contains(&self.user_groups, group));
        if !self.user_groups.is_empty() && !user.is_some_and(in_group) {
            return false;
        }
        if !self.verbs.is_empty() && !contains(&self.verbs, request.verb) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return self.matches_resource(request);
        }
        self.non_resource_urls.is_empty() || self.matches_path(request)
    }

    fn matches_path(&self, request: &RequestInfo<'_>) -> bool {
        let matches = |pattern: &str| {
            let prefix = pattern.ends_with('*').then(|| pattern.trim_end_matches('*'));
            pattern == request.path || prefix.is_some_and(|prefix| request.path.starts_with(prefix))
        };
        !request.is_resource && self.non_resource_urls.iter().any(|pattern| matches(pattern))
    }

    fn matches_resource(&self, request: &RequestInfo<'_>) -> bool {
        if !request.is_resource {
            return false;
        }
        if !self.namespaces.is_empty() && !contains(&self.namespaces, request.namespace) {
            return false;
        }
        self.resources.is_empty() || self.resources.iter().any(|resources| resources.matches(request))
    }
}

impl GroupResources {
    fn matches(&self, request: &RequestInfo<'_>) -> bool {
        if *self.group != *request.group && &*self.group != "*" {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        let is_named = self.resource_names.is_empty() || contains(&self.resource_names, request.name);
        is_named && self.resources.iter().any(|pattern| matches_pattern(pattern, request))
    }
}

/// `true` if a pattern such as `pods`, `pods/log`, `pods/*`, `*/log` or `*` matches the resource of a request. As
/// upstream, `pods/*` matches `pods` too.
fn matches_pattern(pattern: &str, request: &RequestInfo<'_>) -> bool {
    let (resource, subresource) = (request.resource, request.subresource);
    if pattern == "*" {
        return true;
    }
    match pattern.split_once('/') {
        None => subresource.is_empty() && pattern == resource,
        Some((first, rest)) => {
            let is_exact = !subresource.is_empty() && first == resource && rest == subresource;
            let is_any_resource = first == "*" && !subresource.is_empty() && rest == subresource;
            let is_any_subresource = pattern.strip_suffix("/*") == Some(resource);
            is_exact || is_any_resource || is_any_subresource
        }
    }
}

fn contains(list: &[Box<str>], text: &str) -> bool {
    list.iter().any(|one| **one == *text)
}
