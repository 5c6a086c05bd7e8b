//! What matters of a pod to the rules. Pods of one shape are the same to the scheduler and share its results.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::Value;
use setpoint_api::labels::{Expression, Operator, Requirement, Selector};
use setpoint_reconcile::Object;
use setpoint_reconcile::object::Pairs;
use setpoint_reconcile::views::pod::{Disk, Pod, Volume};

use crate::cache::sets::Labels;
use crate::request::Request;
use crate::rules::features;
use crate::tolerations::Tolerations;

/// What matters of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its labels.
    pub labels: Pairs,
    /// Who manages it, by kind and name.
    pub owner: Option<(Box<str>, Box<str>)>,
    /// How important it is.
    pub priority: i64,
    /// Whether it may push others aside.
    pub preempts: bool,
    /// Who gives it a node.
    pub scheduler: Box<str>,
    /// What it asks for.
    pub request: Request,
    /// What it puts up with.
    pub tolerations: Tolerations,
    /// Which nodes will do.
    pub nodes: NodeChoice,
    /// Which nodes it would rather have, by weight.
    pub prefers: Vec<(i64, NodeTerm)>,
    /// What it says of other pods.
    pub others: PodTerms,
    /// How it spreads; nothing if it does not say.
    pub spread: Vec<Constraint>,
    /// Its ports on the node.
    pub ports: PortSet,
    /// Its images.
    pub images: Images,
    /// The claims it uses.
    pub claims: Vec<Claim>,
    /// The disks it uses that must not be shared, sorted.
    pub disks: Vec<(DiskKind, Disk)>,
    /// What a node must be able to do for it.
    pub features: Vec<&'static str>,
    /// The devices it claims.
    pub devices: Option<Box<DeviceClaims>>,
}

/// A claim that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claim {
    /// Its name.
    pub name: Box<str>,
    /// The name and the identity of the pod, if the claim is made for it.
    pub made_for: Option<(Box<str>, Box<str>)>,
}

/// The devices that a pod claims.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceClaims {
    /// The name of the pod.
    pub pod: Box<str>,
    /// The identity of the pod.
    pub uid: Box<str>,
    /// The names of its claims, and whether they are made for it; no name for those that are not made yet.
    pub claims: Vec<(Option<Box<str>>, bool)>,
}

impl DeviceClaims {
    fn of(object: &Object, pod: &Pod) -> Option<Box<DeviceClaims>> {
        if pod.spec.resource_claims.is_empty() {
            return None;
        }
        let (name, uid) = (object.meta().name.clone(), object.meta().uid.clone());
        let claims = pod.claims_with_status().filter_map(|(claim, status)| {
            if let Some(name) = &claim.resource_claim_name {
                return Some((Some(name.as_str().into()), false));
            }
            match status {
                // It was found that none is needed.
                Some(status) => Some((Some(status.resource_claim_name.as_deref()?.into()), true)),
                None => Some((None, true)),
            }
        });
        Some(Box::new(DeviceClaims { pod: name, uid, claims: claims.collect() }))
    }
}

/// Kinds of disks that must not be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskKind {
    /// A disk of Google's cloud.
    Gce,
    /// A volume of Amazon's cloud.
    Aws,
    /// A target of iSCSI.
    Iscsi,
    /// An image of Ceph.
    Rbd,
}

/// Which nodes will do for a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeChoice {
    /// Labels that a node must have.
    pub selector: Pairs,
    /// Terms one of which a node must meet; nothing if any node will do.
    pub terms: Option<Vec<NodeTerm>>,
}

/// Conditions on a node, all of which it must meet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeTerm {
    /// On its labels.
    labels: Vec<Condition>,
    /// On its name: whether it must be one of these, or none of these, which are sorted.
    names: Vec<(bool, Vec<Box<str>>)>,
}

/// A condition on a label of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Condition {
    key: Box<str>,
    test: Test,
}

/// What a label of a node must be. Values are sorted, to be looked up for every node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Test {
    In(Vec<Box<str>>),
    NotIn(Vec<Box<str>>),
    Exists,
    DoesNotExist,
    GreaterThan(i64),
    LessThan(i64),
}

impl Condition {
    fn of(requirement: &Requirement) -> Condition {
        let values = || {
            let mut values: Vec<Box<str>> = requirement.values().map(Into::into).collect();
            values.sort_unstable();
            values.dedup();
            values
        };
        let number = || requirement.values().next().and_then(|value| value.parse().ok());
        let test = match requirement.operator() {
            Operator::In | Operator::Equals | Operator::DoubleEquals => Test::In(values()),
            Operator::NotIn | Operator::NotEquals => Test::NotIn(values()),
            Operator::Exists => Test::Exists,
            Operator::DoesNotExist => Test::DoesNotExist,
            Operator::GreaterThan => number().map_or(Test::In(Vec::new()), Test::GreaterThan),
            Operator::LessThan => number().map_or(Test::In(Vec::new()), Test::LessThan),
        };
        Condition { key: requirement.key().into(), test }
    }

