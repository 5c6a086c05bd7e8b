//! Model tests: results of the cache and its counters equal those of a slow model, which visits every pod and every node
//! each time, while the world changes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::prelude::*;
use setpoint_api::{Key, Resource, Revision, Time, Value, json, value};
use setpoint_reconcile::{Object, World, WorldReader};
use setpoint_views::pod::Pod as PodView;

use super::*;
use crate::preemption::{DisruptionBudgets, PreemptionEvaluator};
use crate::profile::Profile;
use crate::signature::PodSignature;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

#[derive(Clone, Debug)]
struct ModelNode {
    zone: Option<u8>,
    cpu: i64,
    is_tainted: bool,
}

#[derive(Clone, Debug)]
struct ModelPod {
    namespace: u8,
    app: u8,
    cpu: i64,
    priority: i64,
    node: usize,
    affinity: Option<(bool, u8)>,
    anti_affinity: Option<(bool, u8)>,
    spread: Option<(bool, i64, i64)>,
    zone: Option<u8>,
    is_terminating: bool,
    port: Option<u8>,
}

fn key(by_zone: bool) -> &'static str {
    if by_zone { ZONE } else { HOST }
}

fn read(resource: &str, path: &str, revision: u64, value: &Value) -> Object {
    let key = Key::from_path(&Resource::new(resource).unwrap(), path).unwrap();
    Object::read(key, Revision(revision), Time::EPOCH, Bytes::from(json::to_text(value))).unwrap()
}

impl ModelNode {
    fn object(&self, at: usize, revision: u64) -> Object {
        let name = format!("n{at}");
        let mut labels = vec![(HOST, Value::from(name.as_str()))];
        labels.extend(self.zone.map(|zone| (ZONE, Value::from(format!("z{zone}")))));
        let labels = Value::Map(labels.into_iter().collect());
        let taints: Vec<Value> =
            if self.is_tainted { vec![value!({"key": "k", "effect": "NoSchedule"})] } else { Vec::new() };
        let cpu = format!("{}", self.cpu);
        let node = value!({
            "metadata": {"name": (name.as_str()), "uid": (name.as_str()), "labels": (labels)},
            "spec": {"taints": (taints)},
            "status": {"allocatable": {"cpu": (cpu), "memory": "1Gi", "pods": "10"}},
        });
        read("nodes", &name, revision, &node)
    }
}

fn term((by_zone, app): (bool, u8), has_namespace_selector: bool) -> Value {
    let mut term = value!({
        "topologyKey": (key(by_zone)), "labelSelector": {"matchLabels": {"app": (format!("a{app}"))}},
    });
    if has_namespace_selector {
        term.make_map().insert("namespaceSelector", value!({"matchLabels": {"big": "yes"}}));
    }
    value!({"requiredDuringSchedulingIgnoredDuringExecution": [(term)]})
}

impl ModelPod {
    fn object(&self, name: &str, revision: u64, bound: bool) -> Object {
        let mut affinity = Value::map();
        if let Some(one) = self.affinity {
            affinity.make_map().insert("podAffinity", term(one, true));
        }
        if let Some(one) = self.anti_affinity {
            affinity.make_map().insert("podAntiAffinity", term(one, false));
        }
        let constraints = self.spread.iter().map(|(by_zone, max_skew, min_domains)| {
            value!({
                "topologyKey": (key(*by_zone)), "maxSkew": (*max_skew), "whenUnsatisfiable": "DoNotSchedule",
                "minDomains": (*min_domains), "labelSelector": {"matchLabels": {"app": (format!("a{}", self.app))}},
            })
        });
        let mut selector = Value::map();
        if let Some(zone) = self.zone {
            selector.make_map().insert(ZONE, format!("z{zone}"));
        }
        let mut container =
            value!({"name": "c", "resources": {"requests": {"cpu": (format!("{}", self.cpu))}}});
        if let Some(port) = self.port {
            container.make_map().insert("ports", vec![value!({"hostPort": (i64::from(port) + 1)})]);
        }
        let mut pod = value!({
            "metadata": {"name": (name), "namespace": (format!("s{}", self.namespace)), "uid": (name),
                "labels": {"app": (format!("a{}", self.app))}},
            "spec": {"schedulerName": "default-scheduler", "affinity": (affinity), "containers": [(container)],
                "topologySpreadConstraints": (constraints.collect::<Vec<_>>()), "nodeSelector": (selector),
                "priority": (self.priority)},
        });
        if bound {
            pod.get_mut("spec").unwrap().make_map().insert("nodeName", format!("n{}", self.node));
        }
        if self.is_terminating {
            let metadata = pod.get_mut("metadata").unwrap().make_map();
            metadata.insert("deletionTimestamp", "2026-01-01T00:00:00Z");
        }
        read("pods", &format!("s{}/{name}", self.namespace), revision, &pod)
    }
}

