//! Registry of resource types: every resource in every served version, with the rules of its kind and its storage
//! version.
//!
//! Look a type up by its path with [`find`], or by its place in the store with [`storage_type`].

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use crate::custom_kind::ServedCustomVersion;
use crate::field_error::ErrorList;
use crate::kind_schema::KindSchema;
use crate::kinds::autoscaling::convert;
use crate::kinds::core::event_convert;
use crate::kinds::{self, Rules};
use crate::printing::table::TableKind;
use crate::resources::{self, ResourceInfo};
use crate::schema;
use crate::status::Qualified;
use crate::{Key, KeyError, Resource, Value};

/// Conversion between a served version and the storage version.
#[derive(Clone, Copy)]
struct Conversion {
    /// Group and version of the storage version.
    storage: (&'static str, &'static str),
    to_served: fn(&mut Value),
    to_stored: fn(&mut Value),
}

/// Rules of a kind: those of a built-in one, or rules that a definition makes.
#[derive(Clone)]
pub enum KindRules {
    /// Rules of a built-in kind.
    BuiltIn(&'static dyn Rules),
    /// Rules of a custom kind.
    Custom(Arc<dyn Rules>),
}

impl Deref for KindRules {
    type Target = dyn Rules;

    fn deref(&self) -> &(dyn Rules + 'static) {
        match self {
            KindRules::BuiltIn(rules) => *rules,
            KindRules::Custom(rules) => &**rules,
        }
    }
}

/// A resource in one version.
pub struct ResourceType {
    /// Index in [`all`].
    pub index: usize,
    /// Names, scope and verbs.
    pub info: ResourceInfo,
    /// Schema of the served version.
    pub schema: KindSchema,
    /// Schema of the storage version.
    pub stored_schema: KindSchema,
    /// Validation, defaulting and printing of the kind.
    pub rules: KindRules,
    /// Table of the store that has the objects.
    pub resource: Resource,
    /// First bytes of every stored object: its kind and storage version.
    pub type_prefix: String,
    /// `true` if no object is stored: a request carries a review or a binding, and the response is its result.
    pub is_virtual: bool,
    /// The served version of a custom kind; `None` for built-in kinds.
    pub custom: Option<ServedCustomVersion>,
    conversion: Option<Conversion>,
}

impl ResourceType {
    /// `group/version`, or `version` for the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        api_version(&self.info.group, &self.info.version)
    }

    /// `true` if this is its `group/version`.
    #[must_use]
    pub fn has_api_version(&self, text: &str) -> bool {
        let (group, version) = text.split_once('/').unwrap_or(("", text));
        self.info.group == group && self.info.version == version
    }

    /// Returns the deprecation warning of the resource.
    #[must_use]
    pub fn deprecation(&self) -> Option<&str> {
        if let Some(custom) = &self.custom {
            return custom.version().deprecation.as_deref();
        }
        match (&*self.info.group, &*self.info.kind) {
            ("", "Endpoints") => {
                Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
            }
            ("", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+"),
            _ => None,
        }
    }

    /// Returns the resource as messages name it.
    #[must_use]
    pub fn qualified(&self) -> Qualified<'_> {
        Qualified { group: &self.info.group, name: &self.info.plural }
    }

    /// Returns the kind as messages name it: with the group of the storage version.
    #[must_use]
    pub fn qualified_kind(&self) -> Qualified<'_> {
        let group = self.conversion.map_or(&*self.info.group, |conversion| conversion.storage.0);
        Qualified { group, name: &self.info.kind }
    }

    /// Returns a version of a custom kind. `index` distinguishes it from all other resource types.
    ///
    /// # Errors
    /// If the plural name or the group is not valid in a key.
    pub fn of_custom(
        index: usize,
        custom: ServedCustomVersion,
        schema: KindSchema,
        rules: Arc<dyn Rules>,
    ) -> Result<ResourceType, KeyError> {
        let definition = &custom.kind.definition;
        let resource = Resource::new(&format!("{}.{}", definition.names.plural, definition.group))?;
        let info = custom.info();
        Ok(ResourceType {
            index,
            type_prefix: type_prefix(&info.kind, &api_version(&info.group, &info.version)),
            info,
            stored_schema: schema.clone(),
            schema,
            rules: KindRules::Custom(rules),
            resource,
            is_virtual: false,
            custom: Some(custom),
            conversion: None,
        })
    }

    /// `true` if objects are not served as they are stored: in another version, or perhaps before the schema of a
    /// custom kind changed.
    #[must_use]
    pub fn is_converted(&self) -> bool {
        self.conversion.is_some() || self.custom.is_some()
    }

    /// Returns group and version of the storage version.
    #[must_use]
    pub fn storage(&self) -> (&str, &str) {
        self.conversion.map_or((&self.info.group, &self.info.version), |conversion| conversion.storage)
    }

    /// Converts an object from the storage version to the served version.
    #[must_use]
    pub fn to_served(&self, mut object: Value) -> Value {
        if self.custom.is_some() {
            self.set_type(&mut object);
            return in_order(object, &self.schema);
        }
        let Some(conversion) = self.conversion else { return object };
        (conversion.to_served)(&mut object);
        in_order(object, &self.schema)
    }

    /// Converts an object from the served version to the storage version.
    #[must_use]
    pub fn to_stored(&self, mut object: Value) -> Value {
        let Some(conversion) = self.conversion else { return object };
        (conversion.to_stored)(&mut object);
        in_order(object, &self.stored_schema)
    }

    /// Returns the columns and cells of the kind in a table.
    #[must_use]
    pub fn table_kind(&self) -> TableKind<'_> {
        match &self.custom {
            Some(custom) => TableKind::Custom(&custom.columns),
            None => TableKind::BuiltIn(&self.info.group, &self.info.kind),
        }
    }

    /// Sets the kind and the version of an object.
    pub fn set_type(&self, object: &mut Value) {
        let map = object.make_map();
        map.insert("kind", &*self.info.kind);
        map.insert("apiVersion", self.api_version());
    }

    /// Returns the store key of an object.
    ///
    /// # Errors
    /// If the namespace or the name is not valid in a key.
    pub fn key(&self, namespace: &str, name: &str) -> Result<Key, KeyError> {
        if self.info.namespaced {
            Key::namespaced(&self.resource, namespace, name)
        } else {
            Key::cluster(&self.resource, name)
        }
    }
}

