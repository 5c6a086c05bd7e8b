//! OpenAPI v3: a document per group version, and the index of all documents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::custom::CustomPart;
use super::definitions::{self, object, texts};
use super::model::{Content, Operation, Parameter, ParameterLocation, PathItem, reason};
use super::{Dialect, operations};
use crate::json;
use crate::resource_types::ResourceType;
use crate::resources;
use crate::value::{Map, Value};

/// Documents beside those of groups and group versions.
const UNGROUPED: [&str; 5] = [".well-known/openid-configuration", "api", "apis", "openid/v1/jwks", "version"];

/// Names of all documents, sorted: `api/v1`, `apis/apps`, `apis/apps/v1`, `version` and so on.
#[must_use]
pub fn names() -> Vec<String> {
    let mut names: BTreeSet<String> = UNGROUPED.into_iter().map(str::to_owned).collect();
    for resource in resources::all() {
        if resource.group.is_empty() {
            names.insert(format!("api/{}", resource.version));
        } else {
            names.insert(format!("apis/{}", resource.group));
            names.insert(format!("apis/{}/{}", resource.group, resource.version));
        }
    }
    names.into_iter().collect()
}

/// Generates the index: every document with its URL, which changes with its content. `custom` are the documents with
/// custom kinds and their hashes.
#[must_use]
pub fn index(custom: &BTreeMap<String, String>) -> Value {
    let address = |name: &str, hash: &str| {
        let url = format!("/openapi/v3/{name}?hash={hash}");
        (name.to_owned(), object([("serverRelativeURL", url.into())]))
    };
    let mut paths: Map = HASHES
        .iter()
        .filter(|(name, _)| !custom.contains_key(name))
        .map(|(name, hash)| address(name, hash))
        .chain(custom.iter().map(|(name, hash)| address(name, hash)))
        .collect();
    paths.sort();
    object([("paths", paths.into())])
}

/// Hash of a document, which is also its ETag.
#[must_use]
pub fn hash(name: &str) -> Option<&'static str> {
    let at = HASHES.binary_search_by(|(found, _)| found.as_str().cmp(name)).ok()?;
    Some(&HASHES[at].1)
}

/// Generates the document with this name.
#[must_use]
pub fn document(name: &str) -> Option<Value> {
    if let Some(items) = operations::ungrouped(name) {
        return Some(render(&items, &BTreeSet::new(), &[]));
    }
    let mut parts = name.split('/');
    let (group, version) = match (parts.next()?, parts.next()?, parts.next(), parts.next()) {
        ("api", version, None, None) => ("", version),
        ("apis", group, Some(version), None) if !group.is_empty() => (group, version),
        ("apis", group, None, None) => {
            let found = resources::all().iter().any(|r| r.group == group && !group.is_empty());
            return found.then(|| render(&operations::group(group), &BTreeSet::new(), &[]));
        }
        _ => return None,
    };
    let found = resources::all().iter().any(|r| r.group == group && r.version == version);
    let own = BTreeSet::from([(group, version)]);
    found.then(|| render(&operations::group_version(group, version), &own, &[]))
}

/// Generates the document of a group version with these custom kinds, and the built-in kinds that it may have.
#[must_use]
pub fn custom_document<'a>(
    (group, version): (&'a str, &'a str),
    custom: impl Iterator<Item = &'a ResourceType>,
) -> Value {
    let parts: Vec<CustomPart<'_>> = custom.map(CustomPart::new).collect();
    let is_mixed = resources::all().iter().any(|info| info.group == group && info.version == version);
    let (mut items, own) = if is_mixed {
        (operations::group_version(group, version), BTreeSet::from([(group, version)]))
    } else {
        (Vec::new(), BTreeSet::new())
    };
    items.extend(parts.iter().flat_map(CustomPart::paths));
    items.sort_by(|a, b| a.path.cmp(&b.path));
    let mut document = render(&items, &own, &parts);
    if !is_mixed {
        let info = object([("title", "Kubernetes CRD Swagger".into()), ("version", "v0.1.0".into())]);
        document.make_map().insert("info", info);
    }
    document
}