/// Nodes and assigned pods by number: the slow model.
struct Model {
    nodes: BTreeMap<usize, ModelNode>,
    pods: BTreeMap<usize, ModelPod>,
}

impl Model {
    fn domain(&self, node: usize, by_zone: bool) -> Option<String> {
        let found = self.nodes.get(&node)?;
        if by_zone { found.zone.map(|zone| format!("z{zone}")) } else { Some(format!("n{node}")) }
    }

    /// `true` if a matching pod is in the domain of a node.
    fn has_pod_in_domain(&self, node: usize, by_zone: bool, matches: impl Fn(&ModelPod) -> bool) -> bool {
        let domain = self.domain(node, by_zone);
        domain.is_some()
            && self.pods.values().any(|pod| matches(pod) && self.domain(pod.node, by_zone) == domain)
    }

    fn is_feasible(&self, new: &ModelPod, at: usize, node: &ModelNode) -> bool {
        let on = || self.pods.values().filter(|pod| pod.node == at);
        let cpu: i64 = on().map(|pod| pod.cpu).sum();
        // The namespace selector of affinity terms matches namespace 0 only.
        let is_affine = |pod: &ModelPod, app: u8| pod.namespace == 0 && pod.app == app;
        let affinity = new.affinity.is_none_or(|(by_zone, app)| {
            // Matching pods on nodes without the topology key do not count.
            let mut matching = self.pods.values().filter(|pod| is_affine(pod, app));
            let has_match = matching.any(|pod| self.domain(pod.node, by_zone).is_some());
            self.has_pod_in_domain(at, by_zone, |pod| is_affine(pod, app))
                || (!has_match && is_affine(new, app) && self.domain(at, by_zone).is_some())
        });
        let anti_affinity = new.anti_affinity.is_none_or(|(by_zone, app)| {
            !self.has_pod_in_domain(at, by_zone, |pod| pod.namespace == new.namespace && pod.app == app)
        });
        let is_repelled = [true, false].into_iter().any(|by_zone| {
            self.has_pod_in_domain(at, by_zone, |pod| {
                pod.namespace == new.namespace && pod.anti_affinity == Some((by_zone, new.app))
            })
        });
        !node.is_tainted
            && new.zone.is_none_or(|zone| node.zone == Some(zone))
            && (new.cpu == 0 || cpu + new.cpu <= node.cpu)
            && on().count() < 10
            && !on().any(|pod| new.port.is_some() && pod.port == new.port)
            && affinity
            && anti_affinity
            && !is_repelled
            && self.satisfies_spread(new, at)
    }

    fn satisfies_spread(&self, new: &ModelPod, at: usize) -> bool {
        let Some((by_zone, max_skew, min_domains)) = new.spread else { return true };
        let Some(own) = self.domain(at, by_zone) else { return false };
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        for (number, node) in &self.nodes {
            let is_eligible = new.zone.is_none_or(|zone| node.zone == Some(zone));
            if let Some(domain) = self.domain(*number, by_zone).filter(|_| is_eligible) {
                let selected = self.pods.values().filter(|pod| {
                    pod.node == *number
                        && pod.namespace == new.namespace
                        && pod.app == new.app
                        && !pod.is_terminating
                });
                *counts.entry(domain).or_insert(0) += i64::try_from(selected.count()).unwrap();
            }
        }
        let min = counts.values().min().copied().unwrap_or(0);
        let min = if i64::try_from(counts.len()).unwrap() < min_domains { 0 } else { min };
        counts.get(&own).copied().unwrap_or(0) + 1 - min <= max_skew
    }

