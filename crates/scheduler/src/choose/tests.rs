//! The rules beside a slow model that looks at every pod and every node each time, as the world changes.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::prelude::*;
use setpoint_api::{Key, Resource, Revision, Time, Value, json, value};
use setpoint_reconcile::views::pod::Pod as PodView;
use setpoint_reconcile::{Object, World};

use super::*;
use crate::preempt::{Budgets, Search};
use crate::profile::Profile;
use crate::shape::Shape;

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

#[derive(Clone, Debug)]
struct Node {
    zone: Option<u8>,
    cpu: i64,
    tainted: bool,
}

#[derive(Clone, Debug)]
struct Pod {
    namespace: u8,
    app: u8,
    cpu: i64,
    priority: i64,
    node: usize,
    near: Option<(bool, u8)>,
    far: Option<(bool, u8)>,
    spread: Option<(bool, i64, i64)>,
    zone: Option<u8>,
    deleted: bool,
    port: Option<u8>,
}

fn key(by_zone: bool) -> &'static str {
    if by_zone { ZONE } else { HOST }
}

fn read(resource: &str, path: &str, revision: u64, value: &Value) -> Object {
    let key = Key::from_path(&Resource::new(resource).unwrap(), path).unwrap();
    Object::read(key, Revision(revision), Time::EPOCH, Bytes::from(json::to_text(value))).unwrap()
}

impl Node {
    fn object(&self, at: usize, revision: u64) -> Object {
        let name = format!("n{at}");
        let mut labels = vec![(HOST, Value::from(name.as_str()))];
        labels.extend(self.zone.map(|zone| (ZONE, Value::from(format!("z{zone}")))));
        let labels = Value::Map(labels.into_iter().collect());
        let taints: Vec<Value> =
            if self.tainted { vec![value!({"key": "k", "effect": "NoSchedule"})] } else { Vec::new() };
        let cpu = format!("{}", self.cpu);
        let node = value!({
            "metadata": {"name": (name.as_str()), "uid": (name.as_str()), "labels": (labels)},
            "spec": {"taints": (taints)},
            "status": {"allocatable": {"cpu": (cpu), "memory": "1Gi", "pods": "10"}},
        });
        read("nodes", &name, revision, &node)
    }
}

fn term((by_zone, app): (bool, u8), elsewhere: bool) -> Value {
    let mut term = value!({
        "topologyKey": (key(by_zone)), "labelSelector": {"matchLabels": {"app": (format!("a{app}"))}},
    });
    if elsewhere {
        term.make_map().insert("namespaceSelector", value!({"matchLabels": {"big": "yes"}}));
    }
    value!({"requiredDuringSchedulingIgnoredDuringExecution": [(term)]})
}

