//! Views into the table: definitions, fields and types.

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

/// The type of a field or of an item. Cheap to copy.
#[derive(Clone, Copy)]
pub struct TypeRef<'a> {
    schemas: &'a Schemas,
    record: &'a [u8; NODE_BYTES],
}

/// What values of a type look like in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape<'a> {
    /// An object with known fields.
    Struct(Struct<'a>),
    /// An object with any keys and values of one type.
    Map(TypeRef<'a>),
    /// An array of items of one type.
    List(TypeRef<'a>),
    /// Text.
    String,
    /// Bytes, as base64.
    Bytes,
    /// An integer of 32 bits.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// A double.
    Double,
    /// A truth value.
    Bool,
    /// An integer of 32 bits or a text.
    IntOrString,
    /// A quantity: a text or a number.
    Quantity,
    /// A time to the second, RFC 3339.
    Time,
    /// A time to the microsecond, RFC 3339.
    MicroTime,
    /// A set of field paths, kept as it is.
    Fields,
    /// An object of a kind that the schema does not know.
    Raw,
    /// Any JSON value.
    Any,
    /// A JSON schema, or something simpler in its place.
    SchemaOr(SchemaOr, TypeRef<'a>),
}

/// What may stand in place of a JSON schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaOr {
    /// An array of schemas.
    Array,
    /// A truth value.
    Bool,
    /// An array of texts.
    Strings,
}

/// How the items of a list are told apart when it is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// Not at all: the list is one whole.
    Atomic,
    /// By their value.
    Set,
    /// By their keys.
    Map,
}

/// Whether the fields of an object are owned one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// The object is one whole.
    Atomic,
    /// Each field has its owners.
    Granular,
}

/// What a strategic merge patch does with a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// It is merged.
    pub merge: bool,
    /// It keeps only the keys that the patch names.
    pub retain_keys: bool,
    /// It is replaced.
    pub replace: bool,
}

impl<'a> Struct<'a> {
    #[inline]
    pub(super) fn new(schemas: &'a Schemas, record: &'a [u8; STRUCT_BYTES]) -> Struct<'a> {
        Struct { schemas, record }
    }

    /// The full name, as in `io.k8s.api.core.v1.PodSpec`.
    #[must_use]
    pub fn definition(self) -> &'a str {
        self.schemas.text(u32_in(self.record, 0))
    }

    /// The last part of the name, as in `PodSpec`; of a kind it is the kind.
    #[must_use]
    pub fn name(self) -> &'a str {
        let full = self.definition();
        full.rsplit_once('.').map_or(full, |(_, name)| name)
    }

    /// The API group of the package that has the definition.
    #[must_use]
    pub fn group(self) -> &'a str {
        self.schemas.text(u32_in(self.record, 4))
    }

    /// The version of the package that has the definition.
    #[must_use]
    pub fn version(self) -> &'a str {
        self.schemas.text(u32_in(self.record, 8))
    }

    fn first_field(self) -> usize {
        u32_in(self.record, 12) as usize
    }

    /// How many fields there are.
    #[must_use]
    pub fn len(self) -> usize {
        u16_in(self.record, 16).into()
    }

    /// Whether there are no fields.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The marker on the definition itself.
    #[must_use]
    pub fn map_type(self) -> Option<MapType> {
        map_type(self.record[18])
    }

    /// Whether it has fields that are written even when nothing was said about them.
    #[must_use]
    pub fn has_always_written(self) -> bool {
        self.record[19] != 0
    }

    /// The text for people, empty where there is none.
    #[must_use]
    pub fn description(self) -> &'a str {
        self.schemas.description(u32_in(self.record, 28), u32_in(self.record, 32))
    }

    /// The fields in the order in which they are written out.
    pub fn fields(self) -> impl ExactSizeIterator<Item = Field<'a>> {
        (0..self.len()).map(move |index| self.field_at(index))
    }

    /// The field at a place in that order.
    ///
    /// # Panics
    /// If there is no such place.
    #[must_use]
    pub fn field_at(self, index: usize) -> Field<'a> {
        assert!(index < self.len(), "{} has no field {index}", self.definition());
        Field { schemas: self.schemas, record: self.schemas.field_record(self.first_field() + index) }
    }

    /// The field with this name.
    #[must_use]
    pub fn field(self, name: &str) -> Option<Field<'a>> {
        self.position(name).map(|index| self.field_at(index))
    }

    /// The place of the field with this name in the order in which fields are written out.
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

    /// The places of the fields that are written even when nothing was said about them.
    pub(crate) fn always_written(self) -> impl Iterator<Item = usize> {
        let count = usize::from(self.record[19]);
        let len = if count == 0 { 0 } else { self.len() };
        (0..len).filter(move |at| self.field_at(*at).is_always_written()).take(count)
    }

    /// The field with this protobuf number, among those that are not inside an embedded message.
    #[must_use]
    pub fn field_by_number(self, number: u16) -> Option<Field<'a>> {
        self.fields().find(|field| field.number() == Some(number) && field.embedded_numbers().is_empty())
    }
}

