//! Typed views of the schema table: definitions, fields and types.

use std::fmt;

use super::layout::{FIELD_BYTES, NODE_BYTES, STRUCT_BYTES, first_slot, flag, marker, tag};
use super::{Schemas, u16_in, u32_in};

/// A definition with fields. Cheap to copy.
#[derive(Clone, Copy)]
pub struct Struct<'a> {
    schemas: &'a Schemas,
    record: &'a [u8; STRUCT_BYTES],
}

/// A field of a definition. Cheap to copy.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    schemas: &'a Schemas,
    record: &'a [u8; FIELD_BYTES],
}

/// Type of a field or item. Cheap to copy.
#[derive(Clone, Copy)]
pub struct TypeRef<'a> {
    schemas: &'a Schemas,
    record: &'a [u8; NODE_BYTES],
}

/// JSON form of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape<'a> {
    /// An object with known fields.
    Struct(Struct<'a>),
    /// An object with any keys and values of one type.
    Map(TypeRef<'a>),
    /// An array of items of one type.
    List(TypeRef<'a>),
    /// A string.
    String,
    /// Bytes, as base64.
    Bytes,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int64,
    /// A double.
    Double,
    /// A boolean.
    Bool,
    /// A 32-bit integer or a string.
    IntOrString,
    /// A quantity: a string or a number.
    Quantity,
    /// An RFC 3339 timestamp with seconds.
    Time,
    /// An RFC 3339 timestamp with microseconds.
    MicroTime,
    /// A field set (`fieldsV1`), kept unparsed.
    Fields,
    /// An object of unknown kind.
    Raw,
    /// Any JSON value.
    Any,
    /// A JSON schema, or its alternative.
    SchemaOr(SchemaOr, TypeRef<'a>),
}

/// Alternative to a JSON schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaOr {
    /// An array of schemas.
    Array,
    /// A boolean.
    Bool,
    /// An array of strings.
    Strings,
}

/// Merge behavior of a list, `x-kubernetes-list-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// The list is replaced as a whole.
    Atomic,
    /// Items are identified by their value.
    Set,
    /// Items are identified by their keys.
    Map,
}

/// Merge behavior of an object, `x-kubernetes-map-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// The object is replaced as a whole.
    Atomic,
    /// Each field has its own managers.
    Granular,
}

/// Strategic merge patch strategy of a field, `x-kubernetes-patch-strategy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// The field is merged.
    pub merge: bool,
    /// Keys that the patch does not list are removed.
    pub retain_keys: bool,
    /// The field is replaced.
    pub replace: bool,
}

impl<'a> Struct<'a> {
    #[inline]
    pub(super) fn new(schemas: &'a Schemas, record: &'a [u8; STRUCT_BYTES]) -> Struct<'a> {
        Struct { schemas, record }
    }

    /// Full name, as in `io.k8s.api.core.v1.PodSpec`.
    #[must_use]
    pub fn definition(self) -> &'a str {
        self.schemas.text(u32_in(self.record, 0))
    }

    /// Last segment of the name, as in `PodSpec`; for a kind, the kind.
    #[must_use]
    pub fn name(self) -> &'a str {
        let full = self.definition();
        full.rsplit_once('.').map_or(full, |(_, name)| name)
    }

    /// API group of the definition's package.
    #[must_use]
    pub fn group(self) -> &'a str {
        self.schemas.text(u32_in(self.record, 4))
    }

    /// Version of the definition's package.
    #[must_use]
    pub fn version(self) -> &'a str {
        self.schemas.text(u32_in(self.record, 8))
    }

    fn first_field(self) -> usize {
        u32_in(self.record, 12) as usize
    }

    /// Number of fields.
    #[must_use]
    pub fn len(self) -> usize {
        u16_in(self.record, 16).into()
    }

    /// `true` if the definition has no fields.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Map type of the definition itself.
    #[must_use]
    pub fn map_type(self) -> Option<MapType> {
        map_type(self.record[18])
    }

    /// `true` if it has fields that are encoded even if absent.
    #[must_use]
    pub(crate) fn has_always_written(self) -> bool {
        self.record[19] != 0
    }

    /// Description; may be empty.
    #[must_use]
    pub fn description(self) -> &'a str {
        self.schemas.description(u32_in(self.record, 28), u32_in(self.record, 32))
    }

    /// Fields in encoding order.
    pub fn fields(self) -> impl ExactSizeIterator<Item = Field<'a>> {
        (0..self.len()).map(move |index| self.field_at(index))
    }

    /// Field at a position in encoding order.
    ///
    /// # Panics
    /// If the position is out of range.
    #[must_use]
    pub(crate) fn field_at(self, index: usize) -> Field<'a> {
        assert!(index < self.len(), "{} has no field {index}", self.definition());
        Field { schemas: self.schemas, record: self.schemas.field_record(self.first_field() + index) }
    }

    /// Field with this name.
    #[must_use]
    pub fn field(self, name: &str) -> Option<Field<'a>> {
        self.position(name).map(|index| self.field_at(index))
    }

    /// Position of the field with this name in encoding order.
    #[must_use]
    pub fn position(self, name: &str) -> Option<usize> {
        let first = self.first_field();
        let slots = self.schemas.slots(u32_in(self.record, 20) as usize, u32_in(self.record, 24) as usize);
        let mut at = first_slot(name, slots.len());
        loop {
            // There are more slots than fields, so the search ends at an empty one.
            let rank = usize::from(u16::from_le_bytes(slots[at])).checked_sub(1)?;
            if self.schemas.is_text(u32_in(self.schemas.field_record(first + rank), 0), name) {
                return Some(rank);
            }
            at = (at + 1) & (slots.len() - 1);
        }
    }

    /// Positions of the fields that are encoded even if absent.
    pub(crate) fn always_written(self) -> impl Iterator<Item = usize> {
        let count = usize::from(self.record[19]);
        let len = if count == 0 { 0 } else { self.len() };
        (0..len).filter(move |at| self.field_at(*at).is_always_written()).take(count)
    }

    /// Field with this protobuf number, except fields inside an embedded message.
    #[must_use]
    pub fn field_by_number(self, number: u16) -> Option<Field<'a>> {
        self.fields().find(|field| field.number() == Some(number) && field.embedded_numbers().is_empty())
    }
}

