//! Mutation tests of the checks: each catches a control plane with a seeded bug.

use setpoint_api::{Key, Value, value};
use setpoint_reconcile::planner::{ErasedMemo, SoftStateMut};
use setpoint_reconcile::{Controller, Index, Plan, Seed, Watch, WorldReader, Write};
use setpoint_sim::campaign::nodes::SPARE;
use setpoint_sim::campaign::schedule::Schedule;
use setpoint_sim::campaign::{self, Setup, users};
use setpoint_sim::cluster::Controllers;

use super::{CONTROL_PLANE, SETUP};

/// Maximum number of seeds until a bug is caught.
const SEEDS_MAX: u64 = 400;

/// Mutation of a plan.
type Mutation = fn(&mut Plan<ErasedMemo>, &Key, &WorldReader<'_>);

/// Controller with mutated plans.
struct Mutant {
    inner: Box<dyn Controller>,
    mutation: Mutation,
}

impl Controller for Mutant {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn watches(&self) -> &'static [Watch] {
        self.inner.watches()
    }

    fn user(&self) -> String {
        self.inner.user()
    }

    fn node(&self, key: &Key, world: &WorldReader<'_>) -> Option<String> {
        self.inner.node(key, world)
    }

    fn manager(&self) -> &'static str {
        self.inner.manager()
    }

    fn source(&self) -> &'static str {
        self.inner.source()
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        self.inner.keys(world)
    }

    fn clock_jumped_any(
        &self,
        memo: &mut std::sync::Arc<dyn std::any::Any + Send + Sync>,
        jump: setpoint_reconcile::Jump,
        now: setpoint_api::Time,
    ) {
        self.inner.clock_jumped_any(memo, jump, now);
    }

    fn plan_any(
        &self,
        key: &Key,
        world: &WorldReader<'_>,
        soft: SoftStateMut<'_>,
        now: setpoint_api::Time,
        seed: Seed,
    ) -> Plan<ErasedMemo> {
        let mut plan = self.inner.plan_any(key, world, soft, now, seed);
        (self.mutation)(&mut plan, key, world);
        plan
    }
}

/// Returns all controllers; those with these names are mutated.
fn with_mutation(names: &[&str], mutation: Mutation) -> (Vec<Box<dyn Controller>>, Vec<Index>) {
    let (all, indexes) = CONTROL_PLANE();
    let mutate = |inner: Box<dyn Controller>| -> Box<dyn Controller> {
        if names.contains(&inner.name()) { Box::new(Mutant { inner, mutation }) } else { inner }
    };
    (all.into_iter().map(mutate).collect(), indexes)
}

/// Asserts that a bug is caught, with the expected message.
fn is_caught(setup: Setup, message: &str) {
    is_caught_in(&[], setup, message);
}

/// Like [`is_caught`], with only some scenarios; all if none are named.
fn is_caught_in(scenarios: &[&str], setup: Setup, message: &str) {
    let named = |number: &usize| scenarios.contains(&users::ALL[*number].name);
    let mut others = Vec::new();
    for seed in 0..SEEDS_MAX {
        let mut schedule = Schedule::new(seed, users::BUILT_IN);
        if !scenarios.is_empty() {
            schedule.scenarios = (0..users::ALL.len()).filter(named).collect();
        }
        match campaign::run(setup, &schedule, false) {
            Err(failure) if failure.message.contains(message) => return,
            Err(failure) => others.push(failure.message),
            Ok(_) => {}
        }
    }
    others.truncate(3);
    panic!("no check failed with {message:?} in {SEEDS_MAX} seeds; other failures: {others:#?}");
}

fn mutant(controllers: Controllers) -> Setup {
    Setup { controllers, ..SETUP }
}

fn patches<'a>(plan: &'a mut Plan<ErasedMemo>, resource: &'a str) -> impl Iterator<Item = &'a mut Value> {
    let actions = plan.stages.iter_mut().flatten();
    actions.filter_map(move |action| match &mut action.write {
        Write::Patch { key, patch, .. } if key.resource().as_str() == resource => Some(patch),
        _ => None,
    })
}

/// Duplicates all creations.
fn duplicate_creates(plan: &mut Plan<ErasedMemo>, _: &Key, _: &WorldReader<'_>) {
    for stage in &mut plan.stages {
        let creates = stage.iter().filter(|action| matches!(action.write, Write::Create { .. })).cloned();
        let creates: Vec<_> = creates.collect();
        stage.extend(creates);
    }
}

#[test]
fn replica_set_that_creates_pods_twice_is_caught() {
    is_caught(
        mutant(|| with_mutation(&["replicaset-controller", "replication-controller"], duplicate_creates)),
        "has created",
    );
}

