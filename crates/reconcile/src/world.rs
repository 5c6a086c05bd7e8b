//! Everything that is true, at one revision, with the questions that planners ask answered in time
//! proportional to the answer.
//!
//! A [`World`] is a value made of persistent trees: planners share it, a fork copies a pointer, and an old one
//! never changes. The loop makes the next one by applying changes in order.

use imbl::ordmap::DiffItem;
use imbl::{OrdMap, OrdSet};
use setpoint_api::{Key, Resource, Revision};
use std::cell::Cell;
use std::ops::Bound;
use std::sync::{Arc, LazyLock};

use crate::heartbeat::is_heartbeat;
use crate::object::{Object, View};
use crate::views::pod::Pod;

/// A question that is answered from an index: which objects of a resource have this value?
#[derive(Clone, Copy)]
pub struct Index {
    /// Its name; unique.
    pub name: &'static str,
    /// The resource whose objects it holds.
    pub resource: &'static str,
    /// The values under which an object is found.
    pub values: Values,
}

/// Names the values under which an object is found.
pub type Values = fn(&Object, &mut dyn FnMut(&str));

type Entries = OrdSet<(Arc<str>, Key)>;

/// What there is most of, and what nobody collects: it is known by its place alone.
const EVENTS: &str = "events";

/// Everything that is true, at one revision.
#[derive(Clone, Default)]
pub struct World {
    revision: Revision,
    tables: OrdMap<Resource, Table>,
    /// Identities and who has them, over all resources but [`EVENTS`].
    identities: OrdMap<Arc<str>, Key>,
    /// Owner's identity to what it owns, over all resources but [`EVENTS`].
    owned: Entries,
    indexes: Vec<(Index, Entries)>,
    notebook: Notebook,
}

#[derive(Clone, Default)]
struct Table {
    /// Its place among the tables, in the order in which they were made.
    number: usize,
    /// The revision up to which changes of this resource have been taken in.
    revision: Revision,
    /// The revision of the last change that was more than a heartbeat.
    changed: Revision,
    objects: OrdMap<Key, Object>,
}

/// Which resources somebody has read: a bit for the number of each table, several tables to a bit if there are many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads(u128);

impl Reads {
    /// Every resource.
    const ALL: Reads = Reads(u128::MAX);

    fn of(table: &Table) -> Reads {
        Reads(1 << (table.number % 128))
    }

    fn has(self, other: Reads) -> bool {
        self.0 & other.0 != 0
    }

    /// These and those.
    #[must_use]
    pub fn and(self, other: Reads) -> Reads {
        Reads(self.0 | other.0)
    }
}

/// What is being read of a world, apart from one object.
#[derive(Clone, Default)]
struct Notebook {
    own: Option<Key>,
    reads: Cell<Reads>,
}

impl Notebook {
    fn note(&self, reads: Reads) {
        self.reads.set(self.reads.get().and(reads));
    }
}

/// The objects of a resource at some moment, to know later what changed since. It copies a pointer.
#[derive(Clone, Default)]
pub struct Then(OrdMap<Key, Object>);

impl World {
    /// Notes from now on what is read, but for the object at `own`.
    pub(crate) fn begin_reading(&mut self, own: &Key) {
        self.notebook = Notebook { own: Some(own.clone()), reads: Cell::default() };
    }

    /// Notes from now on what is read.
    pub(crate) fn begin_listing(&mut self) {
        self.notebook = Notebook::default();
    }

