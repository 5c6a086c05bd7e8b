//! Cost of a plan: instructions grow no faster than n log n in any dimension of the world, and are bounded.
//!
//! Each case is a world that grows in the dimension that is expensive for one planner: pods of an owner,
//! volumes of a node, selectors times objects. It is planned at sizes n, 2n and 4n, and instructions are
//! counted with callgrind (`setpoint_sim::cost`): of the first plan of a key, of a plan with the memo of the
//! first, and of the listing of keys with the keys that one change of each watched resource enqueues. Objects
//! are decoded before the measurement.
//!
//! A planner without a world fails the test. `SETPOINT_COST` is the factor of the sizes; `SETPOINT_COST_ONLY`
//! selects the cases whose name contains it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "cost/objects.rs"]
mod objects;
#[path = "campaign/planners.rs"]
mod planners;
#[path = "cost/worlds.rs"]
mod worlds;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use planners::{indexes, planners};
use setpoint_api::{Key, Revision, Time, Value, value};
use setpoint_controllers::api_service_availability::RemoteAvailability;
use setpoint_controllers::authentication_trust::AuthenticationTrust;
use setpoint_controllers::certificate_expiry::CertificateExpiry;
use setpoint_controllers::legacy_token_tracking::LegacyTokenTracking;
use setpoint_reconcile::planner::{ErasedMemo, PlannerHarness};
use setpoint_reconcile::{Controller, Object, Plan, Query, Seed, World};
use setpoint_sim::cost::callgrind::{Counter, Shard, current_shard, run_under_valgrind};
use setpoint_sim::cost::{self, CostGrowth};
use setpoint_views::world_config;
use worlds::Case;

/// Number of processes that measure in parallel.
const SHARDS: usize = 2;
/// Number of elements in one dimension that every planner must handle: pods of a Service, nodes, roles.
const ELEMENTS: usize = 10_000;
/// Maximum number of instructions of one plan over a world with [`ELEMENTS`] in one dimension: about a
/// second, in a build with little optimization.
const PLAN_INSTRUCTIONS_MAX: u64 = 4_000_000_000;
/// Time of all plans.
const NOW: Time = Time::from_seconds(1_800_000_000);

/// World of a case, with its planner.
struct Scene {
    controller: Box<dyn Controller>,
    world: World,
    key: Key,
}

impl Scene {
    fn of(case: &Case, len: usize) -> Scene {
        let controller =
            measured_planners().into_iter().find(|controller| controller.name() == case.planner).unwrap();
        let mut world = World::new(world_config(indexes()));
        for object in (case.objects)(len) {
            world.put(object);
        }
        world.advance_to(Revision(1_000_000));
        Scene { controller, world, key: objects::key(case.key) }
    }

    fn plan(&self, harness: &mut PlannerHarness) -> Plan<ErasedMemo> {
        harness.plan(&*self.controller, &self.key, &self.world.reader(), NOW, Seed(1))
    }

    /// Lists the keys, and enqueues the keys of one change of each watched resource.
    fn list_and_wake(&self) -> usize {
        let mut enqueued = self.controller.keys(&self.world.reader()).len();
        for watch in self.controller.watches() {
            let all: Box<dyn Iterator<Item = &Object>> = match watch.resource {
                "*" => Box::new(self.world.get(&self.key).into_iter()),
                resource => Box::new(self.world.reader().all(resource)),
            };
            for object in all.take(1) {
                (watch.mapper)(object, &self.world.reader(), &mut |_| enqueued += 1);
            }
        }
        enqueued
    }
}

/// Measured parts of a case: a plan without a memo, one with the memo of the first, the listing of keys.
const PARTS: [&str; 3] = ["first", "again", "keys"];

