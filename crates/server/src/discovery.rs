//! Discovery documents: legacy (`/api`, `/apis`, `/apis/GROUP/VERSION`) and aggregated.

pub mod usage;
mod version_priority;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, OnceLock};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use setpoint_api::resources::{SubresourceInfo, Verbs};
use setpoint_api::{Map, Value, json};

use setpoint_api::resource_types::{self, ResourceType, api_version};

use self::version_priority::by_priority;
use crate::catalog::Catalog;

/// Kubernetes version that is reported.
pub const VERSION: &str = "v1.37.0";

/// A static document with its ETag.
pub struct TaggedDocument {
    /// The document.
    pub json: Bytes,
    /// ETag, without quotes.
    pub tag: String,
}

impl TaggedDocument {
    /// Encodes a document.
    pub(crate) fn new(document: &Value) -> TaggedDocument {
        let mut json = json::to_vec(document);
        json.push(b'\n');
        TaggedDocument { tag: tag(&json), json: json.into() }
    }
}

/// ETag of bytes.
#[must_use]
pub fn tag(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Discovery documents of a catalog, generated on first use: those of all groups, without and with `metrics.k8s.io`.
#[derive(Default)]
pub struct AggregatedDocuments([OnceLock<TaggedDocument>; 2]);

/// Aggregated discovery document at a path; `None` if there is none. `measures` includes `metrics.k8s.io`.
#[must_use]
pub fn aggregated<'c>(parts: &[&str], catalog: &'c Catalog, measures: bool) -> Option<&'c TaggedDocument> {
    static CORE: LazyLock<TaggedDocument> = LazyLock::new(|| {
        let core = Group { name: "", versions: vec!["v1"] };
        TaggedDocument::new(&aggregate(&[core], &types_by_version(Catalog::built_in())))
    });
    match parts {
        ["api"] => Some(&CORE),
        ["apis"] => {
            let document = || {
                let types = types_by_version(catalog);
                TaggedDocument::new(&aggregate(&groups(&types, measures), &types))
            };
            Some(catalog.documents().0[usize::from(measures)].get_or_init(document))
        }
        _ => None,
    }
}

/// Legacy document at a path; `None` if there is none. `measures` includes `metrics.k8s.io`.
#[must_use]
pub fn document(parts: &[&str], address: &str, catalog: &Catalog, measures: bool) -> Option<Value> {
    match parts {
        ["api"] => Some(api_versions(address)),
        ["apis"] => Some(group_list(&groups(&types_by_version(catalog), measures))),
        ["api", "v1"] => Some(resource_list("", "v1", catalog)),
        ["apis", name] => {
            let groups = groups(&types_by_version(catalog), measures);
            groups.iter().find(|group| group.name == *name).map(|group| {
                let mut value = map([("kind", "APIGroup".into()), ("apiVersion", "v1".into())]);
                group_fields(value.make_map(), group);
                value
            })
        }
        ["apis", group, version] => {
            let is_usage = measures && (*group, *version) == (usage::GROUP, usage::VERSION);
            let is_served = is_usage || types_of_version(group, version, catalog).next().is_some();
            (is_served && !group.is_empty()).then(|| resource_list(group, version, catalog))
        }
        ["version"] => Some(version()),
        _ => None,
    }
}

/// Paths at the root, with those of `more`.
#[must_use]
pub fn paths(more: impl Iterator<Item = String>, catalog: &Catalog, measures: bool) -> Value {
    let mut paths: Vec<String> = vec!["/api".into(), "/api/v1".into(), "/apis".into()];
    for Group { name, versions } in groups(&types_by_version(catalog), measures) {
        paths.push(format!("/apis/{name}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{name}/{version}")));
    }
    let others = ["/metrics", "/openapi/v2", "/openapi/v3", "/setpoint/loop", "/version"];
    paths.extend(others.map(str::to_owned));
    paths.extend(more);
    paths.sort();
    map([("paths", paths.into_iter().map(Value::from).collect::<Vec<_>>().into())])
}

fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    let mut map = Map::with_capacity(N);
    for (key, value) in entries {
        map.insert(key, value);
    }
    map.into()
}

/// An API group with its versions, the preferred one first.
struct Group<'a> {
    name: &'a str,
    versions: Vec<&'a str>,
}

