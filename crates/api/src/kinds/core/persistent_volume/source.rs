//! Validation of the volume source: exactly one of many types.

use super::SPEC;
use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::core::pod_spec::internal;
use crate::kinds::read::{set_default, set_default_if_empty};
use crate::metadata::{self, pairs, texts};
use crate::names::{NameRule, dns};
use crate::value::{Map, Value};

/// A source: its field, the field in the paths of its errors, its required strings, further checks, and the
/// version in which its support ended, if it did.
struct VolumeSource {
    field: &'static str,
    called: &'static str,
    required: &'static [&'static str],
    check: fn(&mut ErrorList, &Path<'_>, &Value),
    gone: Option<&'static str>,
}

const fn source(
    field: &'static str,
    required: &'static [&'static str],
    check: fn(&mut ErrorList, &Path<'_>, &Value),
) -> VolumeSource {
    VolumeSource { field, called: field, required, check, gone: None }
}

const fn gone(source: VolumeSource, since: &'static str) -> VolumeSource {
    VolumeSource { gone: Some(since), ..source }
}

/// All sources, in the order of their errors.
const SOURCES: [VolumeSource; 22] = [
    source("hostPath", &[], check_host_path),
    VolumeSource { called: "persistentDisk", ..source("gcePersistentDisk", &["pdName"], check_partition) },
    source("awsElasticBlockStore", &["volumeID"], check_partition),
    gone(
        source("glusterfs", &["endpoints", "path"], check_glusterfs),
        "deprecated in v1.25, non-functional in v1.26+",
    ),
    source("flocker", &[], check_flocker),
    source("nfs", &["server", "path"], check_nfs),
    gone(source("rbd", &["image"], nothing), "deprecated in v1.28, non-functional in v1.31+"),
    source("quobyte", &[], check_quobyte),
    gone(source("cephfs", &[], nothing), "deprecated in v1.28, non-functional in v1.31+"),
    source("iscsi", &["targetPortal"], check_iscsi),
    source("cinder", &["volumeID"], check_secret_ref),
    source("fc", &[], check_fibre_channel),
    source("flexVolume", &["driver"], check_flex),
    source("azureFile", &["secretName", "shareName"], check_azure_file),
    source("vsphereVolume", &["volumePath"], nothing),
    gone(source("photonPersistentDisk", &["pdID"], nothing), "deprecated in v1.11, non-functional in v1.16+"),
    source("portworxVolume", &["volumeID"], nothing),
    source("azureDisk", &["diskName", "diskURI"], check_azure_disk),
    gone(
        source("scaleIO", &["gateway", "system", "volumeName"], nothing),
        "deprecated in v1.16, non-functional in v1.22+",
    ),
    source("local", &["path"], no_backsteps),
    gone(source("storageos", &[], check_storage_os), "deprecated in v1.22, non-functional in v1.25+"),
    source("csi", &[], check_csi),
];

/// Sources that support mount options.
const MOUNTED: [&str; 13] = [
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
];

fn get<'a>(volume: &'a Value, field: &str) -> Option<&'a Value> {
    volume.at(&["spec", field]).filter(|value| !value.is_null())
}

/// Sets the defaults of sources.
pub(super) fn default(spec: &mut Map) {
    let texts: [(&str, &[(&str, &str)]); 3] = [
        ("rbd", &[("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")]),
        ("iscsi", &[("iscsiInterface", "default")]),
        ("scaleIO", &[("storageMode", "ThinProvisioned"), ("fsType", "xfs")]),
    ];
    for (source, fields) in texts {
        if let Some(Value::Map(source)) = spec.get_mut(source) {
            fields.iter().for_each(|(field, value)| set_default_if_empty(source, field, value));
        }
    }
    if let Some(Value::Map(path)) = spec.get_mut("hostPath") {
        set_default(path, "type", "");
    }
    if let Some(Value::Map(disk)) = spec.get_mut("azureDisk") {
        set_default(disk, "cachingMode", "ReadWrite");
        set_default(disk, "fsType", "ext4");
        set_default(disk, "kind", "Shared");
        if disk.get("readOnly").is_none_or(Value::is_null) {
            disk.insert("readOnly", false);
        }
    }
}

