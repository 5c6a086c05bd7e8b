//! Path element: a field, a list item by its keys or its value, or an index.
//!
//! Elements have a total order, in which sets of paths are kept and written: fields by name, then keys,
//! values and indexes. Numbers are compared by value, whether they are integers or floats.

use std::cmp::Ordering;
use std::fmt;

use compact_str::CompactString;
use thiserror::Error;

use crate::json;
use crate::quote::Quoted;
use crate::value::{Map, Value};

/// One element of a field path.
#[derive(Clone, Debug)]
pub enum Element {
    /// A field of an object: `f:name`.
    Field(CompactString),
    /// The list item with these values in its key fields, which are sorted by name: `k:{"name":"x"}`.
    Key(Box<[(CompactString, Value)]>),
    /// The list item with this value: `v:"x"`.
    Value(Box<Value>),
    /// The list item at this index: `i:0`.
    Index(i64),
}

/// Invalid path element.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ElementError {
    /// The text is shorter than its prefix.
    #[error("key must be 2 characters long:")]
    Short,
    /// The second character is not a colon.
    #[error("missing colon: {0}")]
    NoColon(Box<str>),
    /// The key or value is not JSON.
    #[error("{0}")]
    Json(Box<str>),
    /// The index is not an integer.
    #[error("invalid index: {0}")]
    Index(Box<str>),
}

impl Element {
    /// The field with this name.
    #[must_use]
    pub fn field(name: &str) -> Element {
        Element::Field(CompactString::from(name))
    }

    /// The list item with these values in its key fields, in any order.
    #[must_use]
    pub fn key(mut fields: Vec<(CompactString, Value)>) -> Element {
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Element::Key(fields.into())
    }

    /// The list item with this value.
    #[must_use]
    pub fn value(value: Value) -> Element {
        Element::Value(Box::new(value))
    }

    /// Parses the stored form; `None` for an unknown prefix.
    ///
    /// # Errors
    /// If the prefix or its value is invalid.
    pub fn parse(text: &str) -> Result<Option<Element>, ElementError> {
        let &[sort, colon, ..] = text.as_bytes() else { return Err(ElementError::Short) };
        if colon != b':' {
            return Err(ElementError::NoColon(text.into()));
        }
        // A multi-byte first character would leave no boundary after the colon, but then the second byte is
        // no colon.
        let rest = &text[2..];
        let read =
            || json::parse(rest.as_bytes()).map_err(|error| ElementError::Json(error.to_string().into()));
        Ok(Some(match sort {
            b'f' => Element::field(rest),
            b'v' => Element::value(read()?),
            b'k' => match read()? {
                Value::Map(map) => Element::key(map.into_entries()),
                Value::Null => Element::Key(Box::default()),
                _ => return Err(ElementError::Json("expected an object".into())),
            },
            b'i' => Element::Index(rest.parse().map_err(|_| ElementError::Index(rest.into()))?),
            _ => return Ok(None),
        }))
    }

    /// Appends the stored form, escaped for a quoted JSON key.
    pub(super) fn write_escaped(&self, out: &mut Vec<u8>) {
        match self {
            Element::Field(name) => write_field(name, out),
            Element::Key(fields) => {
                let mut inner = Vec::with_capacity(64);
                for (name, value) in fields {
                    inner.push(if inner.is_empty() { b'{' } else { b',' });
                    json::write_str(name, &mut inner);
                    inner.push(b':');
                    json::write(value, &mut inner);
                }
                if inner.is_empty() {
                    inner.push(b'{');
                }
                inner.push(b'}');
                out.extend_from_slice(b"k:");
                json::write_escaped(text_of(&inner), out);
            }
            Element::Value(value) => {
                let mut inner = Vec::with_capacity(64);
                json::write(value, &mut inner);
                out.extend_from_slice(b"v:");
                json::write_escaped(text_of(&inner), out);
            }
            Element::Index(index) => {
                out.extend_from_slice(b"i:");
                json::write(&Value::Int(*index), out);
            }
        }
    }