/// Resource types by group and version.
type TypesByVersion<'a> = BTreeMap<(&'a str, &'a str), Vec<&'a ResourceType>>;

fn types_by_version(catalog: &Catalog) -> TypesByVersion<'_> {
    let mut types = TypesByVersion::new();
    for resource_type in resource_types::all().iter().chain(catalog.custom()) {
        let info = &resource_type.info;
        types.entry((&*info.group, &*info.version)).or_default().push(resource_type);
    }
    types
}

/// Every group but the core group: built-in ones by priority, then custom ones by name, as upstream orders groups of
/// priority 1000.
fn groups<'a>(types: &TypesByVersion<'a>, measures: bool) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for &(name, version) in types.keys().filter(|(group, _)| !group.is_empty()) {
        match groups.last_mut().filter(|group| group.name == name) {
            Some(group) => group.versions.push(version),
            None => groups.push(Group { name, versions: vec![version] }),
        }
    }
    for group in &mut groups {
        group.versions.sort_by(|a, b| by_priority(a, b));
    }
    let rank = |group: &str| PRECEDENCE.iter().position(|name| *name == group).unwrap_or(PRECEDENCE.len());
    groups.sort_by_key(|group| rank(group.name));
    if measures {
        // Below custom groups: its priority is 100.
        groups.push(Group { name: usage::GROUP, versions: vec![usage::VERSION] });
    }
    groups
}

/// Group priority, by which clients resolve a bare resource name.
const PRECEDENCE: [&str; 21] = [
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "storagemigration.k8s.io",
];

fn api_versions(address: &str) -> Value {
    let server = map([("clientCIDR", "0.0.0.0/0".into()), ("serverAddress", address.into())]);
    map([
        ("kind", "APIVersions".into()),
        ("versions", vec![Value::from("v1")].into()),
        ("serverAddressByClientCIDRs", vec![server].into()),
    ])
}

fn group_list(groups: &[Group<'_>]) -> Value {
    let groups = groups.iter().map(|group| {
        let mut value = map([]);
        group_fields(value.make_map(), group);
        value
    });
    map([
        ("kind", "APIGroupList".into()),
        ("apiVersion", "v1".into()),
        ("groups", groups.collect::<Vec<_>>().into()),
    ])
}

fn group_fields(into: &mut Map, group: &Group<'_>) {
    let version_entry = |version: &&str| {
        map([("groupVersion", api_version(group.name, version).into()), ("version", (*version).into())])
    };
    into.insert("name", group.name);
    into.insert("versions", group.versions.iter().map(version_entry).collect::<Vec<_>>());
    into.insert("preferredVersion", group.versions.first().map(version_entry));
}

fn verbs(verbs: Verbs) -> Value {
    verbs.iter().map(|verb| Value::from(verb.as_str())).collect::<Vec<_>>().into()
}

fn string_list<T: AsRef<str>>(words: &[T]) -> Value {
    words.iter().map(|word| Value::from(word.as_ref())).collect::<Vec<_>>().into()
}

/// Verbs of a resource type. Objects of a definition in deletion can no longer be written.
fn verbs_of(resource_type: &ResourceType) -> Value {
    const TERMINATING: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];
    match &resource_type.custom {
        Some(custom) if custom.kind.definition.is_terminating => string_list(&TERMINATING),
        _ => verbs(resource_type.info.verbs),
    }
}

/// Kind of a resource type: of a custom one, the kind that its definition was given.
fn kind_of(resource_type: &ResourceType) -> &str {
    let custom = resource_type.custom.as_ref();
    let accepted = custom.map_or("", |custom| custom.kind.definition.accepted_names.kind.as_str());
    if accepted.is_empty() { &resource_type.info.kind } else { accepted }
}

fn types_of_version<'a>(
    group: &'a str,
    version: &'a str,
    catalog: &'a Catalog,
) -> impl Iterator<Item = &'a Arc<ResourceType>> + 'a {
    resource_types::all().iter().chain(catalog.custom()).filter(move |resource_type| {
        resource_type.info.group == group && resource_type.info.version == version
    })
}

