//! What is served: each resource in each version, with the rules of its kind and the form it is stored in.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use setpoint_api::decode::decode;
use setpoint_api::field_error::ErrorList;
use setpoint_api::kinds::autoscaling::convert;
use setpoint_api::kinds::core::event_convert;
use setpoint_api::kinds::{self, Rules};
use setpoint_api::resources::{self, ResourceInfo};
use setpoint_api::schema::{self, Struct};
use setpoint_api::status::Qualified;
use setpoint_api::{Key, KeyError, Resource, Value};

/// How objects go between the form in which they are served and that in which they are stored.
#[derive(Clone, Copy)]
struct Conversion {
    /// Group and version of the stored form.
    storage: (&'static str, &'static str),
    to_served: fn(&mut Value),
    to_stored: fn(&mut Value),
}

/// Kinds whose objects are stored and have no effect yet, by group, and what the server does instead.
const UNENFORCED: [(&str, &[&str], &str); 6] = [
    (
        "admissionregistration.k8s.io",
        &[
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
            "MutatingWebhookConfiguration",
        ],
        "requests are admitted without it",
    ),
    (
        "rbac.authorization.k8s.io",
        &["Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"],
        "the group system:masters has all rights and no one else has any",
    ),
    ("apiregistration.k8s.io", &["APIService"], "requests are not forwarded to other API servers"),
    ("networking.k8s.io", &["NetworkPolicy"], "traffic is not filtered"),
    (
        "flowcontrol.apiserver.k8s.io",
        &["FlowSchema", "PriorityLevelConfiguration"],
        "requests are not queued by priority",
    ),
    ("storagemigration.k8s.io", &["StorageVersionMigration"], "no object is rewritten for it"),
];

/// A resource in one version.
pub struct Served {
    /// Its place among all that is served.
    pub index: usize,
    /// Its names, scope and verbs.
    pub info: &'static ResourceInfo,
    /// The definition of its objects, as clients see them.
    pub schema: Struct<'static>,
    /// The definition of its objects as they are stored.
    pub stored_schema: Struct<'static>,
    /// What is particular to its kind.
    pub rules: &'static dyn Rules,
    /// Where its objects are kept.
    pub resource: Resource,
    /// How a stored object begins: its type, in the storage version.
    pub type_prefix: String,
    /// Whether there is nothing to store: an object is a question, and the answer is all there is.
    pub is_virtual: bool,
    conversion: Option<Conversion>,
}

impl Served {
    /// `group/version`, or `version` for the core group.
    #[must_use]
    pub fn api_version(&self) -> String {
        api_version(self.info.group, self.info.version)
    }

    /// Whether this is its `group/version`.
    #[must_use]
    pub fn has_api_version(&self, text: &str) -> bool {
        let (group, version) = text.split_once('/').unwrap_or(("", text));
        self.info.group == group && self.info.version == version
    }

    /// What clients are told who still use the resource.
    #[must_use]
    pub fn deprecation(&self) -> Option<&'static str> {
        match (self.info.group, self.info.kind) {
            ("", "Endpoints") => {
                Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
            }
            ("", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+"),
            _ => None,
        }
    }

    /// The warning for clients that write objects of a kind without effect.
    #[must_use]
    pub fn unenforced(&self) -> Option<String> {
        let kind = self.info.kind;
        let mut entries = UNENFORCED.iter();
        let (_, _, instead) =
            entries.find(|(group, kinds, _)| *group == self.info.group && kinds.contains(&kind))?;
        Some(format!("{kind} is stored but not enforced by this server yet: {instead}"))
    }

