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
use setpoint_node::behavior::rules_file::BehaviorRule;
use setpoint_node::fleet::{FLEET_ANNOTATION, PowerState};
use setpoint_node::{Fleet, logs, nodes, published_rules};
use setpoint_reconcile::Object;
use setpoint_runtime::objects;
use setpoint_runtime::queries::usage::{
    ContainerUsage, NOT_SERVED_ERROR, UsageSample, UsageSelector, UsageSource,
};
use setpoint_server::nodes::{LogResponse, LogSource};
use setpoint_store::{Record, Snapshot, Store};
use setpoint_views::node::is_simulated;

use crate::clock::SystemClock;
use crate::commands::logging::ComponentLogs;

/// Window of usage samples, as reported to clients.
const WINDOW: Duration = Duration::from_secs(15);
/// Port of a kubelet, for error messages.
const PORT: u16 = 10250;

/// Rules, and the revision of the ConfigMap they were read from.
type PublishedRules = (Revision, Arc<[BehaviorRule]>);

/// Source of logs and usage for simulated nodes.
pub struct Kubelets {
    fleet: Fleet,
    own_rules: Arc<[BehaviorRule]>,
    store: Store,
    component_logs: ComponentLogs,
    /// Rules of other fleets, as last published.
    other_rules: Mutex<BTreeMap<String, PublishedRules>>,
}

/// Reason for which a node is not available.
enum Unavailable {
    /// The node does not exist.
    Missing,
    /// The node cannot be reached; the reason is an error message of a network client.
    Unreachable(&'static str),
    /// The rules of its fleet are not published.
    Unpublished,
}

impl Kubelets {
    /// Returns the source for the nodes of this process's fleet and of others, whose pods are in `store`.
    /// The logs of control plane components are in `component_logs`.
    pub fn new(fleet: Fleet, store: Store, component_logs: ComponentLogs) -> Kubelets {
        Kubelets {
            own_rules: fleet.rules.clone().into(),
            fleet,
            store,
            component_logs,
            other_rules: Mutex::default(),
        }
    }

    /// Returns the rules for the containers on a node.
    fn rules(&self, snapshot: &Snapshot, node: &str, now: Time) -> Result<Arc<[BehaviorRule]>, Unavailable> {
        let object = find(snapshot, "nodes", node).ok_or(Unavailable::Missing)?;
        match PowerState::of(&object) {
            PowerState::On => {}
            PowerState::Off => return Err(Unavailable::Unreachable("connect: no route to host")),
            PowerState::Partitioned => return Err(Unavailable::Unreachable("i/o timeout")),
        }
        if self.fleet.owns(&object) && self.fleet.node_number(node).is_some() {
            return Ok(Arc::clone(&self.own_rules));
        }
        let fleet = object.meta().annotations.get(FLEET_ANNOTATION).ok_or(Unavailable::Unpublished)?;
        let lease = find(snapshot, nodes::LEASE_RESOURCE, &format!("{}/{node}", nodes::LEASE_NAMESPACE));
        if self.fleet.owns(&object) || !lease.is_some_and(|lease| nodes::is_lease_valid(&lease, now)) {
            return Err(Unavailable::Unreachable(
                "connect: connection refused (no fleet runs this simulated node)",
            ));
        }
        let path = format!("{}/{fleet}", published_rules::NAMESPACE);
        let map = find(snapshot, "configmaps", &path).ok_or(Unavailable::Unpublished)?;
        let mut other_rules = self.other_rules.lock();
        if let Some((_, known)) = other_rules.get(fleet).filter(|(revision, _)| *revision == map.revision()) {
            return Ok(Arc::clone(known));
        }
        let rules: Arc<[BehaviorRule]> =
            published_rules::decode_rules(&map).ok_or(Unavailable::Unpublished)?.into();
        other_rules.insert(fleet.to_owned(), (map.revision(), Arc::clone(&rules)));
        Ok(rules)
    }

    /// `true` if there are simulated nodes, or will be soon: clients cache discovery for long.
    fn has_simulated_nodes(&self, snapshot: &Snapshot) -> bool {
        let table = Resource::new("nodes").ok().and_then(|nodes| snapshot.table(&nodes));
        let is_simulated = |node: &Record| is_simulated(|label| node.attributes().label(label).is_some());
        self.fleet.count > 0 || table.is_some_and(|table| table.range("", None).any(is_simulated))
    }

