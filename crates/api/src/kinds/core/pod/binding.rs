//! Binding of a pod to a node.

use thiserror::Error;

use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::core::pod_spec::annotations;
use crate::kinds::read::{list, list_mut, present, push_required, text, text_entries};
use crate::names::dns;
use crate::quote::Quoted;
use crate::value::{Map, Value};

/// The pod cannot be bound. The response is a conflict on `pods/binding`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BindError {
    /// The pod is in deletion.
    #[error("pod {0} is being deleted, cannot be assigned to a host")]
    Deleting(Box<str>),
    /// The pod has a node.
    #[error("pod {pod} is already assigned to node {}", Quoted(node))]
    Assigned {
        /// Name of the pod.
        pod: Box<str>,
        /// Name of its node.
        node: Box<str>,
    },
    /// The pod has scheduling gates.
    #[error("pod {0} has non-empty .spec.schedulingGates")]
    Gated(Box<str>),
}

/// Validates a binding.
pub fn validate_binding(binding: &Value, errors: &mut ErrorList) {
    let none = Value::map();
    let target = present(binding, "target").unwrap_or(&none);
    let (kind, name) = (text(target, "kind"), text(target, "name"));
    let path = Path::root("target");
    let is_node = matches!(kind, "" | "Node");
    if !is_node {
        errors.push(FieldError::not_supported(&path.child("kind"), kind, &["Node", "<empty>"]));
    }
    if name.is_empty() {
        push_required(errors, &path.child("name"), "");
    } else if is_node {
        errors.push_invalid(&path.child("name"), name, dns::subdomain(name));
    }
}

/// Sets the node of a pod, with the labels and annotations of the binding. `now` is an RFC 3339 timestamp.
///
/// # Errors
/// If the pod cannot be bound; it is unchanged then.
pub fn bind(pod: &mut Value, binding: &Value, now: &str) -> Result<(), BindError> {
    let name: Box<str> = pod.str_at(&["metadata", "name"]).into();
    let none = Value::map();
    let spec = present(pod, "spec").unwrap_or(&none);
    if pod.at(&["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null()) {
        return Err(BindError::Deleting(name));
    }
    let node = text(spec, "nodeName");
    if !node.is_empty() {
        return Err(BindError::Assigned { pod: name, node: node.into() });
    }
    if !list(spec, "schedulingGates").is_empty() {
        return Err(BindError::Gated(name));
    }
    let node = binding.str_at(&["target", "name"]);
    pod.ensure_map("spec").insert("nodeName", node);
    let from = present(binding, "metadata").unwrap_or(&none);
    for field in ["annotations", "labels"] {
        let mut given = text_entries(from, field).peekable();
        if given.peek().is_some() {
            let map = pod.ensure_map("metadata").ensure_map(field);
            given.for_each(|(key, value)| drop(map.insert(key, value)));
            map.sort();
        }
    }
    if let Some(meta) = pod.get_mut("metadata") {
        annotations::drop_obsolete(meta);
    }
    let status = pod.make_map().ensure("status", Value::map);
    status.make_map().remove("nominatedNodeName");
    set_scheduled_condition(status, now);
    Ok(())
}

/// Sets the condition PodScheduled.
fn set_scheduled_condition(status: &mut Value, now: &str) {
    let known = list_mut(status, "conditions").iter_mut().find(|one| text(one, "type") == "PodScheduled");
    let since = match &known {
        Some(known) if text(known, "status") == "True" => text(known, "lastTransitionTime").to_owned(),
        _ => now.to_owned(),
    };
    let fields: [(&str, Value); 4] = [
        ("type", "PodScheduled".into()),
        ("status", "True".into()),
        ("lastProbeTime", Value::Null),
        ("lastTransitionTime", since.into()),
    ];
    let condition = Value::Map(fields.into_iter().collect::<Map>());
    match known {
        Some(known) => *known = condition,
        None => {
            let conditions = status.make_map().ensure("conditions", || Value::List(Vec::new()));
            match conditions.as_list_mut() {
                Some(list) => list.push(condition),
                None => *conditions = Value::List(vec![condition]),
            }
        }
    }
}
