//! Cache of compiled rules, by user and namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::RwLock;
use setpoint_api::Identity;

use super::compiled::RuleIndex;
use super::policy::Policy;
use crate::{Attributes, Decision};

/// Cost of all cached rules: one for each entry, and [`SCOPE_COST`] for each user and namespace.
const COST_MAX: usize = 1 << 20;
/// Cost of the compiled rules of a user in a scope, beside their entries.
const SCOPE_COST: usize = 64;
/// Missing roles that a reason names.
const ERRORS_MAX: usize = 64;

/// Compiled rules of a user in the cluster scope or in one namespace.
#[derive(Debug, Default)]
struct Scope {
    index: RuleIndex,
    /// Reasons, by position of the binding.
    sources: Vec<String>,
    /// Errors of roles that do not exist, without duplicates.
    errors: Vec<String>,
    /// Reason if nothing allows the request: the errors of this scope and, for a namespace, of the cluster.
    denial: String,
}

impl Scope {
    fn compile(policy: &Policy, user: &Identity, namespace: &str, cluster_errors: &[String]) -> Scope {
        let mut scope = Scope::default();
        let mut seen = BTreeSet::new();
        for bound in policy.bound(user, namespace) {
            match bound.rules {
                Ok(rules) => {
                    let position = u32::try_from(scope.sources.len()).unwrap_or(u32::MAX);
                    for rule in &*rules {
                        scope.index.add(rule, position);
                    }
                    scope.sources.push(format!("RBAC: allowed by {}", bound.source));
                }
                Err(error) => {
                    if scope.errors.len() < ERRORS_MAX && seen.insert(error.clone()) {
                        scope.errors.push(error);
                    }
                }
            }
        }
        scope.denial = join_errors(cluster_errors.iter().chain(&scope.errors));
        scope
    }

    fn decide(&self, attributes: &Attributes<'_>) -> Option<Decision> {
        let position = self.index.decide(&attributes.request)?;
        Some(Decision::Allowed(self.sources.get(position as usize).cloned().unwrap_or_default()))
    }

    fn cost(&self) -> usize {
        SCOPE_COST + self.index.len() + self.sources.len()
    }
}

/// Reason of a denial with these errors, as upstream joins them.
fn join_errors<'a>(errors: impl Iterator<Item = &'a String>) -> String {
    let mut seen = BTreeSet::new();
    let errors: Vec<&str> = errors.map(String::as_str).filter(|error| seen.insert(*error)).collect();
    match &errors[..] {
        [] => String::new(),
        [one] => format!("RBAC: {one}"),
        several => format!("RBAC: [{}]", several.join(", ")),
    }
}

/// Compiled rules of a user.
#[derive(Debug)]
struct CompiledSubject {
    groups: Vec<String>,
    cluster: Scope,
    namespaces: RwLock<BTreeMap<Box<str>, Arc<Scope>>>,
}

/// Compiled subjects by user name. A user may have several sets of groups.
#[derive(Debug, Default)]
struct Cached {
    subjects: BTreeMap<Box<str>, Vec<Arc<CompiledSubject>>>,
    cost: usize,
}

/// A policy with the compiled rules of the users that have sent requests. All are dropped when they cost too much.
#[derive(Debug, Default)]
pub struct SubjectCache {
    policy: Policy,
    cached: RwLock<Cached>,
}

impl SubjectCache {
    /// Returns an empty cache for a policy.
    #[must_use]
    pub fn new(policy: Policy) -> SubjectCache {
        SubjectCache { policy, cached: RwLock::default() }
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Decides on a request by the rules of its user.
    #[must_use]
    pub fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        let subject = self.subject(attributes.user);
        if let Some(allowed) = subject.cluster.decide(attributes) {
            return allowed;
        }
        let namespace = attributes.request.namespace;
        if namespace.is_empty() || !attributes.request.is_resource {
            return Decision::NoOpinion(subject.cluster.denial.clone());
        }
        let scope = self.scope(&subject, attributes.user, namespace);
        scope.decide(attributes).unwrap_or_else(|| Decision::NoOpinion(scope.denial.clone()))
    }

    fn subject(&self, user: &Identity) -> Arc<CompiledSubject> {
        let find = |cached: &Cached| {
            let same_name = cached.subjects.get(user.user.as_str())?;
            same_name.iter().find(|subject| subject.groups == user.groups).cloned()
        };
        if let Some(subject) = find(&self.cached.read()) {
            return subject;
        }
        let cluster = Scope::compile(&self.policy, user, "", &[]);
        let mut cached = self.cached.write();
        // Another thread may have compiled it meanwhile.
        if let Some(subject) = find(&cached) {
            return subject;
        }
        cached.charge(cluster.cost());
        let (groups, namespaces) = (user.groups.clone(), RwLock::default());
        let subject = Arc::new(CompiledSubject { groups, cluster, namespaces });
        cached.subjects.entry(user.user.as_str().into()).or_default().push(Arc::clone(&subject));
        subject
    }

    fn scope(&self, subject: &CompiledSubject, user: &Identity, namespace: &str) -> Arc<Scope> {
        if let Some(scope) = subject.namespaces.read().get(namespace) {
            return Arc::clone(scope);
        }
        let scope = Arc::new(Scope::compile(&self.policy, user, namespace, &subject.cluster.errors));
        self.cached.write().charge(scope.cost());
        subject.namespaces.write().insert(namespace.into(), Arc::clone(&scope));
        scope
    }

    /// Number of users in the cache.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cached.read().subjects.values().map(Vec::len).sum()
    }

    /// `true` if no user is in the cache.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Cached {
    /// Adds a cost; drops everything if it is too much.
    fn charge(&mut self, cost: usize) {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > COST_MAX {
            self.subjects.clear();
            self.cost = cost;
        }
    }
}
