//! Strict decoding of policies: fields have the expected types, and there are no others. Errors have the texts of Go's
//! decoder.

use setpoint_api::Value;
use setpoint_api::field_error::Path;
use setpoint_api::quote::Quoted;

/// Unknown fields, in the order in which they were found.
pub(super) type Unknown = Vec<String>;

/// An object of a policy, with the name of its Go type for errors.
pub(super) struct Object<'v, 'p> {
    value: &'v Value,
    type_name: &'static str,
    path: Path<'p>,
}

impl<'v, 'p> Object<'v, 'p> {
    /// Returns the object at `path`, and records fields other than `known` as unknown.
    pub(super) fn new(
        value: &'v Value,
        type_name: &'static str,
        path: Path<'p>,
        known: &[&str],
        unknown: &mut Unknown,
    ) -> Result<Object<'v, 'p>, String> {
        let map = match value {
            Value::Null => None,
            Value::Map(map) => Some(map),
            other => return Err(mismatch(other, type_name, &path, type_name)),
        };
        let names = map.into_iter().flat_map(|map| map.iter()).map(|(name, _)| name);
        unknown.extend(names.filter(|name| !known.contains(name)).map(|name| path.child(name).to_string()));
        Ok(Object { value, type_name, path })
    }

    pub(super) fn field(&self, name: &str) -> Option<&'v Value> {
        self.value.get(name).filter(|value| !value.is_null())
    }

    fn mismatch(&self, name: &str, value: &Value, expected: &str) -> String {
        mismatch(value, self.type_name, &self.path.child(name), expected)
    }

    pub(super) fn text(&self, name: &str) -> Result<&'v str, String> {
        match self.field(name) {
            None => Ok(""),
            Some(Value::Str(text)) => Ok(text),
            Some(other) => Err(self.mismatch(name, other, "string")),
        }
    }

    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, String> {
        match self.field(name) {
            None => Ok(None),
            Some(Value::Bool(truth)) => Ok(Some(*truth)),
            Some(other) => Err(self.mismatch(name, other, "bool")),
        }
    }

    pub(super) fn list(&self, name: &str, type_name: &str) -> Result<&'v [Value], String> {
        match self.field(name) {
            None => Ok(&[]),
            Some(Value::List(items)) => Ok(items),
            Some(other) => Err(self.mismatch(name, other, &format!("[]{type_name}"))),
        }
    }

    pub(super) fn texts(&self, name: &str) -> Result<Vec<Box<str>>, String> {
        let text = |value: &Value| match value {
            Value::Str(text) => Ok((&**text).into()),
            // Go leaves the zero value.
            Value::Null => Ok("".into()),
            other => Err(self.mismatch(name, other, "string")),
        };
        self.list(name, "string")?.iter().map(text).collect()
    }
}

/// Error of Go's JSON decoder for a value of the wrong type. Its paths have no indexes.
fn mismatch(value: &Value, type_name: &str, path: &Path<'_>, expected: &str) -> String {
    let path = path.to_string();
    let plain: String = path
        .split('[')
        .flat_map(|part| part.split_once(']').map_or(part, |(_, rest)| rest).chars())
        .collect();
    let found = value.type_name();
    format!("json: cannot unmarshal {found} into Go struct field {type_name}.{plain} of type {expected}")
}

/// Error for unknown fields, if there are any.
pub(super) fn check_unknown(unknown: &Unknown) -> Result<(), String> {
    if unknown.is_empty() {
        return Ok(());
    }
    let fields: Vec<String> =
        unknown.iter().map(|field| format!("unknown field {}", Quoted(field))).collect();
    Err(format!("strict decoding error: {}", fields.join(", ")))
}
