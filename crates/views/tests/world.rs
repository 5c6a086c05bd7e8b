//! Views in a world: shared pod specs, and equality of an incrementally updated world with one built from scratch.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use setpoint_api::{Key, Resource, Revision, Time};
use setpoint_reconcile::{Object, World};
use setpoint_views::pod::{BY_NODE, Pod, PodSpec};
use setpoint_views::world_config;

fn names<'a>(objects: impl Iterator<Item = &'a Object>) -> Vec<&'a str> {
    objects.map(|object| object.key().path()).collect()
}

/// Returns a pod in its stored form.
fn stored_pod(name: &str, revision: u64, owner: &str, image: &str, node: &str) -> Object {
    let key = Key::from_path(&Resource::new("pods").unwrap(), &format!("a/{name}")).unwrap();
    let node = if node.is_empty() { String::new() } else { format!(r#""nodeName":"{node}","#) };
    let text = format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","uid":"{name}","labels":{{"app":"{image}"}},"ownerReferences":[{{"uid":"{owner}","controller":true}}],"managedFields":[{{"manager":"m"}}]}},"spec":{{"volumes":[{{"name":"token-{name}"}}],"containers":[{{"name":"c","image":"{image}"}}],{node}"schedulerName":"s"}},"status":{{"phase":"Running","containerStatuses":[{{"name":"c","restartCount":{revision}}}]}}}}"#
    );
    Object::read(key, Revision(revision), Time::EPOCH, text).unwrap()
}

fn spec_of<'a>(world: &'a World, name: &str) -> &'a PodSpec {
    &world.reader().view::<Pod>("a", name).unwrap().1.spec
}

#[test]
fn pods_of_one_template_share_their_spec() {
    let mut world = World::new(world_config([BY_NODE]));
    let name = |i: u64| format!("web-{:03}", i * 37 % 100);
    for i in 0..100 {
        world.put(stored_pod(&name(i), i + 1, "o1", "i1", ""));
    }
    for i in 0..100 {
        world.put(stored_pod(&name(i), i + 200, "o1", "i1", &format!("n{i}")));
    }
    let specs =
        |world: &World| -> Vec<PodSpec> { (0..100).map(|i| spec_of(world, &name(i)).clone()).collect() };
    let mut distinct: Vec<PodSpec> = Vec::new();
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
    assert_eq!(spec_of(&world, "web-036").containers[0].image, "i1", "other pods keep their spec");
}

/// Formats everything that planners can read of the pods of a world.
fn dump(world: &World) -> String {
    let pods: Vec<String> = world
        .reader()
        .views::<Pod>()
        .map(|(object, pod)| format!("{object:?} {:?} {:?} {:?}", object.meta(), pod.spec, pod.status))
        .collect();
    let indexed = ["n0", "n1", ""].map(|node| names(world.reader().by_index(BY_NODE.name, node)));
    let owned = ["o0", "o1"].map(|owner| names(world.reader().owned(owner, "pods")));
    format!("{pods:#?} {indexed:?} {owned:?}")
}

proptest::proptest! {
    #[test]
    fn incrementally_updated_world_equals_one_built_from_scratch(
        changes in proptest::collection::vec((0u64..8, 0u8..2, 0u8..3, 0u8..3, 0u8..6), 1..60),
    ) {
        let new = || World::new(world_config([BY_NODE]));
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
            let mut from_scratch = new();
            last.values().for_each(|object| drop(from_scratch.put(object.clone())));
            proptest::prop_assert_eq!(dump(&world), dump(&from_scratch));
            let mut reversed = new();
            last.values().rev().for_each(|object| drop(reversed.put(object.clone())));
            proptest::prop_assert_eq!(dump(&world), dump(&reversed));
        }
    }
}