    fn holds(&self, labels: &Pairs) -> bool {
        let value = labels.get(&self.key);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.test {
            Test::In(values) => value.is_some_and(|value| has(values, value)),
            Test::NotIn(values) => !value.is_some_and(|value| has(values, value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
            Test::GreaterThan(bound) => number().is_some_and(|number| number > *bound),
            Test::LessThan(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

/// `true` if a text is among sorted ones.
fn has(sorted: &[Box<str>], text: &str) -> bool {
    sorted.binary_search_by(|one| (**one).cmp(text)).is_ok()
}

/// What a pod says of the pods it wants to be with, and of those it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodTerms {
    /// Pods that must be near.
    pub near: Vec<PodTerm>,
    /// Pods that must be far.
    pub far: Vec<PodTerm>,
    /// Pods that should be near, by weight; those that should be far have a negative one.
    pub wishes: Vec<(i64, PodTerm)>,
}

/// Some pods, and what near means.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodTerm {
    /// The label of nodes that are near each other.
    pub key: Box<str>,
    /// The pods that are meant.
    pub pods: Pods,
}

/// Some pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pods {
    /// By their labels.
    pub selector: Selector,
    /// By their namespaces, sorted.
    pub namespaces: Vec<Box<str>>,
    /// By the labels of their namespaces.
    pub of_namespaces: Option<Selector>,
}

/// How pods spread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Constraint {
    /// The label of nodes over whose values they spread.
    pub key: Box<str>,
    /// By how much a value may have more than the least.
    pub skew: i64,
    /// Whether that must be so.
    pub hard: bool,
    /// The pods that are counted.
    pub selector: Selector,
    /// How many values there should be.
    pub min_domains: i64,
    /// Whether only nodes count that the pod's node selector allows.
    pub by_affinity: bool,
    /// Whether only nodes count whose taints the pod puts up with.
    pub by_taints: bool,
}

/// The address that stands for all of a node.
const ANY_ADDRESS: &str = "0.0.0.0";

/// A port on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// Its number.
    pub number: i64,
    /// Its protocol.
    pub protocol: Box<str>,
    /// Its address.
    pub ip: Box<str>,
}

impl Shape {
    /// What matters of a pod.
    #[must_use]
    pub fn of(object: &Object, pod: &Pod) -> Shape {
        let (meta, spec) = (object.meta(), &pod.spec);
        let owner = meta.controller().map(|owner| (owner.kind.clone(), owner.name.clone()));
        let affinity = spec.affinity.as_ref();
        let image = |image: &String| normal_image(image).into();
        let mounted = spec.volumes.iter().filter_map(|volume| volume.image.as_ref());
        let claims = spec.volumes.iter().filter_map(|volume| match &volume.persistent_volume_claim {
            Some(claim) => Some(Claim { name: claim.claim_name.as_str().into(), made_for: None }),
            None if volume.ephemeral.is_some() => {
                let name = format!("{}-{}", meta.name, volume.name).into();
                Some(Claim { name, made_for: Some((meta.name.clone(), meta.uid.clone())) })
            }
            None => None,
        });
        let mut disks: Vec<(DiskKind, Disk)> = spec.volumes.iter().filter_map(disk).collect();
        disks.sort_unstable();
        disks.dedup();
        Shape {
            namespace: meta.namespace.clone(),
            labels: meta.labels.clone(),
            owner,
            priority: spec.priority.unwrap_or(0),
            preempts: spec.preemption_policy != "Never",
            scheduler: spec.scheduler_name.as_str().into(),
            request: Request::of(pod),
            tolerations: Tolerations::of(&spec.tolerations),
            nodes: NodeChoice::of(&spec.node_selector, affinity),
            prefers: preferred_nodes(affinity),
            others: PodTerms::of(affinity, &meta.namespace, &meta.labels),
            spread: spec
                .topology_spread_constraints
                .iter()
                .map(|one| Constraint::of(one, &meta.labels))
                .collect(),
            ports: host_ports(pod).into_iter().collect(),
            images: spec
                .containers
                .iter()
                .chain(&spec.init_containers)
                .map(|one| &one.image)
                .chain(mounted.map(|one| &one.reference))
                .map(image)
                .collect(),
            claims: claims.collect(),
            disks,
            features: features::needed(pod),
            devices: DeviceClaims::of(object, pod),
        }
    }

