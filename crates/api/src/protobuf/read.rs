//! Protobuf decoder: finds fields by number, merges repeated messages, and normalizes the result with
//! [`decode`](crate::decode::decode).

use compact_str::CompactString;

use super::wire::{Payload, Reader};
use super::{DEPTH_MAX, MAGIC, ProtoError, REPETITIONS_MAX, envelope};
use crate::base64;
use crate::json;
use crate::rfc3339;
use crate::schema::{Field, SchemaOr, Shape, Struct};
use crate::time::Time;
use crate::value::{Map, Value};

/// Initial capacity for fields; enough for most objects.
const ROOM: usize = 8;

/// State of one decoding pass over a message.
#[derive(Default)]
pub(super) struct Decoder {
    /// Number of repeated occurrences of messages.
    repetitions: usize,
}

/// Fields of a partially decoded object.
struct Fields {
    entries: Vec<(CompactString, Value)>,
    /// Entries of maps, each with the index of its field. Maps may be large, so they are built at the end.
    maps: Vec<(usize, Vec<(CompactString, Value)>)>,
}

impl Fields {
    fn position(&self, name: &str) -> Option<usize> {
        self.entries.iter().rposition(|(key, _)| key == name)
    }

    /// Index of a field, inserted with null if it is missing. `fresh` asserts that it is.
    fn slot(&mut self, name: &str, fresh: bool) -> usize {
        let found = if fresh { None } else { self.position(name) };
        found.unwrap_or_else(|| {
            self.entries.push((CompactString::from(name), Value::Null));
            self.entries.len() - 1
        })
    }

    /// Adds an entry to the map in a field.
    fn add(&mut self, index: usize, entry: (CompactString, Value)) {
        match self.maps.iter_mut().rfind(|(at, _)| *at == index) {
            Some((_, entries)) => entries.push(entry),
            None => {
                let mut entries = match self.entries[index].1.take() {
                    Value::Map(map) => map.into_entries(),
                    _ => Vec::new(),
                };
                entries.push(entry);
                self.maps.push((index, entries));
            }
        }
    }

    fn finish(mut self) -> Map {
        for (index, entries) in self.maps {
            self.entries[index].1 = Value::Map(Map::from_entries(entries).0);
        }
        Map::from_unique(self.entries)
    }
}

/// Meaning of a field number in a message.
enum Meaning<'a> {
    Field(Field<'a>),
    /// An embedded message, whose fields JSON inlines.
    Embedded,
    Unknown,
}

impl Decoder {
    /// Decodes a message; the value is not normalized yet.
    pub(super) fn message(
        &mut self,
        bytes: &[u8],
        schema: Struct<'_>,
        depth: usize,
    ) -> Result<Value, ProtoError> {
        let room = schema.len().min(ROOM);
        let mut fields = Fields { entries: Vec::with_capacity(room), maps: Vec::new() };
        self.fields(bytes, schema, &[], &mut fields, true, depth)?;
        Ok(Value::Map(fields.finish()))
    }

    /// Decodes the fields of a message, or of an embedded message.
    fn fields(
        &mut self,
        bytes: &[u8],
        schema: Struct<'_>,
        around: &[u8],
        fields: &mut Fields,
        fresh: bool,
        depth: usize,
    ) -> Result<(), ProtoError> {
        if depth > DEPTH_MAX {
            return Err(ProtoError::Depth);
        }
        let mut reader = Reader::new(bytes);
        let (mut cursor, mut highest) = (0, 0);
        while let Some((number, payload)) = reader.next()? {
            // Encoders write fields by ascending number, and then a field cannot exist yet.
            let fresh = fresh && number > highest;
            highest = highest.max(number);
            match meaning(schema, around, number, &mut cursor) {
                Meaning::Field(field) => self.field(payload, field, fields, fresh, depth)?,
                Meaning::Embedded => {
                    let Payload::Bytes(inner) = payload else { return Err(payload.mismatch(schema.name())) };
                    let mut deeper = around.to_vec();
                    deeper.push(number as u8);
                    self.fields(inner, schema, &deeper, fields, fresh, depth)?;
                }
                Meaning::Unknown => {}
            }
        }
        Ok(())
    }

