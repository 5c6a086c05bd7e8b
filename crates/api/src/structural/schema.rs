//! The compiled tree.
//!
//! A node is small: rare parts are boxed, and properties are a sorted slice. Nodes under `allOf`, `anyOf`, `oneOf`
//! and `not` have the same type.

use compact_str::CompactString;

use super::formats::StringFormat;
use super::pattern::SchemaPattern;
use crate::schema::{ListType, MapType};
use crate::value::Value;

/// A compiled schema, or a node of one.
#[derive(Debug, Default)]
pub struct Schema {
    /// Type; `None` if any value is allowed.
    pub ty: Option<SchemaType>,
    /// `true` if null is allowed.
    pub nullable: bool,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown_fields: bool,
    /// `x-kubernetes-embedded-resource`.
    pub embedded_resource: bool,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// `x-kubernetes-list-type`.
    pub list_type: Option<ListType>,
    /// `x-kubernetes-map-type`.
    pub map_type: Option<MapType>,
    /// Properties sorted by name.
    pub(super) properties: Box<[(CompactString, Schema)]>,
    /// Schema of other properties.
    pub additional: AdditionalProperties,
    /// Schema of the items of a list.
    pub items: Option<Box<Schema>>,
    /// Default, pruned by the schema.
    pub default: Option<Box<Value>>,
    /// `x-kubernetes-list-map-keys`.
    pub list_keys: Box<[CompactString]>,
    /// `x-kubernetes-validations`.
    pub rules: Box<[ValidationRule]>,
    /// Value validations.
    pub checks: Option<Box<ValueChecks>>,
}

/// Type of a value in a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaType {
    /// A list.
    Array,
    /// `true` or `false`.
    Boolean,
    /// A number without a fraction.
    Integer,
    /// Any number.
    Number,
    /// An object.
    Object,
    /// A string.
    String,
}

/// Schema of properties that are not listed.
#[derive(Debug, Default)]
pub enum AdditionalProperties {
    /// Not specified.
    #[default]
    Unspecified,
    /// A boolean: validation allows or forbids them; pruning empties their objects in both cases, as upstream.
    Allowed(bool),
    /// Values of a schema.
    Schema(Box<Schema>),
}

/// Value validations of a node.
#[derive(Debug, Default)]
pub struct ValueChecks {
    /// Format.
    pub format: Option<Box<ValueFormat>>,
    /// Limits of numbers.
    pub number: Option<Box<NumberChecks>>,
    /// Limits of strings.
    pub text: Option<Box<TextChecks>>,
    /// Limits of the sizes of lists and objects.
    pub size: Option<Box<SizeChecks>>,
    /// Allowed values; empty for any.
    pub enumeration: Box<[Value]>,
    /// Required properties.
    pub required: Box<[CompactString]>,
    /// Logical junctors.
    pub logic: Option<Box<LogicChecks>>,
}

/// Format of a value.
#[derive(Debug)]
pub struct ValueFormat {
    /// Name as in the schema.
    pub name: CompactString,
    /// Format of strings, if it is validated.
    pub string: Option<StringFormat>,
    /// `true` if the format is known for the type; any other is ignored.
    pub(super) is_active: bool,
}

/// Limits of numbers.
#[derive(Debug, Default)]
pub struct NumberChecks {
    /// `maximum`.
    pub maximum: Option<f64>,
    /// `exclusiveMaximum`.
    pub exclusive_maximum: bool,
    /// `minimum`.
    pub minimum: Option<f64>,
    /// `exclusiveMinimum`.
    pub exclusive_minimum: bool,
    /// `multipleOf`.
    pub multiple_of: Option<f64>,
}

/// Limits of strings.
#[derive(Debug, Default)]
pub struct TextChecks {
    /// `maxLength`, in characters.
    pub max_length: Option<i64>,
    /// `minLength`, in characters.
    pub min_length: Option<i64>,
    /// `pattern`.
    pub pattern: Option<SchemaPattern>,
}

/// Limits of the sizes of lists and objects.
#[derive(Debug, Default)]
pub struct SizeChecks {
    /// `maxItems`.
    pub max_items: Option<i64>,
    /// `minItems`.
    pub min_items: Option<i64>,
    /// `uniqueItems`.
    pub unique_items: bool,
    /// `maxProperties`.
    pub max_properties: Option<i64>,
    /// `minProperties`.
    pub min_properties: Option<i64>,
}