    /// Error for the log of a node that is not available, with upstream's message if there is one.
    fn log_error(
        &self,
        snapshot: &Snapshot,
        pod: &Object,
        container: &str,
        node: &str,
        reason: Unavailable,
    ) -> Status {
        match reason {
            Unavailable::Missing => {
                Status::failure(setpoint_api::status::Reason::NotFound, format!("nodes {node:?} not found"))
            }
            Unavailable::Unreachable(error) => {
                let object = find(snapshot, "nodes", node);
                let address =
                    object.and_then(|object| nodes::internal_ip(&object)).unwrap_or_else(|| node.to_owned());
                let (meta, host) = (pod.meta(), format!("{address}:{PORT}"));
                let (namespace, name) = (&meta.namespace, &meta.name);
                Status::unclassified(
                    500,
                    format!(
                        "Get \"https://{host}/containerLogs/{namespace}/{name}/{container}\": dial tcp {host}: {error}"
                    ),
                )
            }
            Unavailable::Unpublished => Status::unclassified(
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
    ) -> Result<LogResponse, Status> {
        if let Some(component) = self.fleet.component(pod) {
            return match previous {
                // The previous container was another process.
                true => Err(Status::bad_request(format!(
                    "previous terminated container {container:?} in pod {:?} not found",
                    pod.key().name()
                ))),
                false => Ok(self.component_logs.container_log(component)),
            };
        }
        let snapshot = self.store.snapshot();
        let node = logs::node_name(pod).unwrap_or_default();
        let rules = self.rules(&snapshot, &node, now);
        let rules = rules.map_err(|reason| self.log_error(&snapshot, pod, container, &node, reason))?;
        let said = logs::container_log((&rules, &self.fleet.script_cache), pod, container, previous, now);
        let logs::ContainerLog { lines, dropped, is_running, next } = said.map_err(Status::bad_request)?;
        Ok(LogResponse { lines, dropped, is_running, next })
    }
}

impl UsageSource for Kubelets {
    fn is_served(&self) -> bool {
        self.has_simulated_nodes(&self.store.snapshot())
    }

    fn pods(&self, selector: UsageSelector<'_>) -> Result<Vec<UsageSample>, String> {
        let snapshot = self.store.snapshot();
        if !self.has_simulated_nodes(&snapshot) {
            return Err(NOT_SERVED_ERROR.to_owned());
        }
        let now = SystemClock.now();
        let mut cache = RulesCache { kubelets: self, snapshot: &snapshot, now, known: BTreeMap::new() };
        let prefix = path_prefix(selector.namespace);
        let samples = records(&snapshot, "pods", &prefix, selector).into_iter().filter_map(|record| {
            let containers = cache.usage(record)?;
            Some(UsageSample { containers, ..empty_sample(record, now) })
        });
        Ok(samples.collect())
    }

    fn nodes(&self, selector: UsageSelector<'_>) -> Result<Vec<UsageSample>, String> {
        let snapshot = self.store.snapshot();
        let now = SystemClock.now();
        let mut cache = RulesCache { kubelets: self, snapshot: &snapshot, now, known: BTreeMap::new() };
        let nodes = records(&snapshot, "nodes", "", selector)
            .into_iter()
            .filter(|node| cache.rules(node.name()).is_some());
        let mut samples: BTreeMap<&str, UsageSample> =
            nodes.map(|node| (node.name(), empty_sample(node, now))).collect();
        let everything = Selector::EVERYTHING;
        for pod in
            records(&snapshot, "pods", "", UsageSelector { namespace: "", name: "", labels: &everything })
        {
            let attributes = pod.attributes();
            let Some(node) = attributes.field("spec.nodeName").and_then(|node| samples.get_mut(node)) else {
                continue;
            };
            let parts = cache.usage(pod).into_iter().flat_map(BTreeMap::into_values);
            let sum = node.containers.entry(String::new()).or_default();
            for (resource, amount) in parts.flatten() {
                let sum = sum.entry(resource).or_default();
                *sum = sum.saturating_add(amount);
            }
        }
        Ok(samples.into_values().map(fill_zero_usage).collect())
    }
}

/// Fills in zero usage, for a node without containers.
fn fill_zero_usage(mut node: UsageSample) -> UsageSample {
    let sum = node.containers.entry(String::new()).or_default();
    for resource in ["cpu", "memory"] {
        sum.entry(resource.to_owned()).or_default();
    }
    node
}

/// Returns a sample without usage.
fn empty_sample(record: &Record, now: Time) -> UsageSample {
    UsageSample {
        namespace: record.namespace().unwrap_or_default().to_owned(),
        name: record.name().to_owned(),
        labels: record
            .attributes()
            .labels()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        containers: BTreeMap::new(),
        timestamp: now,
        window: WINDOW,
    }
}

/// Returns the selected objects of a resource below the prefix of their namespace.
fn records<'a>(
    snapshot: &'a Snapshot,
    resource: &str,
    prefix: &'a str,
    selector: UsageSelector<'_>,
) -> Vec<&'a Record> {
    let Some(table) = Resource::new(resource).ok().and_then(|resource| snapshot.table(&resource)) else {
        return Vec::new();
    };
    let is_selected = |record: &&Record| {
        let attributes = record.attributes();
        selector.labels.matches(|name| attributes.label(name))
    };
    match selector.name {
        "" => table.range(prefix, None).filter(is_selected).collect(),
        name => table.get(&format!("{prefix}{name}")).into_iter().filter(is_selected).collect(),
    }
}

/// Path prefix of a namespace; empty for all.
fn path_prefix(namespace: &str) -> String {
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
struct RulesCache<'a> {
    kubelets: &'a Kubelets,
    snapshot: &'a Snapshot,
    now: Time,
    known: BTreeMap<String, Option<Arc<[BehaviorRule]>>>,
}

impl RulesCache<'_> {
    fn rules(&mut self, node: &str) -> Option<Arc<[BehaviorRule]>> {
        if let Some(known) = self.known.get(node) {
            return known.clone();
        }
        let rules = self.kubelets.rules(self.snapshot, node, self.now).ok();
        self.known.insert(node.to_owned(), rules.clone());
        rules
    }

    /// Returns the usage of a pod's containers; `None` if its node is not available, no container runs, or
    /// the pod represents a component of this process.
    fn usage(&mut self, pod: &Record) -> Option<ContainerUsage> {
        let rules = self.rules(pod.attributes().field("spec.nodeName")?)?;
        let pod = object("pods", pod).filter(|pod| self.kubelets.fleet.component(pod).is_none())?;
        logs::pod_usage((&rules, &self.kubelets.fleet.script_cache), &pod, self.now)
    }
}