    /// Decodes one occurrence of a field.
    fn field(
        &mut self,
        payload: Payload<'_>,
        field: Field<'_>,
        fields: &mut Fields,
        fresh: bool,
        depth: usize,
    ) -> Result<(), ProtoError> {
        let (ty, shape) = (field.ty(), field.ty().shape());
        if fresh && is_zero(payload, shape) && !field.is_pointer() {
            return Ok(());
        }
        let name = field.name();
        let index = fields.slot(name, fresh);
        match (shape, payload) {
            (Shape::List(item_type), payload) if !ty.is_wrapped() => {
                if !matches!(fields.entries[index].1, Value::List(_)) {
                    fields.entries[index].1 = Value::List(Vec::new());
                }
                if let Value::List(list) = &mut fields.entries[index].1 {
                    self.items(payload, item_type.shape(), name, list, depth + 1)?;
                }
            }
            (Shape::Map(item_type), Payload::Bytes(bytes)) => {
                let entry = self.entry(bytes, item_type.shape(), name, depth + 1)?;
                fields.add(index, entry);
            }
            (Shape::Struct(schema), Payload::Bytes(bytes)) => {
                let Value::Map(before) = fields.entries[index].1.take() else {
                    fields.entries[index].1 = self.message(bytes, schema, depth + 1)?;
                    return Ok(());
                };
                self.repetitions += 1;
                if self.repetitions > REPETITIONS_MAX {
                    return Err(ProtoError::Repetitions);
                }
                let mut inner = Fields { entries: before.into_entries(), maps: Vec::new() };
                self.fields(bytes, schema, &[], &mut inner, false, depth + 1)?;
                fields.entries[index].1 = Value::Map(inner.finish());
            }
            (shape, payload) => fields.entries[index].1 = self.value(payload, shape, name, depth + 1)?,
        }
        Ok(())
    }

    /// Decodes one list item, or packed numbers.
    fn items(
        &mut self,
        payload: Payload<'_>,
        item_shape: Shape<'_>,
        name: &str,
        list: &mut Vec<Value>,
        depth: usize,
    ) -> Result<(), ProtoError> {
        let numbers = matches!(item_shape, Shape::Int32 | Shape::Int64 | Shape::Bool | Shape::Double);
        match payload {
            Payload::Bytes(bytes) if numbers => {
                let mut reader = Reader::new(bytes);
                while !reader.is_empty() {
                    let payload = match item_shape {
                        Shape::Double => Payload::Fixed64(reader.fixed64()?),
                        _ => Payload::Varint(reader.varint()?),
                    };
                    list.push(self.value(payload, item_shape, name, depth + 1)?);
                }
            }
            payload => list.push(self.value(payload, item_shape, name, depth + 1)?),
        }
        Ok(())
    }

    /// Decodes a map entry: its key, and its value or null.
    fn entry(
        &mut self,
        bytes: &[u8],
        item_shape: Shape<'_>,
        name: &str,
        depth: usize,
    ) -> Result<(CompactString, Value), ProtoError> {
        let mut reader = Reader::new(bytes);
        let (mut key, mut value) = (CompactString::default(), Value::Null);
        while let Some((number, payload)) = reader.next()? {
            match (number, payload) {
                (1, Payload::Bytes(bytes)) => key = text(bytes),
                (1, payload) => return Err(payload.mismatch(name)),
                (2, payload) => value = self.value(payload, item_shape, name, depth + 1)?,
                _ => {}
            }
        }
        Ok((key, value))
    }

