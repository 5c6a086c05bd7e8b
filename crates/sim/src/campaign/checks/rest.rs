//! How the world should be when everything has come to rest: every workload has what it wants and says so.

use setpoint_api::Value;
use setpoint_reconcile::views::daemon_set::DaemonSet;
use setpoint_reconcile::views::deployment::Deployment;
use setpoint_reconcile::views::endpoint_slice::EndpointSlice;
use setpoint_reconcile::views::ip_address::IpAddress;
use setpoint_reconcile::views::job::Job;
use setpoint_reconcile::views::node::Node;
use setpoint_reconcile::views::pod::Pod;
use setpoint_reconcile::views::pod_disruption_budget::PodDisruptionBudget;
use setpoint_reconcile::views::replica_set::ReplicaSet;
use setpoint_reconcile::views::replication_controller::ReplicationController;
use setpoint_reconcile::views::service::Service;
use setpoint_reconcile::views::stateful_set::StatefulSet;
use setpoint_reconcile::{Object, World};

use super::{is_active, is_healthy, size};
use crate::campaign::nodes::NAMES;

type Judged = Result<(), String>;

/// Whether everything is as it is wanted.
///
/// # Errors
/// The first thing that is not.
pub fn at_rest(world: &World) -> Judged {
    let judges: [fn(&World) -> Judged; 10] = [
        nodes,
        deployments,
        sets,
        stateful_sets,
        daemon_sets,
        jobs,
        budgets,
        services,
        addresses,
        nothing_lingers,
    ];
    judges.iter().try_for_each(|judge| judge(world))
}

/// Demands that numbers are what they should be.
fn agree(object: &Object, what: &str, numbers: &[i64], wanted: i64) -> Judged {
    if numbers.iter().all(|number| *number == wanted) {
        return Ok(());
    }
    Err(format!("{} wants {wanted} {what}, not {numbers:?}", object.key()))
}

fn pods_of(world: &World, object: &Object) -> (i64, i64) {
    let pods = || world.owned(&object.meta().uid, "pods");
    (size(pods().filter(|pod| is_active(pod)).count()), size(pods().filter(|pod| is_healthy(pod)).count()))
}

/// All nodes are there and well.
fn nodes(world: &World) -> Judged {
    NAMES.iter().try_for_each(|name| match world.view::<Node>("", name) {
        Some((_, node)) if node.is_ready() && node.spec.taints.is_empty() => Ok(()),
        found => {
            Err(format!("{name} is not well: {:?}", found.map(|(_, node)| (&node.spec, node.readiness()))))
        }
    })
}

fn deployments(world: &World) -> Judged {
    world.views::<Deployment>().try_for_each(|(object, deployment)| {
        let status = &deployment.status;
        agree(object, "as its generation", &[status.observed_generation], object.meta().generation)?;
        let mut numbers = vec![status.replicas, status.available_replicas];
        if !deployment.spec.paused {
            numbers.push(status.updated_replicas);
        }
        agree(object, "pods", &numbers, deployment.spec.replicas)
    })
}

fn sets(world: &World) -> Judged {
    let sets = world.views::<ReplicaSet>();
    let controllers = world.views::<ReplicationController>().map(|(object, view)| (object, &view.0));
    sets.chain(controllers).try_for_each(|(object, set)| {
        let (active, healthy) = pods_of(world, object);
        agree(object, "pods", &[active, healthy, set.status.replicas], set.spec.replicas)
    })
}

fn stateful_sets(world: &World) -> Judged {
    world.views::<StatefulSet>().try_for_each(|(object, set)| {
        let (active, healthy) = pods_of(world, object);
        let said = [set.status.replicas, set.status.ready_replicas];
        agree(object, "pods", &[active, healthy, said[0], said[1]], set.spec.replicas)
    })
}

fn daemon_sets(world: &World) -> Judged {
    world.views::<DaemonSet>().try_for_each(|(object, set)| {
        let (active, healthy) = pods_of(world, object);
        let nodes = size(world.count("nodes"));
        let said = [set.status.desired_number_scheduled, set.status.number_ready];
        agree(object, "pods", &[active, healthy, said[0], said[1]], nodes)
    })
}

