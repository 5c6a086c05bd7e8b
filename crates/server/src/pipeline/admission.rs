//! Admission: built-in mutating and validating admission plugins.
//!
//! One file per plugin, in upstream's order. [`admit`] runs after defaulting and may change the object; [`validate`]
//! runs after the kind's own validation. Both are functions of the object and the context. Objects that they read are
//! not preconditions of the commit: a concurrent change of a class counts as later than the write.

pub mod certificate_request;
pub mod claim_resize;
pub mod default_class;
pub mod limit_range;
pub mod node_restriction;
pub mod node_taint;
pub mod pod_security;
pub mod priority;
pub mod protection;
pub mod runtime_class;
pub mod service_account;
pub mod tolerations;

use memchr::memmem;
use setpoint_api::ResourceType;
use setpoint_api::field_error::ErrorList;
use setpoint_api::status::Status;
use setpoint_api::{Key, Resource, Value, metadata};
use setpoint_store::{Record, Snapshot, Table};

use super::RequestContext;
use crate::codec;

/// Runs mutating admission on a new object.
///
/// # Errors
/// If a referenced object is missing or contradicts it.
pub fn admit(
    resource_type: &ResourceType,
    object: &mut Value,
    context: &RequestContext<'_>,
) -> Result<(), Status> {
    let snapshot = context.snapshot;
    let result = match (&*resource_type.info.group, &*resource_type.info.plural) {
        ("", "pods") => {
            limit_range::admit(object, snapshot)?;
            admit_pod(object, context)
        }
        ("", "nodes") => {
            node_taint::admit(object);
            Ok(())
        }
        ("", "persistentvolumeclaims") => {
            default_class::admit_claim(object, snapshot);
            protection::admit(object, protection::CLAIM);
            Ok(())
        }
        ("", "persistentvolumes") => {
            protection::admit(object, protection::VOLUME);
            Ok(())
        }
        ("storage.k8s.io", "volumeattributesclasses") => {
            protection::admit(object, protection::ATTRIBUTES_CLASS);
            Ok(())
        }
        ("networking.k8s.io", "ingresses") => {
            default_class::admit_ingress(object, snapshot);
            Ok(())
        }
        _ => return Ok(()),
    };
    result.map_err(|why| forbidden(resource_type, object, &why))
}

fn admit_pod(pod: &mut Value, context: &RequestContext<'_>) -> Result<(), String> {
    let snapshot = context.snapshot;
    service_account::admit(pod, snapshot, context.entropy[0])?;
    priority::admit(pod, snapshot)?;
    tolerations::admit(pod, context.tolerations);
    runtime_class::admit(pod, snapshot)
}

/// Runs mutating admission on an update.
pub(crate) fn admit_update(
    resource_type: &ResourceType,
    new: &mut Value,
    old: &Value,
    context: &RequestContext<'_>,
) {
    if resource_type.info.group.is_empty() && resource_type.info.plural == "pods" {
        priority::keep_priority(new, old);
        tolerations::admit(new, context.tolerations);
    }
}

/// Validates encoded fields that the kind's own rules do not decode.
pub fn validate_fields(
    resource_type: &ResourceType,
    object: &Value,
    old: Option<&Value>,
    errors: &mut ErrorList,
) {
    if resource_type.resource.as_str() == "certificatesigningrequests.certificates.k8s.io" {
        certificate_request::validate_fields(object, old, errors);
    }
    if resource_type.resource.as_str() == "namespaces" {
        pod_security::validate_fields(object, old, errors);
    }
    if resource_type.resource.as_str() == "customresourcedefinitions.apiextensions.k8s.io" {
        setpoint_extensions::validate_definition(object, old, errors);
    }
}

