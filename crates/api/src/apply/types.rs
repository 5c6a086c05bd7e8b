//! Merge behavior of types: atomic values, or parts with managers of their own.
//!
//! [`Type::atom`] resolves the schema of a position together with its value. The value matters only where the
//! schema allows anything.

use compact_str::CompactString;
use thiserror::Error;

use super::element::Element;
use crate::json;
use crate::quote::Quoted;
use crate::schema::{Field, ListType, MapType, Shape, Struct, TypeRef, builtin};
use crate::structural::{AdditionalProperties, Schema, SchemaType};
use crate::value::{Map, Value};

/// Schema of a kind for apply: that of a built-in kind, or the structural schema of a custom one. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub enum MergeType<'a> {
    /// A built-in kind.
    BuiltIn(Struct<'a>),
    /// A custom kind.
    Custom {
        /// Name of the kind.
        kind: &'a str,
        /// Schema of the version.
        schema: &'a Schema,
    },
}

impl<'a> From<Struct<'a>> for MergeType<'a> {
    fn from(of: Struct<'a>) -> MergeType<'a> {
        MergeType::BuiltIn(of)
    }
}

impl<'a> MergeType<'a> {
    /// Name of the kind.
    #[must_use]
    pub fn name(self) -> &'a str {
        match self {
            MergeType::BuiltIn(of) => of.name(),
            MergeType::Custom { kind, .. } => kind,
        }
    }

    /// Type at the root of an object.
    #[inline]
    pub(super) fn root(self) -> Type<'a> {
        match self {
            MergeType::BuiltIn(of) => Type::Kind(of),
            MergeType::Custom { schema, .. } => Type::Custom(CustomType {
                schema,
                preserves: schema.preserve_unknown_fields,
                is_resource: true,
            }),
        }
    }
}

/// Type of a position in an object of a custom kind.
#[derive(Clone, Copy)]
pub(super) struct CustomType<'a> {
    schema: &'a Schema,
    /// This node or one above preserves unknown fields.
    preserves: bool,
    /// The value has `apiVersion`, `kind` and `metadata`.
    is_resource: bool,
}

