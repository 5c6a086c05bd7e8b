//! Typed decoding: checks a dynamic object against its schema, with the results of Go's JSON decoder.
//!
//! [`decode`] checks every value against its type and drops unknown fields, which it reports as strict
//! errors. It drops empty values of fields with `omitempty`, and adds the zero values that Go would encode:
//! `status: {}`, `items: null`, the `""` of a string without `omitempty`. Times, bytes and quantities come
//! out in canonical form, and fields in the order in which Go writes them. Decoding is idempotent, so it also
//! normalizes an object that was modified after decoding.

use compact_str::CompactString;

use crate::json::Duplicate;
use crate::schema::{Field, SchemaOr, Shape, Struct, TypeRef};
use crate::value::{Map, Value};

mod bytes;
mod error;
mod path;
mod scalar;
mod stored_writer;
mod time;

#[cfg(test)]
mod tests;

pub use error::{DecodeError, StrictError};
use path::{DecodePath, Step};
pub use stored_writer::{write_stored, write_stored_custom};

/// Maximum number of strict errors to report, as upstream bounds them.
pub const STRICT_ERRORS_MAX: usize = 100;

/// Bytes of paths after which no further strict error is reported; the first is reported however long its
/// path is. A path contains the keys of maps, and can be as long as the body.
pub const STRICT_BYTES_MAX: usize = 1 << 20;

/// A decoded object and its strict errors.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object.
    pub value: Value,
    /// Unknown and duplicate fields, in the order of the input.
    pub strict: Vec<StrictError>,
    /// `true` if the value still has empty lists or maps that are not stored; see [`KeepEmpty`].
    pub has_omitted_empty: bool,
}

/// Decodes a value against a struct of the schema. `duplicates` are the duplicate fields that the parser
/// found.
///
/// # Errors
/// For the first value of the wrong type, with the text of Go's decoder.
pub fn decode(value: Value, schema: Struct<'_>, duplicates: &[Duplicate]) -> Result<Decoded, DecodeError> {
    let decoder = Decoder { duplicates, ..Decoder::default() };
    decoder.decode_root(value, schema)
}

/// Empty lists and maps that decoding keeps although they are not stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepEmpty {
    /// Keep those that Go encodes as null, and an empty `managedFields`: field ownership depends on them.
    pub for_ownership: bool,
    /// Keep those that validation distinguishes from absent ones, such as an empty list of policies.
    pub for_validation: bool,
}

/// Decodes a request body and keeps all empty lists and maps of [`KeepEmpty`]. [`Decoded::has_omitted_empty`]
/// is set if there are any; [`decode_keeping_empty`] removes them.
///
/// # Errors
/// As [`decode`].
pub fn decode_request(
    value: Value,
    schema: Struct<'_>,
    duplicates: &[Duplicate],
) -> Result<Decoded, DecodeError> {
    let decoder = Decoder {
        duplicates,
        keep: KeepEmpty { for_ownership: true, for_validation: true },
        ..Decoder::default()
    };
    decoder.decode_root(value, schema)
}

/// Decodes a value and keeps some empty lists and maps.
///
/// # Errors
/// As [`decode`].
pub fn decode_keeping_empty(
    value: Value,
    schema: Struct<'_>,
    keep: KeepEmpty,
) -> Result<Decoded, DecodeError> {
    let decoder = Decoder { keep, ..Decoder::default() };
    decoder.decode_root(value, schema)
}

/// An empty list here resets field ownership.
const MANAGED_FIELDS: &str = "managedFields";

impl Decoder<'_> {
    fn decode_root(mut self, mut value: Value, schema: Struct<'_>) -> Result<Decoded, DecodeError> {
        let root = DecodePath::root();
        match &mut value {
            Value::Map(map) => self.decode_fields(map, schema, &root)?,
            Value::Null => value = zero_struct(schema),
            other => {
                let go = format!("{}.{}", schema.version(), schema.name());
                return Err(root.type_error(other.type_name().to_owned(), &go));
            }
        }
        Ok(Decoded { value, strict: self.strict, has_omitted_empty: self.has_omitted_empty })
    }
}

/// Decodes a value against a type; null if it does not conform.
fn decode_or_null(mut value: Value, ty: TypeRef<'_>) -> Value {
    let mut decoder = Decoder { quiet: true, ..Decoder::default() };
    match decoder.decode_value(&mut value, ty, &DecodePath::root()) {
        Ok(()) => value,
        Err(_) => Value::Null,
    }
}