#[test]
fn daemon_set_that_creates_pods_twice_is_caught() {
    is_caught(mutant(|| with_mutation(&["daemonset-controller"], duplicate_creates)), "pods on Some(");
}

/// Changes the sizes that a Deployment sets on its sets.
fn resize(plan: &mut Plan<ErasedMemo>, change: fn(i64) -> i64) {
    for patch in patches(plan, "replicasets.apps") {
        if let Some(replicas) = patch.at_mut(&["spec", "replicas"]) {
            *replicas = Value::from(replicas.as_i64().map_or(0, change));
        }
    }
}

#[test]
fn deployment_above_max_surge_is_caught() {
    let mutated: Controllers = || {
        with_mutation(&["deployment-controller"], |plan, _, _| {
            resize(plan, |replicas| if replicas > 0 { replicas + 5 } else { 0 });
        })
    };
    is_caught(mutant(mutated), "so that its sets have");
}

#[test]
fn deployment_above_max_unavailable_is_caught() {
    is_caught(
        mutant(|| with_mutation(&["deployment-controller"], |plan, _, _| resize(plan, |_| 0))),
        "pods stay available",
    );
}

#[test]
fn stateful_set_that_ignores_the_order_is_caught() {
    let mutated: Controllers = || {
        with_mutation(&["statefulset-controller"], |plan, _, _| {
            for action in plan.stages.iter_mut().flatten() {
                if let Write::Create { object, .. } = &mut action.write
                    && object.str_at(&["metadata", "name"]) == "db-0"
                {
                    object.ensure_map("metadata").insert("name", "db-1");
                }
            }
        })
    };
    is_caught(mutant(mutated), "was created before db-0 was ready");
}

#[test]
fn collector_that_keeps_orphan_references_is_caught() {
    let mutated: Controllers = || {
        with_mutation(&["generic-garbage-collector"], |plan, _, _| {
            let removes_owner = |write: &Write| match write {
                Write::Patch { patch, .. } => patch.at(&["metadata", "ownerReferences"]).is_some(),
                _ => false,
            };
            plan.stages.iter_mut().for_each(|stage| stage.retain(|action| !removes_owner(&action.write)));
        })
    };
    is_caught(mutant(mutated), "had orphaned it");
}

#[test]
fn collector_that_deletes_owned_objects_is_caught() {
    let mutated: Controllers = || {
        with_mutation(&["generic-garbage-collector"], |plan, key, world| {
            if let Some(object) = world.get(key).filter(|object| !object.meta().owner_references.is_empty()) {
                plan.stage([Write::delete(object).into()]);
            }
        })
    };
    is_caught(mutant(mutated), "although its owner");
}

#[test]
fn collector_that_leaves_garbage_is_caught() {
    let mutated: Controllers =
        || with_mutation(&["generic-garbage-collector"], |plan, _, _| plan.stages.clear());
    is_caught(mutant(mutated), "is leaked");
}

#[test]
fn budget_that_allows_too_many_disruptions_is_caught() {
    let mutated: Controllers = || {
        with_mutation(&["disruption-controller"], |plan, _, _| {
            for patch in patches(plan, "poddisruptionbudgets.policy") {
                if let Some(status) = patch.get_mut("status") {
                    status.make_map().insert("disruptionsAllowed", 5);
                }
            }
        })
    };
    is_caught(mutant(mutated), "an eviction leaves");
}

#[test]
fn job_that_overcounts_is_caught() {
    let mutated: Controllers = || {
        with_mutation(&["job-controller"], |plan, _, _| {
            for patch in patches(plan, "jobs.batch") {
                if let Some(status) = patch.get_mut("status") {
                    let succeeded = status.get("succeeded").and_then(Value::as_i64).unwrap_or(0);
                    status.make_map().insert("succeeded", succeeded + 1);
                }
            }
        })
    };
    is_caught(mutant(mutated), "pods succeeded");
}

#[test]
fn job_that_removes_finalizers_of_uncounted_pods_is_caught() {
    let mutated: Controllers = || {
        with_mutation(&["job-controller"], |plan, _, _| {
            for patch in patches(plan, "jobs.batch") {
                if let Some(status) = patch.get_mut("status") {
                    status.make_map().remove("uncountedTerminatedPods");
                }
            }
        })
    };
    is_caught(mutant(mutated), " counts ");
}

#[test]
fn loop_that_writes_without_leading_is_caught() {
    is_caught(Setup { ignores_lease: true, ..SETUP }, " act");
}

