//! Plain structs as values, as reading their JSON would give them, without the detour through text.

use std::fmt::Display;

use serde::ser::{
    Error as _, Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeTuple,
    Serializer,
};
use setpoint_api::Value;
use thiserror::Error;

/// Why something cannot be a value: views and statuses are structs, lists and maps, and of enums only words.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct ToValueError(String);

impl serde::ser::Error for ToValueError {
    fn custom<T: Display>(message: T) -> ToValueError {
        ToValueError(message.to_string())
    }
}

type Result<T = Value> = std::result::Result<T, ToValueError>;

/// What a struct says.
pub(crate) fn to_value(part: &(impl Serialize + ?Sized)) -> Result {
    part.serialize(ToValue)
}

fn unknown<T>(what: &str) -> Result<T> {
    Err(ToValueError(format!("{what} has no place in a value")))
}

struct ToValue;

/// A list on its way.
struct Listed(Vec<Value>);

/// A map on its way, and the key whose value is to come.
struct Mapped {
    entries: Vec<(String, Value)>,
    key: Option<String>,
}

/// A struct on its way.
struct Fields(Vec<(&'static str, Value)>);

impl Serializer for ToValue {
    type Ok = Value;
    type Error = ToValueError;
    type SerializeSeq = Listed;
    type SerializeTuple = Listed;
    type SerializeTupleStruct = Impossible<Value, ToValueError>;
    type SerializeTupleVariant = Impossible<Value, ToValueError>;
    type SerializeMap = Mapped;
    type SerializeStruct = Fields;
    type SerializeStructVariant = Impossible<Value, ToValueError>;

    fn serialize_bool(self, truth: bool) -> Result {
        Ok(Value::Bool(truth))
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

    fn serialize_char(self, one: char) -> Result {
        self.serialize_str(one.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, text: &str) -> Result {
        Ok(Value::from(text))
    }

    fn serialize_bytes(self, _: &[u8]) -> Result {
        unknown("a run of bytes")
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
        unknown(variant)
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Listed> {
        Ok(Listed(Vec::with_capacity(len.unwrap_or(0))))
    }

    fn serialize_tuple(self, len: usize) -> Result<Listed> {
        Ok(Listed(Vec::with_capacity(len)))
    }

    fn serialize_tuple_struct(self, name: &'static str, _: usize) -> Result<Self::SerializeTupleStruct> {
        unknown(name)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant> {
        unknown(variant)
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Mapped> {
        Ok(Mapped { entries: Vec::with_capacity(len.unwrap_or(0)), key: None })
    }

    fn serialize_struct(self, _: &'static str, len: usize) -> Result<Fields> {
        Ok(Fields(Vec::with_capacity(len)))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant> {
        unknown(variant)
    }
}

impl SerializeSeq for Listed {
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

impl SerializeTuple for Listed {
    type Ok = Value;
    type Error = ToValueError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        SerializeSeq::serialize_element(self, value)
    }

    fn end(self) -> Result {
        SerializeSeq::end(self)
    }
}

impl SerializeMap for Mapped {
    type Ok = Value;
    type Error = ToValueError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<()> {
        self.key = Some(match to_value(key)? {
            Value::Str(text) => text.into(),
            Value::Int(number) => number.to_string(),
            _ => return unknown("a key that is no text"),
        });
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        let Some(key) = self.key.take() else { return unknown("a value without a key") };
        self.entries.push((key, to_value(value)?));
        Ok(())
    }

    fn end(self) -> Result {
        Ok(Value::Map(self.entries.into_iter().collect()))
    }
}

impl SerializeStruct for Fields {
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
        truth: bool,
        small: i32,
        large: u64,
        part: f64,
        word: Word,
        one: char,
        nothing: Option<i64>,
        unit: (),
        pair: [i64; 2],
        some: Option<Vec<IntOrString>>,
        map: BTreeMap<String, i64>,
        numbered: BTreeMap<u8, String>,
        conditions: Vec<Condition>,
    }

    #[derive(serde::Serialize)]
    enum Word {
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
            truth: true,
            small: -7,
            large: 1 << 40,
            part: 0.5,
            word: Word::Yes,
            one: 'ß',
            nothing: None,
            unit: (),
            pair: [1, 2],
            some: Some(vec![IntOrString::Int(3), IntOrString::Text("25%".to_owned())]),
            map: [("a \"b\"".to_owned(), 1), ("c".to_owned(), i64::MIN)].into(),
            numbered: [(9, "<x>".to_owned())].into(),
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
