//! Validation of the spec of a ResourceClaim: requests, constraints and configuration.

use super::{Report, name, taint};
use crate::field_error::{BadValue, FieldError, Path};
use crate::json;
use crate::kinds::check;
use crate::names::dns;
use crate::value::Value;

const REQUESTS_MAX: usize = 32;
const SUB_REQUESTS_MAX: usize = 8;
const SELECTORS_MAX: usize = 32;
const EXPRESSION_BYTES_MAX: usize = 10 << 10;
const PARAMETERS_BYTES_MAX: usize = 10 << 10;
/// Fields of requests that belong to a disabled feature.
const DISABLED: [&str; 1] = ["derivedAttributes"];

/// Sets the default allocation mode and count of requests; `spec` is that of a claim.
pub(super) fn default(spec: &mut Value) {
    for_each_request(spec, |request| {
        let Some(request) = request.as_map_mut() else { return };
        check::set_default_if_empty_with(request, "allocationMode", || "ExactCount".into());
        if request.get_str("allocationMode") == Some("ExactCount") {
            check::set_default_if_empty_with(request, "count", || 1.into());
        }
        for toleration in request.get_mut("tolerations").and_then(Value::as_list_mut).into_iter().flatten() {
            if let Some(toleration) = toleration.as_map_mut() {
                check::set_default_if_empty_with(toleration, "operator", || "Equal".into());
            }
        }
    });
}

/// Clears fields of disabled features.
pub(super) fn drop_disabled(spec: &mut Value) {
    for_each_request(spec, |request| {
        if let Some(request) = request.as_map_mut() {
            request.retain(|name, _| !DISABLED.contains(&name));
        }
    });
}

/// Visits every request and subrequest for devices of a class.
fn for_each_request(spec: &mut Value, mut visit: impl FnMut(&mut Value)) {
    let requests = spec.at_mut(&["devices", "requests"]).and_then(Value::as_list_mut);
    for request in requests.into_iter().flatten() {
        if let Some(exactly) = request.get_mut("exactly").filter(|exactly| !exactly.is_null()) {
            visit(exactly);
        }
        let choices = request.get_mut("firstAvailable").and_then(Value::as_list_mut);
        choices.into_iter().flatten().for_each(&mut visit);
    }
}

/// Validates the spec of a claim.
pub(super) fn validate(report: &mut Report, path: &Path<'_>, spec: &Value) {
    let (devices, path) = (check::field(spec, "devices"), path.child("devices"));
    let (requests, at) = (check::list(devices, "requests"), path.child("requests"));
    report.check_items(&at, requests, REQUESTS_MAX, check_request);
    report.check_unique(&at, requests, |one| check::text(one, "name").to_owned());
    report.check_items(
        &path.child("constraints"),
        check::list(devices, "constraints"),
        32,
        |report, path, one| {
            check_constraint(report, path, one, devices);
        },
    );
    report.check_items(&path.child("config"), check::list(devices, "config"), 32, |report, path, one| {
        check_request_names(report, path, one, devices);
        check_configuration(report, path, one);
    });
}

fn check_request(report: &mut Report, path: &Path<'_>, request: &Value) {
    let text = check::text(request, "name");
    report.handwritten.push_invalid(&path.child("name"), text, dns::label(text));
    let (exactly, choices) = (check::field(request, "exactly"), check::list(request, "firstAvailable"));
    match (exactly.is_null(), choices.is_empty()) {
        (true, true) => {
            let detail = "exactly one of `exactly` or `firstAvailable` is required";
            report.handwritten.push(FieldError::required(path, detail));
        }
        (false, false) => {
            let detail =
                "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            report.handwritten.push(FieldError::invalid(path, BadValue::Null, detail));
        }
        (true, false) => {
            let path = path.child("firstAvailable");
            report.check_items(&path, choices, SUB_REQUESTS_MAX, |report, path, one| {
                let text = check::text(one, "name");
                report.handwritten.push_invalid(&path.child("name"), text, dns::label(text));
                check_class_declarative(
                    report,
                    &path.child("deviceClassName"),
                    check::text(one, "deviceClassName"),
                );
                check_of_class(report, path, one);
            });
            report.check_unique(&path, choices, |one| check::text(one, "name").to_owned());
        }
        (false, true) => {
            let path = path.child("exactly");
            let (class, at) = (check::text(exactly, "deviceClassName"), path.child("deviceClassName"));
            if class.is_empty() {
                report.handwritten.push(FieldError::required(&at, ""));
            } else {
                report.handwritten.push_invalid(&at, class, dns::subdomain(class));
            }
            check_of_class(report, &path, exactly);
        }
    }
}

fn check_class_declarative(report: &mut Report, path: &Path<'_>, class: &str) {
    if class.is_empty() {
        report.declarative.push(FieldError::required(path, ""));
    } else {
        report.declarative.push_invalid(path, class, dns::subdomain(class));
    }
}

