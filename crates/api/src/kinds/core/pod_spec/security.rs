//! Validation of security contexts.

use std::collections::BTreeSet;

use super::{internal, paths, windows};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::read::{
    boolean, forbidden, invalid, invalid_name_of_type, list, number_faults, optional_boolean, optional_text,
    present, required, supported, text, texts, unix_id,
};
use crate::names::key;
use crate::value::Value;

/// Maximum bytes of a sysctl name.
const SYSCTL_BYTES_MAX: usize = 253;
const SYSCTL_FAULT: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
/// Maximum bytes of a profile path on the node.
const PROFILE_BYTES_MAX: usize = 4095;
/// Profile types, in the order of messages.
const PROFILE_TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

/// Sysctls of the IPC namespace.
const IPC_SYSCTLS: [&str; 10] = [
    "kernel.msg",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.sem",
    "kernel.shm",
    "kernel.shm_rmid_forced",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
];

/// Validates the security context of a pod.
pub(crate) fn pod(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let Some(context) = present(spec, "securityContext") else { return };
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        unix_id(errors, path, context, field);
    }
    let groups = path.child("supplementalGroups");
    for (i, group) in list(context, "supplementalGroups").iter().enumerate() {
        let group = group.as_i64().unwrap_or_default();
        number_faults(errors, &groups.index(i), group, key::unix_id(group));
    }
    sysctls(errors, &path.child("sysctls"), list(context, "sysctls"), spec);
    optional_word(errors, path, context, "fsGroupChangePolicy", &["Always", "OnRootMismatch"]);
    profiles(errors, path, context);
    optional_word(errors, path, context, "supplementalGroupsPolicy", &["Merge", "Strict"]);
    optional_word(errors, path, context, "seLinuxChangePolicy", &["MountOption", "Recursive"]);
}

fn optional_word(errors: &mut ErrorList, path: &Path<'_>, value: &Value, field: &str, words: &[&str]) {
    if let Some(word) = optional_text(value, field) {
        supported(errors, &path.child(field), word, words);
    }
}

/// Validates fields that pods and containers share.
fn profiles(errors: &mut ErrorList, path: &Path<'_>, context: &Value) {
    if let Some(profile) = present(context, "seccompProfile") {
        seccomp(errors, &path.child("seccompProfile"), profile);
    }
    if let Some(options) = present(context, "windowsOptions") {
        windows::options(errors, &path.child("windowsOptions"), options);
    }
    if let Some(profile) = present(context, "appArmorProfile") {
        app_armor(errors, &path.child("appArmorProfile"), profile);
    }
}

