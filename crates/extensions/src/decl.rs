//! Declared CEL types of structural schemas.
//!
//! Upstream's `SchemaDeclType`: which nodes expressions see, with bounds of their sizes for cost estimates.

pub(crate) mod kinds;

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_api::schema::ListType;
use setpoint_api::structural::{Schema, SchemaType};
use setpoint_cel::{Decl, DeclKind, FieldDecl, ListDecl, ObjectDecl, escape_identifier};

/// Largest request, in bytes, which bounds values without limits of their own.
pub(crate) const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;
/// Longest string in a request: one without its quotation marks.
const TEXT_BYTES_MAX: u64 = REQUEST_BYTES_MAX - 2;
/// Longest timestamp or duration in JSON with its quotation marks.
const TIME_BYTES_MAX: u64 = 32;
/// Length of a date in JSON with its quotation marks.
const DATE_BYTES: u64 = 12;
/// Shortest timestamp in JSON with its quotation marks.
const DATETIME_BYTES_MIN: u64 = 21;
/// Shortest duration in JSON with its quotation marks.
const DURATION_BYTES_MIN: u64 = 3;
/// Length of `""`, `[]` and `{}`.
const EMPTY_BYTES: u64 = 2;
/// Most bytes of one character.
const CHARACTER_BYTES_MAX: u64 = 4;
/// Longest name of an object.
const NAME_LENGTH_MAX: i64 = 253;
/// Name of the type of an object until it is named after its place.
const UNNAMED: &str = "object";

/// Declared type of a node.
pub(crate) struct SchemaDecl {
    pub(crate) decl: Decl,
    /// Length of the shortest value in JSON, in bytes.
    pub(crate) min_bytes: u64,
}

/// Returns the declared type of a node; `None` if expressions do not see it. With `is_resource`, the node is the root
/// of a resource, which has metadata.
pub(crate) fn declare(schema: &Schema, is_resource: bool) -> Option<SchemaDecl> {
    declare_with(schema, is_resource, None)
}

/// Declares a node. `metadata` is the type of the metadata of resources; `None` for the names alone.
fn declare_with(schema: &Schema, is_resource: bool, metadata: Option<&Decl>) -> Option<SchemaDecl> {
    let (kind, max, min_bytes) = match schema.ty {
        _ if schema.int_or_string => (DeclKind::Dyn, max_text_bytes(schema, TEXT_BYTES_MAX), 1),
        Some(SchemaType::Array) => return declare_list(schema, metadata),
        Some(SchemaType::Object) => return declare_object(schema, is_resource, metadata),
        Some(SchemaType::String) => return Some(declare_text(schema)),
        Some(SchemaType::Boolean) => return scalar(DeclKind::Bool, 4),
        Some(SchemaType::Number) => return scalar(DeclKind::Double, 1),
        Some(SchemaType::Integer) => return scalar(DeclKind::Int, 1),
        None => return None,
    };
    Some(SchemaDecl { decl: Decl { kind, max_elements: Some(max) }, min_bytes })
}

fn scalar(kind: DeclKind, min_bytes: u64) -> Option<SchemaDecl> {
    Some(SchemaDecl { decl: Decl::new(kind), min_bytes })
}

fn limit(max: i64) -> u64 {
    u64::try_from(max).unwrap_or(0)
}

fn max_length(schema: &Schema) -> Option<i64> {
    schema.checks.as_ref()?.text.as_ref()?.max_length
}

/// Returns the bound by `maxLength`, which counts characters.
fn max_text_bytes(schema: &Schema, otherwise: u64) -> u64 {
    max_length(schema).map_or(otherwise, |max| limit(max).saturating_mul(CHARACTER_BYTES_MAX))
}

fn declare_text(schema: &Schema) -> SchemaDecl {
    let (kind, max, min_bytes) = match schema.format() {
        Some("byte") => (DeclKind::Bytes, max_length(schema).map_or(TEXT_BYTES_MAX, limit), EMPTY_BYTES),
        Some("duration") => (DeclKind::Duration, TIME_BYTES_MAX, DURATION_BYTES_MIN),
        Some("date") => (DeclKind::Date, DATE_BYTES, DATE_BYTES),
        Some("date-time") => (DeclKind::Timestamp, TIME_BYTES_MAX, DATETIME_BYTES_MIN),
        _ => {
            let values = schema.checks.as_ref().map_or(&[][..], |checks| &checks.enumeration);
            let longest = values.iter().filter_map(|value| value.as_str()).map(str::len).max();
            let longest = longest.map_or(0, |bytes| bytes as u64);
            let otherwise = if values.is_empty() { TEXT_BYTES_MAX } else { longest };
            (DeclKind::String, max_text_bytes(schema, otherwise), EMPTY_BYTES)
        }
    };
    SchemaDecl { decl: Decl { kind, max_elements: Some(max) }, min_bytes }
}

