//! What a pod asks of a node, in machine numbers: reading quantities for every node would cost too much.

use std::collections::BTreeMap;

use setpoint_api::Value;
use setpoint_api::quantity::Quantity;
use setpoint_reconcile::object::Pairs;
use setpoint_reconcile::views::condition;
use setpoint_reconcile::views::pod::{Container, ContainerStatus, Pod};

/// What a container that says nothing is thought to use, in thousandths of a core, when nodes are compared.
const USUAL_CPU: i64 = 100;
/// What a container that says nothing is thought to use, in bytes, when nodes are compared.
const USUAL_MEMORY: i64 = 200 * 1024 * 1024;

/// Amounts of resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amounts {
    /// Thousandths of a core.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes of local storage.
    pub ephemeral: i64,
    /// Everything else, by name.
    pub others: BTreeMap<Box<str>, i64>,
}

impl Amounts {
    /// What a pod asks for.
    #[must_use]
    pub fn asked_by(pod: &Pod) -> Amounts {
        // What a container was given counts, where it asks for more than its node has at all.
        let refused = is_refused(pod).then(|| Statuses::of(pod));
        let all = together(pod, false, |container| {
            let given = refused.as_ref().and_then(|statuses| statuses.get(container));
            let given = given.map(|status| &status.allocated_resources).filter(|given| !given.is_empty());
            given.or(Some(&container.resources.requests))
        });
        complete(pod, all, &as_a_whole(pod))
    }

    /// What pods ask for together. Most ask for what the one before does, which is seen sooner than worked out.
    pub fn asked_by_all<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Amounts {
        let mut all = Amounts::default();
        let mut alike: Option<(&Pod, Amounts)> = None;
        for pod in pods {
            if alike.as_ref().is_none_or(|(last, _)| !asks_alike(last, pod)) {
                alike = Some((pod, Amounts::asked_by(pod)));
            }
            if let Some((_, asked)) = &alike {
                all.add(asked, 1);
            }
        }
        all
    }

    /// Reads amounts; also how many pods are meant, which is nobody's request.
    pub fn read<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> (Amounts, i64) {
        let (mut amounts, mut pods) = (Amounts::default(), 0);
        for (name, text) in pairs {
            let Ok(quantity) = Quantity::parse(text) else { continue };
            match name {
                "cpu" => amounts.cpu = quantity.milli_value(),
                "memory" => amounts.memory = quantity.value(),
                "ephemeral-storage" => amounts.ephemeral = quantity.value(),
                "pods" => pods = quantity.value(),
                other => *amounts.other_mut(other) = quantity.value(),
            }
        }
        (amounts, pods)
    }

    /// The amount of a resource that has no field of its own.
    #[must_use]
    pub fn other(&self, name: &str) -> i64 {
        self.others.get(name).copied().unwrap_or(0)
    }

    fn other_mut(&mut self, name: &str) -> &mut i64 {
        self.others.entry(name.into()).or_insert(0)
    }

    /// Adds `more`, `times` over: -1 takes it away.
    pub fn add(&mut self, more: &Amounts, times: i64) {
        self.cpu += more.cpu * times;
        self.memory += more.memory * times;
        self.ephemeral += more.ephemeral * times;
        for (name, amount) in &more.others {
            let own = self.other_mut(name);
            *own += amount * times;
            if *own == 0 {
                self.others.remove(name);
            }
        }
    }

    fn raise(&mut self, least: &Amounts) {
        self.cpu = self.cpu.max(least.cpu);
        self.memory = self.memory.max(least.memory);
        self.ephemeral = self.ephemeral.max(least.ephemeral);
        for (name, amount) in &least.others {
            let own = self.other_mut(name);
            *own = (*own).max(*amount);
        }
    }

    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.cpu == 0 && self.memory == 0 && self.ephemeral == 0 && self.others.is_empty()
    }
}

/// What a pod asks for, and what it is thought to use when nodes are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// What it asks for.
    pub asked: Amounts,
    /// Thousandths of a core, with a guess for containers that say nothing.
    pub likely_cpu: i64,
    /// Bytes, with a guess for containers that say nothing.
    pub likely_memory: i64,
}

impl Request {
    /// What a pod asks for: what its containers need together, or what it takes to start them if that is more; what
    /// the pod says itself stands above that, and its overhead comes on top.
    #[must_use]
    pub fn of(pod: &Pod) -> Request {
        let asked = total(pod, false);
        let says_all = |one: &Container| {
            let requests = &one.resources.requests;
            requests.get("cpu").is_some() && requests.get("memory").is_some()
        };
        let says_all = pod.spec.containers.iter().chain(&pod.spec.init_containers).all(says_all);
        let guesses = !says_all || is_resized(pod);
        let (likely_cpu, likely_memory) = if guesses {
            let likely = total(pod, true);
            (likely.cpu, likely.memory)
        } else {
            (asked.cpu, asked.memory)
        };
        Request { asked, likely_cpu, likely_memory }
    }
}

