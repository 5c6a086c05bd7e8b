//! Static types of expressions, printed as in cel-go.

mod escaping;
mod names;

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::Arc;

pub(crate) use escaping::find_reserved_field;
pub use escaping::{escape_identifier, find_declared_field, unescape_identifier};
pub use names::assign_type_names;

use crate::decl::{Decl, DeclKind, ObjectDecl};

/// Longest text of a type in a message, in bytes; the rest is an ellipsis. Shared parts make the text of a type
/// exponentially larger than the type.
pub const TYPE_TEXT_BYTES_MAX: usize = 2048;

/// Static type of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Any type; checked at runtime.
    Dyn,
    /// Any type of a scalar; checked at runtime like `Dyn`, but not a range of macros.
    Any,
    /// Type of an expression that has an error. Agrees with every type, so that one error is reported once.
    Error,
    /// `null`.
    Null,
    /// Boolean.
    Bool,
    /// 64-bit signed integer.
    Int,
    /// 64-bit unsigned integer.
    Uint,
    /// 64-bit floating point number.
    Double,
    /// String of code points.
    String,
    /// Sequence of bytes.
    Bytes,
    /// Point in time.
    Timestamp,
    /// Length of time.
    Duration,
    /// Type of types; the parameter is the type that is the value, if it is known.
    Type(Option<Arc<Type>>),
    /// List of elements of a type.
    List(Arc<Type>),
    /// Map from keys to values.
    Map(Arc<Type>, Arc<Type>),
    /// Value that may be absent.
    Optional(Arc<Type>),
    /// Value without fields, such as `net.IP`.
    Opaque(&'static str),
    /// Object with fields.
    Object(ObjectType),
    /// Variable of a signature or of the checker, to be bound to a type.
    Param(TypeParam),
}

/// Type of an object. Two are equal if their names are, as in cel-go.
#[derive(Clone, Debug)]
pub enum ObjectType {
    /// Object of a schema.
    Declared(Arc<ObjectDecl>),
    /// Object whose fields have any types, such as `variables` of an admission policy.
    Fields(Arc<ObjectFields>),
    /// Object of a library, such as `kubernetes.Quantity`, or of the mutation types.
    Named(Arc<str>),
}

/// Object whose fields have any types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFields {
    /// Type name in error messages.
    pub name: Box<str>,
    /// Types by field names.
    pub fields: BTreeMap<Box<str>, Type>,
}

/// Variable for a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TypeParam {
    /// Parameter of a signature.
    Declared(char),
    /// Variable of the checker, numbered from 0.
    Free(u32),
}

impl ObjectType {
    /// Returns the type name in error messages.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Declared(decl) => &decl.name,
            Self::Fields(object) => &object.name,
            Self::Named(name) => name,
        }
    }
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for ObjectType {}

impl Type {
    /// Returns the type of lists of `element`.
    #[must_use]
    pub fn list(element: Type) -> Type {
        Type::List(Arc::new(element))
    }

    /// Returns the type of maps from `key` to `value`.
    #[must_use]
    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new(key), Arc::new(value))
    }

    /// Returns the type of values of `inner` that may be absent.
    #[must_use]
    pub fn optional(inner: Type) -> Type {
        Type::Optional(Arc::new(inner))
    }

    /// Returns the type of an object without a schema.
    #[must_use]
    pub fn named(name: &str) -> Type {
        Type::Object(ObjectType::Named(name.into()))
    }

    /// Returns the type of the type `inner` as a value.
    #[must_use]
    pub fn type_of(inner: Type) -> Type {
        Type::Type(Some(Arc::new(inner)))
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Any | Type::Error)
    }

    /// Returns the name at runtime, without parameters: `type(x)` prints it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Type::Dyn => "dyn",
            Type::Any => "google.protobuf.Any",
            Type::Error => "error",
            Type::Null => "null_type",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::Duration => "google.protobuf.Duration",
            Type::Type(_) => "type",
            Type::List(_) => "list",
            Type::Map(..) => "map",
            Type::Optional(_) => "optional_type",
            Type::Opaque(name) => name,
            Type::Object(object) => object.name(),
            Type::Param(_) => "type_param",
        }
    }

    /// Returns the parameters: the element of a list, the key and value of a map, and so on.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &Type> {
        let (first, second): (Option<&Type>, Option<&Type>) = match self {
            Type::List(inner) | Type::Optional(inner) | Type::Type(Some(inner)) => (Some(inner), None),
            Type::Map(key, value) => (Some(key), Some(value)),
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// Returns the form that Kubernetes prints for a result of the wrong type: names at runtime, where the messages
    /// of the checker have short names.
    #[must_use]
    pub fn runtime_text(&self) -> String {
        let mut text = Text { out: String::new(), style: Style::Runtime };
        text.write(self);
        text.out
    }
}

