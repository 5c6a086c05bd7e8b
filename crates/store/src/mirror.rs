//! What is true now, as a value.
//!
//! A [`Snapshot`] is the pure result of applying commits in order. It is made of persistent trees, so that
//! taking one, keeping one for a paged list, or forking one costs a pointer, and an old one never changes.

use std::ops::Bound;

use imbl::{OrdMap, OrdSet};
use setpoint_api::{Key, Resource, Revision, Time};

use crate::commit::Commit;
use crate::pack::Samples;
use crate::record::Record;

/// The state of everything at one revision. Cloning it costs a pointer.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    revision: Revision,
    tables: OrdMap<Resource, Table>,
}

impl Snapshot {
    /// The state at `revision` that these objects make, each given as the commit that put it: what an import
    /// starts from. Nothing if one of them is no single put, or newer than `revision`.
    #[must_use]
    pub fn of_objects(revision: Revision, objects: impl IntoIterator<Item = Commit>) -> Option<Snapshot> {
        let mut snapshot = Snapshot { revision, ..Snapshot::default() };
        objects.into_iter().all(|commit| snapshot.restore(&commit)).then_some(snapshot)
    }

    /// The revision it shows.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The object at `key`.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Record> {
        self.table(key.resource())?.get(key.path())
    }

    /// The objects of one resource; nothing if there never was one.
    #[must_use]
    pub fn table(&self, resource: &Resource) -> Option<&Table> {
        self.tables.get(resource)
    }

    /// Every resource with its objects, in the order of their names.
    pub fn tables(&self) -> impl Iterator<Item = (&Resource, &Table)> {
        self.tables.iter()
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tables.values().map(Table::len).sum()
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of all objects: values, paths and envelopes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tables.values().map(|table| table.bytes).sum()
    }

    /// What is to be deleted by the store at or before `now`, of each resource soonest first.
    pub(crate) fn expired(&self, now: Time) -> impl Iterator<Item = (&Resource, &Record)> {
        self.tables.iter().flat_map(move |(resource, table)| {
            let due = table.expiring.iter().take_while(move |(at, _)| *at <= now);
            due.map(move |(_, record)| (resource, record))
        })
    }

    /// When the next key is to be deleted by the store.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.tables.values().filter_map(|table| table.expiring.get_min()).map(|(at, _)| *at).min()
    }

    /// Applies a commit, and tells `each` what every write replaced and what it put (or the tombstone).
    ///
    /// # Panics
    /// If the commit is not newer than the snapshot: the order of commits would be lost.
    pub(crate) fn apply(&mut self, commit: &Commit, mut each: impl FnMut(&Resource, Option<Record>, Record)) {
        assert!(commit.revision > self.revision, "commit {} after {}", commit.revision, self.revision);
        for write in &commit.writes {
            let key = &write.key;
            let table = match self.tables.get_mut(key.resource()) {
                Some(table) => table,
                None => self.tables.entry(key.resource().clone()).or_default(),
            };
            table.changed = commit.revision;
            let before = table.objects.get(key.path().as_bytes()).cloned();
            let after = Record::apply(write, commit.revision, commit.time, before.as_ref());
            after.pack(&mut table.samples);
            if after.is_tombstone() {
                table.remove(key.path());
            } else {
                table.insert(after.clone());
            }
            each(key.resource(), before, after);
        }
        self.revision = commit.revision;
    }

    /// Sets a key back to what it held before: the inverse of one applied write.
    pub(crate) fn undo(&mut self, resource: &Resource, before: Option<&Record>, after: &Record) {
        let table = self.tables.entry(resource.clone()).or_default();
        match before {
            Some(before) => table.insert(before.clone()),
            None => table.remove(after.path()),
        }
    }

    /// Says which revision it shows, once it has been put together from parts.
    pub(crate) fn set_revision(&mut self, revision: Revision) {
        self.revision = revision;
    }

    /// Forgets a resource altogether.
    pub(crate) fn drop_table(&mut self, resource: &Resource) {
        self.tables.remove(resource);
    }

    /// Adds an object as a checkpoint lists it: by the commit that put it. False if it is no such commit.
    pub(crate) fn restore(&mut self, commit: &Commit) -> bool {
        let [write] = &commit.writes[..] else { return false };
        if write.body.is_none() || commit.revision > self.revision {
            return false;
        }
        let record = Record::apply(write, commit.revision, commit.time, None);
        let table = self.tables.entry(write.key.resource().clone()).or_default();
        record.pack(&mut table.samples);
        table.insert(record);
        true
    }
}

