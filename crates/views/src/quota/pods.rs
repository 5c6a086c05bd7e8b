//! Quota usage of pods.

use std::collections::BTreeSet;
use std::time::Duration;

use setpoint_api::quantity::Quantity;
use setpoint_api::{Time, Value};
use setpoint_reconcile::object::Object;

use super::{ScopeRequirement, Usage, amounts};
use crate::condition;
use crate::pod::{Container, ContainerStatus, Pod, ResourceRequirements};

/// Quota resource names of pods, without hugepages and extended resources.
const POD_RESOURCE_NAMES: [&str; 10] = [
    "pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

/// Resources that are charged under their plain name (requests) and with the prefix `limits.`.
const COMPUTE_RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Prefix of the extended resource that every device class has.
const DEVICE_CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// `true` if pods are charged to the quota resource name.
pub(super) fn is_charged_by_pods(name: &str) -> bool {
    let is_extended = |name: &str| {
        name.contains('/') && !name.contains("kubernetes.io/") || name.starts_with(DEVICE_CLASS_PREFIX)
    };
    POD_RESOURCE_NAMES.contains(&name)
        || name.starts_with("hugepages-")
        || name
            .strip_prefix("requests.")
            .is_some_and(|name| name.starts_with("hugepages-") || is_extended(name))
}

/// `true` unless the pod has terminated, or is deleted and its grace period has passed.
pub(super) fn is_charged(object: &Object, pod: &Pod, now: Time) -> bool {
    let meta = object.meta();
    let is_overdue = meta
        .deletion_timestamp
        .zip(meta.deletion_grace_period_seconds)
        .is_some_and(|(at, grace)| now > at.after(Duration::from_secs(u64::try_from(grace).unwrap_or(0))));
    !pod.is_finished() && !is_overdue
}

pub(super) fn add_usage(pod: &Pod, usage: &mut Usage) {
    usage.insert("pods".to_owned(), Quantity::from(1_i64));
    let requests = pod_resources(pod, "requests", &[spec_requests, allocated_requests, actual_requests]);
    for (name, amount) in requests {
        if COMPUTE_RESOURCES.contains(&name.as_str()) || name.starts_with("hugepages-") {
            usage.insert(name.clone(), amount);
        }
        usage.insert(format!("requests.{name}"), amount);
    }
    for (name, amount) in pod_resources(pod, "limits", &[spec_limits, actual_limits]) {
        if COMPUTE_RESOURCES.contains(&name.as_str()) {
            usage.insert(format!("limits.{name}"), amount);
        }
    }
}

/// Quota resource names that every container must specify if a quota limits them.
const REQUIRED_NAMES: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];

/// Returns the message about requests and limits that the containers must specify and do not. Pod-level resources make
/// those of containers optional.
pub(super) fn find_unspecified_resources<'a>(
    pod: &Pod,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let pod_level =
        |list| parse_quantities(pod.spec.resources.as_ref().and_then(|resources| resources.get(list)));
    if pod_level("requests").keys().chain(pod_level("limits").keys()).any(|name| is_pod_level_resource(name))
    {
        return None;
    }
    let names: BTreeSet<&str> = names.into_iter().filter(|name| REQUIRED_NAMES.contains(name)).collect();
    let missing = names.into_iter().filter_map(|name| {
        let specifies = |container: &&Container| match name.strip_prefix("limits.") {
            Some(name) => container.resources.limits.get(name).is_some(),
            None => container.resources.requests.get(name.trim_start_matches("requests.")).is_some(),
        };
        let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
        let unspecified: BTreeSet<&str> =
            containers.filter(|container| !specifies(container)).map(|container| &*container.name).collect();
        let unspecified: Vec<&str> = unspecified.into_iter().collect();
        (!unspecified.is_empty()).then(|| format!("{name} for: {}", unspecified.join(",")))
    });
    let missing: Vec<String> = missing.collect();
    (!missing.is_empty()).then(|| format!("must specify {}", missing.join("; ")))
}

/// Source of a container's quantities: spec, allocated or actual resources. A status without them falls back to the
/// spec, which is ignored while a resize is infeasible (the last argument).
type ContainerResources = fn(&Container, Option<&ContainerStatus>, bool) -> Usage;

fn spec_requests(container: &Container, _: Option<&ContainerStatus>, is_infeasible: bool) -> Usage {
    if is_infeasible { Usage::new() } else { amounts(&container.resources.requests) }
}

fn allocated_requests(container: &Container, status: Option<&ContainerStatus>, is_infeasible: bool) -> Usage {
    match status.map(|status| &status.allocated_resources).filter(|allocated| !allocated.is_empty()) {
        Some(allocated) => amounts(allocated),
        None => spec_requests(container, None, is_infeasible),
    }
}

fn actual_requests(container: &Container, status: Option<&ContainerStatus>, is_infeasible: bool) -> Usage {
    match status.map(|status| &status.resources.requests).filter(|actual| !actual.is_empty()) {
        Some(actual) => amounts(actual),
        None => allocated_requests(container, status, is_infeasible),
    }
}

fn spec_limits(container: &Container, _: Option<&ContainerStatus>, is_infeasible: bool) -> Usage {
    if is_infeasible { Usage::new() } else { amounts(&container.resources.limits) }
}

fn actual_limits(container: &Container, status: Option<&ContainerStatus>, is_infeasible: bool) -> Usage {
    match status.map(|status| &status.resources.limits).filter(|actual| !actual.is_empty()) {
        Some(actual) => amounts(actual),
        None => spec_limits(container, None, is_infeasible),
    }
}

