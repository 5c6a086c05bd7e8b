//! What a pod uses of a quota.

use std::collections::BTreeSet;
use std::time::Duration;

use setpoint_api::quantity::Quantity;
use setpoint_api::{Time, Value};
use setpoint_reconcile::object::Object;

use super::{Scope, Usage, amounts};
use crate::condition;
use crate::pod::{Container, ContainerStatus, Pod, Resources};

/// The names of pods and of what they ask for; those with prefixes apart.
const NAMES: [&str; 10] = [
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

/// What pods ask for that counts by its plain name and by its limits.
const PLAIN: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

pub(super) fn is_counted(name: &str) -> bool {
    let extended = |name: &str| name.contains('/') && !name.contains("kubernetes.io/");
    NAMES.contains(&name)
        || name.starts_with("hugepages-")
        || name.strip_prefix("requests.").is_some_and(|name| name.starts_with("hugepages-") || extended(name))
}

/// Whether a pod still uses anything: it has not come to its end, and its grace has not run out.
pub(super) fn is_alive(object: &Object, pod: &Pod, now: Time) -> bool {
    let meta = object.meta();
    let overdue = meta
        .deletion_timestamp
        .zip(meta.deletion_grace_period_seconds)
        .is_some_and(|(at, grace)| now > at.after(Duration::from_secs(u64::try_from(grace).unwrap_or(0))));
    !pod.is_finished() && !overdue
}

pub(super) fn add_usage(pod: &Pod, usage: &mut Usage) {
    usage.insert("pods".to_owned(), Quantity::from(1_i64));
    let requests = total(pod, "requests", &[requested, set_aside, actually_requested]);
    for (name, amount) in requests {
        if PLAIN.contains(&name.as_str()) || name.starts_with("hugepages-") {
            usage.insert(name.clone(), amount);
        }
        usage.insert(format!("requests.{name}"), amount);
    }
    for (name, amount) in total(pod, "limits", &[limited, actually_limited]) {
        if PLAIN.contains(&name.as_str()) {
            usage.insert(format!("limits.{name}"), amount);
        }
    }
}

/// What containers must state wherever a quota limits it.
const STATED: [&str; 6] = ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];

/// Which of these amounts the containers of a pod must state and do not. A pod that states amounts itself needs none.
pub(super) fn unstated<'a>(pod: &Pod, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let of_pods = |name: &String| matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-");
    let own = |what| listed(pod.spec.resources.as_ref().and_then(|own| own.get(what)));
    if own("requests").keys().chain(own("limits").keys()).any(of_pods) {
        return None;
    }
    let names: BTreeSet<&str> = names.into_iter().filter(|name| STATED.contains(name)).collect();
    let faults = names.into_iter().filter_map(|name| {
        let states = |container: &&Container| match name.strip_prefix("limits.") {
            Some(name) => container.resources.limits.get(name).is_some(),
            None => container.resources.requests.get(name.trim_start_matches("requests.")).is_some(),
        };
        let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
        let silent: BTreeSet<&str> =
            containers.filter(|container| !states(container)).map(|container| &*container.name).collect();
        let silent: Vec<&str> = silent.into_iter().collect();
        (!silent.is_empty()).then(|| format!("{name} for: {}", silent.join(",")))
    });
    let faults: Vec<String> = faults.collect();
    (!faults.is_empty()).then(|| format!("must specify {}", faults.join("; ")))
}

/// One way to see what a container asks for. Where its node says nothing of it, it is what is wanted, unless that
/// cannot be had.
type Asking = fn(&Container, Option<&ContainerStatus>, bool) -> Usage;

fn requested(container: &Container, _: Option<&ContainerStatus>, refused: bool) -> Usage {
    if refused { Usage::new() } else { amounts(&container.resources.requests) }
}

fn set_aside(container: &Container, status: Option<&ContainerStatus>, refused: bool) -> Usage {
    match status.map(|status| &status.allocated_resources).filter(|set_aside| !set_aside.is_empty()) {
        Some(set_aside) => amounts(set_aside),
        None => requested(container, None, refused),
    }
}

fn actually_requested(container: &Container, status: Option<&ContainerStatus>, refused: bool) -> Usage {
    match status.map(|status| &status.resources.requests).filter(|actual| !actual.is_empty()) {
        Some(actual) => amounts(actual),
        None => set_aside(container, status, refused),
    }
}

fn limited(container: &Container, _: Option<&ContainerStatus>, refused: bool) -> Usage {
    if refused { Usage::new() } else { amounts(&container.resources.limits) }
}

fn actually_limited(container: &Container, status: Option<&ContainerStatus>, refused: bool) -> Usage {
    match status.map(|status| &status.resources.limits).filter(|actual| !actual.is_empty()) {
        Some(actual) => amounts(actual),
        None => limited(container, None, refused),
    }
}