/// Whether two pods ask in the same words.
fn asks_alike(a: &Pod, b: &Pod) -> bool {
    let containers = |a: &[Container], b: &[Container]| {
        let same = |(a, b): (&Container, &Container)| {
            a.resources.requests == b.resources.requests && a.restart_policy == b.restart_policy
        };
        a.len() == b.len() && a.iter().zip(b).all(same)
    };
    let (a, b) = (&a.spec, &b.spec);
    containers(&a.containers, &b.containers)
        && containers(&a.init_containers, &b.init_containers)
        && (&a.resources, &a.overhead) == (&b.resources, &b.overhead)
}

/// What counts of a pod.
fn total(pod: &Pod, guess: bool) -> Amounts {
    let mut all = together(pod, guess, |container| Some(&container.resources.requests));
    let mut as_a_whole = as_a_whole(pod);
    if is_resized(pod) {
        (all, as_a_whole) = resized(pod, guess, all, as_a_whole);
    }
    complete(pod, all, &as_a_whole)
}

/// What a pod asks for as a whole.
fn as_a_whole(pod: &Pod) -> Amounts {
    Amounts::read(listed(pod.spec.resources.as_ref().and_then(|own| own.get("requests")))).0
}

/// What the containers of a pod come to, with what it asks for as a whole in their place, and its overhead.
fn complete(pod: &Pod, mut all: Amounts, as_a_whole: &Amounts) -> Amounts {
    if as_a_whole.cpu != 0 {
        all.cpu = as_a_whole.cpu;
    }
    if as_a_whole.memory != 0 {
        all.memory = as_a_whole.memory;
    }
    for (name, amount) in as_a_whole.others.iter().filter(|(name, _)| name.starts_with("hugepages-")) {
        *all.other_mut(name) = *amount;
    }
    all.add(&Amounts::read(listed(pod.spec.overhead.as_ref())).0, 1);
    all.others.retain(|_, amount| *amount != 0);
    all
}

/// Items of a list by name: looked up one after another where there are few, in a map where there are many.
enum Named<'a, T> {
    Few(&'a [T]),
    Many(BTreeMap<&'a str, &'a T>),
}

/// So many items are looked at one after another.
const FEW: usize = 16;

impl<'a, T> Named<'a, T> {
    fn of(list: &'a [T], name: fn(&T) -> &str) -> Named<'a, T> {
        if list.len() <= FEW {
            return Named::Few(list);
        }
        // The first of a name counts.
        Named::Many(list.iter().rev().map(|item| (name(item), item)).collect())
    }

    fn get(&self, name: &str, of: fn(&T) -> &str) -> Option<&'a T> {
        match self {
            Named::Few(list) => list.iter().find(|item| of(item) == name),
            Named::Many(map) => map.get(name).copied(),
        }
    }
}

fn status_name(status: &ContainerStatus) -> &str {
    &status.name
}

fn container_name(container: &Container) -> &str {
    &container.name
}

/// The statuses of the containers of a pod.
struct Statuses<'a>([Named<'a, ContainerStatus>; 2]);

impl<'a> Statuses<'a> {
    fn of(pod: &'a Pod) -> Statuses<'a> {
        let lists = [&pod.status.container_statuses, &pod.status.init_container_statuses];
        Statuses(lists.map(|list| Named::of(list, status_name)))
    }

    fn get(&self, container: &Container) -> Option<&'a ContainerStatus> {
        self.0.iter().find_map(|list| list.get(&container.name, status_name))
    }
}

/// Whether a pod has, or was promised, something else than it asks for; or asks for what it cannot have.
#[must_use]
pub fn is_resized(pod: &Pod) -> bool {
    let Pod { spec, status, .. } = pod;
    let differs = |containers: &[Container], statuses: &[ContainerStatus]| {
        let named = Named::of(containers, container_name);
        statuses.iter().any(|status| {
            let container = named.get(&status.name, container_name);
            let is_other = |has: &Pairs| {
                container.is_some_and(|container| !has.is_empty() && *has != container.resources.requests)
            };
            is_other(&status.allocated_resources) || is_other(&status.resources.requests)
        })
    };
    differs(&spec.containers, &status.container_statuses)
        || differs(&spec.init_containers, &status.init_container_statuses)
        || status.resources.is_some()
        || is_refused(pod)
}

/// Whether a node said that a pod can never have what it asks for by now.
fn is_refused(pod: &Pod) -> bool {
    condition(&pod.status.conditions, "PodResizePending").is_some_and(|one| one.reason == "Infeasible")
}

