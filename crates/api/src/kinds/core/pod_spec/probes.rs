//! Validation of probes and lifecycle hooks.

use crate::field_error::{ErrorList, Path};
use crate::kinds::read::{
    check_nonnegative, check_supported, list, number, optional_number, optional_text, present,
    push_forbidden, push_invalid, push_number_faults, push_required, text,
};
use crate::names::key;
use crate::value::Value;

/// Handlers of a probe, in the order of validation.
const OF_PROBES: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];
/// Handlers of a hook.
const OF_HOOKS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "sleep"];

/// Validates the probes and hooks of a container that may have them.
pub(crate) fn check_probes_and_hooks(
    errors: &mut ErrorList,
    path: &Path<'_>,
    container: &Value,
    grace: Option<i64>,
) {
    if let Some(lifecycle) = present(container, "lifecycle") {
        let path = path.child("lifecycle");
        for field in ["postStart", "preStop"] {
            if let Some(hook) = present(lifecycle, field) {
                check_handler(errors, &path.child(field), hook, &OF_HOOKS, grace);
            }
        }
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = present(container, field) else { continue };
        let path = path.child(field);
        validate_probe(errors, &path, probe);
        if field == "readinessProbe" {
            if let Some(seconds) = optional_number(probe, "terminationGracePeriodSeconds") {
                let path = path.child("terminationGracePeriodSeconds");
                push_invalid(errors, &path, seconds, "must not be set for readinessProbes");
            }
        } else if number(probe, "successThreshold") != 1 {
            let threshold = number(probe, "successThreshold");
            push_invalid(errors, &path.child("successThreshold"), threshold, "must be 1");
        }
    }
}

fn validate_probe(errors: &mut ErrorList, path: &Path<'_>, probe: &Value) {
    check_handler(errors, path, probe, &OF_PROBES, None);
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        check_nonnegative(errors, &path.child(field), number(probe, field));
    }
    if let Some(seconds) =
        optional_number(probe, "terminationGracePeriodSeconds").filter(|seconds| *seconds <= 0)
    {
        push_invalid(errors, &path.child("terminationGracePeriodSeconds"), seconds, "must be greater than 0");
    }
}

/// Validates a handler. A missing grace period is reported elsewhere.
fn check_handler(
    errors: &mut ErrorList,
    path: &Path<'_>,
    holder: &Value,
    handlers: &[&str],
    grace: Option<i64>,
) {
    let mut count = 0;
    for field in handlers {
        let Some(action) = present(holder, field) else { continue };
        let path = path.child(field);
        count += 1;
        if count > 1 {
            push_forbidden(errors, &path, "may not specify more than 1 handler type");
            continue;
        }
        match *field {
            "exec" if list(action, "command").is_empty() => push_required(errors, &path.child("command"), ""),
            "exec" => {}
            "httpGet" => check_http_get(errors, &path, action),
            "tcpSocket" | "grpc" => check_port(errors, &path.child("port"), action, "port"),
            _ => check_sleep(errors, &path, number(action, "seconds"), grace),
        }
    }
    if count == 0 {
        push_required(errors, path, "must specify a handler type");
    }
}

fn check_http_get(errors: &mut ErrorList, path: &Path<'_>, action: &Value) {
    if text(action, "path").is_empty() {
        push_required(errors, &path.child("path"), "");
    }
    check_port(errors, &path.child("port"), action, "port");
    check_supported(errors, &path.child("scheme"), text(action, "scheme"), &["HTTP", "HTTPS"]);
    for header in list(action, "httpHeaders") {
        let name = text(header, "name");
        errors.push_invalid(&path.child("httpHeaders"), name, key::http_header_name(name));
    }
}

fn check_sleep(errors: &mut ErrorList, path: &Path<'_>, seconds: i64, grace: Option<i64>) {
    if let Some(grace) = grace.filter(|grace| !(0..=*grace).contains(&seconds)) {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        push_invalid(errors, path, seconds, detail);
    }
}

/// Validates a port number or name.
fn check_port(errors: &mut ErrorList, path: &Path<'_>, value: &Value, field: &str) {
    match optional_text(value, field) {
        Some(name) => errors.push_invalid(path, name, key::port_name(name)),
        None => {
            let port = number(value, field);
            push_number_faults(errors, path, port, key::port_number(port));
        }
    }
}
