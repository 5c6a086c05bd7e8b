//! Logs and usage of the containers on simulated nodes.
//!
//! The rules of this process's fleet are known. For other fleets they are read from the ConfigMap that the
//! fleet publishes, as long as it renews the Leases of its nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_api::labels::Selector;
use setpoint_api::status::Status;
use setpoint_api::{Clock, Key, Resource, Revision, Time};
use setpoint_node::fleet::{FLEET, Power};
use setpoint_node::rules::file::Rule;
use setpoint_node::{Fleet, logs, nodes, published};
use setpoint_reconcile::Object;
use setpoint_runtime::objects;
use setpoint_runtime::queries::usage::{
    ContainerUsage, NOT_SERVED_ERROR, UsageSample, UsageSelector, UsageSource,
};
use setpoint_server::nodes::{ContainerLog, LogSource};
use setpoint_store::{Record, Snapshot, Store};
use setpoint_views::node::SIMULATED_LABEL;

use crate::clock::SystemClock;
use crate::commands::logging::Rings;

/// Window of usage samples, as reported to clients.
const WINDOW: Duration = Duration::from_secs(15);
/// Port of a kubelet, for error messages.
const PORT: u16 = 10250;

/// Rules, and the revision of the ConfigMap they were read from.
type AsPublished = (Revision, Arc<[Rule]>);

/// Source of logs and usage for simulated nodes.
pub struct Kubelets {
    fleet: Fleet,
    own: Arc<[Rule]>,
    store: Store,
    rings: Rings,
    /// Rules of other fleets, as last published.
    others: Mutex<BTreeMap<String, AsPublished>>,
}

/// Reason for which a node is not available.
enum Silence {
    /// The node does not exist.
    Missing,
    /// The node cannot be reached; the reason is an error message of a network client.
    Unreachable(&'static str),
    /// The rules of its fleet are not published.
    Unpublished,
}

impl Kubelets {
    /// Returns the source for the nodes of this process's fleet and of others, whose pods are in `store`.
    /// The logs of control plane components are in `rings`.
    pub fn new(fleet: Fleet, store: Store, rings: Rings) -> Kubelets {
        Kubelets { own: fleet.rules.clone().into(), fleet, store, rings, others: Mutex::default() }
    }

    /// Returns the rules for the containers on a node.
    fn rules(&self, snapshot: &Snapshot, node: &str, now: Time) -> Result<Arc<[Rule]>, Silence> {
        let object = find(snapshot, "nodes", node).ok_or(Silence::Missing)?;
        match Power::of(&object) {
            Power::On => {}
            Power::Off => return Err(Silence::Unreachable("connect: no route to host")),
            Power::Partitioned => return Err(Silence::Unreachable("i/o timeout")),
        }
        if self.fleet.owns(&object) && self.fleet.number(node).is_some() {
            return Ok(Arc::clone(&self.own));
        }
        let fleet = object.meta().annotations.get(FLEET).ok_or(Silence::Unpublished)?;
        let lease = find(snapshot, nodes::LEASE, &format!("{}/{node}", nodes::LEASES));
        if self.fleet.owns(&object) || !lease.is_some_and(|lease| nodes::is_held(&lease, now)) {
            return Err(Silence::Unreachable(
                "connect: connection refused (no fleet runs this simulated node now)",
            ));
        }
        let place = format!("{}/{fleet}", published::NAMESPACE);
        let map = find(snapshot, "configmaps", &place).ok_or(Silence::Unpublished)?;
        let mut others = self.others.lock();
        if let Some((_, known)) = others.get(fleet).filter(|(revision, _)| *revision == map.revision()) {
            return Ok(Arc::clone(known));
        }
        let rules: Arc<[Rule]> = published::rules(&map).ok_or(Silence::Unpublished)?.into();
        others.insert(fleet.to_owned(), (map.revision(), Arc::clone(&rules)));
        Ok(rules)
    }

    /// `true` if there are simulated nodes, or will be soon: clients cache discovery for long.
    fn simulates(&self, snapshot: &Snapshot) -> bool {
        let table = Resource::new("nodes").ok().and_then(|nodes| snapshot.table(&nodes));
        let is_simulated = |node: &Record| node.tags().label(SIMULATED_LABEL).is_some();
        self.fleet.count > 0 || table.is_some_and(|table| table.range("", None).any(is_simulated))
    }

    /// Error for the log of a node that is not available, with upstream's message if there is one.
    fn refused(
        &self,
        snapshot: &Snapshot,
        pod: &Object,
        container: &str,
        node: &str,
        why: Silence,
    ) -> Status {
        match why {
            Silence::Missing => {
                Status::failure(setpoint_api::status::Reason::NotFound, format!("nodes {node:?} not found"))
            }
            Silence::Unreachable(why) => {
                let object = find(snapshot, "nodes", node);
                let address =
                    object.and_then(|object| nodes::address(&object)).unwrap_or_else(|| node.to_owned());
                let (meta, host) = (pod.meta(), format!("{address}:{PORT}"));
                let (namespace, name) = (&meta.namespace, &meta.name);
                Status::unclassified(
                    500,
                    format!(
                        "Get \"https://{host}/containerLogs/{namespace}/{name}/{container}\": dial tcp {host}: {why}"
                    ),
                )
            }
            Silence::Unpublished => Status::unclassified(
                501,
                format!(
                    "pods/log: node {node} is simulated in another process, which does not publish its rules"
                ),
            ),
        }
    }
}

impl LogSource for Kubelets {
    fn container_log(
        &self,
        pod: &Object,
        container: &str,
        previous: bool,
        now: Time,
    ) -> Result<ContainerLog, Status> {
        if let Some(component) = self.fleet.component(pod) {
            return match previous {
                // The previous container was another process.
                true => Err(Status::bad_request(format!(
                    "previous terminated container {container:?} in pod {:?} not found",
                    pod.key().name()
                ))),
                false => Ok(self.rings.container_log(component)),
            };
        }
        let snapshot = self.store.snapshot();
        let node = logs::node(pod).unwrap_or_default();
        let rules = self.rules(&snapshot, &node, now);
        let rules = rules.map_err(|why| self.refused(&snapshot, pod, container, &node, why))?;
        let said = logs::said((&rules, &self.fleet.memo), pod, container, previous, now);
        let logs::Said { lines, dropped, goes_on, next } = said.map_err(Status::bad_request)?;
        Ok(ContainerLog { lines, dropped, is_running: goes_on, next })
    }
}

impl UsageSource for Kubelets {
    fn is_served(&self) -> bool {
        self.simulates(&self.store.snapshot())
    }

