//! Defaults of pod specs.
//!
//! Everything here is idempotent, and sets fields only if they are absent or empty, as Go sees it.

use super::image::pull_policy;
use crate::kinds::core::resource_list;
use crate::kinds::read::{boolean, list, list_mut, number, optional_number, present, text};
use crate::value::{Map, Value};

/// Fields with containers.
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
/// Default mode of files from ConfigMaps, Secrets and the like: 0644.
const FILE_MODE: i64 = 0o644;
/// Default lifetime of a token in seconds.
const TOKEN_SECONDS: i64 = 60 * 60;

/// Sets the defaults of a pod spec, of a pod or a template.
pub(crate) fn spec(spec: &mut Value) {
    let map = spec.make_map();
    service_account(map);
    set_text(map, "restartPolicy", "Always");
    if map.get("terminationGracePeriodSeconds").is_none_or(Value::is_null) {
        map.insert("terminationGracePeriodSeconds", 30);
    }
    set_text(map, "dnsPolicy", "ClusterFirst");
    if map.get("securityContext").is_none_or(Value::is_null) {
        map.insert("securityContext", Value::map());
    }
    set_text(map, "schedulerName", "default-scheduler");
    for volume in list_mut(spec, "volumes") {
        default_volume(volume);
    }
    for field in CONTAINERS {
        for container in list_mut(spec, field) {
            default_container(container);
        }
    }
    resource_list::round_up(spec.get_mut("overhead"));
    if let Some(resources) = spec.get_mut("resources") {
        round_resources(resources);
    }
}

/// Sets the defaults of pods that templates do not have; runs before [`spec`].
pub(crate) fn pod_spec(spec: &mut Value) {
    if optional_number(spec, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        spec.make_map().insert("terminationGracePeriodSeconds", 1);
    }
    let on_host = boolean(spec, "hostNetwork");
    for field in ["initContainers", "containers"] {
        for container in list_mut(spec, field) {
            if let Some(resources) = container.get_mut("resources") {
                requests_from_limits(resources);
            }
            if on_host {
                host_ports(container);
            }
        }
    }
    let map = spec.make_map();
    if map.get("enableServiceLinks").is_none_or(Value::is_null) {
        map.insert("enableServiceLinks", true);
    }
}

/// Synchronizes `podIP` and `podIPs`; the former wins if they differ.
pub(crate) fn status(status: &mut Value) {
    let first = list(status, "podIPs").first().map(|ip| text(ip, "ip").to_owned());
    let ip = text(status, "podIP");
    match first {
        Some(first) if ip.is_empty() => drop(status.make_map().insert("podIP", first)),
        first if !ip.is_empty() && first.as_deref() != Some(ip) => {
            let only: Map = [("ip", Value::from(ip))].into_iter().collect();
            status.make_map().insert("podIPs", Value::List(vec![Value::Map(only)]));
        }
        _ => {}
    }
}

/// `serviceAccount` is the older name of `serviceAccountName`, which wins if both are set.
fn service_account(spec: &mut Map) {
    let name = ["serviceAccountName", "serviceAccount"]
        .into_iter()
        .find_map(|field| spec.get(field).filter(|name| !name.is_empty()).cloned());
    for field in ["serviceAccountName", "serviceAccount"] {
        match &name {
            Some(name) if spec.get(field) == Some(name) => {}
            Some(name) => drop(spec.insert(field, name.clone())),
            None => drop(spec.remove(field)),
        }
    }
}

fn set_text(map: &mut Map, field: &str, default: &'static str) {
    if map.get(field).is_none_or(Value::is_empty) {
        map.insert(field, default);
    }
}

fn set(map: &mut Map, field: &str, default: impl Into<Value>) {
    if map.get(field).is_none_or(Value::is_null) {
        map.insert(field, default);
    }
}

fn default_container(container: &mut Value) {
    if text(container, "imagePullPolicy").is_empty() {
        let policy = pull_policy(text(container, "image"));
        container.make_map().insert("imagePullPolicy", policy);
    }
    let map = container.make_map();
    set_text(map, "terminationMessagePath", "/dev/termination-log");
    set_text(map, "terminationMessagePolicy", "File");
    for port in list_mut(container, "ports") {
        set_text(port.make_map(), "protocol", "TCP");
    }
    for variable in list_mut(container, "env") {
        let Some(source) = variable.get_mut("valueFrom") else { continue };
        default_field_reference(source);
        if let Some(file) = source.get_mut("fileKeyRef").and_then(Value::as_map_mut) {
            set(file, "optional", false);
        }
    }
    if let Some(resources) = container.get_mut("resources") {
        round_resources(resources);
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(field).filter(|probe| !probe.is_null()) {
            default_probe(probe);
        }
    }
    for field in ["postStart", "preStop"] {
        if let Some(action) = container.at_mut(&["lifecycle", field, "httpGet"]) {
            default_http_get(action);
        }
    }
}