/// State of one decoding pass.
#[derive(Default)]
struct Decoder<'a> {
    duplicates: &'a [Duplicate],
    strict: Vec<StrictError>,
    /// Bytes of the paths of the strict errors.
    strict_bytes: usize,
    /// Stack of field ranks of all enclosing objects, so that no object allocates a vector of its own.
    ranks: Vec<usize>,
    /// Inside a value that Go decodes separately, without strict errors.
    quiet: bool,
    keep: KeepEmpty,
    /// An empty list or map was kept.
    has_omitted_empty: bool,
}

impl Decoder<'_> {
    /// Decodes the fields of an object in place.
    fn decode_fields(
        &mut self,
        map: &mut Map,
        schema: Struct<'_>,
        path: &DecodePath<'_>,
    ) -> Result<(), DecodeError> {
        let mut entries = std::mem::take(map).into_entries();
        let first = self.ranks.len();
        let mut kept = 0;
        for at in 0..entries.len() {
            self.report_duplicates(at, path, |key| schema.field(key).is_some());
            let (key, value) = &mut entries[at];
            let Some(rank) = schema.position(key) else {
                self.report(path, |path| StrictError::Unknown { path: path.child(key) });
                continue;
            };
            let field = schema.field_at(rank);
            if self.decode_field(value, field, &path.then(Step::Field { schema, field }))? {
                if kept < at {
                    entries.swap(kept, at);
                }
                kept += 1;
                self.ranks.push(rank);
            }
        }
        self.report_duplicates(entries.len(), path, |key| schema.field(key).is_some());
        entries.truncate(kept);
        for rank in schema.always_written() {
            if !self.ranks[first..].contains(&rank) {
                let field = schema.field_at(rank);
                entries.push((CompactString::from(field.name()), zero_field(field)));
                self.ranks.push(rank);
            }
        }
        sort_by_rank(&mut entries, &mut self.ranks[first..]);
        self.ranks.truncate(first);
        *map = Map::from_unique(entries);
        Ok(())
    }

    /// Decodes the value of a field; `true` if the field is kept.
    fn decode_field(
        &mut self,
        value: &mut Value,
        field: Field<'_>,
        path: &DecodePath<'_>,
    ) -> Result<bool, DecodeError> {
        if value.is_null() {
            return Ok(false);
        }
        let ty = field.ty();
        self.decode_value(value, ty, path)?;
        if field.is_pointer() {
            return Ok(!value.is_null());
        }
        match ty.shape() {
            Shape::List(_) | Shape::Map(_) if value.is_empty() => {
                let is_owned = !field.omits_empty() || field.name() == MANAGED_FIELDS;
                if self.keep.for_ownership && is_owned
                    || self.keep.for_validation && field.distinguishes_empty()
                {
                    self.has_omitted_empty = true;
                    return Ok(true);
                }
                // An empty list is stored as absent, and an absent list is encoded as null.
                *value = Value::Null;
                Ok(!field.omits_empty())
            }
            Shape::String | Shape::Bytes | Shape::Int32 | Shape::Int64 | Shape::Double | Shape::Bool => {
                Ok(!(field.omits_empty() && value.is_empty()))
            }
            _ => Ok(!value.is_null()),
        }
    }

    /// Decodes a value that is not null in place.
    fn decode_value(
        &mut self,
        value: &mut Value,
        ty: TypeRef<'_>,
        path: &DecodePath<'_>,
    ) -> Result<(), DecodeError> {
        match (ty.shape(), &mut *value) {
            (Shape::Struct(schema), Value::Map(map)) => self.decode_fields(map, schema, path),
            (Shape::Map(item_type), Value::Map(map)) => self.decode_map(map, item_type, path),
            (Shape::List(item_type), Value::List(list)) => self.decode_list(list, item_type, path),
            (Shape::SchemaOr(or, schema), _) => self.decode_schema_or(value, or, schema, path),
            (Shape::Fields | Shape::Raw | Shape::Any, _) => Ok(()),
            // A raw value was decoded before it was stored. Requests never contain one.
            (_, Value::Raw(_)) => Ok(()),
            _ => scalar::decode(value, ty, path),
        }
    }

    fn decode_map(
        &mut self,
        map: &mut Map,
        item_type: TypeRef<'_>,
        path: &DecodePath<'_>,
    ) -> Result<(), DecodeError> {
        let count = map.len();
        for (at, (key, value)) in map.iter_mut().enumerate() {
            self.report_duplicates(at, path, |_| true);
            if value.is_null() {
                *value = zero_item(item_type);
            } else {
                self.decode_value(value, item_type, &path.then(Step::Key(key)))?;
            }
        }
        self.report_duplicates(count, path, |_| true);
        // Go encodes maps sorted by key.
        map.sort();
        Ok(())
    }

    fn decode_list(
        &mut self,
        list: &mut [Value],
        item_type: TypeRef<'_>,
        path: &DecodePath<'_>,
    ) -> Result<(), DecodeError> {
        for (index, value) in list.iter_mut().enumerate() {
            if value.is_null() {
                *value = zero_item(item_type);
            } else {
                self.decode_value(value, item_type, &path.then(Step::Index(index)))?;
            }
        }
        Ok(())
    }

    /// Decodes a JSON schema, or the alternative that its field allows. Any other value becomes null, or an
    /// error where the alternative is a boolean.
    fn decode_schema_or(
        &mut self,
        value: &mut Value,
        or: SchemaOr,
        schema: TypeRef<'_>,
        path: &DecodePath<'_>,
    ) -> Result<(), DecodeError> {
        let outer = std::mem::replace(&mut self.quiet, true);
        match (or, &mut *value) {
            (_, Value::Map(_)) => self.decode_value(value, schema, path)?,
            (SchemaOr::Bool, Value::Bool(_)) => {}
            (SchemaOr::Bool, _) => return Err(DecodeError::SchemaOrBool),
            (SchemaOr::Array, Value::List(list)) if !list.is_empty() => {
                self.decode_list(list, schema, path)?
            }
            (SchemaOr::Strings, Value::List(list)) if !list.is_empty() => {
                for item in list.iter_mut() {
                    match item {
                        Value::Null => *item = Value::from(""),
                        Value::Str(_) => {}
                        other => return Err(path.type_error(other.type_name().to_owned(), "string")),
                    }
                }
            }
            _ => *value = Value::Null,
        }
        self.quiet = outer;
        Ok(())
    }

    fn report(&mut self, path: &DecodePath<'_>, error: impl FnOnce(&DecodePath<'_>) -> StrictError) {
        let has_room = self.strict.len() < STRICT_ERRORS_MAX && self.strict_bytes < STRICT_BYTES_MAX;
        if !self.quiet && has_room {
            let error = error(path);
            self.strict_bytes += error.path().len();
            self.strict.push(error);
        }
    }

    /// Reports the fields of the object at `path` that were repeated after `seen` distinct ones.
    fn report_duplicates(&mut self, seen: usize, path: &DecodePath<'_>, is_known: impl Fn(&str) -> bool) {
        if self.quiet {
            return;
        }
        for found in self.duplicates.iter().filter(|found| found.before == seen && path.is(&found.parent)) {
            let error = StrictError::Duplicate { path: found.path() };
            // A field that occurs a third time is reported once, as upstream does.
            if is_known(&found.key) && !self.strict.contains(&error) {
                self.report(path, |_| error);
            }
        }
    }
}

