//! Defaulting, and removal of nulls that a schema does not allow.

use super::schema::{FieldSchema, Schema};
use crate::value::Value;

/// Sets missing fields to their defaults, and nulls that are not allowed, at every level of the value.
pub fn default(value: &mut Value, schema: &Schema) {
    match value {
        Value::Map(map) => {
            for (name, property) in schema.properties() {
                let Some(default) = &property.default else { continue };
                match map.get_mut(name) {
                    None => {
                        map.insert(name, (**default).clone());
                    }
                    Some(value) if value.is_null() && !property.nullable => *value = (**default).clone(),
                    Some(_) => {}
                }
            }
            for (key, value) in map.iter_mut() {
                match schema.field_schema(key) {
                    FieldSchema::Property(property) => default(value, property),
                    FieldSchema::Additional(Some(schema)) => default_item(value, schema),
                    FieldSchema::Additional(None) | FieldSchema::Unknown => {}
                }
            }
        }
        Value::List(list) => {
            let Some(items) = &schema.items else { return };
            list.iter_mut().for_each(|item| default_item(item, items));
        }
        _ => {}
    }
}

/// Defaults an item of a list or map. A missing default leaves null.
fn default_item(value: &mut Value, schema: &Schema) {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        *value = (**default).clone();
    }
    default(value, schema);
}

/// Removes the fields that are null although their schema is neither nullable nor has a default. Runs before
/// [`default()`], which replaces the nulls that have one. Items of lists stay.
pub fn prune_nulls(value: &mut Value, schema: &Schema) {
    match value {
        Value::Map(map) => map.retain(|key, value| {
            let Some(schema) = schema.field(key) else { return true };
            if value.is_null() {
                return schema.nullable || schema.default.is_some();
            }
            prune_nulls(value, schema);
            true
        }),
        Value::List(list) => {
            let Some(items) = &schema.items else { return };
            list.iter_mut().for_each(|item| prune_nulls(item, items));
        }
        _ => {}
    }
}