    /// Compares with a field name without building an element.
    pub(super) fn cmp_field(&self, name: &str) -> Ordering {
        match self {
            Element::Field(own) => own.as_str().cmp(name),
            _ => Ordering::Greater,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Element::Field(_) => 0,
            Element::Key(_) => 1,
            Element::Value(_) => 2,
            Element::Index(_) => 3,
        }
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Element) -> Ordering {
        match (self, other) {
            (Element::Field(a), Element::Field(b)) => a.as_str().cmp(b.as_str()),
            (Element::Key(a), Element::Key(b)) => cmp_entries(
                a.iter().map(|(name, value)| (name.as_str(), value)),
                b.iter().map(|(name, value)| (name.as_str(), value)),
            ),
            (Element::Value(a), Element::Value(b)) => cmp_values(a, b),
            (Element::Index(a), Element::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Element) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Element) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Element {}

impl fmt::Display for Element {
    /// Form in messages: `.name`, `[name="x"]`, `[="x"]`, `[0]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Field(name) => write!(f, ".{name}"),
            Element::Key(fields) => {
                f.write_str("[")?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{name}={}", if at > 0 { "," } else { "" }, Shown(value))?;
                }
                f.write_str("]")
            }
            Element::Value(value) => write!(f, "[={}]", Shown(value)),
            Element::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Appends the stored form of a field name, as [`Element::write_escaped`] does.
pub(super) fn write_field(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"f:");
    json::write_escaped(name, out);
}

fn text_of(json: &[u8]) -> &str {
    std::str::from_utf8(json).expect("JSON of UTF-8 strings is UTF-8")
}

/// A value as shown in a path.
struct Shown<'a>(&'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("null"),
            Value::Bool(truth) => write!(f, "{truth}"),
            Value::Int(number) => write!(f, "{number}"),
            Value::Float(_) => f.write_str(&json::to_text(self.0)),
            Value::Str(text) => write!(f, "{}", Quoted(text)),
            Value::List(list) => {
                f.write_str("[")?;
                for (at, item) in list.iter().enumerate() {
                    write!(f, "{}{}", if at > 0 { "," } else { "" }, Shown(item))?;
                }
                f.write_str("]")
            }
            Value::Map(map) => map.iter().try_for_each(|(key, value)| write!(f, "{key}={}", Shown(value))),
            Value::Raw(json) => f.write_str(json),
        }
    }
}

/// Order of values: numbers, strings, booleans, lists, objects, null.
fn cmp_values(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
            as_float(a).partial_cmp(&as_float(b)).unwrap_or(Ordering::Equal)
        }
        (Value::Str(a), Value::Str(b)) => a.as_str().cmp(b.as_str()),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::List(a), Value::List(b)) => {
            let mut pairs = a.iter().zip(b).map(|(a, b)| cmp_values(a, b));
            pairs.find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Map(a), Value::Map(b)) => cmp_entries(sorted(a).into_iter(), sorted(b).into_iter()),
        _ => rank(a).cmp(&rank(b)),
    }
}

/// `true` if two values are equal: numbers by value, objects independent of field order.
pub(super) fn is_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_equal(a, b))
        }
        (Value::Map(a), Value::Map(b)) => is_equal_map(a, b),
        (Value::Int(_), Value::Float(_)) | (Value::Float(_), Value::Int(_)) => as_float(a) == as_float(b),
        _ => a == b,
    }
}

fn is_equal_map(a: &Map, b: &Map) -> bool {
    if a.len() != b.len() {
        return false;
    }
    // The order is usually the same, and then one pass is enough.
    if a.keys().eq(b.keys()) {
        return a.iter().zip(b.iter()).all(|((_, a), (_, b))| is_equal(a, b));
    }
    let (a, b) = (sorted(a), sorted(b));
    a.into_iter().zip(b).all(|((name_a, a), (name_b, b))| name_a == name_b && is_equal(a, b))
}

fn sorted(map: &Map) -> Vec<(&str, &Value)> {
    let mut entries: Vec<(&str, &Value)> = map.iter().collect();
    entries.sort_unstable_by_key(|(name, _)| *name);
    entries
}

fn cmp_entries<'a>(
    mut a: impl Iterator<Item = (&'a str, &'a Value)>,
    mut b: impl Iterator<Item = (&'a str, &'a Value)>,
) -> Ordering {
    loop {
        match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some((name_a, a)), Some((name_b, b))) => {
                let order = name_a.cmp(name_b).then_with(|| cmp_values(a, b));
                if order.is_ne() {
                    return order;
                }
            }
        }
    }
}

fn as_float(value: &Value) -> f64 {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "an integer is compared with a float as Go does it")]
        Value::Int(number) => *number as f64,
        Value::Float(number) => *number,
        _ => f64::NAN,
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Int(_) | Value::Float(_) => 0,
        Value::Str(_) => 1,
        Value::Bool(_) => 2,
        Value::List(_) => 3,
        Value::Map(_) | Value::Raw(_) => 4,
        Value::Null => 5,
    }
}