    /// Notes that the resource of each of these is read.
    pub(crate) fn note_all<'k>(&self, keys: impl Iterator<Item = &'k Key>) {
        let mut last: Option<&Resource> = None;
        for resource in keys.map(Key::resource) {
            if last.replace(resource) != Some(resource) {
                self.read(resource.as_str());
            }
        }
    }

    /// What has been read since [`World::begin_reading`] or [`World::begin_listing`].
    pub(crate) fn reads(&self) -> Reads {
        self.notebook.reads.get()
    }

    /// `true` if any of these resources has changed since a revision, by more than a heartbeat.
    pub(crate) fn has_changed(&self, reads: Reads, since: Revision) -> bool {
        self.tables.values().any(|table| table.changed > since && reads.has(Reads::of(table)))
    }

    /// The table of a resource, for who reads it.
    fn read(&self, resource: &str) -> Option<(&Resource, &Table)> {
        let found = self.tables.get_key_value(resource);
        // Nobody can tell which table it will be.
        self.notebook.note(found.map_or(Reads::ALL, |(_, table)| Reads::of(table)));
        found
    }

    /// The objects of a resource as they are now: see [`World::changes_since`].
    #[must_use]
    pub fn then(&self, resource: &str) -> Then {
        Then(self.read(resource).map(|(_, table)| table.objects.clone()).unwrap_or_default())
    }

    /// What changed of a resource since then: what each object was, and what it is. It takes time proportional to the
    /// changes, and to where they are, not to what there is.
    pub fn changes_since<'a>(
        &'a self,
        then: &'a Then,
        resource: &str,
    ) -> impl Iterator<Item = (Option<&'a Object>, Option<&'a Object>)> {
        let table = self.read(resource).map(|(_, table)| table);
        let gone = table.is_none().then(|| then.0.values().map(|object| (Some(object), None)));
        let changed = table.map(|table| then.0.diff(&table.objects));
        let changed = changed.into_iter().flatten().map(|change| match change {
            DiffItem::Add(_, now) => (None, Some(now)),
            DiffItem::Update { old: (_, was), new: (_, now) } => (Some(was), Some(now)),
            DiffItem::Remove(_, was) => (Some(was), None),
        });
        gone.into_iter().flatten().chain(changed)
    }

    /// An empty world that keeps these indexes, each once: several who need the same one may all name it.
    #[must_use]
    pub fn new(indexes: impl IntoIterator<Item = Index>) -> World {
        let mut kept: Vec<(Index, Entries)> = Vec::new();
        for index in indexes {
            if kept.iter().all(|(other, _)| other.name != index.name) {
                kept.push((index, Entries::new()));
            }
        }
        World { indexes: kept, ..World::default() }
    }

    /// The revision up to which everything is known.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The revision up to which changes of a resource are known: at least that of the world.
    #[must_use]
    pub fn revision_of(&self, resource: &Resource) -> Revision {
        self.tables.get(resource).map_or(self.revision, |table| table.revision.max(self.revision))
    }

    /// The revision of the last change of a resource that was taken in; of its list if that is newer.
    #[must_use]
    pub fn last_change(&self, resource: &Resource) -> Revision {
        self.tables.get(resource).map_or(Revision::ZERO, |table| table.revision)
    }

    /// The object at a key.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Object> {
        let table = self.tables.get(key.resource());
        if self.notebook.own.as_ref() != Some(key) {
            // A resource that is not there yet has no bit of its own.
            self.notebook.note(table.map_or(Reads::ALL, Reads::of));
        }
        table?.objects.get(key)
    }

    /// The object of a resource in a namespace (empty for none) with a name.
    #[must_use]
    pub fn find(&self, resource: &str, namespace: &str, name: &str) -> Option<&Object> {
        let Some((resource, _)) = self.tables.get_key_value(resource) else {
            self.notebook.note(Reads::ALL);
            return None;
        };
        let key = if namespace.is_empty() {
            Key::cluster(resource, name)
        } else {
            Key::namespaced(resource, namespace, name)
        };
        self.get(&key.ok()?)
    }

    /// An object and its view.
    #[must_use]
    pub fn view<V: View>(&self, namespace: &str, name: &str) -> Option<(&Object, &V)> {
        let object = self.find(V::RESOURCE, namespace, name)?;
        Some((object, object.view()?))
    }

    /// All objects of a resource, in the order of their paths.
    pub fn all(&self, resource: &str) -> impl Iterator<Item = &Object> {
        self.read(resource).into_iter().flat_map(|(_, table)| table.objects.values())
    }

    /// All objects of a resource with their views.
    pub fn views<V: View>(&self) -> impl Iterator<Item = (&Object, &V)> {
        self.all(V::RESOURCE).filter_map(|object| Some((object, object.view()?)))
    }

    /// The objects of a resource in a namespace.
    pub fn in_namespace<'a>(
        &'a self,
        resource: &str,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Object> {
        let table = self.read(resource).filter(|(_, table)| !table.objects.is_empty());
        let start = table.and_then(|(resource, _)| Key::namespaced(resource, namespace, "\u{20}").ok());
        table.zip(start).into_iter().flat_map(move |((_, table), start)| {
            let range = table.objects.range((Bound::Included(start), Bound::Unbounded));
            range.take_while(move |(key, _)| key.namespace() == Some(namespace)).map(|(_, object)| object)
        })
    }

    /// How many objects of a resource there are.
    #[must_use]
    pub fn count(&self, resource: &str) -> usize {
        self.read(resource).map_or(0, |(_, table)| table.objects.len())
    }

    /// The resources of which anything was ever known.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.tables.keys()
    }

    /// The object with an identity, of whatever resource but Events.
    #[must_use]
    pub fn identified(&self, uid: &str) -> Option<&Object> {
        let Some(key) = self.identities.get(uid) else {
            // Whoever will have it may be of any resource.
            self.notebook.note(Reads::ALL);
            return None;
        };
        self.get(key)
    }

    /// What an identity owns, over all resources but Events.
    pub fn dependents<'a>(&'a self, uid: &str) -> impl Iterator<Item = &'a Object> + use<'a> {
        self.notebook.note(Reads::ALL);
        self.entries(&self.owned, uid)
    }

    /// What an identity owns of one resource.
    pub fn owned<'a>(
        &'a self,
        uid: &str,
        resource: &'static str,
    ) -> impl Iterator<Item = &'a Object> + use<'a> {
        // Entries order by resource within an identity, so the range could start there; owners rarely own several.
        self.read(resource);
        self.entries(&self.owned, uid).filter(move |object| object.key().resource().as_str() == resource)
    }

    /// What an index holds under a value.
    ///
    /// # Panics
    /// If there is no such index: planners and the world are put together in one place.
    pub fn indexed<'a>(&'a self, index: &str, value: &str) -> impl Iterator<Item = &'a Object> + use<'a> {
        self.entries(self.index_of(index), value)
    }

    /// Whether an index holds anything at all: to make up a value to ask for may cost more than that.
    ///
    /// # Panics
    /// As [`World::indexed`].
    #[must_use]
    pub fn has_indexed(&self, index: &str) -> bool {
        !self.index_of(index).is_empty()
    }

    /// What an index holds, for who reads it.
    fn index_of(&self, index: &str) -> &Entries {
        let declared = self.indexes.iter().find(|(declared, _)| declared.name == index);
        let (declared, entries) = declared.expect("the index was declared");
        self.read(declared.resource);
        entries
    }

    fn entries<'a>(
        &'a self,
        entries: &'a Entries,
        value: &str,
    ) -> impl Iterator<Item = &'a Object> + use<'a> {
        let start = (!entries.is_empty()).then(|| (Arc::from(value), LEAST.clone()));
        let range = start.into_iter().flat_map(|start: (Arc<str>, Key)| {
            let value = Arc::clone(&start.0);
            let range = entries.range((Bound::Included(start), Bound::Unbounded));
            range.take_while(move |(found, _)| *found == value)
        });
        range.filter_map(|(_, key)| self.tables.get(key.resource())?.objects.get(key))
    }

    /// Puts an object in its place, and gives what stood there.
    pub fn put(&mut self, object: Object) -> Option<Object> {
        let table = self.table(object.key().resource());
        table.revision = table.revision.max(object.revision());
        let before = table.objects.insert(object.key().clone(), object.clone());
        if before.as_ref().is_none_or(|before| !is_heartbeat(before, &object)) {
            table.changed = table.changed.max(object.revision());
        }
        if object.key().resource().as_str() == EVENTS {
            return before;
        }
        // There are more changes of pods than of anything else, and more pods.
        if object.key().resource().as_str() == Pod::RESOURCE {
            match &before {
                Some(before) => object.view_after::<Pod>(before),
                None => {
                    if let Some(like) = self.sibling(&object) {
                        object.view_beside::<Pod>(like);
                    }
                }
            }
        }
        // An identity seldom changes hands, so most writes leave the tree of identities alone.
        let uid = &object.meta().uid;
        if before.as_ref().is_none_or(|before| before.meta().uid != *uid) {
            self.forget_identity(before.as_ref());
            self.identities.insert(uid.as_ref().into(), object.key().clone());
        }
        self.index(before.as_ref(), Some(&object));
        before
    }

    /// A neighbor of an object that has the same controller: names of pods of one controller begin alike.
    fn sibling(&self, object: &Object) -> Option<&Object> {
        let (key, controller) = (object.key(), object.meta().controller().map(|owner| &owner.uid));
        let objects = &self.tables.get(key.resource())?.objects;
        let is_like = |other: &&Object| other.meta().controller().map(|owner| &owner.uid) == controller;
        let before = objects.range(..key.clone()).next_back().map(|(_, other)| other);
        before.filter(is_like).or_else(|| {
            let behind = objects.range((Bound::Excluded(key.clone()), Bound::Unbounded)).next();
            behind.map(|(_, other)| other).filter(is_like)
        })
    }

    /// Takes away the object at a key, and gives it.
    pub fn remove(&mut self, key: &Key, revision: Revision) -> Option<Object> {
        let table = self.table(key.resource());
        table.revision = table.revision.max(revision);
        table.changed = table.changed.max(revision);
        let before = table.objects.remove(key)?;
        if key.resource().as_str() != EVENTS {
            self.index(Some(&before), None);
            self.forget_identity(Some(&before));
        }
        Some(before)
    }

    /// Says that everything up to a revision is known.
    pub fn reach(&mut self, revision: Revision) {
        self.revision = self.revision.max(revision);
    }

    /// Says that all changes of a resource up to a revision are known.
    pub fn reach_of(&mut self, resource: &Resource, revision: Revision) {
        let table = self.table(resource);
        table.revision = table.revision.max(revision);
    }

    fn forget_identity(&mut self, of: Option<&Object>) {
        let Some(object) = of else { return };
        if self.identities.get(&*object.meta().uid) == Some(object.key()) {
            self.identities.remove(&*object.meta().uid);
        }
    }

    fn table(&mut self, resource: &Resource) -> &mut Table {
        let number = self.tables.len();
        self.tables.entry(resource.clone()).or_insert_with(|| Table { number, ..Table::default() })
    }

    /// Brings all indexes from what an object was to what it is. Most changes concern none of them.
    fn index(&mut self, before: Option<&Object>, after: Option<&Object>) {
        let Some(key) = after.or(before).map(Object::key) else { return };
        move_entries(&mut self.owned, key, values(before, owners), values(after, owners));
        for (index, entries) in indexes_of(&mut self.indexes, key) {
            move_entries(entries, key, values(before, index.values), values(after, index.values));
        }
    }
}

