//! Resource requests of a pod as integers, so that quantities are parsed once per pod and not once per node.
//!
//! Follows the rules of upstream's `resourcehelper.PodRequests`: init containers, sidecars, pod-level requests, overhead
//! and in-place resize. Start at [`PodRequest::new`].

use std::collections::BTreeMap;

use setpoint_api::Value;
use setpoint_api::quantity::Quantity;
use setpoint_reconcile::object::Pairs;
use setpoint_views::condition;
use setpoint_views::pod::{Container, ContainerStatus, Pod};

/// CPU in millicores that scores assume for a container without a CPU request.
const DEFAULT_MILLI_CPU: i64 = 100;
/// Memory in bytes that scores assume for a container without a memory request.
const DEFAULT_MEMORY: i64 = 200 * 1024 * 1024;

/// Amounts of resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceAmounts {
    /// CPU in millicores.
    pub milli_cpu: i64,
    /// Memory in bytes.
    pub memory: i64,
    /// Ephemeral storage in bytes.
    pub ephemeral_storage: i64,
    /// Other resources by name.
    pub scalars: BTreeMap<Box<str>, i64>,
}

impl ResourceAmounts {
    /// Requests of a pod for admission by its node: unlike [`PodRequest::new`], without the maximum over a resize in
    /// progress.
    #[must_use]
    pub fn requested_by(pod: &Pod) -> ResourceAmounts {
        // An infeasible resize counts with the allocated resources.
        let infeasible = is_resize_infeasible(pod).then(|| ContainerStatuses::new(pod));
        let sum = aggregate_containers(pod, false, |container| {
            let status = infeasible.as_ref().and_then(|statuses| statuses.get(container));
            let allocated = status.map(|status| &status.allocated_resources).filter(|one| !one.is_empty());
            allocated.or(Some(&container.resources.requests))
        });
        add_pod_level(pod, sum, &pod_level_requests(pod))
    }

    /// Sum of the requests of pods. A pod whose requests equal those of the one before is not computed again.
    pub fn requested_by_all<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> ResourceAmounts {
        let mut sum = ResourceAmounts::default();
        let mut last: Option<(&Pod, ResourceAmounts)> = None;
        for pod in pods {
            if last.as_ref().is_none_or(|(last, _)| !has_equal_requests(last, pod)) {
                last = Some((pod, ResourceAmounts::requested_by(pod)));
            }
            if let Some((_, requested)) = &last {
                sum.add(requested, 1);
            }
        }
        sum
    }

    /// Parses quantities by resource name. Returns the amount of `pods` separately: only nodes have it.
    pub fn parse<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> (ResourceAmounts, i64) {
        let (mut amounts, mut pods) = (ResourceAmounts::default(), 0);
        for (name, text) in pairs {
            let Ok(quantity) = Quantity::parse(text) else { continue };
            match name {
                "cpu" => amounts.milli_cpu = quantity.milli_value(),
                "memory" => amounts.memory = quantity.value(),
                "ephemeral-storage" => amounts.ephemeral_storage = quantity.value(),
                "pods" => pods = quantity.value(),
                other => *amounts.scalar_mut(other) = quantity.value(),
            }
        }
        (amounts, pods)
    }

    /// Amount of a resource in `scalars`.
    #[must_use]
    pub fn scalar(&self, name: &str) -> i64 {
        self.scalars.get(name).copied().unwrap_or(0)
    }

    fn scalar_mut(&mut self, name: &str) -> &mut i64 {
        self.scalars.entry(name.into()).or_insert(0)
    }

    /// Adds `more` (`times` 1) or subtracts it (`times` -1).
    pub fn add(&mut self, more: &ResourceAmounts, times: i64) {
        self.milli_cpu += more.milli_cpu * times;
        self.memory += more.memory * times;
        self.ephemeral_storage += more.ephemeral_storage * times;
        for (name, amount) in &more.scalars {
            let own = self.scalar_mut(name);
            *own += amount * times;
            if *own == 0 {
                self.scalars.remove(name);
            }
        }
    }

    /// Raises each amount to at least that of `other`.
    fn max_with(&mut self, other: &ResourceAmounts) {
        self.milli_cpu = self.milli_cpu.max(other.milli_cpu);
        self.memory = self.memory.max(other.memory);
        self.ephemeral_storage = self.ephemeral_storage.max(other.ephemeral_storage);
        for (name, amount) in &other.scalars {
            let own = self.scalar_mut(name);
            *own = (*own).max(*amount);
        }
    }