impl<'a> Field<'a> {
    /// JSON name.
    #[must_use]
    pub fn name(self) -> &'a str {
        self.schemas.text(u32_in(self.record, 0))
    }

    /// Name as written before a value: quoted and with a colon.
    #[inline]
    #[must_use]
    pub(crate) fn quoted_name(self) -> &'a [u8] {
        self.schemas.quoted(u32_in(self.record, 0))
    }

    /// Type of the field.
    #[inline]
    #[must_use]
    pub fn ty(self) -> TypeRef<'a> {
        TypeRef { schemas: self.schemas, record: self.schemas.node_record(u16_in(self.record, 4)) }
    }

    /// Protobuf number; `None` for fields that are not part of the message.
    #[must_use]
    pub fn number(self) -> Option<u16> {
        Some(u16_in(self.record, 6)).filter(|number| *number != 0)
    }

    /// Protobuf numbers of the embedded messages around the field, outermost first; mostly empty.
    #[must_use]
    pub(crate) fn embedded_numbers(self) -> &'a [u8] {
        let four = &self.schemas.embed_record(u16_in(self.record, 20))[4..];
        &four[..four.iter().position(|number| *number == 0).unwrap_or(four.len())]
    }

    /// Go names of the embedded structs around the field, joined by dots; mostly empty.
    #[must_use]
    pub(crate) fn embedded_path(self) -> &'a str {
        self.schemas.text(u32_in(self.schemas.embed_record(u16_in(self.record, 20)), 0))
    }

    fn has_flag(self, flag: u16) -> bool {
        u16_in(self.record, 8) & flag != 0
    }

    /// `true` if OpenAPI requires the field.
    #[must_use]
    pub fn is_required(self) -> bool {
        self.has_flag(flag::REQUIRED)
    }

    /// `true` if the field has `omitempty`.
    #[must_use]
    pub(crate) fn omits_empty(self) -> bool {
        self.has_flag(flag::OMIT_EMPTY)
    }

    /// `true` if the field has `omitzero`.
    #[must_use]
    pub fn omits_zero(self) -> bool {
        self.has_flag(flag::OMIT_ZERO)
    }

    /// `true` if Go has a pointer: an empty value differs from an absent one.
    #[must_use]
    pub(crate) fn is_pointer(self) -> bool {
        self.has_flag(flag::POINTER)
    }

    /// `true` if validation distinguishes an empty list or map from an absent one, although both are stored
    /// as absent.
    #[must_use]
    pub(crate) fn distinguishes_empty(self) -> bool {
        self.has_flag(flag::DISTINGUISHES_EMPTY)
    }

    /// `true` if the field is encoded even if absent, as null, zero or an empty struct.
    #[must_use]
    pub(crate) fn is_always_written(self) -> bool {
        self.has_flag(flag::ALWAYS)
    }

    /// Strategic merge patch strategy.
    #[must_use]
    pub(crate) fn patch_strategy(self) -> PatchStrategy {
        PatchStrategy {
            merge: self.has_flag(flag::PATCH_MERGE),
            retain_keys: self.has_flag(flag::PATCH_RETAIN_KEYS),
            replace: self.has_flag(flag::PATCH_REPLACE),
        }
    }

    /// Merge key of a strategic merge patch.
    #[must_use]
    pub fn merge_key(self) -> Option<&'a str> {
        Some(self.schemas.text(u32_in(self.record, 12))).filter(|key| !key.is_empty())
    }

    /// Enum values; empty if any value is allowed.
    pub fn values(self) -> impl ExactSizeIterator<Item = &'a str> + Clone {
        self.schemas.list(u16_in(self.record, 10))
    }

    /// Default in the schema, as JSON.
    #[must_use]
    pub(crate) fn default_json(self) -> Option<&'a str> {
        Some(self.schemas.text(u32_in(self.record, 16))).filter(|json| !json.is_empty())
    }

    /// Description; may be empty.
    #[must_use]
    pub fn description(self) -> &'a str {
        self.schemas.description(u32_in(self.record, 24), u32_in(self.record, 28))
    }
}