impl Pod {
    fn object(&self, name: &str, revision: u64, bound: bool) -> Object {
        let mut affinity = Value::map();
        if let Some(near) = self.near {
            affinity.make_map().insert("podAffinity", term(near, true));
        }
        if let Some(far) = self.far {
            affinity.make_map().insert("podAntiAffinity", term(far, false));
        }
        let constraints = self.spread.iter().map(|(by_zone, skew, min_domains)| {
            value!({
                "topologyKey": (key(*by_zone)), "maxSkew": (*skew), "whenUnsatisfiable": "DoNotSchedule",
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
        if self.deleted {
            let metadata = pod.get_mut("metadata").unwrap().make_map();
            metadata.insert("deletionTimestamp", "2026-01-01T00:00:00Z");
        }
        read("pods", &format!("s{}/{name}", self.namespace), revision, &pod)
    }
}

/// Everything that is, for the slow model.
struct Model {
    nodes: BTreeMap<usize, Node>,
    pods: BTreeMap<usize, Pod>,
}

impl Model {
    fn domain(&self, node: usize, by_zone: bool) -> Option<String> {
        let found = self.nodes.get(&node)?;
        if by_zone { found.zone.map(|zone| format!("z{zone}")) } else { Some(format!("n{node}")) }
    }

    /// Whether some pod that this holds of is in the domain of a node.
    fn any_in(&self, node: usize, by_zone: bool, holds: impl Fn(&Pod) -> bool) -> bool {
        let domain = self.domain(node, by_zone);
        domain.is_some()
            && self.pods.values().any(|pod| holds(pod) && self.domain(pod.node, by_zone) == domain)
    }

    fn will_do(&self, new: &Pod, at: usize, node: &Node) -> bool {
        let on = || self.pods.values().filter(|pod| pod.node == at);
        let cpu: i64 = on().map(|pod| pod.cpu).sum();
        // Namespace 0 is big, and terms to be near look into big namespaces only.
        let near_meant = |pod: &Pod, app: u8| pod.namespace == 0 && pod.app == app;
        let near = new.near.is_none_or(|(by_zone, app)| {
            // Pods on nodes that are in no domain are near to nobody.
            let mut meant = self.pods.values().filter(|pod| near_meant(pod, app));
            let anywhere = meant.any(|pod| self.domain(pod.node, by_zone).is_some());
            self.any_in(at, by_zone, |pod| near_meant(pod, app))
                || (!anywhere && near_meant(new, app) && self.domain(at, by_zone).is_some())
        });
        let far = new.far.is_none_or(|(by_zone, app)| {
            !self.any_in(at, by_zone, |pod| pod.namespace == new.namespace && pod.app == app)
        });
        let shunned = [true, false].into_iter().any(|by_zone| {
            self.any_in(at, by_zone, |pod| {
                pod.namespace == new.namespace && pod.far == Some((by_zone, new.app))
            })
        });
        !node.tainted
            && new.zone.is_none_or(|zone| node.zone == Some(zone))
            && (new.cpu == 0 || cpu + new.cpu <= node.cpu)
            && on().count() < 10
            && !on().any(|pod| new.port.is_some() && pod.port == new.port)
            && near
            && far
            && !shunned
            && self.spreads(new, at)
    }

    fn spreads(&self, new: &Pod, at: usize) -> bool {
        let Some((by_zone, skew, min_domains)) = new.spread else { return true };
        let Some(own) = self.domain(at, by_zone) else { return false };
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        for (number, node) in &self.nodes {
            let counted = new.zone.is_none_or(|zone| node.zone == Some(zone));
            if let Some(domain) = self.domain(*number, by_zone).filter(|_| counted) {
                let here = self.pods.values().filter(|pod| {
                    pod.node == *number
                        && pod.namespace == new.namespace
                        && pod.app == new.app
                        && !pod.deleted
                });
                *counts.entry(domain).or_insert(0) += i64::try_from(here.count()).unwrap();
            }
        }
        let least = counts.values().min().copied().unwrap_or(0);
        let least = if i64::try_from(counts.len()).unwrap() < min_domains { 0 } else { least };
        counts.get(&own).copied().unwrap_or(0) + 1 - least <= skew
    }

    fn all(&self, new: &Pod) -> BTreeSet<String> {
        let fit = self.nodes.iter().filter(|(at, node)| self.will_do(new, **at, node));
        fit.map(|(at, _)| format!("n{at}")).collect()
    }
}

fn is_ours(object: &Object, _: &PodView) -> bool {
    !object.meta().is_deleted()
}

fn class_of(object: &Object, cache: &mut Cache, world: &World) -> (Shape, Class) {
    let shape = Shape::of(object, object.view::<PodView>().unwrap());
    let class = Class::new(&shape, cache, world, &Profile::named("default-scheduler"));
    (shape, class)
}

fn names(cache: &Cache, nodes: &[usize]) -> BTreeSet<String> {
    nodes.iter().map(|node| cache.nodes[*node].name.to_string()).collect()
}

fn node() -> impl Strategy<Value = Node> {
    (proptest::option::of(0u8..3), 1i64..6, proptest::bool::weighted(0.15))
        .prop_map(|(zone, cpu, tainted)| Node { zone, cpu, tainted })
}

fn pod() -> impl Strategy<Value = Pod> {
    let terms = || proptest::option::weighted(0.3, (any::<bool>(), 0u8..2));
    let spread = proptest::option::weighted(0.4, (any::<bool>(), 1i64..3, 1i64..4));
    let who = (0u8..2, 0u8..2, 0i64..3, 0i64..3, 0usize..6);
    let zone = proptest::option::weighted(0.2, 0u8..3);
    let port = proptest::option::weighted(0.2, 0u8..2);
    (who, terms(), terms(), spread, zone, proptest::bool::weighted(0.2), port).prop_map(
        |((namespace, app, cpu, priority, node), near, far, spread, zone, deleted, port)| Pod {
            namespace,
            app,
            cpu,
            priority,
            node,
            near,
            far,
            spread,
            zone,
            deleted,
            port,
        },
    )
}

#[derive(Clone, Debug)]
enum Step {
    Node(usize, Option<Node>),
    Pod(usize, Option<Pod>),
    Ask(Pod),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0usize..6, proptest::option::weighted(0.9, node())).prop_map(|(at, node)| Step::Node(at, node)),
        4 => (0usize..12, proptest::option::weighted(0.8, pod())).prop_map(|(at, pod)| Step::Pod(at, pod)),
        4 => pod().prop_map(Step::Ask),
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
        Step::Ask(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_nodes_that_will_do_are_those_of_the_slow_model_and_memory_changes_nothing(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let (mut world, mut model) = start();
        let mut cache = Cache::default();
        for (revision, step) in steps.iter().enumerate() {
            apply(step, &mut world, &mut model, revision as u64 + 2);
            let Step::Ask(new) = step else { continue };
            cache.follow(&world, is_ours);
            let object = new.object("new", 1, false);
            let (_, class) = class_of(&object, &mut cache, &world);
            prop_assert_eq!(names(&cache, &all(&class, &cache)), model.all(new), "{:?}", new);
            let mut fresh = Cache::default();
            fresh.follow(&world, is_ours);
            let (_, anew) = class_of(&object, &mut fresh, &world);
            let chosen = best(&class, &cache, 7).map(|node| cache.nodes[node].name.clone());
            prop_assert_eq!(chosen, best(&anew, &fresh, 7).map(|node| fresh.nodes[node].name.clone()));
        }
    }

    #[test]
    fn results_that_are_kept_are_those_that_are_made_anew(
        steps in proptest::collection::vec(step(), 1..60),
        new in pod(),
    ) {
        let (mut world, mut model) = start();
        let mut cache = Cache::default();
        let profile = Profile::named("default-scheduler");
        cache.follow(&world, is_ours);
        let object = new.object("new", 1, false);
        let (shape, mut kept) = class_of(&object, &mut cache, &world);
        for (revision, step) in steps.iter().enumerate() {
            apply(step, &mut world, &mut model, revision as u64 + 2);
            cache.follow(&world, is_ours);
            kept.refresh(&shape, &mut cache, &world, &profile);
            prop_assert_eq!(names(&cache, &all(&kept, &cache)), model.all(&new));
        }
    }

    #[test]
    fn victims_are_less_important_enough_and_none_too_many(
        steps in proptest::collection::vec(step(), 1..40),
        mut new in pod(),
    ) {
        new.priority = 2;
        let (mut world, mut model) = start();
        for (revision, step) in steps.iter().enumerate() {
            apply(step, &mut world, &mut model, revision as u64 + 2);
        }
        let mut cache = Cache::default();
        cache.follow(&world, is_ours);
        let object = new.object("new", 1, false);
        let (shape, mut class) = class_of(&object, &mut cache, &world);
        if !all(&class, &cache).is_empty() {
            return Ok(());
        }
        let (profile, budgets) = (Profile::named("default-scheduler"), Budgets::of(&world));
        let search = Search { shape: &shape, world: &world, profile: &profile, budgets: &budgets, chance: 7 };
        let before = format!("{:?}", cache.counters);
        let found = search.best(&mut class, &mut cache);
        if let Ok((node, candidate)) = found {
            let at: usize = cache.nodes[node].name[1..].parse().unwrap();
            let number = |id: &u32| -> usize {
                cache.pod(*id).unwrap().object.meta().name[1..].parse().unwrap()
            };
            let victims: BTreeSet<usize> = candidate.victims.iter().map(number).collect();
            let going: BTreeSet<usize> = model.pods.iter()
                .filter(|(_, pod)| pod.node == at && pod.deleted && pod.priority < 2).map(|(at, _)| *at).collect();
            let without = |out: &BTreeSet<usize>| {
                let pods = model.pods.iter().filter(|(at, _)| !out.contains(at) && !going.contains(at));
                Model { nodes: model.nodes.clone(), pods: pods.map(|(at, pod)| (*at, pod.clone())).collect() }
            };
            prop_assert!(victims.iter().all(|victim| model.pods[victim].priority < 2 && model.pods[victim].node == at));
            prop_assert!(without(&victims).will_do(&new, at, &model.nodes[&at]), "not enough: {:?}", victims);
            for victim in &victims {
                let fewer: BTreeSet<usize> = victims.iter().copied().filter(|other| other != victim).collect();
                prop_assert!(!without(&fewer).will_do(&new, at, &model.nodes[&at]), "{} goes in vain", victim);
            }
        }
        prop_assert_eq!(before, format!("{:?}", cache.counters), "a try left traces");
    }
}