impl From<&Decl> for Type {
    fn from(decl: &Decl) -> Self {
        match &decl.kind {
            DeclKind::Dyn => Type::Dyn,
            DeclKind::Any => Type::Any,
            DeclKind::Quantity => Type::named("kubernetes.Quantity"),
            DeclKind::Bool => Type::Bool,
            DeclKind::Int => Type::Int,
            DeclKind::Double => Type::Double,
            DeclKind::String => Type::String,
            DeclKind::Bytes => Type::Bytes,
            DeclKind::Timestamp | DeclKind::Date => Type::Timestamp,
            DeclKind::Duration => Type::Duration,
            DeclKind::List { item, .. } => Type::list(Type::from(&**item)),
            DeclKind::Map { value, .. } => Type::map(Type::String, Type::from(&**value)),
            DeclKind::Object(object) => Type::Object(ObjectType::Declared(object.clone())),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Text { out: String::new(), style: Style::Checker };
        text.write(self);
        f.write_str(&text.out)
    }
}

impl fmt::Display for TypeParam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Declared(name) => f.write_char(*name),
            Self::Free(number) => write!(f, "_var{number}"),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Style {
    Checker,
    Runtime,
}

/// Text of a type, of bounded length.
struct Text {
    out: String,
    style: Style,
}

impl Text {
    fn write(&mut self, ty: &Type) {
        if self.out.len() > TYPE_TEXT_BYTES_MAX {
            if !self.out.ends_with("...") {
                self.out.push_str("...");
            }
            return;
        }
        match ty {
            Type::Param(param) if self.style == Style::Checker => self.out.push_str(&param.to_string()),
            Type::Param(param) => self.out.push_str(&format!("<{param}>")),
            Type::Any if self.style == Style::Checker => self.out.push_str("any"),
            Type::Error if self.style == Style::Checker => self.out.push_str("!error!"),
            Type::Null if self.style == Style::Checker => self.out.push_str("null"),
            Type::Timestamp if self.style == Style::Checker => self.out.push_str("timestamp"),
            Type::Duration if self.style == Style::Checker => self.out.push_str("duration"),
            _ => self.write_named(ty),
        }
    }

    fn write_named(&mut self, ty: &Type) {
        self.out.push_str(ty.name());
        for (index, parameter) in ty.parameters().enumerate() {
            self.out.push_str(if index == 0 { "(" } else { ", " });
            self.write(parameter);
        }
        if ty.parameters().next().is_some() {
            self.out.push(')');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_print_as_in_cel_go() {
        for (ty, checker, runtime) in [
            (
                Type::map(Type::String, Type::list(Type::Int)),
                "map(string, list(int))",
                "map(string, list(int))",
            ),
            (Type::Timestamp, "timestamp", "google.protobuf.Timestamp"),
            (Type::Null, "null", "null_type"),
            (Type::Error, "!error!", "error"),
            (Type::Any, "any", "google.protobuf.Any"),
            (Type::type_of(Type::Duration), "type(duration)", "type(google.protobuf.Duration)"),
            (Type::Type(None), "type", "type"),
            (Type::optional(Type::Opaque("net.IP")), "optional_type(net.IP)", "optional_type(net.IP)"),
            (Type::named("kubernetes.Quantity"), "kubernetes.Quantity", "kubernetes.Quantity"),
            (Type::Param(TypeParam::Free(3)), "_var3", "<_var3>"),
            (Type::Param(TypeParam::Declared('A')), "A", "<A>"),
        ] {
            assert_eq!(ty.to_string(), checker);
            assert_eq!(ty.runtime_text(), runtime);
        }
    }

    #[test]
    fn text_of_a_shared_type_is_bounded() {
        let mut ty = Type::Int;
        for _ in 0..60 {
            let shared = Arc::new(ty);
            ty = Type::Map(shared.clone(), shared);
        }
        assert!(ty.to_string().len() < TYPE_TEXT_BYTES_MAX + 1024);
    }

    #[test]
    fn objects_are_equal_by_name() {
        let fields = |name: &str| {
            Type::Object(ObjectType::Fields(Arc::new(ObjectFields {
                name: name.into(),
                fields: BTreeMap::new(),
            })))
        };
        assert_eq!(fields("a"), Type::named("a"));
        assert_ne!(fields("a"), fields("b"));
    }
}
