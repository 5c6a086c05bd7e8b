//! Cache of the discovery and OpenAPI documents of extension API servers.
//!
//! The availability check writes it. A server that stops to respond keeps its last documents, marked as stale.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_api::{Map, Value, json, value};

use super::registry::{Registry, RemoteApiService};

/// Interval at which OpenAPI documents are read.
const OPENAPI_PERIOD: Duration = Duration::from_secs(60);

/// Documents of one APIService.
#[derive(Clone, Default)]
pub(crate) struct RemoteDocuments {
    /// Resources as in aggregated discovery; `None` before the first check that passed.
    pub resources: Option<Arc<Vec<Value>>>,
    /// `true` if the last check failed.
    pub is_stale: bool,
    /// Hash of the OpenAPI v3 document; `None` if the server has none.
    pub openapi_v3_hash: Option<String>,
    /// OpenAPI v2 document of the group version, and its ETag.
    pub openapi_v2: Option<(String, Arc<Value>)>,
    /// Uptime at the last read of the OpenAPI documents.
    openapi_read_at: Option<Duration>,
}

/// Documents by the name of the APIService.
#[derive(Default)]
pub(crate) struct DocumentCache {
    documents: Mutex<BTreeMap<String, RemoteDocuments>>,
    /// Number of changes.
    changes: AtomicU64,
}

impl DocumentCache {
    /// Number of changes so far: merged documents are valid while it stays.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Documents of an APIService.
    pub fn get(&self, name: &str) -> RemoteDocuments {
        self.documents.lock().get(name).cloned().unwrap_or_default()
    }

    /// Drops the documents of APIServices that are gone.
    pub fn retain(&self, registry: &Registry) {
        self.documents.lock().retain(|name, _| registry.get(name).is_some());
    }

    /// `true` if the OpenAPI documents are due to be read, which counts as done.
    pub fn begin_openapi(&self, name: &str, uptime: Duration) -> bool {
        let mut documents = self.documents.lock();
        let document = documents.entry(name.to_owned()).or_default();
        let is_due = document.openapi_read_at.is_none_or(|at| at + OPENAPI_PERIOD <= uptime);
        if is_due {
            document.openapi_read_at = Some(uptime);
        }
        is_due
    }

    /// Sets the resources from an APIResourceList.
    pub fn set_resources(&self, service: &RemoteApiService, list: &Value) {
        let resources = to_aggregated(service, list);
        self.change(&service.name, |document| {
            let is_changed = document.is_stale || document.resources.as_deref() != Some(&resources);
            document.is_stale = false;
            document.resources = Some(Arc::new(resources));
            is_changed
        });
    }

    /// Marks the documents of a server that does not respond.
    pub fn mark_stale(&self, name: &str) {
        self.change(name, |document| !std::mem::replace(&mut document.is_stale, true));
    }

    /// Sets the hash of the OpenAPI v3 document from its URL.
    pub fn set_openapi_v3(&self, name: &str, url: Option<&str>) {
        let hash = url.and_then(|url| url.split_once("?hash=")).map(|(_, hash)| hash.to_owned());
        let hash = hash.or_else(|| url.map(|_| String::new()));
        self.change(name, |document| {
            let is_changed = document.openapi_v3_hash != hash;
            document.openapi_v3_hash = hash;
            is_changed
        });
    }

    /// ETag of the OpenAPI v2 document.
    pub fn openapi_v2_tag(&self, name: &str) -> Option<String> {
        let documents = self.documents.lock();
        let (tag, _) = documents.get(name)?.openapi_v2.as_ref()?;
        Some(tag.clone()).filter(|tag| !tag.is_empty())
    }

    /// Sets the OpenAPI v2 document. Only paths of the group version are kept.
    pub fn set_openapi_v2(&self, service: &RemoteApiService, tag: &str, text: &[u8]) {
        let Ok(mut document) = json::parse(text) else { return };
        let prefix = service.path();
        let is_below = |path: &str| {
            path.strip_prefix(&prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let take = |document: &mut Value, field: &str| -> Map {
            let map = document.get_mut(field).map(Value::take).unwrap_or_default();
            if let Value::Map(map) = map { map } else { Map::new() }
        };
        let mut paths = take(&mut document, "paths");
        paths.retain(|path, _| is_below(path));
        let definitions = take(&mut document, "definitions");
        let part = Arc::new(value!({"paths": (paths), "definitions": (definitions)}));
        self.change(&service.name, |document| {
            document.openapi_v2 = Some((tag.to_owned(), part));
            true
        });
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut RemoteDocuments) -> bool) {
        let mut documents = self.documents.lock();
        if change(documents.entry(name.to_owned()).or_default()) {
            self.changes.fetch_add(1, Ordering::Release);
        }
    }
}

/// Converts an APIResourceList to the resources of aggregated discovery.
fn to_aggregated(service: &RemoteApiService, list: &Value) -> Vec<Value> {
    let entries = list.get("resources").and_then(Value::as_list).unwrap_or_default();
    let mut resources: Vec<Value> = Vec::new();
    for entry in entries {
        let name = entry.str_at(&["name"]);
        let or_own = |field: &str, own: &str| match entry.str_at(&[field]) {
            "" => own.to_owned(),
            other => other.to_owned(),
        };
        let kind = value!({
            "group": (or_own("group", &service.group)), "version": (or_own("version", &service.version)),
            "kind": (entry.str_at(&["kind"])),
        });
        let verbs = entry.get("verbs").cloned().unwrap_or_else(|| Value::from(Vec::<Value>::new()));
        if let Some((resource, subresource)) = name.split_once('/') {
            let parent = resources.iter_mut().find(|one| one.str_at(&["resource"]) == resource);
            let part = value!({"subresource": (subresource), "responseKind": (kind), "verbs": (verbs)});
            if let Some(parent) = parent {
                let mut parts =
                    parent.get("subresources").and_then(Value::as_list).unwrap_or_default().to_vec();
                parts.push(part);
                parent.make_map().insert("subresources", parts);
            }
            continue;
        }
        let is_namespaced = entry.get("namespaced").and_then(Value::as_bool) == Some(true);
        let scope = if is_namespaced { "Namespaced" } else { "Cluster" };
        let mut resource = value!({
            "resource": (name), "responseKind": (kind), "scope": (scope),
            "singularResource": (entry.str_at(&["singularName"])), "verbs": (verbs),
        });
        for field in ["shortNames", "categories"] {
            if let Some(words) = entry.get(field).filter(|words| !words.is_null()) {
                resource.make_map().insert(field, words.clone());
            }
        }
        resources.push(resource);
    }
    resources
}
