//! What merging has to know about a type: is a value one whole, or do its parts have owners of their own?
//!
//! [`Type::atom`] brings the schema of a place and the value found there together. It depends on the value only
//! where the schema allows anything.

use compact_str::CompactString;
use thiserror::Error;

use super::element::Element;
use crate::json;
use crate::quote::Quoted;
use crate::schema::{Field, ListType, Shape, Struct, TypeRef};
use crate::value::{Map, Value};

/// The type of a place in an object. Cheap to copy.
#[derive(Clone, Copy)]
pub(super) enum Type<'a> {
    /// A kind, at the root of an object.
    Kind(Struct<'a>),
    /// The type of a field or an item.
    Ref(TypeRef<'a>),
    /// Anything; the fields of objects have owners of their own.
    Deduced,
    /// Anything, as one whole.
    Untyped,
}

/// How a value of a type is taken apart.
#[derive(Clone, Copy)]
pub(super) enum Atom<'a> {
    /// An object with known fields.
    Struct { of: Struct<'a>, atomic: bool },
    /// An object with any keys.
    Map { of: Type<'a>, atomic: bool },
    /// A list.
    List(Items<'a>),
    /// Nothing to take apart.
    Scalar(Scalar),
}

/// What a value that is not taken apart may be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Numeric,
    String,
    Boolean,
    Any,
}

/// The items of a list.
#[derive(Clone, Copy)]
pub(super) struct Items<'a> {
    /// The type of each.
    pub(super) of: Type<'a>,
    /// How they are told apart.
    pub(super) kind: ListType,
    list: Option<TypeRef<'a>>,
}

/// Why the items of a list cannot be told apart.
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
    /// How a value of this type is taken apart; without a value, or with null, as the type would have it.
    pub(super) fn atom(self, value: Option<&Value>) -> Atom<'a> {
        match self {
            Type::Kind(of) => Atom::Struct { of, atomic: false },
            Type::Deduced => anything(value, false),
            Type::Untyped => anything(value, true),
            Type::Ref(ty) => match ty.shape() {
                // An object without known fields is one in which anything goes.
                Shape::Struct(of) if of.is_empty() => Atom::Map { of: Type::Deduced, atomic: ty.is_atomic() },
                Shape::Struct(of) => Atom::Struct { of, atomic: ty.is_atomic() },
                Shape::Map(of) => Atom::Map { of: Type::Ref(of), atomic: ty.is_atomic() },
                Shape::List(of) => Atom::List(Items {
                    of: Type::Ref(of),
                    kind: ty.list_type().unwrap_or(ListType::Atomic),
                    list: Some(ty),
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

/// What a value is where the schema allows anything.
fn anything(value: Option<&Value>, atomic: bool) -> Atom<'static> {
    match value {
        Some(Value::List(_)) => Atom::List(Items { of: Type::Untyped, kind: ListType::Atomic, list: None }),
        None | Some(Value::Null | Value::Map(_)) => {
            Atom::Map { of: if atomic { Type::Untyped } else { Type::Deduced }, atomic }
        }
        Some(_) => Atom::Scalar(Scalar::Any),
    }
}

impl<'a> Atom<'a> {
    /// Whether two values at one place are taken apart in the same way.
    pub(super) fn is_like(self, other: Atom<'_>) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// The type of a field of an object, and whether it is known by name.
    #[inline]
    pub(super) fn field(self, name: &str) -> Option<(Type<'a>, bool)> {
        match self {
            Atom::Struct { of, .. } => of.field(name).map(|field| (Type::Ref(field.ty()), true)),
            Atom::Map { of, .. } => Some((of, false)),
            _ => None,
        }
    }

    /// The type behind a step of a path, where the schema knows one.
    pub(super) fn behind(self, element: &Element) -> Option<Type<'a>> {
        match (self, element) {
            (atom, Element::Field(name)) => atom.field(name).map(|(ty, _)| ty),
            (Atom::List(items), _) => Some(items.of),
            _ => None,
        }
    }
}

impl Items<'_> {
    /// Whether the list is one whole.
    pub(super) fn is_atomic(&self) -> bool {
        self.kind == ListType::Atomic
    }

    /// The step of a path to an item of a list that is no whole.
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
        let Some(list) = self.list else { return Err(ItemError::NoKeys(String::new())) };
        let mut fields: Vec<(CompactString, Value)> = Vec::with_capacity(list.list_keys().len());
        for key in list.list_keys() {
            if let Some(value) = item.get(key).cloned().or_else(|| self.default(key)) {
                fields.push((CompactString::from(key), value));
            }
        }
        if fields.is_empty() {
            let keys: Vec<String> = list.list_keys().map(|key| Quoted(key).to_string()).collect();
            return Err(ItemError::NoKeys(keys.join(" ")));
        }
        Ok(Element::key(fields))
    }

    /// What an item that lacks a key has in its place: the default of the schema, or zero where the API always
    /// writes something.
    fn default(&self, key: &str) -> Option<Value> {
        let Type::Ref(of) = self.of else { return None };
        let Shape::Struct(of) = of.shape() else { return None };
        let field = of.field(key)?;
        match field.default_json() {
            Some(text) => json::parse(text.as_bytes()).ok(),
            None => zero(field),
        }
    }

    /// The steps to all items, in their order.
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

/// The objects that a walk passes by on its way, so far as they matter: what the server keeps about owners is not
/// itself owned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// The object.
    Root,
    /// Its metadata.
    Metadata,
    /// Anything else.
    Inner,
}

impl Level {
    /// The level of the value in a field.
    pub(super) fn of_field(self, name: &str) -> Level {
        if self == Level::Root && name == "metadata" { Level::Metadata } else { Level::Inner }
    }

    /// Whether a walk leaves this field out.
    pub(super) fn skips(self, name: &str) -> bool {
        self == Level::Metadata && name == "managedFields"
    }
}

/// Calls `visit` for each key of two objects with the values that they have there: first the keys of the left, in
/// their order, then those that only the right has.
pub(super) fn zip<'v>(
    left: &'v Map,
    right: &'v Map,
    mut visit: impl FnMut(&'v str, Option<&'v Value>, Option<&'v Value>),
) {
    let mut found = 0;
    let mut rights = Lookup::new(right);
    let mut next = right.iter();
    for (key, value) in left.iter() {
        // Mostly both have the same keys in the same order.
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

/// Up to this many fields, an object is searched by looking at each.
const LINEAR_LEN_MAX: usize = 24;

/// Finds keys of an object in little time, however large it is.
struct Lookup<'v> {
    map: &'v Map,
    /// The fields of a large object by key, once they are needed.
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
mod tests {
    use super::*;

    #[test]
    fn zipping_finds_every_key_once_in_small_and_large_objects() {
        for len in [3, 3 * LINEAR_LEN_MAX] {
            let map = |keys: &mut dyn Iterator<Item = usize>| -> Map {
                keys.map(|at| (format!("k{at}"), i64::try_from(at).unwrap())).collect()
            };
            let left = map(&mut (0..len));
            let right = map(&mut (1..len + 2).rev());
            let mut seen = Vec::new();
            zip(&left, &right, |key, a, b| {
                assert!(a.or(b).is_some() && (a.is_none() || b.is_none() || a == b));
                seen.push((key.to_owned(), a.is_some(), b.is_some()));
            });
            let count = |a, b| seen.iter().filter(|found| (found.1, found.2) == (a, b)).count();
            assert_eq!((count(true, true), count(true, false), count(false, true)), (len - 1, 1, 2));
            seen.sort();
            seen.dedup();
            assert_eq!(seen.len(), len + 2);
        }
    }
}
