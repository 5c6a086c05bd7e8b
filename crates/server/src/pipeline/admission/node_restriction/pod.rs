//! Pods, and claims of volumes.

use setpoint_api::quote::Quoted;
use setpoint_api::status::Status;
use setpoint_api::{Value, metadata};
use setpoint_authorization::node::first_api_reference;

use super::NodeWrite;
use crate::webhooks::Operation;

/// Annotation of mirror pods.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";
/// Fields of a claim that its node may change in `status`.
const CLAIM_STATUS_FIELDS: [&str; 4] =
    ["capacity", "conditions", "allocatedResourceStatuses", "allocatedResources"];
/// Changed fields in a message.
const SHOWN_FIELDS_MAX: usize = 8;

impl NodeWrite<'_> {
    pub(super) fn check_pod(&self) -> Result<(), Status> {
        let node = Quoted(self.node);
        match self.operation() {
            Operation::Create => self.check_pod_create(),
            Operation::Delete => {
                let is_own = self.old.is_some_and(|pod| self.is_own_pod(pod));
                if is_own {
                    return Ok(());
                }
                self.forbid(format!("node {node} can only delete pods with spec.nodeName set to itself"))
            }
            other => self.forbid(format!(
                "unexpected operation {}, node {node} can only create and delete mirror pods",
                Quoted(other.as_str())
            )),
        }
    }

    fn is_own_pod(&self, pod: &Value) -> bool {
        pod.str_at(&["spec", "nodeName"]) == self.node
    }

    fn check_pod_create(&self) -> Result<(), Status> {
        let (pod, node) = (self.object, Quoted(self.node));
        if metadata::entry(pod, "annotations", MIRROR).is_none() {
            return self.forbid(format!(
                "pod does not have {} annotation, node {node} can only create mirror pods",
                Quoted(MIRROR)
            ));
        }
        if !self.is_own_pod(pod) {
            return self.forbid(format!("node {node} can only create pods with spec.nodeName set to itself"));
        }
        let owners = pod.at(&["metadata", "ownerReferences"]).and_then(Value::as_list).unwrap_or_default();
        match owners {
            [] => {
                return self.forbid(format!(
                    "node {node} can only create pods with an owner reference set to itself"
                ));
            }
            [owner] => self.check_owner(owner)?,
            _ => {
                return self.forbid(format!(
                    "node {node} can only create pods with a single owner reference set to itself"
                ));
            }
        }
        match first_api_reference(pod) {
            Ok(None) => Ok(()),
            Ok(Some(resource)) => {
                self.forbid(format!("node {node} can not create pods that reference {resource}"))
            }
            Err(why) => self.forbid(format!("error checking mirror pod for API references: {why}")),
        }
    }

    fn check_owner(&self, owner: &Value) -> Result<(), Status> {
        let node = Quoted(self.node);
        let text = |field: &str| owner.str_at(&[field]);
        let flag = |field: &str| owner.get(field).and_then(Value::as_bool) == Some(true);
        if (text("apiVersion"), text("kind"), text("name")) != ("v1", "Node", self.node) {
            return self
                .forbid(format!("node {node} can only create pods with an owner reference set to itself"));
        }
        if !flag("controller") {
            return self.forbid(format!(
                "node {node} can only create pods with a controller owner reference set to itself"
            ));
        }
        if flag("blockOwnerDeletion") {
            return self.forbid(format!("node {node} must not set blockOwnerDeletion on an owner reference"));
        }
        let stored = self.find("nodes", "", self.node)?;
        let (given, is) = (text("uid"), metadata::text(&stored, "uid"));
        if given != is {
            return self.forbid(format!("node {} UID mismatch: expected {given} got {is}", self.node));
        }
        Ok(())
    }

    pub(super) fn check_pod_status(&self) -> Result<(), Status> {
        let (Operation::Update, Some(old)) = (self.operation(), self.old) else {
            return self.unexpected_operation();
        };
        let node = Quoted(self.node);
        if !self.is_own_pod(old) {
            return self.forbid(format!(
                "node {node} can only update pod status for pods with spec.nodeName set to itself"
            ));
        }
        let is_changed = |path: &[&str]| differ(old.at(path), self.object.at(path));
        if is_changed(&["metadata", "labels"]) {
            return self.forbid(format!("node {node} cannot update labels through pod status"));
        }
        for (field, words) in [
            // The typing error is upstream's.
            ("resourceClaimStatuses", "resource claim statues"),
            ("extendedResourceClaimStatus", "extended resource claim status"),
            ("nodeAllocatableResourceClaimStatuses", "node allocatable resource claim statuses"),
        ] {
            if is_changed(&["status", field]) {
                return self.forbid(format!("node {node} cannot update {words}"));
            }
        }
        Ok(())
    }

    pub(super) fn check_eviction(&self) -> Result<(), Status> {
        if self.operation() != Operation::Create {
            return self.forbid(format!("unexpected operation {}", self.operation().as_str()));
        }
        let name = self.name();
        if name.is_empty() {
            return self.forbid("could not determine pod from request data");
        }
        let pod = self.find("pods", self.request.namespace, name)?;
        if !self.is_own_pod(&pod) {
            let node = self.node;
            return self.forbid(format!("node {node} can only evict pods with spec.nodeName set to itself"));
        }
        Ok(())
    }

    pub(super) fn check_claim_status(&self) -> Result<(), Status> {
        let (Operation::Update, Some(old)) = (self.operation(), self.old) else {
            return self.unexpected_operation();
        };
        let (old, new) = (without_claim_status(old), without_claim_status(self.object));
        if old == new {
            return Ok(());
        }
        let fields = changed_fields(&old, &new).join(", ");
        self.forbid(format!(
            "node {} is not allowed to update fields other than status.quantity and status.conditions: {fields}",
            Quoted(self.node)
        ))
    }
}

