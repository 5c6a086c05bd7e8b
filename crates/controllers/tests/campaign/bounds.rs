//! Bounds of plans: size by named constants, time by the number of objects, for any content of objects.
//!
//! Worlds are those of the campaign with extreme numbers, times, shares and quantities in every field of such
//! a type, even where validation would reject them: planners read anything that is stored.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use setpoint_api::resource_types;
use setpoint_api::schema::{Shape, Struct};
use setpoint_api::{Key, Map, Resource, Revision, Time, Value, json, value};
use setpoint_controllers::{daemon_set, replica_set};
use setpoint_reconcile::plan::PLAN_ACTIONS_MAX;
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Action, Engine, Object, Seed, Write};
use setpoint_sim::campaign::run::CampaignRun;
use setpoint_sim::campaign::schedule::{Schedule, ScheduleAction, ScheduleStep};
use setpoint_sim::campaign::users;
use setpoint_sim::cluster::Cluster;
use setpoint_views::world_config;

use super::planners::{indexes, planners};
use super::{CONTROLLERS, SETUP};

/// Number of worlds.
const WORLDS: u64 = 60;
/// Number of user edits before a world is captured.
const EDITS: u64 = 25;
/// Maximum number of rounds of the loop before a world is captured.
const ROUNDS: u64 = 12;
/// Maximum time of all plans of one world. A world has some hundred objects, and its plans take milliseconds;
/// a loop up to a number in an object takes minutes at least.
const ENDLESS: Duration = Duration::from_secs(300);

fn engine() -> Engine {
    Engine::new(planners(), world_config(indexes()))
}

/// Inserts objects into a loop, as if they had been listed.
fn fill(engine: &mut Engine, objects: impl IntoIterator<Item = Object>, now: Time) {
    let mut by_resource: BTreeMap<Resource, Vec<Object>> = BTreeMap::new();
    for object in objects {
        by_resource.entry(object.key().resource().clone()).or_default().push(object);
    }
    for (resource, objects) in by_resource {
        engine.relist(&resource, objects, Revision(1_000_000), now);
    }
    engine.reach(Revision(1_000_000));
}

fn read(key: Key, value: &Value) -> Option<Object> {
    Object::read(key, Revision(9), Time::from_seconds(1_800_000_000), json::to_text(value)).ok()
}

/// Returns the number of plans. Panics if one is larger than its bound.
fn check(engine: &Engine, now: Time) -> usize {
    let mut plans = 0;
    engine.try_plans(now, Seed(3), &mut |name, key, plan| {
        plans += 1;
        let size = plan.actions();
        assert!(size <= PLAN_ACTIONS_MAX, "{name} plans {size} acts for {key}");
        let writes = || plan.stages.iter().flatten().map(|action| &action.write);
        let is_pod = |write: &&Write| write.resource().as_str() == "pods";
        let created = writes().filter(|write| matches!(write, Write::Create { .. })).filter(is_pod).count();
        let deleted = writes().filter(|write| matches!(write, Write::Delete { .. })).filter(is_pod).count();
        let burst = match name {
            "daemonset-controller" => daemon_set::BURST_REPLICAS,
            "namespace-controller" | "podgc-controller" | "pod-garbage-collector" => PLAN_ACTIONS_MAX,
            _ => replica_set::BURST_REPLICAS,
        };
        assert!(created <= burst && deleted <= burst, "{name}: {created} and {deleted} pods for {key}");
    });
    plans
}

/// Runs a check in a thread of its own, and panics if it does not finish.
fn in_time(case: String, run: impl FnOnce() -> usize + Send + 'static) -> usize {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || done.send(run()).unwrap());
    match ended.recv_timeout(ENDLESS) {
        Ok(plans) => plans,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{case}: a plan does not end"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            let cause = thread.join().unwrap_err();
            let text = cause.downcast_ref::<String>().map(String::as_str);
            panic!("{case}: {}", text.or(cause.downcast_ref::<&str>().copied()).unwrap_or("a panic"));
        }
    }
}

/// Generator of extreme values.
struct Extremes {
    seed: Seed,
    drawn: u64,
    /// One field in so many is changed.
    rarity: u64,
}

impl Extremes {
    fn draw(&mut self, below: u64) -> u64 {
        self.drawn += 1;
        self.seed.draw(self.drawn) % below
    }

