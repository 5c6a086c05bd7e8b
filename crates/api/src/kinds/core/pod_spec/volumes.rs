//! Validation of volumes. Each has one source; sources of removed drivers are still validated, because stored
//! objects have them.

use std::collections::BTreeSet;

use super::mounts::Volumes;
use super::paths;
use super::{containers, env};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::read::{
    check_supported, list, optional_number, optional_text, present, push_forbidden, push_invalid,
    push_required, quantity, require_texts, text,
};
use crate::names::dns;
use crate::quote::Quoted;
use crate::value::Value;

mod claim;
mod in_tree;
mod projected;

pub(crate) use claim::check_claim_spec;

/// All sources in the order of validation. Two of them have other names in the paths of messages.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Validates the volumes of a pod, and returns the valid ones. `pod_name` is empty for templates.
pub(crate) fn check_volumes<'a>(
    errors: &mut ErrorList,
    path: &Path<'_>,
    spec: &'a Value,
    pod_name: &str,
) -> Volumes<'a> {
    let all = list(spec, "volumes");
    let ephemeral = all.iter().filter(|volume| present(volume, "ephemeral").is_some());
    let ephemeral: BTreeSet<&str> = ephemeral.map(|volume| text(volume, "name")).collect();
    let mut good = Volumes::new();
    for (i, volume) in all.iter().enumerate() {
        let path = path.index(i);
        let before = errors.len();
        let name = text(volume, "name");
        validate_source(errors, &path, volume, pod_name);
        if name.is_empty() {
            push_required(errors, &path.child("name"), "");
        } else {
            errors.push_invalid(&path.child("name"), name, dns::label(name));
        }
        if good.contains_key(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name));
        }
        if errors.len() == before {
            good.insert(name, volume);
        }
        let Some(claim) = present(volume, "persistentVolumeClaim").map(|claim| text(claim, "claimName"))
        else {
            continue;
        };
        let of_pod = claim.strip_prefix(pod_name).and_then(|rest| rest.strip_prefix('-'));
        if !pod_name.is_empty() && of_pod.is_some_and(|name| ephemeral.contains(name)) {
            let path = path.child("persistentVolumeClaim");
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            push_invalid(errors, &path.child("claimName"), claim, detail);
        }
    }
    good
}

fn validate_source(errors: &mut ErrorList, path: &Path<'_>, volume: &Value, pod_name: &str) {
    let mut count = 0;
    for field in SOURCES {
        let Some(source) = present(volume, field) else { continue };
        count += 1;
        if count > 1 {
            let shown = match field {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                field => field,
            };
            push_forbidden(errors, &path.child(shown), "may not specify more than 1 volume type");
        } else {
            let shown = if field == "gcePersistentDisk" { "persistentDisk" } else { field };
            check_one_source(errors, &path.child(shown), field, source);
            if field == "ephemeral" {
                check_claim_name(errors, &path.child("name"), text(volume, "name"), pod_name);
            }
        }
        if field == "iscsi" {
            in_tree::check_iscsi_name(errors, &path.child("name"), text(volume, "name"), source);
        }
    }
    if count == 0 {
        push_required(errors, path, "must specify a volume type");
    }
}

fn check_one_source(errors: &mut ErrorList, path: &Path<'_>, field: &str, source: &Value) {
    match field {
        "emptyDir" => {
            if present(source, "sizeLimit").is_some_and(|limit| quantity(limit).sign() < 0) {
                push_forbidden(
                    errors,
                    &path.child("sizeLimit"),
                    "SizeLimit field must be a valid resource quantity",
                );
            }
        }
        "hostPath" => check_host_path(errors, path, source),
        "secret" => {
            require_texts(errors, path, source, &["secretName"]);
            check_files_of_keys(errors, path, source);
        }
        "configMap" => {
            require_texts(errors, path, source, &["name"]);
            check_files_of_keys(errors, path, source);
        }
        "persistentVolumeClaim" => require_texts(errors, path, source, &["claimName"]),
        "downwardAPI" => {
            check_file_mode(errors, path, source, "defaultMode");
            for file in list(source, "items") {
                check_downward_file(errors, path, file);
            }
        }
        "projected" => {
            check_file_mode(errors, path, source, "defaultMode");
            projected::check_sources(errors, path, source);
        }
        "csi" => check_csi(errors, path, source),
        "ephemeral" => claim::check_template(errors, path, source),
        "image" => {
            require_texts(errors, path, source, &["reference"]);
            containers::check_pull_policy(errors, &path.child("pullPolicy"), text(source, "pullPolicy"));
        }
        other => in_tree::check_source(errors, path, other, source),
    }
}