/// `true` if two values differ; absent and empty values are equal.
pub(super) fn differ(old: Option<&Value>, new: Option<&Value>) -> bool {
    let normal = |value: Option<&Value>| value.map(normalized).unwrap_or_default();
    match (old, new) {
        (None, None) => false,
        (Some(old), Some(new)) if old == new => false,
        _ => normal(old) != normal(new),
    }
}

/// A value without its empty parts; null if it is empty.
fn normalized(value: &Value) -> Value {
    match value {
        Value::Str(text) if text.is_empty() => Value::Null,
        Value::List(items) if items.is_empty() => Value::Null,
        Value::List(items) => Value::List(items.iter().map(normalized).collect()),
        Value::Map(map) => {
            let fields = map.iter().map(|(name, value)| (name, normalized(value)));
            let fields: setpoint_api::Map = fields.filter(|(_, value)| !value.is_null()).collect();
            if fields.is_empty() { Value::Null } else { Value::Map(fields) }
        }
        other => other.clone(),
    }
}

/// A claim without the fields that its node may change, and without those that every write changes.
fn without_claim_status(claim: &Value) -> Value {
    let mut claim = claim.clone();
    if let Some(metadata) = claim.get_mut("metadata").and_then(Value::as_map_mut) {
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
    }
    if let Some(status) = claim.get_mut("status").and_then(Value::as_map_mut) {
        CLAIM_STATUS_FIELDS.iter().for_each(|field| drop(status.remove(field)));
    }
    normalized(&claim)
}

/// Fields of the second level that differ.
fn changed_fields(old: &Value, new: &Value) -> Vec<String> {
    let mut changed = Vec::new();
    for part in ["metadata", "spec", "status"] {
        let (old, new) = (old.get(part), new.get(part));
        let names = |value: Option<&Value>| -> Vec<String> {
            let fields = value.and_then(Value::as_map).into_iter().flat_map(|map| map.iter());
            fields.map(|(name, _)| name.to_owned()).collect()
        };
        let mut all = names(old);
        all.extend(names(new));
        all.sort();
        all.dedup();
        let field = |value: Option<&Value>, name: &str| value.and_then(|value| value.get(name)).cloned();
        all.retain(|name| field(old, name) != field(new, name));
        changed.extend(all.iter().map(|name| format!("{part}.{name}")));
    }
    changed.truncate(SHOWN_FIELDS_MAX);
    changed
}