    /// `true` if every amount is 0.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.milli_cpu == 0 && self.memory == 0 && self.ephemeral_storage == 0 && self.scalars.is_empty()
    }
}

/// Requests of a pod, for filters and for scores.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRequest {
    /// Requests for filters.
    pub requested: ResourceAmounts,
    /// CPU in millicores for scores, with a default for containers without a request.
    pub non_zero_milli_cpu: i64,
    /// Memory in bytes for scores, with a default for containers without a request.
    pub non_zero_memory: i64,
}

impl PodRequest {
    /// Computes the requests of a pod: the sum of its containers, or the maximum while init containers run if that is
    /// more. Pod-level requests replace the sum, and overhead is added.
    #[must_use]
    pub fn new(pod: &Pod) -> PodRequest {
        let requested = total_requests(pod, false);
        let has_both = |one: &Container| {
            let requests = &one.resources.requests;
            requests.get("cpu").is_some() && requests.get("memory").is_some()
        };
        let is_complete = pod.spec.containers.iter().chain(&pod.spec.init_containers).all(has_both);
        let (non_zero_milli_cpu, non_zero_memory) = if !is_complete || is_resized(pod) {
            let non_zero = total_requests(pod, true);
            (non_zero.milli_cpu, non_zero.memory)
        } else {
            (requested.milli_cpu, requested.memory)
        };
        PodRequest { requested, non_zero_milli_cpu, non_zero_memory }
    }
}

/// `true` if the fields that [`ResourceAmounts::requested_by`] reads from the specs are equal.
fn has_equal_requests(a: &Pod, b: &Pod) -> bool {
    let containers = |a: &[Container], b: &[Container]| {
        let is_equal = |(a, b): (&Container, &Container)| {
            a.resources.requests == b.resources.requests && a.restart_policy == b.restart_policy
        };
        a.len() == b.len() && a.iter().zip(b).all(is_equal)
    };
    let (a, b) = (&a.spec, &b.spec);
    containers(&a.containers, &b.containers)
        && containers(&a.init_containers, &b.init_containers)
        && (&a.resources, &a.overhead) == (&b.resources, &b.overhead)
}

/// Requests of a pod, with the maximum over a resize in progress. `with_defaults` is for scores.
fn total_requests(pod: &Pod, with_defaults: bool) -> ResourceAmounts {
    let mut sum = aggregate_containers(pod, with_defaults, |container| Some(&container.resources.requests));
    let mut pod_level = pod_level_requests(pod);
    if is_resized(pod) {
        (sum, pod_level) = max_over_resize(pod, with_defaults, sum, pod_level);
    }
    add_pod_level(pod, sum, &pod_level)
}

/// `spec.resources.requests` of a pod.
fn pod_level_requests(pod: &Pod) -> ResourceAmounts {
    ResourceAmounts::parse(quantities(pod.spec.resources.as_ref().and_then(|own| own.get("requests")))).0
}

/// Replaces the sum of the containers by pod-level requests, where there are any, and adds the overhead.
fn add_pod_level(pod: &Pod, mut sum: ResourceAmounts, pod_level: &ResourceAmounts) -> ResourceAmounts {
    if pod_level.milli_cpu != 0 {
        sum.milli_cpu = pod_level.milli_cpu;
    }
    if pod_level.memory != 0 {
        sum.memory = pod_level.memory;
    }
    for (name, amount) in pod_level.scalars.iter().filter(|(name, _)| name.starts_with("hugepages-")) {
        *sum.scalar_mut(name) = *amount;
    }
    sum.add(&ResourceAmounts::parse(quantities(pod.spec.overhead.as_ref())).0, 1);
    sum.scalars.retain(|_, amount| *amount != 0);
    sum
}

/// Items of a list by name: a linear search in a short list, a map for a long one.
enum ByName<'a, T> {
    List(&'a [T]),
    Map(BTreeMap<&'a str, &'a T>),
}

/// Length up to which a list is searched linearly.
const LINEAR_MAX: usize = 16;

