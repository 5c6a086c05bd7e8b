//! Protobuf encoder with the bytes of Go: ascending field numbers, zero values of non-pointer numbers and
//! strings, and sorted map keys.

use super::wire::{close, open, payload, write_bytes, write_number, write_tag, write_varint};
use crate::base64;
use crate::json;
use crate::rfc3339;
use crate::schema::{Field, SchemaOr, Shape, Struct, TypeRef};
use crate::time::Time;
use crate::value::{Map, Value};

const MICROS_PER_SECOND: i64 = 1_000_000;

/// State of one encoding pass.
pub(super) struct Encoder<'v, 's, 'o> {
    out: &'o mut Vec<u8>,
    /// Stack of the fields of all enclosing messages, so that no message allocates a vector of its own.
    slots: Vec<Slot<'v, 's>>,
}

/// A field of a message and its value.
#[derive(Clone, Copy)]
struct Slot<'v, 's> {
    /// Field numbers of the enclosing embedded messages and of the field itself, from the upper bits down; 0
    /// for fields without a protobuf number.
    path: u64,
    field: Field<'s>,
    value: Option<&'v Value>,
}

impl Slot<'_, '_> {
    fn number(self, level: u32) -> u32 {
        (self.path >> (48 - 16 * level)) as u32 & 0xffff
    }

    fn is_deeper(self, level: u32) -> bool {
        self.path.checked_shl(16 * (level + 1)).is_some_and(|rest| rest != 0)
    }
}

impl<'v, 's, 'o> Encoder<'v, 's, 'o> {
    pub(super) fn new(out: &'o mut Vec<u8>) -> Encoder<'v, 's, 'o> {
        Encoder { out, slots: Vec::with_capacity(128) }
    }

    /// Appends the fields of a message. A value that is no object has no fields.
    pub(super) fn message(&mut self, value: Option<&'v Value>, schema: Struct<'s>) {
        let first = self.slots.len();
        self.slots.extend(schema.fields().map(|field| Slot { path: path(field), field, value: None }));
        if let Some(Value::Map(map)) = value {
            fill_slots(&mut self.slots[first..], map);
        }
        let end = self.slots.len();
        let slots = &mut self.slots[first..];
        if !slots.is_sorted_by_key(|slot| slot.path) {
            slots.sort_unstable_by_key(|slot| slot.path);
        }
        let skipped = slots.iter().take_while(|slot| slot.path == 0).count();
        self.fields(first + skipped, end, 0);
        self.slots.truncate(first);
    }

    /// Appends the fields in some slots; those in a common embedded message go into it.
    fn fields(&mut self, mut at: usize, end: usize, level: u32) {
        while at < end {
            let slot = self.slots[at];
            if slot.is_deeper(level) {
                let number = slot.number(level);
                let rest = &self.slots[at..end];
                let count = rest.iter().take_while(|slot| slot.number(level) == number).count();
                let start = open(number, self.out);
                self.fields(at, at + count, level + 1);
                close(start, self.out);
                at += count;
            } else {
                // Nil pointers are not written.
                if slot.value.is_some() || !slot.field.is_pointer() {
                    self.field(slot.number(level), slot.value, slot.field.ty());
                }
                at += 1;
            }
        }
    }

    fn field(&mut self, number: u32, value: Option<&'v Value>, ty: TypeRef<'s>) {
        match (ty.shape(), value) {
            (Shape::List(item_type), Some(Value::List(list))) if !ty.is_wrapped() => {
                for item in list {
                    self.value(number, Some(item), item_type);
                }
            }
            (Shape::Map(item_type), Some(Value::Map(map))) => self.map(number, map, item_type),
            // Go writes nothing for a nil list, map or byte slice, and zero for all else.
            (Shape::List(_) | Shape::Map(_) | Shape::Bytes, None) => {}
            (_, value) => self.value(number, value, ty),
        }
    }

    fn map(&mut self, number: u32, map: &'v Map, item_type: TypeRef<'s>) {
        let mut entries: Vec<(&str, &Value)> = map.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        for (key, value) in entries {
            let start = open(number, self.out);
            write_bytes(1, key.as_bytes(), self.out);
            self.value(2, Some(value), item_type);
            close(start, self.out);
        }
    }

    /// Appends a field with a value, or with zero if the value is absent or of the wrong type.
    fn value(&mut self, number: u32, value: Option<&'v Value>, ty: TypeRef<'s>) {
        match ty.shape() {
            Shape::String => {
                write_bytes(number, value.and_then(Value::as_str).unwrap_or_default().as_bytes(), self.out);
            }
            Shape::Int32 | Shape::Int64 => {
                let integer = value.and_then(Value::as_i64).unwrap_or_default();
                write_number(number, integer as u64, self.out);
            }
            Shape::Bool => {
                let truth = value.and_then(Value::as_bool).unwrap_or_default();
                write_number(number, truth.into(), self.out);
            }
            Shape::Double => {
                write_tag(number, payload::FIXED64, self.out);
                let double = match value {
                    Some(Value::Float(double)) => *double,
                    Some(Value::Int(integer)) => *integer as f64,
                    _ => 0.0,
                };
                self.out.extend_from_slice(&double.to_le_bytes());
            }
            _ => {
                let start = open(number, self.out);
                self.content(value, ty);
                close(start, self.out);
            }
        }
    }

    /// Appends the content of a length-delimited field.
    fn content(&mut self, value: Option<&'v Value>, ty: TypeRef<'s>) {
        let text = value.and_then(Value::as_str);
        match ty.shape() {
            Shape::Struct(schema) => self.message(value, schema),
            Shape::Bytes => base64::decode_into(text.unwrap_or_default(), self.out),
            Shape::List(item_type) => {
                for item in value.and_then(Value::as_list).unwrap_or_default() {
                    self.value(1, Some(item), item_type);
                }
            }
            Shape::Quantity => write_bytes(1, text.unwrap_or("0").as_bytes(), self.out),
            Shape::Time => time(text, false, self.out),
            Shape::MicroTime => time(text, true, self.out),
            Shape::IntOrString => int_or_string(value, self.out),
            Shape::Fields | Shape::Raw | Shape::Any => raw(value, self.out),
            Shape::SchemaOr(or, schema) => self.schema_or(value, or, schema),
            // These are not length-delimited, or occur as fields only.
            Shape::Map(_) | Shape::String | Shape::Int32 | Shape::Int64 | Shape::Bool | Shape::Double => {}
        }
    }

    fn schema_or(&mut self, value: Option<&'v Value>, or: SchemaOr, schema: TypeRef<'s>) {
        match (or, value) {
            (SchemaOr::Bool, Some(Value::Map(_))) => {
                write_number(1, 1, self.out);
                self.value(2, value, schema);
            }
            (SchemaOr::Bool, value) => {
                write_number(1, value.and_then(Value::as_bool).unwrap_or_default().into(), self.out);
            }
            (_, Some(Value::Map(_))) => self.value(1, value, schema),
            (SchemaOr::Array, Some(Value::List(list))) => {
                for item in list {
                    self.value(2, Some(item), schema);
                }
            }
            (SchemaOr::Strings, Some(Value::List(list))) => {
                for item in list {
                    write_bytes(2, item.as_str().unwrap_or_default().as_bytes(), self.out);
                }
            }
            _ => {}
        }
    }
}

/// Finds the values of fields. These are usually in schema order, so each search continues where the previous
/// one ended.
fn fill_slots<'v>(slots: &mut [Slot<'v, '_>], map: &'v Map) {
    let mut cursor = 0;
    for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
        let mut places = (cursor..slots.len()).chain(0..cursor);
        if let Some(found) = places.find(|place| slots[*place].field.name() == key) {
            slots[found].value = Some(value);
            cursor = found + 1;
        }
    }
}