/// The objects of one resource, ordered by path.
#[derive(Clone, Debug, Default)]
pub struct Table {
    objects: OrdSet<Record>,
    /// Those that the store itself is to delete, soonest first.
    expiring: OrdSet<(Time, Record)>,
    bytes: u64,
    samples: Samples,
    /// Revision of the last commit that was applied to it.
    changed: Revision,
}

impl Table {
    /// Returns the revision of the last change since the store was opened, zero if there was none. Two newest snapshots
    /// of a store have the same objects in this table if this is equal.
    #[must_use]
    pub fn changed(&self) -> Revision {
        self.changed
    }

    /// The object at `path`.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Record> {
        self.objects.get(path.as_bytes())
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The bytes of all objects: values, paths and envelopes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All objects, in the order of their paths.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.objects.iter()
    }

    /// The objects whose path starts with `prefix` (all if it is empty), from the first one after the path
    /// `after` if that is given: the next page of a list. Take as many as the page may hold.
    ///
    /// The end is found in the tree, so that to count what is left looks at no object.
    pub fn range<'a>(&'a self, prefix: &'a str, after: Option<&'a str>) -> impl Iterator<Item = &'a Record> {
        let end = successor(prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let start = match (after, end) {
            // Whoever starts behind the end gets nothing.
            (Some(after), Bound::Excluded(end)) if after.as_bytes() >= end => Bound::Included(end),
            (Some(after), _) if after >= prefix => Bound::Excluded(after.as_bytes()),
            _ => Bound::Included(prefix.as_bytes()),
        };
        self.objects.range::<(Bound<&[u8]>, Bound<&[u8]>), [u8]>((start, end))
    }

    fn insert(&mut self, record: Record) {
        let replaced = self.objects.insert(record.clone());
        self.forget(replaced);
        self.bytes += record.data_bytes() as u64;
        if let Some(at) = record.expires() {
            self.expiring.insert((at, record));
        }
    }

    fn remove(&mut self, path: &str) {
        let removed = self.objects.remove(path.as_bytes());
        self.forget(removed);
    }

    fn forget(&mut self, gone: Option<Record>) {
        let Some(record) = gone else { return };
        self.bytes -= record.data_bytes() as u64;
        if let Some(at) = record.expires() {
            self.expiring.remove(&(at, record));
        }
    }
}

/// The least path that is greater than all that start with `prefix`; none if there is no such.
fn successor(prefix: &str) -> Option<Vec<u8>> {
    let mut bytes = prefix.as_bytes().to_vec();
    // No byte of UTF-8 is 0xff, so the last one always has a successor.
    *bytes.last_mut()? += 1;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::Write;
    use crate::{Draft, Expect, Proposal};

    fn table(paths: &[&str]) -> Table {
        let resource = Resource::new("things").unwrap();
        let mut table = Table::default();
        for path in paths {
            let key = Key::from_path(&resource, path).unwrap();
            let proposal = Proposal::new(crate::Cause::default(), Time::EPOCH);
            let proposal = proposal.put(key, Expect::Any, Draft::new("{}"));
            let writes: Vec<&Write> = proposal.writes().collect();
            table.insert(Record::apply(writes[0], Revision(1), Time::EPOCH, None));
        }
        table
    }

    #[test]
    fn a_page_begins_behind_the_last_and_ends_with_its_prefix() {
        let table = table(&["a/x", "b/x", "b/y", "b/z", "c/x"]);
        let paths = |prefix: &str, after: Option<&str>| -> Vec<String> {
            table.range(prefix, after).map(|record| record.path().to_owned()).collect()
        };
        assert_eq!(paths("", None).len(), 5);
        assert_eq!(paths("b/", None), ["b/x", "b/y", "b/z"]);
        assert_eq!(paths("b/", Some("b/x")), ["b/y", "b/z"]);
        assert_eq!(paths("b/", Some("a/x")), ["b/x", "b/y", "b/z"], "before the prefix is its start");
        assert!(paths("b/", Some("b/z")).is_empty());
        assert!(paths("b/", Some("c/x")).is_empty(), "behind the end there is nothing");
        assert_eq!(paths("", Some("b/z")), ["c/x"]);
    }
}
