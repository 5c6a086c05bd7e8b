//! Owners of an object that was written in any other way than by apply: what changed becomes the writer's.
//!
//! Objects are decoded ones of the version in which the request is made. This runs before admission, so that a manager
//! owns what it sent and not what the server made of it.

use super::compare::Comparison;
use super::created::created;
use super::element::same;
use super::field_set::FieldSet;
use super::managers::{Entry, ManagerId, Managers, Operation, is_reset};
use super::paths::unowned;
use super::writer::{Comparisons, Writer, managed_fields};
use crate::value::{Map, Value};

#[cfg(test)]
mod tests;

/// What an update does to owners.
#[derive(Clone, Debug, PartialEq)]
pub struct Updated {
    /// The new `metadata.managedFields`; null if there are none.
    pub managed: Value,
    /// What the update changed, so far as it can change it; nothing for a create, which makes everything.
    pub changed: Option<Comparison>,
}

/// The owners after an object was created or replaced, by whatever verb but apply.
///
/// `live` is nothing for a create. `new` is the object that the client sent or made by its patch, still with the
/// `metadata.managedFields` that it had then; an empty list makes all owners forgotten, see [`is_reset`].
#[must_use]
pub fn update(writer: &Writer<'_>, live: Option<&Value>, new: &Value) -> Updated {
    let managers = managers_of_update(writer, live, new);
    let Some(old) = live else {
        return Updated { managed: create_managers(writer, new, managers), changed: None };
    };
    let changed = writer.compare(old, new);
    // An object that is there and has no owners was made to forget them; only an apply starts anew.
    let untracked = managers.is_empty() && !old.str_at(&["metadata", "uid"]).is_empty();
    let managed = if untracked {
        Value::Null
    } else {
        let mut managers = managers;
        update_managers(writer, old, new, &changed, &mut managers, writer.manager);
        managers.to_value()
    };
    Updated { managed, changed: Some(changed) }
}

/// The owners of a new object: all that is said of it is its maker's, whoever else it was sent with.
fn create_managers(writer: &Writer<'_>, new: &Value, mut managers: Managers) -> Value {
    if managers.is_empty()
        && let Some(excluded) = writer.filter().map_or(Some(None), |filter| filter.excluded().map(Some))
    {
        let Some(fields) = created(new, writer.of, excluded) else { return Value::Null };
        let id = writer.id(writer.manager, Operation::Update);
        return Value::List(vec![entry(writer, id, FieldSet::new()).to_value_with(fields)]);
    }
    let zero = writer.zero_object();
    let changed = writer.compare(&zero, new);
    update_managers(writer, &zero, new, &changed, &mut managers, writer.manager);
    managers.to_value()
}

/// The owners that an update begins with: those it sent, or else those of the object.
fn managers_of_update(writer: &Writer<'_>, live: Option<&Value>, new: &Value) -> Managers {
    if writer.subresource.is_empty() {
        let sent = managed_fields(new);
        if is_reset(sent) {
            return Managers::default();
        }
        if let Ok(managers) = Managers::from_value(sent)
            && !managers.is_empty()
        {
            return managers;
        }
    }
    live.and_then(|live| Managers::from_value(managed_fields(live)).ok()).unwrap_or_default()
}

/// Gives what changed to a manager that updates, and takes it from all others.
pub(super) fn update_managers(
    writer: &Writer<'_>,
    old: &Value,
    new: &Value,
    changed: &Comparison,
    managers: &mut Managers,
    manager: &str,
) {
    writer.reconcile(managers, Some(&changed.roots()));
    Comparisons::new(writer, old, new, changed).take_from(managers);
    let mut fields = changed.modified.clone();
    fields.union(changed.added.clone());
    fields.subtract(unowned());
    if !fields.is_empty() {
        let id = writer.id(manager, Operation::Update);
        if let Some(previous) = managers.take(&id) {
            fields.union(previous.fields.into_set());
        }
        managers.put(entry(writer, id, fields));
    }
    managers.cap();
}

/// The entry of a manager that updates now.
fn entry(writer: &Writer<'_>, id: ManagerId, fields: FieldSet) -> Entry {
    Entry {
        manager: id.manager,
        operation: id.operation,
        api_version: id.api_version,
        subresource: id.subresource,
        time: Some(writer.time()),
        fields: fields.into(),
    }
}

/// Whether two objects are the same but for their owners. Unlike a comparison, this minds the order of lists.
pub(super) fn is_same_object(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_map(), new.as_map()) else { return old == new };
    old.len() == new.len()
        && old.iter().all(|(key, old)| match (key, old, new.get(key)) {
            ("metadata", Value::Map(old), Some(Value::Map(new))) => {
                is_same_without(old, new, "managedFields")
            }
            (_, old, Some(new)) => same(old, new),
            _ => false,
        })
}

/// Whether two objects have the same fields but for one.
fn is_same_without(a: &Map, b: &Map, left_out: &str) -> bool {
    let len = |map: &Map| map.len() - usize::from(map.contains(left_out));
    len(a) == len(b)
        && a.iter().all(|(key, value)| key == left_out || b.get(key).is_some_and(|other| same(value, other)))
}

/// Sets the times of owners back to what they were, where the times are all that a write would change.
///
/// This is for the object as it would be stored, after admission and validation.
pub fn keep_times(live: &Value, new: &mut Value) {
    let (Value::List(before), Value::List(after)) = (managed_fields(live), managed_fields(new)) else {
        return;
    };
    let is_same_entry = |(a, b): (&Value, &Value)| match (a.as_map(), b.as_map()) {
        (Some(a), Some(b)) => is_same_without(a, b, "time"),
        _ => false,
    };
    if before.len() == after.len()
        && before != after
        && before.iter().zip(after).all(is_same_entry)
        && is_same_object(live, new)
        && let Some(after) = new.at_mut(&["metadata", "managedFields"])
    {
        *after = Value::List(before.clone());
    }
}
