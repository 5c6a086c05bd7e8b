//! Discovery documents: legacy (`/api`, `/apis`, `/apis/GROUP/VERSION`) and aggregated.

pub mod usage;

use std::sync::LazyLock;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use setpoint_api::resources::{SubresourceInfo, Verbs};
use setpoint_api::{Map, Value, json};

use setpoint_api::resource_types::{self, ResourceType, api_version};

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
    fn new(document: &Value) -> TaggedDocument {
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

/// Aggregated discovery document at a path; `None` if there is none. `measures` includes `metrics.k8s.io`.
#[must_use]
pub fn aggregated(parts: &[&str], measures: bool) -> Option<&'static TaggedDocument> {
    static CORE: LazyLock<TaggedDocument> =
        LazyLock::new(|| TaggedDocument::new(&aggregate(&[("", vec!["v1"])])));
    static GROUPS: LazyLock<TaggedDocument> =
        LazyLock::new(|| TaggedDocument::new(&aggregate(&groups(false))));
    static WITH_USAGE: LazyLock<TaggedDocument> =
        LazyLock::new(|| TaggedDocument::new(&aggregate(&groups(true))));
    match parts {
        ["api"] => Some(&CORE),
        ["apis"] if measures => Some(&WITH_USAGE),
        ["apis"] => Some(&GROUPS),
        _ => None,
    }
}

/// Legacy document at a path; `None` if there is none. `measures` includes `metrics.k8s.io`.
#[must_use]
pub fn document(parts: &[&str], address: &str, measures: bool) -> Option<Value> {
    match parts {
        ["api"] => Some(api_versions(address)),
        ["apis"] => Some(group_list(measures)),
        ["api", "v1"] => Some(resource_list("", "v1")),
        ["apis", group] => groups(measures).iter().find(|(name, _)| name == group).map(|(name, versions)| {
            let mut value = map([("kind", "APIGroup".into()), ("apiVersion", "v1".into())]);
            group_fields(value.make_map(), name, versions);
            value
        }),
        ["apis", group, version] => groups(measures)
            .iter()
            .any(|(name, versions)| name == group && versions.contains(version))
            .then(|| resource_list(group, version)),
        ["version"] => Some(version()),
        _ => None,
    }
}

/// Paths at the root, with those of `more`.
#[must_use]
pub fn paths(more: impl Iterator<Item = String>, measures: bool) -> Value {
    let mut paths: Vec<String> = vec!["/api".into(), "/api/v1".into(), "/apis".into()];
    for (group, versions) in groups(measures) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
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

/// Every group but the core group, with its versions.
fn groups(measures: bool) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for resource_type in
        resource_types::all().iter().filter(|resource_type| !resource_type.info.group.is_empty())
    {
        match groups.iter_mut().find(|(group, _)| *group == resource_type.info.group) {
            Some((_, versions)) if versions.contains(&resource_type.info.version) => {}
            Some((_, versions)) => versions.push(resource_type.info.version),
            None => groups.push((resource_type.info.group, vec![resource_type.info.version])),
        }
    }
    // The newer version comes first: clients take the first one as preferred.
    groups.iter_mut().for_each(|(_, versions)| versions.sort_by(|a, b| b.cmp(a)));
    let rank = |group: &str| PRECEDENCE.iter().position(|name| *name == group).unwrap_or(PRECEDENCE.len());
    groups.sort_by_key(|(group, _)| rank(group));
    if measures {
        groups.push((usage::GROUP, vec![usage::VERSION]));
    }
    groups
}