fn jobs(world: &World) -> Judged {
    world.views::<Job>().try_for_each(|(object, job)| match job.status.finish() {
        None if !is_still(job) => Err(format!("{} has not come to its end: {:?}", object.key(), job.status)),
        Some(_) if job.spec.ttl_seconds_after_finished.is_some() => {
            Err(format!("{} has come to its end, and is still to go", object.key()))
        }
        _ => Ok(()),
    })
}

fn budgets(world: &World) -> Judged {
    world.views::<PodDisruptionBudget>().try_for_each(|(object, budget)| {
        // One that cannot know how many pods there should be, because some are nobody's, says so and counts none.
        if budget.status.conditions.iter().any(|condition| condition.reason == "SyncFailed") {
            return Ok(());
        }
        let selects = |pod: &&Object| budget.spec.selector.matches(|name| pod.meta().labels.get(name));
        let pods = world.in_namespace("pods", &object.meta().namespace).filter(selects);
        agree(
            object,
            "serving",
            &[size(pods.filter(|pod| is_healthy(pod)).count())],
            budget.status.current_healthy,
        )
    })
}

/// The slices of every Service hold exactly the pods that serve it.
fn services(world: &World) -> Judged {
    world.views::<Service>().try_for_each(|(object, service)| {
        let Some(selector) = &service.spec.selector else { return Ok(()) };
        let namespace = &object.meta().namespace;
        let selects =
            |pod: &&Object| selector.iter().all(|(name, value)| pod.meta().labels.get(name) == Some(value));
        let pods = world.in_namespace("pods", namespace).filter(selects).filter(|pod| is_active(pod));
        let mut wanted: Vec<&str> = pods
            .filter(|pod| pod.view::<Pod>().is_some_and(|pod| !pod.status.pod_ip.is_empty()))
            .map(|pod| &*pod.meta().uid)
            .collect();
        let slices = world.in_namespace("endpointslices.discovery.k8s.io", namespace);
        let slices = slices.filter(|slice| slice.meta().is_controlled_by(&object.meta().uid));
        let endpoints =
            slices.filter_map(|slice| slice.view::<EndpointSlice>()).flat_map(|slice| &slice.endpoints);
        let mut found: Vec<&str> =
            endpoints.map(|endpoint: &Value| endpoint.str_at(&["targetRef", "uid"])).collect();
        wanted.sort_unstable();
        found.sort_unstable();
        if wanted == found {
            Ok(())
        } else {
            Err(format!("{} leads to {found:?}, not to {wanted:?}", object.key()))
        }
    })
}

/// Every address is somebody's.
fn addresses(world: &World) -> Judged {
    world.views::<IpAddress>().try_for_each(|(object, address)| {
        let has_owner = |(namespace, name): (&str, &str)| world.find("services", namespace, name).is_some();
        match address.service() {
            Some(service) if !has_owner(service) => Err(format!("{} is nobody's", object.key())),
            _ => Ok(()),
        }
    })
}

/// Whether a Job is to do nothing.
fn is_still(job: &Job) -> bool {
    job.spec.suspend || job.spec.parallelism == 0
}

/// What was deleted is gone, but for claims, which stay for as long as somebody uses them, and for pods of a Job that
/// stands still: the last failure of an index is counted when its next pod is made.
fn nothing_lingers(world: &World) -> Judged {
    let is_kept = |object: &Object| {
        let job = object.meta().controller().and_then(|owner| world.identified(&owner.uid));
        job.and_then(|job| job.view::<Job>()).is_some_and(is_still)
    };
    let resources = world.resources().filter(|resource| resource.as_str() != "persistentvolumeclaims");
    let mut objects = resources.flat_map(|resource| world.all(resource.as_str()));
    match objects.find(|object| object.meta().is_deleted() && !is_kept(object)) {
        Some(object) => Err(format!("{} was deleted and is still there", object.key())),
        None => Ok(()),
    }
}
