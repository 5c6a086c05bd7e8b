//! Schema model: tables and structure joined, with all references resolved.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::layout::{marker, tag};
use crate::table::{self, Package};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

/// Contents of the schema table.
pub struct Model {
    /// Structs by definition name.
    pub structs: BTreeMap<String, Struct>,
    /// Types of fields and items, deduplicated.
    pub nodes: Vec<Node>,
    indexes: BTreeMap<Node, u16>,
}

/// A definition with fields.
pub struct Struct {
    pub group: String,
    pub version: String,
    pub is_kind: bool,
    pub map_type: u8,
    pub description: String,
    pub fields: Vec<Field>,
}

/// A field: its table entry, its type, and its schema in `k8s-openapi`.
pub struct Field {
    pub facts: table::Field,
    pub node: u16,
    pub required: bool,
    /// Encoded even if absent: fields without `omitempty`, and structs that are no pointers.
    pub always: bool,
    pub description: String,
}

/// Type of a field or item.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node {
    pub tag: u8,
    pub list_type: u8,
    pub map_type: u8,
    pub wrapped: bool,
    pub of: Of,
    pub keys: Vec<String>,
    pub go: String,
}

impl Node {
    /// `true` if the Go type is a struct, which is never empty for `omitempty`.
    fn is_go_struct(&self) -> bool {
        !matches!(
            self.tag,
            tag::MAP
                | tag::LIST
                | tag::STRING
                | tag::BYTES
                | tag::INT32
                | tag::INT64
                | tag::DOUBLE
                | tag::BOOL
        )
    }
}

/// Target of a node.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    #[default]
    Nothing,
    Node(u16),
    Definition(String),
}

/// Joins the tables with the structure. Panics if a type is missing on either side, except types that only
/// the tables describe.
pub fn join(packages: Vec<Package>, typed: &BTreeMap<String, Value>, lists: &[(String, String)]) -> Model {
    let mut model = Model { structs: BTreeMap::new(), nodes: Vec::new(), indexes: BTreeMap::new() };
    for package in packages {
        for facts in &package.types {
            let definition = format!("{}.{}", package.prefix, facts.name);
            let joined = model.join_type(&package, facts, typed.get(&definition));
            model.structs.insert(definition, joined);
        }
        for (_, kind) in lists.iter().filter(|(api_version, _)| *api_version == package.api_version()) {
            let item = format!("{}.{kind}", package.prefix);
            let joined = model.list_of(&package, &item);
            model.structs.insert(format!("{item}List"), joined);
        }
    }
    let structs = &model.structs;
    for definition in typed.keys() {
        assert!(
            structs.contains_key(definition) || special(definition).is_some(),
            "no facts of {definition}"
        );
    }
    for node in &model.nodes {
        if let Of::Definition(definition) = &node.of {
            assert!(structs.contains_key(definition), "{definition} is referred to and unknown");
        }
    }
    model
}

impl Package {
    fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }
}

impl Model {
    fn join_type(&mut self, package: &Package, facts: &table::Type, typed: Option<&Value>) -> Struct {
        let known = typed.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
        let required = typed.and_then(|schema| schema.get("required")).and_then(Value::as_array);
        let mut fields = Vec::new();
        for fact in &facts.fields {
            let schema = known.and_then(|properties| properties.get(&fact.name));
            let written = fact.structure.as_deref().map(structure);
            let schema = schema.or(written.as_ref());
            let schema = schema.unwrap_or_else(|| panic!("no structure of {}.{}", facts.name, fact.name));
            let node = self.node(schema, fact, fact.go.as_deref());
            let is_struct = self.nodes[usize::from(node)].is_go_struct();
            fields.push(Field {
                node,
                always: !fact.omit_zero && (!fact.omit_empty || (is_struct && !fact.pointer)),
                required: match typed {
                    Some(_) => {
                        required.is_some_and(|names| names.iter().any(|name| name == fact.name.as_str()))
                    }
                    None => !fact.omit_empty,
                },
                description: description(schema),
                facts: fact.clone(),
            });
        }
        let count = known.map_or(fields.len(), serde_json::Map::len);
        assert_eq!(count, fields.len(), "the fields of {} differ", facts.name);
        Struct {
            group: package.group.clone(),
            version: package.version.clone(),
            is_kind: facts.fields.iter().any(|field| field.embedded.as_deref() == Some("TypeMeta")),
            map_type: facts.map_type.as_deref().map_or(0, map_type),
            description: typed.map(description).unwrap_or_default(),
            fields,
        }
    }

    /// All lists have the same form: list metadata, then items.
    fn list_of(&mut self, package: &Package, item: &str) -> Struct {
        let name = item.rsplit('.').next().unwrap_or(item);
        let field = |name: &str, number, omit_empty, structure: String| table::Field {
            name: name.to_owned(),
            numbers: vec![number],
            omit_empty,
            structure: Some(structure),
            ..table::Field::default()
        };
        let facts = table::Type {
            name: format!("{name}List"),
            map_type: None,
            fields: Vec::from(table::type_meta())
                .into_iter()
                .chain([
                    field("metadata", 1, true, format!("ref:{META}.ListMeta")),
                    field("items", 2, false, format!("[]ref:{item}")),
                ])
                .collect(),
        };
        let mut joined = self.join_type(package, &facts, None);
        joined.description = format!("{name}List is a list of {name}.");
        joined
    }

