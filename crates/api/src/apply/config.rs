//! Server-side apply: merges a configuration into an object, with conflicts on fields that other managers
//! own.
//!
//! The object is decoded and in the version of the request; the configuration is the request body. Apply runs
//! before admission, so that a manager owns the fields that it sent and not those that the server added.

use compact_str::CompactString;
use thiserror::Error;

use super::compare::{Comparison, compare};
use super::conflict::{Conflicts, FieldConflict};
use super::field_set::FieldSet;
use super::last_applied;
use super::managers::{Entry, ManagedOperation, ManagerId, Managers, ManagersError};
use super::merge::merge;
use super::paths::{Violations, paths, unowned, validate};
use super::prune::prune;
use super::update::{is_same_object, update_managers};
use super::writer::{ApplyContext, Comparisons, managed_fields};
use crate::status::Status;
use crate::value::Value;

#[cfg(test)]
mod tests;

/// Manager of the fields that an object had before its first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// Manager for which fields of client-side apply are taken over without conflicts.
const KUBECTL: &str = "kubectl";

/// Result of an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The object, without `metadata.managedFields`; the caller decodes and defaults it.
    pub object: Value,
    /// New `metadata.managedFields`; null if there are none.
    pub managed: Value,
    /// Paths that the apply changed; empty for a create.
    pub changed: Comparison,
}

/// Error of an apply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ApplyError {
    /// Kind or version differ from those of the request.
    #[error("invalid object type: {0}")]
    Type(Box<str>),
    /// The configuration has `managedFields`.
    #[error("metadata.managedFields must be nil")]
    ManagedFields,
    /// The configuration violates the schema.
    #[error("failed to create typed patch object ({object}): {violations}")]
    Config {
        /// Name, version and kind of the object.
        object: Box<str>,
        /// Violations of the schema.
        violations: Violations,
    },
    /// The `managedFields` of the object are invalid.
    #[error("failed to decode managed fields: {0}")]
    Managers(#[from] ManagersError),
    /// Other managers own fields of the configuration.
    #[error("{0}")]
    Conflicts(Conflicts),
}

impl ApplyError {
    /// Converts the error into the response.
    #[must_use]
    pub fn to_status(&self) -> Status {
        match self {
            ApplyError::Conflicts(conflicts) => conflicts.to_status(),
            ApplyError::Managers(_) => Status::unclassified(500, self.to_string()),
            // Upstream returns 500 with the same message if the configuration violates the schema; the error
            // is the client's.
            ApplyError::Type(_) | ApplyError::ManagedFields | ApplyError::Config { .. } => {
                Status::bad_request(self.to_string())
            }
        }
    }
}

/// Merges a configuration into the live object, or creates it if `live` is `None`.
///
/// # Errors
/// If the configuration is invalid, or other managers own fields that it changes and `force` is not set.
pub fn apply(
    writer: &ApplyContext<'_>,
    live: Option<&Value>,
    config: &Value,
    force: bool,
) -> Result<Applied, ApplyError> {
    check_type(writer, config)?;
    let managers = managers_of_apply(writer, live)?;
    if matches!(managed_fields(config), Value::List(_)) {
        return Err(ApplyError::ManagedFields);
    }
    validate(config, writer.of)
        .map_err(|violations| ApplyError::Config { object: describe(config).into(), violations })?;
    let mut applied = match live {
        None => create_valid(writer, config),
        Some(old) => match apply_valid(writer, old, config, managers, force) {
            Err(conflicts) if writer.manager == KUBECTL => {
                let rest = last_applied::without_client_side_conflicts(conflicts, old, writer);
                if !rest.0.is_empty() {
                    return Err(ApplyError::Conflicts(rest));
                }
                apply_valid(writer, old, config, managers_of_apply(writer, live)?, true)
            }
            outcome => outcome,
        }
        .map_err(ApplyError::Conflicts)?,
    };
    if writer.manager == KUBECTL {
        last_applied::update_annotation(&mut applied.object, config);
    }
    Ok(applied)
}

fn check_type(writer: &ApplyContext<'_>, config: &Value) -> Result<(), ApplyError> {
    if config.str_at(&["apiVersion"]) == writer.api_version && config.str_at(&["kind"]) == writer.of.name() {
        return Ok(());
    }
    Err(ApplyError::Type(type_of(config).into()))
}