    fn feasible_nodes(&self, new: &ModelPod) -> BTreeSet<String> {
        let feasible = self.nodes.iter().filter(|(at, node)| self.is_feasible(new, **at, node));
        feasible.map(|(at, _)| format!("n{at}")).collect()
    }
}

fn is_ours(object: &Object, _: &PodView) -> bool {
    !object.meta().is_deleted()
}

fn results_of(
    object: &Object,
    cache: &mut SchedulerCache,
    world: &WorldReader<'_>,
) -> (PodSignature, FilterScoreCache) {
    let signature = PodSignature::new(object, object.view::<PodView>().unwrap());
    let results = FilterScoreCache::new(&signature, cache, world, &Profile::new("default-scheduler"));
    (signature, results)
}

fn names(cache: &SchedulerCache, nodes: &[usize]) -> BTreeSet<String> {
    nodes.iter().map(|node| cache.nodes[*node].name.to_string()).collect()
}

fn node() -> impl Strategy<Value = ModelNode> {
    (proptest::option::of(0u8..3), 1i64..6, proptest::bool::weighted(0.15))
        .prop_map(|(zone, cpu, is_tainted)| ModelNode { zone, cpu, is_tainted })
}

fn pod() -> impl Strategy<Value = ModelPod> {
    let terms = || proptest::option::weighted(0.3, (any::<bool>(), 0u8..2));
    let spread = proptest::option::weighted(0.4, (any::<bool>(), 1i64..3, 1i64..4));
    let base = (0u8..2, 0u8..2, 0i64..3, 0i64..3, 0usize..6);
    let zone = proptest::option::weighted(0.2, 0u8..3);
    let port = proptest::option::weighted(0.2, 0u8..2);
    (base, terms(), terms(), spread, zone, proptest::bool::weighted(0.2), port).prop_map(
        |(base, affinity, anti_affinity, spread, zone, is_terminating, port)| {
            let (namespace, app, cpu, priority, node) = base;
            ModelPod {
                namespace,
                app,
                cpu,
                priority,
                node,
                affinity,
                anti_affinity,
                spread,
                zone,
                is_terminating,
                port,
            }
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    Node(usize, Option<ModelNode>),
    Pod(usize, Option<ModelPod>),
    Schedule(ModelPod),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0usize..6, proptest::option::weighted(0.9, node())).prop_map(|(at, node)| Step::Node(at, node)),
        4 => (0usize..12, proptest::option::weighted(0.8, pod())).prop_map(|(at, pod)| Step::Pod(at, pod)),
        4 => pod().prop_map(Step::Schedule),
    ]
}

fn start() -> (World, Model) {
    let mut world = World::default();
    for (name, big) in [("s0", "yes"), ("s1", "no")] {
        let namespace = value!({"metadata": {"name": (name), "uid": (name), "labels": {"big": (big)}}});
        world.put(read("namespaces", name, 1, &namespace));
    }
    (world, Model { nodes: BTreeMap::new(), pods: BTreeMap::new() })
}