/// What a pod asks for as a whole: the most that its containers ask for in any way, with what it asks for itself in
/// their place, and its overhead.
fn total(pod: &Pod, what: &str, ways: &[Asking]) -> Usage {
    let refused = condition(&pod.status.conditions, "PodResizePending")
        .is_some_and(|pending| pending.reason == "Infeasible");
    let statuses = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    let moved = statuses.clone().any(|status| {
        let Resources { requests, limits } = &status.resources;
        !(requests.is_empty() && limits.is_empty() && status.allocated_resources.is_empty())
    });
    // Without a word from its node, they are all the same.
    let ways = if moved { ways } else { &ways[..1] };
    let mut all = Usage::new();
    for asking in ways {
        let of = |container: &Container| {
            let status = statuses.clone().find(|status| status.name == container.name);
            asking(container, status, refused)
        };
        raise(&mut all, &together(pod, of));
    }
    for (name, amount) in listed(pod.spec.resources.as_ref().and_then(|own| own.get(what))) {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
            all.insert(name, amount);
        }
    }
    for (name, amount) in listed(pod.spec.overhead.as_ref()) {
        if what == "requests" || all.get(&name).is_some_and(|limit| !limit.is_zero()) {
            *all.entry(name).or_insert_with(|| Quantity::from(0_i64)) += amount;
        }
    }
    all
}

/// What containers ask for together, or what it takes to start them if that is more.
fn together(pod: &Pod, of: impl Fn(&Container) -> Usage) -> Usage {
    let mut all = Usage::new();
    for container in &pod.spec.containers {
        add(&mut all, &of(container));
    }
    let (mut beside, mut starting) = (Usage::new(), Usage::new());
    for container in &pod.spec.init_containers {
        let mut own = of(container);
        if container.restart_policy == "Always" {
            add(&mut all, &own);
            add(&mut beside, &own);
            own.clone_from(&beside);
        } else {
            add(&mut own, &beside);
        }
        raise(&mut starting, &own);
    }
    raise(&mut all, &starting);
    all
}

fn listed(list: Option<&Value>) -> Usage {
    let entries = list.and_then(Value::as_map).into_iter().flat_map(|map| map.iter());
    let parsed =
        entries.filter_map(|(name, text)| Some((name.to_owned(), Quantity::parse(text.as_str()?).ok()?)));
    parsed.collect()
}

fn add(sum: &mut Usage, more: &Usage) {
    for (name, amount) in more {
        *sum.entry(name.clone()).or_insert_with(|| Quantity::from(0_i64)) += *amount;
    }
}

fn raise(to: &mut Usage, least: &Usage) {
    for (name, amount) in least {
        let known = to.entry(name.clone()).or_insert(*amount);
        *known = (*known).max(*amount);
    }
}

pub(super) fn is_in_scope(pod: &Pod, scope: &Scope) -> bool {
    let terminating = pod.spec.active_deadline_seconds.is_some_and(|seconds| seconds >= 0);
    match scope.scope_name.as_str() {
        "Terminating" => terminating,
        "NotTerminating" => !terminating,
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "PriorityClass" => {
            let class = pod.spec.priority_class_name.as_str();
            scope.holds(if class.is_empty() { &[] } else { std::slice::from_ref(&class) })
        }
        "CrossNamespacePodAffinity" => looks_elsewhere(pod),
        _ => false,
    }
}

/// Whether a pod asks for nothing.
fn is_best_effort(pod: &Pod) -> bool {
    let asks = |amounts: &Usage| {
        amounts.iter().any(|(name, amount)| matches!(name.as_str(), "cpu" | "memory") && !amount.is_zero())
    };
    let own = |what: &str| listed(pod.spec.resources.as_ref().and_then(|own| own.get(what)));
    let mut containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
    let container_asks = |container: &Container| {
        asks(&amounts(&container.resources.requests)) || asks(&amounts(&container.resources.limits))
    };
    !asks(&own("requests")) && !asks(&own("limits")) && !containers.any(container_asks)
}

/// Whether a pod wants to be near pods of other namespaces, or far from them.
fn looks_elsewhere(pod: &Pod) -> bool {
    let Some(affinity) = &pod.spec.affinity else { return false };
    let elsewhere = |term: &Value| {
        term.get("namespaces").is_some_and(|names| !names.is_empty())
            || term.get("namespaceSelector").is_some_and(|selector| !selector.is_null())
    };
    ["podAffinity", "podAntiAffinity"].into_iter().any(|sort| {
        let terms =
            |when: &str| affinity.at(&[sort, when]).and_then(Value::as_list).unwrap_or_default().iter();
        terms("requiredDuringSchedulingIgnoredDuringExecution").any(elsewhere)
            || terms("preferredDuringSchedulingIgnoredDuringExecution")
                .any(|weighted| weighted.get("podAffinityTerm").is_some_and(elsewhere))
    })
}
