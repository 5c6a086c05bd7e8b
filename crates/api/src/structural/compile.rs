//! Compilation of a decoded `JSONSchemaProps` into a [`Schema`].

use compact_str::CompactString;
use thiserror::Error;

use super::coerce::drop_invalid_metadata;
use super::formats::{StringFormat, is_recognized_format};
use super::pattern::SchemaPattern;
use super::schema::{
    AdditionalProperties, LogicChecks, NumberChecks, Schema, SchemaType, SizeChecks, TextChecks,
    ValidationRule, ValueChecks, ValueFormat,
};
use super::{META_FIELDS, coerce, prune};
use crate::schema::{ListType, MapType};
use crate::value::{Map, Value};

/// Maximum depth of a schema. A JSON document has two levels for each level of a schema.
pub const SCHEMA_DEPTH_MAX: usize = 256;

/// Maximum number of nodes of a schema; a CRD of 3 MiB can have more.
pub const SCHEMA_NODES_MAX: usize = 100_000;

/// Reason for which a schema cannot be compiled.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StructuralError {
    /// A node is not an object.
    #[error("a schema must be an object")]
    NotAnObject,
    /// The schema nests too deep.
    #[error("schema is nested deeper than {SCHEMA_DEPTH_MAX} levels")]
    Depth,
    /// The schema has too many nodes.
    #[error("schema has more than {SCHEMA_NODES_MAX} nodes")]
    Nodes,
    /// The type does not exist.
    #[error("unknown type {0:?}")]
    Type(String),
    /// `items` is a list.
    #[error("OpenAPIV3Schema 'items' must be a schema, but is an array")]
    ItemsArray,
    /// A field that structural schemas do not have.
    #[error("OpenAPIV3Schema '{0}' is not supported")]
    Unsupported(&'static str),
    /// `x-kubernetes-preserve-unknown-fields` is `false`.
    #[error("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined")]
    PreserveFalse,
}

/// Fields of `JSONSchemaProps` that a structural schema cannot have.
const UNSUPPORTED: [&str; 7] =
    ["id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"];

impl Schema {
    /// Compiles a decoded `JSONSchemaProps`. Defaults are pruned by the schema itself.
    ///
    /// # Errors
    /// If the schema exceeds a bound, or has a field that no structural schema has.
    pub fn compile(props: &Value) -> Result<Schema, StructuralError> {
        let mut schema = Schema::compile_as_sent(props)?;
        prune_defaults(&mut schema, Position::Root);
        Ok(schema)
    }

    /// Compiles a decoded `JSONSchemaProps` and keeps the defaults as they are, for [`super::validate_defaults`].
    ///
    /// # Errors
    /// As [`Schema::compile`].
    pub fn compile_as_sent(props: &Value) -> Result<Schema, StructuralError> {
        let mut compiler = Compiler { nodes: 0, unknown_type: None };
        let schema = compiler.compile_node(props, 0)?;
        compiler.unknown_type.map_or(Ok(schema), |name| Err(StructuralError::Type(name)))
    }
}

struct Compiler {
    nodes: usize,
    /// Name of a type that does not exist. Other errors have precedence, because upstream does not report this one.
    unknown_type: Option<String>,
}

impl Compiler {
    fn compile_node(&mut self, props: &Value, depth: usize) -> Result<Schema, StructuralError> {
        let Value::Map(map) = props else { return Err(StructuralError::NotAnObject) };
        self.nodes += 1;
        if self.nodes > SCHEMA_NODES_MAX {
            return Err(StructuralError::Nodes);
        }
        if depth > SCHEMA_DEPTH_MAX {
            return Err(StructuralError::Depth);
        }
        if let Some(name) = UNSUPPORTED.into_iter().find(|name| map.get(name).is_some_and(is_set)) {
            // Upstream names the field of its Go type.
            return Err(StructuralError::Unsupported(if name == "$schema" { "schema" } else { name }));
        }
        let ty = match map.get_str("type").unwrap_or_default() {
            "" => None,
            name => {
                let ty = SchemaType::from_name(name);
                if ty.is_none() {
                    self.unknown_type = Some(name.to_owned());
                }
                ty
            }
        };
        if map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
            return Err(StructuralError::PreserveFalse);
        }
        let int_or_string = flag(map, "x-kubernetes-int-or-string");
        Ok(Schema {
            ty,
            nullable: flag(map, "nullable"),
            preserve_unknown_fields: flag(map, "x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag(map, "x-kubernetes-embedded-resource"),
            int_or_string,
            list_type: match map.get_str("x-kubernetes-list-type") {
                Some("atomic") => Some(ListType::Atomic),
                Some("set") => Some(ListType::Set),
                Some("map") => Some(ListType::Map),
                _ => None,
            },
            map_type: match map.get_str("x-kubernetes-map-type") {
                Some("atomic") => Some(MapType::Atomic),
                Some("granular") => Some(MapType::Granular),
                _ => None,
            },
            properties: self.compile_properties(map, depth)?,
            additional: self.compile_additional(map, depth)?,
            items: match map.get("items") {
                Some(Value::List(list)) if !list.is_empty() => return Err(StructuralError::ItemsArray),
                Some(items @ Value::Map(_)) => Some(Box::new(self.compile_node(items, depth + 1)?)),
                _ => None,
            },
            default: map.get("default").filter(|value| !value.is_null()).map(|value| Box::new(value.clone())),
            list_keys: texts(map, "x-kubernetes-list-map-keys"),
            rules: compile_rules(map),
            checks: self.compile_checks(map, ty, int_or_string, depth)?,
        })
    }

