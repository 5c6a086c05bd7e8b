//! Ingress: routes external HTTP traffic to Services.

use crate::field_error::{BadValue, ErrorList, FieldError, Path};
use crate::kinds::{Rules, check};
use crate::names::{dns, ip, key};
use crate::value::Value;

const ANNOTATION_CLASS: &str = "kubernetes.io/ingress.class";
const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];

/// Rules of Ingress.
pub struct Ingress;

/// Violations of the old object that an update may keep.
#[derive(Clone, Copy, Default)]
struct KeptViolations {
    secret_names: bool,
    wildcard_rules: bool,
}

impl Rules for Ingress {
    fn has_status(&self) -> bool {
        true
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check_spec(errors, check::field(object, "spec"), KeptViolations::default());
        let annotations = object.at(&["metadata", "annotations"]).unwrap_or(check::ABSENT);
        let class = object.at(&["spec", "ingressClassName"]).and_then(Value::as_str);
        let annotation = check::field(annotations, ANNOTATION_CLASS).as_str();
        if let (Some(class), Some(annotation)) = (class, annotation)
            && class != annotation
        {
            let path = Path::root("annotations");
            let detail = "must match `ingressClassName` when both are specified";
            errors.push(FieldError::invalid(&path.child(ANNOTATION_CLASS), annotation, detail));
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let old = check::field(old, "spec");
        let secret_names = check::list(old, "tls").iter().any(|tls| !secret_faults(tls).is_empty());
        let is_invalid_wildcard = |rule: &Value| {
            let mut errors = ErrorList::new();
            check_http(&mut errors, &Path::NONE, check::field(rule, "http"));
            check::text(rule, "host").contains('*') && !errors.is_empty()
        };
        let wildcard_rules = check::list(old, "rules").iter().any(is_invalid_wildcard);
        check_spec(errors, check::field(new, "spec"), KeptViolations { secret_names, wildcard_rules });
    }

    fn validate_status(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let ingress = |object| check::list(balancer(object), "ingress");
        let kept: Vec<&str> = ingress(old).iter().map(|one| check::text(one, "ip")).collect();
        let path = Path::root("status");
        let path = path.child("loadBalancer");
        let path = path.child("ingress");
        for (i, one) in ingress(new).iter().enumerate() {
            let path = path.index(i);
            let (address, host) = (check::text(one, "ip"), check::text(one, "hostname"));
            if !address.is_empty() {
                ip::ip_legacy(errors, &path.child("ip"), address, true, &kept);
            }
            if !host.is_empty() {
                let path = path.child("hostname");
                errors.push_invalid(&path, host, dns::subdomain(host));
                reject_ip(errors, &path, host);
            }
        }
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let annotated = new.at(&["metadata", "annotations", ANNOTATION_CLASS]).is_some();
        let class = new.at(&["spec", "ingressClassName"]).is_some_and(|class| !class.is_null());
        if old.is_some() || class || !annotated {
            return Vec::new();
        }
        vec![format!(
            "annotation \"{ANNOTATION_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead"
        )]
    }
}

fn balancer(object: &Value) -> &Value {
    object.at(&["status", "loadBalancer"]).unwrap_or(check::ABSENT)
}

fn secret_faults(tls: &Value) -> crate::names::Faults {
    match check::text(tls, "secretName") {
        "" => Vec::new(),
        name => dns::subdomain(name),
    }
}

fn reject_ip(errors: &mut ErrorList, path: &Path<'_>, host: &str) {
    if ip::parse_ip(host).is_some() {
        errors.push(FieldError::invalid(path, host, "must be a DNS name, not an IP address"));
    }
}

fn check_spec(errors: &mut ErrorList, spec: &Value, kept: KeptViolations) {
    let path = Path::root("spec");
    let (rules, backend) = (check::list(spec, "rules"), check::field(spec, "defaultBackend"));
    if rules.is_empty() && backend.is_null() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid(&path, BadValue::Null, detail));
    }
    if !backend.is_null() {
        check_backend(errors, &path.child("defaultBackend"), backend);
    }
    let at = path.child("rules");
    for (i, one) in rules.iter().enumerate() {
        check_rule(errors, &at.index(i), one, kept);
    }
    let at = path.child("tls");
    for (i, one) in check::list(spec, "tls").iter().enumerate() {
        check_tls(errors, &at.index(i), one, kept);
    }
    if let Some(class) = check::field(spec, "ingressClassName").as_str() {
        errors.push_invalid(&path.child("ingressClassName"), class, dns::subdomain(class));
    }
}

