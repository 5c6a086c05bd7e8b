//! The tree that the write path works on: what a JSON or YAML body says, before and after it is shaped.
//!
//! A [`Value`] is small, owns its strings (short ones without an allocation) and keeps the order in which
//! the fields of an object came, so that what goes out reads as what came in. Integers and floats are
//! told apart, as the API does. Equality of maps ignores order.

use compact_str::CompactString;

mod build;
mod map;
mod places;
mod read;

pub use map::Map;

/// A JSON value.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// Nothing; what an absent field reads as.
    #[default]
    Null,
    /// A truth value.
    Bool(bool),
    /// A number written without point or exponent that fits.
    Int(i64),
    /// Every other number.
    Float(f64),
    /// Text.
    Str(CompactString),
    /// An array.
    List(Vec<Value>),
    /// An object.
    Map(Map),
    /// The compact JSON of a value that nobody here has to look into, as what owners own. It differs from the same value
    /// in another form, so all objects that are compared have it in the same places.
    Raw(CompactString),
}

impl Value {
    /// An empty object.
    #[must_use]
    pub const fn map() -> Value {
        Value::Map(Map::new())
    }

    /// The text, if this is text.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Str(text) => Some(text),
            _ => None,
        }
    }

    /// The integer, if this is one.
    #[must_use]
    pub const fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// The truth value, if this is one.
    #[must_use]
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// The object, if this is one.
    #[must_use]
    pub const fn as_map(&self) -> Option<&Map> {
        match self {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The object to change, if this is one.
    pub const fn as_map_mut(&mut self) -> Option<&mut Map> {
        match self {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The array, if this is one.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// The array to change, if this is one.
    pub const fn as_list_mut(&mut self) -> Option<&mut Vec<Value>> {
        match self {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// Whether this is null.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Whether this says nothing: null, false, zero, or an empty text, array or object. It is what a Go
    /// server leaves out of a field marked so.
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

    /// The field of an object; nothing where this is no object or has no such field.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_map()?.get(key)
    }

    /// The field of an object, to change it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.as_map_mut()?.get_mut(key)
    }

    /// The field at the end of a path of fields.
    #[must_use]
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self, |value, key| value.get(key))
    }

    /// The field at the end of a path of fields, to change it.
    pub fn at_mut(&mut self, path: &[&str]) -> Option<&mut Value> {
        path.iter().try_fold(self, |value, key| value.get_mut(key))
    }

    /// The text at the end of a path of fields; empty where there is none.
    #[must_use]
    pub fn str_at(&self, path: &[&str]) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// Puts the fields of all maps in it into the order of their names.
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

    /// Makes this an object unless it is one, drops what else it was, and hands it out.
    pub fn make_map(&mut self) -> &mut Map {
        if !matches!(self, Value::Map(_)) {
            *self = Value::map();
        }
        self.as_map_mut().expect("it was made an object above")
    }

    /// The object in field `key`, made where there is none. A value of another type is replaced.
    pub fn ensure_map(&mut self, key: &str) -> &mut Map {
        self.make_map().ensure_map(key)
    }

    /// Takes the value out and leaves null.
    pub fn take(&mut self) -> Value {
        std::mem::take(self)
    }

    /// What Go's decoder calls the type of this value in its errors.
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
    fn a_path_ends_where_a_field_is_missing_or_no_object() {
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
    fn ensuring_an_object_replaces_what_is_none() {
        let mut value = Value::from("text");
        value.ensure_map("metadata").insert("name", "a");
        value.ensure_map("metadata").insert("uid", "b");
        assert_eq!(value.get("metadata").unwrap().as_map().unwrap().len(), 2);
    }

    #[test]
    fn empty_is_what_go_would_leave_out() {
        let empty = [Value::Null, false.into(), 0.into(), 0.0.into(), "".into(), Value::map()];
        assert!(empty.iter().all(Value::is_empty));
        let full = [true.into(), 1.into(), 0.5.into(), "a".into(), Value::from(vec![0])];
        assert!(!full.iter().any(Value::is_empty));
    }

    #[test]
    fn a_value_stays_small() {
        assert!(size_of::<Value>() <= 32, "{}", size_of::<Value>());
    }
}
