//! Reader of a [`World`]: the queries of planners, and a record of the resources that they read.
//!
//! Every query takes time proportional to its result. The record ([`Reads`]) lets the resync skip controllers whose
//! inputs have not changed. The world itself stays immutable: each plan gets a reader of its own.

use std::cell::Cell;
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use setpoint_api::{Key, Resource, Revision};

use super::{Entries, LEAST_KEY, Table, World};
use crate::object::{Object, View};

/// Set of resources that were read. It has a bit per table; tables share bits if there are more than 128.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads(u128);

impl Reads {
    const ALL: Reads = Reads(u128::MAX);

    pub(super) fn of(table: &Table) -> Reads {
        Reads(1 << (table.number % 128))
    }

    pub(super) fn intersects(self, other: Reads) -> bool {
        self.0 & other.0 != 0
    }

    /// Union of two sets.
    #[must_use]
    pub fn and(self, other: Reads) -> Reads {
        Reads(self.0 | other.0)
    }
}

/// Objects of a resource at one revision, for [`WorldReader::changes_since`]. It copies a pointer.
#[derive(Clone, Default)]
pub struct TableSnapshot(OrdMap<Key, Object>);

/// Handle through which a planner reads a [`World`]. Results borrow from the world, not from the reader.
pub struct WorldReader<'w> {
    world: &'w World,
    /// Key whose own object is read without a record: a change of it enqueues the key anyway.
    own: Option<&'w Key>,
    reads: Cell<Reads>,
}