/// Runs validating admission on a valid object.
///
/// # Errors
/// If a limit of its namespace, or another object, forbids it.
pub fn validate(
    resource_type: &ResourceType,
    object: &Value,
    old: Option<&Value>,
    snapshot: &Snapshot,
) -> Result<(), Status> {
    let result = match (&*resource_type.info.group, &*resource_type.info.plural) {
        ("", "pods") if old.is_none() => limit_range::validate_pod(object, snapshot)
            .and_then(|()| pod_security::validate(object, old, snapshot))
            .and_then(|()| runtime_class::validate(object, snapshot)),
        ("", "pods") => pod_security::validate(object, old, snapshot),
        ("", "persistentvolumeclaims") => {
            limit_range::validate_claim(object, snapshot).and_then(|()| match old {
                Some(old) => claim_resize::validate(object, old, snapshot),
                None => Ok(()),
            })
        }
        ("certificates.k8s.io", "certificatesigningrequests") => certificate_request::validate(object),
        ("scheduling.k8s.io", "priorityclasses") => priority::validate_class(object, old, snapshot),
        _ => return Ok(()),
    };
    result.map_err(|why| forbidden(resource_type, object, &why))
}

/// Runs validating admission on a pod resize.
///
/// # Errors
/// If a limit of its namespace forbids it.
pub fn validate_resize(resource_type: &ResourceType, pod: &Value, snapshot: &Snapshot) -> Result<(), Status> {
    limit_range::validate_pod(pod, snapshot).map_err(|why| forbidden(resource_type, pod, &why))
}

fn forbidden(resource_type: &ResourceType, object: &Value, why: &str) -> Status {
    let name = match (metadata::name(object), metadata::text(object, "generateName")) {
        ("", "") => "Unknown",
        ("", prefix) => prefix,
        (name, _) => name,
    };
    Status::forbidden(resource_type.qualified(), name, why)
}

/// Objects of the resource `name`.
pub(super) fn table<'a>(snapshot: &'a Snapshot, name: &str) -> Option<&'a Table> {
    snapshot.table(&Resource::new(name).ok()?)
}

/// All objects of a cluster-wide resource.
fn all<'a>(snapshot: &'a Snapshot, name: &str) -> impl Iterator<Item = &'a Record> {
    table(snapshot, name).into_iter().flat_map(Table::iter)
}

/// Returns a cluster-scoped object.
fn find(snapshot: &Snapshot, resource: &str, name: &str) -> Option<Value> {
    let key = Key::cluster(&Resource::new(resource).ok()?, name).ok()?;
    snapshot.get(&key).map(codec::object)
}

/// `true` if the stored bytes contain the text: a cheap filter before decoding.
fn contains_text(record: &Record, text: &str) -> bool {
    memmem::find(&record.value(), text.as_bytes()).is_some()
}

#[cfg(test)]
pub(crate) mod testing {
    //! Snapshots for the tests of plugins.

    use setpoint_api::{Time, Value, json};
    use setpoint_store::{CommitCause, Precondition, Proposal, Retention, Snapshot, Store};

    use crate::codec;
    use setpoint_api::resource_types;

    /// Reads an object.
    pub(crate) fn object(text: &str) -> Value {
        json::parse(text.as_bytes()).unwrap()
    }

    /// A snapshot that holds these objects, each given by group, version, plural and text.
    pub(crate) fn snapshot_with(objects: &[(&str, &str, &str, &str)]) -> Snapshot {
        let store = Store::in_memory(Retention::default());
        for (group, version, plural, text) in objects {
            let resource_type = resource_types::find(group, version, plural).unwrap();
            let object = object(text);
            let (namespace, name) =
                (object.str_at(&["metadata", "namespace"]), object.str_at(&["metadata", "name"]));
            let key = resource_type.key(namespace, name).unwrap();
            let draft = codec::draft(resource_type, object.clone(), Time::EPOCH).unwrap();
            let proposal =
                Proposal::new(CommitCause::default(), Time(1)).put(key, Precondition::Absent, draft);
            store.commit(proposal).unwrap();
        }
        store.snapshot()
    }
}
