//! Claims about how much the cache does and keeps.

use setpoint_api::{Revision, Time, Value, json, value};
use setpoint_reconcile::planner::key_of;

use super::*;
use crate::profile::Profile;
use crate::rules::spread;

fn put(world: &mut World, resource: &str, namespace: &str, name: &str, object: &Value) {
    let key = key_of(resource, namespace, name).unwrap();
    let revision = Revision(world.revision().0 + 1);
    let bytes = bytes::Bytes::from(json::to_text(object));
    world.put(Object::read(key, revision, Time::EPOCH, bytes).unwrap());
    world.reach(revision);
}

fn remove(world: &mut World, resource: &str, namespace: &str, name: &str) {
    let revision = Revision(world.revision().0 + 1);
    world.remove(&key_of(resource, namespace, name).unwrap(), revision);
    world.reach(revision);
}

fn put_pod(world: &mut World, name: &str, node: &str, affinity: Value) {
    let metadata = value!({"name": (name), "namespace": "a", "uid": (name), "labels": {"app": (name)}});
    let spec = value!({"nodeName": (node), "containers": [], "affinity": (affinity)});
    put(world, "pods", "a", name, &value!({"metadata": (metadata), "spec": (spec)}));
}

#[test]
fn many_pods_that_shun_their_own_are_not_counted_anew_with_every_change() {
    let mut world = World::default();
    put(&mut world, "nodes", "", "n", &value!({"metadata": {"name": "n", "uid": "n"}}));
    for i in 0..COUNTERS_MAX + 100 {
        let name = format!("p{i}");
        let term =
            value!({"labelSelector": {"matchLabels": {"app": (name.as_str())}}, "topologyKey": "zone"});
        let far = value!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [(term)]}});
        put_pod(&mut world, &name, "n", far);
    }
    let mut cache = Cache::default();
    cache.follow(&world, |_, _| true);
    assert!(cache.counters.all.len() > COUNTERS_MAX && cache.counters_kept == cache.counters.all.len());
    // Whoever counts anew says so here.
    cache.counters_kept += 1;
    cache.stir_waiting();
    for i in 0..5 {
        put_pod(&mut world, &format!("more{i}"), "n", Value::Null);
        cache.follow(&world, |_, _| true);
    }
    assert_eq!(cache.counters_kept, cache.counters.all.len() + 1);
}

#[test]
fn counters_that_waiting_pods_ask_for_stay_however_many_they_are_and_go_with_them() {
    let mut world = World::default();
    put(&mut world, "nodes", "", "n", &value!({"metadata": {"name": "n", "uid": "n"}}));
    let count = COUNTERS_MAX + 100;
    for i in 0..count {
        let name = format!("p{i}");
        let labels = value!({"app": (name.as_str())});
        let spread = value!([{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": (labels.clone())},
        }]);
        let metadata =
            value!({"name": (name.as_str()), "namespace": "a", "uid": (name.as_str()), "labels": (labels)});
        let spec = value!({"containers": [], "topologySpreadConstraints": (spread)});
        put(&mut world, "pods", "a", &name, &value!({"metadata": (metadata), "spec": (spec)}));
    }
    let mut cache = Cache::default();
    cache.follow(&world, |_, _| true);
    let shapes: Vec<Arc<Shape>> =
        cache.shapes.iter().flatten().map(|entry| Arc::clone(&entry.shape)).collect();
    let profile = Profile::named("any");
    for shape in &shapes {
        assert_eq!(spread::gates(&mut cache, shape, &profile, &world).unwrap().len(), 1);
    }
    assert_eq!(cache.counters.all.len(), count);
    put_pod(&mut world, "comes", "n", Value::Null);
    cache.follow(&world, |_, _| true);
    assert_eq!(cache.counters.all.len(), count, "they were dropped while pods wait");
    for i in 0..count - 10 {
        remove(&mut world, "pods", "a", &format!("p{i}"));
    }
    cache.follow(&world, |_, _| true);
    assert_eq!(cache.counters.all.len(), 0, "nobody needs them any more");
}

#[test]
fn to_count_anew_helps_nobody_and_whoever_comes_then_presses_nobody() {
    let mut world = World::default();
    put(&mut world, "nodes", "", "n", &value!({"metadata": {"name": "n", "uid": "n"}}));
    put_pod(&mut world, "waits", "", Value::Null);
    let mut cache = Cache::default();
    cache.follow(&world, |_, _| true);
    let id = *cache.line.values().next().unwrap() as usize;
    let waiting = |cache: &Cache| cache.pods[id].as_ref().unwrap().waiting.unwrap();
    cache.pods[id].as_mut().unwrap().waiting = Some(Waiting::after(None, Helps::PODS_CAME, Time::EPOCH));
    cache.news = News::default();
    cache.recount();
    cache.stir_waiting();
    assert!(!waiting(&cache).is_stirred && !waiting(&cache).is_pressing);
    put_pod(&mut world, "comes", "n", Value::Null);
    cache.follow(&world, |_, _| true);
    cache.stir_waiting();
    assert!(waiting(&cache).is_stirred && !waiting(&cache).is_pressing);
}

#[test]
fn nodes_that_went_are_forgotten_and_those_that_are_left_keep_their_pods() {
    let mut world = World::default();
    let mut cache = Cache::default();
    put(&mut world, "nodes", "", "n", &value!({"metadata": {"name": "n", "uid": "n"}}));
    put_pod(&mut world, "stays", "n", Value::Null);
    for i in 0..GONE_MAX + 10 {
        put_pod(&mut world, "astray", &format!("nowhere{i}"), Value::Null);
        cache.follow(&world, |_, _| true);
        remove(&mut world, "pods", "a", "astray");
        cache.follow(&world, |_, _| true);
    }
    assert!(cache.nodes.len() < GONE_MAX, "{} nodes are known", cache.nodes.len());
    let n = &cache.nodes[cache.numbers["n"]];
    assert!(n.exists && n.pods.len() == 1);
}
