//! Observed changes: updates the world and enqueues the keys that a change concerns.

use std::collections::BTreeSet;

use setpoint_api::{Key, Resource, Revision, Time};

use super::{Engine, ObservedChange, is_caused_by};
use crate::object::Object;
use crate::planner::{ALL_RESOURCES, SERVED_LATER};
use crate::queue::ReconcileReason;

impl Engine {
    /// Applies a change to the world and enqueues the keys that it concerns. Changes of a resource arrive in order, so a
    /// change that is not newer than the last one is a duplicate, and is ignored: it must not restore a deleted object.
    pub fn observe(&mut self, change: ObservedChange, now: Time) {
        if self.world.last_change(change.key.resource()) < change.revision {
            self.apply_change(change, now);
        }
    }

    fn apply_change(&mut self, change: ObservedChange, now: Time) {
        let ObservedChange { key, revision, after, reconciler } = change;
        if self.world.get(&key).is_some_and(|current| current.revision() >= revision) {
            return;
        }
        let before = match &after {
            Some(object) => self.world.put(object.clone()),
            None => self.world.remove(&key, revision),
        };
        self.enqueue_for_change(&key, before.as_ref(), after.as_ref(), reconciler.as_deref(), now);
    }

    /// Enqueues the keys that a change concerns.
    fn enqueue_for_change(
        &mut self,
        key: &Key,
        before: Option<&Object>,
        after: Option<&Object>,
        reconciler: Option<&str>,
        now: Time,
    ) {
        let added = if self.added.contains(key.resource()) { self.watches.get(SERVED_LATER) } else { None };
        let general = self.watches.get(ALL_RESOURCES).into_iter().chain(added).flatten();
        let watches = self.watches.get(key.resource().as_str()).into_iter().flatten().chain(general);
        for (i, j) in watches {
            let state = &mut self.controllers[*i];
            let watch = state.controller.watches()[*j];
            let name = state.controller.name();
            if before.zip(after).is_some_and(|(before, after)| !(watch.predicate)(before, after)) {
                continue;
            }
            for object in before.into_iter().chain(after) {
                let queue = &mut state.queue;
                (watch.mapper)(object, &self.world.reader(), &mut |key| {
                    let is_own = reconciler.is_some_and(|tag| is_caused_by(tag, name, &key));
                    let reason =
                        if is_own { ReconcileReason::OwnChange } else { ReconcileReason::OtherChange };
                    queue.enqueue(key, reason, now);
                });
            }
        }
    }

    /// Applies a complete list of a resource at a revision. Older objects that are not in the list are removed.
    pub fn relist(&mut self, resource: &Resource, objects: Vec<Object>, revision: Revision, now: Time) {
        let older = self.world.reader().all(resource.as_str()).filter(|object| object.revision() < revision);
        let mut gone: BTreeSet<Key> = older.map(|object| object.key().clone()).collect();
        for object in objects {
            gone.remove(object.key());
            let (key, revision) = (object.key().clone(), object.revision());
            self.apply_change(ObservedChange { key, revision, after: Some(object), reconciler: None }, now);
        }
        for key in gone {
            self.apply_change(ObservedChange { key, revision, after: None, reconciler: None }, now);
        }
        self.world.advance_resource_to(resource, revision);
    }

    /// Removes a resource that is no longer served, at a revision. The keys that its remaining objects concern are
    /// enqueued.
    pub fn remove_resource(&mut self, resource: &Resource, revision: Revision, now: Time) {
        let remaining: Vec<Object> = self.world.reader().all(resource.as_str()).cloned().collect();
        self.world.remove_resource(resource, revision);
        for object in remaining {
            self.enqueue_for_change(object.key(), Some(&object), None, None, now);
        }
        self.added.remove(resource);
    }

    /// Marks all changes up to a revision as observed.
    pub fn reach(&mut self, revision: Revision) {
        self.world.advance_to(revision);
    }

    /// Marks all changes of a resource up to a revision as observed, as a bookmark does.
    pub fn reach_of(&mut self, resource: &Resource, revision: Revision) {
        self.world.advance_resource_to(resource, revision);
    }
}
