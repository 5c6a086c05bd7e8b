//! `Deserialize` for [`Value`], for any serde format.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{Map, Value};

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Int(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        // Integers beyond `i64` become floats, as in the JSON parser.
        #[expect(clippy::cast_precision_loss, reason = "numbers beyond 2^63 are floats in the API")]
        Ok(i64::try_from(number).map_or(Value::Float(number as f64), Value::Int))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Str(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::with_capacity(list.size_hint().unwrap_or(0));
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(Value::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::with_capacity(map.size_hint().unwrap_or(0));
        while let Some((key, value)) = map.next_entry::<std::borrow::Cow<'de, str>, Value>()? {
            entries.push((key.into(), value));
        }
        Ok(Value::Map(Map::from_entries(entries).0))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Value, json};

    #[test]
    fn serde_and_the_parser_read_equal_values() {
        let text = r#"{"a":[1,-2,3.5,true,null,"x\n"],"b":{"c":{}},"d":9223372036854775807}"#;
        let read: Value = serde_json::from_str(text).unwrap();
        assert_eq!(read, json::parse(text.as_bytes()).unwrap());
    }
}