/// Group priority, by which clients resolve a bare resource name.
const PRECEDENCE: [&str; 20] = [
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

fn group_list(measures: bool) -> Value {
    let groups = groups(measures).into_iter().map(|(group, versions)| {
        let mut value = map([]);
        group_fields(value.make_map(), group, &versions);
        value
    });
    map([
        ("kind", "APIGroupList".into()),
        ("apiVersion", "v1".into()),
        ("groups", groups.collect::<Vec<_>>().into()),
    ])
}

fn group_fields(into: &mut Map, group: &str, versions: &[&str]) {
    let version_entry = |version: &&str| {
        map([("groupVersion", api_version(group, version).into()), ("version", (*version).into())])
    };
    into.insert("name", group);
    into.insert("versions", versions.iter().map(version_entry).collect::<Vec<_>>());
    into.insert("preferredVersion", versions.first().map(version_entry));
}

fn verbs(verbs: Verbs) -> Value {
    verbs.iter().map(|verb| Value::from(verb.as_str())).collect::<Vec<_>>().into()
}

fn string_list(words: &[&str]) -> Value {
    words.iter().map(|word| Value::from(*word)).collect::<Vec<_>>().into()
}

fn types_of_version<'a>(
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = &'static ResourceType> + 'a {
    resource_types::all().iter().filter(move |resource_type| {
        resource_type.info.group == group && resource_type.info.version == version
    })
}

fn resource_list(group: &str, version: &str) -> Value {
    let mut resources = if group == usage::GROUP { usage::resources() } else { Vec::new() };
    for resource_type in types_of_version(group, version) {
        let info = resource_type.info;
        let mut entry = map([
            ("name", info.plural.into()),
            ("singularName", info.singular.into()),
            ("namespaced", info.namespaced.into()),
            ("kind", info.kind.into()),
            ("verbs", verbs(info.verbs)),
        ]);
        let fields = entry.make_map();
        if !info.short_names.is_empty() {
            fields.insert("shortNames", string_list(&info.short_names));
        }
        if !info.categories.is_empty() {
            fields.insert("categories", string_list(&info.categories));
        }
        if !resource_type.is_virtual {
            fields.insert("storageVersionHash", storage_version_hash(resource_type));
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

/// Hash of the storage version, by which clients notice a migration.
fn storage_version_hash(resource_type: &ResourceType) -> String {
    let (group, version) = resource_type.storage();
    let text = format!("{group}/{version}/{}", resource_type.info.kind);
    STANDARD.encode(&digest(&SHA256, text.as_bytes()).as_ref()[..8])
}

fn subresource(resource_type: &ResourceType, sub: &SubresourceInfo) -> Value {
    let mut entry = map([
        ("name", format!("{}/{}", resource_type.info.plural, sub.name).into()),
        ("singularName", "".into()),
        ("namespaced", resource_type.info.namespaced.into()),
    ]);
    let fields = entry.make_map();
    if sub.foreign {
        fields.insert("group", sub.group);
        fields.insert("version", sub.version);
    }
    fields.insert("kind", sub.kind);
    fields.insert("verbs", verbs(sub.verbs));
    entry
}

/// The aggregated document.
fn aggregate(groups: &[(&str, Vec<&str>)]) -> Value {
    let items = groups.iter().map(|(group, versions)| {
        let versions = versions.iter().map(|version| {
            let mut resources: Vec<Value> =
                types_of_version(group, version).map(aggregated_resource).collect();
            if *group == usage::GROUP {
                resources = usage::aggregated();
            }
            map([
                ("version", (*version).into()),
                ("resources", resources.into()),
                ("freshness", "Current".into()),
            ])
        });
        let mut metadata = map([]);
        if !group.is_empty() {
            metadata.make_map().insert("name", *group);
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
    let info = resource_type.info;
    let kind = |group: &str, version: &str, kind: &str| {
        map([("group", group.into()), ("version", version.into()), ("kind", kind.into())])
    };
    let mut entry = map([
        ("resource", info.plural.into()),
        // A kind in its own group and version does not repeat them.
        ("responseKind", kind("", "", info.kind)),
        ("scope", if info.namespaced { "Namespaced" } else { "Cluster" }.into()),
        ("singularResource", info.singular.into()),
        ("verbs", verbs(info.verbs)),
    ]);
    let fields = entry.make_map();
    if !info.short_names.is_empty() {
        fields.insert("shortNames", string_list(&info.short_names));
    }
    if !info.categories.is_empty() {
        fields.insert("categories", string_list(&info.categories));
    }
    let subresources = info.subresources.iter().map(|sub| {
        let (group, version) = if sub.foreign { (sub.group, sub.version) } else { ("", "") };
        map([
            ("subresource", sub.name.into()),
            ("responseKind", kind(group, version, sub.kind)),
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
            assert_eq!(storage_version_hash(resource_types::find(group, version, plural).unwrap()), expected);
        }
        let core = resource_list("", "v1");
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
        // Kinds with a schema that are not served.
        let known = setpoint_api::resources::all().iter();
        for info in known.filter(|info| info.group != "apiextensions.k8s.io") {
            let list = resource_list(info.group, info.version);
            let listed = list.get("resources").and_then(Value::as_list).unwrap();
            let names = [info.plural.to_owned()].into_iter();
            let names =
                names.chain(info.subresources.iter().map(|sub| format!("{}/{}", info.plural, sub.name)));
            for name in names {
                assert!(listed.iter().any(|entry| entry.str_at(&["name"]) == name), "{} {name}", info.group);
            }
            let path = if info.group.is_empty() { "api" } else { "apis" };
            let all = json::parse(&aggregated(&[path], false).unwrap().json).unwrap();
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