fn apply(step: &Step, world: &mut World, model: &mut Model, revision: u64) {
    match step {
        Step::Node(at, Some(node)) => {
            world.put(node.object(*at, revision));
            model.nodes.insert(*at, node.clone());
        }
        Step::Node(at, None) => {
            world.remove(read("nodes", &format!("n{at}"), 0, &Value::map()).key(), Revision(revision));
            model.nodes.remove(at);
        }
        Step::Pod(at, pod) => {
            if let Some(was) = model.pods.remove(at) {
                let key = was.object(&format!("p{at}"), 0, true).key().clone();
                world.remove(&key, Revision(revision));
            }
            if let Some(pod) = pod {
                world.put(pod.object(&format!("p{at}"), revision, true));
                model.pods.insert(*at, pod.clone());
            }
        }
        Step::Schedule(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn feasible_nodes_equal_the_model_and_a_rebuilt_cache_selects_the_same_node(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let (mut world, mut model) = start();
        let mut cache = SchedulerCache::default();
        for (revision, step) in steps.iter().enumerate() {
            apply(step, &mut world, &mut model, revision as u64 + 2);
            let Step::Schedule(new) = step else { continue };
            cache.sync(&world.reader(), is_ours);
            let object = new.object("new", 1, false);
            let (_, results) = results_of(&object, &mut cache, &world.reader());
            prop_assert_eq!(names(&cache, &feasible_nodes(&results, &cache)), model.feasible_nodes(new), "{:?}", new);
            let mut fresh = SchedulerCache::default();
            fresh.sync(&world.reader(), is_ours);
            let (_, rebuilt) = results_of(&object, &mut fresh, &world.reader());
            let chosen = select_node(&results, &cache, 7).map(|node| cache.nodes[node].name.clone());
            prop_assert_eq!(chosen, select_node(&rebuilt, &fresh, 7).map(|node| fresh.nodes[node].name.clone()));
        }
    }

    #[test]
    fn refreshed_results_equal_the_model(
        steps in proptest::collection::vec(step(), 1..60),
        new in pod(),
    ) {
        let (mut world, mut model) = start();
        let mut cache = SchedulerCache::default();
        let profile = Profile::new("default-scheduler");
        cache.sync(&world.reader(), is_ours);
        let object = new.object("new", 1, false);
        let (signature, mut kept) = results_of(&object, &mut cache, &world.reader());
        for (revision, step) in steps.iter().enumerate() {
            apply(step, &mut world, &mut model, revision as u64 + 2);
            cache.sync(&world.reader(), is_ours);
            kept.refresh(&signature, &mut cache, &world.reader(), &profile);
            prop_assert_eq!(names(&cache, &feasible_nodes(&kept, &cache)), model.feasible_nodes(&new));
        }
    }

    #[test]
    fn victims_have_lower_priority_and_are_sufficient_and_minimal(
        steps in proptest::collection::vec(step(), 1..40),
        mut new in pod(),
    ) {
        new.priority = 2;
        let (mut world, mut model) = start();
        for (revision, step) in steps.iter().enumerate() {
            apply(step, &mut world, &mut model, revision as u64 + 2);
        }
        let mut cache = SchedulerCache::default();
        cache.sync(&world.reader(), is_ours);
        let object = new.object("new", 1, false);
        let (signature, mut results) = results_of(&object, &mut cache, &world.reader());
        if !feasible_nodes(&results, &cache).is_empty() {
            return Ok(());
        }
        let (profile, reader) = (Profile::new("default-scheduler"), world.reader());
        let budgets = DisruptionBudgets::new(&reader);
        let evaluator = PreemptionEvaluator { signature: &signature, world: &reader, profile: &profile, budgets: &budgets, random: 7 };
        let before = format!("{:?}", cache.counters);
        let found = evaluator.select_candidate(&mut results, &mut cache);
        if let Ok((node, candidate)) = found {
            let at: usize = cache.nodes[node].name[1..].parse().unwrap();
            let number = |id: &u32| -> usize {
                cache.pod(*id).unwrap().object.meta().name[1..].parse().unwrap()
            };
            let victims: BTreeSet<usize> = candidate.victims.iter().map(number).collect();
            let terminating: BTreeSet<usize> = model.pods.iter()
                .filter(|(_, pod)| pod.node == at && pod.is_terminating && pod.priority < 2).map(|(at, _)| *at).collect();
            let without = |out: &BTreeSet<usize>| {
                let pods = model.pods.iter().filter(|(at, _)| !out.contains(at) && !terminating.contains(at));
                Model { nodes: model.nodes.clone(), pods: pods.map(|(at, pod)| (*at, pod.clone())).collect() }
            };
            prop_assert!(victims.iter().all(|victim| model.pods[victim].priority < 2 && model.pods[victim].node == at));
            prop_assert!(without(&victims).is_feasible(&new, at, &model.nodes[&at]), "not sufficient: {:?}", victims);
            for victim in &victims {
                let fewer: BTreeSet<usize> = victims.iter().copied().filter(|other| other != victim).collect();
                prop_assert!(!without(&fewer).is_feasible(&new, at, &model.nodes[&at]), "{} is not needed", victim);
            }
        }
        prop_assert_eq!(before, format!("{:?}", cache.counters), "a dry run changed the counters");
    }
}
