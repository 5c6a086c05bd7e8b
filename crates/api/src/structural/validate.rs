//! Validation of objects against a schema, with upstream's errors.
//!
//! The counterpart of kube-openapi's `SchemaValidator`. Its results decide which branch of an `anyOf` or `oneOf` is
//! reported, by the number of checks that succeeded, so each check here returns the count that it has there.
//!
//! Validation of an update is ratcheting: errors of values that the update did not change are dropped. Values are
//! correlated by field and by the keys of map lists, but not below `allOf`, `anyOf`, `oneOf` and `not`.

mod fault;
mod logic;
mod number;
mod scalar;

use fault::{Fault, FaultKind, FaultList, ShownValue};

use super::list_type::has_repeated;
use super::map_list::{MapList, is_unchanged};
use super::schema::{AdditionalProperties, FieldSchema, Schema, SchemaType, SizeChecks, ValueChecks};
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::value::{Map, Value};

/// Maximum number of pairs of a value and a schema that one validation visits. A list of many items under an
/// `anyOf` of many branches could otherwise take minutes.
const STEPS_MAX: u64 = 10_000_000;

/// Validates a value. `path` is the field that holds it, [`Path::NONE`] for an object.
pub fn validate(value: &Value, schema: &Schema, path: &Path<'_>, errors: &mut ErrorList) {
    Validator::new().run(value, None, schema, path, errors);
}

/// Validates an update. Errors of unchanged values are dropped.
pub fn validate_update(new: &Value, old: &Value, schema: &Schema, path: &Path<'_>, errors: &mut ErrorList) {
    Validator::new().run(new, Some(old), schema, path, errors);
}

/// Validates a default, as [`validate`]. As upstream, nodes of integers or strings accept a default of any type.
pub(super) fn validate_default(value: &Value, schema: &Schema, path: &Path<'_>, errors: &mut ErrorList) {
    let validator = Validator { is_default: true, ..Validator::new() };
    validator.run(value, None, schema, path, errors);
}

/// Maximum number of steps of all matches of patterns in one validation: the products of the bytes of a text and the
/// states of its pattern. Most take a nanosecond; patterns that are made for it take ten.
const MATCH_STEPS_MAX: u64 = 50_000_000;

struct Validator<'a> {
    faults: FaultList<'a>,
    steps: u64,
    match_steps: u64,
    is_default: bool,
}

