//! Mirror: all objects at one revision, as an immutable value.
//!
//! A [`Snapshot`] is the pure result of applying commits in order. It consists of persistent trees: cloning
//! one, keeping one for a paged list, or forking one costs a pointer, and an existing one never changes.

use std::ops::Bound;
use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use setpoint_api::{Key, Resource, Revision, Time};

use crate::commit::Commit;
use crate::pack::Samples;
use crate::record::Record;
use crate::seal::Sealing;

/// All objects at one revision. Cloning costs a pointer.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    revision: Revision,
    tables: OrdMap<Resource, Table>,
    sealing: Option<Arc<Sealing>>,
}

impl Snapshot {
    /// Returns the snapshot at `revision` with these objects, each given as the commit that put it; an
    /// import starts from it. `None` if a commit is not a single put, or is newer than `revision`.
    #[must_use]
    pub fn from_objects(revision: Revision, objects: impl IntoIterator<Item = Commit>) -> Option<Snapshot> {
        let mut snapshot = Snapshot { revision, ..Snapshot::default() };
        objects.into_iter().all(|commit| snapshot.restore(&commit)).then_some(snapshot)
    }

    /// Revision of the snapshot.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// `true` if the record of the resource that was put at `revision` may be stored with another key than new
    /// records, or as it is although they are sealed. Writing it again stores it with the current key.
    #[must_use]
    pub fn is_stored_with_old_key(&self, resource: &Resource, revision: Revision) -> bool {
        self.sealing.as_ref().is_some_and(|sealing| sealing.is_stale(resource, revision))
    }

    /// Sets the sealing of the log that the snapshot mirrors.
    pub(crate) fn set_sealing(&mut self, sealing: Option<Arc<Sealing>>) {
        self.sealing = sealing;
    }

    /// Returns the object at `key`.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Record> {
        self.table(key.resource())?.get(key.path())
    }

    /// Returns the objects of one resource; `None` if none has ever existed.
    #[must_use]
    pub fn table(&self, resource: &Resource) -> Option<&Table> {
        self.tables.get(resource)
    }

    /// Returns all resources with their objects, ordered by resource name.
    pub fn tables(&self) -> impl Iterator<Item = (&Resource, &Table)> {
        self.tables.iter()
    }

    /// Number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tables.values().map(Table::len).sum()
    }

    /// `true` if there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all objects: values, paths and envelopes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tables.values().map(|table| table.bytes).sum()
    }

    /// Objects that expire at or before `now`, per resource in order of expiry.
    pub(crate) fn expired(&self, now: Time) -> impl Iterator<Item = (&Resource, &Record)> {
        self.tables.iter().flat_map(move |(resource, table)| {
            let expired = table.expiring.iter().take_while(move |(at, _)| *at <= now);
            expired.map(move |(_, record)| (resource, record))
        })
    }

    /// Time at which the next key expires.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.tables.values().filter_map(|table| table.expiring.get_min()).map(|(at, _)| *at).min()
    }

    /// Applies a commit. Calls `each` for every write with the record that it replaced and the record that
    /// it put (or the tombstone).
    ///
    /// # Panics
    /// If the commit is not newer than the snapshot, because the order of commits would be lost.
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

    /// Restores the previous record of a key: the inverse of one applied write.
    pub(crate) fn undo(&mut self, resource: &Resource, before: Option<&Record>, after: &Record) {
        let table = self.tables.entry(resource.clone()).or_default();
        match before {
            Some(before) => table.insert(before.clone()),
            None => table.remove(after.path()),
        }
    }

    /// Sets the revision of a snapshot that was assembled from parts.
    pub(crate) fn set_revision(&mut self, revision: Revision) {
        self.revision = revision;
    }

    /// Removes a resource with all its objects.
    pub(crate) fn drop_table(&mut self, resource: &Resource) {
        self.tables.remove(resource);
    }

    /// Adds an object from a checkpoint, given as the commit that put it. Returns `false` if the commit is
    /// not a single put.
    pub(crate) fn restore(&mut self, commit: &Commit) -> bool {
        let [write] = &commit.writes[..] else { return false };
        if write.body.is_none() || commit.revision > self.revision {
            return false;
        }
        let record = Record::apply(write, commit.revision, commit.time, None);
        let table = self.tables.entry(write.key.resource().clone()).or_default();
        record.pack(&mut table.samples);
        table.insert(record);
        table.changed = table.changed.max(commit.revision);
        true
    }
}

/// Objects of one resource, ordered by path.
#[derive(Clone, Debug, Default)]
pub struct Table {
    objects: OrdSet<Record>,
    /// Objects with an expiry time, soonest first.
    expiring: OrdSet<(Time, Record)>,
    bytes: u64,
    samples: Samples,
    /// Revision of the last commit that changed this table.
    changed: Revision,
}

