//! Converged state: every workload has its desired pods, and its status is up to date.

use setpoint_api::Value;
use setpoint_reconcile::{Object, WorldReader};
use setpoint_views::daemon_set::DaemonSet;
use setpoint_views::deployment::Deployment;
use setpoint_views::endpoint_slice::EndpointSlice;
use setpoint_views::ip_address::IpAddress;
use setpoint_views::job::Job;
use setpoint_views::node::Node;
use setpoint_views::pod::Pod;
use setpoint_views::pod_disruption_budget::PodDisruptionBudget;
use setpoint_views::replica_set::ReplicaSet;
use setpoint_views::replication_controller::ReplicationController;
use setpoint_views::service::Service;
use setpoint_views::stateful_set::StatefulSet;

use super::{is_active, is_healthy, size};
use crate::campaign::nodes::NAMES;

type CheckResult = Result<(), String>;

/// Checks the state of all objects.
///
/// # Errors
/// Describes the first object that is not converged.
pub fn check_converged(world: &WorldReader<'_>) -> CheckResult {
    let checks: [fn(&WorldReader<'_>) -> CheckResult; 10] = [
        check_nodes,
        check_deployments,
        check_sets,
        check_stateful_sets,
        check_daemon_sets,
        check_jobs,
        check_budgets,
        check_services,
        check_addresses,
        check_deleted_objects,
    ];
    checks.iter().try_for_each(|check| check(world))
}

/// Checks that all numbers equal the desired one.
fn expect_equal(object: &Object, field: &str, numbers: &[i64], expected: i64) -> CheckResult {
    if numbers.iter().all(|number| *number == expected) {
        return Ok(());
    }
    Err(format!("{}: expected {expected} {field}, found {numbers:?}", object.key()))
}

fn pods_of(world: &WorldReader<'_>, object: &Object) -> (i64, i64) {
    let pods = || world.owned(&object.meta().uid, "pods");
    (size(pods().filter(|pod| is_active(pod)).count()), size(pods().filter(|pod| is_healthy(pod)).count()))
}

/// All nodes exist, are ready and have no taints.
fn check_nodes(world: &WorldReader<'_>) -> CheckResult {
    NAMES.iter().try_for_each(|name| match world.view::<Node>("", name) {
        Some((_, node)) if node.is_ready() && node.spec.taints.is_empty() => Ok(()),
        found => Err(format!(
            "{name} is not ready or has taints: {:?}",
            found.map(|(_, node)| (&node.spec, node.readiness()))
        )),
    })
}

fn check_deployments(world: &WorldReader<'_>) -> CheckResult {
    world.views::<Deployment>().try_for_each(|(object, deployment)| {
        let status = &deployment.status;
        expect_equal(
            object,
            "as observed generation",
            &[status.observed_generation],
            object.meta().generation,
        )?;
        let mut numbers = vec![status.replicas, status.available_replicas];
        if !deployment.spec.paused {
            numbers.push(status.updated_replicas);
        }
        expect_equal(object, "pods", &numbers, deployment.spec.replicas)
    })
}

fn check_sets(world: &WorldReader<'_>) -> CheckResult {
    let sets = world.views::<ReplicaSet>();
    let controllers = world.views::<ReplicationController>().map(|(object, view)| (object, &view.0));
    sets.chain(controllers).try_for_each(|(object, set)| {
        let (active, healthy) = pods_of(world, object);
        expect_equal(object, "pods", &[active, healthy, set.status.replicas], set.spec.replicas)
    })
}

fn check_stateful_sets(world: &WorldReader<'_>) -> CheckResult {
    world.views::<StatefulSet>().try_for_each(|(object, set)| {
        let (active, healthy) = pods_of(world, object);
        let reported = [set.status.replicas, set.status.ready_replicas];
        expect_equal(object, "pods", &[active, healthy, reported[0], reported[1]], set.spec.replicas)
    })
}

fn check_daemon_sets(world: &WorldReader<'_>) -> CheckResult {
    world.views::<DaemonSet>().try_for_each(|(object, set)| {
        let (active, healthy) = pods_of(world, object);
        let nodes = size(world.count("nodes"));
        let reported = [set.status.desired_number_scheduled, set.status.number_ready];
        expect_equal(object, "pods", &[active, healthy, reported[0], reported[1]], nodes)
    })
}

fn check_jobs(world: &WorldReader<'_>) -> CheckResult {
    world.views::<Job>().try_for_each(|(object, job)| match job.status.finished_condition() {
        None if !is_suspended(job) => Err(format!("{} is not finished: {:?}", object.key(), job.status)),
        Some(_) if job.spec.ttl_seconds_after_finished.is_some() => {
            Err(format!("{} is finished and was not deleted after its TTL", object.key()))
        }
        _ => Ok(()),
    })
}

fn check_budgets(world: &WorldReader<'_>) -> CheckResult {
    world.views::<PodDisruptionBudget>().try_for_each(|(object, budget)| {
        // A budget that cannot determine the expected pods, because some have no controller, reports `SyncFailed` and
        // no counts.
        if budget.status.conditions.iter().any(|condition| condition.reason == "SyncFailed") {
            return Ok(());
        }
        let selects = |pod: &&Object| budget.spec.selector.matches(|name| pod.meta().labels.get(name));
        let pods = world.in_namespace("pods", &object.meta().namespace).filter(selects);
        expect_equal(
            object,
            "healthy pods",
            &[size(pods.filter(|pod| is_healthy(pod)).count())],
            budget.status.current_healthy,
        )
    })
}

/// EndpointSlices of every Service contain exactly the pods that it selects.
fn check_services(world: &WorldReader<'_>) -> CheckResult {
    world.views::<Service>().try_for_each(|(object, service)| {
        let Some(selector) = &service.spec.selector else { return Ok(()) };
        let namespace = &object.meta().namespace;
        let selects =
            |pod: &&Object| selector.iter().all(|(name, value)| pod.meta().labels.get(name) == Some(value));
        let pods = world.in_namespace("pods", namespace).filter(selects).filter(|pod| is_active(pod));
        let mut expected: Vec<&str> = pods
            .filter(|pod| pod.view::<Pod>().is_some_and(|pod| !pod.status.pod_ip.is_empty()))
            .map(|pod| &*pod.meta().uid)
            .collect();
        let slices = world.in_namespace("endpointslices.discovery.k8s.io", namespace);
        let slices = slices.filter(|slice| slice.meta().is_controlled_by(&object.meta().uid));
        let endpoints =
            slices.filter_map(|slice| slice.view::<EndpointSlice>()).flat_map(|slice| &slice.endpoints);
        let mut found: Vec<&str> =
            endpoints.map(|endpoint: &Value| endpoint.str_at(&["targetRef", "uid"])).collect();
        expected.sort_unstable();
        found.sort_unstable();
        if expected == found {
            Ok(())
        } else {
            Err(format!("{} has endpoints {found:?}, expected {expected:?}", object.key()))
        }
    })
}

/// Every IPAddress belongs to a Service.
fn check_addresses(world: &WorldReader<'_>) -> CheckResult {
    world.views::<IpAddress>().try_for_each(|(object, address)| {
        let has_owner = |(namespace, name): (&str, &str)| world.find("services", namespace, name).is_some();
        match address.service() {
            Some(service) if !has_owner(service) => Err(format!("{} belongs to no Service", object.key())),
            _ => Ok(()),
        }
    })
}

/// `true` if a Job starts no pods.
fn is_suspended(job: &Job) -> bool {
    job.spec.suspend || job.spec.parallelism == 0
}

/// Deleted objects are gone. Exceptions are claims in use, and pods of a suspended Job: the last failure of an index
/// is counted when its next pod is created.
fn check_deleted_objects(world: &WorldReader<'_>) -> CheckResult {
    let is_kept = |object: &Object| {
        let job = object.meta().controller().and_then(|owner| world.get_by_uid(&owner.uid));
        job.and_then(|job| job.view::<Job>()).is_some_and(is_suspended)
    };
    let resources = world.resources().filter(|resource| resource.as_str() != "persistentvolumeclaims");
    let mut objects = resources.flat_map(|resource| world.all(resource.as_str()));
    match objects.find(|object| object.meta().is_deleted() && !is_kept(object)) {
        Some(object) => Err(format!("{} is still terminating", object.key())),
        None => Ok(()),
    }
}
