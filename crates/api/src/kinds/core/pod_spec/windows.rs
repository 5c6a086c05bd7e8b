//! Validation of fields that apply only to Windows or only to Linux.

use super::each_container;
use crate::field_error::{ErrorList, Path};
use crate::kinds::read::{
    boolean, check_supported, list, optional_boolean, optional_text, present, push_forbidden, push_invalid,
    push_invalid_enum, push_required, text,
};
use crate::names::dns;
use crate::value::Value;

/// Maximum size of GMSA credentials in KiB.
const CREDENTIALS_KIB_MAX: usize = 64;
/// Exclusive maximum bytes of the domain of a user.
const DOMAIN_BYTES_END: usize = 256;
/// Maximum bytes of a user name.
const USER_BYTES_MAX: usize = 104;

/// Fields of a pod security context that do not apply to Windows.
const POD_LINUX_ONLY: [&str; 11] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
];
/// Fields of a container security context that do not apply to Windows.
const CONTAINER_LINUX_ONLY: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Validates Windows options.
pub(crate) fn check_options(errors: &mut ErrorList, path: &Path<'_>, options: &Value) {
    if let Some(name) = optional_text(options, "gmsaCredentialSpecName") {
        errors.push_invalid(&path.child("gmsaCredentialSpecName"), name, dns::subdomain(name));
    }
    if let Some(credentials) = optional_text(options, "gmsaCredentialSpec") {
        let path = path.child("gmsaCredentialSpec");
        if credentials.is_empty() {
            push_invalid_enum(errors, &path, credentials, "gmsaCredentialSpec cannot be an empty string");
        } else if credentials.len() > CREDENTIALS_KIB_MAX * 1024 {
            let detail = format!("gmsaCredentialSpec size must be under {CREDENTIALS_KIB_MAX} KiB");
            push_invalid_enum(errors, &path, credentials, detail);
        }
    }
    if let Some(name) = optional_text(options, "runAsUserName") {
        check_user_name(errors, &path.child("runAsUserName"), name);
    }
}

/// Validates `user` or `domain\user`.
fn check_user_name(errors: &mut ErrorList, path: &Path<'_>, name: &str) {
    if name.is_empty() {
        return push_invalid_enum(errors, path, name, "runAsUserName cannot be an empty string");
    }
    if name.bytes().any(|b| b.is_ascii_control()) {
        return push_invalid_enum(errors, path, name, "runAsUserName cannot contain control characters");
    }
    if name.matches('\\').count() > 1 {
        return push_invalid_enum(errors, path, name, "runAsUserName cannot contain more than one backslash");
    }
    let (domain, user) = match name.split_once('\\') {
        Some((domain, user)) => (Some(domain), user),
        None => (None, name),
    };
    if let Some(domain) = domain {
        if domain.len() >= DOMAIN_BYTES_END {
            let detail = format!("runAsUserName's Domain length must be under {DOMAIN_BYTES_END} characters");
            push_invalid_enum(errors, path, name, detail);
        }
        if !is_net_bios(domain) && !is_dns(domain) {
            let detail = "runAsUserName's Domain doesn't match the NetBios nor the DNS format";
            push_invalid_enum(errors, path, name, detail);
        }
    }
    if user.is_empty() {
        push_invalid_enum(errors, path, name, "runAsUserName's User cannot be empty");
    } else if user.len() > USER_BYTES_MAX {
        let detail =
            format!("runAsUserName's User length must not be longer than {USER_BYTES_MAX} characters");
        push_invalid_enum(errors, path, name, detail);
    }
    if !user.is_empty() && user.bytes().all(|b| matches!(b, b'.' | b' ')) {
        push_invalid_enum(errors, path, name, "runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        let detail = "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]";
        push_invalid_enum(errors, path, name, detail);
    }
}

fn is_net_bios(domain: &str) -> bool {
    let banned = ['\\', '/', ':', '*', '?', '"', '<', '>', '|'];
    (1..=15).contains(&domain.chars().count()) && !domain.starts_with('.') && !domain.contains(banned)
}

fn is_dns(domain: &str) -> bool {
    domain.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    })
}

/// Validates HostProcess containers: all or none, and on the host network.
pub(crate) fn check_host_process(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let of = |holder: &Value| {
        holder
            .at(&["securityContext", "windowsOptions"])
            .and_then(|options| optional_boolean(options, "hostProcess"))
    };
    let pod = of(spec);
    let (mut all, mut on_host) = (0, 0);
    each_container(spec, path, |container, path| {
        all += 1;
        let own = of(container);
        if let (Some(pod), Some(own)) = (pod, own)
            && pod != own
        {
            let path = path.child("securityContext");
            let path = path.child("windowsOptions");
            let detail = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            push_invalid(errors, &path.child("hostProcess"), own, detail);
        }
        on_host += i32::from(own.or(pod) == Some(true));
    });
    if on_host == 0 {
        return;
    }
    if on_host != all {
        let detail =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        push_invalid(errors, path, "", detail);
    }
    if !boolean(spec, "hostNetwork") {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        push_invalid(errors, &path.child("hostNetwork"), false, detail);
    }
}

/// Validates the operating system of a pod, and fields that it does not support.
pub(crate) fn check_operating_system(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let Some(os) = present(spec, "os") else { return };
    let context_path = path.child("securityContext");
    match text(os, "name") {
        "" => push_required(errors, &path.child("os").child("name"), ""),
        "linux" => {
            let detail = "windows options cannot be set for a linux pod";
            if spec.at(&["securityContext", "windowsOptions"]).is_some_and(|options| !options.is_null()) {
                push_forbidden(errors, &context_path.child("windowsOptions"), detail);
            }
            each_container(spec, path, |container, path| {
                if container
                    .at(&["securityContext", "windowsOptions"])
                    .is_some_and(|options| !options.is_null())
                {
                    push_forbidden(errors, &path.child("securityContext").child("windowsOptions"), detail);
                }
            });
        }
        "windows" => check_on_windows(errors, path, &context_path, spec),
        other => check_supported(errors, &path.child("os"), other, &["linux", "windows"]),
    }
}

fn check_on_windows(errors: &mut ErrorList, path: &Path<'_>, context_path: &Path<'_>, spec: &Value) {
    let detail = "cannot be set for a windows pod";
    if let Some(context) = present(spec, "securityContext") {
        for field in POD_LINUX_ONLY {
            let is_set = match field {
                "sysctls" => !list(context, field).is_empty(),
                field => present(context, field).is_some(),
            };
            if is_set {
                push_forbidden(errors, &context_path.child(field), detail);
            }
        }
    }
    if present(spec, "hostUsers").is_some() {
        push_forbidden(errors, &path.child("hostUsers"), detail);
    }
    for field in ["hostPID", "hostIPC"] {
        if boolean(spec, field) {
            push_forbidden(errors, &path.child(field), detail);
        }
    }
    if present(spec, "shareProcessNamespace").is_some() {
        push_forbidden(errors, &path.child("shareProcessNamespace"), detail);
    }
    each_container(spec, path, |container, path| {
        let Some(context) = present(container, "securityContext") else { return };
        let path = path.child("securityContext");
        for field in CONTAINER_LINUX_ONLY {
            if present(context, field).is_some() {
                push_forbidden(errors, &path.child(field), detail);
            }
        }
    });
}
