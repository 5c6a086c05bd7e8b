//! Claims about pods with very many terms: others do not wait for them, and what they cost grows with their number only.

use std::collections::BTreeMap;

use setpoint_api::{Revision, json};
use setpoint_reconcile::Write;
use setpoint_reconcile::planner::key_of;

use super::*;
use crate::class::Class;
use crate::profile::Profile;

fn put(world: &mut World, resource: &str, namespace: &str, name: &str, object: &Value) {
    let key = key_of(resource, namespace, name).unwrap();
    let revision = Revision(world.revision().0 + 1);
    let bytes = bytes::Bytes::from(json::to_text(object));
    world.put(Object::read(key, revision, Time::EPOCH, bytes).unwrap());
    world.reach(revision);
}

fn put_pod(world: &mut World, name: &str, created: &str, node: &str, mut spec: Value) {
    spec.make_map().insert("schedulerName", NAME);
    spec.make_map().insert("containers", vec![value!({"name": "c", "image": "i"})]);
    if !node.is_empty() {
        spec.make_map().insert("nodeName", node);
    }
    let created = format!("2026-01-01T00:00:{created}Z");
    let metadata = value!({
        "name": (name), "namespace": "default", "uid": (name), "creationTimestamp": (created),
        "labels": {"app": (name)},
    });
    put(world, "pods", "default", name, &value!({"metadata": (metadata), "spec": (spec)}));
}

fn world(nodes: usize) -> World {
    let mut world = World::default();
    for i in 0..nodes {
        let name = format!("n{i:03}");
        let labels =
            Value::Map([("kubernetes.io/hostname", Value::from(name.as_str()))].into_iter().collect());
        let node = value!({
            "metadata": {"name": (name.as_str()), "uid": (name.as_str()), "labels": (labels)},
            "status": {"allocatable": {"cpu": "4", "memory": "32Gi", "pods": "110"}},
        });
        put(&mut world, "nodes", "", &name, &node);
    }
    world
}

/// As many terms, each about other pods.
fn terms(count: usize, app: &str) -> Vec<Value> {
    let term = |i: usize| {
        value!({
            "labelSelector": {"matchLabels": {"app": (format!("{app}{i}"))}},
            "topologyKey": "kubernetes.io/hostname",
        })
    };
    (0..count).map(term).collect()
}

fn far(terms: Vec<Value>) -> Value {
    value!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": (terms)}}})
}

/// The pods that a plan binds.
fn bound(plan: &Plan<Cache>) -> Vec<String> {
    let acts = plan.stages.iter().flatten();
    let names = acts.filter_map(|act| match &act.write {
        Write::Post { key, part: "binding", .. } => Some(key.name().to_owned()),
        _ => None,
    });
    names.collect()
}

fn plan(world: &World, memo: Cache) -> Plan<Cache> {
    let (scheduler, answers) = (Scheduler::default(), BTreeMap::new());
    let seen = Seen { memo, answers: &answers, failure: None };
    scheduler.plan_owning(&only_key().unwrap(), world, seen, Time::from_seconds(1_800_000_000), Seed(7))
}

#[test]
fn a_plain_pod_is_bound_in_the_first_plan_though_three_costly_pods_came_before() {
    let mut world = world(10);
    for name in ["a", "b", "c"] {
        put_pod(&mut world, name, "00", "", far(terms(10_000, name)));
    }
    put_pod(&mut world, "plain", "01", "", value!({}));
    let first = plan(&world, Cache::default());
    assert_eq!(bound(&first), ["plain"]);
    assert_eq!(first.memo.counters.all.len(), 0, "nothing is counted for pods that only wait");
    put_pod(&mut world, "plain", "01", "n000", value!({}));
    let (mut memo, mut later) = (first.memo, Vec::new());
    for _ in 0..3 {
        let next = plan(&world, memo);
        later.extend(bound(&next));
        for name in bound(&next) {
            put_pod(&mut world, &name, "00", "n001", far(terms(10_000, &name)));
        }
        memo = next.memo;
    }
    assert_eq!(later, ["a", "b", "c"], "each gets its turn");
}

