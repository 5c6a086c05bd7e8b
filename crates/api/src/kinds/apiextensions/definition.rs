//! CustomResourceDefinition: a resource that clients define.
//!
//! Deletion: a delete adds the finalizer [`CLEANUP_FINALIZER`] and the condition `Terminating`. A controller deletes
//! the instances and then removes the finalizer.

use super::internal::InternalSpec;
use super::ratchet::Strictness;
use super::{condition, conversion, names, spec, warnings};
use crate::field_error::ErrorList;
use crate::kinds::{Rules, check, keep};
use crate::metadata;
use crate::metadata::delete::{self, Deletion, GarbagePolicy, PreconditionError};
use crate::metadata::options::DeleteOptions;
use crate::rfc3339::Seconds;
use crate::time::Time;
use crate::value::{Map, Value};

/// Finalizer that keeps a definition until its instances are deleted.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

const SERVICE_PORT: i32 = 443;

/// Rules of CustomResourceDefinition.
pub struct CustomResourceDefinition;

impl Rules for CustomResourceDefinition {
    fn default(&self, object: &mut Value) {
        default_spec(object.ensure_map("spec"));
        let stored = object.at(&["status", "storedVersions"]);
        if stored.is_none_or(Value::is_empty) {
            add_stored_version(object);
        }
    }

    fn has_status(&self) -> bool {
        true
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn prepare_create(&self, object: &mut Value) {
        object.make_map().insert("status", Value::map());
        add_stored_version(object);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value) {
        keep(new, old, "status");
        add_stored_version(new);
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        names::check_object_name(errors, object);
        check_object(errors, object, None, &Strictness::NEW);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let strictness = Strictness::of_update(&InternalSpec::of(new), &InternalSpec::of(old), old);
        check_object(errors, new, Some(old), &strictness);
    }

    fn validate_status(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        names::check_accepted_names(errors, new);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        warnings::warnings(new, old)
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }
}

fn check_object(errors: &mut ErrorList, new: &Value, old: Option<&Value>, strictness: &Strictness<'_>) {
    spec::check_spec(errors, &InternalSpec::of(new), strictness);
    if let Some(old) = old {
        conversion::check_immutable_names(errors, new, old, condition::is_established(old));
    }
    names::check_accepted_names(errors, new);
    names::check_stored_versions(errors, new);
    names::check_approval(errors, new, old);
    conversion::check_preserve_unknown_fields(errors, new, old);
}

fn default_spec(spec: &mut Map) {
    if let Some(names) = spec.get_mut("names").and_then(Value::as_map_mut) {
        let kind = names.get_str("kind").unwrap_or_default().to_owned();
        if !kind.is_empty() {
            check::set_default_if_empty_with(names, "singular", || kind.to_lowercase().into());
            check::set_default_if_empty_with(names, "listKind", || format!("{kind}List").into());
        }
    }
    check::set_default_with(spec, "conversion", || Value::Map([("strategy", "None")].into_iter().collect()));
    let conversion = spec.get_mut("conversion");
    let service =
        conversion.and_then(|conversion| conversion.at_mut(&["webhook", "clientConfig", "service"]));
    if let Some(service) = service.and_then(Value::as_map_mut) {
        check::set_default_with(service, "port", || SERVICE_PORT.into());
    }
}

/// Adds the storage version to the stored versions.
fn add_stored_version(object: &mut Value) {
    let versions = check::list(check::field(object, "spec"), "versions");
    let Some(version) = versions.iter().find(|version| check::boolean(version, "storage")) else { return };
    let name = check::text(version, "name");
    if check::texts(check::field(object, "status"), "storedVersions").contains(&name) {
        return;
    }
    let name = Value::from(name);
    let stored = object.ensure_map("status").ensure("storedVersions", || Value::List(Vec::new()));
    match stored {
        Value::List(list) => list.push(name),
        other => *other = Value::List(vec![name]),
    }
}

/// Applies a delete to a definition: the first one marks it, and later ones wait for its finalizers.
///
/// # Errors
/// If the definition does not meet the preconditions. The response is a conflict on `customresourcedefinitions`, with
/// the [message](precondition_message) of this kind.
pub fn delete(
    mut definition: Value,
    options: &DeleteOptions<'_>,
    now: Time,
) -> Result<Deletion, PreconditionError> {
    delete::check_preconditions(&definition, options)?;
    if metadata::deletion_timestamp(&definition).is_some() {
        return delete::delete(definition, options, GarbagePolicy::DeleteDependents, None, now);
    }
    let mut finalizers: Vec<Value> = metadata::finalizers(&definition).into_iter().map(Value::from).collect();
    if !finalizers.iter().any(|finalizer| finalizer.as_str() == Some(CLEANUP_FINALIZER)) {
        finalizers.push(CLEANUP_FINALIZER.into());
    }
    let meta = definition.ensure_map("metadata");
    meta.insert("deletionTimestamp", Seconds(now).to_string());
    meta.insert("finalizers", finalizers);
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    let reason = "InstanceDeletionPending";
    condition::set(&mut definition, condition::TERMINATING, "True", reason, message, now);
    Ok(Deletion::Mark(definition))
}

/// Message for a failed precondition of a delete, which upstream spells in lower case for this kind.
#[must_use]
pub fn precondition_message(error: &PreconditionError) -> String {
    let mut message = error.store_message();
    if let Some(first) = message.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    message
}