/// Validates the security context of a container.
pub(crate) fn container(errors: &mut ErrorList, path: &Path<'_>, context: &Value, host_users: bool) {
    for field in ["runAsUser", "runAsGroup"] {
        unix_id(errors, path, context, field);
    }
    if let Some(mount) = optional_text(context, "procMount") {
        let path = path.child("procMount");
        supported(errors, &path, mount, &["Default", "Unmasked"]);
        if host_users && mount == "Unmasked" {
            invalid_name_of_type(errors, &path, mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    if let Some(profile) = present(context, "seccompProfile") {
        seccomp(errors, &path.child("seccompProfile"), profile);
    }
    if optional_boolean(context, "allowPrivilegeEscalation") == Some(false) {
        if boolean(context, "privileged") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            invalid(errors, path, internal::shown(context, "SecurityContext"), detail);
        }
        let added = present(context, "capabilities").map(|capabilities| texts(capabilities, "add"));
        for _ in added.into_iter().flatten().filter(|capability| *capability == "CAP_SYS_ADMIN") {
            let detail =
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            invalid(errors, path, internal::shown(context, "SecurityContext"), detail);
        }
    }
    if let Some(options) = present(context, "windowsOptions") {
        windows::options(errors, &path.child("windowsOptions"), options);
    }
    if let Some(profile) = present(context, "appArmorProfile") {
        app_armor(errors, &path.child("appArmorProfile"), profile);
    }
}

fn seccomp(errors: &mut ErrorList, path: &Path<'_>, profile: &Value) {
    let ty = text(profile, "type");
    if ty.is_empty() {
        required(errors, &path.child("type"), "type is required when seccompProfile is set");
    } else {
        supported(errors, &path.child("type"), ty, &PROFILE_TYPES);
    }
    let local_path = path.child("localhostProfile");
    match (ty, optional_text(profile, "localhostProfile")) {
        ("Localhost", None) => required(errors, &local_path, "must be set when seccomp type is Localhost"),
        ("Localhost", Some(local)) => paths::descending(errors, &local_path, local),
        (_, Some(_)) => {
            let detail = "can only be set when seccomp type is Localhost";
            invalid(errors, &local_path, internal::shown(profile, "SeccompProfile"), detail);
        }
        (_, None) => {}
    }
}

/// Validates an AppArmor profile.
pub(crate) fn app_armor(errors: &mut ErrorList, path: &Path<'_>, profile: &Value) {
    let local_path = path.child("localhostProfile");
    let local = optional_text(profile, "localhostProfile");
    match text(profile, "type") {
        "Localhost" => {
            let missing = "must be set when AppArmor type is Localhost";
            let Some(local) = local else { return required(errors, &local_path, missing) };
            if local.trim() != local {
                invalid(errors, &local_path, local, "must not be padded with whitespace");
            } else if local.is_empty() {
                required(errors, &local_path, missing);
            }
            if local.len() > PROFILE_BYTES_MAX {
                errors.push(FieldError::too_long(&local_path, PROFILE_BYTES_MAX));
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if let Some(local) = local {
                invalid_name_of_type(
                    errors,
                    &local_path,
                    local,
                    "can only be set when AppArmor type is Localhost",
                );
            }
        }
        "" => required(errors, &path.child("type"), "type is required when appArmorProfile is set"),
        other => supported(errors, &path.child("type"), other, &PROFILE_TYPES),
    }
}

fn sysctls(errors: &mut ErrorList, path: &Path<'_>, sysctls: &[Value], spec: &Value) {
    let mut names = BTreeSet::new();
    for (i, sysctl) in sysctls.iter().enumerate() {
        let path = path.index(i);
        let path = path.child("name");
        let name = text(sysctl, "name");
        if name.is_empty() {
            required(errors, &path, "");
        } else if !is_sysctl(name) {
            invalid(errors, &path, name, SYSCTL_FAULT);
        } else if names.contains(name) {
            errors.push(FieldError::duplicate(&path, name));
        }
        let dotted = dotted(name);
        if boolean(spec, "hostNetwork") && dotted.starts_with("net.") {
            invalid(errors, &path, name, "may not be specified when 'hostNetwork' is true");
        } else if boolean(spec, "hostIPC") && is_ipc(&dotted) {
            invalid(errors, &path, name, "may not be specified when 'hostIPC' is true");
        }
        names.insert(name);
    }
}

fn is_ipc(name: &str) -> bool {
    IPC_SYSCTLS.contains(&name) || name.starts_with("fs.mqueue.")
}

/// Converts a sysctl name with slashes to dots: the first of the two is the separator.
fn dotted(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(at) if name.as_bytes()[at] == b'/' => name
            .chars()
            .map(|c| {
                if c == '/' {
                    '.'
                } else if c == '.' {
                    '/'
                } else {
                    c
                }
            })
            .collect(),
        _ => name.to_owned(),
    }
}

fn is_sysctl(name: &str) -> bool {
    let is_end = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    name.len() <= SYSCTL_BYTES_MAX
        && name.split(['.', '/']).all(|segment| {
            let bytes = segment.as_bytes();
            bytes.first().copied().is_some_and(is_end)
                && bytes.last().copied().is_some_and(is_end)
                && bytes.iter().all(|b| is_end(*b) || matches!(b, b'-' | b'_'))
        })
}

/// Validates a pod in its own user namespace.
pub(crate) fn host_users(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    if optional_boolean(spec, "hostUsers") != Some(false) {
        return;
    }
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if boolean(spec, field) {
            forbidden(errors, &path.child(shown), "when `hostUsers` is false");
        }
    }
    super::each_container(spec, path, |container, path| {
        if !list(container, "volumeDevices").is_empty() {
            forbidden(errors, &path.child("volumeDevices"), "when `hostUsers` is false");
        }
    });
}
