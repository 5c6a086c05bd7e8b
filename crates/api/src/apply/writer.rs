//! What a write is, apart from the objects: its kind, version, endpoint, writer and time.

use std::borrow::Cow;
use std::collections::BTreeMap;

use compact_str::{CompactString, ToCompactString};

use super::compare::{Comparison, compare};
use super::filter::Filter;
use super::managers::{Entry, ManagerId, Managers, Operation};
use super::paths::reconcile;
use crate::decode::decode;
use crate::rfc3339::Seconds;
use crate::schema::Struct;
use crate::time::Time;
use crate::value::Value;

/// The name of a manager that gave none.
const UNKNOWN: &str = "unknown";
/// How long the name of a manager can be that is taken from the user agent.
const FIELD_MANAGER_BYTES_MAX: usize = 128;

/// The versions in which a kind is served, and what a write through one endpoint can own.
pub trait Versions {
    /// The definition of the kind in a version, as in `apps/v1`. Entries in other versions are dropped.
    fn schema(&self, api_version: &str) -> Option<Struct<'_>>;

    /// An object of the kind in another version; nothing if it cannot be converted.
    fn convert(&self, object: &Value, api_version: &str) -> Option<Value>;

    /// What a write through the endpoint can own of an object in a version; nothing stands for all.
    fn filter(&self, api_version: &str) -> Option<&Filter>;
}

/// A kind that is served in one version.
#[derive(Clone, Copy, Debug)]
pub struct OneVersion<'a> {
    /// The version, as in `apps/v1`.
    pub api_version: &'a str,
    /// The definition.
    pub of: Struct<'a>,
    /// What a write can own.
    pub filter: Option<&'a Filter>,
}

impl Versions for OneVersion<'_> {
    fn schema(&self, api_version: &str) -> Option<Struct<'_>> {
        (api_version == self.api_version).then_some(self.of)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        (api_version == self.api_version).then(|| object.clone())
    }

    fn filter(&self, api_version: &str) -> Option<&Filter> {
        self.filter.filter(|_| api_version == self.api_version)
    }
}

/// Who writes what, and when.
#[derive(Clone, Copy)]
pub struct Writer<'a> {
    /// The versions of the kind.
    pub versions: &'a dyn Versions,
    /// The version of the request, as in `apps/v1`.
    pub api_version: &'a str,
    /// The definition of the kind in that version.
    pub of: Struct<'a>,
    /// The subresource of the request; mostly empty.
    pub subresource: &'a str,
    /// The name of the manager, see [`manager_name`].
    pub manager: &'a str,
    /// The time.
    pub now: Time,
}

/// The name of the manager of a request: what it says, or else the first part of the user agent.
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

impl Writer<'_> {
    /// What tells the entry of a manager from others, when it writes here.
    pub(super) fn id(&self, manager: &str, operation: Operation) -> ManagerId {
        ManagerId {
            manager: if manager.is_empty() { UNKNOWN } else { manager }.into(),
            operation,
            api_version: match operation {
                Operation::Apply => CompactString::default(),
                Operation::Update => self.api_version.into(),
            },
            subresource: self.subresource.into(),
        }
    }

    /// Brings all sets in line with the schema that the write may touch, and drops those in versions that are gone.
    pub(super) fn reconcile(&self, managers: &mut Managers, touched: Option<&[&str]>) {
        managers.retain(|entry| {
            let of = self.versions.schema(&entry.api_version);
            if let Some(of) = of.filter(|_| self.is_touched(entry, touched)) {
                entry.fields.change(|set| reconcile(set, of));
            }
            of.is_some()
        });
    }

    /// Whether a write of these fields of an object may touch what an entry has; of any, if nobody says which.
    fn is_touched(&self, entry: &Entry, fields: Option<&[&str]>) -> bool {
        entry.api_version != self.api_version || fields.is_none_or(|fields| entry.fields.may_have_any(fields))
    }

    /// What an object is before anything is said about it.
    pub(super) fn zero_object(&self) -> Value {
        decode(Value::Null, self.of, &[]).map(|decoded| decoded.value).unwrap_or_default()
    }

    /// What a write through this endpoint can own.
    pub(super) fn filter(&self) -> Option<&Filter> {
        self.versions.filter(self.api_version)
    }

    /// What differs between two objects, so far as a write through this endpoint can change it.
    pub(super) fn compare(&self, old: &Value, new: &Value) -> Comparison {
        let mut changed = compare(old, new, self.of);
        if let Some(filter) = self.filter() {
            filter.apply_to(&mut changed);
        }
        changed
    }

    /// The time as entries have it.
    pub(super) fn time(&self) -> CompactString {
        Seconds(self.now).to_compact_string()
    }
}

pub(super) fn managed_fields(object: &Value) -> &Value {
    object.at(&["metadata", "managedFields"]).unwrap_or(&Value::Null)
}

/// The same two objects, compared in the version of each entry.
pub(super) struct Comparisons<'a> {
    writer: &'a Writer<'a>,
    old: &'a Value,
    new: &'a Value,
    changed: &'a Comparison,
    others: BTreeMap<CompactString, Option<Comparison>>,
}

impl<'a> Comparisons<'a> {
    pub(super) fn new(
        writer: &'a Writer<'a>,
        old: &'a Value,
        new: &'a Value,
        changed: &'a Comparison,
    ) -> Self {
        Comparisons { writer, old, new, changed, others: BTreeMap::new() }
    }

    /// What changed, in a version; nothing if there is no such version.
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

    /// Takes what changed from all managers.
    pub(super) fn take_from(&mut self, managers: &mut Managers) {
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
