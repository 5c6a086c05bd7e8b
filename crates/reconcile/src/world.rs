//! World: an immutable view of all objects at one revision, with the indexes that planners query.
//!
//! A [`World`] is made of persistent trees: planners share it, a fork copies a pointer, and an old one never changes.
//! The loop makes the next one by applying changes in order ([`World::put`], [`World::remove`]). Planners read it
//! through a [`WorldReader`].

mod config;
mod reader;

use std::ops::Bound;
use std::sync::{Arc, LazyLock};

use imbl::{OrdMap, OrdSet};
use setpoint_api::{Key, Resource, Revision};

pub use self::config::{Heartbeat, Index, IndexValues, SharedView, WorldConfig};
pub use self::reader::{Reads, TableSnapshot, WorldReader};
use crate::heartbeat::is_heartbeat;
use crate::object::Object;

/// Index entries: value and key, so that the keys of one value are a range.
type Entries = OrdSet<(Arc<str>, Key)>;

/// Least possible key, where a range over all keys of a value starts.
static LEAST_KEY: LazyLock<Key> = LazyLock::new(|| {
    let least = Resource::new("!").and_then(|resource| Key::from_path(&resource, "!"));
    least.expect("a name and a path")
});

/// All objects at one revision.
#[derive(Clone, Default)]
pub struct World {
    revision: Revision,
    tables: OrdMap<Resource, Table>,
    /// Revision at which a table was last added or removed.
    tables_changed: Revision,
    /// Keys by UID, without [`WorldConfig::unindexed`].
    uids: OrdMap<Arc<str>, Key>,
    /// Dependents by the UID of their owner, without [`WorldConfig::unindexed`].
    owned: Entries,
    indexes: Vec<(Index, Entries)>,
    config: Arc<WorldConfig>,
}

/// Objects of one resource.
#[derive(Clone, Default)]
struct Table {
    /// Position among the tables, in the order of their creation.
    number: usize,
    /// Revision up to which changes of this resource are observed.
    revision: Revision,
    /// Revision of the last change that was more than a heartbeat.
    changed: Revision,
    objects: OrdMap<Key, Object>,
}

impl World {
    /// Returns an empty world.
    #[must_use]
    pub fn new(config: WorldConfig) -> World {
        let mut indexes: Vec<(Index, Entries)> = Vec::new();
        for index in &config.indexes {
            if indexes.iter().all(|(other, _)| other.name != index.name) {
                indexes.push((*index, Entries::new()));
            }
        }
        World { indexes, config: Arc::new(config), ..World::default() }
    }

