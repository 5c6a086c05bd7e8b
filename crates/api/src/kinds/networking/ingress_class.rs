//! IngressClass: the controller of an Ingress.

use crate::field_error::{ErrorList, FieldError, Path};
use crate::kinds::{Rules, check};
use crate::names::{dns, key};
use crate::value::Value;

const CONTROLLER_BYTES_MAX: usize = 250;

/// Rules of IngressClass.
pub struct IngressClass;

impl Rules for IngressClass {
    fn default(&self, object: &mut Value) {
        if let Some(parameters) = object.at_mut(&["spec", "parameters"]).and_then(Value::as_map_mut) {
            check::set_default_with(parameters, "scope", || "Cluster".into());
        }
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let (spec, path) = (check::field(object, "spec"), Path::root("spec"));
        let controller = check::text(spec, "controller");
        if controller.len() > CONTROLLER_BYTES_MAX {
            errors.push(FieldError::too_long(&path.child("controller"), CONTROLLER_BYTES_MAX));
        }
        key::domain_prefixed_path(errors, &path.child("controller"), controller);
        let parameters = check::field(spec, "parameters");
        if !parameters.is_null() {
            check_parameters(errors, &path.child("parameters"), parameters);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let controller = |object: &Value| object.at(&["spec", "controller"]).cloned().unwrap_or_default();
        if controller(new) != controller(old) {
            let path = Path::root("spec");
            let value = new.str_at(&["spec", "controller"]);
            errors.push(FieldError::invalid(&path.child("controller"), value, check::IMMUTABLE));
        }
        self.validate(new, errors);
    }
}

fn check_parameters(errors: &mut ErrorList, path: &Path<'_>, parameters: &Value) {
    // Errors of declarative validation come last.
    let mut declarative = ErrorList::new();
    if let Some(group) = check::field(parameters, "apiGroup").as_str() {
        errors.push_invalid(&path.child("apiGroup"), group, dns::subdomain(group));
    }
    for name in ["kind", "name"] {
        match check::text(parameters, name) {
            "" => declarative.push(FieldError::required(&path.child(name), "")),
            text => errors.push_invalid(&path.child(name), text, key::path_segment(text)),
        }
    }
    check_scope(errors, path, parameters);
    errors.append(declarative);
}

fn check_scope(errors: &mut ErrorList, path: &Path<'_>, parameters: &Value) {
    let at = path.child("namespace");
    let namespace = check::field(parameters, "namespace").as_str();
    match check::field(parameters, "scope").as_str() {
        None => errors.push(FieldError::required(&path.child("scope"), "")),
        Some("Namespace") => match namespace {
            None => {
                errors.push(FieldError::required(&at, "`parameters.scope` is set to 'Namespace'"));
            }
            Some(namespace) => errors.push_invalid(&at, namespace, dns::label(namespace)),
        },
        Some("Cluster") => {
            if namespace.is_some() {
                errors.push(FieldError::forbidden(&at, "`parameters.scope` is set to 'Cluster'"));
            }
        }
        Some(other) => {
            let supported = ["Cluster", "Namespace"];
            errors.push(FieldError::not_supported(&path.child("scope"), other, &supported));
        }
    }
}
