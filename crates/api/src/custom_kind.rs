//! Custom kinds at run time: the schema of a version, compiled on first use, and the definition behind it.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use compact_str::CompactString;

use crate::apply::MergeType;
use crate::custom::CustomDefinition;
use crate::decode::{DecodeError, Decoded, StrictError};
use crate::json::Duplicate;
use crate::kind_schema::KindSchema;
use crate::printing::custom::CustomColumns;
use crate::resources::{ResourceInfo, SubresourceInfo, Verbs};
use crate::structural::{self, Schema};
use crate::value::Value;
use crate::{Key, Revision};

/// Reads the `openAPIV3Schema` of a version from the stored definition.
pub type SchemaSource = dyn Fn() -> Option<Value> + Send + Sync;

/// Schema of one version of a custom kind, compiled on first use. Until then it holds only its source.
pub struct CustomSchema {
    kind: CompactString,
    source: Box<SchemaSource>,
    compiled: OnceLock<Arc<Schema>>,
}

impl CustomSchema {
    /// Returns a schema that is compiled when it is first needed.
    #[must_use]
    pub fn new(kind: CompactString, source: Box<SchemaSource>) -> CustomSchema {
        CustomSchema { kind, source, compiled: OnceLock::new() }
    }

    /// Returns the compiled schema. A version without one, or one that does not compile, keeps all fields.
    pub fn schema(&self) -> &Arc<Schema> {
        self.compiled.get_or_init(|| {
            let compiled = (self.source)().and_then(|props| Schema::compile(&props).ok());
            Arc::new(compiled.unwrap_or_else(Schema::unspecified))
        })
    }

    /// `true` if the schema was needed before. To compile one of megabytes takes many milliseconds.
    #[must_use]
    pub fn is_compiled(&self) -> bool {
        self.compiled.get().is_some()
    }

    /// Reads the `JSONSchemaProps` of the version; `None` if it has none.
    #[must_use]
    pub fn props(&self) -> Option<Value> {
        (self.source)()
    }

    /// Returns the schema for apply.
    #[must_use]
    pub fn merge_type(&self) -> MergeType<'_> {
        MergeType::Custom { kind: &self.kind, schema: self.schema() }
    }

    /// Brings an object into the form of this version: unknown fields are pruned, metadata is decoded, and defaults
    /// are set.
    ///
    /// # Errors
    /// If `apiVersion`, `kind` or `metadata` of the object or of an embedded one has the wrong type.
    pub fn decode(&self, mut value: Value, duplicates: &[Duplicate]) -> Result<Decoded, DecodeError> {
        let schema = self.schema();
        let mut unknown = structural::prune(&mut value, schema, true);
        let in_metadata = structural::coerce_embedded(&mut value, schema, true, false).map_err(|error| {
            match &*error.field {
                // Upstream's decoder of the object's own metadata knows no path.
                "metadata" => DecodeError::Custom(error.detail.to_string()),
                _ => DecodeError::Custom(error.to_string()),
            }
        })?;
        unknown.extend(in_metadata);
        structural::prune_nulls(&mut value, schema);
        structural::default(&mut value, schema);
        let repeated = duplicates.iter().map(|found| StrictError::Duplicate { path: found.path() });
        let unknown = unknown.into_iter().map(|path| StrictError::Unknown { path });
        let mut strict: Vec<StrictError> = Vec::new();
        for error in repeated.chain(unknown).take(crate::decode::STRICT_ERRORS_MAX) {
            if !strict.contains(&error) {
                strict.push(error);
            }
        }
        Ok(Decoded { value, strict, has_omitted_empty: false })
    }
}

impl fmt::Debug for CustomSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "schema of {}", self.kind)
    }
}

/// The custom kind of a resource type: its definition, and all its versions.
#[derive(Debug)]
pub struct CustomKind {
    /// Definition.
    pub definition: CustomDefinition,
    /// Key of the definition.
    pub key: Key,
    /// Revision of the definition. Objects that were written after it are stored as they are served.
    pub revision: Revision,
    /// `group/version` and schema of each version.
    pub versions: Vec<(String, KindSchema)>,
    /// `group/version` in which objects are stored.
    pub storage_api_version: String,
}

impl CustomKind {
    /// Returns the schema of a version.
    #[must_use]
    pub fn schema(&self, api_version: &str) -> Option<&KindSchema> {
        self.versions.iter().find(|(version, _)| version == api_version).map(|(_, schema)| schema)
    }
}

/// A version of a custom kind that is served.
#[derive(Debug)]
pub struct ServedCustomVersion {
    /// The kind.
    pub kind: Arc<CustomKind>,
    /// Position in the versions of the definition.
    pub index: usize,
    /// Printer columns.
    pub columns: CustomColumns,
}

impl ServedCustomVersion {
    /// Returns names, scope and subresources of the version.
    #[must_use]
    pub fn info(&self) -> ResourceInfo {
        let (definition, version) = (&self.kind.definition, self.version());
        let names = &definition.accepted_names;
        let owned = |text: &str| Cow::Owned::<'static, str>(text.to_owned());
        let all = |list: &[CompactString]| list.iter().map(|text| owned(text)).collect();
        let subresource =
            |name: &'static str, group: &str, version: &str, kind: &str, foreign| SubresourceInfo {
                name: Cow::Borrowed(name),
                group: owned(group),
                version: owned(version),
                kind: owned(kind),
                foreign,
                verbs: Verbs::of_subresource(),
            };
        let kind = &definition.names.kind;
        let status =
            version.has_status.then(|| subresource("status", &definition.group, &version.name, kind, false));
        let scale = version.scale.is_some().then(|| subresource("scale", "autoscaling", "v1", "Scale", true));
        ResourceInfo {
            group: owned(&definition.group),
            version: owned(&version.name),
            plural: owned(&definition.names.plural),
            singular: owned(&names.singular),
            kind: owned(kind),
            list_kind: owned(&definition.names.list_kind),
            namespaced: definition.namespaced,
            verbs: Verbs::ALL,
            short_names: all(&names.short_names),
            categories: all(&names.categories),
            subresources: status.into_iter().chain(scale).collect(),
        }
    }

    /// Returns the version in the definition.
    ///
    /// # Panics
    /// If the position is not one of the definition.
    #[must_use]
    pub fn version(&self) -> &crate::custom::CustomVersion {
        &self.kind.definition.versions[self.index]
    }
}