/// Validates that there is exactly one source, and validates it.
pub(super) fn check(errors: &mut ErrorList, volume: &Value, has_affinity: bool) {
    let mut count = 0;
    for source in &SOURCES {
        let Some(value) = get(volume, source.field) else { continue };
        // As upstream, a flex volume is accepted next to an earlier source.
        if count > 0 && source.field != "flexVolume" {
            let called = if source.field == "cephfs" { "cephFS" } else { source.field };
            errors
                .push(FieldError::forbidden(&SPEC.child(called), "may not specify more than 1 volume type"));
            continue;
        }
        count += 1;
        check_one(errors, source, value);
        if source.field == "iscsi" {
            check_portal(errors, value, metadata::name(volume));
        }
        if source.field == "local" && !has_affinity {
            let detail = "Local volume requires node affinity";
            errors.push(FieldError::required(&SPEC.child("nodeAffinity"), detail));
        }
    }
    if count == 0 {
        errors.push(FieldError::required(&SPEC, "must specify a volume type"));
    }
    let is_root = get(volume, "hostPath").is_some_and(|path| is_root(path.str_at(&["path"])));
    if is_root && volume.str_at(&["spec", "persistentVolumeReclaimPolicy"]) == "Recycle" {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(FieldError::forbidden(&SPEC.child("persistentVolumeReclaimPolicy"), detail));
    }
}

fn check_one(errors: &mut ErrorList, source: &VolumeSource, value: &Value) {
    let path = SPEC.child(source.called);
    if matches!(source.field, "rbd" | "cephfs") && texts(value.get("monitors")).is_empty() {
        errors.push(FieldError::required(&path.child("monitors"), ""));
    }
    for field in source.required {
        if value.str_at(&[field]).is_empty() {
            errors.push(FieldError::required(&path.child(field), ""));
        }
    }
    (source.check)(errors, &path, value);
}

/// `true` if a path is equivalent to `/`.
fn is_root(path: &str) -> bool {
    let mut depth = 0_usize;
    if !path.starts_with('/') {
        return false;
    }
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    depth == 0
}

/// `true` if the volume supports mount options.
pub(super) fn has_mount_options(volume: &Value) -> bool {
    MOUNTED.iter().any(|field| get(volume, field).is_some())
}

/// Difference between the sources; `None` if they are equal. A secret for expansion may be added to a CSI
/// volume.
pub(super) fn difference(new: &Value, old: &Value) -> Option<String> {
    let secret = ["csi", "controllerExpandSecretRef"];
    let mut spec = new.get("spec").cloned().unwrap_or_default();
    let was = old.get("spec").unwrap_or(&Value::Null);
    if was.at(&["csi"]).is_some()
        && was.at(&secret).is_none_or(Value::is_null)
        && let Some(csi) = spec.get_mut("csi").and_then(Value::as_map_mut)
    {
        csi.remove(secret[1]);
    }
    let set = |spec: &Value, field: &str| spec.get(field).filter(|value| !value.is_null()).cloned();
    if SOURCES.iter().all(|source| set(&spec, source.field) == set(was, source.field)) {
        return None;
    }
    Some(internal::difference(was, &spec, "PersistentVolumeSource"))
}

/// Warnings for sources that are no longer supported.
pub(super) fn warnings(volume: &Value) -> Vec<String> {
    let order = ["cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd"];
    let present = order.iter().filter(|field| get(volume, field).is_some());
    let sources = present.filter_map(|field| SOURCES.iter().find(|source| source.field == *field));
    let called = |field| if field == "storageos" { "storageOS" } else { field };
    sources.filter_map(|source| Some(format!("spec.{}: {}", called(source.field), source.gone?))).collect()
}

fn nothing(_errors: &mut ErrorList, _path: &Path<'_>, _value: &Value) {}

fn int(value: &Value, field: &str) -> i64 {
    value.get(field).and_then(Value::as_i64).unwrap_or(0)
}

fn no_backsteps(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    let text = value.str_at(&["path"]);
    if text.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(&path.child("path"), text, "must not contain '..'"));
    }
}

fn check_host_path(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    if value.str_at(&["path"]).is_empty() {
        errors.push(FieldError::required(&path.child("path"), ""));
        return;
    }
    no_backsteps(errors, path, value);
    let known =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    let kind = value.str_at(&["type"]);
    if !known.contains(&kind) {
        let kind = BadValue::json_string(kind);
        errors.push(FieldError::not_supported(&path.child("type"), kind, &known));
    }
}

fn check_partition(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    let partition = int(value, "partition");
    if !(0..=255).contains(&partition) {
        let detail = "must be between 1 and 255, inclusive";
        errors.push(FieldError::invalid(&path.child("partition"), partition, detail));
    }
}