#[test]
fn a_costly_pod_is_tried_beside_cheap_ones_in_the_end() {
    let mut world = world(10);
    put_pod(&mut world, "costly", "00", "", far(terms(10_000, "x")));
    let (mut memo, mut plans) = (Cache::default(), 0);
    loop {
        put_pod(&mut world, &format!("plain{plans}"), "01", "", value!({}));
        let next = plan(&world, memo);
        let names = bound(&next);
        assert!(names.contains(&format!("plain{plans}")), "{names:?}");
        put_pod(&mut world, &format!("plain{plans}"), "01", "n000", value!({}));
        plans += 1;
        if names.contains(&"costly".to_owned()) {
            break;
        }
        assert!(plans < 20, "it starves");
        memo = next.memo;
    }
    assert_eq!(plans, crate::cost::DEFERRALS_MAX + 1);
}

/// The cache after pods of these specs came to nodes, and what was found out for one more.
fn class_of(there: &[Value], spec: Value) -> (Cache, Class) {
    let mut world = world(50);
    for (i, spec) in there.iter().enumerate() {
        put_pod(&mut world, &format!("x{i}"), "00", &format!("n{:03}", i % 50), spec.clone());
    }
    put_pod(&mut world, "new", "00", "", spec);
    let mut cache = Cache::default();
    cache.follow(&world, |_, _| true);
    let id = cache.id(&key_of("pods", "default", "new").unwrap()).unwrap();
    let shape = std::sync::Arc::clone(cache.shape_of(id).unwrap());
    let class = Class::new(&shape, &mut cache, &world, &Profile::named(NAME));
    (cache, class)
}

#[test]
fn memory_and_comparisons_grow_with_the_number_of_terms_only() {
    let plain = vec![value!({}); 100];
    // Pods x0 to x99 are there: the first hundred terms each mean one of them.
    let cost = |count: usize| {
        let (cache, class) = class_of(&plain, far(terms(count, "x")));
        assert_eq!(class.gates.far.len(), count);
        (cache.counters.cells(), cache.compared)
    };
    let (few, many) = (cost(500), cost(2_000));
    assert!(many.0 <= 5 * few.0, "memory: {few:?} {many:?}");
    assert_eq!((few.1, many.1), (100, 100), "pods are compared with terms that can mean them");
}

#[test]
fn equal_terms_count_once() {
    let mut all = terms(1, "x");
    all.extend(std::iter::repeat_n(all[0].clone(), 999));
    let (cache, class) = class_of(&[value!({})], far(all));
    assert_eq!((class.gates.far.len(), cache.counters.all.len()), (1, 1));
}

#[test]
fn spread_constraints_share_their_sets_of_nodes() {
    let constraints = |count: usize| {
        let constraint = |i: usize| {
            value!({
                "maxSkew": 1, "topologyKey": (format!("example.com/key-{i}")),
                "whenUnsatisfiable": (if i.is_multiple_of(2) { "DoNotSchedule" } else { "ScheduleAnyway" }),
                "labelSelector": {"matchLabels": {"app": (format!("x{i}"))}},
            })
        };
        value!({"topologySpreadConstraints": ((0..count).map(constraint).collect::<Vec<_>>())})
    };
    let cells = |count: usize| {
        let (cache, class) = class_of(&vec![value!({}); 100], constraints(count));
        assert_eq!((class.gates.spread.len(), class.wishes.all.len()), (count / 2, count / 2));
        cache.counters.cells()
    };
    let (few, many) = (cells(500), cells(2_000));
    assert!(many <= 5 * few && many < 50_000, "{few} {many}");
}

#[test]
fn terms_of_other_pods_cost_nothing_to_pods_that_they_are_not_about() {
    let poison = vec![far(terms(2_000, "y")), far(terms(2_000, "z"))];
    let (cache, class) = class_of(&poison, value!({}));
    assert_eq!(cache.counters.said, 4_000);
    assert!(class.gates.is_empty() && class.pulls.is_empty());
    let (_, class) = class_of(
        &[
            far(terms(1, "ne")),
            far(vec![value!({
                "labelSelector": {"matchLabels": {"app": "new"}}, "topologyKey": "kubernetes.io/hostname",
            })]),
        ],
        value!({}),
    );
    assert_eq!(class.gates.shunned.len(), 1);
}