/// Answer to a query.
fn answer(query: &Query, len: usize) -> Value {
    match query.target {
        "metrics" => {
            let sample = value!({"value": 900, "timestamp": "2027-01-15T08:00:00Z", "windowSeconds": 30});
            let pods = (0..len).map(|at| (objects::name("p", at), sample.clone()));
            value!({"pods": (Value::Map(pods.collect()))})
        }
        _ => Value::from("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
    }
}

/// Instructions of each of the [`PARTS`].
fn measure(counter: &mut Counter, case: &Case, len: usize) -> [u64; 3] {
    let scene = Scene::of(case, len);
    let mut harness = PlannerHarness::default();
    // Decodes the objects, and yields the memo of the second plan.
    let plan = scene.plan(&mut harness);
    for query in &plan.queries {
        harness.answer(&query.id, answer(query, len), NOW);
    }
    let (_, first) = counter.count(|| scene.plan(&mut PlannerHarness::default()));
    let has_memo = harness.has_memo() || !plan.queries.is_empty();
    let again = if has_memo { counter.count(|| scene.plan(&mut harness)).1 } else { 0 };
    scene.list_and_wake();
    let (_, keys) = counter.count(|| scene.list_and_wake());
    [first, again, keys]
}

/// Measures the cases of one process.
fn run(counter: &mut Counter, shard: Shard) {
    let only = std::env::var("SETPOINT_COST_ONLY").unwrap_or_default();
    for (number, case) in worlds::all().iter().enumerate() {
        let name = format!("{}: {}", case.planner, case.name);
        if !shard.contains(number) || !name.contains(&only) {
            continue;
        }
        let mut measured: BTreeMap<usize, [u64; 3]> = BTreeMap::new();
        for (at, part) in PARTS.iter().enumerate() {
            let growth = cost::measure_growth(cost::LOOKUPS, counter, &mut |counter, len| {
                measured.entry(len).or_insert_with(|| measure(counter, case, len))[at]
            });
            let (most, failed) = match case.steps_max {
                None => (growth.extrapolate(ELEMENTS), growth.has_failed),
                Some(steps) => (growth.instructions_per_pair().saturating_mul(steps), false),
            };
            let growth = CostGrowth { has_failed: failed || most > PLAN_INSTRUCTIONS_MAX, ..growth };
            cost::report(&format!("{name} ({part}, {most} with {ELEMENTS})"), &growth);
        }
    }
}

#[test]
fn cost_of_every_plan_is_bounded() {
    match current_shard() {
        Some(shard) => run(&mut Counter::new(), shard),
        None => run_under_valgrind("cost_of_every_plan_is_bounded", SHARDS),
    }
}

#[test]
fn every_planner_has_a_world() {
    let all = measured_planners();
    let names: BTreeSet<&str> = all.iter().map(|planner| planner.name()).collect();
    let cases = worlds::all();
    let with_world: BTreeSet<&str> = cases.iter().map(|case| case.planner).collect();
    assert_eq!(names, with_world);
    // A planner that is missing in every list is found in the source.
    let sources = ["controllers", "node", "scheduler"].map(|name| format!("../{name}/src"));
    let written: usize = sources.iter().map(|path| count_planners(Path::new(path))).sum();
    assert_eq!(all.len(), written, "planners in the source and in the lists");
}

/// All planners: also those of a server that query other servers.
fn measured_planners() -> Vec<Box<dyn Controller>> {
    let mut all = planners();
    all.push(Box::new(RemoteAvailability));
    all.push(Box::new(AuthenticationTrust));
    all.push(Box::new(LegacyTokenTracking));
    all.push(Box::new(CertificateExpiry));
    all
}

/// Number of planners in the source of a directory, without tests.
fn count_planners(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let count = |path: std::path::PathBuf| {
        if path.is_dir() {
            return count_planners(&path);
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let product = text.split("#[cfg(test)]").next().unwrap_or_default();
        let is_test = path.file_name().is_some_and(|name| name == "tests.rs");
        if is_test { 0 } else { product.matches("\nimpl Planner for ").count() }
    };
    entries.map(count).sum()
}

/// A case without any effect measures nothing: every planner has a world in which it writes, queries or
/// waits.
#[test]
fn every_planner_acts_in_some_world() {
    let mut idle: BTreeSet<&str> = measured_planners().iter().map(|planner| planner.name()).collect();
    for case in worlds::all() {
        let scene = Scene::of(&case, 4);
        let plan = scene.plan(&mut PlannerHarness::default());
        if !plan.is_quiet() || plan.requeue_at.is_some() {
            idle.remove(case.planner);
        }
    }
    assert_eq!(idle, BTreeSet::new());
}
