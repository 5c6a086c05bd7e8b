//! Storage encoder: normalizes and encodes an object in one pass.
//!
//! The output equals that of [`super::decode`] followed by [`json::write`], at half the cost: fields are written in
//! schema order and not sorted in the object. The object was decoded before, so scalars are not checked again.

use super::{decode_or_null, zero_field, zero_item};
use crate::json;
use crate::schema::{Field, Shape, Struct, TypeRef, builtin};
use crate::value::{Map, Value};

/// Appends the JSON of an object, with `kind` and `apiVersion` first and an empty `resourceVersion`. Returns the
/// offset at which the store inserts the digits of the `resourceVersion`; `None` if the value is no object, or its
/// kind has no `resourceVersion`.
pub fn write_stored(object: &Value, schema: Struct<'_>, out: &mut Vec<u8>) -> Option<u32> {
    let map = object.as_map()?;
    let mut writer = StoredWriter { out, order: Vec::with_capacity(64), revision_offset: None };
    writer.write_root(map, schema);
    writer.revision_offset
}

/// Appends the JSON of an object of a custom kind, as [`write_stored`] does: type fields first, then the metadata,
/// then all other fields in the order of their names.
pub fn write_stored_custom(object: &Value, out: &mut Vec<u8>) -> Option<u32> {
    let map = object.as_map()?;
    let mut writer = StoredWriter { out, order: Vec::with_capacity(16), revision_offset: None };
    writer.out.push(b'{');
    for key in TYPE_META_FIELDS {
        writer.write_key(key);
        json::write(map.get(key)?, writer.out);
    }
    writer.write_key("metadata");
    writer.write_metadata(map.get("metadata")?.as_map()?, builtin().meta("ObjectMeta")?);
    let mut rest: Vec<(&str, &Value)> =
        map.iter().filter(|(key, _)| *key != "metadata" && !TYPE_META_FIELDS.contains(key)).collect();
    rest.sort_unstable_by_key(|(key, _)| *key);
    for (key, value) in rest {
        writer.write_key(key);
        json::write(value, writer.out);
    }
    writer.out.push(b'}');
    writer.revision_offset
}

/// Fields of the `TypeMeta`.
const TYPE_META_FIELDS: [&str; 2] = ["kind", "apiVersion"];

/// A field to write: its rank in the struct, and its position in the map, if it is there.
type FieldSlot = (usize, Option<usize>);

struct StoredWriter<'o> {
    out: &'o mut Vec<u8>,
    /// Stack of the fields of all enclosing objects, so that no object allocates a vector of its own.
    order: Vec<FieldSlot>,
    /// Offset of the digits of the `resourceVersion`.
    revision_offset: Option<u32>,
}