    /// Interns the node of a schema. Markers apply to the outermost list or map; `wrapped` applies to the
    /// innermost.
    fn node(&mut self, schema: &Value, facts: &table::Field, go: Option<&str>) -> u16 {
        let mut node = Node { go: go.map_or_else(|| go_type(schema), str::to_owned), ..Node::default() };
        if let Some((kind, keys)) = &facts.list {
            node.list_type = list_type(kind);
            node.keys.clone_from(keys);
        }
        let inner = table::Field { wrapped: facts.wrapped, ..table::Field::default() };
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let definition = reference.rsplit('/').next().unwrap_or(reference).to_owned();
            node.map_type = facts.map_type.as_deref().map_or(0, map_type);
            match special(&definition) {
                Some(tag) => node.tag = tag,
                None => {
                    node.tag = tag::STRUCT;
                    node.of = Of::Definition(definition);
                }
            }
            if (tag::SCHEMA_OR_ARRAY..=tag::SCHEMA_OR_STRINGS).contains(&node.tag) {
                let props = serde_json::json!({"$ref": format!("{EXTENSIONS}.JSONSchemaProps")});
                node.of = Of::Node(self.node(&props, &inner, None));
            }
        } else if let Some(items) = schema.get("items") {
            node.tag = tag::LIST;
            node.wrapped = facts.wrapped;
            let go = node.go.strip_prefix("[]").map(str::to_owned);
            node.of = Of::Node(self.node(items, &inner, go.as_deref()));
        } else if let Some(values) = schema.get("additionalProperties") {
            node.tag = tag::MAP;
            node.map_type = facts.map_type.as_deref().map_or(0, map_type);
            let go =
                node.go.strip_prefix("map[").and_then(|go| go.split_once(']')).map(|(_, go)| go.to_owned());
            node.of = Of::Node(self.node(values, &inner, go.as_deref()));
        } else {
            node.tag = scalar(schema);
        }
        self.intern(node)
    }

    fn intern(&mut self, node: Node) -> u16 {
        if let Some(index) = self.indexes.get(&node) {
            return *index;
        }
        let index = u16::try_from(self.nodes.len()).expect("fewer than 65,536 types");
        self.nodes.push(node.clone());
        self.indexes.insert(node, index);
        index
    }
}

/// Structure that a table writes as `[]{}ref:Name`, in the form of `k8s-openapi`.
fn structure(text: &str) -> Value {
    if let Some(items) = text.strip_prefix("[]") {
        return serde_json::json!({"type": "array", "items": structure(items)});
    }
    if let Some(values) = text.strip_prefix("{}") {
        return serde_json::json!({"type": "object", "additionalProperties": structure(values)});
    }
    if let Some(definition) = text.strip_prefix("ref:") {
        return serde_json::json!({"$ref": definition});
    }
    match text {
        "string" => serde_json::json!({"type": "string"}),
        "bytes" => serde_json::json!({"type": "string", "format": "byte"}),
        "int32" | "int64" => serde_json::json!({"type": "integer", "format": text}),
        "bool" => serde_json::json!({"type": "boolean"}),
        "any" => serde_json::json!({}),
        _ => panic!("unknown structure {text:?}"),
    }
}

fn scalar(schema: &Value) -> u8 {
    let word = |key| schema.get(key).and_then(Value::as_str).unwrap_or_default();
    match (word("type"), word("format")) {
        ("string", "byte") => tag::BYTES,
        ("string", "") => tag::STRING,
        ("integer", "int32") => tag::INT32,
        ("integer", "int64") => tag::INT64,
        ("number", _) => tag::DOUBLE,
        ("boolean", _) => tag::BOOL,
        ("", "") => tag::ANY,
        other => panic!("unknown scalar {other:?}"),
    }
}

/// Definitions that are not structs in JSON.
fn special(definition: &str) -> Option<u8> {
    let (package, name) = definition.rsplit_once('.')?;
    Some(match (package, name) {
        ("io.k8s.apimachinery.pkg.api.resource", "Quantity") => tag::QUANTITY,
        ("io.k8s.apimachinery.pkg.util.intstr", "IntOrString") => tag::INT_OR_STRING,
        ("io.k8s.apimachinery.pkg.runtime", "RawExtension") => tag::RAW,
        (META, "Time") => tag::TIME,
        (META, "MicroTime") => tag::MICRO_TIME,
        (META, "FieldsV1") => tag::FIELDS,
        (EXTENSIONS, "JSON") => tag::ANY,
        (EXTENSIONS, "JSONSchemaPropsOrArray") => tag::SCHEMA_OR_ARRAY,
        (EXTENSIONS, "JSONSchemaPropsOrBool") => tag::SCHEMA_OR_BOOL,
        (EXTENSIONS, "JSONSchemaPropsOrStringArray") => tag::SCHEMA_OR_STRINGS,
        _ => return None,
    })
}

/// Go type in decoding errors, where it follows from the structure.
fn go_type(schema: &Value) -> String {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let mut parts = reference.rsplit(['.', '/']);
        let name = parts.next().unwrap_or_default();
        return format!("{}.{name}", parts.next().unwrap_or_default());
    }
    if let Some(items) = schema.get("items") {
        return format!("[]{}", go_type(items));
    }
    if let Some(values) = schema.get("additionalProperties") {
        return format!("map[string]{}", go_type(values));
    }
    let go = match scalar(schema) {
        tag::BYTES => "[]uint8",
        tag::STRING => "string",
        tag::INT32 => "int32",
        tag::INT64 => "int64",
        tag::DOUBLE => "float64",
        tag::BOOL => "bool",
        _ => "interface {}",
    };
    go.to_owned()
}

fn description(schema: &Value) -> String {
    schema.get("description").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn list_type(text: &str) -> u8 {
    match text {
        "atomic" => marker::ATOMIC,
        "set" => marker::SET,
        "map" => marker::MAP,
        _ => panic!("unknown list type {text:?}"),
    }
}

fn map_type(text: &str) -> u8 {
    match text {
        "atomic" => marker::ATOMIC,
        "granular" => marker::GRANULAR,
        _ => panic!("unknown map type {text:?}"),
    }
}
