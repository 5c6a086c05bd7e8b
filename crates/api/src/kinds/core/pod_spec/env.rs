//! Validation of environment variables and of the downward API.

use super::paths;
use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::read::{check_supported, list, present, push_invalid, push_required, quantity, text};
use crate::names::{dns, key};
use crate::value::Value;

/// Pod fields that variables support.
const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Pod fields that volume files support.
pub(crate) const FILE_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// All known pod fields, supported in some place.
const FIELDS: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];

/// Container resources that can be referenced.
const AMOUNTS: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Valid divisors of byte amounts.
const BYTE_DIVISORS: [&str; 13] =
    ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Validates the environment variables of a container.
pub(crate) fn check_variables(errors: &mut ErrorList, path: &Path<'_>, container: &Value) {
    let env = path.child("env");
    for (i, variable) in list(container, "env").iter().enumerate() {
        let path = env.index(i);
        let name = text(variable, "name");
        if name.is_empty() {
            push_required(errors, &path.child("name"), "");
        } else {
            errors.push_invalid(&path.child("name"), name, key::env_name_relaxed(name));
        }
        if let Some(source) = present(variable, "valueFrom") {
            check_value_from(errors, &path.child("valueFrom"), source, text(variable, "value"));
        }
    }
    let env_from = path.child("envFrom");
    for (i, source) in list(container, "envFrom").iter().enumerate() {
        let path = env_from.index(i);
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            errors.push_invalid(&path.child("prefix"), prefix, key::env_name_relaxed(prefix));
        }
        let mut count = 0;
        for field in ["configMapRef", "secretRef"] {
            if let Some(reference) = present(source, field) {
                count += 1;
                let path = path.child(field);
                let name = text(reference, "name");
                if name.is_empty() {
                    push_required(errors, &path.child("name"), "");
                } else {
                    let faults = crate::names::NameRule::Subdomain.check_prefix(name);
                    errors.push_invalid(&path.child("name"), name, faults);
                }
            }
        }
        match count {
            0 => push_invalid(errors, &env_from, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => push_invalid(errors, &env_from, "", "may not have more than one field specified at a time"),
        }
    }
}

fn check_value_from(errors: &mut ErrorList, path: &Path<'_>, source: &Value, value: &str) {
    let mut count = 0;
    if let Some(reference) = present(source, "fieldRef") {
        count += 1;
        check_field_reference(errors, &path.child("fieldRef"), reference, &ENV_FIELDS);
    }
    if let Some(reference) = present(source, "resourceFieldRef") {
        count += 1;
        check_amount_reference(errors, &path.child("resourceFieldRef"), reference, false);
    }
    for field in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(reference) = present(source, field) {
            count += 1;
            check_key_reference(errors, &path.child(field), reference);
        }
    }
    if let Some(reference) = present(source, "fileKeyRef") {
        count += 1;
        check_file_reference(errors, &path.child("fileKeyRef"), reference);
    }
    if count == 0 {
        let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        push_invalid(errors, path, "", detail);
    } else if !value.is_empty() {
        push_invalid(errors, path, "", "may not be specified when `value` is not empty");
    } else if count > 1 {
        push_invalid(errors, path, "", "may not have more than one field specified at a time");
    }
}

fn check_key_reference(errors: &mut ErrorList, path: &Path<'_>, reference: &Value) {
    let (name, key) = (text(reference, "name"), text(reference, "key"));
    errors.push_invalid(&path.child("name"), name, dns::subdomain(name));
    if key.is_empty() {
        push_required(errors, &path.child("key"), "");
    } else {
        errors.push_invalid(&path.child("key"), key, key::config_key(key));
    }
}

fn check_file_reference(errors: &mut ErrorList, path: &Path<'_>, reference: &Value) {
    let (key, volume, file) =
        (text(reference, "key"), text(reference, "volumeName"), text(reference, "path"));
    if key.is_empty() {
        push_required(errors, &path.child("key"), "");
    } else {
        errors.push_invalid(&path.child("key"), key, key::env_name_relaxed(key));
    }
    if volume.is_empty() {
        push_required(errors, &path.child("volumeName"), "");
    } else {
        errors.push_invalid(&path.child("volumeName"), volume, dns::label(volume));
    }
    if file.is_empty() {
        push_required(errors, &path.child("path"), "");
    } else {
        paths::check_no_backsteps(errors, &path.child("path"), file);
    }
}

/// Splits `metadata.labels['app']` into its path and the key in brackets.
fn split_subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['").filter(|(path, _)| !path.is_empty())
}

/// Validates a reference to a field of the pod.
pub(crate) fn check_field_reference(
    errors: &mut ErrorList,
    path: &Path<'_>,
    reference: &Value,
    allowed: &[&str],
) {
    let (version, field) = (text(reference, "apiVersion"), text(reference, "fieldPath"));
    if version.is_empty() {
        return push_required(errors, &path.child("apiVersion"), "");
    }
    if field.is_empty() {
        return push_required(errors, &path.child("fieldPath"), "");
    }
    let fault = if version != "v1" {
        Some(format!("unsupported pod version: {version}"))
    } else if let Some((of, _)) = split_subscript(field) {
        let good = matches!(of, "metadata.annotations" | "metadata.labels");
        (!good).then(|| format!("field label does not support subscript: {field}"))
    } else {
        let good = FIELDS.contains(&field) || field == "spec.host";
        (!good).then(|| format!("field label not supported: {field}"))
    };
    if let Some(fault) = fault {
        let detail = format!("error converting fieldPath: {fault}");
        return push_invalid(errors, &path.child("fieldPath"), field, detail);
    }
    match split_subscript(field) {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            errors.push_invalid(path, &key, key::label_key(&key));
        }
        Some((_, key)) => errors.push_invalid(path, key, key::label_key(key)),
        None => {
            let field = if field == "spec.host" { "spec.nodeName" } else { field };
            if !allowed.contains(&field) {
                errors.push(FieldError::not_supported(&path.child("fieldPath"), field, allowed));
            }
        }
    }
}

/// Validates a reference to a container resource. In a volume it must name the container.
pub(crate) fn check_amount_reference(
    errors: &mut ErrorList,
    path: &Path<'_>,
    reference: &Value,
    in_volume: bool,
) {
    let resource = text(reference, "resource");
    let is_huge_pages =
        ["requests.hugepages-", "limits.hugepages-"].iter().any(|huge| resource.starts_with(huge));
    if in_volume && text(reference, "containerName").is_empty() {
        push_required(errors, &path.child("containerName"), "");
    } else if resource.is_empty() {
        push_required(errors, &path.child("resource"), "");
    } else if !is_huge_pages {
        check_supported(errors, &path.child("resource"), resource, &AMOUNTS);
    }
    let Some(divisor) = present(reference, "divisor").map(quantity).filter(|divisor| !divisor.is_zero())
    else {
        return;
    };
    let divisor = divisor.to_string();
    let of = match resource {
        "limits.cpu" | "requests.cpu" => {
            if !["1m", "1"].contains(&divisor.as_str()) {
                let detail = "only divisor's values 1m and 1 are supported with the cpu resource";
                push_invalid(errors, &path.child("divisor"), resource, detail);
            }
            return;
        }
        "limits.memory" | "requests.memory" => "memory",
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => "local ephemeral storage",
        _ if is_huge_pages => "hugepages",
        _ => return,
    };
    if !BYTE_DIVISORS.contains(&divisor.as_str()) {
        let detail = format!(
            "only divisor's values {} are supported with the {of} resource",
            BYTE_DIVISORS.join(", ")
        );
        push_invalid(errors, &path.child("divisor"), resource, detail);
    }
}