/// Fields of an object.
#[derive(Clone, Copy)]
pub(super) enum StructFields<'a> {
    BuiltIn(Struct<'a>),
    Custom(CustomType<'a>),
}

/// Type of a position in an object. Cheap to copy.
#[derive(Clone, Copy)]
pub(super) enum Type<'a> {
    /// A kind, at the root of an object.
    Kind(Struct<'a>),
    /// Type of a field or item.
    Ref(TypeRef<'a>),
    /// Type in a custom kind.
    Custom(CustomType<'a>),
    /// A string: `apiVersion` and `kind` of custom kinds.
    Text,
    /// Untyped; fields of objects have managers of their own.
    Deduced,
    /// Untyped and atomic.
    Untyped,
}

/// Decomposition of a value, the counterpart of structured-merge-diff's `Atom`.
#[derive(Clone, Copy)]
pub(super) enum Atom<'a> {
    /// An object with known fields.
    Struct { of: StructFields<'a>, atomic: bool },
    /// An object with any keys.
    Map { of: Type<'a>, atomic: bool },
    /// A list.
    List(Items<'a>),
    /// A scalar.
    Scalar(Scalar),
}

/// Type of a scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Numeric,
    String,
    Boolean,
    Any,
}

/// Items of a list.
#[derive(Clone, Copy)]
pub(super) struct Items<'a> {
    /// Type of each item.
    pub(super) of: Type<'a>,
    /// Identification of the items.
    pub(super) kind: ListType,
    list: ListSource<'a>,
}

/// Declaration of a list, which has the keys of its items.
#[derive(Clone, Copy)]
enum ListSource<'a> {
    BuiltIn(TypeRef<'a>),
    Custom(&'a Schema),
    Untyped,
}

/// The items of a list cannot be identified.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum ItemError {
    #[error("associative list with keys may not have a null element")]
    NullWithKeys,
    #[error("associative list with keys may not have non-map elements")]
    NoMap,
    #[error(
        "associative list with keys has an element that omits all key fields [{0}] (and doesn't have default values for any key fields)"
    )]
    NoKeys(String),
    #[error("associative list without keys has an element that's a map type")]
    Map,
    #[error("not supported: associative list with lists as elements")]
    List,
    #[error("associative list without keys has an element that's an explicit null")]
    Null,
}

impl<'a> Type<'a> {
    /// Decomposition of a value; without a value, or with null, that of the type.
    pub(super) fn atom(self, value: Option<&Value>) -> Atom<'a> {
        match self {
            Type::Kind(of) => Atom::Struct { of: StructFields::BuiltIn(of), atomic: false },
            Type::Custom(of) => of.atom(value),
            Type::Text => Atom::Scalar(Scalar::String),
            Type::Deduced => anything(value, false),
            Type::Untyped => anything(value, true),
            Type::Ref(ty) => match ty.shape() {
                // An object without known fields is untyped.
                Shape::Struct(of) if of.is_empty() => Atom::Map { of: Type::Deduced, atomic: ty.is_atomic() },
                Shape::Struct(of) => Atom::Struct { of: StructFields::BuiltIn(of), atomic: ty.is_atomic() },
                Shape::Map(of) => Atom::Map { of: Type::Ref(of), atomic: ty.is_atomic() },
                Shape::List(of) => Atom::List(Items {
                    of: Type::Ref(of),
                    kind: ty.list_type().unwrap_or(ListType::Atomic),
                    list: ListSource::BuiltIn(ty),
                }),
                Shape::Fields => Atom::Map { of: Type::Deduced, atomic: false },
                Shape::Raw => anything(value, true),
                Shape::Any | Shape::SchemaOr(..) => anything(value, false),
                Shape::String | Shape::Bytes => Atom::Scalar(Scalar::String),
                Shape::Int32 | Shape::Int64 | Shape::Double => Atom::Scalar(Scalar::Numeric),
                Shape::Bool => Atom::Scalar(Scalar::Boolean),
                Shape::IntOrString | Shape::Quantity | Shape::Time | Shape::MicroTime => {
                    Atom::Scalar(Scalar::Any)
                }
            },
        }
    }
}

impl<'a> CustomType<'a> {
    /// Type of a node below this one.
    fn below(self, schema: &'a Schema) -> Type<'a> {
        Type::Custom(CustomType {
            schema,
            preserves: self.preserves || schema.preserve_unknown_fields,
            is_resource: schema.embedded_resource,
        })
    }

    fn atom(self, value: Option<&Value>) -> Atom<'a> {
        match self.schema.ty {
            Some(SchemaType::Object) => self.object(),
            Some(SchemaType::Array) => self.list(),
            Some(SchemaType::Integer | SchemaType::Number) => Atom::Scalar(Scalar::Numeric),
            Some(SchemaType::Boolean) => Atom::Scalar(Scalar::Boolean),
            Some(SchemaType::String) => match self.schema.format() {
                None | Some("byte") => Atom::Scalar(Scalar::String),
                Some(_) => Atom::Scalar(Scalar::Any),
            },
            None => match value {
                Some(Value::List(_)) => self.list(),
                None | Some(Value::Null | Value::Map(_)) => self.object(),
                Some(_) => Atom::Scalar(Scalar::Any),
            },
        }
    }

