//! Validation of security contexts.

use std::collections::BTreeSet;

use super::{internal, paths, windows};
use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::read::{
    boolean, check_supported, check_unix_id, list, optional_boolean, optional_text, present, push_forbidden,
    push_invalid, push_invalid_enum, push_number_faults, push_required, text, texts,
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
pub(crate) fn check_pod(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let Some(context) = present(spec, "securityContext") else { return };
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        check_unix_id(errors, path, context, field);
    }
    let groups = path.child("supplementalGroups");
    for (i, group) in list(context, "supplementalGroups").iter().enumerate() {
        let group = group.as_i64().unwrap_or_default();
        push_number_faults(errors, &groups.index(i), group, key::unix_id(group));
    }
    check_sysctls(errors, &path.child("sysctls"), list(context, "sysctls"), spec);
    check_optional_word(errors, path, context, "fsGroupChangePolicy", &["Always", "OnRootMismatch"]);
    check_profiles(errors, path, context);
    check_optional_word(errors, path, context, "supplementalGroupsPolicy", &["Merge", "Strict"]);
    check_optional_word(errors, path, context, "seLinuxChangePolicy", &["MountOption", "Recursive"]);
}

fn check_optional_word(errors: &mut ErrorList, path: &Path<'_>, value: &Value, field: &str, words: &[&str]) {
    if let Some(word) = optional_text(value, field) {
        check_supported(errors, &path.child(field), word, words);
    }
}

/// Validates fields that pods and containers share.
fn check_profiles(errors: &mut ErrorList, path: &Path<'_>, context: &Value) {
    if let Some(profile) = present(context, "seccompProfile") {
        check_seccomp(errors, &path.child("seccompProfile"), profile);
    }
    if let Some(options) = present(context, "windowsOptions") {
        windows::check_options(errors, &path.child("windowsOptions"), options);
    }
    if let Some(profile) = present(context, "appArmorProfile") {
        check_app_armor(errors, &path.child("appArmorProfile"), profile);
    }
}

/// Validates the security context of a container.
pub(crate) fn check_container(errors: &mut ErrorList, path: &Path<'_>, context: &Value, host_users: bool) {
    for field in ["runAsUser", "runAsGroup"] {
        check_unix_id(errors, path, context, field);
    }
    if let Some(mount) = optional_text(context, "procMount") {
        let path = path.child("procMount");
        check_supported(errors, &path, mount, &["Default", "Unmasked"]);
        if host_users && mount == "Unmasked" {
            push_invalid_enum(errors, &path, mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    if let Some(profile) = present(context, "seccompProfile") {
        check_seccomp(errors, &path.child("seccompProfile"), profile);
    }
    if optional_boolean(context, "allowPrivilegeEscalation") == Some(false) {
        if boolean(context, "privileged") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            push_invalid(errors, path, internal::shown(context, "SecurityContext"), detail);
        }
        let added = present(context, "capabilities").map(|capabilities| texts(capabilities, "add"));
        for _ in added.into_iter().flatten().filter(|capability| *capability == "CAP_SYS_ADMIN") {
            let detail =
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            push_invalid(errors, path, internal::shown(context, "SecurityContext"), detail);
        }
    }
    if let Some(options) = present(context, "windowsOptions") {
        windows::check_options(errors, &path.child("windowsOptions"), options);
    }
    if let Some(profile) = present(context, "appArmorProfile") {
        check_app_armor(errors, &path.child("appArmorProfile"), profile);
    }
}

fn check_seccomp(errors: &mut ErrorList, path: &Path<'_>, profile: &Value) {
    let ty = text(profile, "type");
    if ty.is_empty() {
        push_required(errors, &path.child("type"), "type is required when seccompProfile is set");
    } else {
        check_supported(errors, &path.child("type"), ty, &PROFILE_TYPES);
    }
    let local_path = path.child("localhostProfile");
    match (ty, optional_text(profile, "localhostProfile")) {
        ("Localhost", None) => {
            push_required(errors, &local_path, "must be set when seccomp type is Localhost")
        }
        ("Localhost", Some(local)) => paths::check_descending(errors, &local_path, local),
        (_, Some(_)) => {
            let detail = "can only be set when seccomp type is Localhost";
            push_invalid(errors, &local_path, internal::shown(profile, "SeccompProfile"), detail);
        }
        (_, None) => {}
    }
}

/// Validates an AppArmor profile.
pub(crate) fn check_app_armor(errors: &mut ErrorList, path: &Path<'_>, profile: &Value) {
    let local_path = path.child("localhostProfile");
    let local = optional_text(profile, "localhostProfile");
    match text(profile, "type") {
        "Localhost" => {
            let missing = "must be set when AppArmor type is Localhost";
            let Some(local) = local else { return push_required(errors, &local_path, missing) };
            if local.trim() != local {
                push_invalid(errors, &local_path, local, "must not be padded with whitespace");
            } else if local.is_empty() {
                push_required(errors, &local_path, missing);
            }
            if local.len() > PROFILE_BYTES_MAX {
                errors.push(FieldError::too_long(&local_path, PROFILE_BYTES_MAX));
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if let Some(local) = local {
                push_invalid_enum(
                    errors,
                    &local_path,
                    local,
                    "can only be set when AppArmor type is Localhost",
                );
            }
        }
        "" => push_required(errors, &path.child("type"), "type is required when appArmorProfile is set"),
        other => check_supported(errors, &path.child("type"), other, &PROFILE_TYPES),
    }
}

fn check_sysctls(errors: &mut ErrorList, path: &Path<'_>, sysctls: &[Value], spec: &Value) {
    let mut names = BTreeSet::new();
    for (i, sysctl) in sysctls.iter().enumerate() {
        let path = path.index(i);
        let path = path.child("name");
        let name = text(sysctl, "name");
        if name.is_empty() {
            push_required(errors, &path, "");
        } else if !is_sysctl(name) {
            push_invalid(errors, &path, name, SYSCTL_FAULT);
        } else if names.contains(name) {
            errors.push(FieldError::duplicate(&path, name));
        }
        let dotted = dotted(name);
        if boolean(spec, "hostNetwork") && dotted.starts_with("net.") {
            push_invalid(errors, &path, name, "may not be specified when 'hostNetwork' is true");
        } else if boolean(spec, "hostIPC") && is_ipc(&dotted) {
            push_invalid(errors, &path, name, "may not be specified when 'hostIPC' is true");
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
pub(crate) fn check_host_users(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    if optional_boolean(spec, "hostUsers") != Some(false) {
        return;
    }
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if boolean(spec, field) {
            push_forbidden(errors, &path.child(shown), "when `hostUsers` is false");
        }
    }
    super::each_container(spec, path, |container, path| {
        if !list(container, "volumeDevices").is_empty() {
            push_forbidden(errors, &path.child("volumeDevices"), "when `hostUsers` is false");
        }
    });
}