    /// Whether the pod puts up with a taint.
    #[must_use]
    pub fn tolerates(&self, taint: &setpoint_reconcile::views::node::Taint) -> bool {
        self.tolerations.tolerate(taint)
    }
}

fn disk(volume: &Volume) -> Option<(DiskKind, Disk)> {
    let Volume { gce, aws, iscsi, rbd, .. } = volume;
    let kinds = [DiskKind::Gce, DiskKind::Aws, DiskKind::Iscsi, DiskKind::Rbd];
    let mut disks = kinds.into_iter().zip([gce, aws, iscsi, rbd]);
    disks.find_map(|(kind, disk)| Some((kind, disk.as_deref()?.clone())))
}

/// The ports of its node that a pod takes.
#[must_use]
pub fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let sidecars = pod.spec.init_containers.iter().filter(|one| one.restart_policy == "Always");
    let containers = pod.spec.containers.iter().chain(sidecars);
    let ports = containers.flat_map(|container| &container.ports).filter(|port| port.host_port > 0);
    let ports = ports.map(|port| HostPort {
        number: port.host_port,
        protocol: if port.protocol.is_empty() { "TCP".into() } else { port.protocol.as_str().into() },
        ip: if port.host_ip.is_empty() { ANY_ADDRESS.into() } else { port.host_ip.as_str().into() },
    });
    ports.collect()
}

/// The name of an image with its tag.
#[must_use]
pub fn normal_image(name: &str) -> String {
    let tagged = name.rfind(':') > name.rfind('/');
    if tagged { name.to_owned() } else { format!("{name}:latest") }
}

impl HostPort {
    /// Whether both cannot be on one node.
    #[must_use]
    pub fn clashes(&self, other: &HostPort) -> bool {
        let any = |ip: &str| ip == ANY_ADDRESS;
        self.number == other.number
            && self.protocol == other.protocol
            && (self.ip == other.ip || any(&self.ip) || any(&other.ip))
    }
}

/// Ports of a node, and how often each is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortSet(BTreeMap<HostPort, u32>);

impl FromIterator<HostPort> for PortSet {
    fn from_iter<I: IntoIterator<Item = HostPort>>(ports: I) -> PortSet {
        let mut set = PortSet::default();
        ports.into_iter().for_each(|port| *set.0.entry(port).or_insert(0) += 1);
        set
    }
}

impl PortSet {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the ports of a pod.
    pub fn take(&mut self, ports: &PortSet) {
        for (port, times) in &ports.0 {
            match self.0.get_mut(port) {
                Some(count) => *count += times,
                None => {
                    self.0.insert(port.clone(), *times);
                }
            }
        }
    }

    /// Removes the ports of a pod.
    pub fn give_back(&mut self, ports: &PortSet) {
        for (port, times) in &ports.0 {
            if let Some(count) = self.0.get_mut(port) {
                *count = count.saturating_sub(*times);
                if *count == 0 {
                    self.0.remove(port);
                }
            }
        }
    }

    /// Whether any port of one clashes with any of the other: those of the smaller set are looked up in the other.
    #[must_use]
    pub fn clashes(&self, other: &PortSet) -> bool {
        let (few, many) = if self.len() < other.len() { (self, other) } else { (other, self) };
        few.0.keys().any(|port| many.has_clash(port))
    }

    fn has_clash(&self, port: &HostPort) -> bool {
        let with = |ip: &str| HostPort { ip: ip.into(), ..port.clone() };
        if &*port.ip == ANY_ADDRESS {
            return self.0.range(with("")..).next().is_some_and(|(other, _)| other.clashes(port));
        }
        self.0.contains_key(port) || self.0.contains_key(&with(ANY_ADDRESS))
    }
}

/// The images of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Images {
    /// Each with the number of containers that use it, sorted.
    names: Vec<(Box<str>, i64)>,
    /// The number of containers.
    pub uses: i64,
}

impl FromIterator<Box<str>> for Images {
    fn from_iter<I: IntoIterator<Item = Box<str>>>(names: I) -> Images {
        let mut counts: BTreeMap<Box<str>, i64> = BTreeMap::new();
        names.into_iter().for_each(|name| *counts.entry(name).or_insert(0) += 1);
        Images { uses: counts.values().sum(), names: counts.into_iter().collect() }
    }
}