#[test]
fn controller_that_never_stops_writing_is_caught() {
    let mutated: Controllers = || {
        with_mutation(&["replicaset-controller"], |plan, key, world| {
            if let Some(object) = world.get(key) {
                let patch = setpoint_api::value!({"metadata": {"annotations": {"seen": (object.revision().to_string())}}});
                plan.stage([Write::merge(object, "", patch).into()]);
            }
        })
    };
    is_caught(mutant(mutated), "did not settle");
}

#[test]
fn stale_slices_are_caught() {
    let mutated: Controllers =
        || with_mutation(&["endpointslice-controller"], |plan, _, _| plan.stages.clear());
    is_caught(mutant(mutated), "has endpoints");
}

/// Binds all pods with this name prefix to one node.
fn bind_all(plan: &mut Plan<ErasedMemo>, pods: &str, node: &str) {
    for action in plan.stages.iter_mut().flatten() {
        if let Write::Post { key, subresource: "binding", object } = &mut action.write
            && key.name().starts_with(pods)
        {
            object.ensure_map("target").insert("name", node);
        }
    }
}

#[test]
fn scheduler_that_overcommits_nodes_is_caught() {
    let mutated: Controllers =
        || with_mutation(&["scheduler"], |plan, _, _| bind_all(plan, "modest", "node-1"));
    is_caught_in(&["crowd"], mutant(mutated), "thousandths of cpu left");
}

#[test]
fn scheduler_that_assigns_a_host_port_twice_is_caught() {
    let mutated: Controllers =
        || with_mutation(&["scheduler"], |plan, _, _| bind_all(plan, "porter", "node-0"));
    is_caught_in(&["crowd"], mutant(mutated), "has its port 8080 taken");
}

#[test]
fn scheduler_that_ignores_node_labels_is_caught() {
    let mutated: Controllers =
        || with_mutation(&["scheduler"], |plan, _, _| bind_all(plan, "picky", "node-0"));
    is_caught_in(&["crowd"], mutant(mutated), "does not have the labels");
}

#[test]
fn scheduler_that_ignores_taints_is_caught() {
    let mutated: Controllers = || with_mutation(&["scheduler"], |plan, _, _| bind_all(plan, "", SPARE));
    is_caught(mutant(mutated), "has the taint dedicated");
}

#[test]
fn scheduler_that_ignores_volume_affinity_is_caught() {
    let mutated: Controllers = || with_mutation(&["scheduler"], |plan, _, _| bind_all(plan, "db", "node-2"));
    is_caught_in(&["ordered set"], mutant(mutated), "does not have the volume");
}

#[test]
fn quota_that_undercounts_is_caught() {
    let mutated: Controllers = || {
        with_mutation(&["resourcequota-controller"], |plan, _, _| {
            for patch in patches(plan, "resourcequotas") {
                if let Some(used) = patch.at_mut(&["status", "used"]) {
                    used.make_map().retain(|_, amount| {
                        *amount = Value::from("0");
                        true
                    });
                }
            }
        })
    };
    is_caught_in(&["quota and claims"], mutant(mutated), "was admitted");
}

#[test]
fn disk_that_does_not_sync_is_caught() {
    is_caught(Setup { ignores_syncs: true, ..SETUP }, "was acknowledged and is lost");
}

#[test]
fn loop_that_waits_by_the_wall_clock_is_caught() {
    is_caught(Setup { waits_by_wall_clock: true, ..SETUP }, "did not settle");
}

#[test]
fn cleanup_that_removes_the_finalizer_before_the_instances_is_caught() {
    let mutated: Controllers = || {
        with_mutation(&["crd-finalizer"], |plan, key, world| {
            if let Some(object) = world.get(key).filter(|object| object.meta().is_deleted()) {
                plan.stages.clear();
                let patch = value!({"metadata": {"finalizers": []}});
                plan.stage([Write::merge(object, "status", patch).into()]);
            }
        })
    };
    is_caught_in(&["custom resources"], mutant(mutated), "was removed with");
}

#[test]
fn definitions_with_the_same_names_are_caught() {
    let mutated: Controllers = || {
        with_mutation(&["crd-naming-condition-controller"], |plan, _, world| {
            for action in plan.stages.iter_mut().flatten() {
                if let Write::Patch { key, patch, .. } = &mut action.write
                    && let Some(object) = world.get(key)
                    && let Some(status) = patch.get_mut("status")
                {
                    let names = object.value().at(&["spec", "names"]).cloned().unwrap_or_default();
                    status.make_map().insert("acceptedNames", names);
                }
            }
        })
    };
    is_caught_in(&["custom resources"], mutant(mutated), "name gadget");
}

#[test]
fn server_that_calls_no_webhooks_is_caught() {
    let setup = Setup { ignores_webhooks: true, ..SETUP };
    is_caught_in(&["webhooks"], setup, "was stored without a call of webhook");
}
