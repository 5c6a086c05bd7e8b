//! Field ownership after any write except apply: the writer becomes the manager of the changed fields.
//!
//! Objects are decoded and in the version of the request. This runs before admission, so that a manager owns
//! the fields that it sent and not those that the server changed.

use super::compare::Comparison;
use super::created::created_fields;
use super::element::is_equal;
use super::field_set::FieldSet;
use super::managers::{Entry, ManagedOperation, ManagerId, Managers, is_reset};
use super::paths::unowned;
use super::writer::{ApplyContext, Comparisons, managed_fields};
use crate::value::{Map, Value};

#[cfg(test)]
mod tests;

/// Field ownership after an update.
#[derive(Clone, Debug, PartialEq)]
pub struct Updated {
    /// New `metadata.managedFields`; null if there are none.
    pub managed: Value,
    /// Paths that the update changed, of those that the endpoint can change; `None` for a create.
    pub changed: Option<Comparison>,
}

/// Computes the managers after a create, update or patch.
///
/// `live` is `None` for a create. `new` is the object of the request, or the patched object, with the
/// `metadata.managedFields` of the request; an empty list resets field ownership, see [`is_reset`].
#[must_use]
pub fn update(writer: &ApplyContext<'_>, live: Option<&Value>, new: &Value) -> Updated {
    let managers = managers_of_update(writer, live, new);
    let Some(old) = live else {
        return Updated { managed: create_managers(writer, new, managers), changed: None };
    };
    let changed = writer.compare(old, new);
    // An existing object without managers was reset; only an apply resumes tracking.
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

/// Managers of a new object: its creator owns every field, regardless of managers in the request.
fn create_managers(writer: &ApplyContext<'_>, new: &Value, mut managers: Managers) -> Value {
    if managers.is_empty()
        && let Some(excluded) = writer.filter().map_or(Some(None), |filter| filter.excluded().map(Some))
    {
        let Some(fields) = created_fields(new, writer.of, excluded) else { return Value::Null };
        let id = writer.id(writer.manager, ManagedOperation::Update);
        return Value::List(vec![entry(writer, id, FieldSet::new()).to_value_with(fields)]);
    }
    let zero = writer.zero_object();
    let changed = writer.compare(&zero, new);
    update_managers(writer, &zero, new, &changed, &mut managers, writer.manager);
    managers.to_value()
}

/// Managers at the start of an update: those of the request, else those of the object.
fn managers_of_update(writer: &ApplyContext<'_>, live: Option<&Value>, new: &Value) -> Managers {
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

/// Makes an updating manager the only owner of the changed fields.
pub(super) fn update_managers(
    writer: &ApplyContext<'_>,
    old: &Value,
    new: &Value,
    changed: &Comparison,
    managers: &mut Managers,
    manager: &str,
) {
    writer.reconcile(managers, Some(&changed.roots()));
    Comparisons::new(writer, old, new, changed).remove_from(managers);
    let mut fields = changed.modified.clone();
    fields.union(changed.added.clone());
    fields.subtract(unowned());
    if !fields.is_empty() {
        let id = writer.id(manager, ManagedOperation::Update);
        if let Some(previous) = managers.take(&id) {
            fields.union(previous.fields.into_set());
        }
        managers.put(entry(writer, id, fields));
    }
    managers.merge_oldest();
}

/// Entry of a manager that updates now.
fn entry(writer: &ApplyContext<'_>, id: ManagerId, fields: FieldSet) -> Entry {
    Entry {
        manager: id.manager,
        operation: id.operation,
        api_version: id.api_version,
        subresource: id.subresource,
        time: Some(writer.time()),
        fields: fields.into(),
    }
}

/// `true` if two objects are equal except for `managedFields`. Unlike a comparison, this respects the order
/// of lists.
pub(super) fn is_same_object(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_map(), new.as_map()) else { return old == new };
    old.len() == new.len()
        && old.iter().all(|(key, old)| match (key, old, new.get(key)) {
            ("metadata", Value::Map(old), Some(Value::Map(new))) => {
                is_same_without(old, new, "managedFields")
            }
            (_, old, Some(new)) => is_equal(old, new),
            _ => false,
        })
}

/// `true` if two objects have equal fields except for one.
fn is_same_without(a: &Map, b: &Map, left_out: &str) -> bool {
    let len = |map: &Map| map.len() - usize::from(map.contains(left_out));
    len(a) == len(b)
        && a.iter()
            .all(|(key, value)| key == left_out || b.get(key).is_some_and(|other| is_equal(value, other)))
}

/// Restores the times of managers if they are the only change of a write.
///
/// The object is the one that would be stored, after admission and validation.
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
