//! Descriptors of custom kinds: a pure function of their definition.

use std::sync::Arc;

use setpoint_api::custom::{CustomDefinition, CustomVersion};
use setpoint_api::custom_kind::{CustomKind, CustomSchema, ServedCustomVersion};
use setpoint_api::kind_schema::KindSchema;
use setpoint_api::printing::custom::CustomColumns;
use setpoint_api::{Key, ResourceType, Revision, Value};

use crate::custom_rules::CustomRules;

/// Reads the stored definition, for the schemas in it.
pub type DefinitionSource = Arc<dyn Fn() -> Option<Value> + Send + Sync>;

/// Returns the resource types of an established definition, one for each served version; none for others.
///
/// `next_index` numbers them, and `source` is called when a schema is first needed.
pub fn resource_types(
    definition: CustomDefinition,
    (key, revision): (Key, Revision),
    source: &DefinitionSource,
    mut next_index: impl FnMut() -> usize,
) -> Vec<Arc<ResourceType>> {
    let Some(storage) = definition.storage_version().filter(|_| definition.is_established) else {
        return Vec::new();
    };
    let api_version = |version: &CustomVersion| format!("{}/{}", definition.group, version.name);
    let storage_api_version = api_version(storage);
    let schema = |version: &CustomVersion| {
        let (source, version) = (Arc::clone(source), version.clone());
        let read = move || version.schema(&source()?).cloned();
        KindSchema::Custom(Arc::new(CustomSchema::new(definition.names.kind.clone(), Box::new(read))))
    };
    let versions = definition.versions.iter().map(|version| (api_version(version), schema(version)));
    let versions = versions.collect();
    let kind = Arc::new(CustomKind { definition, key, revision, versions, storage_api_version });
    let served = kind.definition.versions.iter().filter(|version| version.served);
    let types = served.filter_map(|version| {
        let columns = CustomColumns::new(&version.columns);
        let served = ServedCustomVersion { kind: Arc::clone(&kind), index: version.index, columns };
        let (_, schema) = kind.versions.get(version.index)?;
        let KindSchema::Custom(custom) = schema else { return None };
        let rules = CustomRules::new(&kind.definition, version, Arc::clone(custom));
        ResourceType::of_custom(next_index(), served, schema.clone(), Arc::new(rules)).ok()
    });
    types.map(Arc::new).collect()
}