    fn compile_properties(
        &mut self,
        map: &Map,
        depth: usize,
    ) -> Result<Box<[(CompactString, Schema)]>, StructuralError> {
        let Some(Value::Map(properties)) = map.get("properties") else { return Ok(Box::default()) };
        let mut compiled = Vec::with_capacity(properties.len());
        for (name, props) in properties.iter() {
            compiled.push((CompactString::from(name), self.compile_node(props, depth + 1)?));
        }
        compiled.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Ok(compiled.into())
    }

    fn compile_additional(
        &mut self,
        map: &Map,
        depth: usize,
    ) -> Result<AdditionalProperties, StructuralError> {
        Ok(match map.get("additionalProperties") {
            Some(Value::Bool(allowed)) => AdditionalProperties::Allowed(*allowed),
            Some(props @ Value::Map(_)) => {
                AdditionalProperties::Schema(Box::new(self.compile_node(props, depth + 1)?))
            }
            _ => AdditionalProperties::Unspecified,
        })
    }

    fn compile_checks(
        &mut self,
        map: &Map,
        ty: Option<SchemaType>,
        int_or_string: bool,
        depth: usize,
    ) -> Result<Option<Box<ValueChecks>>, StructuralError> {
        let format = map.get_str("format").filter(|name| !name.is_empty()).map(|name| {
            // Upstream validates int-or-string as a value of two types, for which only formats of strings count.
            let ty = if int_or_string { None } else { ty };
            let is_active = is_recognized_format(name, ty);
            let string = StringFormat::from_name(name).filter(|_| is_active);
            Box::new(ValueFormat { name: name.into(), string, is_active })
        });
        let checks = ValueChecks {
            format,
            number: compile_number(map),
            text: compile_text(map),
            size: compile_size(map),
            enumeration: map.get("enum").and_then(Value::as_list).unwrap_or_default().into(),
            required: texts(map, "required"),
            logic: self.compile_logic(map, depth)?,
        };
        Ok((!checks.is_empty()).then(|| Box::new(checks)))
    }

    fn compile_logic(
        &mut self,
        map: &Map,
        depth: usize,
    ) -> Result<Option<Box<LogicChecks>>, StructuralError> {
        let logic = LogicChecks {
            all_of: self.compile_list(map, "allOf", depth)?,
            any_of: self.compile_list(map, "anyOf", depth)?,
            one_of: self.compile_list(map, "oneOf", depth)?,
            not: match map.get("not") {
                Some(props @ Value::Map(_)) => Some(Box::new(self.compile_node(props, depth + 1)?)),
                _ => None,
            },
        };
        let is_empty = logic.all_of.is_empty()
            && logic.any_of.is_empty()
            && logic.one_of.is_empty()
            && logic.not.is_none();
        Ok((!is_empty).then(|| Box::new(logic)))
    }

    fn compile_list(
        &mut self,
        map: &Map,
        field: &str,
        depth: usize,
    ) -> Result<Box<[Schema]>, StructuralError> {
        let list = map.get(field).and_then(Value::as_list).unwrap_or_default();
        list.iter().map(|props| self.compile_node(props, depth + 1)).collect()
    }
}

impl ValueChecks {
    fn is_empty(&self) -> bool {
        self.format.is_none()
            && self.number.is_none()
            && self.text.is_none()
            && self.size.is_none()
            && self.enumeration.is_empty()
            && self.required.is_empty()
            && self.logic.is_none()
    }
}

/// `true` if a field has a value other than the zero value.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Str(text) => !text.is_empty(),
        Value::Map(map) => !map.is_empty(),
        _ => true,
    }
}

