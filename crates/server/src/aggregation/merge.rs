//! Merge of the discovery and OpenAPI documents of this server with those of extension API servers.
//!
//! Groups are ordered by `groupPriorityMinimum`, versions by `versionPriority`, as upstream's aggregator does. A version of
//! an APIService with a Service replaces the same version of this server.

use setpoint_api::{Map, Value, value};

use super::documents::DocumentCache;
use super::registry::{Registry, RemoteApiService};

/// Priorities of the groups of this server, as upstream's; others, those of custom resources, have
/// [`CUSTOM_GROUP_PRIORITY`].
const GROUP_PRIORITIES: [(&str, i64); 22] = [
    ("apiregistration.k8s.io", 20_001),
    ("apps", 17_800),
    ("events.k8s.io", 17_750),
    ("authentication.k8s.io", 17_700),
    ("authorization.k8s.io", 17_600),
    ("autoscaling", 17_500),
    ("batch", 17_400),
    ("certificates.k8s.io", 17_300),
    ("networking.k8s.io", 17_200),
    ("policy", 17_100),
    ("rbac.authorization.k8s.io", 17_000),
    ("storage.k8s.io", 16_800),
    ("apiextensions.k8s.io", 16_700),
    ("admissionregistration.k8s.io", 16_700),
    ("scheduling.k8s.io", 16_600),
    ("coordination.k8s.io", 16_500),
    ("node.k8s.io", 16_300),
    ("discovery.k8s.io", 16_200),
    ("flowcontrol.apiserver.k8s.io", 16_100),
    ("internal.apiserver.k8s.io", 16_000),
    ("resource.k8s.io", 15_900),
    ("storagemigration.k8s.io", 15_800),
];
/// Priority of groups of custom resources.
const CUSTOM_GROUP_PRIORITY: i64 = 1000;
/// Priority of versions of custom resources.
const CUSTOM_VERSION_PRIORITY: i64 = 100;

/// A group with its entries by version.
type Group = (String, Vec<(String, Value)>);
/// A group with its priority, and for each version the priority and `true` if this server has it.
type PrioritizedGroup = (i64, Vec<(i64, bool)>, Group);

/// Merges the groups of APIServices into those of this server, whose order stays.
fn merge_groups(
    local: Vec<Group>,
    registry: &Registry,
    entry: impl Fn(&RemoteApiService) -> Value,
) -> Vec<Group> {
    let mut groups: Vec<PrioritizedGroup> = local
        .into_iter()
        .map(|(name, versions)| {
            let priorities =
                versions.iter().map(|(version, _)| (local_version_priority(&name, version), true));
            (local_group_priority(&name), priorities.collect(), (name, versions))
        })
        .collect();
    for service in registry.iter() {
        let found = groups.iter_mut().find(|(.., (name, _))| *name == service.group);
        let (priority, priorities, (_, versions)) = match found {
            Some(found) => found,
            None => {
                groups.push((0, Vec::new(), (service.group.clone(), Vec::new())));
                groups.last_mut().expect("a group was pushed")
            }
        };
        let item = (service.version.clone(), entry(service));
        match versions.iter().position(|(version, _)| *version == service.version) {
            Some(at) => {
                priorities[at] = (service.version_priority, false);
                versions[at] = item;
            }
            None => {
                priorities.push((service.version_priority, false));
                versions.push(item);
            }
        }
        *priority = (*priority).max(service.group_priority);
    }
    for (_, priorities, (_, versions)) in &mut groups {
        // The order of versions of this server alone stays.
        if priorities.iter().all(|(_, is_local)| *is_local) {
            continue;
        }
        let mut order: Vec<usize> = (0..versions.len()).collect();
        order.sort_by_key(|at| {
            (std::cmp::Reverse(priorities[*at].0), std::cmp::Reverse(version_rank(&versions[*at].0)))
        });
        *versions = order.into_iter().map(|at| versions[at].clone()).collect();
    }
    groups.sort_by_key(|(priority, ..)| std::cmp::Reverse(*priority));
    groups.into_iter().map(|(.., group)| group).collect()
}

fn local_group_priority(group: &str) -> i64 {
    let found = GROUP_PRIORITIES.iter().find(|(name, _)| *name == group);
    found.map_or(CUSTOM_GROUP_PRIORITY, |(_, priority)| *priority)
}

fn local_version_priority(group: &str, version: &str) -> i64 {
    if !GROUP_PRIORITIES.iter().any(|(name, _)| *name == group) {
        return CUSTOM_VERSION_PRIORITY;
    }
    match version_rank(version).0 {
        3 => 15,
        2 => 9,
        _ => 1,
    }
}

