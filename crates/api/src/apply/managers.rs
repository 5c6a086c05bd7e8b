//! Who owns which fields of an object: `metadata.managedFields`, in and out.
//!
//! A manager that applies has one entry per subresource; one that updates has an entry per version, too. Entries are
//! stored with those of appliers first, then by time, name, version and subresource.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use compact_str::CompactString;
use thiserror::Error;

use super::field_set::{FieldSet, FieldsError};
use super::fields::Fields;
use crate::json;
use crate::quote::Quoted;
use crate::value::{Map, Value};

#[cfg(test)]
mod tests;

/// How many entries of updates an object keeps. Beyond that, the oldest are merged into one per version.
pub const UPDATE_MANAGERS_MAX: usize = 10;
/// The manager that takes over the entries of the oldest updates.
pub const ANCIENT_CHANGES: &str = "ancient-changes";

const FIELDS_TYPE: &str = "FieldsV1";
/// What an entry without a time is sorted by.
const NO_TIME: &str = "1970-01-01T00:00:00Z";

/// In which way a manager came to own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// It applied them.
    Apply,
    /// It wrote them in another way.
    Update,
}

impl Operation {
    /// The name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// What tells one entry from another. Appliers are the same in every version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ManagerId {
    /// The name of the manager.
    pub manager: CompactString,
    /// How it writes.
    pub operation: Operation,
    /// In which version it writes; empty for an applier.
    pub api_version: CompactString,
    /// Through which subresource.
    pub subresource: CompactString,
}

/// What one manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name of the manager.
    pub manager: CompactString,
    /// How it writes.
    pub operation: Operation,
    /// The version in which the set is to be read.
    pub api_version: CompactString,
    /// Through which subresource it writes; mostly empty.
    pub subresource: CompactString,
    /// When it last changed something, as RFC 3339 in UTC to the second; some entries have no time.
    pub time: Option<CompactString>,
    /// What it owns.
    pub fields: Fields,
}

/// Who owns what of one object. There are no two entries with one id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers {
    entries: Vec<Entry>,
}

/// Why a value is no list of managers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ManagersError {
    /// It is no list of objects.
    #[error("managedFields must be a list of entries")]
    Shape,
    /// An entry has another operation.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// An entry has no version.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// An entry does not say of which type its fields are.
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    /// An entry has fields of a type that is not known.
    #[error("invalid fieldsType {text} in managed fields entry {index}", text = Quoted(.fields_type))]
    FieldsType {
        /// Its place.
        index: usize,
        /// The type.
        fields_type: Box<str>,
    },
    /// The fields of an entry are no set of fields.
    #[error("error decoding set: {0}")]
    Fields(#[from] FieldsError),
}

impl Entry {
    /// What tells this entry from others.
    #[must_use]
    pub fn id(&self) -> ManagerId {
        ManagerId {
            manager: self.manager.clone(),
            operation: self.operation,
            api_version: match self.operation {
                Operation::Apply => CompactString::default(),
                Operation::Update => self.api_version.clone(),
            },
            subresource: self.subresource.clone(),
        }
    }

    fn is(&self, id: &ManagerId) -> bool {
        self.operation == id.operation
            && self.manager == id.manager
            && self.subresource == id.subresource
            && (self.operation == Operation::Apply || self.api_version == id.api_version)
    }

    fn read(value: &Value, index: usize) -> Result<Entry, ManagersError> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
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
            None | Some(Value::Null) => Fields::default(),
            Some(fields) => Fields::from_value(fields)?,
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

    fn write(&self) -> Value {
        self.to_value_with(self.fields.to_json())
    }