/// Validates the name of the claim of an ephemeral volume.
fn check_claim_name(errors: &mut ErrorList, path: &Path<'_>, volume: &str, pod_name: &str) {
    if pod_name.is_empty() || volume.is_empty() {
        return;
    }
    let claim = format!("{pod_name}-{volume}");
    for fault in dns::subdomain(&claim) {
        push_invalid(errors, path, volume, format!("PVC name {}: {fault}", Quoted(&claim)));
    }
}

fn check_host_path(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    let place = text(source, "path");
    if place.is_empty() {
        return push_required(errors, &path.child("path"), "");
    }
    paths::check_no_backsteps(errors, &path.child("path"), place);
    if let Some(ty) = optional_text(source, "type") {
        let types = [
            "",
            "BlockDevice",
            "CharDevice",
            "Directory",
            "DirectoryOrCreate",
            "File",
            "FileOrCreate",
            "Socket",
        ];
        check_supported(errors, &path.child("type"), ty, &types);
    }
}

/// Validates a file mode.
fn check_file_mode(errors: &mut ErrorList, path: &Path<'_>, source: &Value, field: &str) {
    if let Some(mode) = optional_number(source, field).filter(|mode| !(0..=0o777).contains(mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        push_invalid(errors, &path.child(field), mode, detail);
    }
}

fn check_files_of_keys(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    check_file_mode(errors, path, source, "defaultMode");
    let items = path.child("items");
    for (i, item) in list(source, "items").iter().enumerate() {
        check_key_to_path(errors, &items.index(i), item);
    }
}

fn check_key_to_path(errors: &mut ErrorList, path: &Path<'_>, item: &Value) {
    require_texts(errors, path, item, &["key", "path"]);
    paths::check_descending_unreserved(errors, &path.child("path"), text(item, "path"));
    check_file_mode(errors, path, item, "mode");
}

fn check_downward_file(errors: &mut ErrorList, path: &Path<'_>, file: &Value) {
    require_texts(errors, path, file, &["path"]);
    paths::check_descending_unreserved(errors, &path.child("path"), text(file, "path"));
    match (present(file, "fieldRef"), present(file, "resourceFieldRef")) {
        (Some(field), amount) => {
            env::check_field_reference(errors, &path.child("fieldRef"), field, &env::FILE_FIELDS);
            if amount.is_some() {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                push_invalid(errors, path, "resource", detail);
            }
        }
        (None, Some(amount)) => {
            env::check_amount_reference(errors, &path.child("resourceFieldRef"), amount, true)
        }
        (None, None) => push_required(errors, path, "one of fieldRef and resourceFieldRef is required"),
    }
    check_file_mode(errors, path, file, "mode");
}

fn check_csi(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    check_csi_driver_name(errors, &path.child("driver"), text(source, "driver"));
    if let Some(secret) = present(source, "nodePublishSecretRef") {
        match text(secret, "name") {
            "" => push_required(errors, &path.child("nodePublishSecretRef").child("name"), ""),
            name => errors.push_invalid(&path.child("name"), name, dns::subdomain(name)),
        }
    }
}

/// Validates the name of a CSI driver.
pub(crate) fn check_csi_driver_name(errors: &mut ErrorList, path: &Path<'_>, driver: &str) {
    if driver.is_empty() {
        return push_required(errors, path, "");
    }
    if driver.len() > dns::LABEL_BYTES_MAX {
        errors.push(FieldError::too_long(path, dns::LABEL_BYTES_MAX));
    }
    errors.push_invalid(path, driver, dns::subdomain(&driver.to_lowercase()));
}

/// Paths in a volume, which must be unique.
type VolumePaths<'a> = BTreeSet<&'a str>;