    /// Returns a reader that records every resource it reads.
    #[must_use]
    pub fn reader(&self) -> WorldReader<'_> {
        WorldReader::new(self, None)
    }

    /// Returns a reader for the plan of a key: it does not record reads of the key's own object.
    #[must_use]
    pub fn reader_for<'w>(&'w self, own: &'w Key) -> WorldReader<'w> {
        WorldReader::new(self, Some(own))
    }

    /// `true` if any of these resources has changed since a revision, by more than a heartbeat. A new or removed table
    /// counts as a change of all: it may have been looked for, and the number of a removed one is used again.
    pub(crate) fn has_changed(&self, reads: Reads, since: Revision) -> bool {
        self.tables_changed > since
            || self.tables.values().any(|table| table.changed > since && reads.intersects(Reads::of(table)))
    }

    /// Revision up to which all changes are observed.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Revision up to which changes of a resource are observed: at least that of the world.
    #[must_use]
    pub fn revision_of(&self, resource: &Resource) -> Revision {
        self.tables.get(resource).map_or(self.revision, |table| table.revision.max(self.revision))
    }

    /// Revision of the last observed change of a resource, or of its list if that is newer.
    #[must_use]
    pub fn last_change(&self, resource: &Resource) -> Revision {
        self.tables.get(resource).map_or(Revision::ZERO, |table| table.revision)
    }

    /// Returns the object at a key.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Object> {
        self.tables.get(key.resource())?.objects.get(key)
    }

    /// Inserts or replaces an object, and returns the previous one.
    pub fn put(&mut self, object: Object) -> Option<Object> {
        let WorldConfig { unindexed, heartbeats, shared_views, .. } = *self.config;
        let resource = object.key().resource().as_str();
        let heartbeat = heartbeats.iter().find(|heartbeat| heartbeat.resource == resource);
        let table = self.table(object.key().resource(), object.revision());
        table.revision = table.revision.max(object.revision());
        let before = table.objects.insert(object.key().clone(), object.clone());
        let is_beat = before
            .as_ref()
            .zip(heartbeat)
            .is_some_and(|(before, heartbeat)| is_heartbeat(before, &object, heartbeat.field));
        if !is_beat {
            table.changed = table.changed.max(object.revision());
        }
        if unindexed.contains(&resource) {
            return before;
        }
        if let Some(shared) = shared_views.iter().find(|shared| shared.resource == resource) {
            match &before {
                Some(before) => (shared.decode_after)(&object, before),
                None => {
                    if let Some(sibling) = self.sibling(&object) {
                        (shared.decode_beside)(&object, sibling);
                    }
                }
            }
        }
        // A key rarely changes its UID, so most writes leave the UID index alone.
        let uid = &object.meta().uid;
        if before.as_ref().is_none_or(|before| before.meta().uid != *uid) {
            self.remove_uid(before.as_ref());
            self.uids.insert(uid.as_ref().into(), object.key().clone());
        }
        self.update_indexes(before.as_ref(), Some(&object));
        before
    }

    /// Returns a neighbor of an object with the same controller: names of pods of one controller share a prefix.
    fn sibling(&self, object: &Object) -> Option<&Object> {
        let (key, controller) = (object.key(), object.meta().controller().map(|owner| &owner.uid));
        let objects = &self.tables.get(key.resource())?.objects;
        let has_same_controller =
            |other: &&Object| other.meta().controller().map(|owner| &owner.uid) == controller;
        let before = objects.range(..key.clone()).next_back().map(|(_, other)| other);
        before.filter(has_same_controller).or_else(|| {
            let next = objects.range((Bound::Excluded(key.clone()), Bound::Unbounded)).next();
            next.map(|(_, other)| other).filter(has_same_controller)
        })
    }

    /// Removes and returns the object at a key.
    pub fn remove(&mut self, key: &Key, revision: Revision) -> Option<Object> {
        let table = self.table(key.resource(), revision);
        table.revision = table.revision.max(revision);
        table.changed = table.changed.max(revision);
        let before = table.objects.remove(key)?;
        if !self.config.unindexed.contains(&key.resource().as_str()) {
            self.update_indexes(Some(&before), None);
            self.remove_uid(Some(&before));
        }
        Some(before)
    }

    /// Records that all changes up to a revision are observed.
    pub fn advance_to(&mut self, revision: Revision) {
        self.revision = self.revision.max(revision);
    }

    /// Records that all changes of a resource up to a revision are observed.
    pub fn advance_resource_to(&mut self, resource: &Resource, revision: Revision) {
        let table = self.table(resource, revision);
        table.revision = table.revision.max(revision);
    }

    /// Removes a resource that is no longer served, with all its objects, at a revision.
    pub fn remove_resource(&mut self, resource: &Resource, revision: Revision) {
        let Some(table) = self.tables.remove(resource) else { return };
        self.tables_changed = self.tables_changed.max(revision);
        if self.config.unindexed.contains(&resource.as_str()) {
            return;
        }
        for object in table.objects.values() {
            self.update_indexes(Some(object), None);
            self.remove_uid(Some(object));
        }
    }

    fn remove_uid(&mut self, object: Option<&Object>) {
        let Some(object) = object else { return };
        if self.uids.get(&*object.meta().uid) == Some(object.key()) {
            self.uids.remove(&*object.meta().uid);
        }
    }

    /// Returns the table of a resource; if there is none, adds it at a revision.
    fn table(&mut self, resource: &Resource, revision: Revision) -> &mut Table {
        let (number, tables_changed) = (self.tables.len(), &mut self.tables_changed);
        self.tables.entry(resource.clone()).or_insert_with(|| {
            *tables_changed = revision.max(*tables_changed);
            Table { number, ..Table::default() }
        })
    }

    /// Moves an object from its old to its new index entries. Most changes leave all of them alone.
    fn update_indexes(&mut self, before: Option<&Object>, after: Option<&Object>) {
        let Some(key) = after.or(before).map(Object::key) else { return };
        move_entries(&mut self.owned, key, values(before, owner_uids), values(after, owner_uids));
        for (index, entries) in indexes_of(&mut self.indexes, key) {
            move_entries(entries, key, values(before, index.values), values(after, index.values));
        }
    }
}

fn owner_uids(object: &Object, emit: &mut dyn FnMut(&str)) {
    object.meta().owner_references.iter().for_each(|owner| emit(&owner.uid));
}

/// Returns the values under which an index holds an object.
fn values(object: Option<&Object>, values_of: IndexValues) -> Vec<Arc<str>> {
    let mut values = Vec::new();
    if let Some(object) = object {
        values_of(object, &mut |value| values.push(value.into()));
    }
    values
}

/// Moves the entries of a key from old values to new ones.
fn move_entries(entries: &mut Entries, key: &Key, before: Vec<Arc<str>>, after: Vec<Arc<str>>) {
    if before == after {
        return;
    }
    for value in before {
        entries.remove(&(value, key.clone()));
    }
    for value in after {
        let value = share_value(entries, value);
        entries.insert((value, key.clone()));
    }
}

/// Returns the allocation that other entries of the value use: many pods have the same owner, node or label.
fn share_value(entries: &Entries, value: Arc<str>) -> Arc<str> {
    let start = (Arc::clone(&value), LEAST_KEY.clone());
    let first = entries.range((Bound::Included(start), Bound::Unbounded)).next();
    first.filter(|(found, _)| *found == value).map_or(value, |(found, _)| Arc::clone(found))
}

/// Indexes over the resource of a key.
fn indexes_of<'a>(
    indexes: &'a mut [(Index, Entries)],
    key: &'a Key,
) -> impl Iterator<Item = &'a mut (Index, Entries)> {
    indexes.iter_mut().filter(move |(index, _)| index.resource == key.resource().as_str())
}

#[cfg(test)]
mod tests;
