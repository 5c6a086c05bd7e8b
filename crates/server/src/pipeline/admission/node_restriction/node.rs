//! Nodes.

use std::collections::BTreeSet;

use setpoint_api::quote::Quoted;
use setpoint_api::status::Status;
use setpoint_api::{Map, Value};
use setpoint_authorization::node::labels::is_own_label;

use super::NodeWrite;
use super::pod::differ;
use crate::webhooks::Operation;

impl NodeWrite<'_> {
    pub(super) fn check_node(&self) -> Result<(), Status> {
        let node = Quoted(self.node);
        if self.name() != self.node {
            return self.forbid(format!("node {node} is not allowed to modify node {}", Quoted(self.name())));
        }
        match (self.operation(), self.old) {
            (Operation::Create, _) => self.check_registration(),
            (Operation::Update, Some(old)) => self.check_node_update(old),
            _ => Ok(()),
        }
    }

    fn check_registration(&self) -> Result<(), Status> {
        let node = Quoted(self.node);
        if is_set(self.object, &["spec", "configSource"]) {
            return self
                .forbid(format!("node {node} is not allowed to create pods with a non-nil configSource"));
        }
        let forbidden = forbidden_labels(self.object, &Value::Null);
        if forbidden.is_empty() {
            return Ok(());
        }
        self.forbid(format!("node {node} is not allowed to set the following labels: {forbidden}"))
    }

    fn check_node_update(&self, old: &Value) -> Result<(), Status> {
        let (new, node) = (self.object, Quoted(self.node));
        let is_changed = |path: &[&str]| differ(old.at(path), new.at(path));
        let source = ["spec", "configSource"];
        if is_set(new, &source) && new.at(&source) != old.at(&source) {
            return self.forbid(format!(
                "node {node} is not allowed to update configSource to a new non-nil configSource"
            ));
        }
        if is_changed(&["spec", "taints"]) {
            return self.forbid(format!("node {node} is not allowed to modify taints"));
        }
        if is_changed(&["metadata", "ownerReferences"]) {
            return self.forbid(format!("node {node} is not allowed to modify ownerReferences"));
        }
        let forbidden = forbidden_labels(new, old);
        if forbidden.is_empty() {
            return Ok(());
        }
        // Upstream's message begins without the node.
        self.forbid(format!("is not allowed to modify labels: {forbidden}"))
    }
}

fn is_set(object: &Value, path: &[&str]) -> bool {
    object.at(path).is_some_and(|value| !value.is_null())
}

/// Labels that differ, and that a node may not set, as a list.
fn forbidden_labels(new: &Value, old: &Value) -> String {
    let labels = |object: &'_ Value| -> Map {
        object.at(&["metadata", "labels"]).and_then(Value::as_map).cloned().unwrap_or_default()
    };
    let (new, old) = (labels(new), labels(old));
    let names = new.iter().chain(old.iter()).map(|(name, _)| name);
    let changed: BTreeSet<&str> = names.filter(|name| new.get(name) != old.get(name)).collect();
    let forbidden: Vec<&str> = changed.into_iter().filter(|name| !is_own_label(name)).collect();
    forbidden.join(", ")
}