fn default_probe(probe: &mut Value) {
    for (field, default) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        if number(probe, field) == 0 {
            probe.make_map().insert(field, default);
        }
    }
    if let Some(action) = probe.get_mut("httpGet") {
        default_http_get(action);
    }
    if let Some(grpc) = probe.get_mut("grpc").and_then(Value::as_map_mut) {
        set(grpc, "service", "");
    }
}

fn default_http_get(action: &mut Value) {
    if let Some(action) = action.as_map_mut() {
        set_text(action, "path", "/");
        set_text(action, "scheme", "HTTP");
    }
}

/// Sets the version of a field reference in `fieldRef`.
fn default_field_reference(holder: &mut Value) {
    if let Some(reference) = holder.get_mut("fieldRef").and_then(Value::as_map_mut)
        && reference.get("apiVersion").is_none_or(Value::is_empty)
    {
        reference.insert_first("apiVersion", "v1");
    }
}

fn default_volume(volume: &mut Value) {
    let map = volume.make_map();
    if !map.iter().any(|(field, source)| field != "name" && !source.is_null()) {
        map.insert("emptyDir", Value::map());
        return;
    }
    for (field, source) in map.iter_mut() {
        let Some(map) = source.as_map_mut() else { continue };
        match field {
            "hostPath" => set(map, "type", ""),
            "secret" | "configMap" => set(map, "defaultMode", FILE_MODE),
            "iscsi" => set_text(map, "iscsiInterface", "default"),
            "rbd" => {
                set_text(map, "pool", "rbd");
                set_text(map, "user", "admin");
                set_text(map, "keyring", "/etc/ceph/keyring");
            }
            "azureDisk" => {
                set(map, "cachingMode", "ReadWrite");
                set(map, "fsType", "ext4");
                set(map, "readOnly", false);
                set(map, "kind", "Shared");
            }
            "scaleIO" => {
                set_text(map, "storageMode", "ThinProvisioned");
                set_text(map, "fsType", "xfs");
            }
            "image" if map.get("pullPolicy").is_none_or(Value::is_empty) => {
                let policy = pull_policy(map.get_str("reference").unwrap_or_default());
                map.insert("pullPolicy", policy);
            }
            "downwardAPI" => {
                set(map, "defaultMode", FILE_MODE);
                default_downward_items(source);
            }
            "projected" => {
                set(map, "defaultMode", FILE_MODE);
                default_projection(source);
            }
            "ephemeral" => {
                if let Some(claim) = source.at_mut(&["volumeClaimTemplate", "spec"]) {
                    default_claim_spec(claim);
                }
            }
            _ => {}
        }
    }
}

fn default_downward_items(source: &mut Value) {
    for item in list_mut(source, "items") {
        default_field_reference(item);
    }
}

fn default_projection(projected: &mut Value) {
    for source in list_mut(projected, "sources") {
        if let Some(downward) = source.get_mut("downwardAPI") {
            default_downward_items(downward);
        }
        if let Some(token) = source.get_mut("serviceAccountToken").and_then(Value::as_map_mut) {
            set(token, "expirationSeconds", TOKEN_SECONDS);
        }
    }
}

/// Sets the defaults of a claim spec.
pub(crate) fn default_claim_spec(spec: &mut Value) {
    set(spec.make_map(), "volumeMode", "Filesystem");
    if let Some(resources) = spec.get_mut("resources") {
        round_resources(resources);
    }
}

/// The default request is the limit.
fn requests_from_limits(resources: &mut Value) {
    let Some(limits) = present(resources, "limits").and_then(Value::as_map).cloned() else { return };
    if limits.is_empty() {
        return;
    }
    let requests = resources.ensure_map("requests");
    for (name, amount) in limits {
        if !requests.contains(&name) {
            requests.insert(name, amount);
        }
    }
    requests.sort();
}

/// The default host port of a container on the host network is its port.
fn host_ports(container: &mut Value) {
    for port in list_mut(container, "ports") {
        let number_inside = number(port, "containerPort");
        if number(port, "hostPort") == 0 && number_inside != 0 {
            port.make_map().insert("hostPort", number_inside);
        }
    }
}

fn round_resources(resources: &mut Value) {
    resource_list::round_up(resources.get_mut("limits"));
    resource_list::round_up(resources.get_mut("requests"));
}
