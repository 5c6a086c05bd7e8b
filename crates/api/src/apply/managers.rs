//! Field managers of an object: `metadata.managedFields`.
//!
//! An applying manager has one entry per subresource, an updating manager one per subresource and version.
//! Entries are stored with those of appliers first, then by time, name, version and subresource.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use compact_str::CompactString;
use thiserror::Error;

use super::field_set::{FieldSet, FieldsError};
use super::owned_fields::OwnedFields;
use crate::json;
use crate::quote::Quoted;
use crate::value::{Map, Value};

#[cfg(test)]
mod tests;

/// Maximum number of update entries of an object. Beyond that, the oldest are merged into one per version.
const UPDATE_MANAGERS_MAX: usize = 10;
/// Manager that takes over the oldest update entries.
const ANCIENT_CHANGES: &str = "ancient-changes";

const FIELDS_TYPE: &str = "FieldsV1";
/// Sort key of an entry without a time.
const NO_TIME: &str = "1970-01-01T00:00:00Z";

/// Operation by which a manager came to own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ManagedOperation {
    /// Server-side apply.
    Apply,
    /// Any other write.
    Update,
}

impl ManagedOperation {
    /// Name of the operation.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            ManagedOperation::Apply => "Apply",
            ManagedOperation::Update => "Update",
        }
    }
}

/// Identity of an entry. An applier is the same in every version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagerId {
    /// Name of the manager.
    pub manager: CompactString,
    /// Operation of the manager.
    pub operation: ManagedOperation,
    /// Version of the writes; empty for an applier.
    pub api_version: CompactString,
    /// Subresource of the writes; empty for the object itself.
    pub subresource: CompactString,
}

/// One entry of `managedFields`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name of the manager.
    pub manager: CompactString,
    /// Operation of the manager.
    pub operation: ManagedOperation,
    /// Version of the field set.
    pub api_version: CompactString,
    /// Subresource of the writes; mostly empty.
    pub subresource: CompactString,
    /// Last change, as RFC 3339 in UTC with seconds; some entries have no time.
    pub time: Option<CompactString>,
    /// Fields that the manager owns.
    pub fields: OwnedFields,
}

/// Managers of one object, with unique identities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers {
    entries: Vec<Entry>,
}

/// Invalid `managedFields`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ManagersError {
    /// The value is not a list of objects.
    #[error("managedFields must be a list of entries")]
    Shape,
    /// An entry has an unknown operation.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// An entry has no version.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// An entry has no `fieldsType`.
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    /// An entry has an unknown `fieldsType`.
    #[error("invalid fieldsType {text} in managed fields entry {index}", text = Quoted(.fields_type))]
    FieldsType {
        /// Index of the entry.
        index: usize,
        /// Value of `fieldsType`.
        fields_type: Box<str>,
    },
    /// The field set of an entry is invalid.
    #[error("error decoding set: {0}")]
    Fields(#[from] FieldsError),
}

impl Entry {
    /// Identity of the entry.
    #[must_use]
    pub fn id(&self) -> ManagerId {
        ManagerId {
            manager: self.manager.clone(),
            operation: self.operation,
            api_version: match self.operation {
                ManagedOperation::Apply => CompactString::default(),
                ManagedOperation::Update => self.api_version.clone(),
            },
            subresource: self.subresource.clone(),
        }
    }

    fn has_id(&self, id: &ManagerId) -> bool {
        self.operation == id.operation
            && self.manager == id.manager
            && self.subresource == id.subresource
            && (self.operation == ManagedOperation::Apply || self.api_version == id.api_version)
    }