    /// The resource as messages name it.
    #[must_use]
    pub fn qualified(&self) -> Qualified<'static> {
        Qualified { group: self.info.group, name: self.info.plural }
    }

    /// The kind as messages name it: that of the stored form.
    #[must_use]
    pub fn qualified_kind(&self) -> Qualified<'static> {
        let group = self.conversion.map_or(self.info.group, |conversion| conversion.storage.0);
        Qualified { group, name: self.info.kind }
    }

    /// Whether objects are served in another form than they are stored in.
    #[must_use]
    pub fn is_converted(&self) -> bool {
        self.conversion.is_some()
    }

    /// Group and version of the form in which objects are stored.
    #[must_use]
    pub fn storage(&self) -> (&'static str, &'static str) {
        self.conversion.map_or((self.info.group, self.info.version), |conversion| conversion.storage)
    }

    /// A stored object in the form in which it is served.
    #[must_use]
    pub fn to_served(&self, mut object: Value) -> Value {
        let Some(conversion) = self.conversion else { return object };
        (conversion.to_served)(&mut object);
        in_order(object, self.schema)
    }

    /// A served object in the form in which it is stored.
    #[must_use]
    pub fn to_stored(&self, mut object: Value) -> Value {
        let Some(conversion) = self.conversion else { return object };
        (conversion.to_stored)(&mut object);
        in_order(object, self.stored_schema)
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
    static ALL: LazyLock<Vec<Served>> = LazyLock::new(|| {
        let all = resources::all().iter().filter_map(served).enumerate();
        all.map(|(index, served)| Served { index, ..served }).collect()
    });
    &ALL
}

/// The resource with this plural name.
#[must_use]
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Served> {
    type Name = (&'static str, &'static str, &'static str);
    static BY_NAME: LazyLock<BTreeMap<Name, &'static Served>> = LazyLock::new(|| {
        let name = |served: &'static Served| (served.info.plural, served.info.group, served.info.version);
        all().iter().map(|served| (name(served), served)).collect()
    });
    BY_NAME.get(&(plural, group, version)).copied()
}

/// The form in which the objects of a resource are stored.
#[must_use]
pub fn stored_form(resource: &Resource) -> Option<&'static Served> {
    forms(resource).find(|served| !served.is_converted())
}

/// Every form in which the objects of a resource are served.
pub fn forms(resource: &Resource) -> impl Iterator<Item = &'static Served> + '_ {
    all().iter().filter(move |served| served.resource == *resource)
}

/// Brings the fields of an object that was converted into the order in which clients know them.
fn in_order(object: Value, schema: Struct<'static>) -> Value {
    decode(object.clone(), schema, &[]).map_or(object, |decoded| decoded.value)
}

/// How the objects of a second version or group are kept as those of the first.
fn conversion(info: &ResourceInfo) -> Option<Conversion> {
    match (info.group, info.version, info.kind) {
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

/// Whether there are answers to objects of a kind that is not stored.
fn is_answered(info: &ResourceInfo) -> bool {
    matches!(
        info.kind,
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

/// The rules of what only the server itself says.
struct Told;

impl Rules for Told {
    fn validate(&self, _object: &Value, _errors: &mut ErrorList) {}
}

fn served(info: &'static ResourceInfo) -> Option<Served> {
    let is_told = (info.group, info.kind) == ("", "ComponentStatus");
    let rules = kinds::rules(info.group, info.kind).or(is_told.then_some(&Told as &dyn Rules))?;
    let schema = schema::builtin().kind(info.group, info.version, info.kind)?;
    let is_virtual = is_told || !info.verbs.contains(resources::Verb::List);
    if is_virtual && !is_answered(info) {
        return None;
    }
    let conversion = conversion(info);
    let (group, version) = conversion.map_or((info.group, info.version), |conversion| conversion.storage);
    let name = if group.is_empty() { info.plural.to_owned() } else { format!("{}.{group}", info.plural) };
    let api_version = api_version(group, version);
    Some(Served {
        index: 0,
        info,
        schema,
        stored_schema: schema::builtin().kind(group, version, info.kind)?,
        rules,
        resource: Resource::new(&name).ok()?,
        type_prefix: format!("{{\"kind\":\"{}\",\"apiVersion\":\"{api_version}\",", info.kind),
        is_virtual,
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
            let found = find(served.info.group, served.info.version, served.info.plural).unwrap();
            assert_eq!(found.resource, served.resource);
            assert!(served.has_api_version(&served.api_version()));
            assert!(!served.has_api_version("none/v1") && !served.has_api_version("none"));
        }
    }
}
