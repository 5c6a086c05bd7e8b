//! Strategic merge patch: a merge patch with directives, whose lists are merged by the schema.
//!
//! - `$patch: replace` or `delete` in an object replaces or empties it; in a list item, `delete` removes the item with
//!   that key, and `replace` makes the other items of the patch the whole list.
//! - `$retainKeys` lists all fields that an object may keep.
//! - `$deleteFromPrimitiveList/FIELD` lists values to remove from a list.
//! - `$setElementOrder/FIELD` is the order of the items of a list.

use std::collections::BTreeSet;

use thiserror::Error;

use super::overlay::{FieldAction, overlay};
use crate::go_format::{GoValue, type_name};
use crate::quote::Quoted;
use crate::schema::{Field, Shape, Struct, TypeRef};
use crate::value::{Map, Value};

mod key;
mod list;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// A strategic merge patch does not apply to an object. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StrategicError {
    /// A list contains lists.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// `$deleteFromPrimitiveList` is not followed by a slash and a field.
    #[error("invalid patch format of primitive list")]
    PrimitiveList,
    /// `$retainKeys` is not a list, or lacks a field that the patch sets.
    #[error("invalid patch format of retainKeys")]
    RetainKeys,
    /// `$setElementOrder` is not followed by a slash and a field.
    #[error("invalid patch format of setElementOrder list")]
    SetElementOrder,
    /// An item lacks the merge key of its list.
    #[error("map: {item} does not contain declared merge key: {key}")]
    NoMergeKey {
        /// The item.
        item: String,
        /// The merge key.
        key: String,
    },
    /// A list without a merge key cannot be merged.
    #[error("cannot merge lists without merge key for {0}")]
    NoKeyDeclared(&'static str),
    /// A value has another type than a directive requires.
    #[error("expected a {expected}, but received a {found}")]
    Type {
        /// Required type.
        expected: &'static str,
        /// Actual type.
        found: &'static str,
    },
    /// A directive has an unknown value.
    #[error("unknown patch type: {directive} in map: {map}")]
    Directive {
        /// The value.
        directive: String,
        /// Object with the directive.
        map: String,
    },
    /// `$patch: merge` in an item of a list.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeDirective,
    /// The items of a list and its patch differ in type.
    #[error("list element types are not identical: {0}")]
    MixedItems(String),
    /// An order is given for a list without items.
    #[error("no elements in any of the given slices")]
    NoItems,
    /// The patch and its order contradict each other.
    #[error("The order in patch list:\n{patch}\n doesn't match {SET_ORDER} list:\n{order}\n")]
    Order {
        /// Items of the patch.
        patch: String,
        /// The order.
        order: String,
    },
    /// The field is not in the schema.
    #[error("unable to find api field in struct {of} for the json field {}", Quoted(.field))]
    UnknownField {
        /// The definition.
        of: String,
        /// The field.
        field: String,
    },
    /// The schema has no object here.
    #[error("merging an object in json but data type is not struct, instead is: {0}")]
    NoStruct(&'static str),
    /// The schema has no list here.
    #[error("expected slice or array type, but got: struct")]
    NoList,
}

fn no_merge_key(item: &Value, key: &str) -> StrategicError {
    StrategicError::NoMergeKey { item: GoValue(item).to_string(), key: key.to_owned() }
}

/// As upstream, formats the missing type of a null with `%s`.
fn go_type(value: &Value) -> &'static str {
    if value.is_null() { "%!s(<nil>)" } else { type_name(value) }
}

fn wrong_type(expected: &Value, found: &Value) -> StrategicError {
    StrategicError::Type { expected: go_type(expected), found: go_type(found) }
}

