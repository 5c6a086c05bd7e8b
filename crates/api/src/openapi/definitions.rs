//! Schemas of definitions, in both dialects.

use std::collections::{BTreeMap, BTreeSet};

use super::Dialect;
use super::model::Kind;
use super::operations::{VERSION_INFO, is_shared};
use super::special::{UNIONS, special, special_schema, version_info};
use crate::json;
use crate::schema::{self, Field, ListType, MapType, Shape, Struct, TypeRef};
use crate::value::{Map, Value};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
/// `k8s-openapi` has its `eventTime` as optional and its metadata as required; upstream's document has the
/// opposite.
const EVENT: &str = "io.k8s.api.events.v1.Event";
/// References of the core group with an optional name.
const OPTIONAL_NAMES: [&str; 8] = [
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "LocalObjectReference",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecretProjection",
];
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

/// Builds an object from these fields.
pub(super) fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Map(fields.into_iter().collect())
}

/// Builds a list of strings.
pub(super) fn texts<'a>(texts: impl Iterator<Item = &'a str>) -> Value {
    Value::List(texts.map(Value::from).collect())
}

/// Transitive closure of the definitions that some refer to.
pub(super) fn closure<'a>(first: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = first.collect();
    while let Some(name) = open.pop() {
        if !found.insert(name) {
            continue;
        }
        if let Some(of) = schema::builtin().definition(name) {
            open.extend(of.fields().filter_map(|field| referred(field.ty())));
        } else if name.strip_prefix(EXTENSIONS).is_some_and(|name| name.starts_with(".JSONSchemaPropsOr")) {
            open.extend(
                schema::builtin()
                    .definition(&format!("{EXTENSIONS}.JSONSchemaProps"))
                    .map(Struct::definition),
            );
        }
    }
    found
}

/// Definition that a type refers to, directly or as items or values.
fn referred(ty: TypeRef<'static>) -> Option<&'static str> {
    match ty.shape() {
        Shape::Struct(of) => Some(of.definition()),
        Shape::List(of) | Shape::Map(of) => referred(of),
        shape => special(shape),
    }
}

/// Schemas of definitions by name. `own` are the group versions in which the kinds of `meta/v1` are
/// registered.
pub(super) fn schemas(names: &BTreeSet<&str>, own: &BTreeSet<(&str, &str)>, dialect: Dialect) -> Value {
    let schema = |name: &str| match schema::builtin().definition(name) {
        Some(of) => of_struct(of, own, dialect),
        None if name == VERSION_INFO => version_info(),
        None => special_schema(name, dialect),
    };
    Value::Map(names.iter().map(|name| (*name, schema(name))).collect())
}

fn of_struct(of: Struct<'_>, own: &BTreeSet<(&str, &str)>, dialect: Dialect) -> Value {
    let mut schema = Map::with_capacity(6);
    match of.description() {
        "" if of.name() == "WatchEvent" => drop(schema.insert("description", "Event of a watch.")),
        "" => {}
        description => drop(schema.insert("description", description)),
    }
    let properties: BTreeMap<&str, Value> =
        of.fields().map(|field| (field.name(), of_field(of, field, dialect))).collect();
    if !properties.is_empty() {
        schema.insert("properties", Value::Map(properties.into_iter().collect()));
    }
    let mut required = of.fields().filter(|field| is_required(of, *field)).map(Field::name).peekable();
    if required.peek().is_some() {
        schema.insert("required", texts(required));
    }
    schema.insert("type", "object");
    let kinds = kinds(of, own);
    if !kinds.is_empty() {
        schema.insert("x-kubernetes-group-version-kind", Value::List(kinds.iter().map(kind).collect()));
    }
    if let Some(map_type) = of.map_type() {
        schema.insert("x-kubernetes-map-type", map_type_name(map_type));
    }
    if let Some(found) = UNIONS.iter().find(|union| union.definition == of.definition()) {
        let mut union = Map::new();
        if !found.discriminator.is_empty() {
            union.insert("discriminator", found.discriminator);
        }
        union.insert("fields-to-discriminateBy", Value::Map(found.fields.iter().copied().collect()));
        schema.insert("x-kubernetes-unions", Value::List(vec![Value::Map(union)]));
    }
    Value::Map(schema)
}

/// `true` if a document requires the field. The table has the fields that are always present in responses;
/// requests may omit metadata and names with a default.
fn is_required(of: Struct<'_>, field: Field<'_>) -> bool {
    match field.name() {
        "metadata" => field.is_required() && !field.omits_empty() && of.definition() != EVENT,
        "eventTime" => of.definition() == EVENT || field.is_required(),
        _ => field.is_required() && !is_optional_name(of, field),
    }
}

/// `true` if the field is the optional name of a reference.
fn is_optional_name(of: Struct<'_>, field: Field<'_>) -> bool {
    let package = of.definition().strip_suffix(of.name());
    field.name() == "name" && package == Some("io.k8s.api.core.v1.") && OPTIONAL_NAMES.contains(&of.name())
}

/// Description of a field; empty for fields that only the tables know. The fields of `TypeMeta` take it from
/// `Status`.
fn description(field: Field<'_>) -> &str {
    match (field.description(), field.name()) {
        ("", name @ ("kind" | "apiVersion" | "metadata")) => {
            let own = schema::builtin().meta("Status").and_then(|status| status.field(name));
            own.filter(|own| own.ty() == field.ty()).map_or("", Field::description)
        }
        ("", "items") if matches!(field.ty().shape(), Shape::List(_)) => "Objects of the list.",
        ("", "object") => "Object after the event, or a Status for an error.",
        (description, _) => description,
    }
}

/// Encodes a kind for the extension `x-kubernetes-group-version-kind`.
pub(super) fn kind(of: &Kind<'_>) -> Value {
    object([("group", of.group.into()), ("kind", of.kind.into()), ("version", of.version.into())])
}

/// Kinds of a definition.
fn kinds<'a>(of: Struct<'a>, own: &BTreeSet<(&'a str, &'a str)>) -> Vec<Kind<'a>> {
    let name = of.name();
    if is_shared(of.definition()) {
        let everywhere = own.iter().copied().chain([("", "v1")]).collect::<BTreeSet<_>>();
        return everywhere.into_iter().map(|(group, version)| Kind { group, version, kind: name }).collect();
    }
    if of.field("kind").is_none_or(|field| field.embedded_path() != "TypeMeta") {
        return Vec::new();
    }
    let group = if of.definition().starts_with(META) { "" } else { of.group() };
    vec![Kind { group, version: of.version(), kind: name }]
}