    fn object(self) -> Atom<'a> {
        let atomic = self.schema.map_type == Some(MapType::Atomic);
        let has_fields = self.is_resource || self.schema.properties().len() > 0;
        match self.rest() {
            Some(of) if !has_fields => Atom::Map { of, atomic },
            _ => Atom::Struct { of: StructFields::Custom(self), atomic },
        }
    }

    fn list(self) -> Atom<'a> {
        Atom::List(Items {
            of: self.schema.items.as_deref().map_or(Type::Untyped, |items| self.below(items)),
            kind: self.schema.list_type.unwrap_or(ListType::Atomic),
            list: ListSource::Custom(self.schema),
        })
    }

    /// Type of fields that are not properties; `None` if there are none.
    fn rest(self) -> Option<Type<'a>> {
        match &self.schema.additional {
            AdditionalProperties::Schema(schema) => Some(self.below(schema)),
            AdditionalProperties::Allowed(allowed) => allowed.then_some(Type::Deduced),
            AdditionalProperties::Unspecified => {
                let is_free = !self.is_resource && self.schema.properties().len() == 0;
                (self.preserves || is_free).then_some(Type::Deduced)
            }
        }
    }

    /// Type of a field, and `true` if it is a property.
    fn field(self, name: &str) -> Option<(Type<'a>, bool)> {
        if self.is_resource && matches!(name, "apiVersion" | "kind" | "metadata") {
            let meta = builtin().meta("ObjectMeta").filter(|_| name == "metadata");
            return Some((meta.map_or(Type::Text, Type::Kind), true));
        }
        match self.schema.property(name) {
            Some(property) => Some((self.below(property), true)),
            None => self.rest().map(|of| (of, false)),
        }
    }
}

/// Decomposition of an untyped value.
fn anything(value: Option<&Value>, atomic: bool) -> Atom<'static> {
    match value {
        Some(Value::List(_)) => {
            Atom::List(Items { of: Type::Untyped, kind: ListType::Atomic, list: ListSource::Untyped })
        }
        None | Some(Value::Null | Value::Map(_)) => {
            Atom::Map { of: if atomic { Type::Untyped } else { Type::Deduced }, atomic }
        }
        Some(_) => Atom::Scalar(Scalar::Any),
    }
}

impl<'a> Atom<'a> {
    /// `true` if two values at one position are decomposed in the same way.
    pub(super) fn is_same_shape(self, other: Atom<'_>) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// Type of a field, and `true` if the schema knows its name.
    #[inline]
    pub(super) fn field(self, name: &str) -> Option<(Type<'a>, bool)> {
        match self {
            Atom::Struct { of: StructFields::BuiltIn(of), .. } => {
                of.field(name).map(|field| (Type::Ref(field.ty()), true))
            }
            Atom::Struct { of: StructFields::Custom(of), .. } => of.field(name),
            Atom::Map { of, .. } => Some((of, false)),
            _ => None,
        }
    }

    /// Type behind a path element, if the schema has one.
    pub(super) fn behind(self, element: &Element) -> Option<Type<'a>> {
        match (self, element) {
            (atom, Element::Field(name)) => atom.field(name).map(|(ty, _)| ty),
            (Atom::List(items), _) => Some(items.of),
            _ => None,
        }
    }
}

impl Items<'_> {
    /// `true` if the list is atomic.
    pub(super) fn is_atomic(&self) -> bool {
        self.kind == ListType::Atomic
    }

    /// Path element of an item of a list that is not atomic.
    pub(super) fn element(&self, item: &Value) -> Result<Element, ItemError> {
        match (self.kind, item) {
            (ListType::Map, Value::Map(item)) => self.key(item),
            (ListType::Map, Value::Null) => Err(ItemError::NullWithKeys),
            (ListType::Map, _) => Err(ItemError::NoMap),
            (_, Value::Map(_)) => Err(ItemError::Map),
            (_, Value::List(_)) => Err(ItemError::List),
            (_, Value::Null) => Err(ItemError::Null),
            (_, scalar) => Ok(Element::value(scalar.clone())),
        }
    }

    fn key(&self, item: &Map) -> Result<Element, ItemError> {
        match self.list {
            ListSource::BuiltIn(list) => self.key_of(item, list.list_keys()),
            ListSource::Custom(list) => self.key_of(item, list.list_keys.iter().map(CompactString::as_str)),
            ListSource::Untyped => Err(ItemError::NoKeys(String::new())),
        }
    }

    fn key_of<'k>(
        &self,
        item: &Map,
        keys: impl ExactSizeIterator<Item = &'k str> + Clone,
    ) -> Result<Element, ItemError> {
        let mut fields: Vec<(CompactString, Value)> = Vec::with_capacity(keys.len());
        for key in keys.clone() {
            if let Some(value) = item.get(key).cloned().or_else(|| self.default(key)) {
                fields.push((CompactString::from(key), value));
            }
        }
        if fields.is_empty() {
            let keys: Vec<String> = keys.map(|key| Quoted(key).to_string()).collect();
            return Err(ItemError::NoKeys(keys.join(" ")));
        }
        Ok(Element::key(fields))
    }

    /// Value of a missing key: the default of the schema, or zero if the API always encodes the field.
    fn default(&self, key: &str) -> Option<Value> {
        let of = match self.of {
            Type::Ref(of) => of,
            Type::Custom(of) => return of.schema.property(key)?.default.as_deref().cloned(),
            _ => return None,
        };
        let Shape::Struct(of) = of.shape() else { return None };
        let field = of.field(key)?;
        match field.default_json() {
            Some(text) => json::parse(text.as_bytes()).ok(),
            None => zero(field),
        }
    }

    /// Elements of all items, in order.
    pub(super) fn elements(&self, list: &[Value]) -> Result<Vec<Element>, (usize, ItemError)> {
        let step = |(at, item)| self.element(item).map_err(|error| (at, error));
        list.iter().enumerate().map(step).collect()
    }
}

