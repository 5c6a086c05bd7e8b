//! Validation of in-tree volume sources.

use super::super::paths;
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::read::{
    boolean, check_supported, entries, list, number, optional_number, optional_text, present, push_invalid,
    push_number_faults, push_required, require_texts, text, texts,
};
use crate::names::{dns, key};
use crate::value::Value;

/// Maximum bytes of a volume name with its portal, if an initiator is given.
const ISCSI_NAME_BYTES_MAX: usize = 64;
/// Maximum bytes of a tenant name.
const TENANT_BYTES_MAX: usize = 64;

/// Validates an in-tree source.
pub(super) fn check_source(errors: &mut ErrorList, path: &Path<'_>, field: &str, source: &Value) {
    match field {
        "gitRepo" => {
            require_texts(errors, path, source, &["repository"]);
            paths::check_descending(errors, &path.child("directory"), text(source, "directory"));
        }
        "gcePersistentDisk" => check_disk(errors, path, source, "pdName"),
        "awsElasticBlockStore" => check_disk(errors, path, source, "volumeID"),
        "nfs" => {
            require_texts(errors, path, source, &["server", "path"]);
            let place = text(source, "path");
            if !place.starts_with('/') {
                push_invalid(errors, &path.child("path"), place, "must be an absolute path");
            }
        }
        "iscsi" => check_iscsi(errors, path, source),
        "glusterfs" => require_texts(errors, path, source, &["endpoints", "path"]),
        "flocker" => check_flocker(errors, path, source),
        "rbd" => {
            if list(source, "monitors").is_empty() {
                push_required(errors, &path.child("monitors"), "");
            }
            require_texts(errors, path, source, &["image"]);
        }
        "cinder" => {
            require_texts(errors, path, source, &["volumeID"]);
            check_secret_reference(errors, path, source);
        }
        "cephfs" if list(source, "monitors").is_empty() => push_required(errors, &path.child("monitors"), ""),
        "quobyte" => check_quobyte(errors, path, source),
        "fc" => check_fibre_channel(errors, path, source),
        "flexVolume" => check_flex_volume(errors, path, source),
        "azureFile" => require_texts(errors, path, source, &["secretName", "shareName"]),
        "vsphereVolume" => require_texts(errors, path, source, &["volumePath"]),
        "photonPersistentDisk" => require_texts(errors, path, source, &["pdID"]),
        "portworxVolume" => require_texts(errors, path, source, &["volumeID"]),
        "azureDisk" => check_azure_disk(errors, path, source),
        "storageos" => check_storage_os(errors, path, source),
        "scaleIO" => require_texts(errors, path, source, &["gateway", "system", "volumeName"]),
        _ => {}
    }
}

fn check_secret_reference(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    if present(source, "secretRef").is_some_and(|secret| text(secret, "name").is_empty()) {
        push_required(errors, &path.child("secretRef").child("name"), "");
    }
}

fn check_disk(errors: &mut ErrorList, path: &Path<'_>, source: &Value, name_field: &str) {
    require_texts(errors, path, source, &[name_field]);
    let partition = number(source, "partition");
    if !(0..=255).contains(&partition) {
        push_number_faults(errors, &path.child("partition"), partition, key::in_range(partition, 1, 255));
    }
}

fn check_iscsi(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    require_texts(errors, path, source, &["targetPortal"]);
    match text(source, "iqn") {
        "" => push_required(errors, &path.child("iqn"), ""),
        name => check_initiator(errors, &path.child("iqn"), name),
    }
    check_lun(errors, path, number(source, "lun"));
    let needs_secret = boolean(source, "chapAuthDiscovery") || boolean(source, "chapAuthSession");
    if needs_secret && present(source, "secretRef").is_none() {
        push_required(errors, &path.child("secretRef"), "");
    }
    if let Some(name) = optional_text(source, "initiatorName") {
        check_initiator(errors, &path.child("initiatorname"), name);
    }
}

/// The name of a volume with an initiator is joined to its portal, and must leave room for it.
pub(super) fn check_iscsi_name(errors: &mut ErrorList, path: &Path<'_>, volume: &str, source: &Value) {
    let len = volume.len() + 1 + text(source, "targetPortal").len();
    if optional_text(source, "initiatorName").is_some() && len > ISCSI_NAME_BYTES_MAX {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        push_invalid(errors, path, volume, detail);
    }
}

fn check_initiator(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    let is_long_id = |prefix: &str, len: usize| {
        // The character after the prefix is not checked.
        let rest = name.strip_prefix(prefix).map(str::as_bytes).unwrap_or_default();
        rest.len() == len + 1 && rest[1..].iter().all(u8::is_ascii_alphanumeric)
    };
    let good = match name.get(..3) {
        Some("iqn") => is_iqn(name),
        Some("eui") => is_long_id("eui", 16),
        Some("naa") => is_long_id("naa", 32),
        _ => return push_invalid(errors, path, name, "must be valid format starting with iqn, eui, or naa"),
    };
    if !good {
        push_invalid(errors, path, name, "must be valid format");
    }
}