/// Group, version and kind of an object, as upstream prints them: `apps/v1, Kind=Deployment`.
fn type_of(object: &Value) -> String {
    let (api_version, kind) = (object.str_at(&["apiVersion"]), object.str_at(&["kind"]));
    match api_version.split_once('/') {
        Some((_, version)) if version.contains('/') => "/, Kind=".to_owned(),
        Some((group, version)) => format!("{group}/{version}, Kind={kind}"),
        None => format!("/{api_version}, Kind={kind}"),
    }
}

fn describe(object: &Value) -> String {
    let (namespace, name) = (object.str_at(&["metadata", "namespace"]), object.str_at(&["metadata", "name"]));
    format!("{namespace}/{name}; {}", type_of(object))
}

/// Managers at the start of an apply. Fields of an object without managers get [`BEFORE_FIRST_APPLY`].
fn managers_of_apply(writer: &ApplyContext<'_>, live: Option<&Value>) -> Result<Managers, ManagersError> {
    let Some(live) = live else { return Ok(Managers::default()) };
    let mut managers = Managers::from_value(managed_fields(live))?;
    if managers.is_empty() {
        let zero = writer.zero_object();
        let changed = writer.compare(&zero, live);
        update_managers(writer, &zero, live, &changed, &mut managers, BEFORE_FIRST_APPLY);
    }
    Ok(managers)
}

/// Creates an object from a configuration; its manager owns all of its fields.
fn create_valid(writer: &ApplyContext<'_>, config: &Value) -> Applied {
    let mut managers = Managers::default();
    let id = writer.id(writer.manager, ManagedOperation::Apply);
    record_ownership(writer, &mut managers, id, owned(writer, config), Some(writer.time()));
    let object = merge(&writer.zero_object(), config, writer.of);
    Applied { managed: managers.to_value(), object, changed: Comparison::default() }
}

/// Fields that the manager owns after applying a configuration, including some that are filtered later.
fn owned(writer: &ApplyContext<'_>, config: &Value) -> FieldSet {
    let mut fields = paths(config, writer.of);
    if let Some(filter) = writer.filter() {
        filter.apply(&mut fields);
    }
    fields
}

/// Records the fields that the applying manager owns.
fn record_ownership(
    writer: &ApplyContext<'_>,
    managers: &mut Managers,
    id: ManagerId,
    mut fields: FieldSet,
    time: Option<CompactString>,
) {
    fields.subtract(unowned());
    if !fields.is_empty() {
        managers.put(Entry {
            manager: id.manager,
            operation: ManagedOperation::Apply,
            api_version: writer.api_version.into(),
            subresource: id.subresource,
            time,
            fields: fields.into(),
        });
    }
}

fn apply_valid(
    writer: &ApplyContext<'_>,
    old: &Value,
    config: &Value,
    mut managers: Managers,
    force: bool,
) -> Result<Applied, Conflicts> {
    writer.reconcile(&mut managers, None);
    let filter = writer.filter();
    let id = writer.id(writer.manager, ManagedOperation::Apply);
    let last = managers.take(&id);
    let fields = owned(writer, config);
    let mut object = merge(old, config, writer.of);
    if let Some(last) = &last {
        prune(writer, &mut object, &managers, &fields, last);
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_map_mut) {
        metadata.remove("managedFields");
    }
    let mut changed = compare(old, &object, writer.of);
    let is_noop = changed.is_same() && is_same_object(old, &object);
    if let Some(filter) = filter {
        filter.apply_to(&mut changed);
    }
    let mut versions = Comparisons::new(writer, old, &object, &changed);
    if !force {
        let conflicts = conflicts(&managers, &mut versions);
        if !conflicts.0.is_empty() {
            return Err(conflicts);
        }
    }
    versions.remove_from(&mut managers);
    let time = if is_noop { last.and_then(|last| last.time) } else { Some(writer.time()) };
    record_ownership(writer, &mut managers, id, fields, time);
    Ok(Applied { managed: managers.to_value(), object, changed })
}

/// Conflicts: changed fields that other managers own.
fn conflicts(managers: &Managers, versions: &mut Comparisons<'_>) -> Conflicts {
    let mut found = Vec::new();
    for entry in managers.entries() {
        let Some(changed) = versions.of(&entry.api_version) else { continue };
        let mut taken = entry.fields.intersection(&changed.modified);
        taken.union(entry.fields.intersection(&changed.added));
        let id = entry.id();
        found.extend(taken.paths().into_iter().map(|path| FieldConflict { manager: id.clone(), path }));
    }
    Conflicts::new(found)
}