fn resource_list(group: &str, version: &str, catalog: &Catalog) -> Value {
    let mut resources = if group == usage::GROUP { usage::resources() } else { Vec::new() };
    for resource_type in types_of_version(group, version, catalog) {
        let info = &resource_type.info;
        let mut entry = map([
            ("name", (&*info.plural).into()),
            ("singularName", (&*info.singular).into()),
            ("namespaced", info.namespaced.into()),
            ("kind", kind_of(resource_type).into()),
            ("verbs", verbs_of(resource_type)),
        ]);
        let fields = entry.make_map();
        if !info.short_names.is_empty() {
            fields.insert("shortNames", string_list(&info.short_names));
        }
        if !info.categories.is_empty() {
            fields.insert("categories", string_list(&info.categories));
        }
        if let Some(hash) = storage_version_hash(resource_type) {
            fields.insert("storageVersionHash", hash);
        }
        resources.push(entry);
        resources.extend(info.subresources.iter().map(|sub| subresource(resource_type, sub)));
    }
    let mut list = map([("kind", "APIResourceList".into())]);
    if !group.is_empty() {
        list.make_map().insert("apiVersion", "v1");
    }
    list.make_map().insert("groupVersion", api_version(group, version));
    list.make_map().insert("resources", resources);
    list
}

/// Hash of the storage version, by which clients notice a migration; `None` if nothing is stored, or if the storage
/// version is not served.
fn storage_version_hash(resource_type: &ResourceType) -> Option<String> {
    let (group, version) = match &resource_type.custom {
        Some(custom) => {
            let definition = &custom.kind.definition;
            let storage = definition.storage_version().filter(|version| version.served)?;
            (definition.group.as_str(), storage.name.as_str())
        }
        None if resource_type.is_virtual => return None,
        None => resource_type.storage(),
    };
    let text = format!("{group}/{version}/{}", resource_type.info.kind);
    Some(STANDARD.encode(&digest(&SHA256, text.as_bytes()).as_ref()[..8]))
}

fn subresource(resource_type: &ResourceType, sub: &SubresourceInfo) -> Value {
    let mut entry = map([
        ("name", format!("{}/{}", resource_type.info.plural, sub.name).into()),
        ("singularName", "".into()),
        ("namespaced", resource_type.info.namespaced.into()),
    ]);
    let fields = entry.make_map();
    if sub.foreign {
        fields.insert("group", &*sub.group);
        fields.insert("version", &*sub.version);
    }
    fields.insert("kind", if sub.foreign { &*sub.kind } else { subresource_kind(resource_type, sub) });
    fields.insert("verbs", verbs(sub.verbs));
    entry
}

/// Kind of a subresource in the group version of its resource.
fn subresource_kind<'a>(resource_type: &'a ResourceType, sub: &'a SubresourceInfo) -> &'a str {
    if resource_type.custom.is_some() { kind_of(resource_type) } else { &sub.kind }
}

