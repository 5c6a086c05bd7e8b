//! RBAC authorizer: the policy of a store's roles and bindings.
//!
//! The policy of a snapshot is read once per change of a role or binding, and only changed objects are read again.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;
use setpoint_api::{Identity, Resource, Revision, metadata};
use setpoint_authorization::rbac::{Binding, BoundRules, Policy, PolicyRule, SubjectCache};
use setpoint_authorization::{Attributes, Decision};
use setpoint_store::{Record, Snapshot};

use super::{Answer, Authorizer, PathRule, ResourceRule, UserRules};
use crate::codec;

/// Kinds of roles and bindings.
const TABLES: usize = 4;

/// Resources of roles and bindings: cluster roles, roles, cluster role bindings, role bindings.
static RESOURCES: LazyLock<[Resource; TABLES]> = LazyLock::new(|| {
    ["clusterroles", "roles", "clusterrolebindings", "rolebindings"].map(|plural| {
        Resource::new(&format!("{plural}.rbac.authorization.k8s.io")).expect("a valid resource name")
    })
});

/// Position of the first table of bindings.
const BINDINGS: usize = 2;

/// Compiled policy of one state of the four tables.
#[derive(Debug, Default)]
struct PolicyState {
    /// Revision of the last change of each table.
    changed: [Revision; TABLES],
    /// Revisions of the objects that the policy was read from, by path.
    read: [BTreeMap<Box<str>, Revision>; TABLES],
    subjects: SubjectCache,
}

impl PolicyState {
    /// Reads the tables of a snapshot. Objects that `previous` has in the same revision are not read again.
    fn read(snapshot: &Snapshot, previous: &PolicyState) -> PolicyState {
        let changed = changed(snapshot);
        let (mut read, mut policy) = (previous.read.clone(), previous.subjects.policy().clone());
        for (at, resource) in RESOURCES.iter().enumerate() {
            if changed[at] == previous.changed[at] {
                continue;
            }
            let table = snapshot.table(resource);
            let records = || table.into_iter().flat_map(setpoint_store::Table::iter);
            let known = &mut read[at];
            for record in records() {
                if known.get(record.path()) != Some(&record.revision()) {
                    set(&mut policy, at, record);
                    known.insert(record.path().into(), record.revision());
                }
            }
            let removed = |path: &str| table.is_none_or(|table| table.get(path).is_none());
            let gone: Vec<Box<str>> = match table.map_or(0, setpoint_store::Table::len) == known.len() {
                true => Vec::new(),
                false => known.keys().filter(|path| removed(path)).cloned().collect(),
            };
            for path in gone {
                known.remove(&path);
                remove(&mut policy, at, &path);
            }
        }
        PolicyState { changed, read, subjects: SubjectCache::new(policy) }
    }
}

/// Revision of the last change of each table.
fn changed(snapshot: &Snapshot) -> [Revision; TABLES] {
    let mut changed = [Revision::ZERO; TABLES];
    for (at, resource) in RESOURCES.iter().enumerate() {
        changed[at] = snapshot.table(resource).map_or(Revision::ZERO, setpoint_store::Table::changed);
    }
    changed
}

/// Adds or replaces an object of a table.
fn set(policy: &mut Policy, table: usize, record: &Record) {
    let object = codec::object(record);
    if table < BINDINGS {
        let (namespace, name) = (metadata::namespace(&object), metadata::name(&object));
        policy.set_role(namespace, name, PolicyRule::list(&object));
    } else {
        policy.set_binding(Binding::read(&object));
    }
}

/// Removes an object of a table.
fn remove(policy: &mut Policy, table: usize, path: &str) {
    let (namespace, name) = path.split_once('/').unwrap_or(("", path));
    if table < BINDINGS {
        policy.remove_role(namespace, name);
    } else {
        policy.remove_binding(namespace, name);
    }
}

/// Authorizer by the roles and bindings of the store.
#[derive(Debug, Default)]
pub struct RbacAuthorizer {
    newest: RwLock<Arc<PolicyState>>,
}

impl RbacAuthorizer {
    /// Returns the policy of a snapshot.
    fn state(&self, snapshot: &Snapshot) -> Arc<PolicyState> {
        let changed = changed(snapshot);
        let newest = Arc::clone(&self.newest.read());
        if newest.changed == changed {
            return newest;
        }
        let state = Arc::new(PolicyState::read(snapshot, &newest));
        let mut newest = self.newest.write();
        if newest.changed.iter().max() < changed.iter().max() {
            *newest = Arc::clone(&state);
        }
        state
    }

    /// Returns the rules that bind a user in a namespace, with the errors of missing roles.
    pub(crate) fn bound_rules(
        &self,
        user: &Identity,
        namespace: &str,
        snapshot: &Snapshot,
    ) -> (Vec<PolicyRule>, Vec<String>) {
        let state = self.state(snapshot);
        let (mut all, mut errors) = (Vec::new(), Vec::new());
        for BoundRules { rules, .. } in state.subjects.policy().rules_of(user, namespace) {
            match rules {
                Ok(rules) => all.extend(rules.iter().cloned()),
                Err(error) if errors.contains(&error) => {}
                Err(error) => errors.push(error),
            }
        }
        (all, errors)
    }

    /// Returns the policy of a snapshot.
    pub(crate) fn policy(&self, snapshot: &Snapshot) -> Policy {
        self.state(snapshot).subjects.policy().clone()
    }
}

impl Authorizer for RbacAuthorizer {
    fn name(&self) -> &str {
        "RBAC"
    }

    fn authorize(&self, attributes: &Attributes<'_>, snapshot: &Snapshot) -> Answer {
        Answer::Now(self.decide(attributes, snapshot))
    }

    fn add_rules(&self, user: &Identity, namespace: &str, snapshot: &Snapshot, rules: &mut UserRules) {
        let (bound, errors) = self.bound_rules(user, namespace, snapshot);
        let texts = |list: &[Box<str>]| list.iter().map(|text| text.to_string()).collect();
        for rule in bound {
            if !rule.resources.is_empty() {
                rules.resources.push(ResourceRule {
                    verbs: texts(&rule.verbs),
                    groups: texts(&rule.groups),
                    resources: texts(&rule.resources),
                    names: texts(&rule.names),
                });
            }
            if !rule.paths.is_empty() {
                rules.paths.push(PathRule { verbs: texts(&rule.verbs), paths: texts(&rule.paths) });
            }
        }
        match &errors[..] {
            [] => {}
            [one] => rules.errors.push(one.clone()),
            several => rules.errors.push(format!("[{}]", several.join(", "))),
        }
    }
}

impl RbacAuthorizer {
    /// Decides on a request.
    #[must_use]
    pub fn decide(&self, attributes: &Attributes<'_>, snapshot: &Snapshot) -> Decision {
        self.state(snapshot).subjects.decide(attributes)
    }
}
