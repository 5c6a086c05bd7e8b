//! Catalog: the resource types that a snapshot serves, built-in ones and those of its CustomResourceDefinitions.
//!
//! A [`Catalog`] is a pure function of the definitions in a snapshot. [`Catalogs`] keeps the newest one: a request
//! compares one revision, and after a change of any definition only the changed ones are read again. Requests that
//! began before continue with the types that they found.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;
use setpoint_api::custom::CustomDefinition;
use setpoint_api::resource_types::{self, ResourceType};
use setpoint_api::{Resource, Revision, Value, json};
use setpoint_extensions::resource_types as custom_types;
use setpoint_store::{Record, Snapshot};

use crate::conversion::is_stored_as;
use crate::discovery::AggregatedDocuments;
use crate::policies::{CompiledPolicies, PolicyRegistry};

/// Resource of the definitions.
pub(crate) static DEFINITIONS: LazyLock<Resource> = LazyLock::new(|| {
    Resource::new("customresourcedefinitions.apiextensions.k8s.io").expect("a valid resource name")
});

/// Index of the next custom resource type, after the built-in ones. Indexes are never reused, so nothing that is cached
/// by index outlives a change of its type.
static NEXT_INDEX: AtomicUsize = AtomicUsize::new(1 << 16);

/// The resource types of one state of the definitions.
#[derive(Clone, Default)]
pub struct Catalog {
    /// Revision of the last change of any definition.
    changed: Revision,
    /// Definitions by name, which is `plural.group`.
    definitions: Arc<BTreeMap<Box<str>, Definition>>,
    /// Admission policies of the store; `None` for requests that they do not apply to.
    policies: Option<Arc<PolicyRegistry>>,
    documents: Arc<AggregatedDocuments>,
}

/// Resource types of one definition.
#[derive(Clone)]
struct Definition {
    revision: Revision,
    /// One for each served version; none if the definition is not established.
    types: Vec<Arc<ResourceType>>,
}