/// `iqn.2024-01.example.com:storage`: contains a date and an authority, and ends in a colon and a suffix.
fn is_iqn(name: &str) -> bool {
    name.match_indices("iqn.").any(|(at, start)| {
        let rest = &name.as_bytes()[at + start.len()..];
        let [y1, y2, y3, y4, b'-', m1, m2, b'.', rest @ ..] = rest else { return false };
        let is_own =
            |b: &u8| !matches!(b, b',' | b';' | b'*' | b'&' | b'$' | b'|') && !b.is_ascii_whitespace();
        [y1, y2, y3, y4, m1, m2].iter().all(|b| b.is_ascii_digit())
            && rest.iter().position(|b| *b == b':').is_some_and(|colon| {
                let (authority, own) = (&rest[..colon], &rest[colon + 1..]);
                !authority.is_empty()
                    && authority.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
                    && !own.is_empty()
                    && own.iter().all(is_own)
            })
    })
}

fn check_lun(errors: &mut ErrorList, path: &Path<'_>, lun: i64) {
    push_number_faults(errors, &path.child("lun"), lun, key::in_range(lun, 0, 255));
}

fn check_flocker(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    let (name, uuid) = (text(source, "datasetName"), text(source, "datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        push_required(errors, path, "one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !uuid.is_empty() {
        let detail = "datasetName and datasetUUID can not be specified simultaneously";
        push_invalid(errors, path, "resource", detail);
    }
    if name.contains('/') {
        push_invalid(errors, &path.child("datasetName"), name, "must not contain '/'");
    }
}

fn check_quobyte(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    let registry = text(source, "registry");
    let detail = "must be a host:port pair or multiple pairs separated by commas";
    if registry.is_empty() {
        push_required(errors, &path.child("registry"), detail);
    } else if text(source, "tenant").len() > TENANT_BYTES_MAX {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        push_required(errors, &path.child("tenant"), detail);
    } else {
        for _ in registry.split(',').filter(|pair| !is_host_and_port(pair)) {
            push_invalid(errors, &path.child("registry"), registry, detail);
        }
    }
    require_texts(errors, path, source, &["volume"]);
}

/// `true` for `host:port` or `[host]:port`, either of which may be empty.
fn is_host_and_port(pair: &str) -> bool {
    match pair.strip_prefix('[') {
        Some(rest) => rest
            .split_once("]:")
            .is_some_and(|(host, port)| !host.contains(['[', ']']) && !port.contains([':', '[', ']'])),
        None => pair
            .split_once(':')
            .is_some_and(|(host, port)| !host.contains(['[', ']']) && !port.contains([':', '[', ']'])),
    }
}

fn check_fibre_channel(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    let (names, ids) = (texts(source, "targetWWNs"), texts(source, "wwids"));
    if names.is_empty() && ids.is_empty() {
        let detail = "must specify either targetWWNs or wwids, but not both";
        push_required(errors, &path.child("targetWWNs"), detail);
    }
    if !names.is_empty() && !ids.is_empty() {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        push_invalid(errors, &path.child("targetWWNs"), BadValue::json_strings(&names), detail);
    }
    if !names.is_empty() {
        match optional_number(source, "lun") {
            None => push_required(errors, &path.child("lun"), "lun is required if targetWWNs is specified"),
            Some(number) => check_lun(errors, path, number),
        }
    }
}

fn check_flex_volume(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    require_texts(errors, path, source, &["driver"]);
    let options = path.child("options");
    for (option, _) in entries(source, "options") {
        let namespace = option.split_once('/').map_or(option, |(namespace, _)| namespace);
        let dotted = format!(".{}", namespace.to_lowercase());
        if dotted.ends_with(".kubernetes.io") || dotted.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            push_invalid(errors, &options.key(option), option, detail);
        }
    }
}

fn check_azure_disk(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    require_texts(errors, path, source, &["diskName", "diskURI"]);
    if let Some(mode) = optional_text(source, "cachingMode") {
        check_supported(errors, &path.child("cachingMode"), mode, &["None", "ReadOnly", "ReadWrite"]);
    }
    let Some(kind) = optional_text(source, "kind") else { return };
    check_supported(errors, &path.child("kind"), kind, &["Dedicated", "Managed", "Shared"]);
    let uri = text(source, "diskURI");
    let (start, form) = if kind == "Managed" {
        (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        )
    } else {
        ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd")
    };
    if !uri.starts_with(start) {
        errors.push(FieldError::not_supported(&path.child("diskURI"), uri, &[form]));
    }
}

fn check_storage_os(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    match text(source, "volumeName") {
        "" => push_required(errors, &path.child("volumeName"), ""),
        name => errors.push_invalid(&path.child("volumeName"), name, dns::label(name)),
    }
    let namespace = text(source, "volumeNamespace");
    if !namespace.is_empty() {
        errors.push_invalid(&path.child("volumeNamespace"), namespace, dns::label(namespace));
    }
    check_secret_reference(errors, path, source);
}