impl<'a, T> ByName<'a, T> {
    fn new(list: &'a [T], name: fn(&T) -> &str) -> ByName<'a, T> {
        if list.len() <= LINEAR_MAX {
            return ByName::List(list);
        }
        // In reverse, so that the first item of a name wins, as in the linear search.
        ByName::Map(list.iter().rev().map(|item| (name(item), item)).collect())
    }

    fn get(&self, name: &str, of: fn(&T) -> &str) -> Option<&'a T> {
        match self {
            ByName::List(list) => list.iter().find(|item| of(item) == name),
            ByName::Map(map) => map.get(name).copied(),
        }
    }
}

fn status_name(status: &ContainerStatus) -> &str {
    &status.name
}

fn container_name(container: &Container) -> &str {
    &container.name
}

/// Container statuses of a pod by name.
struct ContainerStatuses<'a>([ByName<'a, ContainerStatus>; 2]);

impl<'a> ContainerStatuses<'a> {
    fn new(pod: &'a Pod) -> ContainerStatuses<'a> {
        let lists = [&pod.status.container_statuses, &pod.status.init_container_statuses];
        ContainerStatuses(lists.map(|list| ByName::new(list, status_name)))
    }

    fn get(&self, container: &Container) -> Option<&'a ContainerStatus> {
        self.0.iter().find_map(|list| list.get(&container.name, status_name))
    }
}

/// `true` if a resize is in progress or infeasible: allocated or actual resources differ from the requests.
#[must_use]
pub fn is_resized(pod: &Pod) -> bool {
    let Pod { spec, status, .. } = pod;
    let differs = |containers: &[Container], statuses: &[ContainerStatus]| {
        let by_name = ByName::new(containers, container_name);
        statuses.iter().any(|status| {
            let container = by_name.get(&status.name, container_name);
            let is_other = |resources: &Pairs| {
                container.is_some_and(|container| {
                    !resources.is_empty() && *resources != container.resources.requests
                })
            };
            is_other(&status.allocated_resources) || is_other(&status.resources.requests)
        })
    };
    differs(&spec.containers, &status.container_statuses)
        || differs(&spec.init_containers, &status.init_container_statuses)
        || status.resources.is_some()
        || is_resize_infeasible(pod)
}

/// `true` if the node reported that the requests of the pod can never be met.
fn is_resize_infeasible(pod: &Pod) -> bool {
    condition(&pod.status.conditions, "PodResizePending").is_some_and(|one| one.reason == "Infeasible")
}

/// Returns container sum and pod-level requests of a pod that is resized: the maximum of requested, allocated and actual
/// resources. Infeasible requests do not count.
fn max_over_resize<'a>(
    pod: &'a Pod,
    with_defaults: bool,
    requested: ResourceAmounts,
    pod_level: ResourceAmounts,
) -> (ResourceAmounts, ResourceAmounts) {
    let (status, is_infeasible) = (&pod.status, is_resize_infeasible(pod));
    let statuses = ContainerStatuses::new(pod);
    let nonempty = |pairs: &'a Pairs| Some(pairs).filter(|pairs| !pairs.is_empty());
    let allocated = |container: &'a Container| {
        let requests = (!is_infeasible).then_some(&container.resources.requests);
        statuses.get(container).and_then(|status| nonempty(&status.allocated_resources)).or(requests)
    };
    let actual = |container: &'a Container| {
        let actual = statuses.get(container).and_then(|status| nonempty(&status.resources.requests));
        actual.or_else(|| allocated(container))
    };
    let parse = |pairs: &Pairs| ResourceAmounts::parse(pairs.iter()).0;
    let pod_actual = status.resources.as_ref().map(|resources| &resources.requests);
    let parts = match (nonempty(&status.allocated_resources), pod_actual.and_then(nonempty)) {
        (Some(allocated), Some(actual)) => [parse(allocated), parse(actual)],
        _ => [
            aggregate_containers(pod, with_defaults, allocated),
            aggregate_containers(pod, with_defaults, actual),
        ],
    };
    let feasible =
        |amounts: ResourceAmounts| if is_infeasible { ResourceAmounts::default() } else { amounts };
    let mut sum = feasible(requested);
    parts.iter().for_each(|part| sum.max_with(part));
    let Some(pod_actual) = pod_actual.filter(|_| !pod_level.is_zero()) else { return (sum, pod_level) };
    let mut pod_level = feasible(pod_level);
    pod_level.max_with(&parse(pod_actual));
    pod_level.max_with(&parse(&status.allocated_resources));
    (sum, pod_level)
}