/// Returns the requests or limits of a pod: the maximum over the sources, replaced by pod-level resources, plus the pod
/// overhead.
fn pod_resources(pod: &Pod, list: &str, sources: &[ContainerResources]) -> Usage {
    let is_infeasible = condition(&pod.status.conditions, "PodResizePending")
        .is_some_and(|pending| pending.reason == "Infeasible");
    let statuses = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    let has_status_resources = statuses.clone().any(|status| {
        let ResourceRequirements { requests, limits } = &status.resources;
        !(requests.is_empty() && limits.is_empty() && status.allocated_resources.is_empty())
    });
    // Without resources in a status, all sources are equal.
    let sources = if has_status_resources { sources } else { &sources[..1] };
    let mut total = Usage::new();
    for source in sources {
        let resources_of = |container: &Container| {
            let status = statuses.clone().find(|status| status.name == container.name);
            source(container, status, is_infeasible)
        };
        max_assign(&mut total, &effective_resources(pod, resources_of));
    }
    for (name, amount) in
        parse_quantities(pod.spec.resources.as_ref().and_then(|resources| resources.get(list)))
    {
        if is_pod_level_resource(&name) {
            total.insert(name, amount);
        }
    }
    for (name, amount) in parse_quantities(pod.spec.overhead.as_ref()) {
        if list == "requests" || total.get(&name).is_some_and(|limit| !limit.is_zero()) {
            *total.entry(name).or_insert_with(|| Quantity::from(0_i64)) += amount;
        }
    }
    total
}

/// `true` for resources that can be specified for a pod as a whole.
fn is_pod_level_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// Returns the sum over containers and sidecars, or the peak while init containers run if that is higher.
fn effective_resources(pod: &Pod, resources_of: impl Fn(&Container) -> Usage) -> Usage {
    let mut total = Usage::new();
    for container in &pod.spec.containers {
        add_assign(&mut total, &resources_of(container));
    }
    let (mut sidecars, mut init_peak) = (Usage::new(), Usage::new());
    for container in &pod.spec.init_containers {
        let mut running = resources_of(container);
        if container.restart_policy == "Always" {
            add_assign(&mut total, &running);
            add_assign(&mut sidecars, &running);
            running.clone_from(&sidecars);
        } else {
            add_assign(&mut running, &sidecars);
        }
        max_assign(&mut init_peak, &running);
    }
    max_assign(&mut total, &init_peak);
    total
}

fn parse_quantities(list: Option<&Value>) -> Usage {
    let entries = list.and_then(Value::as_map).into_iter().flat_map(|map| map.iter());
    let parsed =
        entries.filter_map(|(name, text)| Some((name.to_owned(), Quantity::parse(text.as_str()?).ok()?)));
    parsed.collect()
}

fn add_assign(sum: &mut Usage, other: &Usage) {
    for (name, amount) in other {
        *sum.entry(name.clone()).or_insert_with(|| Quantity::from(0_i64)) += *amount;
    }
}

fn max_assign(max: &mut Usage, other: &Usage) {
    for (name, amount) in other {
        let entry = max.entry(name.clone()).or_insert(*amount);
        *entry = (*entry).max(*amount);
    }
}

pub(super) fn is_in_scope(pod: &Pod, scope: &ScopeRequirement) -> bool {
    let has_deadline = pod.spec.active_deadline_seconds.is_some_and(|seconds| seconds >= 0);
    match scope.scope_name.as_str() {
        "Terminating" => has_deadline,
        "NotTerminating" => !has_deadline,
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "PriorityClass" => {
            let class = pod.spec.priority_class_name.as_str();
            scope.matches(if class.is_empty() { &[] } else { std::slice::from_ref(&class) })
        }
        "CrossNamespacePodAffinity" => has_cross_namespace_affinity(pod),
        _ => false,
    }
}

/// `true` if the pod's QoS class is BestEffort: no requests or limits of CPU or memory.
fn is_best_effort(pod: &Pod) -> bool {
    let is_set = |amounts: &Usage| {
        amounts.iter().any(|(name, amount)| matches!(name.as_str(), "cpu" | "memory") && !amount.is_zero())
    };
    let pod_level =
        |list: &str| parse_quantities(pod.spec.resources.as_ref().and_then(|resources| resources.get(list)));
    let mut containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
    let has_resources = |container: &Container| {
        is_set(&amounts(&container.resources.requests)) || is_set(&amounts(&container.resources.limits))
    };
    !is_set(&pod_level("requests")) && !is_set(&pod_level("limits")) && !containers.any(has_resources)
}

/// `true` if a pod affinity or anti-affinity term names namespaces or has a namespace selector.
fn has_cross_namespace_affinity(pod: &Pod) -> bool {
    let Some(affinity) = &pod.spec.affinity else { return false };
    let is_cross_namespace = |term: &Value| {
        term.get("namespaces").is_some_and(|names| !names.is_empty())
            || term.get("namespaceSelector").is_some_and(|selector| !selector.is_null())
    };
    ["podAffinity", "podAntiAffinity"].into_iter().any(|kind| {
        let terms =
            |when: &str| affinity.at(&[kind, when]).and_then(Value::as_list).unwrap_or_default().iter();
        terms("requiredDuringSchedulingIgnoredDuringExecution").any(is_cross_namespace)
            || terms("preferredDuringSchedulingIgnoredDuringExecution")
                .any(|weighted| weighted.get("podAffinityTerm").is_some_and(is_cross_namespace))
    })
}
