//! Context of a write: kind, version, endpoint, field manager and time.

use std::borrow::Cow;
use std::collections::BTreeMap;

use compact_str::{CompactString, ToCompactString};

use super::compare::{Comparison, compare};
use super::filter::Filter;
use super::managers::{Entry, ManagedOperation, ManagerId, Managers};
use super::paths::reconcile;
use super::types::MergeType;
use crate::decode::decode;
use crate::rfc3339::Seconds;
use crate::time::Time;
use crate::value::Value;

/// Name of a manager that gave none.
const UNKNOWN: &str = "unknown";
/// Maximum bytes of a manager name taken from the user agent.
const FIELD_MANAGER_BYTES_MAX: usize = 128;

/// Versions of a kind, and the fields that a write through an endpoint can own.
pub trait Versions {
    /// Definition of the kind in a version, as in `apps/v1`. Entries in other versions are dropped.
    fn schema(&self, api_version: &str) -> Option<MergeType<'_>>;

    /// Converts an object of the kind to another version; `None` if that is not possible.
    fn convert(&self, object: &Value, api_version: &str) -> Option<Value>;

    /// Fields that a write through the endpoint can own in a version; `None` for all.
    fn filter(&self, api_version: &str) -> Option<&Filter>;
}

/// A kind that is served in one version.
#[derive(Clone, Copy, Debug)]
pub struct OneVersion<'a> {
    /// Version, as in `apps/v1`.
    pub api_version: &'a str,
    /// Definition of the kind.
    pub of: MergeType<'a>,
    /// Fields that a write can own.
    pub filter: Option<&'a Filter>,
}

impl Versions for OneVersion<'_> {
    fn schema(&self, api_version: &str) -> Option<MergeType<'_>> {
        (api_version == self.api_version).then_some(self.of)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        (api_version == self.api_version).then(|| object.clone())
    }

    fn filter(&self, api_version: &str) -> Option<&Filter> {
        self.filter.filter(|_| api_version == self.api_version)
    }
}

/// Context of a write.
#[derive(Clone, Copy)]
pub struct ApplyContext<'a> {
    /// Versions of the kind.
    pub versions: &'a dyn Versions,
    /// Version of the request, as in `apps/v1`.
    pub api_version: &'a str,
    /// Definition of the kind in that version.
    pub of: MergeType<'a>,
    /// Subresource of the request; mostly empty.
    pub subresource: &'a str,
    /// Field manager, see [`manager_name`].
    pub manager: &'a str,
    /// Time of the request.
    pub now: Time,
}

/// Name of the field manager of a request: the `fieldManager` parameter, else the first part of the user
/// agent.
#[must_use]
pub fn manager_name<'a>(field_manager: &'a str, user_agent: &str) -> Cow<'a, str> {
    if !field_manager.is_empty() {
        return field_manager.into();
    }
    let mut name = String::new();
    let is_shown = |c: &char| *c == ' ' || !(c.is_control() || c.is_whitespace());
    for c in user_agent.split('/').next().unwrap_or_default().chars().filter(is_shown) {
        if name.len() + c.len_utf8() > FIELD_MANAGER_BYTES_MAX {
            break;
        }
        name.push(c);
    }
    name.into()
}

impl ApplyContext<'_> {
    /// Identity of a manager's entry for this write.
    pub(super) fn id(&self, manager: &str, operation: ManagedOperation) -> ManagerId {
        ManagerId {
            manager: if manager.is_empty() { UNKNOWN } else { manager }.into(),
            operation,
            api_version: match operation {
                ManagedOperation::Apply => CompactString::default(),
                ManagedOperation::Update => self.api_version.into(),
            },
            subresource: self.subresource.into(),
        }
    }

    /// Converts the sets that the write may touch to the current schema, and drops those in versions that no
    /// longer exist.
    pub(super) fn reconcile(&self, managers: &mut Managers, touched: Option<&[&str]>) {
        managers.retain(|entry| {
            let of = self.versions.schema(&entry.api_version);
            if let Some(of) = of.filter(|_| self.is_touched(entry, touched)) {
                entry.fields.change(|set| reconcile(set, of));
            }
            of.is_some()
        });
    }

    /// `true` if a write to these fields may touch an entry; `None` stands for all fields.
    fn is_touched(&self, entry: &Entry, fields: Option<&[&str]>) -> bool {
        entry.api_version != self.api_version || fields.is_none_or(|fields| entry.fields.may_have_any(fields))
    }

    /// Zero object of the kind.
    pub(super) fn zero_object(&self) -> Value {
        match self.of {
            MergeType::BuiltIn(of) => {
                decode(Value::Null, of, &[]).map(|decoded| decoded.value).unwrap_or_default()
            }
            // Objects of custom kinds have no fields that are always encoded.
            MergeType::Custom { .. } => Value::map(),
        }
    }

    /// Fields that a write through this endpoint can own.
    pub(super) fn filter(&self) -> Option<&Filter> {
        self.versions.filter(self.api_version)
    }

    /// Compares two objects in the fields that a write through this endpoint can change.
    pub(super) fn compare(&self, old: &Value, new: &Value) -> Comparison {
        let mut changed = compare(old, new, self.of);
        if let Some(filter) = self.filter() {
            filter.apply_to(&mut changed);
        }
        changed
    }

    /// Time of the write in the form of an entry.
    pub(super) fn time(&self) -> CompactString {
        Seconds(self.now).to_compact_string()
    }
}

pub(super) fn managed_fields(object: &Value) -> &Value {
    object.at(&["metadata", "managedFields"]).unwrap_or(&Value::Null)
}

/// Comparison of two objects in the version of each entry, computed on demand.
pub(super) struct Comparisons<'a> {
    writer: &'a ApplyContext<'a>,
    old: &'a Value,
    new: &'a Value,
    changed: &'a Comparison,
    others: BTreeMap<CompactString, Option<Comparison>>,
}

impl<'a> Comparisons<'a> {
    pub(super) fn new(
        writer: &'a ApplyContext<'a>,
        old: &'a Value,
        new: &'a Value,
        changed: &'a Comparison,
    ) -> Self {
        Comparisons { writer, old, new, changed, others: BTreeMap::new() }
    }

    /// Comparison in a version; `None` if the version does not exist.
    pub(super) fn of(&mut self, api_version: &str) -> Option<&Comparison> {
        if api_version == self.writer.api_version {
            return Some(self.changed);
        }
        if !self.others.contains_key(api_version) {
            let converted = self.converted(api_version);
            self.others.insert(api_version.into(), converted);
        }
        self.others.get(api_version)?.as_ref()
    }

    /// Removes the changed fields from all managers.
    pub(super) fn remove_from(&mut self, managers: &mut Managers) {
        let touched = self.changed.roots();
        managers.retain(|entry| {
            if !self.writer.is_touched(entry, Some(&touched)) {
                return true;
            }
            let Some(changed) = self.of(&entry.api_version) else { return false };
            entry.fields.change(|set| {
                set.subtract(&changed.modified)
                    | set.subtract(&changed.added)
                    | set.subtract(&changed.removed)
            });
            !entry.fields.is_empty()
        });
    }

    fn converted(&self, api_version: &str) -> Option<Comparison> {
        let versions = self.writer.versions;
        let of = versions.schema(api_version)?;
        let (old, new) = (versions.convert(self.old, api_version)?, versions.convert(self.new, api_version)?);
        let mut changed = compare(&old, &new, of);
        if let Some(filter) = versions.filter(api_version) {
            filter.apply_to(&mut changed);
        }
        Some(changed)
    }
}
