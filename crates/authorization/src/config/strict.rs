//! Strict decoding of configuration files: fields have the expected types, and there are no others.

use setpoint_api::field_error::Path;
use setpoint_api::quote::Quoted;
use setpoint_api::yaml;
use setpoint_api::{Value, json};

use super::duration::GoDuration;

/// Versions of `apiserver.config.k8s.io` that have the kind.
const API_VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];
const KIND: &str = "AuthorizationConfiguration";

/// Unknown fields, in the order in which they were found.
pub(super) type Unknown = Vec<String>;

/// Parses a document, and checks its kind.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let (document, duplicates) = yaml::parse_strict(bytes).map_err(|error| error.to_string())?;
    let (version, kind) = (document.str_at(&["apiVersion"]), document.str_at(&["kind"]));
    if kind.is_empty() {
        return Err(format!("Object 'Kind' is missing in '{}'", shown(&document)));
    }
    if version.is_empty() {
        return Err(format!("Object 'apiVersion' is missing in '{}'", shown(&document)));
    }
    if kind != KIND || !API_VERSIONS.contains(&version) {
        let (kind, version) = (Quoted(kind), Quoted(version));
        return Err(format!("no kind {kind} is registered for version {version}"));
    }
    if !duplicates.is_empty() {
        let lines = yaml::repeated_keys(bytes).join("\n  ");
        return Err(format!("strict decoding error: yaml: unmarshal errors:\n  {lines}"));
    }
    Ok(document)
}

/// A document in an error, of at most this many characters.
const SHOWN_CHARS_MAX: usize = 256;

fn shown(document: &Value) -> String {
    json::to_text(document).chars().take(SHOWN_CHARS_MAX).collect()
}

/// An object of a configuration, with the name of its Go type for errors.
pub(super) struct Object<'v, 'p> {
    value: &'v Value,
    type_name: &'static str,
    path: Path<'p>,
}

impl<'v, 'p> Object<'v, 'p> {
    /// Returns the object at `path`, and records fields other than `known` as unknown. An absent object has no fields.
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

    fn field(&self, name: &str) -> Option<&'v Value> {
        self.value.get(name).filter(|value| !value.is_null())
    }

    fn mismatch(&self, name: &str, value: &Value, expected: &str) -> String {
        mismatch(value, self.type_name, &self.path.child(name), expected)
    }

    pub(super) fn object(&self, name: &str) -> Option<&'v Value> {
        self.field(name)
    }

    pub(super) fn text(&self, name: &str) -> Result<&'v str, String> {
        match self.field(name) {
            None => Ok(""),
            Some(Value::Str(text)) => Ok(text),
            Some(other) => Err(self.mismatch(name, other, "string")),
        }
    }

    pub(super) fn optional_text(&self, name: &str) -> Result<Option<&'v str>, String> {
        self.text(name).map(|text| self.field(name).map(|_| text))
    }

    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, String> {
        match self.field(name) {
            None => Ok(None),
            Some(Value::Bool(truth)) => Ok(Some(*truth)),
            Some(other) => Err(self.mismatch(name, other, "bool")),
        }
    }

    pub(super) fn duration(&self, name: &str) -> Result<GoDuration, String> {
        match self.field(name) {
            None => Ok(GoDuration(0)),
            Some(Value::Str(text)) => GoDuration::parse(text),
            Some(other) => {
                Err(format!("json: cannot unmarshal {} into Go value of type string", other.type_name()))
            }
        }
    }

    pub(super) fn list(&self, name: &str, type_name: &str) -> Result<&'v [Value], String> {
        match self.field(name) {
            None => Ok(&[]),
            Some(Value::List(items)) => Ok(items),
            Some(other) => Err(self.mismatch(name, other, &format!("[]{type_name}"))),
        }
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