fn path(field: Field<'_>) -> u64 {
    let Some(number) = field.number() else { return 0 };
    let around = field.embedded_numbers();
    debug_assert!(around.len() < 4, "a path has at most four numbers");
    let own = u64::from(number) << (48 - 16 * around.len());
    around.iter().enumerate().fold(own, |path, (at, number)| path | u64::from(*number) << (48 - 16 * at))
}

fn time(text: Option<&str>, micros: bool, out: &mut Vec<u8>) {
    let parse = if micros { rfc3339::parse_micros } else { rfc3339::parse };
    let Some(Time(time)) = text.and_then(|text| parse(text).ok()).filter(|time| *time != rfc3339::UNSET)
    else {
        return;
    };
    write_number(1, time.div_euclid(MICROS_PER_SECOND) as u64, out);
    let nanos = if micros { time.rem_euclid(MICROS_PER_SECOND) * 1000 } else { 0 };
    write_number(2, nanos as u64, out);
}

fn int_or_string(value: Option<&Value>, out: &mut Vec<u8>) {
    let text = value.and_then(Value::as_str);
    write_number(1, text.is_some().into(), out);
    write_number(2, value.and_then(Value::as_i64).unwrap_or_default() as u64, out);
    write_bytes(3, text.unwrap_or_default().as_bytes(), out);
}

/// Encodes an embedded JSON value; empty for null.
fn raw(value: Option<&Value>, out: &mut Vec<u8>) {
    if let Some(value) = value.filter(|value| !value.is_null()) {
        let start = open(1, out);
        json::write(value, out);
        close(start, out);
    }
}

/// Appends tag and length of a field of bytes, for callers that frame messages.
pub(super) fn write_head(number: u32, len: usize, out: &mut Vec<u8>) {
    write_tag(number, payload::BYTES, out);
    write_varint(len as u64, out);
}