/// `group/version`, or `version` for the core group.
#[must_use]
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

fn type_prefix(kind: &str, api_version: &str) -> String {
    format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",")
}

/// Returns every built-in resource type.
#[must_use]
pub fn all() -> &'static [Arc<ResourceType>] {
    static ALL: LazyLock<Vec<Arc<ResourceType>>> = LazyLock::new(|| {
        let all = resources::all().iter().filter_map(resource_type).enumerate();
        all.map(|(index, served)| Arc::new(ResourceType { index, ..served })).collect()
    });
    &ALL
}

/// Returns the storage versions of all resources whose objects are stored.
pub fn stored() -> impl Iterator<Item = &'static Arc<ResourceType>> {
    all().iter().filter(|resource_type| !resource_type.is_virtual && !resource_type.is_converted())
}

/// Returns the resource type with this plural name.
#[must_use]
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Arc<ResourceType>> {
    type Name = (&'static str, &'static str, &'static str);
    static BY_NAME: LazyLock<BTreeMap<Name, &'static Arc<ResourceType>>> = LazyLock::new(|| {
        let name = |info: &'static ResourceInfo| (&*info.plural, &*info.group, &*info.version);
        all().iter().map(|served| (name(&served.info), served)).collect()
    });
    BY_NAME.get(&(plural, group, version)).copied()
}

/// Returns the resource type of the storage version of a resource.
#[must_use]
pub fn storage_type(resource: &Resource) -> Option<&'static Arc<ResourceType>> {
    forms(resource).find(|served| !served.is_converted())
}

/// Returns the resource types of all served versions of a resource.
pub fn forms(resource: &Resource) -> impl Iterator<Item = &'static Arc<ResourceType>> + '_ {
    all().iter().filter(move |served| served.resource == *resource)
}

/// Orders the fields of a converted object as its schema does.
fn in_order(object: Value, schema: &KindSchema) -> Value {
    schema.decode(object.clone(), &[]).map_or(object, |decoded| decoded.value)
}

/// Returns the conversion of a version that is not the storage version.
fn conversion(info: &ResourceInfo) -> Option<Conversion> {
    match (&*info.group, &*info.version, &*info.kind) {
        ("autoscaling", "v1", _) => Some(Conversion {
            storage: ("autoscaling", "v2"),
            to_served: convert::to_v1,
            to_stored: convert::from_v1,
        }),
        ("events.k8s.io", _, "Event") => Some(Conversion {
            storage: ("", "v1"),
            to_served: event_convert::to_events,
            to_stored: event_convert::to_core,
        }),
        _ => None,
    }
}

/// `true` for kinds that are not stored but have a response.
fn is_answered(info: &ResourceInfo) -> bool {
    matches!(
        &*info.kind,
        "Binding"
            | "ComponentStatus"
            | "SelfSubjectReview"
            | "SelfSubjectAccessReview"
            | "SelfSubjectRulesReview"
            | "SubjectAccessReview"
            | "LocalSubjectAccessReview"
            | "TokenReview"
    )
}

/// Rules of a kind that only the server itself makes: none.
struct Unwritable;

impl Rules for Unwritable {
    fn validate(&self, _object: &Value, _errors: &mut ErrorList) {}
}

fn resource_type(info: &'static ResourceInfo) -> Option<ResourceType> {
    let is_read_only = (&*info.group, &*info.kind) == ("", "ComponentStatus");
    let rules = kinds::rules(&info.group, &info.kind).or(is_read_only.then_some(&Unwritable as &dyn Rules))?;
    let definition = |group, version| schema::builtin().kind(group, version, &info.kind);
    let schema = definition(&info.group, &info.version)?;
    let is_virtual = is_read_only || !info.verbs.contains(resources::Verb::List);
    if is_virtual && !is_answered(info) {
        return None;
    }
    let conversion = conversion(info);
    let (group, version) = conversion.map_or((&*info.group, &*info.version), |conversion| conversion.storage);
    let name = if group.is_empty() { info.plural.to_string() } else { format!("{}.{group}", info.plural) };
    let api_version = api_version(group, version);
    Some(ResourceType {
        index: 0,
        schema: KindSchema::BuiltIn(schema),
        stored_schema: KindSchema::BuiltIn(definition(group, version)?),
        rules: KindRules::BuiltIn(rules),
        resource: Resource::new(&name).ok()?,
        type_prefix: type_prefix(&info.kind, &api_version),
        info: info.clone(),
        is_virtual,
        custom: None,
        conversion,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stored_kind_is_found_under_its_path() {
        assert!(all().len() > 40, "{}", all().len());
        for served in all() {
            let found = find(&served.info.group, &served.info.version, &served.info.plural).unwrap();
            assert_eq!(found.resource, served.resource);
            assert!(served.has_api_version(&served.api_version()));
            assert!(!served.has_api_version("none/v1") && !served.has_api_version("none"));
        }
    }
}
