//! Ground truth: every commit in order, with the world after it. The checks use this, and never the view of a loop.

use std::collections::BTreeMap;

use setpoint_api::resource_types;
use setpoint_api::{Key, Resource, Revision};
use setpoint_reconcile::{Object, World, WorldReader};
use setpoint_runtime::{custom, objects};
use setpoint_store::{Cursor, Store, WatchEvent, WatchFilter};
use setpoint_views::node::Node;

use crate::cluster::CommitOrigin;

/// Change of one object in a commit.
#[derive(Clone, Debug)]
pub struct CommitChange {
    /// Key of the object.
    pub key: Key,
    /// Revision of the commit.
    pub revision: Revision,
    /// The object before; `None` if it was created.
    pub before: Option<Object>,
    /// The object after; `None` if it was removed.
    pub after: Option<Object>,
    /// Controller that made the change; empty if none did.
    pub by: Box<str>,
    /// Revision of the world that the controller planned on; that of the commit if no controller made it.
    pub seen: Revision,
    /// `true` if the loop that planned it had stopped before the commit.
    pub is_late: bool,
}

impl CommitChange {
    /// The object after the change, or before it if it was removed.
    ///
    /// # Panics
    /// If the change has neither an old nor a new state.
    #[must_use]
    pub fn object(&self) -> &Object {
        self.after.as_ref().or(self.before.as_ref()).expect("a change has a before or an after")
    }

    /// `true` if the object was created.
    #[must_use]
    pub fn is_creation(&self) -> bool {
        self.before.is_none()
    }

    /// `true` if the object was deleted: it got a deletion timestamp, or was removed without one.
    #[must_use]
    pub fn is_deletion(&self) -> bool {
        let was = self.before.as_ref().is_some_and(|object| !object.meta().is_deleted());
        was && self.after.as_ref().is_none_or(|object| object.meta().is_deleted())
    }

    /// `true` if the object is of a resource.
    #[must_use]
    pub fn is_of(&self, resource: &str) -> bool {
        self.key.resource().as_str() == resource
    }
}

/// Commits so far.
pub struct GroundTruth {
    /// World after the last commit.
    pub world: World,
    /// Last commit that was not a heartbeat.
    pub last_work: Revision,
    /// Object and author of that commit.
    pub last_change: String,
    /// Last commit.
    last: Revision,
    cursors: Vec<(Resource, Cursor)>,
}

impl GroundTruth {
    /// Follows an empty store.
    #[must_use]
    pub fn new(store: &Store) -> GroundTruth {
        let follow = |resource: &Resource| (resource.clone(), store.watch(resource, WatchFilter::default()));
        let cursors = resource_types::stored().map(|stored| &stored.resource).map(follow).collect();
        GroundTruth {
            world: World::default(),
            last_work: Revision::ZERO,
            last_change: String::new(),
            last: Revision::ZERO,
            cursors,
        }
    }

    /// Follows a store that was reopened, from the last commit on.
    ///
    /// # Panics
    /// If the store has compacted the commits since.
    pub fn resume(&mut self, store: &Store) {
        for (resource, cursor) in &mut self.cursors {
            let again = store.watch_after(resource, WatchFilter::default(), self.last);
            *cursor = again.expect("history reaches back one step");
        }
    }

    /// Calls `each` for every commit since the last call, with the world after it.
    ///
    /// # Errors
    /// The first error of `each`.
    ///
    /// # Panics
    /// If the store has compacted commits since the last call.
    pub fn catch_up(
        &mut self,
        store: &Store,
        origins: &mut BTreeMap<Revision, CommitOrigin>,
        mut each: impl FnMut(&WorldReader<'_>, &[CommitChange]) -> Result<(), String>,
    ) -> Result<(), String> {
        self.follow_definitions(store);
        let mut events: Vec<(Key, WatchEvent)> = Vec::new();
        for (resource, cursor) in &mut self.cursors {
            while let Some(event) = cursor.try_next().expect("history reaches back one step") {
                let key = Key::from_path(resource, event.after.path()).expect("a stored path is valid");
                events.push((key, event));
            }
        }
        events.sort_by_key(|(_, event)| event.revision());
        for commit in events.chunk_by(|(_, a), (_, b)| a.revision() == b.revision()) {
            let changes: Vec<CommitChange> =
                commit.iter().map(|event| self.apply_event(event, origins)).collect();
            each(&self.world.reader(), &changes)?;
        }
        origins.clear();
        Ok(())
    }

    /// Follows the resource of every CustomResourceDefinition that was created. A resource is followed for good: objects
    /// that outlive their definition are part of the truth.
    fn follow_definitions(&mut self, store: &Store) {
        let snapshot = store.snapshot();
        let definitions = snapshot.table(&custom::definitions());
        for record in definitions.into_iter().flat_map(|table| table.iter()) {
            let Ok(resource) = Resource::new(record.name()) else { continue };
            if self.cursors.iter().all(|(followed, _)| *followed != resource) {
                let cursor = store.watch_after(&resource, WatchFilter::default(), self.last);
                self.cursors.push((resource, cursor.expect("history reaches back one step")));
            }
        }
    }

    fn apply_event(
        &mut self,
        (key, event): &(Key, WatchEvent),
        origins: &BTreeMap<Revision, CommitOrigin>,
    ) -> CommitChange {
        let revision = event.revision();
        self.last = revision;
        let cause = event.after.cause();
        let after =
            if event.after.is_tombstone() { None } else { objects::object(key.clone(), &event.after) };
        let before = match &after {
            Some(object) => self.world.put(object.clone()),
            None => self.world.remove(key, revision),
        };
        let by = cause.reconciler.split(' ').next().unwrap_or_default();
        if !is_heartbeat(key, by, before.as_ref(), after.as_ref()) {
            self.last_work = revision;
            self.last_change = format!("{key} by {}", cause.reconciler);
        }
        let origin = origins.get(&revision);
        CommitChange {
            key: key.clone(),
            revision,
            before,
            after,
            by: by.into(),
            seen: origin.map_or(revision, |origin| origin.seen),
            is_late: origin.is_some_and(|origin| origin.is_late),
        }
    }
}

/// `true` for a Lease, and for a status update that does not change the readiness of a node.
fn is_heartbeat(key: &Key, by: &str, before: Option<&Object>, after: Option<&Object>) -> bool {
    let is_ready = |node: Option<&Object>| node.and_then(|node| node.view::<Node>()).map(Node::is_ready);
    match key.resource().as_str() {
        "leases.coordination.k8s.io" => true,
        "nodes" => by == "node-status" && is_ready(before) == is_ready(after),
        _ => false,
    }
}
