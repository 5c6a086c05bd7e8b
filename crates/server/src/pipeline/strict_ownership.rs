//! Strict ownership: in a namespace that opts in, no write changes a field that another manager applied.
//!
//! Server-side apply rejects such a change by itself. With the annotation [`ANNOTATION`] on the namespace, so does every
//! other write: an update, a patch, a scale, and the writes of controllers. So two managers cannot fight over a field.
//! A forced apply takes the field over, and so does a write with `takeOver=true`.

use setpoint_api::apply::{Conflicts, FieldConflict, FieldSet, ManagedOperation, Managers};
use setpoint_api::resource_types::{self, ResourceType};
use setpoint_api::status::Status;
use setpoint_api::{Value, metadata};

use super::{RequestContext, WriteOrigin};
use crate::codec;

/// Annotation of a namespace that turns strict ownership on, with the value `Strict`.
pub const ANNOTATION: &str = "setpoint.dev/field-ownership";
/// Namespace of the system, whose controllers must always be able to write.
const EXEMPT_NAMESPACE: &str = "kube-system";

/// 409 if an update changes fields that other managers applied, in a namespace with strict ownership.
///
/// # Errors
/// If it does; the response names the managers and the fields.
pub(crate) fn check(
    resource_type: &ResourceType,
    old: &Value,
    changed: &FieldSet,
    writer: &WriteOrigin,
    context: &RequestContext<'_>,
) -> Result<(), Status> {
    if writer.takes_over || changed.is_empty() || !is_strict(resource_type, metadata::namespace(old), context)
    {
        return Ok(());
    }
    let managed = old.at(&["metadata", "managedFields"]).unwrap_or(&Value::Null);
    let Ok(managers) = Managers::from_value(managed) else { return Ok(()) };
    let others = managers
        .entries()
        .iter()
        .filter(|entry| entry.operation == ManagedOperation::Apply && *entry.manager != *writer.manager);
    let mut found = Vec::new();
    for entry in others {
        let paths = entry.fields.clone().into_set().intersection(changed).paths();
        found.extend(paths.into_iter().map(|path| FieldConflict { manager: entry.id(), path }));
    }
    if found.is_empty() {
        return Ok(());
    }
    let conflicts = Conflicts::new(found);
    let message = format!(
        "{conflicts}\nThe namespace has the annotation {ANNOTATION}=Strict: take the fields over with a forced apply or \
         takeOver=true, or leave them to their manager"
    );
    Err(Status::apply_conflict(conflicts.causes(), message.replacen("Apply failed", "Write failed", 1)))
}

/// `true` if the namespace has strict ownership.
fn is_strict(resource_type: &ResourceType, namespace: &str, context: &RequestContext<'_>) -> bool {
    if !resource_type.info.namespaced || namespace == EXEMPT_NAMESPACE {
        return false;
    }
    let namespaces = resource_types::find("", "v1", "namespaces");
    let key = namespaces.and_then(|namespaces| namespaces.key("", namespace).ok());
    let Some(record) = key.and_then(|key| context.snapshot.get(&key)) else { return false };
    let bytes = record.value();
    // Most namespaces do not have the annotation, and need not be parsed.
    memchr::memmem::find(&bytes, ANNOTATION.as_bytes()).is_some()
        && codec::object(record).at(&["metadata", "annotations", ANNOTATION]).and_then(Value::as_str)
            == Some("Strict")
}