    fn is_hit(&mut self) -> bool {
        let rarity = self.rarity;
        self.draw(rarity) == 0
    }

    fn pick<T: Clone>(&mut self, values: &[T]) -> T {
        values[usize::try_from(self.draw(values.len() as u64)).unwrap()].clone()
    }

    /// Extreme value of a type; `None` for types that have none.
    fn value(&mut self, shape: Shape<'_>) -> Option<Value> {
        let small = [0, 1, -1, 1_000_000, i64::from(i32::MAX), i64::from(i32::MIN)];
        let large = [0, 1, -1, i64::from(i32::MAX), i64::MAX, i64::MIN, i64::MAX - 1];
        let shares = ["0%", "100%", "2147483647%", "-1%", "9223372036854775807%", "x"];
        let times = ["0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z"];
        let quantities = ["0", "-1", "9223372036854775807", "1e18", "1n", "8Ei"];
        Some(match shape {
            Shape::Int32 => Value::Int(self.pick(&small)),
            Shape::Int64 => Value::Int(self.pick(&large)),
            Shape::IntOrString if self.draw(2) == 0 => Value::from(self.pick(&shares)),
            Shape::IntOrString => Value::Int(self.pick(&small)),
            Shape::Time | Shape::MicroTime => Value::from(self.pick(&times)),
            Shape::Quantity => Value::from(self.pick(&quantities)),
            _ => return None,
        })
    }

