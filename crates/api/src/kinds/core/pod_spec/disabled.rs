//! Fields of disabled features, which are cleared before validation.

use super::annotations;
use crate::kinds::read::list_mut;
use crate::value::Value;

/// Clears disabled fields of a pod or template.
pub(crate) fn drop_disabled(holder: &mut Value) {
    if let Some(meta) = holder.get_mut("metadata") {
        annotations::drop_obsolete(meta);
    }
    let Some(spec) = holder.get_mut("spec") else { return };
    remove(spec, &["schedulingGroup", "evictionResponders"]);
    for volume in list_mut(spec, "volumes") {
        drop_from_volume(volume);
    }
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        for container in list_mut(spec, field) {
            drop_from_container(container);
        }
    }
}

/// Clears disabled fields of a pod status.
pub(crate) fn drop_disabled_status(status: &mut Value) {
    remove(status, &["nodeAllocatableResourceClaimStatuses", "volumeHealth"]);
    for field in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        for container in list_mut(status, field) {
            for mount in list_mut(container, "volumeMounts") {
                remove(mount, &["volumeStatus"]);
            }
        }
    }
}

fn remove(value: &mut Value, fields: &[&str]) {
    if let Some(map) = value.as_map_mut() {
        for field in fields {
            map.remove(field);
        }
    }
}

fn drop_from_container(container: &mut Value) {
    for mount in list_mut(container, "volumeMounts") {
        remove(mount, &["bindMountOptions"]);
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get_mut(field) else { continue };
        if let Some(action) = probe.get_mut("httpGet") {
            remove(action, &["protocol"]);
        }
        if let Some(action) = probe.get_mut("grpc") {
            remove(action, &["mode"]);
        }
    }
    let Some(lifecycle) = container.get_mut("lifecycle") else { return };
    for hook in ["postStart", "preStop"] {
        if let Some(action) = lifecycle.at_mut(&[hook, "httpGet"]) {
            remove(action, &["protocol"]);
        }
    }
    let had_signal = lifecycle.get("stopSignal").is_some();
    remove(lifecycle, &["stopSignal"]);
    if had_signal && lifecycle.is_empty() {
        remove(container, &["lifecycle"]);
    }
}

/// Clears modes of empty directories and owners of files.
fn drop_from_volume(volume: &mut Value) {
    let Some(map) = volume.as_map_mut() else { return };
    for (field, source) in map.iter_mut() {
        match field {
            "emptyDir" => remove(source, &["mode"]),
            "secret" | "configMap" | "downwardAPI" => drop_owners(source),
            "projected" => {
                remove(source, &["defaultUser"]);
                for part in list_mut(source, "sources") {
                    for (_, projection) in part.as_map_mut().into_iter().flat_map(|map| map.iter_mut()) {
                        drop_owners(projection);
                    }
                }
            }
            _ => {}
        }
    }
}

fn drop_owners(files: &mut Value) {
    remove(files, &["defaultUser", "user"]);
    for item in list_mut(files, "items") {
        remove(item, &["user"]);
    }
}