/// Sum of the containers and sidecars of a pod, or the maximum while init containers run if that is more. `of` selects
/// the resources of a container.
fn aggregate_containers<'a>(
    pod: &'a Pod,
    with_defaults: bool,
    of: impl Fn(&'a Container) -> Option<&'a Pairs>,
) -> ResourceAmounts {
    let mut sum = ResourceAmounts::default();
    for container in &pod.spec.containers {
        sum.add(&container_requests(of(container), with_defaults), 1);
    }
    let (mut sidecars, mut init_max) = (ResourceAmounts::default(), ResourceAmounts::default());
    for container in &pod.spec.init_containers {
        let mut own = container_requests(of(container), with_defaults);
        let is_sidecar = container.restart_policy == "Always";
        if is_sidecar {
            sum.add(&own, 1);
        }
        // Sidecars that started earlier run beside this container. A scalar that it does not request needs no update:
        // `init_max` has it since the sidecar that requested it.
        own.milli_cpu += sidecars.milli_cpu;
        own.memory += sidecars.memory;
        own.ephemeral_storage += sidecars.ephemeral_storage;
        for (name, amount) in &mut own.scalars {
            *amount += sidecars.scalars.get(name).copied().unwrap_or(0);
        }
        if is_sidecar {
            own.scalars.retain(|_, amount| *amount != 0);
        }
        init_max.max_with(&own);
        if is_sidecar {
            let ResourceAmounts { milli_cpu, memory, ephemeral_storage, scalars } = own;
            sidecars = ResourceAmounts { milli_cpu, memory, ephemeral_storage, ..sidecars };
            sidecars.scalars.extend(scalars);
        }
    }
    sum.max_with(&init_max);
    sum
}

fn container_requests(requests: Option<&Pairs>, with_defaults: bool) -> ResourceAmounts {
    let has = |name| requests.is_some_and(|requests| requests.get(name).is_some());
    let (mut amounts, _) = ResourceAmounts::parse(requests.into_iter().flat_map(Pairs::iter));
    if with_defaults && !has("cpu") {
        amounts.milli_cpu = DEFAULT_MILLI_CPU;
    }
    if with_defaults && !has("memory") {
        amounts.memory = DEFAULT_MEMORY;
    }
    amounts
}

fn quantities(map: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    let entries = map.and_then(Value::as_map).into_iter().flat_map(|map| map.iter());
    entries.filter_map(|(name, text)| Some((name, text.as_str()?)))
}

#[cfg(test)]
mod tests {
    use setpoint_api::value;
    use setpoint_views::Condition;
    use setpoint_views::pod::ResourceRequirements;

    use super::*;

    fn container(cpu: &str, policy: &str) -> Container {
        let mut container = Container { restart_policy: policy.to_owned(), ..Container::default() };
        container.resources.requests = [("cpu", cpu)].into_iter().collect();
        container
    }

    fn pod(containers: &[&str], init: &[(&str, &str)]) -> Pod {
        let mut pod = Pod::default();
        pod.spec.containers = containers.iter().map(|cpu| container(cpu, "")).collect();
        pod.spec.init_containers = init.iter().map(|(cpu, policy)| container(cpu, policy)).collect();
        pod
    }

    #[test]
    fn requests_of_many_pods_are_the_sum_of_each() {
        let (mut pod_level, mut with_overhead) = (pod(&["1"], &[]), pod(&["1"], &[]));
        pod_level.spec.resources = Some(value!({"requests": {"cpu": "7"}}));
        with_overhead.spec.overhead = Some(value!({"cpu": "500m"}));
        let (one, two, init) = (pod(&["1"], &[]), pod(&["1", "1"], &[]), pod(&["1"], &[("4", "")]));
        let sidecar = pod(&["1"], &[("4", "Always")]);
        let pods = [&one, &one, &two, &init, &sidecar, &pod_level, &pod_level, &with_overhead, &one];
        let each: Vec<i64> = pods.iter().map(|pod| ResourceAmounts::requested_by(pod).milli_cpu).collect();
        assert_eq!(each, [1000, 1000, 2000, 4000, 5000, 7000, 7000, 1500, 1000]);
        assert_eq!(ResourceAmounts::requested_by_all(pods).milli_cpu, each.iter().sum::<i64>());
    }