fn check_glusterfs(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    let path = path.child("endpointsNamespace");
    match value.get("endpointsNamespace").and_then(Value::as_str) {
        None => {}
        Some("") => {
            let detail = "if the endpointnamespace is set, it must be a valid namespace name";
            errors.push(FieldError::invalid(&path, "", detail));
        }
        Some(namespace) => errors.push_invalid(&path, namespace, NameRule::Label.check(namespace)),
    }
}

fn check_flocker(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    let (name, uuid) = (value.str_at(&["datasetName"]), value.str_at(&["datasetUUID"]));
    if name.is_empty() && uuid.is_empty() {
        errors.push(FieldError::required(path, "one of datasetName and datasetUUID is required"));
    }
    if !name.is_empty() && !uuid.is_empty() {
        let detail = "datasetName and datasetUUID can not be specified simultaneously";
        errors.push(FieldError::invalid(path, "resource", detail));
    }
    if name.contains('/') {
        errors.push(FieldError::invalid(&path.child("datasetName"), name, "must not contain '/'"));
    }
}

fn check_nfs(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    let text = value.str_at(&["path"]);
    if !text.starts_with('/') {
        errors.push(FieldError::invalid(&path.child("path"), text, "must be an absolute path"));
    }
}

fn check_quobyte(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    let registry = value.str_at(&["registry"]);
    let pairs = "must be a host:port pair or multiple pairs separated by commas";
    if registry.is_empty() {
        errors.push(FieldError::required(&path.child("registry"), pairs));
    } else if value.str_at(&["tenant"]).len() > 64 {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(FieldError::required(&path.child("tenant"), detail));
    } else {
        for _ in registry.split(',').filter(|pair| !is_host_port(pair)) {
            errors.push(FieldError::invalid(&path.child("registry"), registry, pairs));
        }
    }
    if value.str_at(&["volume"]).is_empty() {
        errors.push(FieldError::required(&path.child("volume"), ""));
    }
}

fn is_host_port(text: &str) -> bool {
    match text.strip_prefix('[') {
        Some(rest) => rest.split_once("]:").is_some_and(|(_, port)| !port.contains([':', '[', ']'])),
        None => text.split_once(':').is_some_and(|(host, port)| !port.contains(':') && !host.contains(']')),
    }
}

fn check_portal(errors: &mut ErrorList, value: &Value, volume: &str) {
    let portal = value.str_at(&["targetPortal"]);
    let has_initiator = value.get("initiatorName").is_some_and(|name| !name.is_null());
    if has_initiator && volume.len() + 1 + portal.len() > 64 {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        errors.push(FieldError::invalid(&SPEC.child("iscsi").child("targetportal"), portal, detail));
    }
}

fn check_iscsi(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    match value.str_at(&["iqn"]) {
        "" => errors.push(FieldError::required(&path.child("iqn"), "")),
        iqn if !is_initiator(iqn) => {
            errors.push(FieldError::invalid(&path.child("iqn"), iqn, "must be valid format"));
        }
        _ => {}
    }
    check_range(errors, path, value);
    let secret = value.get("secretRef").filter(|secret| !secret.is_null());
    let uses = |field: &str| value.get(field).and_then(Value::as_bool) == Some(true);
    let path_of_secret = path.child("secretRef");
    if (uses("chapAuthDiscovery") || uses("chapAuthSession")) && secret.is_none() {
        errors.push(FieldError::required(&path_of_secret, ""));
    }
    if secret.is_some_and(|secret| secret.str_at(&["name"]).is_empty()) {
        errors.push(FieldError::required(&path_of_secret.child("name"), ""));
    }
    if let Some(name) = value.get("initiatorName").and_then(Value::as_str).filter(|name| !is_initiator(name))
    {
        errors.push(FieldError::invalid(&path.child("initiatorname"), name, "must be valid format"));
    }
}

fn check_range(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    let lun = int(value, "lun");
    if !(0..=255).contains(&lun) {
        let detail = "must be between 0 and 255, inclusive";
        errors.push(FieldError::invalid(&path.child("lun"), lun, detail));
    }
}

/// `true` if the text is an iSCSI initiator name in one of its three forms.
fn is_initiator(name: &str) -> bool {
    let alphanumeric = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if let Some(rest) = name.strip_prefix("iqn") {
        return is_iqn(rest);
    }
    [("eui", 16), ("naa", 32)].iter().any(|(prefix, len)| {
        name.strip_prefix(prefix).is_some_and(|rest| {
            let mut chars = rest.chars();
            // Any character may follow the prefix.
            chars.next().is_some_and(|c| c != '\n')
                && chars.as_str().len() == *len
                && alphanumeric(chars.as_str())
        })
    })
}