fn declare_list(schema: &Schema, metadata: Option<&Decl>) -> Option<SchemaDecl> {
    let items = schema.items.as_deref()?;
    let item = declare_with(items, items.embedded_resource, metadata)?;
    let declared = schema.checks.as_ref().and_then(|checks| checks.size.as_ref()?.max_items);
    let max = declared.map_or_else(|| (REQUEST_BYTES_MAX - 2) / (item.min_bytes + 1), limit);
    let list_type = match schema.list_type {
        Some(ListType::Set) => ListDecl::Set,
        Some(ListType::Map) => {
            ListDecl::Map(schema.list_keys.iter().map(|key| key.as_str().into()).collect())
        }
        Some(ListType::Atomic) | None => ListDecl::Atomic,
    };
    let kind = DeclKind::List { item: Arc::new(item.decl), list_type };
    Some(SchemaDecl { decl: Decl { kind, max_elements: Some(max) }, min_bytes: EMPTY_BYTES })
}

fn declare_object(schema: &Schema, is_resource: bool, metadata: Option<&Decl>) -> Option<SchemaDecl> {
    if let Some(values) = schema.additional.schema() {
        let value = declare_with(values, values.embedded_resource, metadata)?;
        let declared = schema.checks.as_ref().and_then(|checks| checks.size.as_ref()?.max_properties);
        // A key has at least its quotation marks, a colon, a comma, and two characters.
        let max = declared.map_or_else(|| (REQUEST_BYTES_MAX - 2) / (value.min_bytes + 6), limit);
        let kind = DeclKind::Map { value: Arc::new(value.decl), key_size_max: 0 };
        return Some(SchemaDecl { decl: Decl { kind, max_elements: Some(max) }, min_bytes: EMPTY_BYTES });
    }
    let required = schema.checks.as_ref().map_or(&[][..], |checks| &checks.required);
    let is_required = |name: &str| required.iter().any(|field| field == name);
    let mut fields = BTreeMap::new();
    let mut min_bytes = EMPTY_BYTES;
    let mut add = |name: &str, declared: SchemaDecl, has_default: bool| {
        // Quotation marks, a colon and a comma.
        if is_required(name) && !has_default {
            min_bytes += name.len() as u64 + declared.min_bytes + 4;
        }
        if escape_identifier(name).is_some() {
            fields.insert(name.into(), FieldDecl { decl: declared.decl, is_required: is_required(name) });
        }
    };
    let adds_metadata = is_resource && (metadata.is_some() || !has_metadata(schema));
    for (name, property) in schema.properties() {
        if !(adds_metadata && matches!(name, "apiVersion" | "kind" | "metadata"))
            && let Some(declared) = declare_with(property, property.embedded_resource, metadata)
        {
            add(name, declared, property.default.is_some());
        }
    }
    if adds_metadata {
        add("apiVersion", text(TEXT_BYTES_MAX), false);
        add("kind", text(TEXT_BYTES_MAX), false);
        let names = || declare_metadata(schema);
        let all = |decl: &Decl| SchemaDecl { decl: decl.clone(), min_bytes: EMPTY_BYTES };
        add("metadata", metadata.map_or_else(names, all), false);
    }
    let kind = DeclKind::Object(Arc::new(ObjectDecl { name: UNNAMED.into(), fields }));
    Some(SchemaDecl { decl: Decl::new(kind), min_bytes })
}

fn text(max: u64) -> SchemaDecl {
    SchemaDecl { decl: Decl { kind: DeclKind::String, max_elements: Some(max) }, min_bytes: EMPTY_BYTES }
}

/// `true` if the schema specifies all that every resource has.
fn has_metadata(schema: &Schema) -> bool {
    let is = |schema: &Schema, name: &str, ty: SchemaType| {
        schema.property(name).is_some_and(|property| property.ty == Some(ty))
    };
    is(schema, "kind", SchemaType::String)
        && is(schema, "apiVersion", SchemaType::String)
        && is(schema, "metadata", SchemaType::Object)
        && schema.property("metadata").is_some_and(|metadata| {
            is(metadata, "name", SchemaType::String) && is(metadata, "generateName", SchemaType::String)
        })
}

/// Metadata that expressions see: the names, with the limits of the schema or of names.
fn declare_metadata(schema: &Schema) -> SchemaDecl {
    let metadata = schema.property("metadata");
    let name = |name: &str, max: i64| {
        let declared = metadata.and_then(|metadata| max_length(metadata.property(name)?));
        let max = declared.map_or(max, |declared| declared.min(max));
        let decl = text(limit(max).saturating_mul(CHARACTER_BYTES_MAX)).decl;
        (name.into(), FieldDecl { decl, is_required: false })
    };
    let fields = [name("name", NAME_LENGTH_MAX), name("generateName", NAME_LENGTH_MAX - 1)];
    let object = ObjectDecl { name: UNNAMED.into(), fields: fields.into() };
    SchemaDecl { decl: Decl::new(DeclKind::Object(Arc::new(object))), min_bytes: EMPTY_BYTES }
}

/// `true` if the fields of a node are those of an object in expressions.
pub(crate) fn has_fields(schema: &Schema) -> bool {
    !schema.int_or_string && schema.ty == Some(SchemaType::Object) && schema.additional.schema().is_none()
}