/// The least key there can be, where a range over all of them starts.
static LEAST: LazyLock<Key> = LazyLock::new(|| {
    let least = Resource::new("!").and_then(|resource| Key::from_path(&resource, "!"));
    least.expect("a name and a path")
});

fn owners(object: &Object, found: &mut dyn FnMut(&str)) {
    object.meta().owner_references.iter().for_each(|owner| found(&owner.uid));
}

/// Under which values an index holds an object.
fn values(object: Option<&Object>, of: Values) -> Vec<Arc<str>> {
    let mut values = Vec::new();
    if let Some(object) = object {
        of(object, &mut |value| values.push(value.into()));
    }
    values
}

/// Moves a key from values to others.
fn move_entries(entries: &mut Entries, key: &Key, before: Vec<Arc<str>>, after: Vec<Arc<str>>) {
    if before == after {
        return;
    }
    for value in before {
        entries.remove(&(value, key.clone()));
    }
    for value in after {
        let value = shared(entries, value);
        entries.insert((value, key.clone()));
    }
}

/// The same value as other entries have it: many pods are found under one owner, node or label.
fn shared(entries: &Entries, value: Arc<str>) -> Arc<str> {
    let start = (Arc::clone(&value), LEAST.clone());
    let first = entries.range((Bound::Included(start), Bound::Unbounded)).next();
    first.filter(|(found, _)| *found == value).map_or(value, |(found, _)| Arc::clone(found))
}