    fn from_value(value: &Value, index: usize) -> Result<Entry, ManagersError> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => ManagedOperation::Apply,
            "Update" => ManagedOperation::Update,
            _ => return Err(ManagersError::Operation),
        };
        if text("apiVersion").is_empty() {
            return Err(ManagersError::ApiVersion);
        }
        match text("fieldsType") {
            FIELDS_TYPE => {}
            "" => return Err(ManagersError::NoFieldsType(index)),
            other => return Err(ManagersError::FieldsType { index, fields_type: other.into() }),
        }
        let fields = match value.get("fieldsV1") {
            None | Some(Value::Null) => OwnedFields::default(),
            Some(fields) => OwnedFields::from_value(fields)?,
        };
        Ok(Entry {
            manager: text("manager").into(),
            operation,
            api_version: text("apiVersion").into(),
            subresource: text("subresource").into(),
            time: Some(text("time")).filter(|time| !time.is_empty()).map(CompactString::from),
            fields,
        })
    }

    fn to_value(&self) -> Value {
        self.to_value_with(self.fields.to_json())
    }

    /// Encodes the entry with another stored field set.
    pub(super) fn to_value_with(&self, fields: CompactString) -> Value {
        let mut entries = Vec::with_capacity(7);
        let mut put =
            |name: &'static str, value: Value| entries.push((CompactString::const_new(name), value));
        if !self.manager.is_empty() {
            put("manager", Value::Str(self.manager.clone()));
        }
        put("operation", Value::from(self.operation.as_str()));
        put("apiVersion", Value::Str(self.api_version.clone()));
        if let Some(time) = &self.time {
            put("time", Value::Str(time.clone()));
        }
        put("fieldsType", Value::from(FIELDS_TYPE));
        put("fieldsV1", Value::Raw(fields));
        if !self.subresource.is_empty() {
            put("subresource", Value::Str(self.subresource.clone()));
        }
        Value::Map(Map::from_unique(entries))
    }

    fn seconds(&self) -> &str {
        self.time.as_deref().unwrap_or(NO_TIME)
    }
}

impl ManagerId {
    /// Sort key of an identity: the entry as JSON, without its fields.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut map = Map::with_capacity(4);
        map.insert("manager", self.manager.clone());
        map.insert("operation", self.operation.as_str());
        map.insert("apiVersion", self.api_version.clone());
        map.insert("subresource", self.subresource.clone());
        map.retain(|_, value| !value.is_empty());
        json::to_text(&Value::Map(map))
    }
}

impl Managers {
    /// Reads `metadata.managedFields`; null is an empty list. Of entries with equal identity the last one
    /// wins.
    ///
    /// # Errors
    /// If an entry is invalid.
    pub fn from_value(value: &Value) -> Result<Managers, ManagersError> {
        let list = match value {
            Value::Null => &[],
            Value::List(list) => list.as_slice(),
            _ => return Err(ManagersError::Shape),
        };
        let mut entries: Vec<Entry> = Vec::with_capacity(list.len() + 1);
        // A request may have 30,000 entries; a few need no index.
        let mut places: BTreeMap<ManagerId, usize> = BTreeMap::new();
        let is_long = list.len() > 2 * UPDATE_MANAGERS_MAX;
        for (index, value) in list.iter().enumerate() {
            let entry = Entry::from_value(value, index)?;
            let known = if is_long {
                let at = *places.entry(entry.id()).or_insert(entries.len());
                Some(at).filter(|at| *at < entries.len())
            } else {
                let id = entry.id();
                entries.iter().position(|own| own.has_id(&id))
            };
            match known {
                Some(at) => entries[at] = entry,
                None => entries.push(entry),
            }
        }
        Ok(Managers { entries })
    }

    /// Encodes `metadata.managedFields`, sorted; null if there are no entries.
    #[must_use]
    pub fn to_value(&self) -> Value {
        if self.entries.is_empty() {
            return Value::Null;
        }
        let mut order: Vec<&Entry> = self.entries.iter().collect();
        order.sort_by(|a, b| compare_stored_order(a, b));
        Value::List(order.into_iter().map(Entry::to_value).collect())
    }