impl Images {
    /// The images that are also in a sorted list, with the number of containers that use each, and what the list says.
    pub fn among<'a>(&'a self, list: &'a [(Box<str>, i64)]) -> impl Iterator<Item = (&'a str, i64, i64)> {
        let is_short = self.names.len() <= list.len();
        let (few, many) = if is_short { (&*self.names, list) } else { (list, &*self.names) };
        few.iter().filter_map(move |(name, one)| {
            let found = many.binary_search_by(|(other, _)| other.cmp(name)).ok()?;
            let other = many[found].1;
            let (uses, size) = if is_short { (*one, other) } else { (other, *one) };
            Some((&**name, uses, size))
        })
    }
}

fn list<'a>(value: Option<&'a Value>, path: &[&str]) -> &'a [Value] {
    value.and_then(|value| value.at(path)).and_then(Value::as_list).unwrap_or_default()
}

fn texts(value: &Value, field: &str) -> Vec<Box<str>> {
    list(Some(value), &[field]).iter().filter_map(Value::as_str).map(Into::into).collect()
}

impl NodeChoice {
    /// The choice of a selector and an affinity.
    #[must_use]
    pub fn of(selector: &Pairs, affinity: Option<&Value>) -> NodeChoice {
        let path = ["nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];
        let terms = affinity.and_then(|affinity| affinity.at(&path)).and_then(Value::as_list);
        let terms = terms.map(|terms| {
            let mut terms: Vec<NodeTerm> = terms.iter().filter_map(NodeTerm::of).collect();
            // One of them must be met, in whatever order they stand.
            terms.sort_unstable();
            terms.dedup();
            terms
        });
        NodeChoice { selector: selector.clone(), terms }
    }

    /// How many conditions a node is compared with, at the most.
    #[must_use]
    pub fn conditions(&self) -> usize {
        let terms = self.terms.iter().flatten();
        self.selector.iter().count() + terms.map(NodeTerm::conditions).sum::<usize>()
    }

    /// Whether a node with this name and these labels will do.
    #[must_use]
    pub fn allows(&self, name: &str, labels: &Pairs) -> bool {
        self.selector.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.allows(name, labels)))
    }

    /// Whether any node will do.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.selector.is_empty() && self.terms.is_none()
    }

    /// The names of the nodes of which alone one will do; nothing if names do not decide.
    #[must_use]
    pub fn only(&self) -> Option<Vec<&str>> {
        let terms = self.terms.as_ref().filter(|terms| !terms.is_empty())?;
        let mut names: Vec<&str> = Vec::new();
        for term in terms {
            let mut lists = term.names.iter().filter(|(is_in, _)| *is_in).map(|(_, names)| names);
            let first = lists.next()?;
            let rest: Vec<_> = lists.collect();
            let all = first.iter().filter(|name| rest.iter().all(|list| has(list, name)));
            names.extend(all.map(|name| &**name));
        }
        names.sort_unstable();
        names.dedup();
        Some(names)
    }
}

impl NodeTerm {
    /// Reads a term; nothing if no node can meet it.
    #[must_use]
    pub fn of(term: &Value) -> Option<NodeTerm> {
        let (expressions, fields) =
            (list(Some(term), &["matchExpressions"]), list(Some(term), &["matchFields"]));
        if expressions.is_empty() && fields.is_empty() {
            return None;
        }
        let mut labels = Vec::with_capacity(expressions.len());
        for one in expressions {
            let operator = match one.str_at(&["operator"]) {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                "Gt" => Operator::GreaterThan,
                "Lt" => Operator::LessThan,
                _ => return None,
            };
            let requirement = Requirement::new(one.str_at(&["key"]), operator, &texts(one, "values")).ok()?;
            labels.push(Condition::of(&requirement));
        }
        let mut names = Vec::with_capacity(fields.len());
        for one in fields {
            match (one.str_at(&["key"]), one.str_at(&["operator"])) {
                ("metadata.name", operator @ ("In" | "NotIn")) => {
                    let mut values = texts(one, "values");
                    values.sort_unstable();
                    names.push((operator == "In", values));
                }
                _ => return None,
            }
        }
        Some(NodeTerm { labels, names })
    }

    /// Whether a node with this name and these labels meets it.
    #[must_use]
    pub fn allows(&self, name: &str, labels: &Pairs) -> bool {
        self.labels.iter().all(|one| one.holds(labels))
            && self.names.iter().all(|(is_in, names)| has(names, name) == *is_in)
    }

    /// How many conditions a node is compared with, at the most.
    #[must_use]
    pub fn conditions(&self) -> usize {
        self.labels.len() + self.names.len()
    }
}

