//! Tests of pods with very many terms: other pods do not wait for them, and their cost is linear in the number of terms.

use std::collections::BTreeMap;

use setpoint_api::{Revision, json};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{World, Write};

use super::*;
use crate::filter_score_cache::FilterScoreCache;
use crate::profile::Profile;

fn put(world: &mut World, resource: &str, namespace: &str, name: &str, object: &Value) {
    let key = key_of(resource, namespace, name).unwrap();
    let revision = Revision(world.revision().0 + 1);
    let bytes = bytes::Bytes::from(json::to_text(object));
    world.put(Object::read(key, revision, Time::EPOCH, bytes).unwrap());
    world.advance_to(revision);
}

fn put_pod(world: &mut World, name: &str, created: &str, node: &str, mut spec: Value) {
    spec.make_map().insert("schedulerName", DEFAULT_SCHEDULER_NAME);
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

/// Affinity terms, each for another value of the label `app`.
fn terms(count: usize, app: &str) -> Vec<Value> {
    let term = |i: usize| {
        value!({
            "labelSelector": {"matchLabels": {"app": (format!("{app}{i}"))}},
            "topologyKey": "kubernetes.io/hostname",
        })
    };
    (0..count).map(term).collect()
}

fn anti_affinity(terms: Vec<Value>) -> Value {
    value!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": (terms)}}})
}

/// Names of the pods that a plan binds.
fn bound(plan: &Plan<SchedulerCache>) -> Vec<String> {
    let actions = plan.stages.iter().flatten();
    let names = actions.filter_map(|action| match &action.write {
        Write::Post { key, subresource: "binding", .. } => Some(key.name().to_owned()),
        _ => None,
    });
    names.collect()
}

fn plan(world: &WorldReader<'_>, memo: SchedulerCache) -> Plan<SchedulerCache> {
    let (scheduler, answers) = (Scheduler::default(), BTreeMap::new());
    let seen = Seen { memo, answers: &answers, failure: None };
    scheduler.plan_owning(&scheduler_key().unwrap(), world, seen, Time::from_seconds(1_800_000_000), Seed(7))
}

#[test]
fn plain_pod_is_bound_in_the_first_plan_before_three_older_costly_pods() {
    let mut world = world(10);
    for name in ["a", "b", "c"] {
        put_pod(&mut world, name, "00", "", anti_affinity(terms(10_000, name)));
    }
    put_pod(&mut world, "plain", "01", "", value!({}));
    let first = plan(&world.reader(), SchedulerCache::default());
    assert_eq!(bound(&first), ["plain"]);
    assert_eq!(first.memo.counters.list.len(), 0, "no counters for queued pods");
    put_pod(&mut world, "plain", "01", "n000", value!({}));
    let (mut memo, mut later) = (first.memo, Vec::new());
    for _ in 0..3 {
        let next = plan(&world.reader(), memo);
        later.extend(bound(&next));
        for name in bound(&next) {
            put_pod(&mut world, &name, "00", "n001", anti_affinity(terms(10_000, &name)));
        }
        memo = next.memo;
    }
    assert_eq!(later, ["a", "b", "c"], "one per plan");
}

#[test]
fn costly_pod_is_attempted_beside_cheap_pods_after_enough_deferred_plans() {
    let mut world = world(10);
    put_pod(&mut world, "costly", "00", "", anti_affinity(terms(10_000, "x")));
    let (mut memo, mut plans) = (SchedulerCache::default(), 0);
    loop {
        put_pod(&mut world, &format!("plain{plans}"), "01", "", value!({}));
        let next = plan(&world.reader(), memo);
        let names = bound(&next);
        assert!(names.contains(&format!("plain{plans}")), "{names:?}");
        put_pod(&mut world, &format!("plain{plans}"), "01", "n000", value!({}));
        plans += 1;
        if names.contains(&"costly".to_owned()) {
            break;
        }
        assert!(plans < 20, "the costly pod starves");
        memo = next.memo;
    }
    assert_eq!(plans, crate::cost::DEFERRED_PLANS_MAX + 1);
}

/// Returns the cache with bound pods of these specs, and the results for one more pod.
fn results_of(bound: &[Value], spec: Value) -> (SchedulerCache, FilterScoreCache) {
    let mut world = world(50);
    for (i, spec) in bound.iter().enumerate() {
        put_pod(&mut world, &format!("x{i}"), "00", &format!("n{:03}", i % 50), spec.clone());
    }
    put_pod(&mut world, "new", "00", "", spec);
    let mut cache = SchedulerCache::default();
    cache.sync(&world.reader(), |_, _| true);
    let id = cache.pod_id(&key_of("pods", "default", "new").unwrap()).unwrap();
    let signature = std::sync::Arc::clone(cache.signature_of(id).unwrap());
    let results =
        FilterScoreCache::new(&signature, &mut cache, &world.reader(), &Profile::new(DEFAULT_SCHEDULER_NAME));
    (cache, results)
}

#[test]
fn memory_is_linear_in_terms_and_comparisons_only_in_matching_terms() {
    let plain = vec![value!({}); 100];
    // Pods x0 to x99 are bound: each of the first hundred terms selects one of them.
    let cost = |count: usize| {
        let (cache, results) = results_of(&plain, anti_affinity(terms(count, "x")));
        assert_eq!(results.topology.anti_affinity.len(), count);
        (cache.counters.memory_cells(), cache.comparisons())
    };
    let (few, many) = (cost(500), cost(2_000));
    assert!(many.0 <= 5 * few.0, "memory: {few:?} {many:?}");
    assert_eq!((few.1, many.1), (100, 100), "pods are compared only with terms that can select them");
}

#[test]
fn equal_terms_share_one_counter() {
    let mut all = terms(1, "x");
    all.extend(std::iter::repeat_n(all[0].clone(), 999));
    let (cache, results) = results_of(&[value!({})], anti_affinity(all));
    assert_eq!((results.topology.anti_affinity.len(), cache.counters.list.len()), (1, 1));
}

#[test]
fn spread_constraints_share_node_sets() {
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
        let (cache, results) = results_of(&vec![value!({}); 100], constraints(count));
        assert_eq!(
            (results.topology.spread.len(), results.soft_spread.constraints.len()),
            (count / 2, count / 2)
        );
        cache.counters.memory_cells()
    };
    let (few, many) = (cells(500), cells(2_000));
    assert!(many <= 5 * few && many < 50_000, "{few} {many}");
}