/// Logical junctors.
#[derive(Debug, Default)]
pub struct LogicChecks {
    /// `allOf`.
    pub all_of: Box<[Schema]>,
    /// `anyOf`.
    pub any_of: Box<[Schema]>,
    /// `oneOf`.
    pub one_of: Box<[Schema]>,
    /// `not`.
    pub not: Option<Box<Schema>>,
}

/// A CEL rule, kept as data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidationRule {
    /// Expression.
    pub rule: String,
    /// Message of a violation; may be empty.
    pub message: String,
    /// Expression of the message; may be empty.
    pub message_expression: String,
    /// Reason of the status cause; `None` for `FieldValueInvalid`.
    pub reason: Option<CompactString>,
    /// Path of the field below this node; may be empty.
    pub field_path: String,
    /// `optionalOldSelf`.
    pub optional_old_self: Option<bool>,
}

impl SchemaType {
    /// All types.
    const ALL: [SchemaType; 6] = [
        SchemaType::Array,
        SchemaType::Boolean,
        SchemaType::Integer,
        SchemaType::Number,
        SchemaType::Object,
        SchemaType::String,
    ];

    /// Name in a schema.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SchemaType::Array => "array",
            SchemaType::Boolean => "boolean",
            SchemaType::Integer => "integer",
            SchemaType::Number => "number",
            SchemaType::Object => "object",
            SchemaType::String => "string",
        }
    }

    /// Type with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<SchemaType> {
        SchemaType::ALL.into_iter().find(|ty| ty.name() == name)
    }
}

impl AdditionalProperties {
    /// Schema of the values, if there is one.
    #[must_use]
    pub fn schema(&self) -> Option<&Schema> {
        match self {
            AdditionalProperties::Schema(schema) => Some(schema),
            AdditionalProperties::Unspecified | AdditionalProperties::Allowed(_) => None,
        }
    }

    /// `true` if a boolean or a schema is specified.
    #[must_use]
    pub const fn is_specified(&self) -> bool {
        !matches!(self, AdditionalProperties::Unspecified)
    }
}

/// Schema of a field of an object.
#[derive(Clone, Copy)]
pub(super) enum FieldSchema<'a> {
    /// A listed property.
    Property(&'a Schema),
    /// Another property; `None` if any value is allowed or none is.
    Additional(Option<&'a Schema>),
    /// Not in the schema.
    Unknown,
}

impl Schema {
    /// Schema of a version without one: an object that keeps all fields.
    #[must_use]
    pub fn unspecified() -> Schema {
        Schema { ty: Some(SchemaType::Object), preserve_unknown_fields: true, ..Schema::default() }
    }

    /// Property with this name.
    #[inline]
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&Schema> {
        let at = self.properties.binary_search_by(|(key, _)| key.as_str().cmp(name)).ok()?;
        Some(&self.properties[at].1)
    }

    /// Properties sorted by name.
    pub fn properties(&self) -> impl ExactSizeIterator<Item = (&str, &Schema)> {
        self.properties.iter().map(|(name, schema)| (name.as_str(), schema))
    }

    /// Schema of a field: its property, else that of additional properties.
    #[inline]
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Schema> {
        self.property(name).or_else(|| self.additional.schema())
    }

    /// Schema of a field.
    #[inline]
    pub(super) fn field_schema(&self, name: &str) -> FieldSchema<'_> {
        match (self.property(name), &self.additional) {
            (Some(schema), _) => FieldSchema::Property(schema),
            (None, AdditionalProperties::Schema(schema)) => FieldSchema::Additional(Some(schema)),
            (None, AdditionalProperties::Allowed(_)) => FieldSchema::Additional(None),
            (None, AdditionalProperties::Unspecified) => FieldSchema::Unknown,
        }
    }

    /// `true` if the list is correlated by keys.
    pub(super) fn is_map_list(&self) -> bool {
        self.list_type == Some(ListType::Map)
    }

    /// Name of the format, if one is specified.
    #[must_use]
    pub fn format(&self) -> Option<&str> {
        Some(self.checks.as_ref()?.format.as_ref()?.name.as_str())
    }

    /// `true` if this node or one below it has CEL rules.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        !self.rules.is_empty()
            || self.properties.iter().any(|(_, schema)| schema.has_rules())
            || self.additional.schema().is_some_and(Schema::has_rules)
            || self.items.as_ref().is_some_and(|items| items.has_rules())
    }
}
