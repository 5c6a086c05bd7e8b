//! ConfigMaps, Secrets and host paths that a pod requires before its containers can start.
//!
//! Volumes are checked before the first container starts, the environment of a container before each start. A
//! pod with a missing reference waits with a message, and is requeued when a ConfigMap or Secret of its
//! namespace changes. Volumes with the service account token are not checked: their content is created with
//! the namespace.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use setpoint_reconcile::{Index, Object, View, WorldReader};
use setpoint_views::condition;
use setpoint_views::pod::{ContainerStatus, Pod as PodView};

use crate::host_paths;
use crate::pod::{ConfigSource, Container, KeySelector, PodSpec, Volume};

/// Waiting reason of a container with a missing reference.
pub const CONFIG_ERROR: &str = "CreateContainerConfigError";

/// Pods that wait for a missing reference, by namespace.
pub const WAITING_FOR_REFERENCES_BY_NAMESPACE: Index = Index {
    name: "pods waiting for references by namespace",
    resource: PodView::RESOURCE,
    values: |object, found| {
        if object.view::<PodView>().is_some_and(is_waiting_for_reference) {
            found(&object.meta().namespace);
        }
    },
};

/// `true` if the pod's status shows a missing reference.
fn is_waiting_for_reference(pod: &PodView) -> bool {
    let status = &pod.status;
    let has_mount_error = || {
        status.phase == "Pending"
            && condition(&status.conditions, "PodReadyToStartContainers").is_some_and(|one| !one.is_true())
    };
    let volume_error = |one: &ContainerStatus| {
        one.state.waiting.as_ref().is_some_and(|waiting| waiting.reason == CONFIG_ERROR)
    };
    status.start_time.is_some()
        && !pod.is_finished()
        && (has_mount_error()
            || status.container_statuses.iter().chain(&status.init_container_statuses).any(volume_error))
}

/// Kind of object that a pod references: ConfigMap or Secret.
#[derive(Clone, Copy)]
struct ReferenceKind {
    resource: &'static str,
    noun: &'static str,
    kind: &'static str,
    key_noun: &'static str,
}

const CONFIG_MAP: ReferenceKind =
    ReferenceKind { resource: "configmaps", noun: "configmap", kind: "ConfigMap", key_noun: "config" };
const SECRET: ReferenceKind =
    ReferenceKind { resource: "secrets", noun: "secret", kind: "Secret", key_noun: "secret" };

/// Keys of a ConfigMap or Secret.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Entries {
    data: Option<BTreeMap<String, IgnoredAny>>,
    binary_data: Option<BTreeMap<String, IgnoredAny>>,
}

impl Entries {
    fn decode(object: &Object) -> Entries {
        object.decode().unwrap_or_default()
    }

    fn has_key(&self, key: &str, binary: bool) -> bool {
        let holds = |map: &Option<BTreeMap<String, IgnoredAny>>| {
            map.as_ref().is_some_and(|map| map.contains_key(key))
        };
        holds(&self.data) || binary && holds(&self.binary_data)
    }
}

/// Resolver for the references of pods in a namespace.
pub struct ReferenceResolver<'a> {
    /// Objects of the cluster.
    pub world: &'a WorldReader<'a>,
    /// Namespace of the pod.
    pub namespace: &'a str,
}

impl ReferenceResolver<'_> {
    /// Returns the error that keeps the volumes of a pod from being mounted.
    #[must_use]
    pub fn mount_error(&self, spec: &PodSpec) -> Option<String> {
        spec.volumes.iter().find_map(|volume| {
            let error = self.volume_error(volume)?;
            Some(format!("MountVolume.SetUp failed for volume {:?} : {error}", volume.name))
        })
    }

    fn volume_error(&self, volume: &Volume) -> Option<String> {
        if let Some(source) = &volume.config_map {
            return self.source_error(CONFIG_MAP, &source.name, source);
        }
        if let Some(source) = &volume.secret {
            return self.source_error(SECRET, &source.secret_name, source);
        }
        if let Some(path) = &volume.host_path {
            return host_paths::mount_error(path);
        }
        let sources = &volume.projected.as_ref()?.sources;
        if sources.iter().any(|source| source.service_account_token.is_some()) {
            return None;
        }
        sources.iter().find_map(|source| match (&source.config_map, &source.secret) {
            (Some(map), _) => self.source_error(CONFIG_MAP, &map.name, map),
            (None, Some(secret)) => self.source_error(SECRET, &secret.name, secret),
            (None, None) => None,
        })
    }

    fn source_error(&self, kind: ReferenceKind, name: &str, source: &ConfigSource) -> Option<String> {
        if source.optional == Some(true) {
            return None;
        }
        let Some(object) = self.world.find(kind.resource, self.namespace, name) else {
            return Some(not_found(kind, name));
        };
        if source.items.is_empty() {
            return None;
        }
        let entries = Entries::decode(object);
        let missing = source.items.iter().find(|item| !entries.has_key(&item.key, true))?;
        Some(format!("references non-existent {} key: {}", kind.key_noun, missing.key))
    }

    /// Returns the error that keeps the environment of a container from being built.
    #[must_use]
    pub fn env_error(&self, container: &Container) -> Option<String> {
        let whole =
            container.env_from.iter().find_map(|from| match (&from.config_map_ref, &from.secret_ref) {
                (Some(map), _) => self.source_error(CONFIG_MAP, &map.name, map),
                (None, Some(secret)) => self.source_error(SECRET, &secret.name, secret),
                (None, None) => None,
            });
        let from = container.env.iter().filter_map(|one| one.value_from.as_ref());
        whole.or_else(|| {
            from.into_iter().find_map(|from| match (&from.config_map_key_ref, &from.secret_key_ref) {
                (Some(key), _) => self.key_error(CONFIG_MAP, key),
                (None, Some(key)) => self.key_error(SECRET, key),
                (None, None) => None,
            })
        })
    }

    fn key_error(&self, kind: ReferenceKind, wanted: &KeySelector) -> Option<String> {
        let KeySelector { name, key, optional } = wanted;
        if *optional == Some(true) {
            return None;
        }
        match self.world.find(kind.resource, self.namespace, name) {
            None => Some(not_found(kind, name)),
            Some(object) if Entries::decode(object).has_key(key, false) => None,
            Some(_) => Some(format!("couldn't find key {key} in {} {}/{name}", kind.kind, self.namespace)),
        }
    }
}

fn not_found(kind: ReferenceKind, name: &str) -> String {
    format!("{} {name:?} not found", kind.noun)
}
