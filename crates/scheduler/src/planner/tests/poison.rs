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
