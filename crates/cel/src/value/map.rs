//! Maps: borrowed JSON objects, maps of values, and constructed objects.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_api::{Map as JsonMap, Value as Json};

use super::{TextValue, Value};
use crate::decl::{Decl, DeclKind};
use crate::eval::EvalError;
use crate::types::{escape_identifier, unescape_identifier};

/// Map of an expression.
#[derive(Clone, Debug)]
pub enum MapValue<'a> {
    /// Object of a JSON value, with its declaration.
    Json(&'a JsonMap, Option<&'a Decl>),
    /// Entries that the expression made, in the order of their keys.
    Owned(Arc<BTreeMap<MapKey<'a>, Value<'a>>>),
    /// Entries like those of `Owned`; any other key has an empty map, such as a domain without attributes. Only `in`
    /// and iterations distinguish the two.
    Defaulting(Arc<BTreeMap<MapKey<'a>, Value<'a>>>),
}

/// Key of a map. Integers of either sign are the same key if they are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MapKey<'a> {
    /// Boolean.
    Bool(bool),
    /// Signed integer.
    Int(i64),
    /// Unsigned integer above the signed ones.
    Uint(u64),
    /// String.
    String(TextValue<'a>),
}

impl<'a> MapKey<'a> {
    /// Returns the key for a value; `None` for a value that cannot be a key. A double is the integer that it equals.
    #[must_use]
    pub fn of(value: &Value<'a>) -> Option<MapKey<'a>> {
        Some(match value {
            Value::Bool(truth) => MapKey::Bool(*truth),
            Value::Int(number) => MapKey::Int(*number),
            Value::Uint(number) => i64::try_from(*number).map_or(MapKey::Uint(*number), MapKey::Int),
            Value::Double(number) => MapKey::of(&super::number::integer_of(*number)?)?,
            Value::String(text) => MapKey::String(text.clone()),
            _ => return None,
        })
    }

    /// Returns the key as a value.
    #[must_use]
    pub fn to_value(&self) -> Value<'a> {
        match self {
            MapKey::Bool(truth) => Value::Bool(*truth),
            MapKey::Int(number) => Value::Int(*number),
            MapKey::Uint(number) => Value::Uint(*number),
            MapKey::String(text) => Value::String(text.clone()),
        }
    }
}

/// Parts of a key, by which a map is searched for a key of another lifetime.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum KeyParts<'k> {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(&'k str),
}

trait KeyView {
    fn parts(&self) -> KeyParts<'_>;
}

impl KeyView for MapKey<'_> {
    fn parts(&self) -> KeyParts<'_> {
        match self {
            MapKey::Bool(truth) => KeyParts::Bool(*truth),
            MapKey::Int(number) => KeyParts::Int(*number),
            MapKey::Uint(number) => KeyParts::Uint(*number),
            MapKey::String(text) => KeyParts::String(text),
        }
    }
}

impl<'q, 'a: 'q> Borrow<dyn KeyView + 'q> for MapKey<'a> {
    fn borrow(&self) -> &(dyn KeyView + 'q) {
        self
    }
}

impl PartialEq for dyn KeyView + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for dyn KeyView + '_ {}

impl PartialOrd for dyn KeyView + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn KeyView + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

/// Object that an expression constructs by the name of its type.
#[derive(Clone, Debug)]
pub struct ObjectValue<'a> {
    /// Type name, such as `Object.spec` or `JSONPatch`.
    pub name: Box<str>,
    /// Fields that are set.
    pub fields: BTreeMap<Box<str>, Value<'a>>,
}

impl<'a> MapValue<'a> {
    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Json(map, _) => map.len(),
            Self::Owned(entries) | Self::Defaulting(entries) => entries.len(),
        }
    }

    /// `true` if there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value of a key; `None` if it is absent.
    #[must_use]
    pub fn find(&self, key: &Value<'_>) -> Option<Result<Value<'a>, EvalError>> {
        match self {
            Self::Json(map, decl) => match key {
                Value::String(name) => {
                    let is_object = matches!(decl, Some(Decl { kind: DeclKind::Object(_), .. }));
                    let name = if is_object { unescape_identifier(name)? } else { (&**name).into() };
                    json_field(map, *decl, &name)
                }
                _ => None,
            },
            Self::Owned(entries) => entries.get(&MapKey::of(key)? as &dyn KeyView).cloned().map(Ok),
            Self::Defaulting(entries) => {
                let found = MapKey::of(key).and_then(|key| entries.get(&key as &dyn KeyView).cloned());
                Some(Ok(found.unwrap_or_else(Self::empty)))
            }
        }
    }

    /// `true` if the map has an entry for the key.
    pub(crate) fn contains(&self, key: &Value<'_>) -> Result<bool, EvalError> {
        match self {
            Self::Defaulting(entries) => {
                Ok(MapKey::of(key).is_some_and(|key| entries.contains_key(&key as &dyn KeyView)))
            }
            _ => self.find(key).transpose().map(|found| found.is_some()),
        }
    }

    /// Value of an absent key of [`MapValue::Defaulting`].
    fn empty() -> Value<'a> {
        Value::Map(MapValue::Owned(Arc::default()))
    }

    /// Returns the value of a field whose name in JSON is known.
    pub(crate) fn field(&self, name: &str) -> Option<Result<Value<'a>, EvalError>> {
        match self {
            Self::Json(map, decl) => json_field(map, *decl, name),
            Self::Owned(entries) => {
                entries.get(&MapKey::String(TextValue::Borrowed(name)) as &dyn KeyView).cloned().map(Ok)
            }
            Self::Defaulting(entries) => {
                let found = entries.get(&MapKey::String(TextValue::Borrowed(name)) as &dyn KeyView);
                Some(Ok(found.cloned().unwrap_or_else(Self::empty)))
            }
        }
    }

    /// `true` if field names are escaped in expressions.
    pub(crate) fn has_escaped_names(&self) -> bool {
        matches!(self, Self::Json(_, Some(Decl { kind: DeclKind::Object(_), .. })))
    }

    /// Returns the keys that an expression can read, in order.
    #[must_use]
    pub fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Self::Json(map, decl) => map.iter().filter_map(|(name, _)| visible_key(*decl, name)).collect(),
            Self::Owned(entries) | Self::Defaulting(entries) => {
                entries.keys().map(MapKey::to_value).collect()
            }
        }
    }
}

/// Returns a field of an object. Fields that a schema does not declare are invisible, and null counts as absent.
fn json_field<'a>(
    map: &'a JsonMap,
    decl: Option<&'a Decl>,
    name: &str,
) -> Option<Result<Value<'a>, EvalError>> {
    let value = map.get(name)?;
    match decl.map(|decl| &decl.kind) {
        Some(DeclKind::Object(object)) => {
            let field = object.fields.get(name)?;
            (!matches!(value, Json::Null)).then(|| Value::from_json(value, Some(&field.decl)))
        }
        Some(DeclKind::Map { value: decl, .. }) => Some(Value::from_json(value, Some(decl))),
        _ => Some(Value::from_json(value, None)),
    }
}

fn visible_key<'a>(decl: Option<&Decl>, name: &'a str) -> Option<Value<'a>> {
    match decl.map(|decl| &decl.kind) {
        Some(DeclKind::Object(object)) => {
            object.fields.contains_key(name).then(|| match escape_identifier(name) {
                Some(escaped) if escaped != name => Value::string(&*escaped),
                _ => Value::String(TextValue::Borrowed(name)),
            })
        }
        _ => Some(Value::String(TextValue::Borrowed(name))),
    }
}