    fn pods(&self, which: UsageSelector<'_>) -> Result<Vec<UsageSample>, String> {
        let snapshot = self.store.snapshot();
        if !self.simulates(&snapshot) {
            return Err(NOT_SERVED_ERROR.to_owned());
        }
        let now = SystemClock.now();
        let mut asked = Asked { kubelets: self, snapshot: &snapshot, now, known: BTreeMap::new() };
        let place = place(which.namespace);
        let used = records(&snapshot, "pods", &place, which).into_iter().filter_map(|record| {
            let parts = asked.used(record)?;
            Some(UsageSample { parts, ..nothing(record, now) })
        });
        Ok(used.collect())
    }

    fn nodes(&self, which: UsageSelector<'_>) -> Result<Vec<UsageSample>, String> {
        let snapshot = self.store.snapshot();
        let now = SystemClock.now();
        let mut asked = Asked { kubelets: self, snapshot: &snapshot, now, known: BTreeMap::new() };
        let nodes = records(&snapshot, "nodes", "", which)
            .into_iter()
            .filter(|node| asked.rules(node.name()).is_some());
        let mut used: BTreeMap<&str, UsageSample> =
            nodes.map(|node| (node.name(), nothing(node, now))).collect();
        let everything = Selector::EVERYTHING;
        for pod in
            records(&snapshot, "pods", "", UsageSelector { namespace: "", name: "", labels: &everything })
        {
            let tags = pod.tags();
            let Some(node) = tags.field("spec.nodeName").and_then(|node| used.get_mut(node)) else {
                continue;
            };
            let parts = asked.used(pod).into_iter().flat_map(BTreeMap::into_values);
            let sum = node.parts.entry(String::new()).or_default();
            for (resource, amount) in parts.flatten() {
                let sum = sum.entry(resource).or_default();
                *sum = sum.saturating_add(amount);
            }
        }
        Ok(used.into_values().map(whole).collect())
    }
}

/// Fills in zero usage, for a node without containers.
fn whole(mut node: UsageSample) -> UsageSample {
    let sum = node.parts.entry(String::new()).or_default();
    for resource in ["cpu", "memory"] {
        sum.entry(resource.to_owned()).or_default();
    }
    node
}

/// Returns a sample without usage.
fn nothing(record: &Record, now: Time) -> UsageSample {
    UsageSample {
        namespace: record.namespace().unwrap_or_default().to_owned(),
        name: record.name().to_owned(),
        labels: record.tags().labels().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        parts: BTreeMap::new(),
        at: now,
        window: WINDOW,
    }
}

/// Returns the selected objects of a resource below the prefix of their namespace.
fn records<'a>(
    snapshot: &'a Snapshot,
    resource: &str,
    place: &'a str,
    which: UsageSelector<'_>,
) -> Vec<&'a Record> {
    let Some(table) = Resource::new(resource).ok().and_then(|resource| snapshot.table(&resource)) else {
        return Vec::new();
    };
    let is_meant = |record: &&Record| {
        let tags = record.tags();
        which.labels.matches(|name| tags.label(name))
    };
    match which.name {
        "" => table.range(place, None).filter(is_meant).collect(),
        name => table.get(&format!("{place}{name}")).into_iter().filter(is_meant).collect(),
    }
}

/// Path prefix of a namespace; empty for all.
fn place(namespace: &str) -> String {
    if namespace.is_empty() { String::new() } else { format!("{namespace}/") }
}

fn object(resource: &str, record: &Record) -> Option<Object> {
    objects::object(Key::from_path(&Resource::new(resource).ok()?, record.path()).ok()?, record)
}

/// Returns the object at a path.
fn find(snapshot: &Snapshot, resource: &str, path: &str) -> Option<Object> {
    let table = snapshot.table(&Resource::new(resource).ok()?)?;
    object(resource, table.get(path)?)
}

/// Cache of the rules of nodes; `None` for nodes that are not available.
struct Asked<'a> {
    kubelets: &'a Kubelets,
    snapshot: &'a Snapshot,
    now: Time,
    known: BTreeMap<String, Option<Arc<[Rule]>>>,
}

impl Asked<'_> {
    fn rules(&mut self, node: &str) -> Option<Arc<[Rule]>> {
        if let Some(known) = self.known.get(node) {
            return known.clone();
        }
        let rules = self.kubelets.rules(self.snapshot, node, self.now).ok();
        self.known.insert(node.to_owned(), rules.clone());
        rules
    }

    /// Returns the usage of a pod's containers; `None` if its node is not available, no container runs, or
    /// the pod represents a component of this process.
    fn used(&mut self, pod: &Record) -> Option<ContainerUsage> {
        let rules = self.rules(pod.tags().field("spec.nodeName")?)?;
        let pod = object("pods", pod).filter(|pod| self.kubelets.fleet.component(pod).is_none())?;
        logs::used((&rules, &self.kubelets.fleet.memo), &pod, self.now)
    }
}