/// What counts of a pod that has something else than it asks for: the most of what it asks for, what is set aside for it
/// and what it has. What it cannot have does not count. The same of what it asks for as a whole.
fn resized<'a>(pod: &'a Pod, guess: bool, asked: Amounts, as_a_whole: Amounts) -> (Amounts, Amounts) {
    let (status, is_refused) = (&pod.status, is_refused(pod));
    let statuses = Statuses::of(pod);
    let of = |container: &Container| statuses.get(container);
    let filled = |pairs: &'a Pairs| Some(pairs).filter(|pairs| !pairs.is_empty());
    let set_aside = |container: &'a Container| {
        let wanted = (!is_refused).then_some(&container.resources.requests);
        of(container).and_then(|status| filled(&status.allocated_resources)).or(wanted)
    };
    let has = |container: &'a Container| {
        let has = of(container).and_then(|status| filled(&status.resources.requests));
        has.or_else(|| set_aside(container))
    };
    let read = |pairs: &Pairs| Amounts::read(pairs.iter()).0;
    let own = status.resources.as_ref().map(|own| &own.requests);
    let parts = match (filled(&status.allocated_resources), own.and_then(filled)) {
        (Some(set_aside), Some(has)) => [read(set_aside), read(has)],
        _ => [together(pod, guess, set_aside), together(pod, guess, has)],
    };
    let wanted = |amounts: Amounts| if is_refused { Amounts::default() } else { amounts };
    let mut all = wanted(asked);
    parts.iter().for_each(|part| all.raise(part));
    let Some(own) = own.filter(|_| !as_a_whole.is_nothing()) else { return (all, as_a_whole) };
    let mut as_a_whole = wanted(as_a_whole);
    as_a_whole.raise(&read(own));
    as_a_whole.raise(&read(&status.allocated_resources));
    (all, as_a_whole)
}

/// What the containers of a pod need together, or what it takes to start them if that is more.
fn together<'a>(pod: &'a Pod, guess: bool, of: impl Fn(&'a Container) -> Option<&'a Pairs>) -> Amounts {
    let mut all = Amounts::default();
    for container in &pod.spec.containers {
        all.add(&of_container(of(container), guess), 1);
    }
    let (mut beside, mut starting) = (Amounts::default(), Amounts::default());
    for container in &pod.spec.init_containers {
        let mut own = of_container(of(container), guess);
        let is_sidecar = container.restart_policy == "Always";
        if is_sidecar {
            all.add(&own, 1);
        }
        // Resources that the container does not name were raised when the last sidecar named them: amounts are not negative.
        own.cpu += beside.cpu;
        own.memory += beside.memory;
        own.ephemeral += beside.ephemeral;
        for (name, amount) in &mut own.others {
            *amount += beside.others.get(name).copied().unwrap_or(0);
        }
        if is_sidecar {
            own.others.retain(|_, amount| *amount != 0);
        }
        starting.raise(&own);
        if is_sidecar {
            let Amounts { cpu, memory, ephemeral, others } = own;
            beside = Amounts { cpu, memory, ephemeral, ..beside };
            beside.others.extend(others);
        }
    }
    all.raise(&starting);
    all
}

fn of_container(requests: Option<&Pairs>, guess: bool) -> Amounts {
    let says = |name| requests.is_some_and(|requests| requests.get(name).is_some());
    let (mut amounts, _) = Amounts::read(requests.into_iter().flat_map(Pairs::iter));
    if guess && !says("cpu") {
        amounts.cpu = USUAL_CPU;
    }
    if guess && !says("memory") {
        amounts.memory = USUAL_MEMORY;
    }
    amounts
}

fn listed(list: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    let entries = list.and_then(Value::as_map).into_iter().flat_map(|map| map.iter());
    entries.filter_map(|(name, text)| Some((name, text.as_str()?)))
}

#[cfg(test)]
mod tests {
    use setpoint_api::value;
    use setpoint_reconcile::views::Condition;
    use setpoint_reconcile::views::pod::Resources;

    use super::*;

    fn container(cpu: &str, policy: &str) -> Container {
        let mut container = Container { restart_policy: policy.to_owned(), ..Container::default() };
        container.resources.requests = [("cpu", cpu)].into_iter().collect();
        container
    }

    fn pod(containers: &[&str], first: &[(&str, &str)]) -> Pod {
        let mut pod = Pod::default();
        pod.spec.containers = containers.iter().map(|cpu| container(cpu, "")).collect();
        pod.spec.init_containers = first.iter().map(|(cpu, policy)| container(cpu, policy)).collect();
        pod
    }