/// Schema of the values of an object.
#[derive(Clone, Copy)]
enum Meta<'a> {
    /// A struct with fields.
    Struct(Struct<'a>),
    /// Another Go kind, without fields.
    Other(&'static str),
}

impl<'a> Meta<'a> {
    fn of(ty: TypeRef<'a>) -> Meta<'a> {
        match ty.shape() {
            Shape::Struct(of) => Meta::Struct(of),
            Shape::Map(_) => Meta::Other("map"),
            Shape::List(_) | Shape::Bytes => Meta::Other("slice"),
            Shape::String => Meta::Other("string"),
            Shape::Int32 => Meta::Other("int32"),
            Shape::Int64 => Meta::Other("int64"),
            Shape::Double => Meta::Other("float64"),
            Shape::Bool => Meta::Other("bool"),
            Shape::SchemaOr(_, schema) => Meta::of(schema),
            _ => Meta::Other("struct"),
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Meta::Struct(_) => "struct",
            Meta::Other(kind) => kind,
        }
    }

    /// Field with this name; case-insensitive if there is no exact match, as in Go.
    fn field(self, name: &str) -> Result<Field<'a>, StrategicError> {
        let Meta::Struct(of) = self else { return Err(StrategicError::NoStruct(self.kind())) };
        of.field(name)
            .or_else(|| of.fields().find(|field| field.name().eq_ignore_ascii_case(name)))
            .ok_or_else(|| StrategicError::UnknownField { of: of.name().to_owned(), field: name.to_owned() })
    }
}

/// Applies a patch to an object of the kind `of`.
pub(super) fn apply(mut object: Value, patch: &Value, of: Struct<'_>) -> Result<Value, StrategicError> {
    if let Value::Map(patch) = patch {
        merge_map(object.make_map(), patch, Meta::Struct(of))?;
    }
    Ok(object)
}

/// Merges a patch into an object.
fn merge_map(original: &mut Map, patch: &Map, meta: Meta<'_>) -> Result<(), StrategicError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return apply_directive(directive, original, patch);
    }
    retain_keys(original, patch)?;
    // Lists with a given order are merged first.
    let mut done = BTreeSet::new();
    for (key, order) in patch.iter().filter(|(key, _)| key.starts_with(SET_ORDER)) {
        let field = directive_field(key, SET_ORDER).ok_or(StrategicError::SetElementOrder);
        list::merge_in_order(original, patch, order, field, meta, &mut done)?;
    }
    let mut fields = Vec::with_capacity(patch.len());
    for (key, value) in patch.iter() {
        if key == RETAIN_KEYS || key.starts_with(SET_ORDER) || done.contains(key) {
            continue;
        }
        let is_deletion = key.starts_with(DELETE_FROM);
        let key = match is_deletion {
            true => directive_field(key, DELETE_FROM).ok_or(StrategicError::PrimitiveList)?,
            false => key,
        };
        fields.push((key, (value, is_deletion)));
    }
    overlay(original, fields.into_iter(), |key, old, (value, is_deletion)| {
        merge_field(key, old, value, is_deletion, meta)
    })
}

/// Action on a field of the patch.
fn merge_field(
    key: &str,
    old: Option<&mut Value>,
    value: &Value,
    is_deletion: bool,
    meta: Meta<'_>,
) -> Result<FieldAction, StrategicError> {
    match (old, value) {
        (_, Value::Null) => return Ok(FieldAction::Remove),
        (Some(Value::Map(old)), Value::Map(patch)) => {
            let field = meta.field(key)?;
            if field.patch_strategy().replace {
                return Ok(FieldAction::Set(value.clone()));
            }
            merge_map(old, patch, Meta::of(field.ty()))?;
        }
        (Some(Value::List(old)), Value::List(patch)) => {
            list::merge_field(old, patch, meta.field(key)?, is_deletion)?;
        }
        _ if is_deletion => {}
        _ => return Ok(without_directives(value).map_or(FieldAction::Remove, FieldAction::Set)),
    }
    Ok(FieldAction::Keep)
}

fn apply_directive(directive: &Value, original: &mut Map, patch: &Map) -> Result<(), StrategicError> {
    match directive.as_str() {
        Some("replace") => {
            *original = patch.clone();
            original.remove(DIRECTIVE);
            Ok(())
        }
        Some("delete") => {
            original.clear();
            Ok(())
        }
        _ => Err(unknown_directive(directive, &Value::Map(patch.clone()))),
    }
}

fn unknown_directive(directive: &Value, map: &Value) -> StrategicError {
    StrategicError::Directive { directive: GoValue(directive).to_string(), map: GoValue(map).to_string() }
}

/// Field of a directive such as `$setElementOrder/ports`.
fn directive_field<'a>(key: &'a str, directive: &str) -> Option<&'a str> {
    key.strip_prefix(directive)?.strip_prefix('/')
}

/// Removes the fields that are not in `$retainKeys`, and checks that the patch sets no others.
fn retain_keys(original: &mut Map, patch: &Map) -> Result<(), StrategicError> {
    let Some(keys) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let keys = keys.as_list().ok_or(StrategicError::RetainKeys)?;
    let mut names: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
    names.sort_unstable();
    let is_named = |key: &str| names.binary_search(&key).is_ok();
    let is_free = |key: &str, value: &Value| {
        value.is_null() || key == RETAIN_KEYS || key.starts_with(DELETE_FROM) || key.starts_with(SET_ORDER)
    };
    if patch.iter().any(|(key, value)| !is_free(key, value) && !is_named(key)) {
        return Err(StrategicError::RetainKeys);
    }
    original.retain(|key, _| is_named(key));
    Ok(())
}

/// Copies the added value of a patch without null fields and without objects that contain a directive; `None`
/// if it is such an object itself.
fn without_directives(value: &Value) -> Option<Value> {
    match value {
        Value::Map(map) if map.contains(DIRECTIVE) => None,
        Value::Map(map) => {
            let fields = map.iter().filter(|(_, value)| !value.is_null());
            Some(Value::Map(
                fields.filter_map(|(key, value)| Some((key, without_directives(value)?))).collect(),
            ))
        }
        Value::List(list) => Some(Value::List(list.iter().filter_map(without_directives).collect())),
        other => Some(other.clone()),
    }
}
