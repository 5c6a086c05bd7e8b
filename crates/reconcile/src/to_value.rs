//! Serializer from structs to [`Value`]: equal to parsing their JSON, without producing it.

use std::fmt::Display;

use serde::ser::{
    Error as _, Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeTuple,
    Serializer,
};
use setpoint_api::Value;
use thiserror::Error;

/// Error for a type that has no form as a [`Value`], such as bytes or an enum variant with fields.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct ToValueError(String);

impl serde::ser::Error for ToValueError {
    fn custom<T: Display>(message: T) -> ToValueError {
        ToValueError(message.to_string())
    }
}

type Result<T = Value> = std::result::Result<T, ToValueError>;

/// Serializes to a value.
pub(crate) fn to_value(part: &(impl Serialize + ?Sized)) -> Result {
    part.serialize(ToValue)
}

fn unsupported<T>(type_name: &str) -> Result<T> {
    Err(ToValueError(format!("cannot serialize {type_name} to a value")))
}

struct ToValue;

/// Serializer of a list.
struct ListSerializer(Vec<Value>);

/// Serializer of a map, with the key of the next value.
struct MapSerializer {
    entries: Vec<(String, Value)>,
    key: Option<String>,
}

/// Serializer of a struct.
struct StructSerializer(Vec<(&'static str, Value)>);

impl Serializer for ToValue {
    type Ok = Value;
    type Error = ToValueError;
    type SerializeSeq = ListSerializer;
    type SerializeTuple = ListSerializer;
    type SerializeTupleStruct = Impossible<Value, ToValueError>;
    type SerializeTupleVariant = Impossible<Value, ToValueError>;
    type SerializeMap = MapSerializer;
    type SerializeStruct = StructSerializer;
    type SerializeStructVariant = Impossible<Value, ToValueError>;

    fn serialize_bool(self, flag: bool) -> Result {
        Ok(Value::Bool(flag))
    }

    fn serialize_i8(self, number: i8) -> Result {
        Ok(Value::Int(number.into()))
    }

    fn serialize_i16(self, number: i16) -> Result {
        Ok(Value::Int(number.into()))
    }

    fn serialize_i32(self, number: i32) -> Result {
        Ok(Value::Int(number.into()))
    }

    fn serialize_i64(self, number: i64) -> Result {
        Ok(Value::Int(number))
    }

    fn serialize_u8(self, number: u8) -> Result {
        Ok(Value::Int(number.into()))
    }

    fn serialize_u16(self, number: u16) -> Result {
        Ok(Value::Int(number.into()))
    }

    fn serialize_u32(self, number: u32) -> Result {
        Ok(Value::Int(number.into()))
    }

    fn serialize_u64(self, number: u64) -> Result {
        i64::try_from(number).map(Value::Int).map_err(ToValueError::custom)
    }

    fn serialize_f32(self, number: f32) -> Result {
        self.serialize_f64(number.into())
    }

    fn serialize_f64(self, number: f64) -> Result {
        Ok(if number.is_finite() { Value::Float(number) } else { Value::Null })
    }

    fn serialize_char(self, character: char) -> Result {
        self.serialize_str(character.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, text: &str) -> Result {
        Ok(Value::from(text))
    }

    fn serialize_bytes(self, _: &[u8]) -> Result {
        unsupported("bytes")
    }

    fn serialize_none(self) -> Result {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result {
        Ok(Value::Null)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result {
        Ok(Value::Null)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result {
        Ok(Value::from(variant))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: &T,
    ) -> Result {
        unsupported(variant)
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<ListSerializer> {
        Ok(ListSerializer(Vec::with_capacity(len.unwrap_or(0))))
    }

    fn serialize_tuple(self, len: usize) -> Result<ListSerializer> {
        Ok(ListSerializer(Vec::with_capacity(len)))
    }

    fn serialize_tuple_struct(self, name: &'static str, _: usize) -> Result<Self::SerializeTupleStruct> {
        unsupported(name)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant> {
        unsupported(variant)
    }

    fn serialize_map(self, len: Option<usize>) -> Result<MapSerializer> {
        Ok(MapSerializer { entries: Vec::with_capacity(len.unwrap_or(0)), key: None })
    }

    fn serialize_struct(self, _: &'static str, len: usize) -> Result<StructSerializer> {
        Ok(StructSerializer(Vec::with_capacity(len)))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant> {
        unsupported(variant)
    }
}

impl SerializeSeq for ListSerializer {
    type Ok = Value;
    type Error = ToValueError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.0.push(to_value(value)?);
        Ok(())
    }

    fn end(self) -> Result {
        Ok(Value::List(self.0))
    }
}

impl SerializeTuple for ListSerializer {
    type Ok = Value;
    type Error = ToValueError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Result {
        SerializeSeq::end(self)
    }
}

impl SerializeMap for MapSerializer {
    type Ok = Value;
    type Error = ToValueError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        self.key = Some(match to_value(key)? {
            Value::Str(text) => text.into(),
            Value::Int(number) => number.to_string(),
            _ => return unsupported("a key that is neither a string nor an integer"),
        });
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        let Some(key) = self.key.take() else { return unsupported("a value without a key") };
        self.entries.push((key, to_value(value)?));
        Ok(())
    }

    fn end(self) -> Result {
        Ok(Value::Map(self.entries.into_iter().collect()))
    }
}

impl SerializeStruct for StructSerializer {
    type Ok = Value;
    type Error = ToValueError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<()> {
        self.0.push((name, to_value(value)?));
        Ok(())
    }

    fn end(self) -> Result {
        Ok(Value::Map(self.0.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use setpoint_api::json;

    use super::*;

    #[derive(serde::Serialize)]
    struct Everything {
        flag: bool,
        small: i32,
        large: u64,
        part: f64,
        variant: UnitVariant,
        one: char,
        nothing: Option<i64>,
        unit: (),
        pair: [i64; 2],
        some: Option<Vec<IntOrString>>,
        map: BTreeMap<String, i64>,
        by_number: BTreeMap<u8, String>,
        conditions: Vec<Condition>,
    }

    #[derive(serde::Serialize)]
    enum UnitVariant {
        Yes,
    }

    #[derive(serde::Serialize)]
    #[serde(untagged)]
    enum IntOrString {
        Int(i64),
        Text(String),
    }

    #[derive(serde::Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Condition {
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        last_probe_time: Option<String>,
        message: &'static str,
    }

    #[test]
    fn value_equals_the_parsed_json() {
        let everything = Everything {
            flag: true,
            small: -7,
            large: 1 << 40,
            part: 0.5,
            variant: UnitVariant::Yes,
            one: 'ß',
            nothing: None,
            unit: (),
            pair: [1, 2],
            some: Some(vec![IntOrString::Int(3), IntOrString::Text("25%".to_owned())]),
            map: [("a \"b\"".to_owned(), 1), ("c".to_owned(), i64::MIN)].into(),
            by_number: [(9, "<x>".to_owned())].into(),
            conditions: vec![Condition { kind: "Ready", last_probe_time: None, message: "it is\n" }],
        };
        let text = serde_json::to_vec(&everything).unwrap();
        assert_eq!(to_value(&everything).unwrap(), json::parse(&text).unwrap());
    }

    #[test]
    fn unsupported_types_are_rejected() {
        assert!(to_value(&Err::<(), u8>(1)).is_err());
        assert!(to_value(&u64::MAX).is_err());
        assert!(to_value(&BTreeMap::from([(true, 1)])).is_err());
    }
}
