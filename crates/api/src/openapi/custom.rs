//! Custom kinds in both documents: paths and definitions of a served version, as upstream's CRD builder publishes them.

use std::collections::BTreeSet;

use super::Dialect;
use super::definitions::{self, object, texts};
use super::model::{Kind, PathItem};
use super::operations::{self, CustomDefinitions};
use crate::custom_kind::ServedCustomVersion;
use crate::field_error::Path;
use crate::kind_schema::KindSchema;
use crate::resource_types::ResourceType;
use crate::resources::ResourceInfo;
use crate::schema;
use crate::structural;
use crate::value::{Map, Value};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const LIST_METADATA: &str = "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

/// A version of a custom kind in a document.
pub(super) struct CustomPart<'a> {
    resource_type: &'a ResourceType,
    /// Definition of an object: reversed group, version and kind, as in `com.example.v1.Widget`.
    object: String,
    /// Definition of a list.
    list: String,
}

impl<'a> CustomPart<'a> {
    pub(super) fn new(resource_type: &'a ResourceType) -> CustomPart<'a> {
        let ResourceInfo { group, version, kind, list_kind, .. } = &resource_type.info;
        let group = group.split('.').rev().collect::<Vec<_>>().join(".");
        let name = |kind: &str| format!("{group}.{version}.{kind}");
        CustomPart { object: name(kind), list: name(list_kind), resource_type }
    }

    /// Paths with their operations.
    pub(super) fn paths(&self) -> Vec<PathItem<'_>> {
        let definitions = CustomDefinitions { object: &self.object, list: &self.list };
        operations::custom(&self.resource_type.info, definitions)
    }

    /// Definitions that some paths refer to, with those of custom kinds.
    pub(super) fn with_definitions(
        parts: &[CustomPart<'_>],
        items: &[PathItem<'_>],
        own: &BTreeSet<(&str, &str)>,
        dialect: Dialect,
    ) -> Value {
        let roots = [OBJECT_META, LIST_META].into_iter().filter(|_| !parts.is_empty());
        let custom: BTreeSet<&str> =
            parts.iter().flat_map(|part| [part.object.as_str(), part.list.as_str()]).collect();
        let referred = super::referred(items).filter(|name| !custom.contains(name));
        let names = definitions::closure(referred.chain(roots));
        let mut schemas = definitions::schemas(&names, own, dialect);
        if !parts.is_empty() {
            let map = schemas.make_map();
            for part in parts {
                map.insert(part.object.as_str(), part.object_schema(dialect));
                map.insert(part.list.as_str(), part.list_schema(dialect));
            }
            map.sort();
        }
        schemas
    }

    fn info(&self) -> &ResourceInfo {
        &self.resource_type.info
    }

    /// Published schema of an object. A version without a structural schema has none: kubectl takes fields beside known
    /// ones for errors.
    fn object_schema(&self, dialect: Dialect) -> Value {
        let any = || object([("type", "object".into())]);
        let props = self.props();
        let mut schema = match (props, dialect) {
            (None, _) => any(),
            (Some(_), Dialect::V2) if self.preserves_unknown_fields() => any(),
            (Some(props), Dialect::V2) => {
                let mut schema = structural::to_openapi_v2(&props);
                drop_defaults(&mut schema);
                schema
            }
            (Some(props), Dialect::V3) => structural::to_openapi_v3(&props),
        };
        self.add_extensions(schema.make_map(), &self.info().kind);
        schema
    }

    fn custom(&self) -> Option<&ServedCustomVersion> {
        self.resource_type.custom.as_ref()
    }

    fn preserves_unknown_fields(&self) -> bool {
        self.custom().is_some_and(|custom| custom.kind.definition.preserves_unknown_fields)
    }

    /// Schema in the definition, if it is structural.
    fn props(&self) -> Option<Value> {
        let KindSchema::Custom(schema) = &self.resource_type.schema else { return None };
        let path = Path::root("openAPIV3Schema");
        schema.props().filter(|props| structural::structural_violations(props, &path).is_empty())
    }

    fn list_schema(&self, dialect: Dialect) -> Value {
        let ResourceInfo { plural, kind, list_kind, .. } = self.info();
        let described = |name: &str| {
            let field = schema::builtin().kind("", "v1", "Pod").and_then(|pod| pod.field(name));
            object([
                ("description", field.map_or("", |field| field.description()).into()),
                ("type", "string".into()),
            ])
        };
        let items = object([
            ("description", format!("List of {plural}. More info: {CONVENTIONS}").into()),
            ("items", object([("$ref", dialect.reference(&self.object))])),
            ("type", "array".into()),
        ]);
        let properties = object([
            ("apiVersion", described("apiVersion")),
            ("items", items),
            ("kind", described("kind")),
            ("metadata", described_reference(LIST_META, LIST_METADATA, dialect)),
        ]);
        let mut list = object([
            ("description", format!("{list_kind} is a list of {kind}").into()),
            ("properties", properties),
            ("required", texts(["items"].into_iter())),
            ("type", "object".into()),
        ]);
        self.add_extensions(list.make_map(), list_kind);
        list
    }

    fn add_extensions(&self, schema: &mut Map, kind: &str) {
        let ResourceInfo { group, version, .. } = self.info();
        let kind = definitions::kind(&Kind { group, version, kind });
        schema.insert("x-kubernetes-group-version-kind", Value::List(vec![kind]));
        let fields = self.custom().map(|custom| custom.version().selectable_fields.as_slice());
        let fields: Vec<Value> = fields
            .unwrap_or_default()
            .iter()
            .map(|path| object([("fieldPath", path.strip_prefix('.').unwrap_or(path).into())]))
            .collect();
        if !fields.is_empty() {
            schema.insert("x-kubernetes-selectable-fields", Value::List(fields));
        }
    }
}

/// Reference with a description. Version 3 allows no siblings of a reference.
fn described_reference(definition: &str, description: &str, dialect: Dialect) -> Value {
    let reference = dialect.reference(definition);
    match dialect {
        Dialect::V2 => object([("$ref", reference), ("description", description.into())]),
        Dialect::V3 => object([
            ("allOf", Value::List(vec![object([("$ref", reference)])])),
            ("description", description.into()),
        ]),
    }
}

/// Removes the defaults of a schema, which upstream leaves out of the v2 document.
fn drop_defaults(schema: &mut Value) {
    let Some(map) = schema.as_map_mut() else { return };
    map.remove("default");
    if let Some(Value::Map(properties)) = map.get_mut("properties") {
        properties.iter_mut().for_each(|(_, property)| drop_defaults(property));
    }
    for field in ["items", "additionalProperties"] {
        if let Some(child @ Value::Map(_)) = map.get_mut(field) {
            drop_defaults(child);
        }
    }
}
