//! Strict ownership: in a namespace that opts in, no write changes a field that another manager applied.
//!
//! Server-side apply rejects such a change by itself. With the annotation [`ANNOTATION`] on the namespace, so does every
//! other write: an update, a patch, a scale, and the writes of controllers. So two managers cannot fight over a field.
//! A forced apply takes the field over, and so does a write with `takeOver=true`.
//!
//! A write takes fields from a manager in three ways, and each is a conflict: it changes them, it removes them from the
//! entry of the manager in `managedFields`, or admission changes them for it. A manager may do all of this to its own
//! fields. Entries of updates are not protected, and entries may be added: kubectl replaces its update entries by apply
//! entries when it migrates.
//!
//! Deletes are never conflicts. So that they complete, finalizers of a deleted object are free, and the garbage collector
//! may change finalizers and owner references of any object.

use std::fmt;

use setpoint_api::apply::managers::is_reset;
use setpoint_api::apply::{Conflicts, FieldConflict, FieldPath, FieldSet, ManagedOperation, Managers};
use setpoint_api::resource_types::{self, ResourceType};
use setpoint_api::status::Status;
use setpoint_api::{Value, metadata};

use super::update::Subresource;
use super::{RequestContext, WriteOrigin, ownership};
use crate::codec;

/// Annotation of a namespace that turns strict ownership on, with the value `Strict`.
pub const ANNOTATION: &str = "setpoint.dev/field-ownership";
/// Namespace of the system, whose controllers must always be able to write.
const EXEMPT_NAMESPACE: &str = "kube-system";
/// User of the garbage collector.
const GARBAGE_COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";

/// Check of one update in a namespace with strict ownership.
pub(crate) struct StrictOwnership<'a> {
    resource_type: &'a ResourceType,
    old: &'a Value,
    writer: &'a WriteOrigin,
    context: &'a RequestContext<'a>,
    /// `managedFields` of the request, if they differ from those of the object.
    sent: Option<Value>,
}

/// Cause of a conflict, for the message.
#[derive(Clone, Copy)]
enum Cause {
    Write,
    Admission,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Write => Ok(()),
            Cause::Admission => write!(f, "A webhook, policy or plugin of admission changes these fields. "),
        }
    }
}

impl<'a> StrictOwnership<'a> {
    /// Returns the check of an update; `None` if ownership is not strict, or the write takes over.
    pub fn of(
        resource_type: &'a ResourceType,
        old: &'a Value,
        writer: &'a WriteOrigin,
        context: &'a RequestContext<'a>,
    ) -> Option<StrictOwnership<'a>> {
        let applies = !writer.takes_over && is_strict(resource_type, metadata::namespace(old), context);
        applies.then_some(StrictOwnership { resource_type, old, writer, context, sent: None })
    }

    /// Adds the `managedFields` that a write of the object sends. Those of a subresource have no effect.
    #[must_use]
    pub fn with_request(mut self, subresource: Subresource, desired: &Value) -> StrictOwnership<'a> {
        let sent = desired.at(&["metadata", "managedFields"]);
        let is_effective = subresource == Subresource::None && sent != managed_fields(self.old);
        self.sent = sent.filter(|_| is_effective).cloned();
        self
    }

    /// 409 if an update changes fields that other managers applied, or their entries. `new` has the resulting owners.
    ///
    /// # Errors
    /// If it does; the response names the managers and the fields.
    pub fn check_update(&self, changed: &FieldSet, new: &Value) -> Result<(), Status> {
        let after = Managers::from_value(managed_fields(new).unwrap_or(&Value::Null)).unwrap_or_default();
        let sent = self.sent_managers();
        self.check(self.old, Cause::Write, |entry| {
            let owned = entry.fields.clone().into_set();
            let without = |managers: &Managers| {
                let mut lost = owned.clone();
                if let Some(kept) = managers.get(&entry.id())
                    && kept.api_version == entry.api_version
                {
                    lost.subtract(&kept.fields);
                }
                lost
            };
            let mut lost = if self.resource_type.has_api_version(&entry.api_version) {
                owned.intersection(changed)
            } else if self.serves(&entry.api_version) {
                // The fields have other paths in the version of the request.
                without(&after)
            } else {
                FieldSet::new()
            };
            if let Some(sent) = &sent {
                lost.union(without(sent));
            }
            lost
        })
    }

    /// As [`StrictOwnership::check_update`], for a write whose changed fields are known.
    ///
    /// # Errors
    /// As there.
    pub fn check_fields(&self, changed: &FieldSet) -> Result<(), Status> {
        self.check(self.old, Cause::Write, |entry| entry.fields.clone().into_set().intersection(changed))
    }

    /// 409 if admission changed fields that other managers applied. `before` is the object that was admitted, with the
    /// owners after the write.
    ///
    /// # Errors
    /// If it did; the response names the managers and the fields.
    pub fn check_admission(
        &self,
        subresource: Subresource,
        before: &Value,
        after: &Value,
    ) -> Result<(), Status> {
        if before == after {
            return Ok(());
        }
        let mut admitted = after.clone();
        let (writer, context) = (self.writer, self.context);
        let changed = ownership::record_owners(
            self.resource_type,
            subresource,
            writer,
            context,
            Some(before),
            &mut admitted,
        );
        self.check(before, Cause::Admission, |entry| entry.fields.clone().into_set().intersection(&changed))
    }

    /// Returns the managers that the request sends; `None` if it leaves them as they are.
    fn sent_managers(&self) -> Option<Managers> {
        let sent = self.sent.as_ref()?;
        if is_reset(sent) {
            return Some(Managers::default());
        }
        Managers::from_value(sent).ok().filter(|managers| !managers.entries().is_empty())
    }

    fn serves(&self, api_version: &str) -> bool {
        let mut forms = self.context.catalog.forms(&self.resource_type.resource);
        forms.any(|form| form.has_api_version(api_version))
    }

    /// 409 if other managers in `owners` lose fields that they applied.
    fn check(
        &self,
        owners: &Value,
        cause: Cause,
        lost: impl Fn(&setpoint_api::apply::Entry) -> FieldSet,
    ) -> Result<(), Status> {
        let managed = managed_fields(owners).unwrap_or(&Value::Null);
        let Ok(managers) = Managers::from_value(managed) else { return Ok(()) };
        let others = managers.entries().iter().filter(|entry| {
            entry.operation == ManagedOperation::Apply && *entry.manager != *self.writer.manager
        });
        let mut found = Vec::new();
        for entry in others {
            let paths = lost(entry).paths().into_iter().filter(|path| !self.is_free(path));
            found.extend(paths.map(|path| FieldConflict { manager: entry.id(), path }));
        }
        if found.is_empty() {
            return Ok(());
        }
        let conflicts = Conflicts::new(found);
        let message = format!(
            "{conflicts}\n{cause}The namespace has the annotation {ANNOTATION}=Strict: take the fields over with a forced \
             apply or takeOver=true, or leave them to their manager"
        );
        Err(Status::apply_conflict(conflicts.causes(), message.replacen("Apply failed", "Write failed", 1)))
    }

    /// `true` for fields that a delete must be able to change.
    fn is_free(&self, path: &FieldPath) -> bool {
        let is_collector = self.writer.identity.user == GARBAGE_COLLECTOR;
        if !is_collector && metadata::text(self.old, "deletionTimestamp").is_empty() {
            return false;
        }
        let path = path.to_string();
        path.starts_with(".metadata.finalizers")
            || (is_collector && path.starts_with(".metadata.ownerReferences"))
    }
}

fn managed_fields(object: &Value) -> Option<&Value> {
    object.at(&["metadata", "managedFields"])
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