impl<'a> TypeRef<'a> {
    fn of(self) -> u16 {
        u16_in(self.record, 4)
    }

    fn inner(self) -> TypeRef<'a> {
        TypeRef { schemas: self.schemas, record: self.schemas.node_record(self.of()) }
    }

    /// JSON form of the type.
    ///
    /// # Panics
    /// If the table was not written by the build script.
    #[must_use]
    pub fn shape(self) -> Shape<'a> {
        match self.record[0] {
            tag::STRUCT => Shape::Struct(self.schemas.struct_at(self.of().into())),
            tag::MAP => Shape::Map(self.inner()),
            tag::LIST => Shape::List(self.inner()),
            tag::STRING => Shape::String,
            tag::BYTES => Shape::Bytes,
            tag::INT32 => Shape::Int32,
            tag::INT64 => Shape::Int64,
            tag::DOUBLE => Shape::Double,
            tag::BOOL => Shape::Bool,
            tag::INT_OR_STRING => Shape::IntOrString,
            tag::QUANTITY => Shape::Quantity,
            tag::TIME => Shape::Time,
            tag::MICRO_TIME => Shape::MicroTime,
            tag::FIELDS => Shape::Fields,
            tag::RAW => Shape::Raw,
            tag::ANY => Shape::Any,
            tag::SCHEMA_OR_ARRAY => Shape::SchemaOr(SchemaOr::Array, self.inner()),
            tag::SCHEMA_OR_BOOL => Shape::SchemaOr(SchemaOr::Bool, self.inner()),
            tag::SCHEMA_OR_STRINGS => Shape::SchemaOr(SchemaOr::Strings, self.inner()),
            other => unreachable!("the build writes no tag {other}"),
        }
    }

    /// `true` for a JSON schema with an alternative.
    #[inline]
    pub(crate) fn is_schema_or(self) -> bool {
        matches!(self.record[0], tag::SCHEMA_OR_ARRAY | tag::SCHEMA_OR_BOOL | tag::SCHEMA_OR_STRINGS)
    }

    /// List type, if marked.
    #[must_use]
    pub fn list_type(self) -> Option<ListType> {
        match self.record[1] {
            marker::ATOMIC => Some(ListType::Atomic),
            marker::SET => Some(ListType::Set),
            marker::MAP => Some(ListType::Map),
            _ => None,
        }
    }

    /// Map type at the place of use, if marked.
    #[must_use]
    pub fn map_type(self) -> Option<MapType> {
        map_type(self.record[2])
    }

    /// `true` if merging replaces a value of this type as a whole: a list that is not marked otherwise, and
    /// an object that is marked atomic here or at its definition.
    #[must_use]
    pub(crate) fn is_atomic(self) -> bool {
        match self.shape() {
            Shape::List(_) => self.list_type().is_none_or(|kind| kind == ListType::Atomic),
            Shape::Struct(of) => self.map_type().or(of.map_type()) == Some(MapType::Atomic),
            Shape::Map(_) => self.map_type() == Some(MapType::Atomic),
            _ => true,
        }
    }

    /// `true` if the protobuf form of the list is a message with one repeated field.
    #[must_use]
    pub(crate) fn is_wrapped(self) -> bool {
        self.record[3] != 0
    }

    /// Keys of the items of a list of type map.
    pub fn list_keys(self) -> impl ExactSizeIterator<Item = &'a str> + Clone {
        self.schemas.list(u16_in(self.record, 6))
    }

    /// Default of an item key, as JSON, for items that lack the key.
    #[must_use]
    pub fn list_key_default(self, key: &str) -> Option<&'a str> {
        match self.shape() {
            Shape::List(item) => match item.shape() {
                Shape::Struct(of) => of.field(key)?.default_json(),
                _ => None,
            },
            _ => None,
        }
    }

    /// Go type in decoding errors.
    #[must_use]
    pub fn go_type(self) -> &'a str {
        self.schemas.text(u32_in(self.record, 8))
    }
}

fn map_type(byte: u8) -> Option<MapType> {
    match byte {
        marker::ATOMIC => Some(MapType::Atomic),
        marker::GRANULAR => Some(MapType::Granular),
        _ => None,
    }
}

impl PartialEq for Struct<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.record, other.record)
    }
}

impl Eq for Struct<'_> {}

impl PartialEq for TypeRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.record, other.record)
    }
}

impl Eq for TypeRef<'_> {}

impl fmt::Debug for Struct<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.definition())
    }
}

impl fmt::Debug for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.ty().go_type())
    }
}

impl fmt::Debug for TypeRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.go_type())
    }
}