impl Table {
    /// Returns the revision of the last change since the store was opened, or of the newest object that it had
    /// then. Zero only if the table was always empty. Two current snapshots of one store have equal tables if
    /// their values are equal.
    #[must_use]
    pub fn changed(&self) -> Revision {
        self.changed
    }

    /// Returns the object at `path`.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Record> {
        self.objects.get(path.as_bytes())
    }

    /// Number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// `true` if there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Bytes of all objects: values, paths and envelopes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns all objects, ordered by path.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Record> {
        self.objects.iter()
    }

    /// Returns the objects whose path starts with `prefix` (all if it is empty), after the path `after` if
    /// given. The first items are the next page of a list.
    ///
    /// The end is located in the tree, so counting the rest visits no object.
    pub fn range<'a>(&'a self, prefix: &'a str, after: Option<&'a str>) -> impl Iterator<Item = &'a Record> {
        let end = successor(prefix);
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let start = match (after, end) {
            // A start at or behind the end gives an empty range.
            (Some(after), Bound::Excluded(end)) if after.as_bytes() >= end => Bound::Included(end),
            (Some(after), _) if after >= prefix => Bound::Excluded(after.as_bytes()),
            _ => Bound::Included(prefix.as_bytes()),
        };
        self.objects.range::<(Bound<&[u8]>, Bound<&[u8]>), [u8]>((start, end))
    }

    fn insert(&mut self, record: Record) {
        let replaced = self.objects.insert(record.clone());
        self.subtract(replaced);
        self.bytes += record.data_bytes() as u64;
        if let Some(at) = record.expires() {
            self.expiring.insert((at, record));
        }
    }

    fn remove(&mut self, path: &str) {
        let removed = self.objects.remove(path.as_bytes());
        self.subtract(removed);
    }

    fn subtract(&mut self, removed: Option<Record>) {
        let Some(record) = removed else { return };
        self.bytes -= record.data_bytes() as u64;
        if let Some(at) = record.expires() {
            self.expiring.remove(&(at, record));
        }
    }
}

/// Smallest byte string greater than all paths that start with `prefix`; `None` if the prefix is empty.
fn successor(prefix: &str) -> Option<Vec<u8>> {
    let mut bytes = prefix.as_bytes().to_vec();
    // UTF-8 contains no byte 0xff, so the last byte always has a successor.
    *bytes.last_mut()? += 1;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::LogWrite;
    use crate::{Draft, Precondition, Proposal};

    fn table(paths: &[&str]) -> Table {
        let resource = Resource::new("things").unwrap();
        let mut table = Table::default();
        for path in paths {
            let key = Key::from_path(&resource, path).unwrap();
            let proposal = Proposal::new(crate::CommitCause::default(), Time::EPOCH);
            let proposal = proposal.put(key, Precondition::Any, Draft::new("{}"));
            let writes: Vec<&LogWrite> = proposal.writes().collect();
            table.insert(Record::apply(writes[0], Revision(1), Time::EPOCH, None));
        }
        table
    }

    #[test]
    fn restored_table_has_changed_with_its_newest_object() {
        let resource = Resource::new("things").unwrap();
        let commit = |path: &str, revision| {
            let key = Key::from_path(&resource, path).unwrap();
            let proposal = Proposal::new(crate::CommitCause::default(), Time::EPOCH);
            let proposal = proposal.put(key, Precondition::Any, Draft::new("{}"));
            let writes = proposal.writes().cloned().collect();
            Commit { revision: Revision(revision), time: Time::EPOCH, writes }
        };
        let objects = [commit("a/x", 7), commit("a/y", 3)];
        let snapshot = Snapshot::from_objects(Revision(9), objects).unwrap();
        assert_eq!(snapshot.table(&resource).unwrap().changed(), Revision(7));
    }

    #[test]
    fn page_starts_after_the_last_path_and_ends_with_its_prefix() {
        let table = table(&["a/x", "b/x", "b/y", "b/z", "c/x"]);
        let paths = |prefix: &str, after: Option<&str>| -> Vec<String> {
            table.range(prefix, after).map(|record| record.path().to_owned()).collect()
        };
        assert_eq!(paths("", None).len(), 5);
        assert_eq!(paths("b/", None), ["b/x", "b/y", "b/z"]);
        assert_eq!(paths("b/", Some("b/x")), ["b/y", "b/z"]);
        assert_eq!(paths("b/", Some("a/x")), ["b/x", "b/y", "b/z"], "before the prefix is its start");
        assert!(paths("b/", Some("b/z")).is_empty());
        assert!(paths("b/", Some("c/x")).is_empty(), "a start behind the prefix is empty");
        assert_eq!(paths("", Some("b/z")), ["c/x"]);
    }
}