/// Validates the common fields of requests for devices of a class.
fn check_of_class(report: &mut Report, path: &Path<'_>, request: &Value) {
    check_selectors(report, &path.child("selectors"), check::list(request, "selectors"));
    let (mode, count) = (check::text(request, "allocationMode"), check::number(request, "count"));
    let at = path.child("count");
    match mode {
        "All" if count != 0 => {
            let detail = "must not be specified when allocationMode is 'All'";
            report.handwritten.push(FieldError::invalid(&at, count, detail));
        }
        "ExactCount" if count <= 0 => {
            report.handwritten.push(FieldError::invalid(&at, count, "must be greater than zero"));
        }
        mode => check::check_one_of(
            &mut report.declarative,
            &path.child("allocationMode"),
            mode,
            &["All", "ExactCount"],
        ),
    }
    let at = path.child("tolerations");
    for (i, one) in check::list(request, "tolerations").iter().enumerate() {
        taint::check_toleration(report, &at.index(i), one);
    }
}

/// Validates CEL selectors of devices.
pub(super) fn check_selectors(report: &mut Report, path: &Path<'_>, selectors: &[Value]) {
    report.check_items(path, selectors, SELECTORS_MAX, |report, path, selector| {
        let (cel, path) = (check::field(selector, "cel"), path.child("cel"));
        if cel.is_null() {
            report.handwritten.push(FieldError::required(&path, ""));
        } else if check::text(cel, "expression").len() > EXPRESSION_BYTES_MAX {
            report.handwritten.push(FieldError::too_long(&path.child("expression"), EXPRESSION_BYTES_MAX));
        }
    });
}

fn check_constraint(report: &mut Report, path: &Path<'_>, constraint: &Value, devices: &Value) {
    check_request_names(report, path, constraint, devices);
    let attribute = |name| check::field(constraint, name).as_str();
    if let Some(attribute) = attribute("matchAttribute") {
        name::check_fully_qualified_declarative(report, &path.child("matchAttribute"), attribute);
    } else if let Some(attribute) = attribute("distinctAttribute") {
        name::check_fully_qualified_declarative(report, &path.child("distinctAttribute"), attribute);
    } else {
        let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
        report.handwritten.push(FieldError::required(path, detail));
    }
}

/// Validates a list of request names.
pub(super) fn check_request_names(report: &mut Report, path: &Path<'_>, of: &Value, devices: &Value) {
    let (names, path) = (check::list(of, "requests"), path.child("requests"));
    report.check_items(&path, names, REQUESTS_MAX, |report, path, name| {
        check_request_name(report, path, name.as_str().unwrap_or_default(), devices);
    });
    report.check_unique(&path, names, json::to_text);
}

/// Validates the name of a request, or of a request and one of its subrequests.
pub(super) fn check_request_name(report: &mut Report, path: &Path<'_>, name: &str, devices: &Value) {
    let detail = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    let parts: Vec<&str> = name.split('/').collect();
    if parts.len() <= 2 {
        for part in &parts {
            report.handwritten.push_invalid(path, part, dns::label(part));
        }
    }
    let named = |list: &'_ [Value], name: &str| list.iter().any(|one| check::text(one, "name") == name);
    let requests = check::list(devices, "requests");
    let known = match parts[..] {
        [request] => named(requests, request),
        [request, choice] => requests.iter().any(|one| {
            check::text(one, "name") == request && named(check::list(one, "firstAvailable"), choice)
        }),
        _ => false,
    };
    if !known {
        report.handwritten.push(FieldError::invalid(path, name, detail));
    }
}

/// Validates the configuration of devices.
pub(super) fn check_configuration(report: &mut Report, path: &Path<'_>, configuration: &Value) {
    let (opaque, path) = (check::field(configuration, "opaque"), path.child("opaque"));
    if opaque.is_null() {
        return report.handwritten.push(FieldError::required(&path, ""));
    }
    name::check_driver_declarative(report, &path.child("driver"), check::text(opaque, "driver"));
    check_raw(report, &path.child("parameters"), check::field(opaque, "parameters"), PARAMETERS_BYTES_MAX);
}

/// Validates an opaque parameter object of a driver.
pub(super) fn check_raw(report: &mut Report, path: &Path<'_>, raw: &Value, bytes_max: usize) {
    if raw.is_null() {
        report.handwritten.push(FieldError::required(path, ""));
    } else if crate::json::to_text(raw).len() > bytes_max {
        report.handwritten.push(FieldError::too_long(path, bytes_max));
    } else if raw.as_map().is_none() {
        report.handwritten.push(FieldError::invalid(path, "<value omitted>", "must be a valid JSON object"));
    }
}