/// The nodes that an affinity would rather have, by weight.
#[must_use]
pub fn preferred_nodes(affinity: Option<&Value>) -> Vec<(i64, NodeTerm)> {
    let terms = list(affinity, &["nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution"]);
    let read = |one: &Value| {
        let weight = one.get("weight").and_then(Value::as_i64)?;
        Some((weight, NodeTerm::of(one.get("preference")?)?))
    };
    terms.iter().filter_map(read).filter(|(weight, _)| *weight != 0).collect()
}

impl PodTerms {
    /// How many terms there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.near.len() + self.far.len() + self.wishes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn of(affinity: Option<&Value>, namespace: &str, labels: &Pairs) -> PodTerms {
        if affinity.is_none() {
            return PodTerms::default();
        }
        let required = |sort| {
            let terms = list(affinity, &[sort, "requiredDuringSchedulingIgnoredDuringExecution"]);
            terms.iter().map(|term| PodTerm::of(term, namespace, labels)).collect()
        };
        let preferred = |sort, sign: i64| {
            let terms = list(affinity, &[sort, "preferredDuringSchedulingIgnoredDuringExecution"]);
            terms.iter().filter_map(move |one| {
                let weight = one.get("weight").and_then(Value::as_i64)?;
                Some((weight * sign, PodTerm::of(one.get("podAffinityTerm")?, namespace, labels)))
            })
        };
        PodTerms {
            near: required("podAffinity"),
            far: required("podAntiAffinity"),
            wishes: preferred("podAffinity", 1).chain(preferred("podAntiAffinity", -1)).collect(),
        }
    }
}

impl PodTerm {
    fn of(term: &Value, namespace: &str, labels: &Pairs) -> PodTerm {
        let mut selector = selector(term.get("labelSelector"));
        // What the pod says of its own labels is written into the selector when it is made; a term that was not
        // treated so means the same here.
        for (keys, operator) in [("matchLabelKeys", Operator::In), ("mismatchLabelKeys", Operator::NotIn)] {
            selector = narrowed(selector, &texts(term, keys), labels, operator);
        }
        let mut namespaces = texts(term, "namespaces");
        let of_namespaces =
            term.get("namespaceSelector").filter(|one| !one.is_null()).map(|one| self::selector(Some(one)));
        if namespaces.is_empty() && of_namespaces.is_none() {
            namespaces.push(namespace.into());
        }
        namespaces.sort_unstable();
        PodTerm {
            key: term.str_at(&["topologyKey"]).into(),
            pods: Pods { selector, namespaces, of_namespaces },
        }
    }
}

impl Constraint {
    /// What a constraint of a pod with these labels means.
    #[must_use]
    pub fn of(one: &Value, labels: &Pairs) -> Constraint {
        let number = |name, default| one.get(name).and_then(Value::as_i64).unwrap_or(default);
        let selector = selector(one.get("labelSelector"));
        Constraint {
            key: one.str_at(&["topologyKey"]).into(),
            skew: number("maxSkew", 1),
            hard: one.str_at(&["whenUnsatisfiable"]) != "ScheduleAnyway",
            selector: narrowed(selector, &texts(one, "matchLabelKeys"), labels, Operator::In),
            min_domains: number("minDomains", 1),
            by_affinity: one.str_at(&["nodeAffinityPolicy"]) != "Ignore",
            by_taints: one.str_at(&["nodeTaintsPolicy"]) == "Honor",
        }
    }
}

/// The selector that also asks for the pod's own values of some labels.
fn narrowed(selector: Selector, keys: &[Box<str>], labels: &Pairs, operator: Operator) -> Selector {
    let Selector::All(mut requirements) = selector else { return selector };
    if keys.is_empty() {
        return Selector::All(requirements);
    }
    let labels = Labels::of(labels);
    let mut known: BTreeSet<Requirement> = requirements.iter().cloned().collect();
    for key in keys {
        if let Some(value) = labels.get(key)
            && let Ok(one) = Requirement::new(key, operator, &[value])
            && known.insert(one.clone())
        {
            requirements.push(one);
        }
    }
    Selector::new(requirements)
}

fn selector(value: Option<&Value>) -> Selector {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Selector::Nothing };
    let labels = value.get("matchLabels").and_then(Value::as_map);
    let labels = labels.into_iter().flat_map(|map| map.iter());
    let labels = labels.filter_map(|(name, value)| Some((name, value.as_str()?)));
    let expressions = list(Some(value), &["matchExpressions"]).iter().map(|one| Expression {
        key: one.str_at(&["key"]),
        operator: one.str_at(&["operator"]),
        values: list(Some(one), &["values"]).iter().filter_map(Value::as_str).collect(),
    });
    Selector::from_parts(labels, expressions).unwrap_or(Selector::Nothing)
}
