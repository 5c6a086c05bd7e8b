//! OpenAPI v2: one document of everything.

use std::collections::BTreeSet;

use super::custom::CustomPart;
use super::definitions::{self, object, texts};
use super::model::{Content, Operation, Parameter, ParameterLocation, PathItem, reason};
use super::{Dialect, media, operations};
use crate::resource_types::ResourceType;
use crate::resources;
use crate::value::{Map, Value};

/// Generates the document, with these custom kinds. `version` is the version of the server, as in `v1.37.0`.
#[must_use]
pub fn document<'a>(version: &str, custom: impl Iterator<Item = &'a ResourceType>) -> Value {
    let custom: Vec<CustomPart<'_>> = custom.map(CustomPart::new).collect();
    let own: BTreeSet<(&str, &str)> = resources::all().iter().map(|r| (&*r.group, &*r.version)).collect();
    let groups: BTreeSet<&str> =
        own.iter().map(|(group, _)| *group).filter(|group| !group.is_empty()).collect();
    let mut items: Vec<PathItem<'_>> =
        own.iter().flat_map(|(group, version)| operations::group_version(group, version)).collect();
    items.extend(groups.into_iter().flat_map(operations::group));
    let apart = ["api", "apis", ".well-known/openid-configuration", "openid/v1/jwks", "version"];
    items.extend(apart.into_iter().filter_map(operations::ungrouped).flatten());
    items.extend(custom.iter().flat_map(CustomPart::paths));
    items.sort_by(|a, b| a.path.cmp(&b.path));
    let definitions = CustomPart::with_definitions(&custom, &items, &own, Dialect::V2);
    let token = object([
        ("description", "Bearer Token authentication".into()),
        ("in", "header".into()),
        ("name", "authorization".into()),
        ("type", "apiKey".into()),
    ]);
    object([
        ("definitions", definitions),
        ("info", object([("title", "Kubernetes".into()), ("version", version.into())])),
        ("paths", Value::Map(items.iter().map(|item| (item.path.as_str(), path_item(item))).collect())),
        ("security", Value::List(vec![object([("BearerToken", Value::List(Vec::new()))])])),
        ("securityDefinitions", object([("BearerToken", token)])),
        ("swagger", "2.0".into()),
    ])
}

fn path_item(item: &PathItem<'_>) -> Value {
    let mut map: Map = item.operations.iter().map(|op| (op.method, operation(op))).collect();
    if !item.parameters.is_empty() {
        map.insert("parameters", Value::List(item.parameters.iter().map(parameter).collect()));
    }
    map.sort();
    map.into()
}

fn parameter(of: &Parameter) -> Value {
    let mut map = Map::with_capacity(6);
    if !of.description.is_empty() {
        map.insert("description", of.description.as_ref());
    }
    map.insert("in", of.location.as_str());
    map.insert("name", of.name);
    if of.location == ParameterLocation::Path {
        map.insert("required", true);
    }
    map.insert("type", of.ty);
    map.insert("uniqueItems", true);
    map.into()
}

fn reference(definition: &str) -> Value {
    object([("$ref", Dialect::V2.reference(definition))])
}

fn operation(of: &Operation<'_>) -> Value {
    let mut map = Map::with_capacity(11);
    if of.method != "get" || of.action.is_some() {
        map.insert("consumes", texts(of.body.as_ref().map_or(media::ANY, |body| body.types).iter().copied()));
    } else {
        map.insert("consumes", texts(of.types.iter().copied()));
    }
    map.insert("description", of.description.as_str());
    map.insert("operationId", of.id.as_str());
    let body = of.body.as_ref().map(|body| {
        let mut map = Map::from_iter([("in", "body"), ("name", "body")]);
        if body.required {
            map.insert("required", true);
        }
        map.insert("schema", reference(body.definition));
        Value::Map(map)
    });
    let parameters: Vec<Value> = body.into_iter().chain(of.parameters.iter().map(parameter)).collect();
    if !parameters.is_empty() {
        map.insert("parameters", Value::List(parameters));
    }
    map.insert("produces", texts(of.types.iter().copied()));
    let schema = match of.content {
        Content::Object(definition) => reference(definition),
        Content::Text => object([("type", "string".into())]),
    };
    let mut responses = Map::new();
    for code in of.codes {
        let response = object([("description", reason(*code).into()), ("schema", schema.clone())]);
        responses.insert(code.to_string(), response);
    }
    responses.insert("401", object([("description", reason(401).into())]));
    map.insert("responses", responses);
    map.insert("schemes", texts(["https"].into_iter()));
    map.insert("tags", texts([of.tag.as_str()].into_iter()));
    if let Some(action) = of.action {
        map.insert("x-kubernetes-action", action);
    }
    if let Some(kind) = &of.kind {
        map.insert("x-kubernetes-group-version-kind", definitions::kind(kind));
    }
    map.into()
}
