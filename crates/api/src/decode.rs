//! From what a body says to the object that it means, as Go's typed decoder would have it.
//!
//! [`decode`] checks every value against its type, drops what the schema does not know and names it, drops what
//! says nothing where Go would leave it out, and adds what Go would write anyway: `status: {}`, `items: null`,
//! the `""` of a text that is never left out. Times, bytes and quantities come out in their one form, and fields
//! in the order in which Go writes them. Decoding what was decoded changes nothing, so it also serves to bring
//! an object in shape after it was changed.

use compact_str::CompactString;

use crate::json::Duplicate;
use crate::schema::{Field, SchemaOr, Shape, Struct, TypeRef};
use crate::value::{Map, Value};

mod bytes;
mod error;
mod path;
mod scalar;
mod time;
mod written;

#[cfg(test)]
mod tests;

pub use error::{DecodeError, StrictError};
use path::{Path, Step};
pub use written::write_stored;

/// How many strict errors are named, as upstream bounds them.
pub const STRICT_ERRORS_MAX: usize = 100;

/// Bytes of paths after which no further strict error is named; the first is named however long its path is. A path
/// contains the keys of maps, and can be as long as the body.
pub const STRICT_BYTES_MAX: usize = 1 << 20;

/// An object as its schema has it, and what it said beyond that.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The object.
    pub value: Value,
    /// Fields that the schema does not know and fields that came twice, in the order they were met.
    pub strict: Vec<StrictError>,
    /// Whether the value still has empty lists or maps that are not stored; see [`Keep`].
    pub hollow: bool,
}

/// Decodes a value against a definition. `duplicates` are what the parser found.
///
/// # Errors
/// If a value has the wrong type, in the words of Go's decoder. The first one counts.
pub fn decode(value: Value, of: Struct<'_>, duplicates: &[Duplicate]) -> Result<Decoded, DecodeError> {
    let walk = Walk { duplicates, ..Walk::default() };
    walk.run(value, of)
}

/// Which empty lists and maps are kept, though they are not stored. Each sort speaks to somebody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// Those that would be written as null: they say who owns what. So does an empty `managedFields`.
    pub shown: bool,
    /// Those that rules tell from absent ones, as no policies at all from those that nobody named.
    pub counted: bool,
}

/// Decodes what a client sent, and keeps all emptiness that speaks to somebody. [`Decoded::hollow`] tells whether there
/// was any; [`decode_keeping`] takes it out again.
///
/// # Errors
/// As [`decode`].
pub fn decode_sent(value: Value, of: Struct<'_>, duplicates: &[Duplicate]) -> Result<Decoded, DecodeError> {
    let walk = Walk { duplicates, keep: Keep { shown: true, counted: true }, ..Walk::default() };
    walk.run(value, of)
}

/// Decodes a value and keeps some emptiness.
///
/// # Errors
/// As [`decode`].
pub fn decode_keeping(value: Value, of: Struct<'_>, keep: Keep) -> Result<Decoded, DecodeError> {
    let walk = Walk { keep, ..Walk::default() };
    walk.run(value, of)
}

/// The list whose emptiness says that nobody is to own anything.
const MANAGED_FIELDS: &str = "managedFields";

impl Walk<'_> {
    fn run(mut self, mut value: Value, of: Struct<'_>) -> Result<Decoded, DecodeError> {
        let root = Path::root();
        match &mut value {
            Value::Map(map) => self.fields(map, of, &root)?,
            Value::Null => value = zero_struct(of),
            other => {
                let go = format!("{}.{}", of.version(), of.name());
                return Err(root.type_error(other.type_name().to_owned(), &go));
            }
        }
        Ok(Decoded { value, strict: self.strict, hollow: self.hollow })
    }
}

/// A value of a type in its shape; nothing where it cannot be one.
fn in_shape(mut value: Value, ty: TypeRef<'_>) -> Value {
    let mut walk = Walk { quiet: true, ..Walk::default() };
    match walk.value(&mut value, ty, &Path::root()) {
        Ok(()) => value,
        Err(_) => Value::Null,
    }
}

/// The state of one run.
#[derive(Default)]
struct Walk<'a> {
    duplicates: &'a [Duplicate],
    strict: Vec<StrictError>,
    /// Bytes of their paths.
    strict_bytes: usize,
    /// Places of the fields of all objects on the way down, so that no object needs a vector of its own.
    ranks: Vec<usize>,
    /// Inside a value that Go decodes apart, without strict errors.
    quiet: bool,
    /// Which emptiness is kept.
    keep: Keep,
    /// Whether some was.
    hollow: bool,
}