impl<'w> WorldReader<'w> {
    pub(super) fn new(world: &'w World, own: Option<&'w Key>) -> WorldReader<'w> {
        WorldReader { world, own, reads: Cell::default() }
    }

    /// Resources that were read through this reader.
    #[must_use]
    pub fn reads(&self) -> Reads {
        self.reads.get()
    }

    /// Records that the resources of keys were read.
    pub(crate) fn record_keys<'k>(&self, keys: impl Iterator<Item = &'k Key>) {
        let mut last: Option<&Resource> = None;
        for resource in keys.map(Key::resource) {
            if last.replace(resource) != Some(resource) {
                self.table(resource.as_str());
            }
        }
    }

    fn record(&self, reads: Reads) {
        self.reads.set(self.reads.get().and(reads));
    }

    /// Returns the table of a resource and records that it was read.
    fn table(&self, resource: &str) -> Option<(&'w Resource, &'w Table)> {
        let found = self.world.tables.get_key_value(resource);
        // A table that does not exist yet has no number; any change may be the first of it.
        self.record(found.map_or(Reads::ALL, |(_, table)| Reads::of(table)));
        found
    }

    /// Returns the objects of a resource as they are now: see [`WorldReader::changes_since`].
    #[must_use]
    pub fn table_snapshot(&self, resource: &str) -> TableSnapshot {
        TableSnapshot(self.table(resource).map(|(_, table)| table.objects.clone()).unwrap_or_default())
    }

    /// Returns the changes of a resource since a snapshot, as pairs of old and new object. It takes time proportional
    /// to the number of changes, not to the number of objects.
    pub fn changes_since<'a>(
        &self,
        snapshot: &'a TableSnapshot,
        resource: &str,
    ) -> impl Iterator<Item = (Option<&'a Object>, Option<&'a Object>)> + use<'a, 'w>
    where
        'w: 'a,
    {
        let table = self.table(resource).map(|(_, table)| table);
        let removed = table.is_none().then(|| snapshot.0.values().map(|object| (Some(object), None)));
        let changed = table.map(|table| snapshot.0.diff(&table.objects));
        let changed = changed.into_iter().flatten().map(|change| match change {
            DiffItem::Add(_, new) => (None, Some(new)),
            DiffItem::Update { old: (_, old), new: (_, new) } => (Some(old), Some(new)),
            DiffItem::Remove(_, old) => (Some(old), None),
        });
        removed.into_iter().flatten().chain(changed)
    }

    /// Revision up to which all changes are observed.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.world.revision()
    }

    /// Revision up to which changes of a resource are observed: at least that of the world.
    #[must_use]
    pub fn revision_of(&self, resource: &Resource) -> Revision {
        self.world.revision_of(resource)
    }

    /// Returns the object at a key.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&'w Object> {
        let table = self.world.tables.get(key.resource());
        if self.own != Some(key) {
            self.record(table.map_or(Reads::ALL, Reads::of));
        }
        table?.objects.get(key)
    }

    /// Returns the object of a resource by namespace (empty for cluster-scoped objects) and name.
    #[must_use]
    pub fn find(&self, resource: &str, namespace: &str, name: &str) -> Option<&'w Object> {
        let Some((resource, _)) = self.world.tables.get_key_value(resource) else {
            self.record(Reads::ALL);
            return None;
        };
        let key = if namespace.is_empty() {
            Key::cluster(resource, name)
        } else {
            Key::namespaced(resource, namespace, name)
        };
        self.get(&key.ok()?)
    }

    /// Returns an object with its view.
    #[must_use]
    pub fn view<V: View>(&self, namespace: &str, name: &str) -> Option<(&'w Object, &'w V)> {
        let object = self.find(V::RESOURCE, namespace, name)?;
        Some((object, object.view()?))
    }

    /// Returns all objects of a resource, in the order of their paths.
    pub fn all(&self, resource: &str) -> impl Iterator<Item = &'w Object> + use<'w> {
        self.table(resource).into_iter().flat_map(|(_, table)| table.objects.values())
    }

    /// Returns all objects of a resource with their views.
    pub fn views<V: View>(&self) -> impl Iterator<Item = (&'w Object, &'w V)> + use<'w, V> {
        self.all(V::RESOURCE).filter_map(|object| Some((object, object.view()?)))
    }

    /// Returns the objects of a resource in a namespace.
    pub fn in_namespace<'a>(
        &self,
        resource: &str,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'w Object> + use<'a, 'w> {
        let table = self.table(resource).filter(|(_, table)| !table.objects.is_empty());
        let start = table.and_then(|(resource, _)| Key::namespaced(resource, namespace, "\u{20}").ok());
        table.zip(start).into_iter().flat_map(move |((_, table), start)| {
            let range = table.objects.range((Bound::Included(start), Bound::Unbounded));
            range.take_while(move |(key, _)| key.namespace() == Some(namespace)).map(|(_, object)| object)
        })
    }

    /// Number of objects of a resource.
    #[must_use]
    pub fn count(&self, resource: &str) -> usize {
        self.table(resource).map_or(0, |(_, table)| table.objects.len())
    }

    /// Resources of which an object or a list was observed.
    pub fn resources(&self) -> impl Iterator<Item = &'w Resource> + use<'w> {
        self.world.tables.keys()
    }

    /// Returns a resource by its name, if an object or a list of it was observed. One that is not served has none.
    #[must_use]
    pub fn find_resource(&self, name: &str) -> Option<&'w Resource> {
        self.table(name).map(|(resource, _)| resource)
    }

    /// Returns the object with a UID, of any indexed resource.
    #[must_use]
    pub fn get_by_uid(&self, uid: &str) -> Option<&'w Object> {
        let Some(key) = self.world.uids.get(uid) else {
            // The object may appear in any resource.
            self.record(Reads::ALL);
            return None;
        };
        self.get(key)
    }

    /// Returns the dependents of an owner, of all indexed resources.
    pub fn dependents(&self, uid: &str) -> impl Iterator<Item = &'w Object> + use<'w> {
        self.record(Reads::ALL);
        self.entries(&self.world.owned, uid)
    }

    /// Returns the dependents of an owner, of one resource.
    pub fn owned(&self, uid: &str, resource: &'static str) -> impl Iterator<Item = &'w Object> + use<'w> {
        // Entries of an owner are ordered by resource, so the range could start there; owners rarely own several.
        self.table(resource);
        self.entries(&self.world.owned, uid)
            .filter(move |object| object.key().resource().as_str() == resource)
    }

    /// Returns the objects that an index holds under a value.
    ///
    /// # Panics
    /// If the world has no such index: planners and the configuration of the world are put together in one place.
    pub fn by_index(&self, index: &str, value: &str) -> impl Iterator<Item = &'w Object> + use<'w> {
        self.entries(self.index(index), value)
    }

    /// `true` if an index has any entry: computing a value to look up may cost more than this check.
    ///
    /// # Panics
    /// As [`WorldReader::by_index`].
    #[must_use]
    pub fn has_index_entries(&self, index: &str) -> bool {
        !self.index(index).is_empty()
    }

    fn index(&self, name: &str) -> &'w Entries {
        let declared = self.world.indexes.iter().find(|(declared, _)| declared.name == name);
        let (declared, entries) = declared.expect("the index was declared");
        self.table(declared.resource);
        entries
    }

    fn entries(&self, entries: &'w Entries, value: &str) -> impl Iterator<Item = &'w Object> + use<'w> {
        let world = self.world;
        let start = (!entries.is_empty()).then(|| (Arc::from(value), LEAST_KEY.clone()));
        let range = start.into_iter().flat_map(|start: (Arc<str>, Key)| {
            let value = Arc::clone(&start.0);
            let range = entries.range((Bound::Included(start), Bound::Unbounded));
            range.take_while(move |(found, _)| *found == value)
        });
        range.filter_map(|(_, key)| world.tables.get(key.resource())?.objects.get(key))
    }
}
