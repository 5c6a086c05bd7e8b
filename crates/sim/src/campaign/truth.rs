//! What really happened: every commit in order, with the world as it left it.
//!
//! The checks judge by this and never by what a loop believes.

use std::collections::BTreeMap;

use setpoint_api::resource_types;
use setpoint_api::{Key, Resource, Revision};
use setpoint_reconcile::views::node::Node;
use setpoint_reconcile::{Object, World};
use setpoint_runtime::objects;
use setpoint_store::{Cursor, Event, Filter, Store};

use crate::cluster::Origin;

/// One object that a commit changed.
#[derive(Clone, Debug)]
pub struct Change {
    /// Which.
    pub key: Key,
    /// The commit.
    pub revision: Revision,
    /// What it was.
    pub before: Option<Object>,
    /// What it became.
    pub after: Option<Object>,
    /// The controller that did it; empty if none did.
    pub by: Box<str>,
    /// Who did it.
    pub user: Box<str>,
    /// The revision of the world that the controller planned on; the commit's own if no controller did it.
    pub seen: Revision,
    /// Whether the loop that planned it no longer acted when it was committed.
    pub is_late: bool,
}

impl Change {
    /// What the object was, or became if it was nothing.
    ///
    /// # Panics
    /// If it was nothing before and after, which is no change.
    #[must_use]
    pub fn object(&self) -> &Object {
        self.after.as_ref().or(self.before.as_ref()).expect("a change has a before or an after")
    }

    /// Whether it made the object.
    #[must_use]
    pub fn is_creation(&self) -> bool {
        self.before.is_none()
    }

    /// Whether it marked the object as deleted, or took away one that was not marked.
    #[must_use]
    pub fn is_deletion(&self) -> bool {
        let was = self.before.as_ref().is_some_and(|object| !object.meta().is_deleted());
        was && self.after.as_ref().is_none_or(|object| object.meta().is_deleted())
    }

    /// Whether the object is of a resource.
    #[must_use]
    pub fn is_of(&self, resource: &str) -> bool {
        self.key.resource().as_str() == resource
    }
}

/// What really happened so far.
pub struct Truth {
    /// The world after the last commit.
    pub world: World,
    /// The last commit that was more than a sign of life.
    pub last_work: Revision,
    /// What it was about, and who did it.
    pub last_worker: String,
    /// The last commit.
    last: Revision,
    cursors: Vec<(Resource, Cursor)>,
}

impl Truth {
    /// Follows a store that is empty as yet.
    #[must_use]
    pub fn of(store: &Store) -> Truth {
        let follow = |resource: &Resource| (resource.clone(), store.watch(resource, Filter::default()));
        let cursors = resource_types::stored().map(|stored| &stored.resource).map(follow).collect();
        Truth {
            world: World::default(),
            last_work: Revision::ZERO,
            last_worker: String::new(),
            last: Revision::ZERO,
            cursors,
        }
    }

    /// Follows a store that was started again, from where it was.
    ///
    /// # Panics
    /// If the store has forgotten what happened since.
    pub fn follow_again(&mut self, store: &Store) {
        for (resource, cursor) in &mut self.cursors {
            let again = store.watch_after(resource, Filter::default(), self.last);
            *cursor = again.expect("history reaches back one step");
        }
    }

    /// Takes in what was committed since the last time, and shows each commit with the world it left.
    ///
    /// # Errors
    /// The first that is found.
    ///
    /// # Panics
    /// If it was not called for so long that the store has forgotten what happened.
    pub fn catch_up(
        &mut self,
        origins: &mut BTreeMap<Revision, Origin>,
        mut each: impl FnMut(&World, &[Change]) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut events: Vec<(Key, Event)> = Vec::new();
        for (resource, cursor) in &mut self.cursors {
            while let Some(event) = cursor.try_next().expect("history reaches back one step") {
                let key = Key::from_path(resource, event.after.path()).expect("a stored path is valid");
                events.push((key, event));
            }
        }
        events.sort_by_key(|(_, event)| event.revision());
        for commit in events.chunk_by(|(_, a), (_, b)| a.revision() == b.revision()) {
            let changes: Vec<Change> = commit.iter().map(|one| self.take_in(one, origins)).collect();
            each(&self.world, &changes)?;
        }
        origins.clear();
        Ok(())
    }

    fn take_in(&mut self, (key, event): &(Key, Event), origins: &BTreeMap<Revision, Origin>) -> Change {
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
        if !is_sign_of_life(key, by, before.as_ref(), after.as_ref()) {
            self.last_work = revision;
            self.last_worker = format!("{key} by {}", cause.reconciler);
        }
        let origin = origins.get(&revision);
        Change {
            key: key.clone(),
            revision,
            before,
            after,
            by: by.into(),
            user: cause.user.into(),
            seen: origin.map_or(revision, |origin| origin.seen),
            is_late: origin.is_some_and(|origin| origin.is_late),
        }
    }
}

/// Whether a change says no more than that somebody is still there: a Lease, or a node that is as well as it was.
fn is_sign_of_life(key: &Key, by: &str, before: Option<&Object>, after: Option<&Object>) -> bool {
    let is_ready = |node: Option<&Object>| node.and_then(|node| node.view::<Node>()).map(Node::is_ready);
    match key.resource().as_str() {
        "leases.coordination.k8s.io" => true,
        "nodes" => by == "node-status" && is_ready(before) == is_ready(after),
        _ => false,
    }
}
