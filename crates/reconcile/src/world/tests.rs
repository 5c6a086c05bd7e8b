//! Tests of the world, its indexes and its reader.

use setpoint_api::Time;

use super::*;

const BY_APP: Index = Index {
    name: "app",
    resource: "pods",
    values: |object, emit| {
        if let Some(app) = object.meta().labels.get("app") {
            emit(app);
        }
    },
};

fn config() -> WorldConfig {
    let heartbeats = &[Heartbeat { resource: "nodes", field: "lastHeartbeatTime" }];
    WorldConfig { indexes: vec![BY_APP], heartbeats, ..WorldConfig::default() }
}

fn pod(path: &str, revision: u64, app: &str, owner: &str) -> Object {
    let key = Key::from_path(&Resource::new("pods").unwrap(), path).unwrap();
    let text = format!(
        r#"{{"metadata":{{"name":"{}","uid":"uid of {path} at {revision}","labels":{{"app":"{app}"}},"ownerReferences":[{{"uid":"{owner}"}}]}}}}"#,
        key.name()
    );
    Object::read(key, Revision(revision), Time::EPOCH, text).unwrap()
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
    let mut world = World::new(config());
    world.put(pod("a/x", 1, "web", "o1"));
    world.put(pod("a/y", 2, "web", "o2"));
    world.put(pod("a-b/z", 3, "web", "o1"));
    let old = world.clone();
    world.put(pod("a/x", 4, "db", "o2"));
    world.remove(pod("a/y", 5, "", "").key(), Revision(5));
    assert_eq!(names(world.reader().by_index("app", "web")), ["a-b/z"]);
    assert_eq!(names(world.reader().by_index("app", "db")), ["a/x"]);
    assert_eq!(names(world.reader().dependents("o1")), ["a-b/z"]);
    assert_eq!(names(world.reader().owned("o2", "pods")), ["a/x"]);
    assert_eq!(names(world.reader().get_by_uid("uid of a/x at 4").into_iter()), ["a/x"]);
    assert!(
        world.reader().get_by_uid("uid of a/x at 1").is_none()
            && world.reader().get_by_uid("uid of a/y at 2").is_none()
    );
    assert_eq!(names(old.reader().get_by_uid("uid of a/x at 1").into_iter()), ["a/x"]);
    assert_eq!(names(old.reader().by_index("app", "web")), ["a-b/z", "a/x", "a/y"]);
    assert_eq!(names(old.reader().dependents("o1")), ["a-b/z", "a/x"]);
    assert_eq!(names(old.reader().in_namespace("pods", "a")), ["a/x", "a/y"]);
    assert_eq!(world.revision_of(&Resource::new("pods").unwrap()), Revision(5));
    assert!(
        world.reader().find("pods", "a", "y").is_none() && world.reader().find("pods", "a", "x").is_some()
    );
}

#[test]
fn entries_of_one_value_share_it() {
    let mut world = World::new(config());
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
fn reader_records_resources_but_not_reads_of_its_own_object() {
    let mut world = World::new(config());
    let own = pod("a/x", 1, "web", "o1");
    world.put(own.clone());
    world.advance_resource_to(&Resource::new("nodes").unwrap(), Revision(1));
    let changes = |read: &dyn Fn(&WorldReader<'_>) -> bool| {
        let reader = world.reader_for(own.key());
        read(&reader);
        let reads = reader.reads();
        let mut later = world.clone();
        later.advance_resource_to(&Resource::new("nodes").unwrap(), Revision(2));
        assert!(!later.has_changed(reads, Revision(1)), "advancing a revision is no change");
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
    assert_eq!(changes(&|reader| reader.get(own.key()).is_some()), (false, false));
    assert_eq!(changes(&|reader| reader.find("pods", "a", "x").is_some()), (false, false));
    assert_eq!(changes(&|reader| reader.find("pods", "a", "y").is_some()), (false, true));
    assert_eq!(changes(&|reader| reader.find("nodes", "", "n").is_some()), (true, false));
    assert_eq!(changes(&|reader| reader.by_index("app", "none").count() > 0), (false, true));
    assert_eq!(changes(&|reader| reader.owned("none", "pods").count() > 0), (false, true));
    assert_eq!(changes(&|reader| reader.dependents("none").count() > 0), (true, true));
    assert_eq!(changes(&|reader| reader.get_by_uid("none").is_some()), (true, true));
    assert_eq!(changes(&|reader| reader.all("unknown").count() > 0), (true, true));
}

#[test]
fn changes_since_a_snapshot_are_the_puts_and_removals() {
    let mut world = World::default();
    for i in 0..500 {
        world.put(pod(&format!("a/x{i:03}"), i + 1, "", ""));
    }
    let snapshot = world.reader().table_snapshot("pods");
    assert_eq!(world.reader().changes_since(&snapshot, "pods").count(), 0);
    world.put(pod("a/x250", 600, "", ""));
    world.put(pod("a/x0001", 601, "", ""));
    world.remove(pod("a/x499", 0, "", "").key(), Revision(602));
    let path = |object: Option<&Object>| object.map(|object| object.key().path().to_owned());
    let changes: Vec<_> =
        world.reader().changes_since(&snapshot, "pods").map(|(was, now)| (path(was), path(now))).collect();
    let expected = [
        (None, Some("a/x0001".to_owned())),
        (Some("a/x250".to_owned()), Some("a/x250".to_owned())),
        (Some("a/x499".to_owned()), None),
    ];
    assert_eq!(changes, expected);
    assert_eq!(World::default().reader().changes_since(&snapshot, "pods").count(), 500);
}

#[test]
fn removed_resource_leaves_no_trace_in_indexes() {
    let mut world = World::new(config());
    world.put(pod("a/x", 1, "web", "o1"));
    world.put(node(2, "True", 1));
    let old = world.clone();
    let pods = Resource::new("pods").unwrap();
    let reads = {
        let reader = world.reader();
        assert!(reader.find_resource("pods").is_some());
        reader.reads()
    };
    assert!(!world.has_changed(reads, Revision(2)));
    world.remove_resource(&pods, Revision(3));
    assert!(world.has_changed(reads, Revision(2)), "a removal is a change");
    let reader = world.reader();
    assert!(reader.find_resource("pods").is_none() && reader.find_resource("nodes").is_some());
    assert_eq!(reader.by_index("app", "web").count() + reader.dependents("o1").count(), 0);
    assert!(reader.get_by_uid("uid of a/x at 1").is_none());
    assert_eq!(reader.resources().count(), 1);
    assert_eq!(names(old.reader().all("pods")), ["a/x"], "an old world stays");
    world.put(pod("a/x", 4, "web", "o1"));
    assert!(world.has_changed(Reads::default(), Revision(3)), "a new table is a change");
    assert_eq!(names(world.reader().by_index("app", "web")), ["a/x"]);
}