    #[test]
    fn pods_ask_together_for_what_each_asks_for() {
        let (mut whole, mut heavy) = (pod(&["1"], &[]), pod(&["1"], &[]));
        whole.spec.resources = Some(value!({"requests": {"cpu": "7"}}));
        heavy.spec.overhead = Some(value!({"cpu": "500m"}));
        let (one, two, first) = (pod(&["1"], &[]), pod(&["1", "1"], &[]), pod(&["1"], &[("4", "")]));
        let beside = pod(&["1"], &[("4", "Always")]);
        let pods = [&one, &one, &two, &first, &beside, &whole, &whole, &heavy, &one];
        let each: Vec<i64> = pods.iter().map(|pod| Amounts::asked_by(pod).cpu).collect();
        assert_eq!(each, [1000, 1000, 2000, 4000, 5000, 7000, 7000, 1500, 1000]);
        assert_eq!(Amounts::asked_by_all(pods).cpu, each.iter().sum::<i64>());
    }

    fn cpu(containers: &[&str], first: &[(&str, &str)]) -> i64 {
        let pod = pod(containers, first);
        Request::of(&pod).asked.cpu
    }

    #[test]
    fn containers_add_up_and_starting_may_need_more() {
        assert_eq!(cpu(&["1", "500m"], &[]), 1500);
        assert_eq!(cpu(&["1"], &[("2", "")]), 2000);
        assert_eq!(cpu(&["1"], &[("2", "Always")]), 3000);
        assert_eq!(cpu(&["1"], &[("2", "Always"), ("4", "")]), 6000);
        assert_eq!(cpu(&["1"], &[("4", ""), ("2", "Always")]), 4000);
    }

    #[test]
    fn the_pod_itself_stands_above_and_overhead_comes_on_top() {
        let mut pod = Pod::default();
        pod.spec.containers = vec![container("1", "")];
        pod.spec.resources = Some(value!({"requests": {"cpu": "3", "memory": "1Ki"}}));
        pod.spec.overhead = Some(value!({"cpu": "250m", "example.com/x": "2"}));
        let request = Request::of(&pod);
        assert_eq!((request.asked.cpu, request.asked.memory), (3250, 1024));
        assert_eq!(request.asked.other("example.com/x"), 2);
    }

    fn pairs(cpu: &str) -> Pairs {
        [("cpu", cpu)].into_iter().collect()
    }

    /// What a pod with these requests counts for of which its node says these, where it has `refused` its wishes.
    fn counted(wanted: &str, set_aside: &str, has: &str, refused: bool) -> i64 {
        let mut pod = Pod::default();
        pod.spec.containers = vec![container(wanted, "")];
        let mut status =
            ContainerStatus { allocated_resources: pairs(set_aside), ..ContainerStatus::default() };
        status.resources.requests = pairs(has);
        pod.status.container_statuses = vec![status];
        if refused {
            let (kind, reason) = ("PodResizePending".to_owned(), "Infeasible".to_owned());
            pod.status.conditions =
                vec![Condition { kind: kind.into(), reason: reason.into(), ..Condition::default() }];
        }
        let request = Request::of(&pod);
        assert_eq!(request.likely_cpu, request.asked.cpu);
        request.asked.cpu
    }

    #[test]
    fn while_a_pod_changes_its_size_the_most_of_what_it_wants_and_has_counts() {
        assert_eq!(counted("1", "1", "1", false), 1000);
        assert_eq!(counted("1", "3", "3", false), 3000, "it shrinks, and has not yet");
        assert_eq!(counted("1", "1", "3", false), 3000, "what it has is not taken from it yet");
        assert_eq!(counted("4", "2", "2", false), 4000, "it grows");
        assert_eq!(counted("4", "2", "2", true), 2000, "it wants to grow and never can");
    }

    #[test]
    fn a_pod_that_changes_its_size_as_a_whole_counts_for_the_most() {
        let mut pod = Pod::default();
        pod.spec.containers = vec![container("1", "")];
        pod.spec.resources = Some(value!({"requests": {"cpu": "2"}}));
        pod.status.allocated_resources = pairs("3");
        pod.status.resources = Some(Box::new(Resources { requests: pairs("4"), ..Resources::default() }));
        assert_eq!(Request::of(&pod).asked.cpu, 4000);
        pod.spec.resources = Some(value!({"requests": {"cpu": "5"}}));
        assert_eq!(Request::of(&pod).asked.cpu, 5000);
    }

    #[test]
    fn who_says_nothing_is_thought_to_use_something() {
        let mut pod = Pod::default();
        pod.spec.containers = vec![Container::default(), container("1", "")];
        let request = Request::of(&pod);
        assert_eq!(
            (request.asked.cpu, request.likely_cpu, request.likely_memory),
            (1000, 1100, 2 * USUAL_MEMORY)
        );
    }
}
