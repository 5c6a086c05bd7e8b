//! Values of expressions.
//!
//! A [`Value`] borrows the JSON that it was made from: lists, maps and strings of an object are not copied, and the
//! items of a list are converted by their [`crate::Decl`] when an expression reads them.

mod display;
mod duration;
mod equality;
mod json;
mod list;
mod map;
mod number;
mod opaque;
mod ordering;
mod text;
mod timestamp;

use std::sync::Arc;

use setpoint_api::quantity::Quantity;

use crate::eval::EvalError;

pub use duration::DurationValue;
pub use list::ListValue;
pub use map::{MapKey, MapValue, ObjectValue};
pub use opaque::{NamedFormat, Opaque, SemanticVersion, Url};
pub use text::TextValue;
pub use timestamp::Timestamp;

pub(crate) use duration::NANOS_PER_SECOND;
pub(crate) use equality::{Comparison, ElementSet, element_key};
pub(crate) use json::decode_base64;
pub(crate) use number::{double_to_int, double_to_text, double_to_uint, parse_double};
pub(crate) use timestamp::CivilTime;

/// Value of an expression.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// Null.
    Null,
    /// Boolean.
    Bool(bool),
    /// Signed integer.
    Int(i64),
    /// Unsigned integer.
    Uint(u64),
    /// Double.
    Double(f64),
    /// String.
    String(TextValue<'a>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// List.
    List(ListValue<'a>),
    /// Map, or object of a schema.
    Map(MapValue<'a>),
    /// Object that the expression constructs: `Object{...}` or `JSONPatch{...}`.
    Object(Arc<ObjectValue<'a>>),
    /// Timestamp.
    Timestamp(Timestamp),
    /// Duration.
    Duration(DurationValue),
    /// Type by its name.
    Type(TextValue<'a>),
    /// Optional value.
    Optional(Option<Arc<Value<'a>>>),
    /// Value of a Kubernetes library.
    Opaque(Arc<Opaque<'a>>),
    /// Object whose fields are computed on access.
    Lazy(&'a dyn LazyObject),
}

/// Object whose fields are computed on access, such as `variables` of an admission policy.
///
/// An implementation keeps the values that it computed, because an expression may read a field many times.
pub trait LazyObject: std::fmt::Debug + Sync {
    /// Returns a field; `None` if there is none with this name.
    fn field(&self, name: &str) -> Option<Result<Value<'_>, EvalError>>;
}

impl<'a> Value<'a> {
    /// Returns a list of these values.
    #[must_use]
    pub fn list(values: Vec<Value<'a>>) -> Value<'a> {
        Value::List(ListValue::from(values))
    }

    /// Returns a string that the value owns.
    #[must_use]
    pub fn string(text: impl Into<Arc<str>>) -> Value<'a> {
        Value::String(TextValue::Shared(text.into()))
    }

    /// Returns an optional value.
    #[must_use]
    pub fn optional(value: Option<Value<'a>>) -> Value<'a> {
        Value::Optional(value.map(Arc::new))
    }

    /// Returns a quantity.
    #[must_use]
    pub fn quantity(quantity: Quantity) -> Value<'a> {
        Value::opaque(Opaque::Quantity(quantity))
    }

    /// Returns a semantic version.
    ///
    /// # Errors
    /// The text of the fault if the text is not a semantic version.
    pub fn semver(text: &str) -> Result<Value<'a>, String> {
        crate::functions::semver::parse(text).map(|version| Value::opaque(Opaque::Semver(version)))
    }

    pub(crate) fn opaque(opaque: Opaque<'a>) -> Value<'a> {
        Value::Opaque(Arc::new(opaque))
    }

    /// Returns the name of the value's type, as `type(x)` does.
    #[must_use]
    pub fn type_name(&self) -> &str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::List(_) => "list",
            Value::Map(_) | Value::Lazy(_) => "map",
            Value::Object(object) => &object.name,
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::Type(_) => "type",
            Value::Optional(_) => "optional_type",
            Value::Opaque(opaque) => opaque.type_name(),
        }
    }

    /// Returns the boolean, if this is one.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// Returns the string, if this is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the list, if this is one.
    #[must_use]
    pub fn as_list(&self) -> Option<&ListValue<'a>> {
        match self {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// Number of elements, code points or bytes, as `size` returns; `None` for other types.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        let size = match self {
            Value::String(text) => code_points(text),
            Value::Bytes(bytes) => bytes.len(),
            Value::List(list) => list.len(),
            Value::Map(map) => map.len(),
            Value::Opaque(opaque) => return opaque.size(),
            _ => return None,
        };
        u64::try_from(size).ok()
    }

    /// `true` for the zero value of a type, which `optional.ofNonZeroValue` makes absent.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Bool(truth) => !truth,
            Value::Int(number) => *number == 0,
            Value::Uint(number) => *number == 0,
            Value::Double(number) => *number == 0.0,
            Value::String(text) => text.is_empty(),
            Value::Bytes(bytes) => bytes.is_empty(),
            Value::List(list) => list.is_empty(),
            Value::Map(map) => map.is_empty(),
            Value::Object(object) => object.fields.is_empty(),
            Value::Timestamp(time) => *time == Timestamp::ZERO,
            Value::Duration(duration) => duration.0 == 0,
            Value::Optional(value) => value.is_none(),
            Value::Type(_) | Value::Opaque(_) | Value::Lazy(_) => false,
        }
    }
}

/// Number of code points of a text.
fn code_points(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}