    /// Changes some fields of an object, and adds missing ones.
    fn change(&mut self, map: &mut Map, kind: Struct<'_>, depth: usize) {
        for field in kind.fields() {
            let (name, shape) = (field.name(), field.ty().shape());
            if let Some(value) = self.value(shape) {
                if self.is_hit() {
                    map.insert(name, value);
                }
                continue;
            }
            match (shape, map.get_mut(name)) {
                (Shape::Struct(inner), Some(Value::Map(inner_map))) => {
                    self.change(inner_map, inner, depth + 1)
                }
                (Shape::Struct(inner), None) if depth < 4 && depth > 0 && self.is_hit() => {
                    let mut added = Map::new();
                    self.change(&mut added, inner, depth + 1);
                    if !added.is_empty() {
                        map.insert(name, added);
                    }
                }
                (Shape::List(item), Some(Value::List(items))) => {
                    for one in items {
                        if let (Shape::Struct(inner), Value::Map(map)) = (item.shape(), one) {
                            self.change(map, inner, depth + 1);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Changes numbers that are stored as text.
    fn change_texts(&mut self, object: &mut Value) {
        let numbers = ["0", "-1", "2147483647", "9223372036854775807", "x"];
        if let Some(annotations) = object.at_mut(&["metadata", "annotations"]).and_then(Value::as_map_mut) {
            let names: Vec<String> = annotations.keys().map(str::to_owned).collect();
            for name in names {
                let is_number = annotations.get_str(&name).is_some_and(|text| text.parse::<i64>().is_ok());
                if is_number && self.is_hit() {
                    annotations.insert(name.as_str(), self.pick(&numbers));
                }
            }
        }
        for field in ["completedIndexes", "failedIndexes"] {
            if self.is_hit()
                && let Some(status) = object.at_mut(&["status"]).and_then(Value::as_map_mut)
            {
                let all = ["0-2147483646", "5-1,7-9223372036854775807", "-3", "", "0,2,4"];
                status.insert(field, self.pick(&all));
            }
        }
    }
}

/// Type of a resource's stored objects.
fn kind_of(resource: &Resource) -> Option<Struct<'static>> {
    resource_types::storage_type(resource).and_then(|served| served.stored_schema.built_in())
}

/// World of the campaign, after some rounds of the loop.
fn world(seed: u64) -> (Vec<Object>, Time) {
    let scenarios = (0..users::ALL.len()).collect();
    let schedule = Schedule { seed, calm: true, on_disk: false, scenarios, steps: Vec::new() };
    let mut trial = CampaignRun::new(SETUP, &schedule, false);
    for luck in 0..EDITS {
        trial.step(ScheduleStep { action: ScheduleAction::Edit, seed: Seed(seed).draw(luck) }).unwrap();
    }
    for _ in 0..Seed(seed).draw(99) % ROUNDS {
        trial.cluster.observe();
        trial.cluster.plan();
        while trial.cluster.perform() {}
        trial.run_nodes();
    }
    trial.cluster.observe();
    let world = trial.cluster.engine.world();
    let objects = world
        .reader()
        .resources()
        .flat_map(|resource| world.reader().all(resource.as_str()))
        .cloned()
        .collect();
    (objects, trial.cluster.now)
}

fn extreme(seed: u64, rarity: u64) -> (Vec<Object>, Time) {
    let mut extremes = Extremes { seed: Seed(seed), drawn: 0, rarity };
    let (objects, now) = world(seed);
    let changed = objects.into_iter().map(|object| {
        let key = object.key().clone();
        let mut value = object.value();
        if let (Some(kind), Some(map)) = (kind_of(key.resource()), value.as_map_mut()) {
            extremes.change(map, kind, 0);
        }
        extremes.change_texts(&mut value);
        // Objects that cannot be decoded are in no world.
        read(key, &value).unwrap_or(object)
    });
    (changed.collect(), now)
}

#[test]
fn every_plan_is_bounded_in_size_and_time_for_extreme_values() {
    let mut plans = 0;
    for seed in 0..WORLDS {
        // From a single extreme field to all of them.
        let rarity = [200, 20, 4, 1][usize::try_from(seed % 4).unwrap()];
        plans += in_time(format!("world {seed}"), move || {
            let (objects, now) = extreme(seed, rarity);
            let mut engine = engine();
            fill(&mut engine, objects, now);
            check(&engine, now)
        });
    }
    assert!(plans > 1000, "{plans} plans are too few to say anything");
}

fn object(resource: &str, namespace: &str, name: &str, mut value: Value) -> Object {
    let metadata = value.ensure_map("metadata");
    metadata.insert("name", name);
    metadata.insert("uid", format!("uid-{name}"));
    if !namespace.is_empty() {
        metadata.insert("namespace", namespace);
    }
    read(key_of(resource, namespace, name).unwrap(), &value).unwrap()
}

/// Spec that all workloads with this number of replicas share.
fn workload(replicas: i64) -> Value {
    let container = value!({"name": "c", "image": "i"});
    value!({
        "replicas": (replicas),
        "parallelism": (replicas),
        "completions": (replicas),
        "serviceName": "web",
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"restartPolicy": "Never", "containers": [(container)]},
        },
    })
}

fn with(mut spec: Value, field: &str, value: impl Into<Value>) -> Value {
    spec.make_map().insert(field, value.into());
    value!({"spec": (spec)})
}

#[test]
fn workloads_of_any_size_plan_one_burst_and_defer_the_rest() {
    let most = i64::from(i32::MAX);
    let ordinals = value!({"start": (most)});
    let claims: Vec<Value> = (0..3000).map(|at| value!({"metadata": {"name": (format!("c{at}"))}})).collect();
    let mut old = workload(most);
    old.make_map().insert("selector", value!({"app": "web"}));
    for (resource, value, created) in [
        ("replicasets.apps", with(workload(most), "minReadySeconds", most), 500),
        ("replicationcontrollers", with(old, "minReadySeconds", most), 500),
        ("statefulsets.apps", with(workload(most), "podManagementPolicy", "Parallel"), 500),
        ("statefulsets.apps", with(workload(most), "podManagementPolicy", "OrderedReady"), 1),
        ("statefulsets.apps", with(workload(most), "ordinals", ordinals), 1),
        ("jobs.batch", with(workload(most), "completionMode", "NonIndexed"), 500),
        ("jobs.batch", with(workload(most), "completionMode", "Indexed"), 500),
        ("deployments.apps", with(workload(most), "revisionHistoryLimit", most), 0),
    ] {
        let mut engine = engine();
        let now = Time::from_seconds(1_800_000_000);
        fill(&mut engine, [object(resource, "default", "web", value)], now);
        let mut pods = 0;
        engine.try_plans(now, Seed(1), &mut |_, key, plan| {
            if key.resource().as_str() != resource {
                return;
            }
            let is_pod = |write: &Write| write.resource().as_str() == "pods";
            let new = plan.stages.iter().flatten().filter(|action| is_pod(&action.write)).count();
            pods += new;
            if new == 500 {
                assert_eq!(plan.deferred, u64::try_from(most).unwrap() - 500, "{resource}");
            }
        });
        assert_eq!(pods, created, "{resource}");
    }
    // Claims count as well.
    let mut spec = workload(most);
    spec.make_map().insert("volumeClaimTemplates", Value::List(claims));
    let set = object("statefulsets.apps", "default", "web", with(spec, "podManagementPolicy", "Parallel"));
    let mut engine = engine();
    let now = Time::from_seconds(1_800_000_000);
    fill(&mut engine, [set], now);
    check(&engine, now);
}

#[test]
fn bulk_deletions_and_releases_are_split_in_order() {
    const COUNT: usize = PLAN_ACTIONS_MAX + 500;
    let now = Time::from_seconds(1_800_000_000);
    let gone = value!({"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}, "spec": {"finalizers": ["kubernetes"]}});
    let mut owner =
        value!({"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z", "finalizers": ["orphan"]}});
    owner.ensure_map("metadata").insert("namespace", "full");
    let reference = value!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "uid-owner"});
    let owned = || value!({"metadata": {"ownerReferences": [(reference.clone())]}});
    let maps = (0..COUNT).map(|at| object("configmaps", "full", &format!("m{at}"), owned()));
    let all =
        maps.chain([object("namespaces", "", "full", gone), object("configmaps", "full", "owner", owner)]);
    let mut engine = engine();
    fill(&mut engine, all, now);
    let mut seen = 0;
    engine.try_plans(now, Seed(1), &mut |name, key, plan| {
        if key.name() == "full" && name == "namespace-controller"
            || key.name() == "owner" && name == "generic-garbage-collector"
        {
            seen += 1;
            assert_eq!(plan.actions(), PLAN_ACTIONS_MAX, "{name}");
            assert!(plan.deferred > 0, "{name}: the rest is for the next plan");
            let frees = |action: &Action| match &action.write {
                Write::Patch { key: of, subresource: part, .. } => *of == key && *part != "status",
                _ => false,
            };
            assert!(
                !plan.stages.iter().flatten().any(frees),
                "{name}: {key} goes before the rest is released"
            );
        }
    });
    assert_eq!(seen, 2);
}

fn replica_set(name: &str, replicas: i64) -> Value {
    let mut spec = workload(replicas);
    for field in ["parallelism", "completions", "serviceName"] {
        spec.make_map().remove(field);
    }
    let template = value!({
        "metadata": {"labels": {"app": (name)}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    spec.make_map().insert("selector", value!({"matchLabels": {"app": (name)}}));
    spec.make_map().insert("template", template);
    value!({"metadata": {"name": (name)}, "spec": (spec)})
}

fn pods_of(cluster: &Cluster, app: &str) -> usize {
    cluster.list("pods").iter().filter(|pod| pod.str_at(&["metadata", "labels", "app"]) == app).count()
}

#[test]
fn unbounded_set_does_not_delay_others() {
    let mut cluster = Cluster::new(CONTROLLERS, 5);
    cluster.create("replicasets.apps", "default", replica_set("endless", i64::from(i32::MAX)));
    let round = |cluster: &mut Cluster| {
        cluster.observe();
        cluster.plan();
        while cluster.perform() {}
    };
    (0..3).for_each(|_| round(&mut cluster));
    cluster.create("replicasets.apps", "default", replica_set("small", 3));
    (0..2).for_each(|_| round(&mut cluster));
    assert_eq!(pods_of(&cluster, "small"), 3);
    let endless = pods_of(&cluster, "endless");
    assert!((1000..=5 * replica_set::BURST_REPLICAS).contains(&endless), "{endless}");
    let report = cluster.engine.keys("replicaset-controller");
    assert!(report.iter().all(|key| key.last_error.is_none()), "{report:?}");
}

#[test]
fn large_set_converges_burst_by_burst() {
    let mut cluster = Cluster::new(CONTROLLERS, 6);
    cluster.create("replicasets.apps", "default", replica_set("web", 1203));
    cluster.settle();
    assert_eq!(pods_of(&cluster, "web"), 1203);
    let stats = cluster.engine.stats().find(|(name, ..)| *name == "replicaset-controller").unwrap().2.clone();
    assert_eq!((stats.truncated_plans, stats.resync_gaps), (2, 0));
    cluster.patch("replicasets.apps", "default/web", "", value!({"spec": {"replicas": 0}})).unwrap();
    cluster.settle();
    assert_eq!(pods_of(&cluster, "web"), 0);
}
