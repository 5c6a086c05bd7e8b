//! Pruning: removal of fields that a schema does not specify.

use std::fmt;

use super::META_FIELDS;
use super::schema::{FieldSchema, Schema};
use crate::decode::{STRICT_BYTES_MAX, STRICT_ERRORS_MAX};
use crate::value::{Map, Value};

/// Removes the fields that the schema does not specify, and returns their paths, sorted: at most
/// [`STRICT_ERRORS_MAX`] and [`STRICT_BYTES_MAX`].
///
/// `apiVersion`, `kind` and `metadata` of embedded resources stay, and those of the value itself if it is the root
/// of a resource; see [`super::coerce_embedded`].
pub fn prune(value: &mut Value, schema: &Schema, is_root: bool) -> Vec<String> {
    let mut found = UnknownFields::default();
    if schema.preserve_unknown_fields {
        found.skip_value(value, Some(schema), is_root, &FieldTrail::ROOT);
    } else {
        found.prune_value(value, Some(schema), is_root, &FieldTrail::ROOT);
    }
    found.paths.sort_unstable();
    found.paths
}

/// Path of a pruned field: a linked list on the stack, so that descending allocates nothing.
#[derive(Clone, Copy)]
pub(super) struct FieldTrail<'a> {
    parent: Option<&'a FieldTrail<'a>>,
    step: TrailStep<'a>,
}

#[derive(Clone, Copy)]
enum TrailStep<'a> {
    Root,
    Key(&'a str),
    Index(usize),
}

impl FieldTrail<'_> {
    const ROOT: FieldTrail<'static> = FieldTrail { parent: None, step: TrailStep::Root };

    const fn key<'a>(&'a self, key: &'a str) -> FieldTrail<'a> {
        FieldTrail { parent: Some(self), step: TrailStep::Key(key) }
    }

    const fn index(&self, index: usize) -> FieldTrail<'_> {
        FieldTrail { parent: Some(self), step: TrailStep::Index(index) }
    }

    const fn is_root(&self) -> bool {
        matches!(self.step, TrailStep::Root)
    }
}

impl fmt::Display for FieldTrail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parent = self.parent.filter(|parent| !parent.is_root());
        if let Some(parent) = parent {
            parent.fmt(f)?;
        }
        match self.step {
            TrailStep::Root => Ok(()),
            TrailStep::Key(key) => write!(f, "{}{key}", if parent.is_some() { "." } else { "" }),
            TrailStep::Index(index) => write!(f, "[{index}]"),
        }
    }
}

#[derive(Default)]
struct UnknownFields {
    paths: Vec<String>,
    /// Bytes of the paths.
    bytes: usize,
}

impl UnknownFields {
    fn record(&mut self, path: &FieldTrail<'_>) {
        if self.paths.len() < STRICT_ERRORS_MAX && self.bytes < STRICT_BYTES_MAX {
            let path = path.to_string();
            self.bytes += path.len();
            self.paths.push(path);
        }
    }

    /// Prunes a value; without a schema, every field of an object.
    fn prune_value(
        &mut self,
        value: &mut Value,
        schema: Option<&Schema>,
        is_root: bool,
        path: &FieldTrail<'_>,
    ) {
        if let Some(schema) = schema.filter(|schema| schema.preserve_unknown_fields) {
            return self.skip_value(value, Some(schema), is_root, path);
        }
        match (value, schema) {
            (Value::Map(map), None) => {
                map.iter().for_each(|(key, _)| self.record(&path.key(key)));
                map.clear();
            }
            (Value::Map(map), Some(schema)) => self.prune_fields(map, schema, is_root, path),
            (Value::List(list), schema) => {
                let items = schema.and_then(|schema| schema.items.as_deref());
                for (at, item) in list.iter_mut().enumerate() {
                    self.prune_value(item, items, false, &path.index(at));
                }
            }
            _ => {}
        }
    }

    fn prune_fields(&mut self, map: &mut Map, schema: &Schema, is_root: bool, path: &FieldTrail<'_>) {
        let is_resource = is_root || schema.embedded_resource;
        map.retain(|key, value| {
            if is_resource && META_FIELDS.contains(&key) {
                return true;
            }
            match schema.field_schema(key) {
                FieldSchema::Property(property) => {
                    self.prune_value(value, Some(property), false, &path.key(key));
                }
                FieldSchema::Additional(schema) => self.prune_value(value, schema, false, &path.key(key)),
                FieldSchema::Unknown => {
                    if !META_FIELDS.contains(&key) || !path.is_root() {
                        self.record(&path.key(key));
                    }
                    return false;
                }
            }
            true
        });
    }

    /// Keeps the unknown fields of a value, and prunes below the known ones.
    fn skip_value(
        &mut self,
        value: &mut Value,
        schema: Option<&Schema>,
        is_root: bool,
        path: &FieldTrail<'_>,
    ) {
        let Some(schema) = schema else { return };
        match value {
            Value::Map(map) => {
                let is_resource = is_root || schema.embedded_resource;
                for (key, value) in map.iter_mut() {
                    if is_resource && META_FIELDS.contains(&key) {
                        continue;
                    }
                    match schema.field_schema(key) {
                        FieldSchema::Property(property) => {
                            self.prune_value(value, Some(property), false, &path.key(key));
                        }
                        FieldSchema::Additional(schema) => {
                            self.prune_value(value, schema, false, &path.key(key))
                        }
                        FieldSchema::Unknown => {}
                    }
                }
            }
            Value::List(list) => {
                for (at, item) in list.iter_mut().enumerate() {
                    self.skip_value(item, schema.items.as_deref(), false, &path.index(at));
                }
            }
            _ => {}
        }
    }
}
