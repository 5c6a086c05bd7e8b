//! Validation of volume mounts and devices of containers.

use std::collections::{BTreeMap, BTreeSet};

use super::paths;
use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::read::{
    boolean, check_supported, list, optional_text, present, push_forbidden, push_invalid, push_required, text,
};
use crate::value::Value;

/// Valid volumes of a pod, by name.
pub(crate) type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

/// Validates the mounts and devices of a container.
pub(crate) fn check_mounts_and_devices(
    errors: &mut ErrorList,
    path: &Path<'_>,
    container: &Value,
    volumes: &Volumes<'_>,
) {
    let (mounts, devices) = (list(container, "volumeMounts"), list(container, "volumeDevices"));
    check_mount_list(errors, &path.child("volumeMounts"), mounts, devices, volumes, container);
    check_device_list(errors, &path.child("volumeDevices"), devices, mounts, volumes);
}

/// Names and paths in the other list of the container: `volumeDevices` for mounts, `volumeMounts` for devices. The
/// last of several entries with one name counts.
struct OtherList<'a> {
    names: BTreeSet<&'a str>,
    paths: BTreeSet<&'a str>,
}

impl<'a> OtherList<'a> {
    fn new(others: &'a [Value], path_field: &str) -> OtherList<'a> {
        let by_name: BTreeMap<&str, &str> =
            others.iter().map(|other| (text(other, "name"), text(other, path_field))).collect();
        OtherList { names: by_name.keys().copied().collect(), paths: by_name.into_values().collect() }
    }
}

fn check_mount_list(
    errors: &mut ErrorList,
    list_path: &Path<'_>,
    mounts: &[Value],
    devices: &[Value],
    volumes: &Volumes<'_>,
    container: &Value,
) {
    let other_list = OtherList::new(devices, "devicePath");
    let mut paths = BTreeSet::new();
    for (i, mount) in mounts.iter().enumerate() {
        let path = list_path.index(i);
        let (at_name, at_mount_path) = (path.child("name"), path.child("mountPath"));
        let (name, mount_path) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            push_required(errors, &at_name, "");
        }
        if !volumes.contains_key(name) {
            errors.push(FieldError::not_found(&at_name, name));
        }
        if mount_path.is_empty() {
            push_required(errors, &at_mount_path, "");
        }
        if !paths.insert(mount_path) {
            push_invalid(errors, &at_mount_path, mount_path, "must be unique");
        }
        if other_list.names.contains(name) {
            push_invalid(errors, &at_name, name, "must not already exist in volumeDevices");
        }
        if other_list.paths.contains(mount_path) {
            push_invalid(
                errors,
                &at_mount_path,
                mount_path,
                "must not already exist as a path in volumeDevices",
            );
        }
        check_sub_paths(errors, list_path, &path, mount);
        if let Some(propagation) = optional_text(mount, "mountPropagation") {
            check_mount_propagation(errors, &list_path.child("mountPropagation"), propagation, container);
        }
        check_recursive_read_only(errors, &list_path.child("recursiveReadOnly"), mount);
    }
}

/// As upstream, the paths of these errors lack the index of the mount.
fn check_sub_paths(errors: &mut ErrorList, list_path: &Path<'_>, path: &Path<'_>, mount: &Value) {
    let (sub_path, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
    if !sub_path.is_empty() {
        paths::check_descending(errors, &list_path.child("subPath"), sub_path);
    }
    if !expression.is_empty() {
        if !sub_path.is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            push_invalid(errors, &path.child("subPathExpr"), expression, detail);
        }
        paths::check_descending(errors, &list_path.child("subPathExpr"), expression);
    }
}

fn check_mount_propagation(errors: &mut ErrorList, path: &Path<'_>, propagation: &str, container: &Value) {
    check_supported(errors, path, propagation, &["Bidirectional", "HostToContainer", "None"]);
    let privileged =
        present(container, "securityContext").is_some_and(|context| boolean(context, "privileged"));
    if propagation == "Bidirectional" && !privileged {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        push_forbidden(errors, path, detail);
    }
}

fn check_recursive_read_only(errors: &mut ErrorList, path: &Path<'_>, mount: &Value) {
    match optional_text(mount, "recursiveReadOnly") {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !boolean(mount, "readOnly") {
                push_forbidden(errors, path, "may only be specified when readOnly is true");
            }
            if optional_text(mount, "mountPropagation").is_some_and(|propagation| propagation != "None") {
                push_forbidden(
                    errors,
                    path,
                    "may only be specified when mountPropagation is None or not specified",
                );
            }
        }
        Some(other) => check_supported(errors, path, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn check_device_list(
    errors: &mut ErrorList,
    list_path: &Path<'_>,
    devices: &[Value],
    mounts: &[Value],
    volumes: &Volumes<'_>,
) {
    let other_list = OtherList::new(mounts, "mountPath");
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (i, device) in devices.iter().enumerate() {
        let path = list_path.index(i);
        let (at_name, at_device_path) = (path.child("name"), path.child("devicePath"));
        let (name, device_path) = (text(device, "name"), text(device, "devicePath"));
        if name.is_empty() {
            push_required(errors, &at_name, "");
        }
        if names.contains(name) {
            push_invalid(errors, &at_name, name, "must be unique");
        }
        match volumes.get(name) {
            Some(volume)
                if present(volume, "persistentVolumeClaim")
                    .or_else(|| present(volume, "ephemeral"))
                    .is_none() =>
            {
                let detail =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                push_invalid(errors, &at_name, name, detail);
            }
            Some(_) => {}
            None => errors.push(FieldError::not_found(&at_name, name)),
        }
        if device_path.is_empty() {
            push_required(errors, &at_device_path, "");
        }
        if paths.contains(device_path) {
            push_invalid(errors, &at_device_path, device_path, "must be unique");
        }
        if device_path.split('/').any(|step| step == "..") {
            push_invalid(errors, &at_device_path, device_path, "can not contain backsteps ('..')");
        } else {
            paths.insert(device_path);
        }
        if other_list.names.contains(name) {
            push_invalid(errors, &at_name, name, "must not already exist in volumeMounts");
        }
        if other_list.paths.contains(device_path) {
            push_invalid(
                errors,
                &at_device_path,
                device_path,
                "must not already exist as a path in volumeMounts",
            );
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}