/// Rank of a version: stable before beta before alpha, newer before older, others last.
fn version_rank(version: &str) -> (u8, u32, u32) {
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    let (major, stage) = rest.split_at(digits);
    let Ok(major) = major.parse() else { return (0, 0, 0) };
    let (rank, minor) = match (stage.strip_prefix("beta"), stage.strip_prefix("alpha")) {
        _ if stage.is_empty() => return (3, major, 0),
        (Some(minor), _) => (2, minor),
        (_, Some(minor)) => (1, minor),
        _ => return (0, 0, 0),
    };
    minor.parse().map_or((0, 0, 0), |minor| (rank, major, minor))
}

fn list(value: &Value, field: &str) -> Vec<Value> {
    value.get(field).and_then(Value::as_list).unwrap_or_default().to_vec()
}

fn by_version(versions: Vec<Value>) -> Vec<(String, Value)> {
    versions.into_iter().map(|entry| (entry.str_at(&["version"]).to_owned(), entry)).collect()
}

/// Merges an APIGroupDiscoveryList.
pub(crate) fn aggregated(mut local: Value, registry: &Registry, documents: &DocumentCache) -> Value {
    let groups = list(&local, "items")
        .into_iter()
        .map(|item| (item.str_at(&["metadata", "name"]).to_owned(), by_version(list(&item, "versions"))));
    let entry = |service: &RemoteApiService| {
        let found = documents.get(&service.name);
        let is_fresh = !found.is_stale && found.resources.is_some() && service.is_available;
        let mut entry = value!({"version": (service.version.as_str())});
        if let Some(resources) = found.resources {
            entry.make_map().insert("resources", resources.to_vec());
        }
        entry.make_map().insert("freshness", if is_fresh { "Current" } else { "Stale" });
        entry
    };
    let merged = merge_groups(groups.collect(), registry, entry).into_iter().map(|(name, versions)| {
        let versions: Vec<Value> = versions.into_iter().map(|(_, entry)| entry).collect();
        value!({"metadata": {"name": (name)}, "versions": (versions)})
    });
    let merged: Vec<Value> = merged.collect();
    local.make_map().insert("items", merged);
    local
}

/// Merges an APIGroupList.
pub(crate) fn group_list(mut local: Value, registry: &Registry) -> Value {
    let groups = list(&local, "groups").into_iter();
    let groups =
        groups.map(|group| (group.str_at(&["name"]).to_owned(), by_version(list(&group, "versions"))));
    let merged = merge_groups(groups.collect(), registry, legacy_entry).into_iter();
    let merged: Vec<Value> = merged.map(|group| legacy_group(Map::new(), group)).collect();
    local.make_map().insert("groups", merged);
    local
}

/// Merges an APIGroup; `None` if neither this server nor an APIService has the group.
pub(crate) fn group(local: Option<Value>, name: &str, registry: &Registry) -> Option<Value> {
    let versions = local.as_ref().map(|local| by_version(list(local, "versions")));
    let groups = versions.map(|versions| (name.to_owned(), versions)).into_iter().collect();
    let merged = merge_groups(groups, registry, legacy_entry);
    let found = merged.into_iter().find(|(found, _)| found == name)?;
    let mut head = Map::new();
    head.insert("kind", "APIGroup");
    head.insert("apiVersion", "v1");
    Some(legacy_group(head, found))
}

fn legacy_entry(service: &RemoteApiService) -> Value {
    let RemoteApiService { group, version, .. } = service;
    value!({"groupVersion": (format!("{group}/{version}")), "version": (version.as_str())})
}

fn legacy_group(mut head: Map, (name, versions): Group) -> Value {
    let versions: Vec<Value> = versions.into_iter().map(|(_, entry)| entry).collect();
    head.insert("name", name);
    let preferred = versions.first().cloned();
    head.insert("versions", versions);
    head.insert("preferredVersion", preferred.unwrap_or_default());
    Value::Map(head)
}

/// Adds the paths and definitions of APIServices to an OpenAPI v2 document. A definition of this server stays.
pub(crate) fn openapi_v2(mut local: Value, registry: &Registry, documents: &DocumentCache) -> Value {
    for service in registry.iter() {
        let Some((_, part)) = documents.get(&service.name).openapi_v2 else { continue };
        let prefix = service.path();
        local.ensure_map("paths").retain(|path, _| {
            !path.strip_prefix(&prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        for field in ["paths", "definitions"] {
            let entries = part.get(field).and_then(Value::as_map);
            let target = local.ensure_map(field);
            for (name, entry) in entries.into_iter().flat_map(Map::iter) {
                if !target.contains(name) {
                    target.insert(name, entry.clone());
                }
            }
        }
    }
    local
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ranked_as_kubernetes_does() {
        let mut versions = ["v1alpha1", "foo", "v1", "v2beta1", "v11", "v1beta2", "v2"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        assert_eq!(versions, ["v11", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo"]);
    }
}