impl StoredWriter<'_> {
    fn write_root(&mut self, map: &Map, schema: Struct<'_>) {
        self.out.push(b'{');
        for (field, value) in
            TYPE_META_FIELDS.iter().filter_map(|key| Some((schema.field(key)?, map.get(key)?)))
        {
            self.write_name(field);
            json::write(value, self.out);
        }
        self.for_each_field(map, schema, |writer, field, value| {
            if TYPE_META_FIELDS.contains(&field.name()) {
                return;
            }
            writer.write_name(field);
            match (field.name(), field.ty().shape(), value) {
                ("metadata", Shape::Struct(schema), Some(Value::Map(map))) => {
                    writer.write_metadata(map, schema)
                }
                _ => writer.write_field(field, value),
            }
        });
        self.out.push(b'}');
    }

    /// Writes metadata with an empty `resourceVersion`, and records its offset.
    fn write_metadata(&mut self, map: &Map, schema: Struct<'_>) {
        self.out.push(b'{');
        self.for_each_field(map, schema, |writer, field, value| {
            writer.write_name(field);
            if field.name() == "resourceVersion" {
                writer.out.push(b'"');
                writer.revision_offset = u32::try_from(writer.out.len()).ok();
                writer.out.push(b'"');
            } else {
                writer.write_field(field, value);
            }
        });
        self.out.push(b'}');
    }

    fn write_fields(&mut self, map: &Map, schema: Struct<'_>) {
        self.out.push(b'{');
        self.for_each_field(map, schema, |writer, field, value| {
            writer.write_name(field);
            writer.write_field(field, value);
        });
        self.out.push(b'}');
    }

    fn write_key(&mut self, key: &str) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        json::write_str(key, self.out);
        self.out.push(b':');
    }

    fn write_name(&mut self, field: Field<'_>) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        self.out.extend_from_slice(field.quoted_name());
    }

    /// Calls `write` for each field to encode, in order, with its value if the object has one.
    fn for_each_field(
        &mut self,
        map: &Map,
        schema: Struct<'_>,
        mut write: impl FnMut(&mut Self, Field<'_>, Option<&Value>),
    ) {
        let first = self.order.len();
        for (at, (key, value)) in map.iter().enumerate() {
            if let Some(rank) = schema.position(key)
                && is_kept(value, schema.field_at(rank))
            {
                self.order.push((rank, Some(at)));
            }
        }
        for rank in schema.always_written() {
            if self.order[first..].iter().all(|(present, _)| *present != rank) {
                self.order.push((rank, None));
            }
        }
        let order = &mut self.order[first..];
        if !order.is_sorted() {
            order.sort_unstable();
        }
        for next in first..self.order.len() {
            let (rank, at) = self.order[next];
            write(self, schema.field_at(rank), at.map(|at| map.at(at).1));
        }
        self.order.truncate(first);
    }

    fn write_field(&mut self, field: Field<'_>, value: Option<&Value>) {
        match value {
            None => json::write(&zero_field(field), self.out),
            // An empty list is stored as absent, and an absent list is encoded as null.
            Some(value) if value.is_empty() && !field.is_pointer() && is_list_or_map(field) => {
                json::write(&Value::Null, self.out);
            }
            Some(value) => self.write_value(value, field.ty()),
        }
    }

    fn write_value(&mut self, value: &Value, ty: TypeRef<'_>) {
        if !matches!(value, Value::Map(_) | Value::List(_)) && !ty.is_schema_or() {
            return json::write(value, self.out);
        }
        match (value, ty.shape()) {
            (Value::Map(map), Shape::Struct(schema)) => self.write_fields(map, schema),
            (Value::Map(map), Shape::Map(item_type)) => self.write_map(map, item_type),
            (Value::List(list), Shape::List(item_type)) => {
                self.out.push(b'[');
                for (at, item) in list.iter().enumerate() {
                    if at > 0 {
                        self.out.push(b',');
                    }
                    self.write_item(item, item_type);
                }
                self.out.push(b']');
            }
            (_, Shape::SchemaOr(..)) => json::write(&decode_or_null(value.clone(), ty), self.out),
            _ => json::write(value, self.out),
        }
    }

    fn write_map(&mut self, map: &Map, item_type: TypeRef<'_>) {
        self.out.push(b'{');
        // Go encodes maps sorted by key.
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
            self.write_item(value, item_type);
        }
        self.order.truncate(first);
        self.out.push(b'}');
    }

    fn write_item(&mut self, item: &Value, item_type: TypeRef<'_>) {
        if item.is_null() {
            json::write(&zero_item(item_type), self.out);
        } else {
            self.write_value(item, item_type);
        }
    }
}

/// `true` if the value of a field is encoded.
fn is_kept(value: &Value, field: Field<'_>) -> bool {
    // Fast path: most values are not empty.
    if !value.is_empty() || field.is_pointer() || !field.omits_empty() {
        return !value.is_null() && !decodes_to_no_schema(value, field);
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
        _ => !value.is_null() && !decodes_to_no_schema(value, field),
    }
}

/// `true` if the field holds a JSON schema and the value decodes to null.
fn decodes_to_no_schema(value: &Value, field: Field<'_>) -> bool {
    field.ty().is_schema_or() && decode_or_null(value.clone(), field.ty()).is_null()
}

fn is_list_or_map(field: Field<'_>) -> bool {
    matches!(field.ty().shape(), Shape::List(_) | Shape::Map(_))
}