    /// Decodes a value that is not merged from several occurrences.
    fn value(
        &mut self,
        payload: Payload<'_>,
        shape: Shape<'_>,
        name: &str,
        depth: usize,
    ) -> Result<Value, ProtoError> {
        Ok(match (shape, payload) {
            (Shape::String, Payload::Bytes(bytes)) => Value::Str(text(bytes)),
            (Shape::Bytes, Payload::Bytes(bytes)) => Value::from(base64::encode(bytes)),
            // Numbers that are too long lose their upper half, as in Go.
            (Shape::Int32, Payload::Varint(number)) => Value::from(number as i32),
            (Shape::Int64, Payload::Varint(number)) => Value::Int(number as i64),
            (Shape::Bool, Payload::Varint(number)) => Value::Bool(number != 0),
            (Shape::Double, Payload::Fixed64(bits)) => double(f64::from_bits(bits))?,
            (Shape::Struct(schema), Payload::Bytes(bytes)) => self.message(bytes, schema, depth)?,
            (Shape::List(item_type), Payload::Bytes(bytes)) => {
                self.wrapped(bytes, item_type.shape(), name, depth)?
            }
            (Shape::IntOrString, Payload::Bytes(bytes)) => int_or_string(bytes, name)?,
            (Shape::Quantity, Payload::Bytes(bytes)) => quantity(bytes, name)?,
            (Shape::Time, Payload::Bytes(bytes)) => time(bytes, name, false)?,
            (Shape::MicroTime, Payload::Bytes(bytes)) => time(bytes, name, true)?,
            (Shape::Fields | Shape::Raw | Shape::Any, Payload::Bytes(bytes)) => {
                self.raw(bytes, name, depth)?
            }
            (Shape::SchemaOr(or, schema), Payload::Bytes(bytes)) => {
                self.schema_or(bytes, or, schema.shape(), name, depth)?
            }
            (_, payload) => return Err(payload.mismatch(name)),
        })
    }

    /// Decodes a list that is a message of its own.
    fn wrapped(
        &mut self,
        bytes: &[u8],
        item_shape: Shape<'_>,
        name: &str,
        depth: usize,
    ) -> Result<Value, ProtoError> {
        let mut reader = Reader::new(bytes);
        let mut list = Vec::new();
        while let Some((number, payload)) = reader.next()? {
            if number == 1 {
                self.items(payload, item_shape, name, &mut list, depth)?;
            }
        }
        // Go does not distinguish an empty one from an absent one.
        Ok(if list.is_empty() { Value::Null } else { Value::List(list) })
    }

    /// Decodes a JSON schema or its alternative. A list takes precedence over a schema, a schema over a
    /// boolean.
    fn schema_or(
        &mut self,
        bytes: &[u8],
        or: SchemaOr,
        schema: Shape<'_>,
        name: &str,
        depth: usize,
    ) -> Result<Value, ProtoError> {
        let schema_number = if or == SchemaOr::Bool { 2 } else { 1 };
        let mut reader = Reader::new(bytes);
        let (mut found, mut list, mut allows) = (Value::Null, Vec::new(), false);
        while let Some((number, payload)) = reader.next()? {
            match (or, number, payload) {
                (_, number, payload) if number == schema_number => {
                    found = self.value(payload, schema, name, depth + 1)?;
                }
                (SchemaOr::Bool, 1, Payload::Varint(number)) => allows = number != 0,
                (SchemaOr::Array, 2, payload) => list.push(self.value(payload, schema, name, depth + 2)?),
                (SchemaOr::Strings, 2, Payload::Bytes(bytes)) => list.push(Value::Str(text(bytes))),
                (_, 1 | 2, payload) => return Err(payload.mismatch(name)),
                _ => {}
            }
        }
        Ok(match (or, found) {
            (SchemaOr::Bool, Value::Null) => Value::Bool(allows),
            (_, found) if list.is_empty() => found,
            _ => Value::List(list),
        })
    }

    /// Decodes an embedded JSON value, or an object in its own envelope.
    fn raw(&mut self, bytes: &[u8], name: &str, depth: usize) -> Result<Value, ProtoError> {
        let raw = only_bytes(bytes, name)?;
        if raw.is_empty() {
            return Ok(Value::Null);
        }
        if raw.starts_with(MAGIC) {
            let envelope = envelope::open(raw)?;
            let value = self.message(envelope.raw, envelope.definition()?, depth + 1)?;
            return envelope.shape(value);
        }
        let value = json::parse(raw).map_err(ProtoError::Json)?;
        if depth + levels(&value) > DEPTH_MAX { Err(ProtoError::Depth) } else { Ok(value) }
    }
}