fn flag(map: &Map, field: &str) -> bool {
    map.get(field).and_then(Value::as_bool).unwrap_or(false)
}

fn texts(map: &Map, field: &str) -> Box<[CompactString]> {
    let list = map.get(field).and_then(Value::as_list).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(CompactString::from).collect()
}

fn number(map: &Map, field: &str) -> Option<f64> {
    match map.get(field)? {
        #[expect(clippy::cast_precision_loss, reason = "limits are doubles in the API")]
        Value::Int(int) => Some(*int as f64),
        Value::Float(float) => Some(*float),
        _ => None,
    }
}

fn integer(map: &Map, field: &str) -> Option<i64> {
    map.get(field).and_then(Value::as_i64)
}

fn compile_number(map: &Map) -> Option<Box<NumberChecks>> {
    let checks = NumberChecks {
        maximum: number(map, "maximum"),
        exclusive_maximum: flag(map, "exclusiveMaximum"),
        minimum: number(map, "minimum"),
        exclusive_minimum: flag(map, "exclusiveMinimum"),
        multiple_of: number(map, "multipleOf"),
    };
    let is_empty = checks.maximum.is_none() && checks.minimum.is_none() && checks.multiple_of.is_none();
    (!is_empty).then(|| Box::new(checks))
}

fn compile_text(map: &Map) -> Option<Box<TextChecks>> {
    let pattern = map.get_str("pattern").filter(|pattern| !pattern.is_empty());
    let checks = TextChecks {
        max_length: integer(map, "maxLength"),
        min_length: integer(map, "minLength"),
        pattern: pattern.map(SchemaPattern::new),
    };
    let is_empty = checks.max_length.is_none() && checks.min_length.is_none() && checks.pattern.is_none();
    (!is_empty).then(|| Box::new(checks))
}

fn compile_size(map: &Map) -> Option<Box<SizeChecks>> {
    let checks = SizeChecks {
        max_items: integer(map, "maxItems"),
        min_items: integer(map, "minItems"),
        unique_items: flag(map, "uniqueItems"),
        max_properties: integer(map, "maxProperties"),
        min_properties: integer(map, "minProperties"),
    };
    let is_empty = checks.max_items.is_none()
        && checks.min_items.is_none()
        && !checks.unique_items
        && checks.max_properties.is_none()
        && checks.min_properties.is_none();
    (!is_empty).then(|| Box::new(checks))
}

fn compile_rules(map: &Map) -> Box<[ValidationRule]> {
    let list = map.get("x-kubernetes-validations").and_then(Value::as_list).unwrap_or_default();
    let compile = |rule: &Value| ValidationRule {
        rule: rule.str_at(&["rule"]).to_owned(),
        message: rule.str_at(&["message"]).to_owned(),
        message_expression: rule.str_at(&["messageExpression"]).to_owned(),
        reason: rule.get("reason").and_then(Value::as_str).map(CompactString::from),
        field_path: rule.str_at(&["fieldPath"]).to_owned(),
        optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
    };
    list.iter().map(compile).collect()
}

/// Position of a default for pruning.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    /// The root, which is a resource.
    Root,
    /// `apiVersion` or `kind` of a resource.
    TypeMeta,
    /// `metadata` of a resource.
    Metadata,
    /// Any other position.
    Inner,
}

/// Prunes defaults by the schema, and metadata in defaults by `ObjectMeta`.
fn prune_defaults(schema: &mut Schema, position: Position) {
    if let Some(mut default) = schema.default.take() {
        let keeps = match position {
            Position::TypeMeta => default.as_str().is_some(),
            Position::Metadata => {
                drop_invalid_metadata(&mut default);
                true
            }
            Position::Root | Position::Inner => {
                let is_root = position == Position::Root;
                // Invalid fields are dropped, so this cannot fail.
                let _ = coerce::coerce_embedded(&mut default, schema, is_root, true);
                prune::prune(&mut default, schema, is_root);
                true
            }
        };
        schema.default = keeps.then_some(default);
    }
    let is_resource = position == Position::Root || schema.embedded_resource;
    for (name, property) in &mut schema.properties {
        let position = match name.as_str() {
            "metadata" if is_resource => Position::Metadata,
            name if is_resource && META_FIELDS.contains(&name) => Position::TypeMeta,
            _ => Position::Inner,
        };
        prune_defaults(property, position);
    }
    if let AdditionalProperties::Schema(schema) = &mut schema.additional {
        prune_defaults(schema, Position::Inner);
    }
    if let Some(items) = &mut schema.items {
        prune_defaults(items, Position::Inner);
    }
}