#[test]
fn terms_of_other_pods_cost_nothing_to_pods_that_they_do_not_select() {
    let costly = vec![anti_affinity(terms(2_000, "y")), anti_affinity(terms(2_000, "z"))];
    let (cache, results) = results_of(&costly, value!({}));
    assert_eq!(cache.counters.term_counters, 4_000);
    assert!(results.topology.is_empty() && results.preferred_affinity.is_empty());
    let (_, results) = results_of(
        &[
            anti_affinity(terms(1, "ne")),
            anti_affinity(vec![value!({
                "labelSelector": {"matchLabels": {"app": "new"}}, "topologyKey": "kubernetes.io/hostname",
            })]),
        ],
        value!({}),
    );
    assert_eq!(results.topology.existing_anti_affinity.len(), 1);
}

#[test]
fn required_affinity_terms_share_one_constraint_per_topology_key() {
    let affinity = value!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": (terms(3_000, "x"))}}});
    let (cache, results) = results_of(&[value!({})], affinity);
    assert_eq!((results.topology.len(), cache.counters.list.len()), (1, 1));
}

/// Returns a world with a pod of `claims` unbound claims, and `volumes` volumes of `terms` terms with `values` values each.
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

fn volume_results(world: &WorldReader<'_>) -> (SchedulerCache, FilterScoreCache) {
    let mut cache = SchedulerCache::default();
    cache.sync(world, |_, _| true);
    let id = cache.pod_id(&key_of("pods", "default", "claims").unwrap()).unwrap();
    let signature = std::sync::Arc::clone(cache.signature_of(id).unwrap());
    let results = FilterScoreCache::new(&signature, &mut cache, world, &Profile::new(DEFAULT_SCHEDULER_NAME));
    (cache, results)
}

#[test]
fn node_affinity_of_a_volume_is_parsed_once_for_all_claims() {
    let world = world_of_volumes(10, 20, 3, 5);
    let (cache, results) = volume_results(&world.reader());
    assert!(!results.is_too_costly);
    assert!(results.select_node(&cache, 1).is_some(), "the node reaches every volume");
    assert_eq!(cache.volume_affinity.parsed_volumes(), 20, "not once for each of 10 claims");
    assert_eq!(results.volumes.shared_terms(), 20);
}

#[test]
fn volumes_with_very_many_values_are_not_parsed_and_the_pod_is_rejected() {
    let mut world = world_of_volumes(50, 230, 10, 1_000);
    let (cache, results) = volume_results(&world.reader());
    assert!(results.is_too_costly && results.select_node(&cache, 1).is_none());
    assert!(cache.volume_affinity.parsed_volumes() < 230);
    let message = crate::selection::diagnose(&results, &cache).message;
    assert!(message.contains("its volumes have too many node affinity terms"), "{message}");
    put_pod(&mut world, "plain", "01", "", value!({}));
    let first = plan(&world.reader(), SchedulerCache::default());
    assert_eq!(bound(&first), ["plain"], "the costly pod comes later");
    assert_eq!(
        first.memo.volume_affinity.parsed_volumes(),
        0,
        "parsed terms are dropped at the end of the plan"
    );
}

#[test]
fn search_for_very_many_claims_is_rejected_before_it_starts() {
    let (cache, results) = volume_results(&world_of_volumes(2_700, 2_400, 1, 1).reader());
    assert!(results.is_too_costly && cache.volume_affinity.parsed_volumes() == 0);
}