/// The aggregated document.
fn aggregate(groups: &[Group<'_>], types: &TypesByVersion<'_>) -> Value {
    let items = groups.iter().map(|group| {
        let versions = group.versions.iter().map(|version| {
            let types = types.get(&(group.name, *version)).map(Vec::as_slice).unwrap_or_default();
            let mut resources: Vec<Value> = types.iter().map(|served| aggregated_resource(served)).collect();
            if group.name == usage::GROUP {
                resources = usage::aggregated();
            }
            map([
                ("version", (*version).into()),
                ("resources", resources.into()),
                ("freshness", "Current".into()),
            ])
        });
        let mut metadata = map([]);
        if !group.name.is_empty() {
            metadata.make_map().insert("name", group.name);
        }
        map([("metadata", metadata), ("versions", versions.collect::<Vec<_>>().into())])
    });
    map([
        ("kind", "APIGroupDiscoveryList".into()),
        ("apiVersion", "apidiscovery.k8s.io/v2".into()),
        ("metadata", map([])),
        ("items", items.collect::<Vec<_>>().into()),
    ])
}

fn aggregated_resource(resource_type: &ResourceType) -> Value {
    let info = &resource_type.info;
    let kind = |group: &str, version: &str, kind: &str| {
        map([("group", group.into()), ("version", version.into()), ("kind", kind.into())])
    };
    // A built-in kind in its own group and version does not repeat them; custom kinds do, as upstream.
    let own = if resource_type.custom.is_some() { (&*info.group, &*info.version) } else { ("", "") };
    let mut entry = map([
        ("resource", (&*info.plural).into()),
        ("responseKind", kind(own.0, own.1, kind_of(resource_type))),
        ("scope", if info.namespaced { "Namespaced" } else { "Cluster" }.into()),
        ("singularResource", (&*info.singular).into()),
        ("verbs", verbs_of(resource_type)),
    ]);
    let fields = entry.make_map();
    if !info.short_names.is_empty() {
        fields.insert("shortNames", string_list(&info.short_names));
    }
    if !info.categories.is_empty() {
        fields.insert("categories", string_list(&info.categories));
    }
    let subresources = info.subresources.iter().map(|sub| {
        let response_kind = if sub.foreign {
            kind(&sub.group, &sub.version, &sub.kind)
        } else {
            kind(own.0, own.1, subresource_kind(resource_type, sub))
        };
        map([
            ("subresource", (&*sub.name).into()),
            ("responseKind", response_kind),
            ("verbs", verbs(sub.verbs)),
        ])
    });
    let subresources: Vec<Value> = subresources.collect();
    if !subresources.is_empty() {
        fields.insert("subresources", subresources);
    }
    entry
}

fn version() -> Value {
    map([
        ("major", "1".into()),
        ("minor", "37".into()),
        ("emulationMajor", "1".into()),
        ("emulationMinor", "37".into()),
        ("minCompatibilityMajor", "1".into()),
        ("minCompatibilityMinor", "36".into()),
        ("gitVersion", VERSION.into()),
        ("gitCommit", "".into()),
        ("gitTreeState", "".into()),
        ("buildDate", "1970-01-01T00:00:00Z".into()),
        ("goVersion", "none".into()),
        ("compiler", "rustc".into()),
        ("platform", format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH).into()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_versions_have_the_hashes_that_clients_know() {
        for (group, version, plural, expected) in [
            ("", "v1", "pods", "xPOwRZ+Yhw8="),
            ("apps", "v1", "deployments", "8aSe+NMegvE="),
            ("", "v1", "events", "r2yiGXH7wu8="),
            ("events.k8s.io", "v1", "events", "r2yiGXH7wu8="),
        ] {
            let found = resource_types::find(group, version, plural).unwrap();
            assert_eq!(storage_version_hash(found).as_deref(), Some(expected));
        }
        let core = resource_list("", "v1", Catalog::built_in());
        let hashed = |name: &str| {
            let entries = core.get("resources").and_then(Value::as_list).unwrap();
            let entry = entries.iter().find(|entry| entry.str_at(&["name"]) == name).unwrap();
            entry.get("storageVersionHash").is_some()
        };
        assert!(
            hashed("pods") && !hashed("pods/status") && !hashed("bindings") && !hashed("componentstatuses")
        );
    }

    #[test]
    fn both_discovery_documents_list_every_resource_and_subresource() {
        for info in setpoint_api::resources::all() {
            let list = resource_list(&info.group, &info.version, Catalog::built_in());
            let listed = list.get("resources").and_then(Value::as_list).unwrap();
            let names = [info.plural.to_string()].into_iter();
            let names =
                names.chain(info.subresources.iter().map(|sub| format!("{}/{}", info.plural, sub.name)));
            for name in names {
                assert!(listed.iter().any(|entry| entry.str_at(&["name"]) == name), "{} {name}", info.group);
            }
            let path = if info.group.is_empty() { "api" } else { "apis" };
            let all = json::parse(&aggregated(&[path], Catalog::built_in(), false).unwrap().json).unwrap();
            let items = all.get("items").and_then(Value::as_list).unwrap();
            let group = items.iter().find(|item| item.str_at(&["metadata", "name"]) == info.group).unwrap();
            let versions = group.get("versions").and_then(Value::as_list).unwrap();
            let version = versions.iter().find(|entry| entry.str_at(&["version"]) == info.version).unwrap();
            let resources = version.get("resources").and_then(Value::as_list).unwrap();
            let entry = resources.iter().find(|entry| entry.str_at(&["resource"]) == info.plural).unwrap();
            let parts = entry.get("subresources").and_then(Value::as_list).unwrap_or_default();
            assert_eq!(parts.len(), info.subresources.len(), "{}", info.plural);
        }
    }
}