/// The indexes over the resource of a key.
fn indexes_of<'a>(
    indexes: &'a mut [(Index, Entries)],
    key: &'a Key,
) -> impl Iterator<Item = &'a mut (Index, Entries)> {
    indexes.iter_mut().filter(move |(index, _)| index.resource == key.resource().as_str())
}

#[cfg(test)]
mod tests {
    use setpoint_api::Time;

    use super::*;

    const BY_APP: Index = Index {
        name: "app",
        resource: "pods",
        values: |object, found| {
            if let Some(app) = object.meta().labels.get("app") {
                found(app);
            }
        },
    };

    fn pod(path: &str, revision: u64, app: &str, owner: &str) -> Object {
        let key = Key::from_path(&Resource::new("pods").unwrap(), path).unwrap();
        let text = format!(
            r#"{{"metadata":{{"name":"{}","uid":"uid of {path} at {revision}","labels":{{"app":"{app}"}},"ownerReferences":[{{"uid":"{owner}"}}]}}}}"#,
            key.name()
        );
        Object::read(key, Revision(revision), Time::EPOCH, text).unwrap()
    }

    /// A pod in its stored form: with its owner, image and node.
    fn stored_pod(name: &str, revision: u64, owner: &str, image: &str, node: &str) -> Object {
        let key = Key::from_path(&Resource::new("pods").unwrap(), &format!("a/{name}")).unwrap();
        let node = if node.is_empty() { String::new() } else { format!(r#""nodeName":"{node}","#) };
        let text = format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","uid":"{name}","labels":{{"app":"{image}"}},"ownerReferences":[{{"uid":"{owner}","controller":true}}],"managedFields":[{{"manager":"m"}}]}},"spec":{{"volumes":[{{"name":"token-{name}"}}],"containers":[{{"name":"c","image":"{image}"}}],{node}"schedulerName":"s"}},"status":{{"phase":"Running","containerStatuses":[{{"name":"c","restartCount":{revision}}}]}}}}"#
        );
        Object::read(key, Revision(revision), Time::EPOCH, text).unwrap()
    }

    fn spec_of<'a>(world: &'a World, name: &str) -> &'a crate::views::pod::PodSpec {
        &world.view::<Pod>("a", name).unwrap().1.spec
    }

    #[test]
    fn pods_of_one_template_share_their_spec_whatever_becomes_of_them() {
        let mut world = World::new([crate::views::pod::BY_NODE]);
        let name = |i: u64| format!("web-{:03}", i * 37 % 100);
        for i in 0..100 {
            world.put(stored_pod(&name(i), i + 1, "o1", "i1", ""));
        }
        for i in 0..100 {
            world.put(stored_pod(&name(i), i + 200, "o1", "i1", &format!("n{i}")));
        }
        let specs = |world: &World| -> Vec<crate::views::pod::PodSpec> {
            (0..100).map(|i| spec_of(world, &name(i)).clone()).collect()
        };
        let mut distinct: Vec<crate::views::pod::PodSpec> = Vec::new();
        for spec in specs(&world) {
            if !distinct.iter().any(|other| other.shares_with(&spec)) {
                distinct.push(spec);
            }
        }
        assert_eq!(distinct.len(), 1, "one spec for all pods");
        let spec = spec_of(&world, "web-037");
        assert_eq!((spec.node_name.as_str(), spec.volumes[0].name.as_str()), ("n1", "token-web-037"));
        world.put(stored_pod("web-037", 400, "o1", "i2", "n1"));
        assert_eq!(spec_of(&world, "web-037").containers[0].image, "i2");
        assert_eq!(spec_of(&world, "web-036").containers[0].image, "i1", "others keep theirs");
    }

    /// Everything that planners can see of the pods of a world.
    fn shown(world: &World) -> String {
        let pods: Vec<String> = world
            .views::<Pod>()
            .map(|(object, pod)| format!("{object:?} {:?} {:?} {:?}", object.meta(), pod.spec, pod.status))
            .collect();
        let indexed =
            ["n0", "n1", ""].map(|node| names(world.indexed(crate::views::pod::BY_NODE.name, node)));
        let owned = ["o0", "o1"].map(|owner| names(world.owned(owner, "pods")));
        format!("{pods:#?} {indexed:?} {owned:?}")
    }

    proptest::proptest! {
        #[test]
        fn a_world_that_followed_every_change_is_the_one_that_was_read_at_once(
            changes in proptest::collection::vec((0u64..8, 0u8..2, 0u8..3, 0u8..3, 0u8..6), 1..60),
        ) {
            let new = || World::new([crate::views::pod::BY_NODE]);
            let (mut world, mut last) = (new(), std::collections::BTreeMap::new());
            for (i, (pod, owner, image, node, deleted)) in changes.into_iter().enumerate() {
                let node = if node == 2 { String::new() } else { format!("n{node}") };
                let (owner, image) = (format!("o{owner}"), format!("i{image}"));
                let object = |revision| stored_pod(&format!("web-{pod}"), revision, &owner, &image, &node);
                let revision = i as u64 + 1;
                if deleted == 0 {
                    world.remove(object(revision).key(), Revision(revision));
                    last.remove(&pod);
                } else {
                    world.put(object(revision));
                    last.insert(pod, object(revision));
                }
                let mut at_once = new();
                last.values().for_each(|object| drop(at_once.put(object.clone())));
                proptest::prop_assert_eq!(shown(&world), shown(&at_once));
                let mut backwards = new();
                last.values().rev().for_each(|object| drop(backwards.put(object.clone())));
                proptest::prop_assert_eq!(shown(&world), shown(&backwards));
            }
        }
    }

    fn node(revision: u64, ready: &str, beat: i64) -> Object {
        let key = Key::from_path(&Resource::new("nodes").unwrap(), "n").unwrap();
        let beat = setpoint_api::rfc3339::Seconds(Time::from_seconds(beat));
        let text = format!(
            r#"{{"metadata":{{"name":"n","uid":"u","resourceVersion":"{revision}"}},"status":{{"conditions":[{{"type":"Ready","status":"{ready}","lastHeartbeatTime":"{beat}"}}]}}}}"#
        );
        Object::read(key, Revision(revision), Time::EPOCH, text).unwrap()
    }

    fn names<'a>(objects: impl Iterator<Item = &'a Object>) -> Vec<&'a str> {
        objects.map(|object| object.key().path()).collect()
    }

    #[test]
    fn indexes_follow_every_change_and_old_worlds_stay() {
        let mut world = World::new([BY_APP]);
        world.put(pod("a/x", 1, "web", "o1"));
        world.put(pod("a/y", 2, "web", "o2"));
        world.put(pod("a-b/z", 3, "web", "o1"));
        let old = world.clone();
        world.put(pod("a/x", 4, "db", "o2"));
        world.remove(pod("a/y", 5, "", "").key(), Revision(5));
        assert_eq!(names(world.indexed("app", "web")), ["a-b/z"]);
        assert_eq!(names(world.indexed("app", "db")), ["a/x"]);
        assert_eq!(names(world.dependents("o1")), ["a-b/z"]);
        assert_eq!(names(world.owned("o2", "pods")), ["a/x"]);
        assert_eq!(names(world.identified("uid of a/x at 4").into_iter()), ["a/x"]);
        assert!(
            world.identified("uid of a/x at 1").is_none() && world.identified("uid of a/y at 2").is_none()
        );
        assert_eq!(names(old.identified("uid of a/x at 1").into_iter()), ["a/x"]);
        assert_eq!(names(old.indexed("app", "web")), ["a-b/z", "a/x", "a/y"]);
        assert_eq!(names(old.dependents("o1")), ["a-b/z", "a/x"]);
        assert_eq!(names(old.in_namespace("pods", "a")), ["a/x", "a/y"]);
        assert_eq!(world.revision_of(&Resource::new("pods").unwrap()), Revision(5));
        assert!(world.find("pods", "a", "y").is_none() && world.find("pods", "a", "x").is_some());
    }

    #[test]
    fn entries_of_one_value_share_it() {
        let mut world = World::new([BY_APP]);
        for i in 0..100 {
            world.put(pod(&format!("a/x{:02}", i * 37 % 100), i + 1, "web", "o1"));
        }
        let by_app = &world.indexes[0].1;
        for entries in [by_app, &world.owned] {
            let values: Vec<&Arc<str>> = entries.iter().map(|(value, _)| value).collect();
            assert!(values.len() == 100 && values.iter().all(|value| Arc::ptr_eq(value, values[0])));
        }
    }

    #[test]
    fn what_was_read_is_known_but_for_what_one_reads_of_oneself() {
        let mut world = World::new([BY_APP]);
        let own = pod("a/x", 1, "web", "o1");
        world.put(own.clone());
        world.reach_of(&Resource::new("nodes").unwrap(), Revision(1));
        let mut changes = |read: &dyn Fn(&World) -> bool| {
            world.begin_reading(own.key());
            read(&world);
            let reads = world.reads();
            let mut later = world.clone();
            later.reach_of(&Resource::new("nodes").unwrap(), Revision(2));
            assert!(!later.has_changed(reads, Revision(1)), "that all is known is no change");
            later.put(node(2, "True", 1));
            let nodes = later.has_changed(reads, Revision(1));
            later.put(node(3, "True", 2));
            assert!(!later.has_changed(reads, Revision(2)), "a heartbeat is no change");
            later.put(node(4, "False", 3));
            assert_eq!(later.has_changed(reads, Revision(3)), nodes);
            let mut later = world.clone();
            later.put(pod("a/y", 2, "web", "o2"));
            (nodes, later.has_changed(reads, Revision(1)))
        };
        assert_eq!(changes(&|world| world.get(own.key()).is_some()), (false, false));
        assert_eq!(changes(&|world| world.find("pods", "a", "x").is_some()), (false, false));
        assert_eq!(changes(&|world| world.find("pods", "a", "y").is_some()), (false, true));
        assert_eq!(changes(&|world| world.find("nodes", "", "n").is_some()), (true, false));
        assert_eq!(changes(&|world| world.indexed("app", "none").count() > 0), (false, true));
        assert_eq!(changes(&|world| world.owned("none", "pods").count() > 0), (false, true));
        assert_eq!(changes(&|world| world.dependents("none").count() > 0), (true, true));
        assert_eq!(changes(&|world| world.identified("none").is_some()), (true, true));
        assert_eq!(changes(&|world| world.all("unheard of").count() > 0), (true, true));
    }

    #[test]
    fn what_changed_since_then_is_what_was_put_and_removed() {
        let mut world = World::default();
        for i in 0..500 {
            world.put(pod(&format!("a/x{i:03}"), i + 1, "", ""));
        }
        let then = world.then("pods");
        assert_eq!(world.changes_since(&then, "pods").count(), 0);
        world.put(pod("a/x250", 600, "", ""));
        world.put(pod("a/x0001", 601, "", ""));
        world.remove(pod("a/x499", 0, "", "").key(), Revision(602));
        let path = |object: Option<&Object>| object.map(|object| object.key().path().to_owned());
        let changes: Vec<_> =
            world.changes_since(&then, "pods").map(|(was, now)| (path(was), path(now))).collect();
        let expected = [
            (None, Some("a/x0001".to_owned())),
            (Some("a/x250".to_owned()), Some("a/x250".to_owned())),
            (Some("a/x499".to_owned()), None),
        ];
        assert_eq!(changes, expected);
        assert_eq!(World::default().changes_since(&then, "pods").count(), 500);
    }
}