/// Cached, because clients poll the index and each hash takes a whole document.
static HASHES: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let hash = |name: &str| {
        let document = document(name).map(|document| json::to_vec(&document)).unwrap_or_default();
        fingerprint(&document)
    };
    names().into_iter().map(|name| (hash(&name), name)).map(|(hash, name)| (name, hash)).collect()
});

/// Content hash: FNV-1a, twice with different offsets.
fn fingerprint(bytes: &[u8]) -> String {
    let fnv = |start: u64| {
        bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    };
    format!("{:016X}{:016X}", fnv(0xcbf2_9ce4_8422_2325), fnv(0x6c62_272e_07bb_0142))
}

fn render(items: &[PathItem<'_>], own: &BTreeSet<(&str, &str)>, custom: &[CustomPart<'_>]) -> Value {
    let schemas = CustomPart::with_definitions(custom, items, own, Dialect::V3);
    let token = object([
        ("description", "Bearer Token authentication".into()),
        ("in", "header".into()),
        ("name", "authorization".into()),
        ("type", "apiKey".into()),
    ]);
    let mut components = Map::new();
    if schemas.as_map().is_some_and(|schemas| !schemas.is_empty()) {
        components.insert("schemas", schemas);
    }
    components.insert("securitySchemes", object([("BearerToken", token)]));
    object([
        ("components", components.into()),
        ("info", object([("title", "Kubernetes".into()), ("version", "unversioned".into())])),
        ("openapi", "3.0.0".into()),
        ("paths", Value::Map(items.iter().map(|item| (item.path.as_str(), path_item(item))).collect())),
    ])
}

fn path_item(item: &PathItem<'_>) -> Value {
    let mut map: Map = item.operations.iter().map(|op| (op.method, operation(op))).collect();
    if !item.parameters.is_empty() {
        map.insert("parameters", parameters(&item.parameters));
    }
    map.sort();
    map.into()
}

fn parameters(all: &[Parameter]) -> Value {
    Value::List(all.iter().map(parameter).collect())
}

fn parameter(of: &Parameter) -> Value {
    let mut map = Map::with_capacity(5);
    if !of.description.is_empty() {
        map.insert("description", of.description.as_ref());
    }
    map.insert("in", of.location.as_str());
    map.insert("name", of.name);
    if of.location == ParameterLocation::Path {
        map.insert("required", true);
    }
    map.insert("schema", object([("type", of.ty.into()), ("uniqueItems", true.into())]));
    map.into()
}

fn content(types: &[&str], schema: &Value) -> Value {
    Value::Map(types.iter().map(|ty| (*ty, object([("schema", schema.clone())]))).collect())
}

fn operation(of: &Operation<'_>) -> Value {
    let mut map = Map::with_capacity(9);
    map.insert("description", of.description.as_str());
    map.insert("operationId", of.id.as_str());
    if !of.parameters.is_empty() {
        map.insert("parameters", parameters(&of.parameters));
    }
    if let Some(body) = &of.body {
        let schema = object([("$ref", Dialect::V3.reference(body.definition))]);
        let mut request = Map::from_iter([("content", content(body.types, &schema))]);
        if body.required {
            request.insert("required", true);
        }
        map.insert("requestBody", request);
    }
    let schema = match of.content {
        Content::Object(definition) => object([("$ref", Dialect::V3.reference(definition))]),
        Content::Text => object([("type", "string".into())]),
    };
    let mut responses = Map::new();
    for code in of.codes {
        let response =
            object([("content", content(of.types, &schema)), ("description", reason(*code).into())]);
        responses.insert(code.to_string(), response);
    }
    responses.insert("401", object([("description", reason(401).into())]));
    map.insert("responses", responses);
    map.insert("tags", texts([of.tag.as_str()].into_iter()));
    if let Some(action) = of.action {
        map.insert("x-kubernetes-action", action);
    }
    if let Some(kind) = &of.kind {
        map.insert("x-kubernetes-group-version-kind", definitions::kind(kind));
    }
    map.into()
}
