//! Tests of the cache: how often counters are rebuilt, which events requeue pods, and what is forgotten.

use setpoint_api::{Revision, Value, json, value};
use setpoint_reconcile::World;
use setpoint_reconcile::planner::key_of;

use super::counting::COUNTERS_MAX;
use super::sync::ABSENT_NODES_MAX;
use super::*;
use crate::plugins::{QueueingHint, pod_topology_spread};
use crate::profile::Profile;

fn put(world: &mut World, resource: &str, namespace: &str, name: &str, object: &Value) {
    let key = key_of(resource, namespace, name).unwrap();
    let revision = Revision(world.revision().0 + 1);
    let bytes = bytes::Bytes::from(json::to_text(object));
    world.put(Object::read(key, revision, Time::EPOCH, bytes).unwrap());
    world.advance_to(revision);
}

fn remove(world: &mut World, resource: &str, namespace: &str, name: &str) {
    let revision = Revision(world.revision().0 + 1);
    world.remove(&key_of(resource, namespace, name).unwrap(), revision);
    world.advance_to(revision);
}

fn put_pod(world: &mut World, name: &str, node: &str, affinity: Value) {
    let metadata = value!({"name": (name), "namespace": "a", "uid": (name), "labels": {"app": (name)}});
    let spec = value!({"nodeName": (node), "containers": [], "affinity": (affinity)});
    put(world, "pods", "a", name, &value!({"metadata": (metadata), "spec": (spec)}));
}

#[test]
fn many_counters_in_use_are_not_rebuilt_with_every_change() {
    let mut world = World::default();
    put(&mut world, "nodes", "", "n", &value!({"metadata": {"name": "n", "uid": "n"}}));
    for i in 0..COUNTERS_MAX + 100 {
        let name = format!("p{i}");
        let term =
            value!({"labelSelector": {"matchLabels": {"app": (name.as_str())}}, "topologyKey": "zone"});
        let anti_affinity =
            value!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [(term)]}});
        put_pod(&mut world, &name, "n", anti_affinity);
    }
    let mut cache = SchedulerCache::default();
    cache.sync(&world.reader(), |_, _| true);
    let counters = cache.counters.list.len();
    assert!(counters > COUNTERS_MAX && cache.counter_usage.counters_after_rebuild == counters);
    // A rebuild would overwrite this.
    cache.counter_usage.counters_after_rebuild += 1;
    cache.requeue_by_hints();
    for i in 0..5 {
        put_pod(&mut world, &format!("more{i}"), "n", Value::Null);
        cache.sync(&world.reader(), |_, _| true);
    }
    assert_eq!(cache.counter_usage.counters_after_rebuild, cache.counters.list.len() + 1);
}

#[test]
fn counters_of_queued_pods_are_kept_until_the_pods_are_deleted() {
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
    let mut cache = SchedulerCache::default();
    cache.sync(&world.reader(), |_, _| true);
    let signatures: Vec<Arc<PodSignature>> =
        cache.signatures.iter().flatten().map(|entry| Arc::clone(&entry.signature)).collect();
    let profile = Profile::new("any");
    for signature in &signatures {
        let constraints =
            pod_topology_spread::hard_constraints(&mut cache, signature, &profile, &world.reader()).unwrap();
        assert_eq!(constraints.len(), 1);
    }
    assert_eq!(cache.counters.list.len(), count);
    put_pod(&mut world, "bound", "n", Value::Null);
    cache.sync(&world.reader(), |_, _| true);
    assert_eq!(cache.counters.list.len(), count, "dropped while pods are queued");
    for i in 0..count - 10 {
        remove(&mut world, "pods", "a", &format!("p{i}"));
    }
    cache.sync(&world.reader(), |_, _| true);
    assert_eq!(cache.counters.list.len(), 0, "unused counters are dropped");
}

#[test]
fn rebuilt_counters_requeue_no_pod_and_a_pod_added_later_is_no_exact_hint() {
    let mut world = World::default();
    put(&mut world, "nodes", "", "n", &value!({"metadata": {"name": "n", "uid": "n"}}));
    put_pod(&mut world, "queued", "", Value::Null);
    let mut cache = SchedulerCache::default();
    cache.sync(&world.reader(), |_, _| true);
    let id = *cache.queue.values().next().unwrap() as usize;
    let state = |cache: &SchedulerCache| cache.pods[id].as_ref().unwrap().queue_state.unwrap();
    cache.pods[id].as_mut().unwrap().queue_state =
        Some(QueueState::after_attempt(None, QueueingHint::ASSIGNED_POD_ADD, Time::EPOCH));
    cache.events = ClusterEvents::default();
    cache.rebuild_counters();
    cache.requeue_by_hints();
    assert!(!state(&cache).is_requeued && !state(&cache).has_exact_hint);
    put_pod(&mut world, "bound", "n", Value::Null);
    cache.sync(&world.reader(), |_, _| true);
    cache.requeue_by_hints();
    assert!(state(&cache).is_requeued && !state(&cache).has_exact_hint);
}

#[test]
fn absent_nodes_are_forgotten_and_existing_ones_keep_their_pods() {
    let mut world = World::default();
    let mut cache = SchedulerCache::default();
    put(&mut world, "nodes", "", "n", &value!({"metadata": {"name": "n", "uid": "n"}}));
    put_pod(&mut world, "stays", "n", Value::Null);
    for i in 0..ABSENT_NODES_MAX + 10 {
        put_pod(&mut world, "stray", &format!("absent{i}"), Value::Null);
        cache.sync(&world.reader(), |_, _| true);
        remove(&mut world, "pods", "a", "stray");
        cache.sync(&world.reader(), |_, _| true);
    }
    assert!(cache.nodes.len() < ABSENT_NODES_MAX, "{} nodes are known", cache.nodes.len());
    let n = &cache.nodes[cache.node_numbers["n"]];
    assert!(n.exists && n.pods.len() == 1);
}
