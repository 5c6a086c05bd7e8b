//! Dynamic objects: the tree of a JSON or YAML document that the write path works on.
//!
//! A [`Value`] is 32 bytes at most, stores short strings inline and keeps fields in insertion order, so a
//! response lists fields in the order of the request. Integers and floats are distinct variants, as in the
//! API. Equality of maps ignores the order of fields.

use compact_str::CompactString;

mod build;
mod map;
mod position_index;
mod read;

pub use map::Map;

/// A JSON value.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// JSON null; absent fields read as null.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// A number without fraction or exponent that fits into 64 bits.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A string.
    Str(CompactString),
    /// An array.
    List(Vec<Value>),
    /// An object.
    Map(Map),
    /// Compact JSON of a value that was left unparsed, for example `fieldsV1` of managed fields. A raw value
    /// is never equal to its parsed form, so all objects that are compared hold raw values in the same
    /// places.
    Raw(CompactString),
}

impl Value {
    /// Returns an empty object.
    #[must_use]
    pub const fn map() -> Value {
        Value::Map(Map::new())
    }

    /// Returns the string, if this is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the integer, if this is one.
    #[must_use]
    pub const fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the boolean, if this is one.
    #[must_use]
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// Returns the object, if this is one.
    #[must_use]
    pub const fn as_map(&self) -> Option<&Map> {
        match self {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Returns the object for modification, if this is one.
    pub const fn as_map_mut(&mut self) -> Option<&mut Map> {
        match self {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Returns the array, if this is one.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// Returns the array for modification, if this is one.
    pub const fn as_list_mut(&mut self) -> Option<&mut Vec<Value>> {
        match self {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// `true` if this is null.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// `true` if this is empty as in Go's `omitempty`: null, false, zero, or an empty string, array or
    /// object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Bool(truth) => !truth,
            Value::Int(number) => *number == 0,
            Value::Float(number) => *number == 0.0,
            Value::Str(text) => text.is_empty(),
            Value::List(list) => list.is_empty(),
            Value::Map(map) => map.is_empty(),
            Value::Raw(json) => json == "{}",
        }
    }

    /// Returns a field of an object; `None` if this is no object or has no such field.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_map()?.get(key)
    }

    /// Returns a field of an object for modification.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.as_map_mut()?.get_mut(key)
    }

    /// Returns the field at a path.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self, |value, key| value.get(key))
    }

    /// Returns the field at a path for modification.
    pub fn at_mut(&mut self, path: &[&str]) -> Option<&mut Value> {
        path.iter().try_fold(self, |value, key| value.get_mut(key))
    }

    /// Returns the string at a path; empty if there is none.
    #[must_use]
    pub fn str_at(&self, path: &[&str]) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// Sorts the fields of all objects in this value by name.
    pub fn sort_fields(&mut self) {
        match self {
            Value::Map(map) => {
                map.sort();
                map.iter_mut().for_each(|(_, value)| value.sort_fields());
            }
            Value::List(list) => list.iter_mut().for_each(Value::sort_fields),
            _ => {}
        }
    }

    /// Replaces any other type by an empty object, and returns the object.
    pub fn make_map(&mut self) -> &mut Map {
        if !matches!(self, Value::Map(_)) {
            *self = Value::map();
        }
        self.as_map_mut().expect("the value was replaced by an object above")
    }

    /// Returns the object in field `key`. Inserts an empty one if the field is missing or of another type.
    pub fn ensure_map(&mut self, key: &str) -> &mut Map {
        self.make_map().ensure_map(key)
    }

    /// Takes the value and leaves null.
    pub fn take(&mut self) -> Value {
        std::mem::take(self)
    }

    /// Name of the value's type in the errors of Go's JSON decoder.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::Float(_) => "number",
            Value::Str(_) => "string",
            Value::List(_) => "array",
            Value::Map(_) | Value::Raw(_) => "object",
        }
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Value {
        Value::Bool(truth)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Int(number)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Value {
        Value::Int(number.into())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Float(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Str(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Str(text.into())
    }
}

impl From<CompactString> for Value {
    fn from(text: CompactString) -> Value {
        Value::Str(text)
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Value {
        Value::Map(map)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(list: Vec<T>) -> Value {
        Value::List(list.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_lookup_stops_at_missing_fields_and_non_objects() {
        let mut pod = Value::map();
        pod.ensure_map("spec").insert("replicas", 3);
        assert_eq!(pod.at(&["spec", "replicas"]), Some(&Value::Int(3)));
        assert_eq!(pod.at(&["spec", "replicas", "deeper"]), None);
        assert_eq!(pod.at(&["status"]), None);
        assert_eq!(pod.str_at(&["spec", "replicas"]), "");
        *pod.at_mut(&["spec", "replicas"]).unwrap() = Value::from("many");
        assert_eq!(pod.str_at(&["spec", "replicas"]), "many");
    }

    #[test]
    fn ensure_map_replaces_other_types() {
        let mut value = Value::from("text");
        value.ensure_map("metadata").insert("name", "a");
        value.ensure_map("metadata").insert("uid", "b");
        assert_eq!(value.get("metadata").unwrap().as_map().unwrap().len(), 2);
    }

    #[test]
    fn empty_values_are_those_of_omitempty() {
        let empty = [Value::Null, false.into(), 0.into(), 0.0.into(), "".into(), Value::map()];
        assert!(empty.iter().all(Value::is_empty));
        let full = [true.into(), 1.into(), 0.5.into(), "a".into(), Value::from(vec![0])];
        assert!(!full.iter().any(Value::is_empty));
    }

    #[test]
    fn value_is_at_most_32_bytes() {
        assert!(size_of::<Value>() <= 32, "{}", size_of::<Value>());
    }
}
