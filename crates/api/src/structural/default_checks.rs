//! Validation of the defaults of a schema.

use super::coerce::{bad_value, validate_resources};
use super::schema::Schema;
use super::validate::validate_default;
use super::{META_FIELDS, coerce_embedded, prune};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::value::{Map, Value};

/// A default that is valid by its schema, except for validation rules.
#[derive(Clone, Copy, Debug)]
pub struct ValidDefault<'a> {
    /// Node that has the default.
    pub schema: &'a Schema,
    /// The default.
    pub value: &'a Value,
    /// `true` if the node is a resource: the root, or an embedded one.
    pub is_resource: bool,
    /// Path of the default.
    pub path: &'a Path<'a>,
}

/// Validates the defaults of a schema that was compiled by [`Schema::compile_as_sent`], and visits the valid ones until
/// the visitor returns `false`. `path` is that of the schema. Additional properties have no defaults.
pub fn validate_defaults(
    schema: &Schema,
    path: &Path<'_>,
    needs_pruned: bool,
    errors: &mut ErrorList,
    visit: &mut dyn FnMut(&ValidDefault<'_>, &mut ErrorList) -> bool,
) {
    let mut walk = DefaultWalk { needs_pruned, errors, visit };
    let place = DefaultPlace { resource: schema, steps: &[], is_in_meta: false, is_resource: true };
    walk.walk(schema, path, place);
}

struct DefaultWalk<'w> {
    needs_pruned: bool,
    errors: &'w mut ErrorList,
    visit: &'w mut dyn FnMut(&ValidDefault<'_>, &mut ErrorList) -> bool,
}

/// Position of a node.
#[derive(Clone, Copy)]
struct DefaultPlace<'a> {
    /// Innermost resource around the node, or the node itself.
    resource: &'a Schema,
    /// Steps from the resource to the node; `None` for an item of a list.
    steps: &'a [Option<&'a str>],
    /// Inside `apiVersion`, `kind` or `metadata` of the resource.
    is_in_meta: bool,
    /// The node is the resource.
    is_resource: bool,
}

impl DefaultWalk<'_> {
    /// Returns `false` if the visitor ended the walk.
    fn walk(&mut self, schema: &Schema, path: &Path<'_>, place: DefaultPlace<'_>) -> bool {
        let mut place = place;
        if schema.embedded_resource {
            place = DefaultPlace { resource: schema, steps: &[], is_in_meta: false, is_resource: true };
        }
        if let Some(default) = &schema.default
            && !self.check(default, schema, &path.child("default"), place)
        {
            return false;
        }
        if let Some(items) = &schema.items {
            let steps = [place.steps, &[None]].concat();
            let place = DefaultPlace { steps: &steps, is_resource: false, ..place };
            if !self.walk(items, &path.child("items"), place) {
                return false;
            }
        }
        let properties = path.child("properties");
        for (name, property) in schema.properties() {
            let steps = [place.steps, &[Some(name)]].concat();
            let is_in_meta = place.is_in_meta || (place.is_resource && META_FIELDS.contains(&name));
            let place = DefaultPlace { steps: &steps, is_in_meta, is_resource: false, ..place };
            if !self.walk(property, &properties.key(name), place) {
                return false;
            }
        }
        true
    }

    fn check(&mut self, default: &Value, schema: &Schema, path: &Path<'_>, place: DefaultPlace<'_>) -> bool {
        let mut found = ErrorList::new();
        if place.is_in_meta {
            check_in_meta(default, path, place, &mut found);
        } else {
            let mut coerced = default.clone();
            if self.needs_pruned {
                prune(&mut coerced, schema, place.is_resource);
                if coerced != *default {
                    let detail = "must not have unknown fields";
                    self.errors.push(FieldError::invalid(path, bad_value(default), detail));
                    coerced = default.clone();
                }
            }
            match coerce_embedded(&mut coerced, schema, place.is_resource, false) {
                Err(error) => found.push(below(error, path)),
                Ok(_) => validate_resources(&coerced, schema, place.is_resource, path, &mut found),
            }
        }
        if found.is_empty() {
            validate_default(default, schema, path, &mut found);
        }
        if !found.is_empty() {
            self.errors.append(found);
            return true;
        }
        let site = ValidDefault { schema, value: default, is_resource: place.is_resource, path };
        (self.visit)(&site, self.errors)
    }
}

/// Validates a default inside of metadata as a part of its resource.
fn check_in_meta(default: &Value, path: &Path<'_>, place: DefaultPlace<'_>, errors: &mut ErrorList) {
    let mut object = default.clone();
    for step in place.steps.iter().rev() {
        object = match step {
            Some(name) => {
                let mut map = Map::new();
                map.insert(*name, object);
                Value::Map(map)
            }
            None => Value::List(vec![object]),
        };
    }
    if let Some(map) = object.as_map_mut() {
        for (name, text) in [("apiVersion", "validation/v1"), ("kind", "Validation")] {
            if map.get(name).is_none() {
                map.insert(name, Value::from(text));
            }
        }
    }
    let fault = match coerce_embedded(&mut object, place.resource, true, false) {
        Err(error) => error.to_string(),
        Ok(_) => {
            let mut found = ErrorList::new();
            validate_resources(&object, place.resource, true, &Path::NONE, &mut found);
            if found.is_empty() {
                return;
            }
            found.to_string()
        }
    };
    let detail = format!("must result in valid metadata: {fault}");
    errors.push(FieldError::invalid(path, bad_value(default), detail));
}

/// Moves an error of a value below the path of the value.
fn below(mut error: FieldError, path: &Path<'_>) -> FieldError {
    let separator = if error.field.starts_with('[') { "" } else { "." };
    error.field = format!("{path}{separator}{}", error.field);
    error
}