impl<'a> Validator<'a> {
    fn new() -> Validator<'a> {
        Validator { faults: FaultList::default(), steps: 0, match_steps: 0, is_default: false }
    }

    fn run(
        mut self,
        value: &'a Value,
        old: Option<&'a Value>,
        schema: &'a Schema,
        path: &Path<'_>,
        errors: &mut ErrorList,
    ) {
        self.validate_node(value, old, schema, &Path::NONE);
        if self.match_steps > MATCH_STEPS_MAX {
            let detail = "the values are too long for patterns with so many states";
            errors.push(FieldError::forbidden(path, detail));
        }
        if self.steps > STEPS_MAX {
            errors.push(FieldError::internal(path, "validation exceeded its budget of steps"));
        }
        self.faults.report(path, errors);
    }

    /// Validates a value against a node, and returns the number of successful checks.
    fn validate_node(
        &mut self,
        value: &'a Value,
        old: Option<&'a Value>,
        schema: &'a Schema,
        at: &Path<'_>,
    ) -> u64 {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return 0;
        }
        let first = self.faults.len();
        let matches = self.check_node(value, old, schema, at);
        if self.faults.len() > first
            && let Some(old) = old
            && is_unchanged(value, old, schema)
        {
            self.faults.truncate(first);
        }
        matches
    }

    fn check_node(
        &mut self,
        value: &'a Value,
        old: Option<&'a Value>,
        schema: &'a Schema,
        at: &Path<'_>,
    ) -> u64 {
        let type_matches = self.check_type(value, schema, at);
        let checks = schema.checks.as_deref();
        if value.is_null() {
            if let Some(checks) = checks {
                self.check_enum(value, checks, at);
            }
            return type_matches.unwrap_or(1);
        }
        // Each validator that applies counts once, and the node itself.
        let mut matches = type_matches.map_or(0, |matches| matches + 1);
        matches += 2 + checks.and_then(|c| c.logic.as_deref()).map_or(0, |l| self.check_logic(value, l, at));
        match value {
            Value::Str(text) => {
                matches += 1;
                if let Some(checks) = checks {
                    matches += self.check_text(text, checks, at);
                }
            }
            Value::Int(_) | Value::Float(_) => {
                self.check_number(value, schema, at);
                matches += 2;
            }
            Value::List(list) => {
                matches += 2 + self.check_items(list, old, schema, at);
            }
            _ => {}
        }
        if let Some(checks) = checks {
            self.check_enum(value, checks, at);
        }
        matches += 1;
        if let Value::Map(map) = value {
            matches += 1 + self.check_fields(map, old, schema, at);
        }
        matches + 1
    }

    fn check_items(
        &mut self,
        list: &'a [Value],
        old: Option<&'a Value>,
        schema: &'a Schema,
        at: &Path<'_>,
    ) -> u64 {
        let mut matches = 0;
        if let Some(items) = &schema.items {
            let index = old.and_then(Value::as_list).and_then(|old| MapList::new(old, schema));
            for (position, item) in list.iter().enumerate() {
                let old = index.as_ref().and_then(|index| index.find(item, schema));
                matches += self.validate_node(item, old, items, &at.index(position));
            }
        }
        if let Some(size) = schema.checks.as_ref().and_then(|checks| checks.size.as_deref()) {
            self.check_list_size(list, size, at);
        }
        matches
    }

    fn check_list_size(&mut self, list: &'a [Value], size: &SizeChecks, at: &Path<'_>) {
        let len = i64::try_from(list.len()).unwrap_or(i64::MAX);
        if let Some(min) = size.min_items.filter(|min| len < *min) {
            let detail = format!("should have at least {min} items");
            self.faults.push_invalid(at, BadValue::Int(len).into(), &detail);
        }
        if let Some(max) = size.max_items.filter(|max| len > *max) {
            let detail = format!("should have at most {max} items");
            self.faults.push(at, FaultKind::TooMany(list.len(), max), &detail);
        }
        if size.unique_items && has_repeated(list) {
            self.faults.push_invalid(at, ShownValue::EMPTY, "shouldn't contain duplicates");
        }
    }

    fn check_fields(
        &mut self,
        map: &'a Map,
        old: Option<&'a Value>,
        schema: &'a Schema,
        at: &Path<'_>,
    ) -> u64 {
        let checks = schema.checks.as_deref();
        if let Some(size) = checks.and_then(|checks| checks.size.as_deref()) {
            self.check_map_size(map, size, at);
        }
        let mut matches = 0;
        for (key, value) in map.iter() {
            match schema.field_schema(key) {
                FieldSchema::Property(property) => {
                    let old = old_field(old, key, at);
                    matches += self.validate_node(value, old, property, &at.child(key));
                }
                FieldSchema::Additional(Some(schema)) => {
                    let old = old_field(old, key, at);
                    if at.is_none() {
                        // Upstream joins the empty path of the root and the key with a dot.
                        let dotted = format!(".{key}");
                        matches += self.validate_node(value, old, schema, &at.child(&dotted));
                    } else {
                        matches += self.validate_node(value, old, schema, &at.child(key));
                    }
                }
                FieldSchema::Additional(None)
                    if matches!(schema.additional, AdditionalProperties::Allowed(false)) =>
                {
                    self.faults.push_message(
                        at,
                        FaultKind::Invalid(BadValue::from(key).into()),
                        format!("{}.{key} in body is a forbidden property", fault::name(at)),
                    );
                }
                FieldSchema::Additional(None) | FieldSchema::Unknown => {}
            }
        }
        for name in checks.map(|checks| &*checks.required).unwrap_or_default() {
            if !map.contains(name) {
                let name = format!("{}.{name}", fault::name(at));
                let message = format!("{name} in body is required");
                self.faults.add(Fault { field: Some(name), kind: FaultKind::Required, message });
            }
        }
        matches
    }

    fn check_map_size(&mut self, map: &Map, size: &SizeChecks, at: &Path<'_>) {
        let len = i64::try_from(map.len()).unwrap_or(i64::MAX);
        if let Some(min) = size.min_properties.filter(|min| len < *min) {
            let detail = format!("should have at least {min} properties");
            self.faults.push_invalid(at, BadValue::Int(len).into(), &detail);
        }
        if let Some(max) = size.max_properties.filter(|max| len > *max) {
            let detail = format!("should have at most {max} properties");
            self.faults.push(at, FaultKind::TooMany(map.len(), max), &detail);
        }
    }
}

/// Old value of a field. Changes of the root's type are invisible after conversion, so it does not ratchet.
fn old_field<'a>(old: Option<&'a Value>, key: &str, at: &Path<'_>) -> Option<&'a Value> {
    if at.is_none() && matches!(key, "kind" | "apiVersion") {
        return None;
    }
    old?.get(key)
}