impl<'a> Field<'a> {
    /// The name in JSON.
    #[must_use]
    pub fn name(self) -> &'a str {
        self.schemas.text(u32_in(self.record, 0))
    }

    /// The name as it is written before a value: in quotes and with a colon.
    #[inline]
    #[must_use]
    pub(crate) fn quoted_name(self) -> &'a [u8] {
        self.schemas.quoted(u32_in(self.record, 0))
    }

    /// The type.
    #[inline]
    #[must_use]
    pub fn ty(self) -> TypeRef<'a> {
        TypeRef { schemas: self.schemas, record: self.schemas.node_record(u16_in(self.record, 4)) }
    }

    /// The protobuf number; none for fields that protobuf does not carry here.
    #[must_use]
    pub fn number(self) -> Option<u16> {
        Some(u16_in(self.record, 6)).filter(|number| *number != 0)
    }

    /// The protobuf numbers of the embedded messages around the field, from the outside in; mostly none.
    #[must_use]
    pub fn embedded_numbers(self) -> &'a [u8] {
        let four = &self.schemas.embed_record(u16_in(self.record, 20))[4..];
        &four[..four.iter().position(|number| *number == 0).unwrap_or(four.len())]
    }

    /// The Go names of the embedded structs around the field, joined by points; mostly empty.
    #[must_use]
    pub fn embedded_path(self) -> &'a str {
        self.schemas.text(u32_in(self.schemas.embed_record(u16_in(self.record, 20)), 0))
    }

    fn flag(self, flag: u16) -> bool {
        u16_in(self.record, 8) & flag != 0
    }

    /// Whether OpenAPI says that it must be there.
    #[must_use]
    pub fn is_required(self) -> bool {
        self.flag(flag::REQUIRED)
    }

    /// Whether it is left out when it is empty.
    #[must_use]
    pub fn omits_empty(self) -> bool {
        self.flag(flag::OMIT_EMPTY)
    }

    /// Whether it is left out when all of it is zero, struct or not.
    #[must_use]
    pub fn omits_zero(self) -> bool {
        self.flag(flag::OMIT_ZERO)
    }

    /// Whether an empty value is told apart from an absent one.
    #[must_use]
    pub fn is_pointer(self) -> bool {
        self.flag(flag::POINTER)
    }

    /// Whether rules tell an empty list or map from an absent one, though both are stored as absent.
    #[must_use]
    pub fn counts_empty(self) -> bool {
        self.flag(flag::EMPTY_COUNTS)
    }

    /// Whether it is written even when nothing was said about it, as null, zero or a struct without content.
    #[must_use]
    pub fn is_always_written(self) -> bool {
        self.flag(flag::ALWAYS)
    }

    /// What a strategic merge patch does with it.
    #[must_use]
    pub fn patch(self) -> Patch {
        Patch {
            merge: self.flag(flag::PATCH_MERGE),
            retain_keys: self.flag(flag::PATCH_RETAIN_KEYS),
            replace: self.flag(flag::PATCH_REPLACE),
        }
    }

    /// The key by which a strategic merge patch matches items.
    #[must_use]
    pub fn merge_key(self) -> Option<&'a str> {
        Some(self.schemas.text(u32_in(self.record, 12))).filter(|key| !key.is_empty())
    }

    /// The values that are allowed, if only some are.
    pub fn values(self) -> impl ExactSizeIterator<Item = &'a str> + Clone {
        self.schemas.list(u16_in(self.record, 10))
    }

    /// The default that the schema shows, as JSON.
    #[must_use]
    pub fn default_json(self) -> Option<&'a str> {
        Some(self.schemas.text(u32_in(self.record, 16))).filter(|json| !json.is_empty())
    }

    /// The text for people, empty where there is none.
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

    /// What values look like.
    ///
    /// # Panics
    /// If the table is not one that the build made.
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

    /// Whether a JSON schema or something simpler stands here.
    #[inline]
    pub(crate) fn is_schema_or(self) -> bool {
        matches!(self.record[0], tag::SCHEMA_OR_ARRAY | tag::SCHEMA_OR_BOOL | tag::SCHEMA_OR_STRINGS)
    }

    /// The list type, if it is marked.
    #[must_use]
    pub fn list_type(self) -> Option<ListType> {
        match self.record[1] {
            marker::ATOMIC => Some(ListType::Atomic),
            marker::SET => Some(ListType::Set),
            marker::MAP => Some(ListType::Map),
            _ => None,
        }
    }

    /// The map type that is marked at the place of use.
    #[must_use]
    pub fn map_type(self) -> Option<MapType> {
        map_type(self.record[2])
    }

    /// Whether merging takes a value of this type as one whole: a list without another mark, and an object that
    /// is marked so here or at its definition.
    #[must_use]
    pub fn is_atomic(self) -> bool {
        match self.shape() {
            Shape::List(_) => self.list_type().is_none_or(|kind| kind == ListType::Atomic),
            Shape::Struct(of) => self.map_type().or(of.map_type()) == Some(MapType::Atomic),
            Shape::Map(_) => self.map_type() == Some(MapType::Atomic),
            _ => true,
        }
    }

    /// Whether protobuf has the list as a message of one repeated field.
    #[must_use]
    pub fn is_wrapped(self) -> bool {
        self.record[3] != 0
    }

    /// The keys of the items of a list of type map.
    pub fn list_keys(self) -> impl ExactSizeIterator<Item = &'a str> + Clone {
        self.schemas.list(u16_in(self.record, 6))
    }

    /// The default of a key of the items, as JSON: an item that lacks the key has that one.
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

    /// The Go type that decoding errors name.
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
