//! Schema of a served kind: a definition of the embedded table, or the structural schema of a custom resource.

use std::sync::Arc;

use crate::apply::MergeType;
use crate::custom_kind::CustomSchema;
use crate::decode::{self, DecodeError, Decoded, KeepEmpty};
use crate::json::Duplicate;
use crate::schema::Struct;
use crate::value::Value;

/// Schema of a served kind in one version.
#[derive(Clone, Debug)]
pub enum KindSchema {
    /// Definition of a built-in kind.
    BuiltIn(Struct<'static>),
    /// Schema of a version of a custom kind.
    Custom(Arc<CustomSchema>),
}

/// Borrowed [`KindSchema`]. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub enum SchemaRef<'a> {
    /// Definition of a built-in kind.
    BuiltIn(Struct<'a>),
    /// Schema of a version of a custom kind.
    Custom(&'a CustomSchema),
}

impl KindSchema {
    /// Borrows the schema.
    #[must_use]
    pub fn view(&self) -> SchemaRef<'_> {
        match self {
            KindSchema::BuiltIn(schema) => SchemaRef::BuiltIn(*schema),
            KindSchema::Custom(schema) => SchemaRef::Custom(schema),
        }
    }

    /// Returns the definition of a built-in kind.
    #[must_use]
    pub fn built_in(&self) -> Option<Struct<'static>> {
        match self {
            KindSchema::BuiltIn(schema) => Some(*schema),
            KindSchema::Custom(_) => None,
        }
    }

    /// Returns the schema for apply.
    #[must_use]
    pub fn merge_type(&self) -> MergeType<'_> {
        match self {
            KindSchema::BuiltIn(schema) => MergeType::BuiltIn(*schema),
            KindSchema::Custom(schema) => schema.merge_type(),
        }
    }

    /// Decodes an object as it is stored, see [`decode::decode`].
    ///
    /// # Errors
    /// For the first value of the wrong type.
    pub fn decode(&self, value: Value, duplicates: &[Duplicate]) -> Result<Decoded, DecodeError> {
        self.view().decode(value, duplicates)
    }

    /// Decodes an object and keeps some empty lists and maps, see [`decode::decode_keeping_empty`].
    ///
    /// # Errors
    /// As [`KindSchema::decode`].
    pub fn decode_keeping_empty(&self, value: Value, keep: KeepEmpty) -> Result<Decoded, DecodeError> {
        match self {
            KindSchema::BuiltIn(schema) => decode::decode_keeping_empty(value, *schema, keep),
            KindSchema::Custom(schema) => schema.decode(value, &[]),
        }
    }

    /// Appends the stored form of an object, see [`decode::write_stored`].
    pub fn write_stored(&self, object: &Value, out: &mut Vec<u8>) -> Option<u32> {
        match self {
            KindSchema::BuiltIn(schema) => decode::write_stored(object, *schema, out),
            KindSchema::Custom(_) => decode::write_stored_custom(object, out),
        }
    }
}

impl<'a> SchemaRef<'a> {
    /// Returns the definition of a built-in kind.
    #[must_use]
    pub fn built_in(self) -> Option<Struct<'a>> {
        match self {
            SchemaRef::BuiltIn(schema) => Some(schema),
            SchemaRef::Custom(_) => None,
        }
    }

    /// Decodes an object as it is stored, see [`decode::decode`].
    ///
    /// # Errors
    /// For the first value of the wrong type.
    pub fn decode(self, value: Value, duplicates: &[Duplicate]) -> Result<Decoded, DecodeError> {
        match self {
            SchemaRef::BuiltIn(schema) => decode::decode(value, schema, duplicates),
            SchemaRef::Custom(schema) => schema.decode(value, duplicates),
        }
    }

    /// Decodes a request body, see [`decode::decode_request`].
    ///
    /// # Errors
    /// As [`SchemaRef::decode`].
    pub fn decode_request(self, value: Value, duplicates: &[Duplicate]) -> Result<Decoded, DecodeError> {
        match self {
            SchemaRef::BuiltIn(schema) => decode::decode_request(value, schema, duplicates),
            SchemaRef::Custom(schema) => schema.decode(value, duplicates),
        }
    }
}
