//! Benchmark of the loop with its budgets: `cargo bench -p setpoint-controllers`.
//!
//! Measures the CPU time of a resync over an idle cluster of 1,000 Deployments with 10,000 pods, per
//! controller and in total, and of the deletion of a namespace with 10,000 objects. CPU time is that of this
//! thread, as the system counts it.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::time::Duration;

use setpoint_api::resource_types;
use setpoint_api::{Key, Revision, Time, Value, value};
use setpoint_controllers::{Settings, indexes};
use setpoint_reconcile::engine::{RESYNC, RESYNC_WHOLE};
use setpoint_reconcile::{Controller, Engine, Plan, Planner, Seed, Seen, Watch, WorldReader};
use setpoint_sim::cluster::{Cluster, Controllers};
use setpoint_views::world_config;

const DEPLOYMENTS: usize = 1000;
const REPLICAS: i64 = 10;
/// Number of measured full resyncs, with those in between.
const ROUNDS: u32 = 20;
/// Interval between two full resyncs.
const PERIOD: Duration = RESYNC.saturating_mul(RESYNC_WHOLE);
/// Maximum CPU time of planning a key without a gap.
const PLAN_BUDGET: Duration = Duration::from_micros(5);
/// Maximum share of a core of an idle cluster, in percent.
const IDLE_BUDGET: f64 = 0.1;
/// Maximum CPU time of the deletion of a namespace.
const NAMESPACE_BUDGET: Duration = Duration::from_secs(2);

const CONTROLLERS: Controllers = || (controllers(), indexes::all());

/// Controller without any writes: the rest is the cost of the loop.
struct Content;

impl Planner for Content {
    type Memo = ();

    fn name(&self) -> &'static str {
        "the loop alone"
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::primary("pods")];
        &WATCHES
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, _: Time, _: Seed) -> Plan {
        assert!(world.get(key).is_some());
        Plan::default()
    }
}

fn controllers() -> Vec<Box<dyn Controller>> {
    setpoint_controllers::all(&Settings { root_ca: "any".to_owned(), ..Settings::default() })
}

/// CPU time of this thread.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

fn deployment(name: &str, replicas: i64) -> Value {
    value!({
        "metadata": {"name": (name)},
        "spec": {
            "replicas": (replicas),
            "selector": {"matchLabels": {"app": (name)}},
            "template": {
                "metadata": {"labels": {"app": (name)}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    })
}

/// Runs one resync. Returns its CPU time and the number of planned keys.
fn resync(engine: &mut Engine, now: &mut Time) -> (Duration, u64) {
    let plans = |engine: &Engine| engine.stats().map(|(_, _, stats)| stats.plans).sum::<u64>();
    let before = (cpu(), plans(engine));
    let end = now.after(RESYNC);
    while let Some(next_turn_at) = turns(engine, *now).filter(|next_turn_at| *next_turn_at <= end) {
        *now = next_turn_at;
    }
    *now = end;
    (cpu() - before.0, plans(engine) - before.1)
}

/// Runs turns until the loop is idle. Returns its next deadline.
fn turns(engine: &mut Engine, now: Time) -> Option<Time> {
    loop {
        let turn = engine.turn(now, Seed(1));
        assert!(turn.writes.is_empty(), "a cluster at rest is left alone: {:?}", turn.writes);
        if turn.next_turn_at.is_none_or(|next| next > now) {
            return turn.next_turn_at;
        }
    }
}

/// Idle loop over some controllers, with the objects of the cluster.
fn loop_over(cluster: &Cluster, controllers: Vec<Box<dyn Controller>>) -> Engine {
    let mut engine = Engine::new(controllers, world_config(indexes::all()));
    let world = cluster.engine.world();
    for resource in resource_types::stored().map(|stored| &stored.resource) {
        let objects = world.reader().all(resource.as_str()).cloned().collect();
        engine.relist(resource, objects, world.revision().max(Revision(1)), cluster.now);
    }
    engine.reach(world.revision());
    turns(&mut engine, cluster.now);
    engine
}

/// Average CPU time of the resyncs of one period, and the number of planned keys. The system counts CPU time
/// in ticks, so a single resync is too short to measure.
fn measured(engine: &mut Engine, from: Time) -> (Duration, u64) {
    let mut now = from;
    // The first resync starts after half a minute.
    resync(engine, &mut now);
    let rounds = (0..ROUNDS * RESYNC_WHOLE).map(|_| resync(engine, &mut now));
    let (cost, plans) = rounds.fold((Duration::ZERO, 0), |sum, round| (sum.0 + round.0, sum.1 + round.1));
    (cost / ROUNDS, plans / u64::from(ROUNDS))
}

fn at_rest() {
    let mut cluster = Cluster::new(CONTROLLERS, 1);
    for number in 0..DEPLOYMENTS {
        cluster.create("deployments.apps", "default", deployment(&format!("d-{number}"), REPLICAS));
    }
    cluster.settle_with_pods();
    let count = |resource: &str| cluster.list(resource).len();
    println!(
        "{} Deployments, {} ReplicaSets, {} pods, {} events",
        count("deployments.apps"),
        count("replicasets.apps"),
        count("pods"),
        count("events")
    );
    let micros = |cost: Duration, plans: u64| cost.as_secs_f64() * 1e6 / plans.max(1) as f64;
    for controller in controllers().into_iter().chain([Box::new(Content) as Box<dyn Controller>]) {
        let name = controller.name();
        let (cost, plans) = measured(&mut loop_over(&cluster, vec![controller]), cluster.now);
        if plans > 1 {
            let each = micros(cost, plans);
            println!("{name}: {plans} keys, {each:.2} us each, budget: {PLAN_BUDGET:?}");
        }
    }
    let (cost, plans) = measured(&mut loop_over(&cluster, controllers()), cluster.now);
    let (each, share) = (micros(cost, plans), cost.as_secs_f64() / PERIOD.as_secs_f64() * 100.0);
    println!("all: {plans} keys, {each:.2} us each, budget: {PLAN_BUDGET:?}");
    println!("at rest: {share:.3} % of a core, budget: {IDLE_BUDGET} %");
}

fn namespace() {
    let mut cluster = Cluster::new(CONTROLLERS, 2);
    cluster.create("namespaces", "", value!({"metadata": {"name": "full"}}));
    for (resource, number) in [("configmaps", 8000), ("secrets", 900)] {
        for number in 0..number {
            let object = value!({"metadata": {"name": (format!("o-{number}"))}, "data": {"a": "MQ=="}});
            cluster.create(resource, "full", object);
        }
    }
    for number in 0..100 {
        cluster.create("deployments.apps", "full", deployment(&format!("d-{number}"), 9));
    }
    cluster.settle();
    cluster.history.clear();
    let before = cpu();
    cluster.delete("namespaces", "full", &Value::default()).unwrap();
    cluster.run(Duration::from_secs(60));
    let cost = cpu() - before;
    assert!(cluster.get("namespaces", "full").is_none(), "the namespace is still there");
    let writes = cluster.history.len();
    println!("deletion of a namespace: {writes} writes, {cost:.2?} of CPU, budget: {NAMESPACE_BUDGET:?}");
}

fn main() {
    at_rest();
    namespace();
}