fn host_faults(host: &str) -> crate::names::Faults {
    if host.contains('*') { dns::wildcard_subdomain(host) } else { dns::subdomain(host) }
}

fn check_tls(errors: &mut ErrorList, path: &Path<'_>, tls: &Value, kept: KeptViolations) {
    let hosts = path.child("hosts");
    for (i, host) in check::texts(tls, "hosts").into_iter().enumerate() {
        errors.push_invalid(&hosts.index(i), host, host_faults(host));
    }
    if !kept.secret_names {
        errors.push_invalid(&path.child("secretName"), check::text(tls, "secretName"), secret_faults(tls));
    }
}

fn check_rule(errors: &mut ErrorList, path: &Path<'_>, rule: &Value, kept: KeptViolations) {
    let host = check::text(rule, "host");
    if !host.is_empty() {
        let path = path.child("host");
        reject_ip(errors, &path, host);
        errors.push_invalid(&path, host, host_faults(host));
    }
    if !(host.contains('*') && kept.wildcard_rules) {
        check_http(errors, &path.child("http"), check::field(rule, "http"));
    }
}

fn check_http(errors: &mut ErrorList, path: &Path<'_>, http: &Value) {
    if http.is_null() {
        return;
    }
    let (paths, path) = (check::list(http, "paths"), path.child("paths"));
    if paths.is_empty() {
        errors.push(FieldError::required(&path, ""));
    }
    for (i, one) in paths.iter().enumerate() {
        check_http_path(errors, &path.index(i), one);
    }
}

fn check_http_path(errors: &mut ErrorList, path: &Path<'_>, http: &Value) {
    let Some(kind) = check::field(http, "pathType").as_str() else {
        return errors.push(FieldError::required(&path.child("pathType"), "pathType must be specified"));
    };
    let (text, at) = (check::text(http, "path"), path.child("path"));
    let mut reject = |detail: String| errors.push(FieldError::invalid(&at, text, detail));
    match kind {
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                reject("must be an absolute path".to_owned());
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if text.contains(part) {
                    reject(format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if text.ends_with(end) {
                    reject(format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !text.starts_with('/') {
                reject("must be an absolute path".to_owned());
            }
        }
        other => check::check_one_of(errors, &path.child("pathType"), other, &PATH_TYPES),
    }
    check_backend(errors, &path.child("backend"), check::field(http, "backend"));
}

fn check_backend(errors: &mut ErrorList, path: &Path<'_>, backend: &Value) {
    let (resource, service) = (check::field(backend, "resource"), check::field(backend, "service"));
    match (resource.is_null(), service.is_null()) {
        (false, false) => {
            errors.push(FieldError::invalid(path, "", "cannot set both resource and service backends"));
        }
        (false, true) => check_reference(errors, &path.child("resource"), resource),
        (true, false) => check_service(errors, path, service),
        (true, true) => errors.push(FieldError::invalid(path, "", "resource or service backend is required")),
    }
}

fn check_service(errors: &mut ErrorList, path: &Path<'_>, service: &Value) {
    let at = path.child("service");
    match check::text(service, "name") {
        "" => errors.push(FieldError::required(&at.child("name"), "")),
        name => errors.push_invalid(&at.child("name"), name, dns::label(name)),
    }
    let (port, at) = (check::field(service, "port"), at.child("port"));
    match (check::text(port, "name"), check::number(port, "number")) {
        ("", 0) => errors.push(FieldError::required(path, "port name or number is required")),
        ("", number) => {
            let faults = key::port_number(number);
            let path = at.child("number");
            errors.extend(faults.into_iter().map(|fault| FieldError::invalid(&path, number, fault)));
        }
        (name, 0) => errors.push_invalid(&at.child("name"), name, key::port_name(name)),
        _ => errors.push(FieldError::invalid(path, "", "cannot set both port name & port number")),
    }
}

/// Validates a reference to an object of any kind in the same namespace.
fn check_reference(errors: &mut ErrorList, path: &Path<'_>, reference: &Value) {
    if let Some(group) = check::field(reference, "apiGroup").as_str() {
        errors.push_invalid(&path.child("apiGroup"), group, dns::subdomain(group));
    }
    for name in ["kind", "name"] {
        match check::text(reference, name) {
            "" => errors.push(FieldError::required(&path.child(name), "")),
            text => errors.push_invalid(&path.child(name), text, key::path_segment(text)),
        }
    }
}
