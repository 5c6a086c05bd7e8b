//! Time and memory of scheduling pods with very many terms: `cargo bench -p setpoint-scheduler --bench costly_pods`.
//!
//! Three cases on 100 nodes: one pod with 5,000 spread constraints, one with 10,000 anti-affinity terms, and three of
//! the latter with a plain pod that was created after them. The last case measures the time until a plan binds the plain
//! pod. Memory is the peak of the process, so each case runs in a process of its own.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::{Revision, Time, Value, json, value};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Object, Planner, Seed, Seen, World, WorldReader, Write};
use setpoint_scheduler::Scheduler;

const NODES: usize = 100;
const CASES: [&str; 3] = ["spread", "anti-affinity", "plain-behind-three"];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let Some(case) = args.first() else {
        for case in CASES {
            let this = std::env::current_exe().unwrap();
            assert!(std::process::Command::new(this).arg(case).status().unwrap().success());
        }
        return;
    };
    let mut world = World::default();
    for i in 0..NODES {
        put(&mut world, "nodes", "", &format!("n{i:03}"), node(i));
    }
    let costly = |name: &str| match case.as_str() {
        "spread" => pod(name, value!({"topologySpreadConstraints": (constraints(5_000))})),
        _ => pod(name, value!({"affinity": (anti_affinity(name, 10_000))})),
    };
    let names: &[&str] = if case == "plain-behind-three" { &["a", "b", "c"] } else { &["a"] };
    for name in names {
        put(&mut world, "pods", "default", name, costly(name));
    }
    let awaited = if case == "plain-behind-three" { "plain" } else { "a" };
    if awaited == "plain" {
        put(&mut world, "pods", "default", "plain", pod("plain", value!({})));
    }
    let (before, start) = (peak_memory(), cpu_time());
    let plans = plan_until(&world.reader(), awaited);
    let spent = (cpu_time() - start).as_secs_f64();
    println!(
        "{case}: {spent:.3} s in {plans} plans, peak memory {} MB, of which {before} MB before",
        peak_memory()
    );
}

/// Plans until one has a write for a pod. Returns the number of plans.
fn plan_until(world: &WorldReader<'_>, name: &str) -> usize {
    let scheduler = Scheduler::default();
    let key = scheduler.keys(world).remove(0);
    let mut memo = Default::default();
    for plans in 1..1_000 {
        let seen = Seen { memo, answers: &BTreeMap::new(), failure: None };
        let plan = scheduler.plan_owning(&key, world, seen, Time::from_seconds(1_800_000_000), Seed(7));
        let is_for_pod = |write: &Write| match write {
            Write::Post { key, .. } | Write::Patch { key, .. } => key.name() == name,
            _ => false,
        };
        if plan.stages.iter().flatten().any(|action| is_for_pod(&action.write)) {
            return plans;
        }
        memo = plan.memo;
    }
    panic!("no plan has a write for {name}");
}

fn put(world: &mut World, resource: &str, namespace: &str, name: &str, object: Value) {
    let key = key_of(resource, namespace, name).unwrap();
    let revision = Revision(world.revision().0 + 1);
    let bytes = bytes::Bytes::from(json::to_text(&object));
    world.put(Object::read(key, revision, Time::EPOCH, bytes).unwrap());
    world.advance_to(revision);
}

fn node(i: usize) -> Value {
    let name = format!("n{i:03}");
    let labels = Value::Map([("kubernetes.io/hostname", Value::from(name.as_str()))].into_iter().collect());
    let amounts = value!({"cpu": "4", "memory": "32Gi", "pods": "110"});
    value!({
        "metadata": {"name": (name.as_str()), "uid": (name.as_str()), "labels": (labels)},
        "status": {"allocatable": (amounts)},
    })
}

fn pod(name: &str, mut spec: Value) -> Value {
    let created = if name == "plain" { "2026-01-01T00:00:01Z" } else { "2026-01-01T00:00:00Z" };
    spec.make_map().insert("schedulerName", "default-scheduler");
    spec.make_map().insert("containers", vec![value!({"name": "c", "image": "i"})]);
    let metadata = value!({
        "name": (name), "namespace": "default", "uid": (name), "creationTimestamp": (created),
        "labels": {"app": (name)},
    });
    value!({"metadata": (metadata), "spec": (spec)})
}

fn constraints(count: usize) -> Vec<Value> {
    let constraint = |i: usize| {
        value!({
            "maxSkew": 1, "topologyKey": (format!("example.com/key-{i}")), "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": (format!("a{i}"))}},
        })
    };
    (0..count).map(constraint).collect()
}

fn anti_affinity(name: &str, count: usize) -> Value {
    let term = |i: usize| {
        value!({
            "labelSelector": {"matchLabels": {"app": (format!("{name}{i}"))}},
            "topologyKey": "kubernetes.io/hostname",
        })
    };
    let terms: Vec<Value> = (0..count).map(term).collect();
    value!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": (terms)}})
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

/// Peak memory of the process in MB.
fn peak_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}