impl Walk<'_> {
    /// Decodes the fields of an object in place.
    fn fields(&mut self, map: &mut Map, of: Struct<'_>, path: &Path<'_>) -> Result<(), DecodeError> {
        let mut entries = std::mem::take(map).into_entries();
        let first = self.ranks.len();
        let mut kept = 0;
        for at in 0..entries.len() {
            self.note_duplicates(at, path, |key| of.field(key).is_some());
            let (key, value) = &mut entries[at];
            let Some(rank) = of.position(key) else {
                self.note(path, |path| StrictError::Unknown { path: path.child(key) });
                continue;
            };
            let field = of.field_at(rank);
            if self.field(value, field, &path.then(Step::Field { of, field }))? {
                if kept < at {
                    entries.swap(kept, at);
                }
                kept += 1;
                self.ranks.push(rank);
            }
        }
        self.note_duplicates(entries.len(), path, |key| of.field(key).is_some());
        entries.truncate(kept);
        for rank in of.always_written() {
            if !self.ranks[first..].contains(&rank) {
                let field = of.field_at(rank);
                entries.push((CompactString::from(field.name()), zero_field(field)));
                self.ranks.push(rank);
            }
        }
        sort_by_rank(&mut entries, &mut self.ranks[first..]);
        self.ranks.truncate(first);
        *map = Map::from_unique(entries);
        Ok(())
    }

    /// Decodes the value of a field, and says whether it is to be kept.
    fn field(&mut self, value: &mut Value, field: Field<'_>, path: &Path<'_>) -> Result<bool, DecodeError> {
        if value.is_null() {
            return Ok(false);
        }
        let ty = field.ty();
        self.value(value, ty, path)?;
        if field.is_pointer() {
            return Ok(!value.is_null());
        }
        match ty.shape() {
            Shape::List(_) | Shape::Map(_) if value.is_empty() => {
                let is_shown = !field.omits_empty() || field.name() == MANAGED_FIELDS;
                if self.keep.shown && is_shown || self.keep.counted && field.counts_empty() {
                    self.hollow = true;
                    return Ok(true);
                }
                // A list without items is stored as none, and none is shown as null.
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
    fn value(&mut self, value: &mut Value, ty: TypeRef<'_>, path: &Path<'_>) -> Result<(), DecodeError> {
        match (ty.shape(), &mut *value) {
            (Shape::Struct(of), Value::Map(map)) => self.fields(map, of, path),
            (Shape::Map(of), Value::Map(map)) => self.map(map, of, path),
            (Shape::List(of), Value::List(list)) => self.list(list, of, path),
            (Shape::SchemaOr(or, schema), _) => self.schema_or(value, or, schema, path),
            (Shape::Fields | Shape::Raw | Shape::Any, _) => Ok(()),
            // What was left as it is stored was decoded before it was stored. No client can send such.
            (_, Value::Raw(_)) => Ok(()),
            _ => scalar::decode(value, ty, path),
        }
    }

    fn map(&mut self, map: &mut Map, of: TypeRef<'_>, path: &Path<'_>) -> Result<(), DecodeError> {
        let count = map.len();
        for (at, (key, value)) in map.iter_mut().enumerate() {
            self.note_duplicates(at, path, |_| true);
            if value.is_null() {
                *value = zero_item(of);
            } else {
                self.value(value, of, &path.then(Step::Key(key)))?;
            }
        }
        self.note_duplicates(count, path, |_| true);
        // Go writes the keys of a map in order.
        map.sort();
        Ok(())
    }

    fn list(&mut self, list: &mut [Value], of: TypeRef<'_>, path: &Path<'_>) -> Result<(), DecodeError> {
        for (index, value) in list.iter_mut().enumerate() {
            if value.is_null() {
                *value = zero_item(of);
            } else {
                self.value(value, of, &path.then(Step::Index(index)))?;
            }
        }
        Ok(())
    }

    /// Decodes a JSON schema, or what may stand in its place. Anything else reads as nothing, but where a truth
    /// value may stand.
    fn schema_or(
        &mut self,
        value: &mut Value,
        or: SchemaOr,
        schema: TypeRef<'_>,
        path: &Path<'_>,
    ) -> Result<(), DecodeError> {
        let outer = std::mem::replace(&mut self.quiet, true);
        match (or, &mut *value) {
            (_, Value::Map(_)) => self.value(value, schema, path)?,
            (SchemaOr::Bool, Value::Bool(_)) => {}
            (SchemaOr::Bool, _) => return Err(DecodeError::SchemaOrBool),
            (SchemaOr::Array, Value::List(list)) if !list.is_empty() => self.list(list, schema, path)?,
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

    fn note(&mut self, path: &Path<'_>, error: impl FnOnce(&Path<'_>) -> StrictError) {
        let has_room = self.strict.len() < STRICT_ERRORS_MAX && self.strict_bytes < STRICT_BYTES_MAX;
        if !self.quiet && has_room {
            let error = error(path);
            self.strict_bytes += error.path().len();
            self.strict.push(error);
        }
    }

    /// Notes the fields of the object at `path` that came again after `seen` others.
    fn note_duplicates(&mut self, seen: usize, path: &Path<'_>, is_known: impl Fn(&str) -> bool) {
        if self.quiet {
            return;
        }
        for found in self.duplicates.iter().filter(|found| found.before == seen && path.is(&found.parent)) {
            let error = StrictError::Duplicate { path: found.path() };
            // A field that comes a third time is named once, as upstream does.
            if is_known(&found.key) && !self.strict.contains(&error) {
                self.note(path, |_| error);
            }
        }
    }
}

/// Brings entries into the order of their ranks. They are few, and mostly nearly in order.
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

/// What Go writes for a field that nothing was said about.
pub(crate) fn zero_field(field: Field<'_>) -> Value {
    if field.is_pointer() { Value::Null } else { zero(field.ty()) }
}

/// What Go makes of a null among the items of a list or the values of a map.
fn zero_item(ty: TypeRef<'_>) -> Value {
    match ty.shape() {
        Shape::Bytes => Value::from(""),
        _ => zero(ty),
    }
}

fn zero(ty: TypeRef<'_>) -> Value {
    match ty.shape() {
        Shape::Struct(of) => zero_struct(of),
        Shape::String => Value::from(""),
        Shape::Int32 | Shape::Int64 | Shape::Double | Shape::IntOrString => Value::Int(0),
        Shape::Bool => Value::Bool(false),
        Shape::Quantity => Value::from("0"),
        _ => Value::Null,
    }
}

/// What Go writes for a struct that nothing was said about.
pub(crate) fn zero_struct(of: Struct<'_>) -> Value {
    let zero = |field: Field<'_>| (CompactString::from(field.name()), zero_field(field));
    Value::Map(Map::from_unique(of.always_written().map(|rank| zero(of.field_at(rank))).collect()))
}
