//! Declared types of JSON values: the types that a schema gives to `self`, `object` or `params`.
//!
//! The checker derives the CEL type of every field from its declaration, the evaluator converts JSON values by it
//! (a string of the format `date-time` is a timestamp), and the cost estimate reads its bounds.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Declared type of a JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decl {
    /// Type of the value.
    pub kind: DeclKind,
    /// Maximum number of elements of a list or map, or of bytes of a string; `None` if unbounded.
    pub max_elements: Option<u64>,
}

/// Kind of a declared type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeclKind {
    /// Any value: unknown fields, or an integer or string.
    Dyn,
    /// A scalar of any type, such as an attribute of a device. Unlike `Dyn`, macros do not iterate over it.
    Any,
    /// A quantity.
    Quantity,
    /// A boolean.
    Bool,
    /// An integer.
    Int,
    /// A number.
    Double,
    /// A string.
    String,
    /// Base64 in JSON, bytes in CEL.
    Bytes,
    /// An RFC 3339 timestamp, `date-time` of a schema.
    Timestamp,
    /// A date without a time, `date` of a schema; a timestamp in CEL.
    Date,
    /// A duration.
    Duration,
    /// An array.
    List {
        /// Type of the items.
        item: Arc<Decl>,
        /// Identity of the items, which equality and concatenation follow.
        list_type: ListDecl,
    },
    /// An object with any keys.
    Map {
        /// Type of the values.
        value: Arc<Decl>,
        /// Maximum number of bytes of a key. Schemas have no such bound, which counts as 0 in Kubernetes.
        key_size_max: u64,
    },
    /// An object with known fields.
    Object(Arc<ObjectDecl>),
}

/// Identity of the items of a list, `x-kubernetes-list-type`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListDecl {
    /// Items have a position.
    Atomic,
    /// Items are unique, in any order.
    Set,
    /// Items are identified by these keys, in any order.
    Map(Box<[Box<str>]>),
}

/// Declared type of an object with known fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectDecl {
    /// Type name in error messages.
    pub name: Box<str>,
    /// Fields by their names in JSON. In expressions, names are escaped as `CEL` identifiers.
    pub fields: BTreeMap<Box<str>, FieldDecl>,
}

/// Declared field of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldDecl {
    /// Type of the field.
    pub decl: Decl,
    /// `true` if the schema requires the field.
    pub is_required: bool,
}

impl Decl {
    /// Returns a declaration without a bound.
    #[must_use]
    pub const fn new(kind: DeclKind) -> Decl {
        Decl { kind, max_elements: None }
    }
}