const fn map_type_name(map_type: MapType) -> &'static str {
    match map_type {
        MapType::Atomic => "atomic",
        MapType::Granular => "granular",
    }
}

/// Schema of a type, without the attributes of the field.
fn of_type(ty: TypeRef<'_>, dialect: Dialect) -> Map {
    let typed = |name: &str, format: &str| {
        let mut map = Map::with_capacity(4);
        if !format.is_empty() {
            map.insert("format", format);
        }
        map.insert("type", name);
        map
    };
    match ty.shape() {
        Shape::Struct(of) => reference(of.definition(), dialect),
        Shape::Map(of) => {
            let mut map = typed("object", "");
            map.insert_first("additionalProperties", Value::Map(of_type(of, dialect)));
            map
        }
        Shape::List(of) => {
            let mut map = typed("array", "");
            map.insert_first("items", Value::Map(of_type(of, dialect)));
            map
        }
        Shape::String => typed("string", ""),
        Shape::Bytes => typed("string", "byte"),
        Shape::Int32 => typed("integer", "int32"),
        Shape::Int64 => typed("integer", "int64"),
        Shape::Double => typed("number", "double"),
        Shape::Bool => typed("boolean", ""),
        shape => reference(special(shape).unwrap_or_default(), dialect),
    }
}

fn reference(name: &str, dialect: Dialect) -> Map {
    Map::from_iter([("$ref", dialect.reference(name))])
}

fn of_field(of: Struct<'_>, field: Field<'_>, dialect: Dialect) -> Value {
    let ty = field.ty();
    let mut schema = of_type(ty, dialect);
    let bare = schema.len();
    let description = description(field);
    if !description.is_empty() {
        schema.insert("description", description);
    }
    if dialect == Dialect::V3
        && let Some(default) = default(of, field)
    {
        schema.insert("default", default);
    }
    if field.values().len() > 0 {
        let values = texts(field.values());
        // For a list, the enum applies to each item.
        match schema.get_mut("items").and_then(Value::as_map_mut) {
            Some(items) => items.insert_first("enum", values),
            None => drop(schema.insert("enum", values)),
        }
    }
    markers(field, &mut schema);
    // Version 3 allows no siblings of a reference.
    if dialect == Dialect::V3
        && schema.len() > bare
        && let Some(reference) = schema.remove("$ref")
    {
        schema.insert("allOf", Value::List(vec![object([("$ref", reference)])]));
    }
    schema.sort();
    Value::Map(schema)
}

/// Default in the schema, or Go's zero value for an absent field.
fn default(of: Struct<'_>, field: Field<'_>) -> Option<Value> {
    if let Some(text) = field.default_json() {
        return json::parse(text.as_bytes()).ok();
    }
    if field.is_pointer() {
        return None;
    }
    match field.ty().shape() {
        Shape::Struct(_) => Some(Value::map()),
        _ if field.omits_empty() => is_optional_name(of, field).then(|| "".into()),
        Shape::String => Some("".into()),
        Shape::Int32 | Shape::Int64 | Shape::Double => Some(0.into()),
        Shape::Bool => Some(false.into()),
        _ => None,
    }
}

/// Adds the markers of merge behavior.
fn markers(field: Field<'_>, schema: &mut Map) {
    let ty = field.ty();
    if let Some(list_type) = ty.list_type() {
        let name = match list_type {
            ListType::Atomic => "atomic",
            ListType::Set => "set",
            ListType::Map => "map",
        };
        schema.insert("x-kubernetes-list-type", name);
    }
    if ty.list_keys().len() > 0 {
        schema.insert("x-kubernetes-list-map-keys", texts(ty.list_keys()));
    }
    if let Some(map_type) = ty.map_type() {
        schema.insert("x-kubernetes-map-type", map_type_name(map_type));
    }
    if let Some(key) = field.merge_key() {
        schema.insert("x-kubernetes-patch-merge-key", key);
    }
    let patch = field.patch_strategy();
    let words = [(patch.merge, "merge"), (patch.retain_keys, "retainKeys"), (patch.replace, "replace")];
    let words: Vec<&str> = words.into_iter().filter_map(|(set, word)| set.then_some(word)).collect();
    if !words.is_empty() {
        schema.insert("x-kubernetes-patch-strategy", words.join(","));
    }
}