    /// The stored form of the entry, with the stored form of fields in place of its own.
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
    /// The text by which ids are sorted where it matters: the entry as JSON, without what it owns.
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
    /// Reads `metadata.managedFields`; null is an empty list. Of two entries with one id the later counts.
    ///
    /// # Errors
    /// If an entry cannot be understood.
    pub fn from_value(value: &Value) -> Result<Managers, ManagersError> {
        let list = match value {
            Value::Null => &[],
            Value::List(list) => list.as_slice(),
            _ => return Err(ManagersError::Shape),
        };
        let mut entries: Vec<Entry> = Vec::with_capacity(list.len() + 1);
        // A request may bring 30,000 entries; few need no index.
        let mut places: BTreeMap<ManagerId, usize> = BTreeMap::new();
        let is_long = list.len() > 2 * UPDATE_MANAGERS_MAX;
        for (index, value) in list.iter().enumerate() {
            let entry = Entry::read(value, index)?;
            let known = if is_long {
                let at = *places.entry(entry.id()).or_insert(entries.len());
                Some(at).filter(|at| *at < entries.len())
            } else {
                let id = entry.id();
                entries.iter().position(|own| own.is(&id))
            };
            match known {
                Some(at) => entries[at] = entry,
                None => entries.push(entry),
            }
        }
        Ok(Managers { entries })
    }

    /// `metadata.managedFields`, sorted; null if nobody owns anything.
    #[must_use]
    pub fn to_value(&self) -> Value {
        if self.entries.is_empty() {
            return Value::Null;
        }
        let mut order: Vec<&Entry> = self.entries.iter().collect();
        order.sort_by(|a, b| stored_order(a, b));
        Value::List(order.into_iter().map(Entry::write).collect())
    }

    /// Whether nobody owns anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries, in no particular order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What the manager with this id owns.
    #[must_use]
    pub fn get(&self, id: &ManagerId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.is(id))
    }

    /// Sets an entry in place of the one with the same id.
    pub fn put(&mut self, entry: Entry) {
        let id = entry.id();
        match self.entries.iter_mut().find(|own| own.is(&id)) {
            Some(own) => *own = entry,
            None => self.entries.push(entry),
        }
    }

    /// Takes out the entry with this id.
    pub fn take(&mut self, id: &ManagerId) -> Option<Entry> {
        let at = self.entries.iter().position(|entry| entry.is(id))?;
        Some(self.entries.swap_remove(at))
    }

    /// Keeps the entries for which `keep` says so. It must leave ids as they are.
    pub(super) fn retain(&mut self, keep: impl FnMut(&mut Entry) -> bool) {
        self.entries.retain_mut(keep);
    }

    /// Merges the oldest entries of updates into one for each version until few enough are left.
    pub(super) fn cap(&mut self) {
        if self.entries.len() <= UPDATE_MANAGERS_MAX {
            return;
        }
        let mut updates: Vec<(CompactString, String, ManagerId)> = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.operation == Operation::Update) {
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

    /// Merges the entries of each group into the bucket of its version. The first of a group becomes the bucket if
    /// there is none yet.
    fn merge(&mut self, groups: BTreeMap<CompactString, Group>) {
        let mut by_id: BTreeMap<ManagerId, Entry> =
            std::mem::take(&mut self.entries).into_iter().map(|entry| (entry.id(), entry)).collect();
        for (api_version, Group { first, moved }) in groups {
            let Some(last) = moved.last().and_then(|id| by_id.get(id)) else { continue };
            // What is merged later is more recent.
            let time = last.time.clone();
            let bucket = ManagerId {
                manager: ANCIENT_CHANGES.into(),
                operation: Operation::Update,
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
                    operation: Operation::Update,
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

/// Entries of one version that are too many: the oldest, and those that are merged with it.
struct Group {
    first: ManagerId,
    moved: Vec<ManagerId>,
}

/// The union of many sets, in pairs: each path is copied once for each doubling.
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

fn stored_order(a: &Entry, b: &Entry) -> Ordering {
    (a.operation.cmp(&b.operation))
        .then_with(|| a.seconds().cmp(b.seconds()))
        .then_with(|| a.manager.cmp(&b.manager))
        .then_with(|| a.api_version.cmp(&b.api_version))
        .then_with(|| a.subresource.cmp(&b.subresource))
}

/// Whether a list that a client sent asks to forget all owners: it is empty, or has one empty entry.
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