/// Meaning of a number in a definition. Fields are usually in order, so the search continues where it ended.
fn meaning<'a>(schema: Struct<'a>, around: &[u8], number: u32, cursor: &mut usize) -> Meaning<'a> {
    let count = schema.len();
    for step in 0..count {
        let index = (*cursor + step) % count;
        let field = schema.field_at(index);
        let Some(own) = field.number() else { continue };
        let path = field.embedded_numbers();
        if path.len() == around.len() {
            if u32::from(own) == number && (around.is_empty() || path == around) {
                *cursor = index + 1;
                return Meaning::Field(field);
            }
        } else if path.len() > around.len()
            && u32::from(path[around.len()]) == number
            && path.starts_with(around)
        {
            *cursor = index;
            return Meaning::Embedded;
        }
    }
    Meaning::Unknown
}

/// `true` if an occurrence of a non-pointer field is its zero value. Go writes such fields, and most fields
/// of most objects are zero. Those that must be encoded are added at the end.
fn is_zero(payload: Payload<'_>, shape: Shape<'_>) -> bool {
    match payload {
        Payload::Varint(0) => matches!(shape, Shape::Int32 | Shape::Int64 | Shape::Bool),
        Payload::Bytes([]) => matches!(shape, Shape::String | Shape::Time | Shape::MicroTime),
        _ => false,
    }
}

/// Decodes a string. Go accepts any bytes and shows invalid UTF-8 as replacement characters.
fn text(bytes: &[u8]) -> CompactString {
    std::str::from_utf8(bytes).map_or_else(|_| CompactString::from_utf8_lossy(bytes), CompactString::from)
}

/// A double as in JSON: integral numbers become integers.
fn double(number: f64) -> Result<Value, ProtoError> {
    let mut written = Vec::new();
    json::write_float(number, &mut written);
    json::parse(&written).map_err(ProtoError::Json)
}

/// Last value of field 1, which holds bytes.
fn only_bytes<'a>(bytes: &'a [u8], name: &str) -> Result<&'a [u8], ProtoError> {
    let mut reader = Reader::new(bytes);
    let mut found = &[][..];
    while let Some((number, payload)) = reader.next()? {
        match (number, payload) {
            (1, Payload::Bytes(bytes)) => found = bytes,
            (1, payload) => return Err(payload.mismatch(name)),
            _ => {}
        }
    }
    Ok(found)
}

/// Decodes a quantity; an empty one is zero.
fn quantity(bytes: &[u8], name: &str) -> Result<Value, ProtoError> {
    Ok(if bytes.is_empty() { Value::from("0") } else { Value::Str(text(only_bytes(bytes, name)?)) })
}

/// Decodes an integer or a string, depending on the type field.
fn int_or_string(bytes: &[u8], name: &str) -> Result<Value, ProtoError> {
    let mut reader = Reader::new(bytes);
    let (mut kind, mut number, mut string) = (0, 0, CompactString::default());
    while let Some(field) = reader.next()? {
        match field {
            (1, Payload::Varint(value)) => kind = value,
            (2, Payload::Varint(value)) => number = value as i32,
            (3, Payload::Bytes(value)) => string = text(value),
            (1..=3, payload) => return Err(payload.mismatch(name)),
            _ => {}
        }
    }
    match kind {
        0 => Ok(Value::from(number)),
        1 => Ok(Value::Str(string)),
        _ => Err(ProtoError::IntOrString),
    }
}

/// Decodes a timestamp; null for an empty message. Truncated to the precision of JSON.
fn time(bytes: &[u8], name: &str, micros: bool) -> Result<Value, ProtoError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let mut reader = Reader::new(bytes);
    let (mut seconds, mut nanos) = (0, 0);
    while let Some(field) = reader.next()? {
        match field {
            (1, Payload::Varint(value)) => seconds = value as i64,
            (2, Payload::Varint(value)) => nanos = value as i32,
            (1 | 2, payload) => return Err(payload.mismatch(name)),
            _ => {}
        }
    }
    let time = Time::from_seconds(seconds);
    Ok(if micros {
        let time = Time(time.0.saturating_add(i64::from(nanos / 1000)));
        Value::from(rfc3339::Micros(time).to_string())
    } else {
        Value::from(rfc3339::Seconds(time).to_string())
    })
}

/// Levels of nested objects and arrays.
fn levels(value: &Value) -> usize {
    match value {
        Value::List(list) => 1 + list.iter().map(levels).max().unwrap_or(0),
        Value::Map(map) => 1 + map.iter().map(|(_, value)| levels(value)).max().unwrap_or(0),
        _ => 0,
    }
}
