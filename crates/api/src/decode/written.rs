//! A decoded object that was changed by code of ours, written as [`super::decode`] would have it, in one walk.
//!
//! To bring an object in shape before it is written costs as much as to write it. Here the fields go out in their order
//! straight from where they are, and nothing is moved. Texts and numbers are taken as they are, for they have been
//! looked at.

use super::{in_shape, zero_field, zero_item};
use crate::json;
use crate::schema::{Field, Shape, Struct, TypeRef};
use crate::value::{Map, Value};

/// Appends the JSON of an object with its type first, and says where the digits of its revision go: they are left out.
/// None if it is no object, or has no field for a revision.
pub fn write_stored(object: &Value, of: Struct<'_>, out: &mut Vec<u8>) -> Option<u32> {
    let map = object.as_map()?;
    let mut writing = Writing { out, order: Vec::with_capacity(64), hole: None };
    writing.root(map, of);
    writing.hole
}

/// The fields that name the type of an object.
const TYPE: [&str; 2] = ["kind", "apiVersion"];

/// A field to write: its place in the order of the struct, and its place in the map; none for one that is not in it.
type Place = (usize, Option<usize>);

struct Writing<'o> {
    out: &'o mut Vec<u8>,
    /// Places of the fields of all objects on the way down, so that no object needs a vector of its own.
    order: Vec<Place>,
    hole: Option<u32>,
}

impl Writing<'_> {
    fn root(&mut self, map: &Map, of: Struct<'_>) {
        self.out.push(b'{');
        for (field, value) in TYPE.iter().filter_map(|key| Some((of.field(key)?, map.get(key)?))) {
            self.name(field);
            json::write(value, self.out);
        }
        self.each(map, of, |writing, field, value| {
            if TYPE.contains(&field.name()) {
                return;
            }
            writing.name(field);
            match (field.name(), field.ty().shape(), value) {
                ("metadata", Shape::Struct(of), Some(Value::Map(map))) => writing.metadata(map, of),
                _ => writing.field(field, value),
            }
        });
        self.out.push(b'}');
    }

    /// Writes metadata without the digits of the revision.
    fn metadata(&mut self, map: &Map, of: Struct<'_>) {
        self.out.push(b'{');
        self.each(map, of, |writing, field, value| {
            writing.name(field);
            if field.name() == "resourceVersion" {
                writing.out.push(b'"');
                writing.hole = u32::try_from(writing.out.len()).ok();
                writing.out.push(b'"');
            } else {
                writing.field(field, value);
            }
        });
        self.out.push(b'}');
    }

    fn fields(&mut self, map: &Map, of: Struct<'_>) {
        self.out.push(b'{');
        self.each(map, of, |writing, field, value| {
            writing.name(field);
            writing.field(field, value);
        });
        self.out.push(b'}');
    }

    fn name(&mut self, field: Field<'_>) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        self.out.extend_from_slice(field.quoted_name());
    }

    /// Calls `write` for each field that is to be written, in order, with its value if the object has it.
    fn each(
        &mut self,
        map: &Map,
        of: Struct<'_>,
        mut write: impl FnMut(&mut Self, Field<'_>, Option<&Value>),
    ) {
        let first = self.order.len();
        for (at, (key, value)) in map.iter().enumerate() {
            if let Some(rank) = of.position(key)
                && is_kept(value, of.field_at(rank))
            {
                self.order.push((rank, Some(at)));
            }
        }
        for rank in of.always_written() {
            if self.order[first..].iter().all(|(there, _)| *there != rank) {
                self.order.push((rank, None));
            }
        }
        let order = &mut self.order[first..];
        if !order.is_sorted() {
            order.sort_unstable();
        }
        for next in first..self.order.len() {
            let (rank, at) = self.order[next];
            write(self, of.field_at(rank), at.map(|at| map.at(at).1));
        }
        self.order.truncate(first);
    }

    fn field(&mut self, field: Field<'_>, value: Option<&Value>) {
        match value {
            None => json::write(&zero_field(field), self.out),
            // A list without items is stored as none, and none is shown as null.
            Some(value) if value.is_empty() && !field.is_pointer() && is_list_or_map(field) => {
                json::write(&Value::Null, self.out);
            }
            Some(value) => self.value(value, field.ty()),
        }
    }

    fn value(&mut self, value: &Value, ty: TypeRef<'_>) {
        if !matches!(value, Value::Map(_) | Value::List(_)) && !ty.is_schema_or() {
            return json::write(value, self.out);
        }
        match (value, ty.shape()) {
            (Value::Map(map), Shape::Struct(of)) => self.fields(map, of),
            (Value::Map(map), Shape::Map(of)) => self.map(map, of),
            (Value::List(list), Shape::List(of)) => {
                self.out.push(b'[');
                for (at, item) in list.iter().enumerate() {
                    if at > 0 {
                        self.out.push(b',');
                    }
                    self.item(item, of);
                }
                self.out.push(b']');
            }
            (_, Shape::SchemaOr(..)) => json::write(&in_shape(value.clone(), ty), self.out),
            _ => json::write(value, self.out),
        }
    }

    fn map(&mut self, map: &Map, of: TypeRef<'_>) {
        self.out.push(b'{');
        // Go writes the keys of a map in order.
        let first = self.order.len();
        self.order.extend((0..map.len()).map(|at| (at, None)));
        if !map.keys().is_sorted() {
            self.order[first..].sort_unstable_by(|a, b| map.at(a.0).0.cmp(map.at(b.0).0));
        }
        for next in first..self.order.len() {
            let at = self.order[next].0;
            if next > first {
                self.out.push(b',');
            }
            let (key, value) = map.at(at);
            json::write_str(key, self.out);
            self.out.push(b':');
            self.item(value, of);
        }
        self.order.truncate(first);
        self.out.push(b'}');
    }

    fn item(&mut self, item: &Value, of: TypeRef<'_>) {
        if item.is_null() {
            json::write(&zero_item(of), self.out);
        } else {
            self.value(item, of);
        }
    }
}

/// Whether a value of a field is written at all.
fn is_kept(value: &Value, field: Field<'_>) -> bool {
    // Most values say something.
    if !value.is_empty() || field.is_pointer() || !field.omits_empty() {
        return !value.is_null() && !is_no_schema(value, field);
    }
    match field.ty().shape() {
        Shape::List(_)
        | Shape::Map(_)
        | Shape::String
        | Shape::Bytes
        | Shape::Int32
        | Shape::Int64
        | Shape::Double
        | Shape::Bool => false,
        _ => !value.is_null() && !is_no_schema(value, field),
    }
}

/// Whether a value stands where a schema should and reads as nothing.
fn is_no_schema(value: &Value, field: Field<'_>) -> bool {
    field.ty().is_schema_or() && in_shape(value.clone(), field.ty()).is_null()
}

fn is_list_or_map(field: Field<'_>) -> bool {
    matches!(field.ty().shape(), Shape::List(_) | Shape::Map(_))
}