#[test]
fn required_affinity_to_very_many_pods_is_one_constraint_for_each_label() {
    let near = value!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": (terms(3_000, "x"))}}});
    let (cache, class) = class_of(&[value!({})], near);
    assert_eq!((class.gates.len(), cache.counters.all.len()), (1, 1));
}

/// A pod with so many claims that wait for it, and so many volumes with so many terms of so many values each.
fn world_of_volumes(claims: usize, volumes: usize, terms: usize, values: usize) -> World {
    let mut world = world(1);
    let class = value!({
        "metadata": {"name": "late"}, "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    put(&mut world, "storageclasses.storage.k8s.io", "", "late", &class);
    let spec = value!({
        "storageClassName": "late", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    });
    for i in 0..claims {
        let name = format!("c{i}");
        let metadata = value!({"name": (name.as_str()), "namespace": "default", "uid": (name.as_str())});
        let claim = value!({"metadata": (metadata), "spec": (spec.clone())});
        put(&mut world, "persistentvolumeclaims", "default", &name, &claim);
    }
    for i in 0..volumes {
        let name = format!("v{i}");
        let term = |t: usize| {
            let names: Vec<String> = (0..values).map(|value| format!("x{t}-{value}")).collect();
            let one = value!({"key": "kubernetes.io/hostname", "operator": "NotIn", "values": (names)});
            value!({"matchExpressions": [(one)]})
        };
        let terms: Vec<Value> = (0..terms).map(term).collect();
        let volume = value!({
            "metadata": {"name": (name.as_str()), "uid": (name.as_str())},
            "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": (terms)}}},
            "status": {"phase": "Available"},
        });
        put(&mut world, "persistentvolumes", "", &name, &volume);
    }
    let volume = |i: usize| value!({"name": (format!("v{i}")), "persistentVolumeClaim": {"claimName": (format!("c{i}"))}});
    let volumes: Vec<Value> = (0..claims).map(volume).collect();
    put_pod(&mut world, "claims", "00", "", value!({"volumes": (volumes)}));
    world
}

fn volume_class(world: &World) -> (Cache, Class) {
    let mut cache = Cache::default();
    cache.follow(world, |_, _| true);
    let id = cache.id(&key_of("pods", "default", "claims").unwrap()).unwrap();
    let shape = std::sync::Arc::clone(cache.shape_of(id).unwrap());
    let class = Class::new(&shape, &mut cache, world, &Profile::named(NAME));
    (cache, class)
}

#[test]
fn terms_of_a_volume_are_parsed_once_for_all_claims() {
    let world = world_of_volumes(10, 20, 3, 5);
    let (cache, class) = volume_class(&world);
    assert!(!class.is_too_costly);
    assert!(class.find(&cache, 1).is_some(), "the node reaches every volume");
    assert_eq!(cache.reach.parsed(), 20, "not once for each of 10 claims");
    assert_eq!(class.needs.shared_terms(), 20);
}

#[test]
fn volumes_with_very_many_values_are_not_parsed_and_the_pod_is_parked() {
    let mut world = world_of_volumes(50, 230, 10, 1_000);
    let (cache, class) = volume_class(&world);
    assert!(class.is_too_costly && class.find(&cache, 1).is_none());
    assert!(cache.reach.parsed() < 230);
    let message = crate::choose::explain(&class, &cache).message;
    assert!(message.contains("its volumes have too many node affinity terms"), "{message}");
    put_pod(&mut world, "plain", "01", "", value!({}));
    let first = plan(&world, Cache::default());
    assert_eq!(bound(&first), ["plain"], "a costly pod comes after a cheap one");
    assert_eq!(first.memo.reach.parsed(), 0, "nothing is kept beyond the plan");
}

#[test]
fn search_of_very_many_claims_is_refused_before_it_is_begun() {
    let (cache, class) = volume_class(&world_of_volumes(2_700, 2_400, 1, 1));
    assert!(class.is_too_costly && cache.reach.parsed() == 0);
}
