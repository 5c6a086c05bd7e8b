//! Correlation of old and new values: items of map lists by their keys, and equality for ratcheting.

use std::collections::BTreeMap;

use super::list_type::set_key;
use super::schema::{Schema, SchemaType};
use crate::value::Value;

/// Items of an old list by their keys; of items with equal keys, the first.
#[derive(Debug)]
pub struct MapList<'v> {
    items: BTreeMap<String, &'v Value>,
}

impl<'v> MapList<'v> {
    /// Indexes a list; `None` if the schema does not correlate its items.
    #[must_use]
    pub fn new(list: &'v [Value], schema: &Schema) -> Option<MapList<'v>> {
        if !schema.is_map_list() {
            return None;
        }
        let mut items = BTreeMap::new();
        if schema.ty == Some(SchemaType::Array) && !schema.list_keys.is_empty() {
            for item in list {
                if let Some(key) = composite_key(item, schema) {
                    items.entry(key).or_insert(item);
                }
            }
        }
        Some(MapList { items })
    }

    /// Returns the old item with the keys of a new one.
    #[must_use]
    pub fn find(&self, item: &Value, schema: &Schema) -> Option<&'v Value> {
        self.items.get(&composite_key(item, schema)?).copied()
    }
}

/// Keys of an item; `None` if one is missing or not a scalar.
fn composite_key(item: &Value, schema: &Schema) -> Option<String> {
    let map = item.as_map()?;
    let mut key = String::new();
    for name in &schema.list_keys {
        let value = map.get(name)?;
        if matches!(value, Value::Null | Value::List(_) | Value::Map(_) | Value::Raw(_)) {
            return None;
        }
        key.push_str(&set_key(value));
        key.push('\0');
    }
    Some(key)
}

/// `true` if an update did not change a value. Map lists may be reordered; fields without a schema count as
/// changed.
#[must_use]
pub fn is_unchanged(new: &Value, old: &Value, schema: &Schema) -> bool {
    match (new, old) {
        (Value::List(new), Value::List(old)) => {
            if new.len() != old.len() {
                return false;
            }
            let Some(index) = MapList::new(old, schema) else { return new == old };
            let Some(items) = &schema.items else { return new.is_empty() };
            new.iter().all(|item| index.find(item, schema).is_some_and(|old| is_unchanged(item, old, items)))
        }
        (Value::Map(new), Value::Map(old)) => {
            new.len() == old.len()
                && new.iter().all(|(key, new)| match (old.get(key), schema.field(key)) {
                    (Some(old), Some(schema)) => is_unchanged(new, old, schema),
                    _ => false,
                })
        }
        _ => new == old,
    }
}
