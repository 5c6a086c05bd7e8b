//! RBAC authorizer: the policy of a store's roles and bindings.
//!
//! The policy is read from the tables once, and follows cursors from then on: a write of a role or binding costs the next
//! request one decoded object, however many there are. A decision is made by a state at least as new as the snapshot of
//! the request. An authorizer without a store, for tests and tools, reads the tables of each snapshot.

use std::fmt;
use std::sync::{Arc, LazyLock};

use parking_lot::{Mutex, RwLock};
use setpoint_api::{Identity, Resource, Revision, metadata};
use setpoint_authorization::rbac::{Binding, BoundRules, Policy, PolicyRule, SubjectCache};
use setpoint_authorization::{Attributes, Decision};
use setpoint_store::{Cursor, Record, Snapshot, Store, Table, WatchFilter};

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
    subjects: SubjectCache,
    /// Objects that were read for this state and those before it.
    objects_read: u64,
}

impl PolicyState {
    /// Reads the tables of a snapshot.
    fn read(snapshot: &Snapshot) -> PolicyState {
        let mut state = PolicyState::default();
        let mut policy = Policy::default();
        for (at, resource) in RESOURCES.iter().enumerate() {
            state.read_table(&mut policy, at, snapshot.table(resource));
        }
        PolicyState { subjects: SubjectCache::new(policy), ..state }
    }

    /// Reads the current tables of a store. Returns the cursors of later changes.
    fn open(store: &Store) -> (PolicyState, Vec<Cursor>) {
        let mut state = PolicyState::default();
        let mut policy = Policy::default();
        let cursors = RESOURCES.iter().enumerate().map(|(at, resource)| {
            let (snapshot, cursor) = store.list_and_watch(resource, WatchFilter::default());
            state.read_table(&mut policy, at, snapshot.table(resource));
            cursor
        });
        let cursors = cursors.collect();
        (PolicyState { subjects: SubjectCache::new(policy), ..state }, cursors)
    }

    fn read_table(&mut self, policy: &mut Policy, at: usize, table: Option<&Table>) {
        for record in table.into_iter().flat_map(Table::iter) {
            set(policy, at, record);
            self.objects_read += 1;
        }
        self.changed[at] = table.map_or(Revision::ZERO, Table::changed);
    }

    /// Returns the state with the changes since; `None` if the store has dropped some.
    fn advance(&self, cursors: &mut [Cursor]) -> Option<PolicyState> {
        let (mut changed, mut policy) = (self.changed, self.subjects.policy().clone());
        let mut objects_read = self.objects_read;
        for (at, cursor) in cursors.iter_mut().enumerate() {
            while let Some(event) = cursor.try_next().ok()? {
                if event.after.is_tombstone() {
                    remove(&mut policy, at, event.after.path());
                } else {
                    set(&mut policy, at, &event.after);
                }
                objects_read += 1;
                changed[at] = changed[at].max(event.revision());
            }
        }
        Some(PolicyState { changed, subjects: SubjectCache::new(policy), objects_read })
    }

    /// `true` if the state has all changes up to these revisions.
    fn covers(&self, changed: &[Revision; TABLES]) -> bool {
        self.changed.iter().zip(changed).all(|(known, changed)| known >= changed)
    }
}

/// Revision of the last change of each table.
fn changed(snapshot: &Snapshot) -> [Revision; TABLES] {
    let mut changed = [Revision::ZERO; TABLES];
    for (at, resource) in RESOURCES.iter().enumerate() {
        changed[at] = snapshot.table(resource).map_or(Revision::ZERO, Table::changed);
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

/// Authorizer by the roles and bindings of the store. Lock order: cursors, newest.
#[derive(Default)]
pub struct RbacAuthorizer {
    newest: RwLock<Arc<PolicyState>>,
    feed: Option<PolicyFeed>,
}

/// Store that an authorizer follows. There are no cursors before the first request.
struct PolicyFeed {
    store: Store,
    cursors: Mutex<Vec<Cursor>>,
}

impl fmt::Debug for RbacAuthorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RbacAuthorizer").field("newest", &self.newest).finish_non_exhaustive()
    }
}

impl RbacAuthorizer {
    /// Returns an authorizer that follows the changes of a store. Its snapshots must be those of the store.
    #[must_use]
    pub fn following(store: Store) -> RbacAuthorizer {
        let feed = PolicyFeed { store, cursors: Mutex::default() };
        RbacAuthorizer { newest: RwLock::default(), feed: Some(feed) }
    }

    /// Returns the policy of a snapshot, or a later one.
    fn state(&self, snapshot: &Snapshot) -> Arc<PolicyState> {
        let changed = changed(snapshot);
        let newest = Arc::clone(&self.newest.read());
        match &self.feed {
            Some(_) if newest.covers(&changed) => newest,
            Some(feed) => self.catch_up(feed, &changed),
            None if newest.changed == changed => newest,
            None => {
                let state = Arc::new(PolicyState::read(snapshot));
                *self.newest.write() = Arc::clone(&state);
                state
            }
        }
    }

    /// Brings the policy up to date.
    fn catch_up(&self, feed: &PolicyFeed, changed: &[Revision; TABLES]) -> Arc<PolicyState> {
        let mut cursors = feed.cursors.lock();
        let newest = Arc::clone(&self.newest.read());
        // Another thread may have done it meanwhile.
        if newest.covers(changed) {
            return newest;
        }
        let mut state = if cursors.is_empty() { None } else { newest.advance(&mut cursors) };
        while state.is_none() {
            let (opened, later) = PolicyState::open(&feed.store);
            *cursors = later;
            // The tables were read one after the other.
            state = opened.advance(&mut cursors);
        }
        let state = Arc::new(state.unwrap_or_default());
        *self.newest.write() = Arc::clone(&state);
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

#[cfg(test)]
mod tests;