impl Catalog {
    /// Returns the catalog of built-in resource types only.
    #[must_use]
    pub fn built_in() -> &'static Catalog {
        static BUILT_IN: LazyLock<Catalog> = LazyLock::new(Catalog::default);
        &BUILT_IN
    }

    /// Reads the definitions of a snapshot. Those that `previous` has in the same revision are shared.
    fn read(snapshot: &Snapshot, previous: &Catalog) -> Catalog {
        let policies = previous.policies.clone();
        let Some(table) = snapshot.table(&DEFINITIONS) else {
            return Catalog { policies, ..Catalog::default() };
        };
        let definitions = table.iter().map(|record| {
            let unchanged = previous.definitions.get(record.name());
            let unchanged = unchanged.filter(|definition| definition.revision == record.revision());
            let definition = unchanged.cloned().unwrap_or_else(|| Definition::read(record));
            (record.name().into(), definition)
        });
        let definitions = Arc::new(definitions.collect());
        Catalog { changed: table.changed(), definitions, policies, documents: Arc::default() }
    }

    /// Returns the resource type with this plural name.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ResourceType>> {
        resource_types::find(group, version, plural).or_else(|| {
            if self.definitions.is_empty() {
                return None;
            }
            let types = &self.definitions.get(format!("{plural}.{group}").as_str())?.types;
            types.iter().find(|resource_type| resource_type.info.version == version)
        })
    }

    /// Returns the resource type through which the loop writes: that of the storage version, if it is served.
    #[must_use]
    pub fn storage_type(&self, resource: &Resource) -> Option<&Arc<ResourceType>> {
        resource_types::storage_type(resource).or_else(|| {
            let types = &self.definitions.get(resource.as_str())?.types;
            let is_storage = |served: &&Arc<ResourceType>| {
                served.custom.as_ref().is_some_and(|custom| custom.version().storage)
            };
            types.iter().find(is_storage).or_else(|| types.first())
        })
    }

    /// Returns the served versions of a resource.
    pub fn forms<'a>(&'a self, resource: &'a Resource) -> impl Iterator<Item = &'a ResourceType> {
        let custom = self.definitions.get(resource.as_str()).into_iter();
        let custom = custom.flat_map(|definition| &definition.types).map(|form| &**form);
        let built_in = resource_types::forms(resource).map(|form| -> &'a ResourceType { form });
        built_in.chain(custom)
    }

    /// Returns the resource type of a record: the version in which it is stored if that is served, or the storage
    /// version.
    #[must_use]
    pub fn type_of<'a>(&'a self, resource: &'a Resource, record: &Record) -> Option<&'a ResourceType> {
        let mut forms = self.forms(resource).filter(|form| form.custom.is_some());
        let stored = forms.find(|form| is_stored_as(form, record));
        stored.or_else(|| self.storage_type(resource).map(|storage| &**storage))
    }

    /// Returns all custom resource types, by name of their definition.
    pub fn custom(&self) -> impl Iterator<Item = &Arc<ResourceType>> {
        self.definitions.values().flat_map(|definition| &definition.types)
    }

    /// Returns the compiled admission policies of a snapshot; `None` if there are none.
    #[must_use]
    pub fn policies(&self, snapshot: &Snapshot) -> Option<Arc<CompiledPolicies>> {
        self.policies.as_ref()?.compiled(snapshot)
    }

    /// `true` if the admission policies of a snapshot may take milliseconds for a small object.
    #[must_use]
    pub fn has_costly_policies(&self, snapshot: &Snapshot) -> bool {
        self.policies.as_ref().is_some_and(|policies| policies.is_costly(snapshot))
    }

    /// Number of definitions.
    #[must_use]
    pub fn definitions(&self) -> usize {
        self.definitions.len()
    }

    /// Returns the catalog without policies, for a write that they have admitted in another form.
    #[must_use]
    pub fn without_policies(&self) -> Catalog {
        Catalog { policies: None, ..self.clone() }
    }

    /// Discovery documents of these resource types.
    pub(crate) fn documents(&self) -> &AggregatedDocuments {
        &self.documents
    }

    /// Revision of the last change of any definition.
    #[must_use]
    pub fn changed(&self) -> Revision {
        self.changed
    }
}

impl Definition {
    fn read(record: &Record) -> Definition {
        let revision = record.revision();
        let object = |record: &Record| -> Option<Value> { json::parse(&record.value()).ok() };
        let head = json::parse_definition(&record.value()).ok();
        let definition = head.as_ref().and_then(CustomDefinition::read);
        let types = definition.map_or_else(Vec::new, |definition| {
            let stored = record.clone();
            let source: Arc<dyn Fn() -> Option<Value> + Send + Sync> = Arc::new(move || object(&stored));
            let next_index = || NEXT_INDEX.fetch_add(1, Ordering::Relaxed);
            custom_types(definition, (record.key(&DEFINITIONS), revision), &source, next_index)
        });
        Definition { revision, types }
    }
}

/// Newest catalog of a store. Cheap to clone.
#[derive(Clone)]
pub struct Catalogs(Arc<RwLock<Arc<Catalog>>>);

impl Default for Catalogs {
    fn default() -> Catalogs {
        let empty = Catalog { policies: Some(Arc::default()), ..Catalog::default() };
        Catalogs(Arc::new(RwLock::new(Arc::new(empty))))
    }
}

impl Catalogs {
    /// Returns the catalog of a snapshot.
    #[must_use]
    pub fn of(&self, snapshot: &Snapshot) -> Arc<Catalog> {
        let changed = snapshot.table(&DEFINITIONS).map_or(Revision::ZERO, |table| table.changed());
        let newest = Arc::clone(&self.0.read());
        if newest.changed == changed {
            return newest;
        }
        let read = Arc::new(Catalog::read(snapshot, &newest));
        let mut newest = self.0.write();
        if newest.changed < changed {
            *newest = Arc::clone(&read);
        }
        read
    }
}