    fn milli_cpu(containers: &[&str], init: &[(&str, &str)]) -> i64 {
        let pod = pod(containers, init);
        PodRequest::new(&pod).requested.milli_cpu
    }

    #[test]
    fn init_containers_raise_the_sum_and_sidecars_add_to_it() {
        assert_eq!(milli_cpu(&["1", "500m"], &[]), 1500);
        assert_eq!(milli_cpu(&["1"], &[("2", "")]), 2000);
        assert_eq!(milli_cpu(&["1"], &[("2", "Always")]), 3000);
        assert_eq!(milli_cpu(&["1"], &[("2", "Always"), ("4", "")]), 6000);
        assert_eq!(milli_cpu(&["1"], &[("4", ""), ("2", "Always")]), 4000);
    }

    #[test]
    fn pod_level_requests_replace_the_sum_and_overhead_is_added() {
        let mut pod = Pod::default();
        pod.spec.containers = vec![container("1", "")];
        pod.spec.resources = Some(value!({"requests": {"cpu": "3", "memory": "1Ki"}}));
        pod.spec.overhead = Some(value!({"cpu": "250m", "example.com/x": "2"}));
        let request = PodRequest::new(&pod);
        assert_eq!((request.requested.milli_cpu, request.requested.memory), (3250, 1024));
        assert_eq!(request.requested.scalar("example.com/x"), 2);
    }

    fn pairs(cpu: &str) -> Pairs {
        [("cpu", cpu)].into_iter().collect()
    }

    /// CPU in millicores of a pod with these requested, allocated and actual resources.
    fn resized(requested: &str, allocated: &str, actual: &str, is_infeasible: bool) -> i64 {
        let mut pod = Pod::default();
        pod.spec.containers = vec![container(requested, "")];
        let mut status =
            ContainerStatus { allocated_resources: pairs(allocated), ..ContainerStatus::default() };
        status.resources.requests = pairs(actual);
        pod.status.container_statuses = vec![status];
        if is_infeasible {
            let (kind, reason) = ("PodResizePending".to_owned(), "Infeasible".to_owned());
            pod.status.conditions =
                vec![Condition { kind: kind.into(), reason: reason.into(), ..Condition::default() }];
        }
        let request = PodRequest::new(&pod);
        assert_eq!(request.non_zero_milli_cpu, request.requested.milli_cpu);
        request.requested.milli_cpu
    }

    #[test]
    fn resize_counts_the_maximum_of_requested_allocated_and_actual() {
        assert_eq!(resized("1", "1", "1", false), 1000);
        assert_eq!(resized("1", "3", "3", false), 3000, "shrinking, not allocated yet");
        assert_eq!(resized("1", "1", "3", false), 3000, "shrinking, not actuated yet");
        assert_eq!(resized("4", "2", "2", false), 4000, "growing");
        assert_eq!(resized("4", "2", "2", true), 2000, "infeasible growth does not count");
    }

    #[test]
    fn pod_level_resize_counts_the_maximum() {
        let mut pod = Pod::default();
        pod.spec.containers = vec![container("1", "")];
        pod.spec.resources = Some(value!({"requests": {"cpu": "2"}}));
        pod.status.allocated_resources = pairs("3");
        pod.status.resources =
            Some(Box::new(ResourceRequirements { requests: pairs("4"), ..ResourceRequirements::default() }));
        assert_eq!(PodRequest::new(&pod).requested.milli_cpu, 4000);
        pod.spec.resources = Some(value!({"requests": {"cpu": "5"}}));
        assert_eq!(PodRequest::new(&pod).requested.milli_cpu, 5000);
    }

    #[test]
    fn containers_without_requests_get_defaults_for_scores_only() {
        let mut pod = Pod::default();
        pod.spec.containers = vec![Container::default(), container("1", "")];
        let request = PodRequest::new(&pod);
        assert_eq!(
            (request.requested.milli_cpu, request.non_zero_milli_cpu, request.non_zero_memory),
            (1000, 1100, 2 * DEFAULT_MEMORY)
        );
    }
}
