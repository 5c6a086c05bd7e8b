//! Who answers for the simulated nodes of this process: what their containers say, and what they use.

use std::collections::BTreeMap;
use std::time::Duration;

use setpoint_api::labels::Selector;
use setpoint_api::{Key, Resource, Time};
use setpoint_node::fleet::Power;
use setpoint_node::{Fleet, logs};
use setpoint_reconcile::Object;
use setpoint_server::asks::usage::{Parts, Usage, Used, Which};
use setpoint_server::in_process;
use setpoint_server::nodes::{Nodes, Said};
use setpoint_store::{Clock, Record, Snapshot, Store};

use crate::clock::SystemClock;
use crate::commands::logging::Rings;

/// Over which time usage is measured, as far as anybody asks.
const WINDOW: Duration = Duration::from_secs(15);

/// Answers for simulated nodes.
pub struct Kubelets {
    /// Which they are.
    pub fleet: Fleet,
    /// Where their pods are.
    pub store: Store,
    /// What the components of the control plane said.
    pub rings: Rings,
}

impl Nodes for Kubelets {
    fn refusal(&self, node: &str) -> Option<String> {
        self.fleet.number(node)?;
        Some(format!(
            "node {node} is simulated: its containers do not run, so there is nothing to connect to"
        ))
    }

    fn said(&self, pod: &Object, container: &str, previous: bool, now: Time) -> Result<Said, String> {
        if let Some(component) = self.fleet.component(pod) {
            return match previous {
                // What ran before was another process.
                true => Err(format!(
                    "previous terminated container {container:?} in pod {:?} not found",
                    pod.key().name()
                )),
                false => Ok(self.rings.said(component)),
            };
        }
        let logs::Said { lines, goes_on, next } = logs::said(&self.fleet, pod, container, previous, now)?;
        Ok(Said { lines, dropped: 0, goes_on, next })
    }
}

impl Usage for Kubelets {
    fn pods(&self, which: Which<'_>) -> Result<Vec<Used>, String> {
        let snapshot = self.store.snapshot();
        let mut asked = Asked { fleet: &self.fleet, snapshot: &snapshot, known: BTreeMap::new() };
        let (now, place) = (SystemClock.now(), place(which.namespace));
        let used = records(&snapshot, "pods", &place, which).into_iter().filter_map(|record| {
            let parts = asked.used(record, now)?;
            Some(Used { parts, ..nothing(record, now) })
        });
        Ok(used.collect())
    }

    fn nodes(&self, which: Which<'_>) -> Result<Vec<Used>, String> {
        let snapshot = self.store.snapshot();
        let mut asked = Asked { fleet: &self.fleet, snapshot: &snapshot, known: BTreeMap::new() };
        let now = SystemClock.now();
        let nodes =
            records(&snapshot, "nodes", "", which).into_iter().filter(|node| asked.reaches(node.name()));
        let mut used: BTreeMap<&str, Used> = nodes.map(|node| (node.name(), nothing(node, now))).collect();
        let everything = Selector::EVERYTHING;
        for pod in records(&snapshot, "pods", "", Which { namespace: "", name: "", labels: &everything }) {
            let tags = pod.tags();
            let Some(node) = tags.field("spec.nodeName").and_then(|node| used.get_mut(node)) else {
                continue;
            };
            let parts = asked.used(pod, now).into_iter().flat_map(BTreeMap::into_values);
            let sum = node.parts.entry(String::new()).or_default();
            for (resource, amount) in parts.flatten() {
                let sum = sum.entry(resource).or_default();
                *sum = sum.saturating_add(amount);
            }
        }
        Ok(used.into_values().map(whole).collect())
    }
}

/// A node on which nothing runs uses nothing, and says so.
fn whole(mut node: Used) -> Used {
    let sum = node.parts.entry(String::new()).or_default();
    for resource in ["cpu", "memory"] {
        sum.entry(resource.to_owned()).or_default();
    }
    node
}

/// What is known of something of which nothing was measured.
fn nothing(record: &Record, now: Time) -> Used {
    Used {
        namespace: record.namespace().unwrap_or_default().to_owned(),
        name: record.name().to_owned(),
        labels: record.tags().labels().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        parts: BTreeMap::new(),
        at: now,
        window: WINDOW,
    }
}

/// The objects of a resource that are meant, below the place of their namespace.
fn records<'a>(snapshot: &'a Snapshot, resource: &str, place: &'a str, which: Which<'_>) -> Vec<&'a Record> {
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

/// How the keys of a namespace begin; empty for all.
fn place(namespace: &str) -> String {
    if namespace.is_empty() { String::new() } else { format!("{namespace}/") }
}

fn object(resource: &str, record: &Record) -> Option<Object> {
    in_process::object(Key::from_path(&Resource::new(resource).ok()?, record.path()).ok()?, record)
}

/// The nodes that are asked: those of the fleet that are registered and that somebody reaches.
struct Asked<'a> {
    fleet: &'a Fleet,
    snapshot: &'a Snapshot,
    known: BTreeMap<String, bool>,
}

impl Asked<'_> {
    fn reaches(&mut self, node: &str) -> bool {
        if let Some(known) = self.known.get(node) {
            return *known;
        }
        let labels = Selector::EVERYTHING;
        let which = Which { namespace: "", name: node, labels: &labels };
        let registered = || object("nodes", records(self.snapshot, "nodes", "", which).first()?);
        let is_on = self.fleet.number(node).and_then(|_| registered());
        let is_on = is_on.is_some_and(|node| Power::of(&node) == Power::On);
        self.known.insert(node.to_owned(), is_on);
        is_on
    }

    /// What the containers of a pod use; nothing if its node cannot be asked or nothing runs.
    fn used(&mut self, pod: &Record, now: Time) -> Option<Parts> {
        if !self.reaches(pod.tags().field("spec.nodeName")?) {
            return None;
        }
        logs::used(self.fleet, &object("pods", pod)?, now)
    }
}