/// `true` if the text continues as in `iqn.2001-04.com.example:storage`.
fn is_iqn(rest: &str) -> bool {
    let Some((head, tail)) = rest.split_once(':') else { return false };
    let bytes = head.as_bytes();
    let date_is_good = bytes.len() > 9
        && bytes[0] == b'.'
        && bytes[1..5].iter().all(u8::is_ascii_digit)
        && bytes[5] == b'-'
        && bytes[6..8].iter().all(u8::is_ascii_digit)
        && bytes[8] == b'.';
    date_is_good
        && bytes[9..].iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
        && !tail.is_empty()
        && !tail.contains(|c: char| ",;*&$|".contains(c) || matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0c'))
}

/// Validates the secret reference of a source whose secrets have a name and a namespace.
fn check_secret_ref(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    let Some(secret) = value.get("secretRef").filter(|secret| !secret.is_null()) else { return };
    for field in ["name", "namespace"] {
        if secret.str_at(&[field]).is_empty() {
            errors.push(FieldError::required(&path.child("secretRef").child(field), ""));
        }
    }
}

fn check_fibre_channel(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    let (names, ids) = (texts(value.get("targetWWNs")), texts(value.get("wwids")));
    let names_path = path.child("targetWWNs");
    if names.is_empty() && ids.is_empty() {
        let detail = "must specify either targetWWNs or wwids, but not both";
        errors.push(FieldError::required(&names_path, detail));
    }
    if !names.is_empty() && !ids.is_empty() {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        errors.push(FieldError::invalid(&names_path, BadValue::json_strings(&names), detail));
    }
    if !names.is_empty() {
        if value.get("lun").is_none_or(Value::is_null) {
            let detail = "lun is required if targetWWNs is specified";
            errors.push(FieldError::required(&path.child("lun"), detail));
        } else {
            check_range(errors, path, value);
        }
    }
}

fn check_flex(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    for (option, _) in pairs(value.get("options")) {
        let domain = option.split_once('/').map_or(option, |(domain, _)| domain);
        let domain = format!(".{}", domain.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(FieldError::invalid(&path.child("options").key(option), option, detail));
        }
    }
}

fn check_azure_file(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    if value.get("secretNamespace").and_then(Value::as_str) == Some("") {
        errors.push(FieldError::required(&path.child("secretNamespace"), ""));
    }
}

fn check_azure_disk(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    for (field, known) in
        [("cachingMode", ["None", "ReadOnly", "ReadWrite"]), ("kind", ["Dedicated", "Managed", "Shared"])]
    {
        if let Some(word) = value.get(field).and_then(Value::as_str).filter(|word| !known.contains(word)) {
            let word = BadValue::json_string(word);
            errors.push(FieldError::not_supported(&path.child(field), word, &known));
        }
    }
    let Some(kind) = value.get("kind").and_then(Value::as_str) else { return };
    let uri = value.str_at(&["diskURI"]);
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

fn check_storage_os(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    let (name, namespace) = (value.str_at(&["volumeName"]), value.str_at(&["volumeNamespace"]));
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("volumeName"), ""));
    } else {
        errors.push_invalid(&path.child("volumeName"), name, dns::label(name));
    }
    if !namespace.is_empty() {
        errors.push_invalid(&path.child("volumeNamespace"), namespace, dns::label(namespace));
    }
    check_secret_ref(errors, path, value);
}

fn check_csi(errors: &mut ErrorList, path: &Path<'_>, value: &Value) {
    let driver = value.str_at(&["driver"]);
    let driver_path = path.child("driver");
    if driver.is_empty() {
        errors.push(FieldError::required(&driver_path, ""));
    } else {
        if driver.len() > 63 {
            errors.push(FieldError::too_long(&driver_path, 63));
        }
        errors.push_invalid(&driver_path, driver, dns::subdomain(&driver.to_lowercase()));
    }
    if value.str_at(&["volumeHandle"]).is_empty() {
        errors.push(FieldError::required(&path.child("volumeHandle"), ""));
    }
    for field in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let Some(secret) = value.get(field).filter(|secret| !secret.is_null()) else { continue };
        let path = path.child(field);
        let rules = [("name", NameRule::Subdomain), ("namespace", NameRule::Label)];
        for (field, rule) in rules {
            match secret.str_at(&[field]) {
                "" => errors.push(FieldError::required(&path.child(field), "")),
                text => errors.push_invalid(&path.child(field), text, rule.check(text)),
            }
        }
    }
}
