//! Registry of APIServices with a Service: a pure function of the APIServices in a snapshot, cached by revision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use parking_lot::RwLock;
use setpoint_api::{Revision, Value, resource_types};
use setpoint_store::Snapshot;

use crate::codec;

/// An APIService whose group version is served by an extension API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteApiService {
    /// Name of the APIService, `VERSION.GROUP`.
    pub name: String,
    /// API group.
    pub group: String,
    /// Version of the group.
    pub version: String,
    /// Namespace of the Service.
    pub namespace: String,
    /// Name of the Service.
    pub service: String,
    /// Port of the Service.
    pub port: u16,
    /// CA certificates in PEM; those of the system if empty.
    pub ca_bundle: Bytes,
    /// `true` if the certificate of the server is not verified.
    pub insecure: bool,
    /// Minimum priority of the group in discovery.
    pub group_priority: i64,
    /// Priority of the version within its group.
    pub version_priority: i64,
    /// `true` if the condition `Available` is true.
    pub is_available: bool,
}

impl RemoteApiService {
    /// Reads an APIService; `None` if it has no Service.
    fn read(object: &Value) -> Option<RemoteApiService> {
        let spec = object.get("spec")?;
        let service = spec.get("service").filter(|service| !service.is_null())?;
        let number = |field: &str| spec.get(field).and_then(Value::as_i64).unwrap_or_default();
        let conditions = object.at(&["status", "conditions"]).and_then(Value::as_list).unwrap_or_default();
        let is_available = conditions
            .iter()
            .any(|one| one.str_at(&["type"]) == "Available" && one.str_at(&["status"]) == "True");
        let port = service.get("port").and_then(Value::as_i64).unwrap_or(443);
        Some(RemoteApiService {
            name: object.str_at(&["metadata", "name"]).to_owned(),
            group: spec.str_at(&["group"]).to_owned(),
            version: spec.str_at(&["version"]).to_owned(),
            namespace: service.str_at(&["namespace"]).to_owned(),
            service: service.str_at(&["name"]).to_owned(),
            port: u16::try_from(port).unwrap_or_default(),
            ca_bundle: STANDARD.decode(spec.str_at(&["caBundle"])).unwrap_or_default().into(),
            insecure: spec.get("insecureSkipTLSVerify").and_then(Value::as_bool) == Some(true),
            group_priority: number("groupPriorityMinimum"),
            version_priority: number("versionPriority"),
            is_available,
        })
    }

    /// Name that the certificate of the server must have.
    #[must_use]
    pub fn server_name(&self) -> String {
        format!("{}.{}.svc", self.service, self.namespace)
    }

    /// Path of the group version.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/apis/{}/{}", self.group, self.version)
    }
}

/// APIServices with a Service, at one revision.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// Revision of the last change of an APIService.
    pub changed: Revision,
    services: BTreeMap<String, Arc<RemoteApiService>>,
}

impl Registry {
    /// APIService of a group version.
    #[must_use]
    pub fn find(&self, group: &str, version: &str) -> Option<&Arc<RemoteApiService>> {
        if self.services.is_empty() {
            return None;
        }
        self.services.get(&format!("{version}.{group}"))
    }

    /// APIService with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<RemoteApiService>> {
        self.services.get(name)
    }

    /// All APIServices, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<RemoteApiService>> {
        self.services.values()
    }

    /// Paths of the groups and group versions.
    #[must_use]
    pub fn paths(&self) -> BTreeSet<String> {
        let paths = |service: &Arc<RemoteApiService>| [format!("/apis/{}", service.group), service.path()];
        self.services.values().flat_map(paths).collect()
    }

    /// `true` if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.services.is_empty()
    }
}

/// Cache of the current registry.
#[derive(Default)]
pub(super) struct RegistryCache(RwLock<Option<Arc<Registry>>>);

impl RegistryCache {
    /// Returns the registry of a snapshot.
    pub fn of(&self, snapshot: &Snapshot) -> Arc<Registry> {
        let resource_type = resource_types::find("apiregistration.k8s.io", "v1", "apiservices");
        let table = resource_type.and_then(|resource_type| snapshot.table(&resource_type.resource));
        let changed = table.map_or(Revision(0), setpoint_store::Table::changed);
        if let Some(cached) = self.0.read().as_ref().filter(|cached| cached.changed == changed) {
            return Arc::clone(cached);
        }
        let records = table.into_iter().flat_map(setpoint_store::Table::iter);
        let services = records.filter_map(|record| RemoteApiService::read(&codec::object(record)));
        let services = services.map(|service| (service.name.clone(), Arc::new(service))).collect();
        let registry = Arc::new(Registry { changed, services });
        *self.0.write() = Some(Arc::clone(&registry));
        registry
    }
}