    /// `true` if there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries, in no particular order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Entry with this identity.
    #[must_use]
    pub fn get(&self, id: &ManagerId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.has_id(id))
    }

    /// Replaces the entry with the same identity, or adds it.
    pub fn put(&mut self, entry: Entry) {
        let id = entry.id();
        match self.entries.iter_mut().find(|own| own.has_id(&id)) {
            Some(own) => *own = entry,
            None => self.entries.push(entry),
        }
    }

    /// Removes and returns the entry with this identity.
    pub fn take(&mut self, id: &ManagerId) -> Option<Entry> {
        let at = self.entries.iter().position(|entry| entry.has_id(id))?;
        Some(self.entries.swap_remove(at))
    }

    /// Keeps the entries for which `keep` returns `true`. It must not change identities.
    pub(super) fn retain(&mut self, keep: impl FnMut(&mut Entry) -> bool) {
        self.entries.retain_mut(keep);
    }

    /// Merges the oldest update entries into one per version until at most [`UPDATE_MANAGERS_MAX`] are left.
    pub(super) fn merge_oldest(&mut self) {
        if self.entries.len() <= UPDATE_MANAGERS_MAX {
            return;
        }
        let mut updates: Vec<(CompactString, String, ManagerId)> = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.operation == ManagedOperation::Update) {
            let id = entry.id();
            updates.push((entry.seconds().into(), id.to_text(), id));
        }
        if updates.len() <= UPDATE_MANAGERS_MAX {
            return;
        }
        updates.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        let mut len = updates.len();
        let mut groups: BTreeMap<CompactString, Group> = BTreeMap::new();
        for (_, _, id) in updates {
            if len <= UPDATE_MANAGERS_MAX {
                break;
            }
            match groups.get_mut(&id.api_version) {
                Some(group) => {
                    group.moved.push(id);
                    len -= 1;
                }
                None => drop(groups.insert(id.api_version.clone(), Group { first: id, moved: Vec::new() })),
            }
        }
        self.merge(groups);
    }

    /// Merges the entries of each group into the bucket of its version. The first of a group becomes the
    /// bucket if there is none yet.
    fn merge(&mut self, groups: BTreeMap<CompactString, Group>) {
        let mut by_id: BTreeMap<ManagerId, Entry> =
            std::mem::take(&mut self.entries).into_iter().map(|entry| (entry.id(), entry)).collect();
        for (api_version, Group { first, moved }) in groups {
            let Some(last) = moved.last().and_then(|id| by_id.get(id)) else { continue };
            // Entries are merged in order of time, so the last one is the most recent.
            let time = last.time.clone();
            let bucket = ManagerId {
                manager: ANCIENT_CHANGES.into(),
                operation: ManagedOperation::Update,
                api_version: api_version.clone(),
                subresource: CompactString::default(),
            };
            let mut ids = moved;
            if !by_id.contains_key(&bucket) || ids.contains(&bucket) {
                ids.push(first);
            }
            ids.push(bucket.clone());
            let sets = ids.iter().filter_map(|id| Some(by_id.remove(id)?.fields.into_set())).collect();
            by_id.insert(
                bucket.clone(),
                Entry {
                    manager: bucket.manager,
                    operation: ManagedOperation::Update,
                    api_version,
                    subresource: bucket.subresource,
                    time,
                    fields: union_of(sets).into(),
                },
            );
        }
        self.entries = by_id.into_values().collect();
    }
}

/// Excess entries of one version: the oldest, and those that are merged with it.
struct Group {
    first: ManagerId,
    moved: Vec<ManagerId>,
}

/// Union of many sets by pairwise merging: each path is copied once per doubling.
fn union_of(mut sets: Vec<FieldSet>) -> FieldSet {
    while sets.len() > 1 {
        let mut halves = std::mem::take(&mut sets).into_iter();
        while let Some(mut one) = halves.next() {
            if let Some(other) = halves.next() {
                one.union(other);
            }
            sets.push(one);
        }
    }
    sets.pop().unwrap_or_default()
}

fn compare_stored_order(a: &Entry, b: &Entry) -> Ordering {
    (a.operation.cmp(&b.operation))
        .then_with(|| a.seconds().cmp(b.seconds()))
        .then_with(|| a.manager.cmp(&b.manager))
        .then_with(|| a.api_version.cmp(&b.api_version))
        .then_with(|| a.subresource.cmp(&b.subresource))
}

/// `true` if a client's list resets field ownership: it is empty, or has one empty entry.
#[must_use]
pub fn is_reset(managed_fields: &Value) -> bool {
    match managed_fields {
        Value::List(list) => match list.as_slice() {
            [] => true,
            [Value::Map(entry)] => {
                entry.iter().all(|(_, value)| value.is_null() || *value == Value::from(""))
            }
            _ => false,
        },
        _ => false,
    }
}
