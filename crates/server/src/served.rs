//! What is served: each resource in each version, with the rules of its kind and the form it is stored in.

use std::sync::LazyLock;

use setpoint_api::kinds::{self, Rules};
use setpoint_api::resources::{self, ResourceInfo};
use setpoint_api::schema::{self, Struct};
use setpoint_api::status::Qualified;
use setpoint_api::{Key, KeyError, Resource};

/// A resource in one version.
pub struct Served {
    /// Its names, scope and verbs.
    pub info: &'static ResourceInfo,
    /// The definition of its objects.
    pub schema: Struct<'static>,
    /// What is particular to its kind.
    pub rules: &'static dyn Rules,
    /// Where its objects are kept.
    pub resource: Resource,
    /// How a stored object begins: its type, in the storage version.
    pub type_prefix: String,
}

impl Served {
    /// `group/version`, or `version` for the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        api_version(self.info.group, self.info.version)
    }

    /// The resource as messages name it.
    #[must_use]
    pub fn qualified(&self) -> Qualified<'static> {
        Qualified { group: self.info.group, name: self.info.plural }
    }

    /// The kind as messages name it.
    #[must_use]
    pub fn qualified_kind(&self) -> Qualified<'static> {
        Qualified { group: self.info.group, name: self.info.kind }
    }

    /// The key of an object.
    ///
    /// # Errors
    /// If the name cannot be one.
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

/// Everything that is served.
#[must_use]
pub fn all() -> &'static [Served] {
    static ALL: LazyLock<Vec<Served>> =
        LazyLock::new(|| resources::all().iter().filter_map(served).collect());
    &ALL
}

/// The resource with this plural name.
#[must_use]
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Served> {
    all().iter().find(|served| {
        served.info.plural == plural && served.info.group == group && served.info.version == version
    })
}

/// Objects of a second version or group are kept as those of the first; they wait for their conversions.
fn is_second_form(info: &ResourceInfo) -> bool {
    (info.group == "autoscaling" && info.version == "v1") || info.group == "events.k8s.io"
}

fn served(info: &'static ResourceInfo) -> Option<Served> {
    let rules = kinds::rules(info.group, info.kind)?;
    let schema = schema::builtin().kind(info.group, info.version, info.kind)?;
    let is_stored = info.verbs.contains(resources::Verb::List);
    if !is_stored || is_second_form(info) {
        return None;
    }
    let name = if info.group.is_empty() {
        info.plural.to_owned()
    } else {
        format!("{}.{}", info.plural, info.group)
    };
    let version = api_version(info.group, info.version);
    Some(Served {
        info,
        schema,
        rules,
        resource: Resource::new(&name).ok()?,
        type_prefix: format!("{{\"kind\":\"{}\",\"apiVersion\":\"{version}\",", info.kind),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stored_kind_is_found_under_its_path() {
        assert!(all().len() > 40, "{}", all().len());
        for served in all() {
            let found = find(served.info.group, served.info.version, served.info.plural).unwrap();
            assert_eq!(found.resource, served.resource);
        }
    }
}