fn zero(field: Field<'_>) -> Option<Value> {
    if field.is_pointer() || field.omits_empty() {
        return None;
    }
    match field.ty().shape() {
        Shape::String => Some(Value::from("")),
        Shape::Int32 | Shape::Int64 | Shape::Double => Some(Value::Int(0)),
        Shape::Bool => Some(Value::Bool(false)),
        _ => None,
    }
}

/// Position of a walk relative to `metadata.managedFields`, which has no managers itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// The object.
    Root,
    /// Its metadata.
    Metadata,
    /// Any other position.
    Inner,
}

impl Level {
    /// Level of the value in a field.
    pub(super) fn of_field(self, name: &str) -> Level {
        if self == Level::Root && name == "metadata" { Level::Metadata } else { Level::Inner }
    }

    /// `true` if a walk skips this field.
    pub(super) fn is_skipped(self, name: &str) -> bool {
        self == Level::Metadata && name == "managedFields"
    }
}

/// Calls `visit` for each key of two objects with both values: first the keys of the left, in order, then
/// those that only the right has.
pub(super) fn zip<'v>(
    left: &'v Map,
    right: &'v Map,
    mut visit: impl FnMut(&'v str, Option<&'v Value>, Option<&'v Value>),
) {
    let mut found = 0;
    let mut rights = Lookup::new(right);
    let mut next = right.iter();
    for (key, value) in left.iter() {
        // Both usually have the same keys in the same order.
        let other = match next.next() {
            Some((name, other)) if name == key => Some(other),
            _ => rights.get(key),
        };
        found += usize::from(other.is_some());
        visit(key, Some(value), other);
    }
    if found == right.len() {
        return;
    }
    let mut lefts = Lookup::new(left);
    for (key, value) in right.iter() {
        if lefts.get(key).is_none() {
            visit(key, None, Some(value));
        }
    }
}

/// Maximum number of fields for which a lookup is a linear scan.
const LINEAR_LEN_MAX: usize = 24;

/// Key lookup with a sorted index for large objects.
struct Lookup<'v> {
    map: &'v Map,
    /// Fields sorted by key, built on first use.
    sorted: Vec<(&'v str, &'v Value)>,
}

impl<'v> Lookup<'v> {
    fn new(map: &'v Map) -> Lookup<'v> {
        Lookup { map, sorted: Vec::new() }
    }

    fn get(&mut self, key: &str) -> Option<&'v Value> {
        if self.map.len() <= LINEAR_LEN_MAX {
            return self.map.get(key);
        }
        if self.sorted.is_empty() {
            self.sorted.extend(self.map.iter());
            self.sorted.sort_unstable_by_key(|(key, _)| *key);
        }
        let at = self.sorted.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        Some(self.sorted[at].1)
    }
}

#[cfg(test)]
mod tests;