/// Sorts entries by rank with an insertion sort: entries are few, and mostly sorted.
fn sort_by_rank(entries: &mut [(CompactString, Value)], ranks: &mut [usize]) {
    for end in 1..ranks.len() {
        let mut at = end;
        while at > 0 && ranks[at - 1] > ranks[at] {
            ranks.swap(at - 1, at);
            entries.swap(at - 1, at);
            at -= 1;
        }
    }
}

/// Zero value that Go encodes for an absent field.
pub(crate) fn zero_field(field: Field<'_>) -> Value {
    if field.is_pointer() { Value::Null } else { zero(field.ty()) }
}

/// Zero value that Go decodes from a null in a list or map.
fn zero_item(ty: TypeRef<'_>) -> Value {
    match ty.shape() {
        Shape::Bytes => Value::from(""),
        _ => zero(ty),
    }
}

fn zero(ty: TypeRef<'_>) -> Value {
    match ty.shape() {
        Shape::Struct(schema) => zero_struct(schema),
        Shape::String => Value::from(""),
        Shape::Int32 | Shape::Int64 | Shape::Double | Shape::IntOrString => Value::Int(0),
        Shape::Bool => Value::Bool(false),
        Shape::Quantity => Value::from("0"),
        _ => Value::Null,
    }
}

/// Zero value of a struct, as Go encodes it.
pub(crate) fn zero_struct(schema: Struct<'_>) -> Value {
    let zero = |field: Field<'_>| (CompactString::from(field.name()), zero_field(field));
    Value::Map(Map::from_unique(schema.always_written().map(|rank| zero(schema.field_at(rank))).collect()))
}
